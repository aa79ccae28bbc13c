//! The archive of `doctor --bundle`: what somebody needs who helps, and no secret.
//!
//! Every text passes `redaction`, although none of its sources has secrets. The archive appears under its name when it
//! is complete, and only its owner can read it.

use super::{
    args::DoctorArgs,
    redaction::{HiddenNames, without_secrets},
    report,
};
use crate::{
    config_show,
    local_http::{ANSWER_BYTES_MAX, body_of, cause},
    output, version,
};
use fairhold_health::{cluster_probe::ClusterProbe, finding::Finding};
use fairhold_types::text::terminal_safe;
use reqwest::Client;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};
use tar::{Builder, Header};

/// How many lines of the log of the unit it has.
const LOG_LINES: &str = "5000";
/// The folder in the archive.
const FOLDER: &str = "fairhold-bundle";
/// Only the owner reads the archive and what is unpacked from it.
const MODE: u32 = 0o600;
/// What it has of each node: the name of the file, the path of the request.
const OF_NODE: [(&str, &str); 4] = [
    ("cluster.json", "/v1/cluster"),
    ("readyz.json", "/readyz?verbose"),
    ("metrics.txt", "/metrics"),
    ("alarms.json", "/v1/cluster/alarms"),
];
/// Where the names of locks and owners are, if they are to be hidden.
const LOCKS: &str = "/v1/locks?limit=1000";
/// The longest such answer that is read.
const LOCKS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
#[error("the archive {file} cannot be written: {error}")]
pub(super) struct BundleError {
    file: String,
    error: io::Error,
}

/// Why an archive may not have a name.
#[derive(Debug, thiserror::Error)]
pub(super) enum BundleNameError {
    #[error("--bundle -: an archive is a file: name it")]
    StandardOutput,
    #[error("--bundle {0}: this exists: choose another name")]
    Exists(String),
    #[error("--bundle {0}: {1}")]
    Unreadable(String, io::Error),
}

/// Checks that an archive may get this name: it replaces nothing.
pub(super) fn check_free(file: &Path) -> Result<(), BundleNameError> {
    if file == Path::new("-") {
        return Err(BundleNameError::StandardOutput);
    }
    let name = file.display().to_string();
    match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BundleNameError::Unreadable(name, error)),
        Ok(_) => Err(BundleNameError::Exists(name)),
    }
}

/// A file of the archive.
#[derive(Debug, PartialEq, Eq)]
struct BundleFile {
    name: String,
    text: String,
}

/// Asks the nodes that answered, and writes the archive.
pub(super) async fn write(
    file: &Path,
    args: &DoctorArgs,
    client: &Client,
    (seen, findings): (&ClusterProbe, &[Finding]),
) -> Result<(), BundleError> {
    let mut files = vec![
        BundleFile { name: "findings.txt".to_owned(), text: report::table(findings) },
        BundleFile { name: "findings.json".to_owned(), text: report::json(findings) },
        BundleFile { name: "version.txt".to_owned(), text: version::text() },
    ];
    let mut asked = BTreeSet::new();
    for endpoint in &seen.endpoints {
        let Ok(answer) = &endpoint.answer else { continue };
        // A node may have two of the addresses.
        if !asked.insert(answer.cluster.id) {
            continue;
        }
        for (name, path) in OF_NODE {
            let text = safe_lines(&get(client, &format!("{}{path}", endpoint.url), ANSWER_BYTES_MAX).await);
            files.push(BundleFile { name: format!("node-{}/{name}", answer.cluster.id), text });
        }
    }
    if let Some(config) = &args.config {
        let text = config_show::resolved(config).unwrap_or_else(|error| {
            output::note(&format!("the archive has no configuration: {error}"));
            format!("# {error}\n")
        });
        files.push(BundleFile { name: "configuration.toml".to_owned(), text });
    }
    files.extend(journal(&args.unit).map(|text| BundleFile { name: "journal.txt".to_owned(), text }));
    let mut names = args.hide_names.then(HiddenNames::default);
    if let Some(names) = &mut names {
        let urls = seen.best_urls();
        if let Some(url) = urls.first() {
            let listed = get(client, &format!("{url}{LOCKS}"), LOCKS_BYTES_MAX).await;
            learn(names, &serde_json::from_str(&listed).unwrap_or_default());
        }
    }
    for file in &mut files {
        file.text = without_secrets(&file.text);
        // The figures of a node have no names, and a lock may have the name of a figure.
        if let Some(names) = names.as_mut().filter(|_| !file.name.starts_with("node-")) {
            file.text = names.hide(&file.text);
        }
    }
    save(file, &files).map_err(|error| BundleError { file: file.display().to_string(), error })
}

