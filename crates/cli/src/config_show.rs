//! `fairhold config`: shows the configuration of `serve` and the source of each value, or checks it.

use crate::{
    config::{
        ServeConfig,
        backup::BackupConfig,
        error::ConfigError,
        peer_trust::PeerTrust,
        source::outside_the_file,
        start::{MemberSource, Start},
    },
    exit, output, regular_file,
    serve::{args::ServeArgs, check},
};
use clap::Subcommand;
use fairhold_http::Dashboard;
use fairhold_trust::jwt::JwtProviderConfig;
use fairhold_types::{duration, text::without_userinfo};
use std::{
    collections::BTreeSet,
    env,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the configuration that `serve` would use, in the format of a --config file
    #[command(after_help = "Example:
  fairhold config show --origin --config fairhold.toml")]
    Show {
        /// Add the source of each value
        #[arg(long)]
        origin: bool,
        /// Print in this format; json always has the sources
        #[arg(short, long, value_enum, default_value_t = ConfigFormat::Toml)]
        output: ConfigFormat,
        #[command(flatten)]
        serve: Box<ServeArgs>,
    },
    /// Check the configuration and every file that it names, and print all that is wrong
    #[command(after_help = "It changes and creates nothing. Exit codes: 0 `serve` accepts it, 2 it does not.

Example:
  fairhold config check --config fairhold.toml")]
    Check {
        #[command(flatten)]
        serve: Box<ServeArgs>,
    },
}

/// The output formats of `config show`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ConfigFormat {
    /// The format of a --config file
    Toml,
    /// One JSON object: for each key its value and its source
    Json,
}

/// Runs the command.
pub(crate) fn main(command: ConfigCommand) -> ExitCode {
    match command {
        ConfigCommand::Show { origin, output, serve } => {
            let file = serve.config.clone();
            let config = match ServeConfig::resolve(*serve) {
                Ok(config) => config,
                Err(error) => return fail(&error),
            };
            let origins = Origins::new(&config, file, env::args_os().map(|word| word.to_string_lossy().into_owned()).collect());
            print(&match output {
                ConfigFormat::Toml => text(&config, origin.then_some(&origins)),
                ConfigFormat::Json => json(&config, &origins),
            })
        }
        ConfigCommand::Check { serve } => match ServeConfig::resolve(*serve) {
            Ok(config) => checked(&config),
            Err(error) => fail(&error),
        },
    }
}

fn print(text: &str) -> ExitCode {
    exit::from_result(output::unless_closed(output::write_stdout(text)))
}

fn fail(error: &ConfigError) -> ExitCode {
    exit::with_error(error.exit_code(), error)
}

/// Checks everything that the configuration names.
fn checked(config: &ServeConfig) -> ExitCode {
    let mut findings = check::findings(config);
    findings.extend(config.backup.as_ref().and_then(folder_fault));
    if findings.is_empty() {
        return print(&summary(config));
    }
    // Stderr may be a file on a full disk; the exit code still shows the outcome.
    writeln!(io::stderr(), "fairhold: {}", without_userinfo(&findings.join("\nfairhold: "))).ok();
    ExitCode::from(exit::USAGE)
}

/// What is wrong with the folder of scheduled backups. A node starts nevertheless, and tries again for each backup.
fn folder_fault(backup: &BackupConfig) -> Option<String> {
    let what = match (backup.dir.is_absolute(), backup.dir.is_dir()) {
        (true, true) => return None,
        (true, false) => "is not a folder: create it, or correct the path",
        (false, _) => "is a relative path, and a service manager may start the node in another directory: write it from the root",
    };
    Some(format!("backup.dir in the configuration file: {} {what}", backup.dir.display()))
}

/// One line about a configuration that a start accepts.
fn summary(config: &ServeConfig) -> String {
    let node = match &config.start {
        Start::Known(node) => format!("node {}", node.id),
        Start::Join { .. } => "a node that joins".to_owned(),
    };
    let tls = |is_on: bool| if is_on { "TLS" } else { "plain text" };
    let (clients, peers) = (tls(config.client_tls.is_some()), tls(config.peer_tls.is_some()));
    let (listen, peer_listen) = (&config.listen, &config.peer_listen);
    format!("ok: {node}, clients at {listen} ({clients}), nodes at {peer_listen} ({peers})\n")
}

