//! Changes single bytes of a node's files, one at a time, in undamaged files. The node must refuse to start, lose
//! nothing, or lose the end of its log as after a crash, which it then receives again from the other nodes.

use super::{Ended, Setting, sum::Sum};
use crate::{
    cluster::{self, ChaosCluster, NodeState},
    http::Request,
    log_line,
    net::Network,
    new_key,
    run::NotRun,
    shell::run as run_program,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::{Duration, Instant},
};

const NODES: usize = 3;
/// The node whose files the campaign changes.
const VICTIM: usize = 1;
/// Nodes of the tree that are written before each step that leaves a different kind of file.
const WRITES: usize = 400;
/// A node that neither answers nor exits within this time hangs.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(10);
/// The exit code of a node that refuses to start.
const REFUSED: i32 = 1;
/// The maximum number of entries in the last record of a log: they are written one after the other.
const LAST_ENTRIES_MAX: u64 = 4;
/// Progress is printed after this many changes.
const PROGRESS_EVERY: usize = 50;

/// Kinds of files: the name, the test of a file name, and the share of a hundred changes.
type FileKind = (&'static str, fn(&str) -> bool, usize);

const FILE_KINDS: [FileKind; 4] = [
    ("write-ahead log", |name| name.ends_with(".log"), 45),
    ("table of the log", |name| name.ends_with(".sst"), 15),
    ("manifest of the log", |name| name.starts_with("MANIFEST"), 10),
    ("snapshot", |name| name.ends_with(".snap"), 30),
];

/// The results of changes in one kind of file.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    flips: usize,
    refused: usize,
    harmless: usize,
    torn: usize,
}

/// The result of one change.
enum FlipResult {
    Ended(ExitStatus),
    /// The state that the node reports, without the other nodes.
    Started(NodeState),
    /// It neither answers nor exits.
    Hangs,
}

struct Trial {
    cluster: ChaosCluster,
    folder: PathBuf,
}

pub(super) fn run(setting: &Setting, flips: usize) -> Result<Ended, NotRun> {
    fs::create_dir_all(&setting.folder).map_err(|error| format!("{}: {error}", setting.folder.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let network = Network::create(NODES).map_err(NotRun::NotHere)?;
        let cluster = ChaosCluster::plan(&network, &setting.fairhold, &setting.folder, NODES, false)?;
        let mut trial = Trial { cluster, folder: setting.folder.clone() };
        let ended = trial.all(setting, flips).await;
        trial.cluster.end();
        if let Err(error) = fs::remove_dir_all(cluster::data_of(&setting.folder)) {
            log_line(&format!("{}: cannot remove the data: {error}", setting.folder.display()));
        }
        Ok(ended?)
    })
}

impl Trial {
    async fn all(&mut self, setting: &Setting, flips: usize) -> Result<Ended, String> {
        self.fill().await?;
        let whole = match self.start_flipped(None).await? {
            FlipResult::Started(seen) => seen,
            FlipResult::Ended(_) | FlipResult::Hangs => return Err("the node does not start with unchanged files".to_owned()),
        };
        let last_record = self.last_record()?;
        let (mut sum, mut counts) = (Sum::default(), BTreeMap::<&str, Count>::new());
        let mut random = SmallRng::seed_from_u64(setting.seed);
        for flip in 1..=flips {
            let (kind, file, at, mask) = self.choose(&mut random)?;
            let what = format!("byte {at} of {} ^ {mask:#04x}", file.display());
            let count = counts.entry(kind).or_default();
            count.flips += 1;
            match self.start_flipped(Some((&file, at, mask))).await? {
                FlipResult::Hangs => sum.add_violation(format!("{what}: the node neither answers nor exits")),
                FlipResult::Ended(status) if status.code() != Some(REFUSED) => {
                    sum.add_violation(format!("{what}: the node exited, but not by a refusal: {status}"));
                }
                FlipResult::Ended(_) => {
                    count.refused += 1;
                    if !self.logged_since_start().contains(&*file.file_name().unwrap_or_default().to_string_lossy()) {
                        sum.add_violation(format!("{what}: the node refused to start, but did not name the file"));
                    }
                }
                FlipResult::Started(seen) => {
                    let in_last_record = file == last_record.0 && last_record.1.contains(&at);
                    let least = whole.last_log_index - LAST_ENTRIES_MAX;
                    match seen.last_log_index {
                        _ if seen == whole => count.harmless += 1,
                        index if in_last_record && (least..whole.last_log_index).contains(&index) => count.torn += 1,
                        _ => sum.add_violation(format!("{what}: the node serves {seen:?}, but had {whole:?}")),
                    }
                    // With the other nodes, it must reach their state.
                    if let Err(why) = self.joins(&whole).await {
                        sum.add_violation(format!("{what}: {why}"));
                    }
                }
            }
            if flip % PROGRESS_EVERY == 0 {
                log_line(&format!("{flip} of {flips} flips: {counts:?}"));
            }
        }
        Ok(sum.end(&format!("fairhold-jepsen bytes --flips {flips} --seed {}", setting.seed), &table(&counts)))
    }

