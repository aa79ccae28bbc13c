//! `fairhold elections`: lists elections, shows and watches the leader, and proclaims another value. `fairhold elect` stands
//! for an election.

use crate::{
    cluster::older_program,
    output,
    pages::{PageArgs, PageFields, list},
    remote::{
        self, Api, ApiRequest, Failure, LongPollArgs, ReadArgs, RemoteArgs,
        format::{self, OutputFormat, Table, cell, terminal_safe},
        request::encode,
    },
};
use clap::Subcommand;
use fairhold_client::Method;
use fairhold_client::{ElectionEvent, Observer};
use fairhold_types::{Revision, election::Leader};
use serde_json::{Value, json};
use std::{io, process::ExitCode};

#[derive(Debug, clap::Args)]
pub(crate) struct ElectionsArgs {
    #[command(subcommand)]
    command: ElectionsCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum ElectionsCommand {
    /// List the elections
    #[command(after_help = "Examples:
  fairhold elections ls
  fairhold elections ls --prefix orders/ --limit 10 -o json")]
    #[command(alias = "list")]
    Ls {
        /// List only elections whose names start with this prefix
        #[arg(long)]
        prefix: Option<String>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show the leader of an election and its value
    #[command(after_help = "Example:
  fairhold elections show primary")]
    Show {
        /// Name of the election
        name: String,
        #[command(flatten)]
        long_poll: LongPollArgs,
    },
    /// Print every leader and every value as they change, once and in order
    #[command(after_help = "Example:
  fairhold elections watch primary -o ndjson")]
    Watch {
        /// Name of the election
        name: String,
        /// Start at this revision, inclusive [default: start with the current leader]
        #[arg(long, value_name = "REVISION")]
        from: Option<u64>,
    },
    /// Proclaim another value as the leader
    #[command(after_help = "Example:
  fairhold elections proclaim primary http://10.0.0.7:8081 --grant 01ARZ3NDEKTSV4RRFFQ69G5FAV")]
    Proclaim {
        /// Name of the election
        name: String,
        /// New value
        value: String,
        /// Prove the leadership with this grant's secret id; `fairhold elect` sets it for its command
        #[arg(long, value_name = "ID", env = "FAIRHOLD_GRANT", hide_env_values = true)]
        grant: String,
    },
}

/// Runs the command.
pub(crate) fn main(args: &ElectionsArgs) -> ExitCode {
    remote::run(&args.remote, async |api| run(api, args).await)
}

async fn run(api: &Api, args: &ElectionsArgs) -> Result<(), Failure> {
    let requested = args.remote.output;
    let url = |name: &str| format!("/v1/elections/{}", encode(name));
    let (reply, fields): (_, &'static [&'static str]) = match &args.command {
        ElectionsCommand::Ls { prefix, page, read } => {
            let request = ApiRequest::get("/v1/elections").parameter("prefix", prefix.as_ref());
            let fields = PageFields(
                &["ELECTION", "LEADER", "VALUE", "TOKEN", "SINCE", "LEADS FOR", "WAITING"],
                &["election", "leader.owner", "value", "token", "leader.since", "leader.held_for", "waiting"],
            );
            let listed = list(api, &read.apply(request), page, requested, &fields).await;
            return listed.map(drop).map_err(|failure| older_program::explain(failure, "the list of elections"));
        }
        ElectionsCommand::Show { name, long_poll } => {
            (api.call(&long_poll.apply(ApiRequest::get(url(name)))).await?, &["election", "value", "token", "version", "session"])
        }
        ElectionsCommand::Proclaim { name, value, grant } => {
            let request = ApiRequest::change(Method::PUT, url(name)).json(&json!({ "grant": grant, "value": value }));
            (api.call(&request).await?, &["election", "version", "revision"])
        }
        ElectionsCommand::Watch { name, from } => {
            let client = remote::client(&args.remote.connect, None)?;
            let observer = client.observe(name).map_err(|error| Failure::from_client(&error))?;
            let observer = match from {
                Some(from) => observer.from(Revision(*from)),
                None => observer,
            };
            let following = follow(observer, requested);
            return remote::unless_other_cluster(&client, args.remote.connect.timeout, following).await;
        }
    };
    if OutputFormat::is_body(requested) {
        return format::write_body(&reply);
    }
    let answer: Value = reply.read()?;
    let mut table = Table::new(&["FIELD", "VALUE"]);
    for field in fields {
        table.row(vec![(*field).to_owned(), cell(&answer, field)]);
    }
    if !answer["leader"].is_null() {
        table.row(vec!["leader".to_owned(), cell(&answer["leader"], "owner")]);
        table.row(vec!["held_for".to_owned(), cell(&answer["leader"], "held_for")]);
    }
    format::write(&table.take(OutputFormat::resolve(requested)))
}

/// Prints a line for each event until the reader is gone.
async fn follow(mut observer: Observer, requested: Option<OutputFormat>) -> Result<(), Failure> {
    loop {
        let event = observer.next().await.map_err(|error| Failure::from_client(&error))?;
        match output::write_stdout(&line(&event, requested)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
}

fn line(seen: &ElectionEvent, requested: Option<OutputFormat>) -> String {
    let (kind, leader) = match seen {
        ElectionEvent::Elected(leader) => ("elected", Some(leader)),
        ElectionEvent::Proclaimed(leader) => ("proclaimed", Some(leader)),
        ElectionEvent::Vacant => ("vacant", None),
        ElectionEvent::Missed | _ => ("missed", None),
    };
    match (OutputFormat::resolve(requested), leader) {
        (OutputFormat::Json | OutputFormat::Ndjson, Some(leader)) => format!("{}\n", as_json(kind, leader)),
        (OutputFormat::Json | OutputFormat::Ndjson, None) => format!("{}\n", json!({ "type": kind })),
        (OutputFormat::Table | OutputFormat::Plain, Some(leader)) => {
            format!("{kind}\t{}\t{}\t{}\n", leader.token, terminal_safe(&leader.value), terminal_safe(&leader.owner))
        }
        (OutputFormat::Table | OutputFormat::Plain, None) => format!("{kind}\n"),
    }
}

fn as_json(kind: &str, leader: &Leader) -> Value {
    let mut line = json!({ "type": kind });
    if let (Value::Object(line), Ok(Value::Object(leader))) = (&mut line, serde_json::to_value(leader)) {
        line.extend(leader);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{FencingToken, GrantNumber, SessionNumber};

    #[test]
    fn a_leader_is_one_line() {
        let leader = Leader {
            token: FencingToken(58),
            value: "http://a\t".to_owned(),
            version: 0,
            number: GrantNumber(57),
            session: SessionNumber(57),
            owner: "ci-9".to_owned(),
        };
        let seen = ElectionEvent::Elected(leader);
        assert_eq!(line(&seen, Some(OutputFormat::Plain)), "elected\t58\thttp://a\\t\tci-9\n");
        assert!(line(&seen, Some(OutputFormat::Ndjson)).contains(r#""token":58"#));
        assert_eq!(line(&ElectionEvent::Vacant, Some(OutputFormat::Plain)), "vacant\n");
        assert_eq!(line(&ElectionEvent::Vacant, Some(OutputFormat::Ndjson)), "{\"type\":\"vacant\"}\n");
    }
}