/// The resolved configuration of a node whose settings are all in this file, without secrets.
pub(crate) fn resolved(file: &Path) -> Result<String, ConfigError> {
    let config = ServeConfig::resolve(ServeArgs { config: Some(file.to_owned()), ..ServeArgs::default() })?;
    Ok(text(&config, None))
}

/// The sources of values that are not defaults.
struct Origins {
    file: Option<PathBuf>,
    in_file: BTreeSet<String>,
    typed: Vec<String>,
    /// Values from the data directory.
    in_directory: Vec<&'static str>,
}

impl Origins {
    fn new(config: &ServeConfig, file: Option<PathBuf>, typed: Vec<String>) -> Origins {
        let text = file.as_ref().and_then(|file| regular_file::read_to_string(file).ok()).unwrap_or_default();
        let table: toml::Table = text.parse().unwrap_or_default();
        let in_tables = table.values().filter_map(toml::Value::as_table).flat_map(toml::Table::keys);
        let in_file = table.keys().chain(in_tables).cloned().collect();
        Origins { file, in_file, typed, in_directory: config.from_directory.clone() }
    }

    /// The source of a value. What is in the data directory counts first.
    fn of(&self, name: &str) -> String {
        if self.in_directory.contains(&name) {
            return "data directory".to_owned();
        }
        if let Some(source) = outside_the_file(name, &self.typed) {
            return source;
        }
        match &self.file {
            Some(file) if self.in_file.contains(name) => format!("file {}", file.display()),
            Some(_) | None => "default".to_owned(),
        }
    }
}

fn text(config: &ServeConfig, origins: Option<&Origins>) -> String {
    let mut lines = start_lines(config);
    lines.extend([
        ("timing", quoted(config.timing.as_str())),
        ("listen", quoted(&config.listen)),
        ("peer-listen", quoted(&config.peer_listen)),
        ("connections-max", config.limits.connections.to_string()),
        ("connections-per-address-max", config.limits.per_address.to_string()),
        ("event-ring-bytes", config.event_ring_bytes.to_string()),
        ("state-bytes-max", config.state_bytes_max.to_string()),
        ("log", quoted(&config.log)),
        ("slow-request", quoted(&exactly(config.slow_request))),
    ]);
    if let Some(cluster) = &config.cluster_name {
        lines.push(("cluster-name", quoted(cluster.as_str())));
    }
    lines.extend(client_tls_lines(config));
    if let Some(address) = &config.listen_status {
        lines.push(("listen-status", quoted(address)));
    }
    if !config.allowed_hosts.is_empty() {
        let hosts: Vec<String> = config.allowed_hosts.iter().map(|host| quoted(host)).collect();
        lines.push(("allowed-host", format!("[{}]", hosts.join(", "))));
    }
    if config.dashboard == Dashboard::Off {
        lines.push(("ui", "false".to_owned()));
    }
    match &config.peers {
        PeerTrust::Key(path) => lines.push(("peer-key-file", quoted_path(path))),
        PeerTrust::Nothing | PeerTrust::Certificates => {}
    }
    if config.insecure {
        lines.push(("insecure", "true".to_owned()));
    }
    lines.extend(peer_tls_lines(config));
    if let Some(path) = &config.admin_token_file {
        lines.push(("admin-token-file", quoted_path(path)));
    }
    let line = |(name, value): (&str, String)| match origins {
        Some(origins) => format!("{name} = {value}  # {}\n", origins.of(name)),
        None => format!("{name} = {value}\n"),
    };
    let lines: String = lines.into_iter().map(line).collect();
    let after = config.finalize_after.map(|after| line(("finalize-after", quoted(&duration::format(after)))));
    let upgrade = after.map(|line| format!("\n[upgrade]\n{line}")).unwrap_or_default();
    let audit: String = audit_lines(config).into_iter().map(line).collect();
    let audit = if audit.is_empty() { audit } else { format!("\n[audit]\n{audit}") };
    let backup: String = backup_lines(config).into_iter().map(line).collect();
    let backup = if backup.is_empty() { backup } else { format!("\n[backup]\n{backup}") };
    let trace: String = trace_lines(config).into_iter().map(line).collect();
    let trace = if trace.is_empty() { trace } else { format!("\n[trace]\n{trace}") };
    lines + &known_members(config) + &audit + &backup + &trace + &upgrade + &jwt_tables(config)
}

