//! `fairhold cluster upgrade`: shows which versions of the cluster its members support, and raises the version of the
//! cluster when all of them support the next one.

use super::older_program;
use crate::{
    output,
    remote::{
        Api, ApiRequest, Failure, RemoteArgs,
        format::{self, OutputFormat, Table, rounded},
        reply::ApiReply,
    },
};
use clap::Subcommand;
use fairhold_client::Method;
use fairhold_types::dto::ClusterUpgrade;

#[derive(Debug, Subcommand)]
pub(super) enum UpgradeCommand {
    /// Show the members and their programs: exit with 0 if no upgrade is open, 1 if one is
    #[command(after_help = "Example:
  fairhold cluster upgrade status

An upgrade is open while the program of the leader supports a later version than the cluster has.")]
    Status,
    /// Raise the cluster's version, after every node is upgraded: no way back (for administrators)
    #[command(after_help = "Examples:
  fairhold cluster upgrade finalize --auth-token-file admin
  fairhold cluster upgrade finalize 2 --auth-token-file admin")]
    Finalize {
        /// New version of the cluster [default: the next one, if there is one]
        to: Option<u16>,
    },
}

/// Runs the command.
pub(super) async fn run(api: &Api, command: &UpgradeCommand, args: &RemoteArgs) -> Result<(), Failure> {
    match command {
        UpgradeCommand::Status => {
            let (reply, upgrade) = status(api).await?;
            print(&reply, &upgrade, args)?;
            open(&upgrade)
        }
        UpgradeCommand::Finalize { to } => finalize(api, *to, args).await,
    }
}

async fn status(api: &Api) -> Result<(ApiReply, ClusterUpgrade), Failure> {
    let reply = api.call(&ApiRequest::get("/v1/cluster/upgrade")).await.map_err(explain)?;
    let upgrade = reply.read()?;
    Ok((reply, upgrade))
}

async fn finalize(api: &Api, to: Option<u16>, args: &RemoteArgs) -> Result<(), Failure> {
    let to = match to {
        Some(to) => to,
        None => {
            let (reply, upgrade) = status(api).await?;
            let Some(next) = upgrade.next else {
                if !args.connect.quiet {
                    output::note("nothing to finalize: no later version is supported");
                }
                return print(&reply, &upgrade, args);
            };
            next.0
        }
    };
    let request = ApiRequest::change(Method::POST, "/v1/cluster/upgrade/finalize").parameter("to", Some(to));
    let reply = api.call(&request).await.map_err(explain)?;
    let upgrade: ClusterUpgrade = reply.read()?;
    print(&reply, &upgrade, args)
}

fn explain(failure: Failure) -> Failure {
    older_program::explain(failure, "cluster versions")
}

/// The failure of `status` while an upgrade is open, so that a script can wait for its end.
fn open(upgrade: &ClusterUpgrade) -> Result<(), Failure> {
    let Some(next) = upgrade.next else { return Ok(()) };
    Err(Failure::Ended(if upgrade.ready {
        format!("the upgrade to cluster version {next} is open: to finish it, run fairhold cluster upgrade finalize {next}")
    } else {
        format!("the upgrade to cluster version {next} is open, and cannot be finalized yet")
    }))
}

fn print(reply: &ApiReply, upgrade: &ClusterUpgrade, args: &RemoteArgs) -> Result<(), Failure> {
    if OutputFormat::is_body(args.output) {
        return format::write_body(reply);
    }
    format::write(&text(upgrade, OutputFormat::resolve(args.output)))
}

/// The versions, the members, and what blocks the upgrade.
fn text(upgrade: &ClusterUpgrade, format: OutputFormat) -> String {
    let mut table = Table::new(&["ID", "VERSION", "SUPPORTS", "SILENT FOR"]);
    for member in &upgrade.members {
        let cell = |known: Option<String>| known.unwrap_or_else(|| "-".to_owned());
        table.row(vec![
            member.id.to_string(),
            cell(member.version.clone()),
            cell(member.supports.map(|supports| supports.to_string())),
            cell(member.silent_for.as_deref().map(rounded)),
        ]);
    }
    let blockers: String = upgrade.blockers.iter().map(|text| format!("{}\n", format::terminal_safe(text))).collect();
    format!("{}\n{}{blockers}", versions(upgrade), table.take(format))
}

fn versions(upgrade: &ClusterUpgrade) -> String {
    let version = upgrade.cluster_version;
    match upgrade.next {
        Some(next) => format!("cluster version {version}; the next is {next}"),
        None => format!("cluster version {version}; no later one is supported"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn upgrade(version: u16, next: Value, blockers: &[&str]) -> ClusterUpgrade {
        let members = json!([
            { "id": 1, "version": "0.2.0", "supports": [1, 2] },
            { "id": 2, "supports": [1, 1], "silent_for": "1200ms" },
            { "id": 3 },
        ]);
        let ready = !next.is_null() && blockers.is_empty();
        let body = json!({
            "cluster_version": version, "next": next, "ready": ready, "members": members, "blockers": blockers,
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn the_status_shows_versions_members_and_blockers() {
        let open = upgrade(1, json!(2), &["node 2 runs an older program", "node 3 \u{1b}"]);
        let lines = [
            "cluster version 1; the next is 2",
            "ID  VERSION  SUPPORTS  SILENT FOR",
            "1   0.2.0    1 to 2    -",
            "2   -        1         1.2s",
            "3   -        -         -",
            "node 2 runs an older program",
            "node 3 \\u{1b}",
        ];
        assert_eq!(text(&open, OutputFormat::Table), format!("{}\n", lines.join("\n")));
        let finished = text(&upgrade(2, Value::Null, &[]), OutputFormat::Plain);
        assert!(finished.starts_with("cluster version 2; no later one is supported\n1\t0.2.0\t1 to 2\t-\n"), "{finished}");
    }

    #[test]
    fn the_status_fails_while_an_upgrade_is_open() {
        assert!(open(&upgrade(2, Value::Null, &[])).is_ok());
        let reason = |blockers: &[&str]| open(&upgrade(1, json!(2), blockers)).unwrap_err();
        assert_eq!((reason(&[]).code(), reason(&["node 3"]).code()), (1, 1));
        assert!(reason(&[]).to_string().ends_with("run fairhold cluster upgrade finalize 2"));
        assert!(reason(&["node 3"]).to_string().ends_with("cannot be finalized yet"));
    }
}