/// What a node answers, or why it does not.
async fn get(client: &Client, url: &str, bytes_max: usize) -> String {
    let answer = async {
        let answer = client.get(url).send().await.map_err(|error| cause(&error))?;
        body_of(answer, bytes_max).await
    };
    match answer.await {
        Ok(body) => String::from_utf8_lossy(&body).into_owned(),
        Err(why) => format!("no answer: {why}\n"),
    }
}

/// The lines of a server, which may be no node: somebody reads them in a terminal.
fn safe_lines(text: &str) -> String {
    text.split('\n').map(terminal_safe).collect::<Vec<_>>().join("\n")
}

/// Remembers the names of locks and owners in a list of locks.
fn learn(names: &mut HiddenNames, listed: &Value) {
    match listed {
        Value::Array(items) => items.iter().for_each(|item| learn(names, item)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str() {
                    Some(name) if ["name", "lock", "owner"].contains(&key.as_str()) => drop(names.number(name)),
                    Some(_) | None => learn(names, value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The newest lines of the log of a unit, if this machine has it.
fn journal(unit: &str) -> Option<String> {
    let output = Command::new("journalctl").args(["--no-pager", "-o", "short-iso", "-n", LOG_LINES, "-u", unit]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes the archive beside its place, and then moves it there.
fn save(file: &Path, files: &[BundleFile]) -> io::Result<()> {
    let mut partial = OsString::from(file);
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let saved = save_at(&partial, files).and_then(|()| fs::rename(&partial, file));
    if saved.is_err() {
        // It may not exist.
        fs::remove_file(&partial).ok();
    }
    saved
}

fn save_at(partial: &Path, files: &[BundleFile]) -> io::Result<()> {
    // One of an interrupted run may have other rights.
    match fs::remove_file(partial) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let created = OpenOptions::new().write(true).create_new(true).mode(MODE).open(partial)?;
    let mut archive = Builder::new(created);
    append(&mut archive, &BundleFile { name: "MANIFEST".to_owned(), text: manifest(files) })?;
    for file in files {
        append(&mut archive, file)?;
    }
    archive.into_inner()?.sync_all()
}

fn append(archive: &mut Builder<File>, file: &BundleFile) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(file.text.len() as u64);
    header.set_mode(MODE);
    header.set_mtime(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    archive.append_data(&mut header, format!("{FOLDER}/{}", file.name), file.text.as_bytes())
}

/// The SHA-256 of each file, as `sha256sum -c` reads it.
fn manifest(files: &[BundleFile]) -> String {
    let line = |file: &BundleFile| {
        let sum: String = Sha256::digest(file.text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{sum}  {}\n", file.name)
    };
    files.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read as _, os::unix::fs::PermissionsExt as _};

    #[test]
    fn an_archive_is_complete_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar");
        fs::write(folder.path().join("b.tar.partial"), "of an interrupted run").unwrap();
        let files = [("node-1/metrics.txt", "up 1\n"), ("version.txt", "")];
        let files = files.map(|(name, text)| BundleFile { name: name.to_owned(), text: text.to_owned() });
        save(&path, &files).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!folder.path().join("b.tar.partial").exists());
        let mut archive = tar::Archive::new(File::open(&path).unwrap());
        let mut read = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            read.push((entry.path().unwrap().display().to_string(), text));
        }
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(read[0].0, "fairhold-bundle/MANIFEST");
        assert!(read[0].1.ends_with(&format!("{empty}  version.txt\n")) && read[0].1.lines().count() == 2, "{}", read[0].1);
        assert_eq!(read[1], ("fairhold-bundle/node-1/metrics.txt".to_owned(), "up 1\n".to_owned()));
        let error = save(&folder.path().join("missing/b.tar"), &files).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn an_archive_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (free, taken) = (folder.path().join("a.tar"), folder.path().join("b.tar"));
        check_free(&free).unwrap();
        fs::write(&taken, "older").unwrap();
        assert!(check_free(&taken).unwrap_err().to_string().ends_with("b.tar: this exists: choose another name"));
        assert!(check_free(folder.path()).is_err() && check_free(Path::new("-")).is_err());
    }

    #[test]
    fn the_answer_of_a_server_cannot_control_a_terminal() {
        assert_eq!(safe_lines("up 1\n\n# é\n"), "up 1\n\n# é\n");
        assert_eq!(safe_lines("\u{1b}[2Ja\r\nb"), "\\u{1b}[2Ja\\r\nb");
    }

    #[test]
    fn names_are_learned_from_a_list_of_locks() {
        let mut names = HiddenNames::default();
        learn(&mut names, &serde_json::json!({ "items": [{ "name": "a", "holders": [{ "owner": "b", "mode": "c" }] }] }));
        assert_eq!(names.hide("a b c"), "name-2 name-1 c", "holders come first");
    }
}