/// Each key, with its value and its source.
fn json(config: &ServeConfig, origins: &Origins) -> String {
    let mut keys = serde_json::Map::new();
    // The text is valid: a test reads it as a file.
    let table: toml::Table = text(config, None).parse().unwrap_or_default();
    for (name, value) in &table {
        match value.as_table() {
            // Their only source is the file.
            Some(inner) if name != "upgrade" => {
                let file = origins.file.as_deref().map(Path::display);
                let source = file.map_or_else(|| "default".to_owned(), |file| format!("file {file}"));
                keys.insert(name.clone(), serde_json::json!({ "value": inner, "source": source }));
            }
            Some(inner) => {
                keys.extend(inner.iter().map(|(key, value)| {
                    (format!("{name}.{key}"), serde_json::json!({ "value": value, "source": origins.of(key) }))
                }))
            }
            None => {
                keys.insert(name.clone(), serde_json::json!({ "value": value, "source": origins.of(name) }));
            }
        }
    }
    format!("{}\n", serde_json::Value::Object(keys))
}

/// The lines of the table of the audit log.
fn audit_lines(config: &ServeConfig) -> Vec<(&'static str, String)> {
    let Some(audit) = &config.audit else { return Vec::new() };
    vec![("file", quoted_path(&audit.file)), ("what", quoted(audit.scope.as_str())), ("required", audit.is_required.to_string())]
}

/// The lines of the table of scheduled backups.
fn backup_lines(config: &ServeConfig) -> Vec<(&'static str, String)> {
    let Some(backup) = &config.backup else { return Vec::new() };
    let every = quoted(&duration::format(backup.every));
    vec![("dir", quoted_path(&backup.dir)), ("every", every), ("keep", backup.keep.to_string())]
}

/// A duration that may be shorter than a millisecond.
fn exactly(duration: Duration) -> String {
    if duration.subsec_nanos().is_multiple_of(1_000_000) {
        return duration::format(duration);
    }
    format!("{}ns", duration.as_nanos())
}

/// The lines of the table of traces.
fn trace_lines(config: &ServeConfig) -> Vec<(&'static str, String)> {
    let Some(trace) = &config.trace else { return Vec::new() };
    let sample = trace.sample.to_string();
    vec![("endpoint", quoted(&trace.endpoint)), ("sample", sample), ("names", trace.shows_names.to_string())]
}

/// The tables of the providers of JWTs. They come from the file alone.
fn jwt_tables(config: &ServeConfig) -> String {
    let table = |provider: &JwtProviderConfig| {
        let attributes = provider.attributes.iter().map(|(name, pointer)| format!("{name} = {}", quoted(pointer)));
        format!(
            "\n[jwt.{}]\nissuer = {}\naudience = {}\njwks = {}\nuser-claim = {}\nattributes = {{ {} }}\n",
            provider.name,
            quoted(&provider.issuer),
            quoted(&provider.audience),
            quoted_path(&provider.jwks),
            quoted(&provider.user_claim),
            attributes.collect::<Vec<_>>().join(", ")
        )
    };
    config.jwt.iter().map(table).collect()
}

/// The lines about TLS of the port for clients.
fn client_tls_lines(config: &ServeConfig) -> Vec<(&'static str, String)> {
    let Some(tls) = &config.client_tls else { return Vec::new() };
    let mut lines = vec![("cert", quoted_path(&tls.files.cert)), ("key", quoted_path(&tls.files.key))];
    lines.extend(tls.files.ca.as_deref().map(|path| ("client-ca", quoted_path(path))));
    lines.push(("tls-min", quoted(tls.oldest.as_str())));
    lines.extend(tls.listen_plain.as_ref().map(|address| ("listen-plain", quoted(address))));
    lines
}