    /// Creates files of all kinds, stops the cluster, and saves the files.
    async fn fill(&mut self) -> Result<(), String> {
        for id in 1..=NODES {
            let disk = cluster::disk_of(&self.folder, id);
            fs::create_dir_all(&disk).map_err(|error| format!("{}: {error}", disk.display()))?;
        }
        self.cluster.start_all().await?;
        self.write("before").await?;
        for id in 1..=NODES {
            let taken = self.cluster.http.ask(id, &Request::post("/v1/cluster/snapshot", &new_key())).await;
            if taken.status != 200 {
                return Err(format!("node {id} takes no snapshot: {} {}", taken.status, taken.text));
            }
        }
        self.write("between").await?;
        // A restart moves the log into tables.
        self.cluster.end();
        self.cluster.start_all().await?;
        self.write("after").await?;
        self.cluster.come_to_rest().await?;
        self.cluster.end();
        for id in 1..=NODES {
            copy(&self.data(id), &self.kept(id))?;
        }
        Ok(())
    }

    async fn write(&self, when: &str) -> Result<(), String> {
        for number in 0..WRITES {
            let value = format!("{number:0300}");
            let request = Request::put(format!("/v1/nodes/bytes/{when}-{number}?parents"), &new_key(), value);
            let reply = self.cluster.http.ask(number % NODES + 1, &request).await;
            if reply.status != 200 && reply.status != 201 {
                return Err(format!("a write failed: {} {}", reply.status, reply.text));
            }
        }
        Ok(())
    }

    fn data(&self, id: usize) -> PathBuf {
        cluster::disk_of(&self.folder, id).join("fairhold")
    }

    fn kept(&self, id: usize) -> PathBuf {
        cluster::disk_of(&self.folder, id).join("kept")
    }

    /// The newest write-ahead log, and the range of its last record. Without that record, the log looks like one whose
    /// last write was cut off by a crash.
    fn last_record(&self) -> Result<(PathBuf, Range<usize>), String> {
        let folder = self.kept(VICTIM).join("log");
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let names = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
        let mut logs: Vec<(u64, String)> =
            names.filter_map(|name| Some((name.strip_suffix(".log")?.parse().ok()?, name))).collect();
        logs.sort_unstable();
        // A new log file has no record yet. Then the previous file has the last one.
        for (_, name) in logs.into_iter().rev() {
            let bytes = fs::read(folder.join(&name)).map_err(|error| format!("{name}: {error}"))?;
            if let Some(place) = last_record_of(&bytes) {
                return Ok((Path::new("log").join(name), place));
            }
        }
        Err("the node has no write-ahead log with a record".to_owned())
    }

    /// Chooses a byte of a saved file, and how to change it.
    fn choose(&self, random: &mut SmallRng) -> Result<(&'static str, PathBuf, usize, u8), String> {
        let mut share = random.random_range(0..100);
        let kind = FILE_KINDS.iter().find(|(_, _, of)| {
            let here = share < *of;
            share = share.saturating_sub(*of);
            here
        });
        let (name, is_one, _) = kind.ok_or("the shares of the kinds of files do not add up to 100")?;
        let mut files = Vec::new();
        for folder in ["log", "snapshot"] {
            let entries = fs::read_dir(self.kept(VICTIM).join(folder)).map_err(|error| format!("{folder}: {error}"))?;
            let found = entries.filter_map(Result::ok).filter(|entry| {
                is_one(&entry.file_name().to_string_lossy())
                    && entry.metadata().is_ok_and(|file| file.is_file() && file.len() > 0)
            });
            files.extend(found.map(|entry| PathBuf::from(folder).join(entry.file_name())));
        }
        files.sort();
        if files.is_empty() {
            return Err(format!("the node has no {name}"));
        }
        let file = files.swap_remove(random.random_range(0..files.len()));
        let length = fs::metadata(self.kept(VICTIM).join(&file)).map_err(|error| error.to_string())?.len();
        let at = random.random_range(0..usize::try_from(length).map_err(|error| error.to_string())?);
        let mask = if random.random_range(0..2) == 0 { 1 << random.random_range(0..8) } else { random.random_range(1..=255) };
        Ok((name, file, at, mask))
    }

