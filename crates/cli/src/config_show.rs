//! `fairhold config`: shows the configuration of `serve` and the source of each value, or checks it.

use crate::{
    config::{ConfigError, PeerTrust, ServeConfig},
    exit, output,
    serve::args::ServeArgs,
};
use clap::Subcommand;
use std::{collections::BTreeSet, env, fs, path::PathBuf, process::ExitCode};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the configuration that `serve` would use, in the format of a --config file
    #[command(after_help = "Example:
  fairhold config show --origin --config fairhold.toml")]
    Show {
        /// Add the source of each value
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        serve: Box<ServeArgs>,
    },
    /// Check the configuration: print nothing if `serve` accepts it, otherwise the error
    #[command(after_help = "Example:
  fairhold config check --config fairhold.toml     exit code 2 and the reason, if it is invalid")]
    Check {
        #[command(flatten)]
        serve: Box<ServeArgs>,
    },
}

/// Runs the command.
pub(crate) fn main(command: ConfigCommand) -> ExitCode {
    let (serve, shown) = match command {
        ConfigCommand::Show { origin, serve } => (serve, Some(origin)),
        ConfigCommand::Check { serve } => (serve, None),
    };
    let file = serve.config.clone();
    match (ServeConfig::resolve(*serve), shown) {
        (Ok(_), None) => ExitCode::SUCCESS,
        (Ok(config), Some(origin)) => {
            let origins = origin.then(|| Origins::new(file, env::args().collect()));
            exit::from_result(output::unless_closed(output::write_stdout(&text(&config, origins.as_ref()))))
        }
        (Err(error), _) => fail(&error),
    }
}

fn fail(error: &ConfigError) -> ExitCode {
    exit::with_error(exit::USAGE, error)
}

/// The sources of values that are not defaults.
struct Origins {
    file: Option<PathBuf>,
    in_file: BTreeSet<String>,
    typed: Vec<String>,
}

impl Origins {
    fn new(file: Option<PathBuf>, typed: Vec<String>) -> Origins {
        let text = file.as_ref().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        let table: toml::Table = text.parse().unwrap_or_default();
        Origins { file, in_file: table.keys().cloned().collect(), typed }
    }

    /// The source of a value, in the order of precedence.
    fn of(&self, name: &str) -> String {
        let flag = format!("--{name}");
        let variable = format!("FAIRHOLD_{}", name.replace('-', "_").to_uppercase());
        let is_typed = |word: &String| *word == flag || word.starts_with(&format!("{flag}="));
        if self.typed.iter().any(is_typed) {
            return format!("flag {flag}");
        }
        if env::var_os(&variable).is_some() {
            return format!("environment {variable}");
        }
        match &self.file {
            Some(file) if self.in_file.contains(name) => format!("file {}", file.display()),
            Some(_) | None => "default".to_owned(),
        }
    }
}

fn text(config: &ServeConfig, origins: Option<&Origins>) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let members = config.members.iter().map(|(id, member)| quoted(&format!("{id}={},{}", member.url, member.peer)));
    let mut lines = vec![
        ("id", config.id.to_string()),
        ("data", quoted(&config.data.to_string_lossy())),
        ("member", format!("[{}]", members.collect::<Vec<_>>().join(", "))),
        ("listen", quoted(&config.listen)),
        ("peer-listen", quoted(&config.peer_listen)),
        ("connections-max", config.limits.connections.to_string()),
        ("connections-per-address-max", config.limits.per_address.to_string()),
        ("event-ring-bytes", config.event_ring_bytes.to_string()),
        ("state-bytes-max", config.state_bytes_max.to_string()),
        ("log", quoted(&config.log)),
    ];
    if let Some(address) = &config.listen_status {
        lines.push(("listen-status", quoted(address)));
    }
    if !config.allowed_hosts.is_empty() {
        let hosts: Vec<String> = config.allowed_hosts.iter().map(|host| quoted(host)).collect();
        lines.push(("allowed-host", format!("[{}]", hosts.join(", "))));
    }
    match &config.peers {
        PeerTrust::Key(path) => lines.push(("peer-key-file", quoted(&path.to_string_lossy()))),
        PeerTrust::Insecure => lines.push(("insecure", "true".to_owned())),
        PeerTrust::Loopback => {}
    }
    if let Some(path) = &config.admin_token_file {
        lines.push(("admin-token-file", quoted(&path.to_string_lossy())));
    }
    let line = |(name, value): (&str, String)| match origins {
        Some(origins) => format!("{name} = {value}  # {}\n", origins.of(name)),
        None => format!("{name} = {value}\n"),
    };
    lines.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_a_valid_file_and_names_the_source_of_each_value() {
        let args = || ServeArgs {
            id: Some(1),
            data: Some("a \"b\"".into()),
            member: vec!["1=http://a:7171,a:7271".to_owned()],
            peer_key_file: Some("a key".into()),
            ..ServeArgs::default()
        };
        let config = ServeConfig::resolve(args()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fairhold.toml");
        fs::write(&file, text(&config, None)).unwrap();
        let again = ServeConfig::resolve(ServeArgs { config: Some(file.clone()), ..ServeArgs::default() }).unwrap();
        assert_eq!(again, config);
        fs::write(&file, "listen = \"a:1\"\n").unwrap();
        let origins = Origins::new(Some(file), vec!["--id=1".to_owned()]);
        assert_eq!((origins.of("id").as_str(), origins.of("log").as_str()), ("flag --id", "default"));
        assert!(origins.of("listen").starts_with("file "));
    }
}
