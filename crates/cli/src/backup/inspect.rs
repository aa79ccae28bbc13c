//! `fairhold backup inspect`.

use super::{
    error::{BackupError, is_standard},
    file,
    source::now,
    stopped,
};
use fairhold_backup::{Backup, BackupHeader, BackupMember, BackupSource};
use fairhold_types::{duration, text::terminal_safe, time::WallMillis};
use std::{io, path::PathBuf, time::Duration};

#[derive(Debug, clap::Args)]
pub(super) struct InspectArgs {
    /// File of the backup; `-` reads it from standard input
    #[arg(required_unless_present = "data")]
    file: Option<PathBuf>,
    /// Show the data directory of a stopped node instead
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    data: Option<PathBuf>,
}

pub(super) fn run(args: &InspectArgs) -> Result<String, BackupError> {
    let now = now();
    if let Some(data) = &args.data {
        let (id, node) = stopped::read(data)?;
        let backup = Backup::new(&node.state, stopped::origin(id, &node, now));
        let mut text = described(backup.header(), now);
        let committed = node.committed.map_or_else(|| "unknown".to_owned(), |index| format!("at least {index}"));
        text += &format!("committed:       {committed}\n");
        if node.skipped > 0 {
            text += &format!("skipped:         {} commands with a defect, as in the cluster\n", node.skipped);
        }
        return Ok(text);
    }
    let Some(path) = &args.file else { return Err(BackupError::Usage("name a backup, or a directory with --data".to_owned())) };
    let failed = |error| BackupError::Read { file: path.clone(), error };
    let header = if is_standard(path) {
        Backup::read_header(io::stdin().lock()).map_err(failed)?
    } else {
        Backup::read_header(file::open(path)?).map_err(failed)?
    };
    Ok(described(&header, now) + "This is its header. To check the rest, run `fairhold backup verify`\n")
}

/// A header, a line for each field.
pub(super) fn described(header: &BackupHeader, now: WallMillis) -> String {
    let cluster = header.cluster.map_or_else(|| "none".to_owned(), |cluster| cluster.to_string());
    let log = header.log.map_or_else(|| "unknown".to_owned(), |(term, index)| format!("term {term}, index {index}"));
    let source = match header.source {
        BackupSource::Barrier => "a running node, with all acknowledged writes",
        BackupSource::Local => "a running node, which may have been behind",
        BackupSource::Stopped => "the data directory of a stopped node",
    };
    let mut text = format!(
        "cluster:         {cluster}\n\
         node:            {}, release {}\n\
         source:          {source}\n\
         made:            {}\n\
         cluster version: {}\n\
         revision:        {}\n\
         last log entry:  {log}\n\
         nodes:           {}, with {} bytes of values\n\
         left out:        {} sessions, {} grants\n",
        header.node,
        terminal_safe(&header.release),
        age(header.at, now),
        header.version,
        header.revision,
        header.nodes,
        header.value_bytes,
        header.sessions,
        header.grants,
    );
    for BackupMember { id, url, address, voter } in &header.members {
        let role = if *voter { "voter" } else { "learner" };
        text += &format!("member:          {id}={},{} ({role})\n", terminal_safe(url), terminal_safe(address));
    }
    text
}

/// A time, and how long ago it was.
pub(super) fn age(at: WallMillis, now: WallMillis) -> String {
    let span = |ms| duration::rounded(Duration::from_millis(ms));
    match now.0.checked_sub(at.0) {
        Some(ago) => format!("{} ({} ago)", at.to_text(), span(ago)),
        None => format!("{} ({} ahead of the clock of this machine: one of the two is wrong)", at.to_text(), span(at.0 - now.0)),
    }
}