    /// Starts the node alone with the saved files, except for one byte, until it exits or answers.
    async fn start_flipped(&mut self, flip: Option<(&Path, usize, u8)>) -> Result<FlipResult, String> {
        self.cluster.end();
        self.restore_saved(VICTIM)?;
        if let Some((file, at, mask)) = flip {
            let file = self.data(VICTIM).join(file);
            let mut bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            bytes[at] ^= mask;
            fs::write(&file, bytes).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        fs::write(&self.cluster.node(VICTIM).log, "").map_err(|error| error.to_string())?;
        self.cluster.start(VICTIM)?;
        let started = Instant::now();
        loop {
            if let Some(status) = self.cluster.node(VICTIM).end_seen() {
                return Ok(FlipResult::Ended(status));
            }
            if let Some(seen) = self.cluster.state_of(VICTIM).await {
                return Ok(FlipResult::Started(seen));
            }
            if started.elapsed() > ANSWERS_WITHIN {
                return Ok(FlipResult::Hangs);
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    fn logged_since_start(&mut self) -> String {
        fs::read_to_string(&self.cluster.node(VICTIM).log).unwrap_or_default()
    }

    fn restore_saved(&self, id: usize) -> Result<(), String> {
        run_program("rm", &["-rf", &self.data(id).to_string_lossy()])?;
        copy(&self.kept(id), &self.data(id))
    }

    /// The others, with their saved files, and the node reach the same state, and nothing is missing.
    async fn joins(&mut self, whole: &NodeState) -> Result<(), String> {
        for id in (1..=NODES).filter(|id| *id != VICTIM) {
            self.restore_saved(id)?;
            self.cluster.start(id)?;
        }
        let seen = self.cluster.come_to_rest().await?;
        let there = self.cluster.http.ask(VICTIM, &Request::get(format!("/v1/nodes/bytes/after-{}", WRITES - 1))).await;
        self.cluster.end();
        if there.status != 200 || seen.last_log_index < whole.last_log_index {
            return Err(format!("something is missing in the cluster: {seen:?}, {} {}", there.status, there.text));
        }
        Ok(())
    }
}

/// The range of the last record of an undamaged write-ahead log, from the header of its first part. A part has a
/// checksum (4), the length after the header (2) and a type (1): types 1 and 2 begin a record. No part crosses a block
/// of 32 KiB. Fewer than seven bytes at the end of a block are zeros.
fn last_record_of(log: &[u8]) -> Option<Range<usize>> {
    const BLOCK_BYTES: usize = 32 * 1024;
    const HEADER_BYTES: usize = 7;
    let (mut at, mut last) = (0, None);
    while let Some(header) = log.get(at..at + HEADER_BYTES) {
        let left = BLOCK_BYTES - at % BLOCK_BYTES;
        if left < HEADER_BYTES {
            at += left;
            continue;
        }
        let end = at + HEADER_BYTES + usize::from(u16::from_le_bytes([header[4], header[5]]));
        match header[6] {
            0 => break,
            1 | 2 => last = Some(at..end),
            _continues => last = last.map(|last: Range<usize>| last.start..end),
        }
        at = end;
    }
    last
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    run_program("cp", &["-a", &from.to_string_lossy(), &to.to_string_lossy()]).map(|_| ())
}

fn table(counts: &BTreeMap<&str, Count>) -> String {
    let mut text = format!("{:<20} {:>6} {:>8} {:>9} {:>6}\n", "a byte of the", "flips", "refused", "harmless", "torn");
    let mut all = Count::default();
    let mut row = |name: &str, count: &Count| {
        writeln!(text, "{name:<20} {:>6} {:>8} {:>9} {:>6}", count.flips, count.refused, count.harmless, count.torn)
            .expect("writing to a String cannot fail");
    };
    for (name, count) in counts {
        row(name, count);
        all.flips += count.flips;
        all.refused += count.refused;
        all.harmless += count.harmless;
        all.torn += count.torn;
    }
    row("all", &all);
    text.push_str(
        "refused: the node ends and names the file; harmless: it starts with all that it had; torn: it starts without the end of \
         its log, and the byte was in the last record of the newest one\n\
         who started came to the state of the other nodes, with all that was acknowledged\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: u8, length: u16) -> Vec<u8> {
        let mut bytes = vec![7; 4];
        bytes.extend(length.to_le_bytes());
        bytes.push(kind);
        bytes.resize(bytes.len() + usize::from(length), 9);
        bytes
    }

    #[test]
    fn the_last_record_is_found_with_all_its_parts_and_without_trailing_zeros() {
        assert_eq!(last_record_of(&[]), None);
        assert_eq!(last_record_of(&[0; 100]), None);
        assert_eq!(last_record_of(&part(1, 10)), Some(0..17));
        let two = [part(1, 10), part(1, 3)].concat();
        assert_eq!(last_record_of(&two), Some(17..27));
        assert_eq!(last_record_of(&[two, vec![0; 50]].concat()), Some(17..27));
        // The first part ends three bytes before the end of its block.
        let begin = 32 * 1024 - 3;
        let parts = [part(1, 10), part(2, u16::try_from(begin - 17 - 7).unwrap()), vec![0; 3], part(3, 5), part(4, 1)].concat();
        assert_eq!(last_record_of(&parts), Some(17..begin + 3 + 12 + 8));
    }
}
