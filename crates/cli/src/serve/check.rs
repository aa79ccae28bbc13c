//! Checks everything that a configuration names, as a start would, without a change: nothing is written or created.

use super::{admin_token, certificates, join_token, peer_key};
use crate::{
    config::{ServeConfig, start::Start},
    telemetry::exporter::Exporter,
};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Every reason why a start with this configuration would fail.
pub(crate) fn findings(config: &ServeConfig) -> Vec<String> {
    let mut findings: Vec<String> = certificates::check(config).iter().map(ToString::to_string).collect();
    findings.extend(peer_key::check(&config.peers).err().map(|error| error.to_string()));
    let admin_token = config.admin_token_file.as_deref().and_then(|file| admin_token::check(file).err());
    findings.extend(admin_token.map(|error| error.to_string()));
    if let Start::Join { token_file } = &config.start {
        findings.extend(join_token::read(token_file).err().map(|error| error.to_string()));
    }
    findings.extend(config.trace.as_ref().and_then(|trace| Exporter::new(trace).err()));
    let data = &config.data;
    if let Err(error) = is_writable_or_can_be_made(data) {
        let path = data.display();
        findings.push(format!("--data {path} cannot be written: {error}. Let the user of this node own it: chown"));
    }
    if let Some(audit) = &config.audit
        && let Err(error) = can_be_appended(&audit.file)
    {
        let path = audit.file.display();
        findings.push(format!(
            "audit.file in the configuration file: {path} cannot be written: {error}. Make its folder, writable for the user of \
             this node, or name another file"
        ));
    }
    findings
}

/// Whether this process may write into a directory, or may make it.
fn is_writable_or_can_be_made(directory: &Path) -> io::Result<()> {
    let existing = directory.ancestors().map(or_here).find(|path| path.exists()).unwrap_or_else(|| PathBuf::from("."));
    if !existing.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    may(&existing, Access::WRITE_OK | Access::EXEC_OK)
}

/// Whether this process may append to a file, or may create it.
fn can_be_appended(file: &Path) -> io::Result<()> {
    if file.exists() {
        return may(file, Access::WRITE_OK | Access::READ_OK);
    }
    may(&or_here(file.parent().unwrap_or(Path::new("."))), Access::WRITE_OK | Access::EXEC_OK)
}

fn or_here(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() }
}

/// Asks the kernel, for the rights with which this process opens files.
fn may(path: &Path, access: Access) -> io::Result<()> {
    accessat(CWD, path, access, AtFlags::EACCESS).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::trace::TraceConfig, serve::args::ServeArgs};
    use fairhold_trace::SampleRate;
    use std::fs;

    fn args(data: &Path) -> ServeArgs {
        ServeArgs {
            id: Some(1),
            data: Some(data.to_owned()),
            member: vec!["1=http://127.0.0.1:1,127.0.0.1:2".to_owned()],
            ..ServeArgs::default()
        }
    }

    #[test]
    fn every_file_that_cannot_be_used_is_told_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let missing = |name: &str| Some(folder.path().join(name));
        let config = folder.path().join("fairhold.toml");
        let file = "[audit]\nfile = \"/nowhere/audit.log\"\n\
                    [jwt.a]\nissuer = \"i\"\naudience = \"a\"\njwks = \"/nowhere/a.json\"\n\
                    [jwt.b]\nissuer = \"j\"\naudience = \"a\"\njwks = \"/nowhere/b.json\"\n";
        fs::write(&config, file).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let wrong = ServeArgs {
            config: Some(config.clone()),
            cert: missing("a.crt"),
            key: missing("a.key"),
            peer_key_file: missing("peer.key"),
            admin_token_file: missing("admin.token"),
            ..args(&folder.path().join("file/data"))
        };
        let found = findings(&ServeConfig::resolve(wrong).unwrap());
        for said in
            ["--cert or --key", "a.json", "b.json", "--peer-key-file", "--admin-token-file", "--data", "/nowhere/audit.log"]
        {
            assert_eq!(found.iter().filter(|finding| finding.contains(said)).count(), 1, "{said}: {found:#?}");
        }
        assert_eq!(found.len(), 7, "{found:#?}");

        let data = folder.path().join("new/data");
        let log = folder.path().join("audit.log");
        fs::write(&config, format!("[audit]\nfile = {:?}\n", log.display().to_string())).unwrap();
        let right = ServeConfig::resolve(ServeArgs { config: Some(config), ..args(&data) }).unwrap();
        assert_eq!(findings(&right), [""; 0]);
        assert!(!log.exists() && !folder.path().join("new").exists(), "a check leaves nothing behind");
    }

    #[test]
    fn a_collector_of_traces_that_cannot_be_used_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let config = ServeConfig::resolve(args(&folder.path().join("data"))).unwrap();
        let with = |endpoint: &str| {
            let trace = TraceConfig { endpoint: endpoint.to_owned(), sample: SampleRate::DEFAULT, shows_names: false };
            findings(&ServeConfig { trace: Some(trace), ..config.clone() })
        };
        assert_eq!(with("http://collector:4318"), [""; 0]);
        assert!(matches!(&*with("collector"), [finding] if finding.contains("trace.endpoint")));
    }

    #[test]
    fn a_token_of_a_node_that_joins_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("join.token");
        let joining = ServeArgs {
            data: Some(folder.path().join("data")),
            join_file: Some(token.clone()),
            advertise: Some("http://127.0.0.1:1,127.0.0.1:2".to_owned()),
            ..ServeArgs::default()
        };
        let config = ServeConfig::resolve(joining).unwrap();
        assert!(matches!(&*findings(&config), [finding] if finding.contains("--join-file")));
        fs::write(&token, "fhj1.damaged\n").unwrap();
        assert!(matches!(&*findings(&config), [finding] if finding.contains("damaged") && !finding.contains("fhj1.damaged")));
    }
}