/// The lines about TLS between nodes.
fn peer_tls_lines(config: &ServeConfig) -> Vec<(&'static str, String)> {
    let Some(tls) = &config.peer_tls else { return Vec::new() };
    let mut lines = vec![
        ("peer-tls", quoted(tls.mode())),
        ("peer-cert", quoted_path(&tls.files.cert)),
        ("peer-key", quoted_path(&tls.files.key)),
    ];
    lines.extend(tls.files.ca.as_deref().map(|path| ("peer-ca", quoted_path(path))));
    lines
}

/// The lines about the node, its directory and its addresses.
fn start_lines(config: &ServeConfig) -> Vec<(&'static str, String)> {
    let data = ("data", quoted_path(&config.data));
    let advertise = ("advertise", quoted(&config.own.to_string()));
    match &config.start {
        Start::Join { token_file } => vec![data, ("join-file", quoted_path(token_file)), advertise],
        Start::Known(node) => {
            let id = ("id", node.id.to_string());
            match node.source {
                MemberSource::DataDirectory => vec![id, data, advertise],
                MemberSource::List => {
                    let members = node.members.iter().map(|(id, member)| quoted(&format!("{id}={member}")));
                    vec![id, data, ("member", format!("[{}]", members.collect::<Vec<_>>().join(", ")))]
                }
            }
        }
    }
}

/// The members that the data directory knows, as comments: they are not part of a configuration.
fn known_members(config: &ServeConfig) -> String {
    match &config.start {
        Start::Known(node) if node.source == MemberSource::DataDirectory => {
            let lines = node.members.iter().map(|(id, member)| format!("# the data directory knows node {id}={member}\n"));
            lines.collect()
        }
        Start::Known(_) | Start::Join { .. } => String::new(),
    }
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{audit::AuditConfig, backup::BackupConfig, peer_tls::PeerTlsMode};
    use fairhold_http::AuditScope;
    use fairhold_storage::{
        data_dir::DataDir,
        known_members::{KnownAddresses, KnownMembers},
        timing_file,
    };
    use fairhold_trust::client_port::TlsVersion;
    use fairhold_types::{ClusterId, Timing};
    use std::fs;

    #[test]
    fn the_output_is_a_valid_file_and_names_the_source_of_each_value() {
        let args = || ServeArgs {
            id: Some(1),
            data: Some("a \"b\"".into()),
            member: vec!["1=http://a:7171,a:7271".to_owned()],
            peer_key_file: Some("a key".into()),
            finalize_after: Some(Duration::from_secs(24 * 3_600)),
            slow_request: Some(Duration::from_micros(10)),
            peer_cert: Some("node.crt".into()),
            peer_key: Some("node.key".into()),
            peer_ca: Some("ca.crt".into()),
            peer_tls: Some(PeerTlsMode::Optional),
            cluster_name: Some("prod".to_owned()),
            cert: Some("a.crt".into()),
            key: Some("a.key".into()),
            client_ca: Some("clients.crt".into()),
            tls_min: Some(TlsVersion::V1_2),
            listen_plain: Some("127.0.0.1:7170".to_owned()),
            ui: Some(false),
            ..ServeArgs::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fairhold.toml");
        let providers = "[jwt.k8s]\nissuer = \"i\"\naudience = \"a\"\njwks = \"j\"\nattributes = { team = \"/a~1b\" }\n\
                         [jwt.ci]\nissuer = \"https://ci\"\naudience = \"a\"\njwks = \"c\"\nuser-claim = \"name\"\n";
        let audit = "[audit]\nfile = \"audit.log\"\nwhat = \"writes\"\nrequired = true\n";
        let backup = format!("[backup]\ndir = {}\nevery = \"2h\"\nkeep = 9\n", quoted_path(folder.path()));
        let trace = "[trace]\nendpoint = \"http://c:4318\"\nsample = 0.25\nnames = true\n";
        fs::write(&file, [audit, &backup, trace, providers].concat()).unwrap();
        let config = ServeConfig::resolve(ServeArgs { config: Some(file.clone()), ..args() }).unwrap();
        assert_eq!(config.jwt.len(), 2);
        let audit = AuditConfig { file: "audit.log".into(), scope: AuditScope::Writes, is_required: true };
        assert_eq!(config.audit, Some(audit));
        let shown: serde_json::Value =
            serde_json::from_str(&json(&config, &Origins::new(&config, Some(file.clone()), vec!["--id=1".to_owned()]))).unwrap();
        let in_file = format!("file {}", file.display());
        assert_eq!(shown["id"], serde_json::json!({ "value": 1, "source": "flag --id" }));
        assert_eq!(shown["log"]["source"], "default");
        let audit = (&shown["audit"]["value"]["what"], &shown["audit"]["source"]);
        assert_eq!(audit, (&"writes".into(), &in_file.as_str().into()));
        let every = Duration::from_secs(7_200);
        assert_eq!(config.backup, Some(BackupConfig { dir: folder.path().to_owned(), every, keep: 9 }));
        fs::write(&file, text(&config, None)).unwrap();
        let again = ServeConfig::resolve(ServeArgs { config: Some(file.clone()), ..ServeArgs::default() }).unwrap();
        assert_eq!(again, config);
        fs::write(&file, "listen = \"a:1\"\n[upgrade]\nfinalize-after = \"1h\"\n").unwrap();
        let origins = Origins::new(&config, Some(file), vec!["--id=1".to_owned()]);
        assert_eq!((origins.of("id").as_str(), origins.of("log").as_str()), ("flag --id", "default"));
        assert!(origins.of("listen").starts_with("file ") && origins.of("finalize-after").starts_with("file "));
    }

    #[test]
    fn a_folder_of_backups_that_is_missing_or_relative_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let fault = |dir: &Path| {
            folder_fault(&BackupConfig { dir: dir.to_owned(), every: Duration::from_secs(60), keep: 1 }).unwrap_or_default()
        };
        assert_eq!(fault(folder.path()), "");
        assert!(fault(&folder.path().join("none")).ends_with("is not a folder: create it, or correct the path"));
        assert!(fault(Path::new("src")).contains("src is a relative path"));
    }

    #[test]
    fn a_node_that_has_joined_is_shown_with_what_its_directory_knows() {
        let folder = tempfile::tempdir().unwrap();
        let args = |id| ServeArgs { id, data: Some(folder.path().into()), insecure: true, ..ServeArgs::default() };
        let mut directory = DataDir::open_to_join(folder.path()).unwrap();
        let addresses = |host: &str| KnownAddresses { url: format!("http://{host}:7171"), peer: format!("{host}:7271") };
        let members = KnownMembers { joined: true, members: [(1, addresses("a")), (4, addresses("d"))].into() };
        directory.set_joined(4, ClusterId(9), &members).unwrap();
        drop(directory);
        timing_file::write(folder.path(), Timing::Wan).unwrap();
        let config = ServeConfig::resolve(ServeArgs { timing: Some(Timing::Lan), ..args(None) }).unwrap();
        let origins = Origins::new(&config, None, vec!["--timing=lan".to_owned()]);
        let shown = text(&config, Some(&origins));
        for line in [
            "id = 4  # data directory\n",
            "advertise = \"http://d:7171,d:7271\"  # data directory\n",
            "timing = \"wan\"  # data directory\n",
            "# the data directory knows node 1=http://a:7171,a:7271\n",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        let file = folder.path().join("fairhold.toml");
        fs::write(&file, text(&config, None)).unwrap();
        let again = ServeConfig::resolve(ServeArgs { config: Some(file), ..ServeArgs::default() }).unwrap();
        assert_eq!((again.start, again.own, again.timing), (config.start, config.own, config.timing));
    }

    #[test]
    fn a_node_that_joins_is_shown_and_its_token_checked() {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("join.token");
        let args = ServeArgs {
            data: Some(folder.path().join("data")),
            join_file: Some(token_file.clone()),
            advertise: Some("http://d:7171,d:7271".to_owned()),
            insecure: true,
            ..ServeArgs::default()
        };
        let config = ServeConfig::resolve(args).unwrap();
        let shown = text(&config, None);
        assert!(shown.contains(&format!("join-file = {}\n", quoted_path(&token_file))), "{shown}");
        assert!(shown.contains("advertise = \"http://d:7171,d:7271\"\n") && !shown.contains("id = "), "{shown}");
        assert_eq!(checked(&config), ExitCode::from(exit::USAGE), "there is no such file");
        fs::write(&token_file, "fhj1.damaged\n").unwrap();
        assert_eq!(checked(&config), ExitCode::from(exit::USAGE));
    }
}
