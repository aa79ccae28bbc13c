//! `fairhold cluster invite` and `fairhold cluster tokens`: creates, lists and revokes join tokens.

use super::{older_program, token_file::TokenFile};
use crate::{
    output,
    remote::{
        Api, ApiRequest, Failure, ReadArgs, RemoteArgs,
        format::{self, OutputFormat, Table},
        reply::ApiReply,
    },
};
use clap::{Subcommand, value_parser};
use fairhold_client::Method;
use fairhold_types::{
    NodeId,
    dto::{CreatedJoinToken, JoinToken, JoinTokens},
    duration,
    limits::VOTERS_MAX,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

const PATH: &str = "/v1/cluster/join-tokens";
/// How often a token is created anew because the answer with its secret was lost.
const ATTEMPTS_MAX: usize = 3;
/// The file in the printed command, if none was named.
const FILE: &str = "FILE";

#[derive(Debug, clap::Args)]
pub(super) struct InviteArgs {
    /// Let the new node stay a learner: it serves reads and watches, but does not vote
    #[arg(long)]
    learner: bool,
    /// Exchange this member for the new node in one step, with its role; `replace` also shows the progress
    #[arg(long, value_name = "N", conflicts_with = "learner")]
    replaces: Option<NodeId>,
    /// Let nodes use the token again and again until you revoke it, to replace silent members
    ///
    /// A new node gets the place of a member that has the same address and has been silent for 60 seconds, if all other
    /// voters are healthy.
    #[arg(long, conflicts_with_all = ["learner", "replaces", "ttl"])]
    standing: bool,
    /// With --standing, also add voters while there are fewer than N
    #[arg(long, value_name = "N", requires = "standing", value_parser = value_parser!(u8).range(1..=i64::from(VOTERS_MAX)))]
    up_to: Option<u8>,
    /// Let the token expire after this time, from 1m to 7d [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// Write the token to this file, readable only by its owner, and not to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum TokensCommand {
    /// Make a join token invalid; a node that has used it stays (for administrators)
    #[command(after_help = "Example:
  fairhold cluster tokens revoke 3 --auth-token-file admin")]
    Revoke {
        /// Number of the token
        number: u64,
    },
}

/// Creates a token, prints it or writes it to a file, and says how to use it.
pub(super) async fn invite(api: &Api, args: &InviteArgs, remote: &RemoteArgs) -> Result<(), Failure> {
    let file = args.out.as_deref().map(TokenFile::create).transpose()?;
    let body = json!({
        "role": args.learner.then_some("learner"),
        "replaces": args.replaces,
        "standing": args.standing,
        "up_to": args.up_to,
        "ttl": args.ttl.map(duration::format),
    });
    let (reply, created) = create(api, &body).await?;
    deliver(api, &reply, &created, file, args.out.as_deref(), remote).await
}

/// Creates a token. An answer with its secret that was lost cannot be had again: then that token is revoked, and another one
/// is created.
pub(super) async fn create(api: &Api, body: &Value) -> Result<(ApiReply, CreatedJoinToken), Failure> {
    for _ in 0..ATTEMPTS_MAX {
        let reply = api.call(&ApiRequest::change(Method::POST, PATH).json(body)).await?;
        let created: CreatedJoinToken = reply.read()?;
        if created.token.is_some() {
            return Ok((reply, created));
        }
        revoke(api, created.number.0).await?;
    }
    let why = "the answers with the join token were lost, and the tokens were revoked: run the command again";
    Err(Failure::Ended(why.to_owned()))
}

/// Prints the token, or writes it to its file, and says on stderr what to do with it. Revokes it if nobody can have it.
pub(super) async fn deliver(
    api: &Api,
    reply: &ApiReply,
    created: &CreatedJoinToken,
    file: Option<TokenFile>,
    path: Option<&Path>,
    remote: &RemoteArgs,
) -> Result<(), Failure> {
    let delivered = hand_out(reply, created, file, path, remote);
    if delivered.is_err() {
        revoke(api, created.number.0).await?;
    }
    delivered
}

fn hand_out(
    reply: &ApiReply,
    created: &CreatedJoinToken,
    file: Option<TokenFile>,
    path: Option<&Path>,
    remote: &RemoteArgs,
) -> Result<(), Failure> {
    let token = created.token.as_deref().unwrap_or_default();
    if let Some(file) = file {
        file.write(token)?;
    }
    if OutputFormat::is_body(remote.output) {
        format::write_body(reply)?;
    } else if path.is_none() {
        format::write(&format!("{}\n", format::terminal_safe(token)))?;
    }
    if !remote.connect.quiet {
        instructions(created, path).iter().for_each(|line| output::note(line));
    }
    Ok(())
}

/// What the token is for, and the command for the new machine.
fn instructions(created: &CreatedJoinToken, path: Option<&Path>) -> Vec<String> {
    let place = path.map_or_else(String::new, |path| format!(" is in {}:", path.display()));
    let purpose = match (created.replaces, created.standing) {
        (Some(old), _) => format!("a new node replaces node {old}"),
        (None, true) => match created.up_to {
            Some(count) => format!("new nodes replace silent members, or join while there are fewer than {count} voters"),
            None => "new nodes replace silent members".to_owned(),
        },
        (None, false) => format!("a new node joins as a {}", created.role),
    };
    let end = match &created.expires_at {
        Some(end) => format!("it can be used once, until {end}"),
        None => format!("it can be used until you revoke it: fairhold cluster tokens revoke {}", created.number),
    };
    let separator = if place.is_empty() { ":" } else { "" };
    let file = path.and_then(Path::file_name).map_or_else(|| FILE.into(), |name| name.to_string_lossy());
    let copy = match path {
        Some(_) => "copy the file to the new machine",
        None => "write the line above to a file on the new machine (umask 077)",
    };
    let options = "HOST is the new machine. Pass the same --insecure, --peer-key-file, certificates and --admin-token-file as \
                   the other nodes have";
    vec![
        format!("join token {}{separator}{place} {purpose}; {end}", created.number),
        format!("{copy}, and start the node there with an empty data directory:"),
        format!("  fairhold serve --data DIR --join-file {file} --advertise http://HOST:7171,HOST:7271"),
        options.to_owned(),
    ]
}

/// Lists the tokens, without their secrets.
pub(super) async fn list(api: &Api, read: &ReadArgs, requested: Option<OutputFormat>) -> Result<(), Failure> {
    let reply = api.call(&read.apply(ApiRequest::get(PATH))).await.map_err(explain)?;
    if requested == Some(OutputFormat::Json) {
        return format::write_body(&reply);
    }
    if requested == Some(OutputFormat::Ndjson) {
        let list: Value = reply.read()?;
        return list["tokens"].as_array().into_iter().flatten().try_for_each(format::write_line);
    }
    let JoinTokens { tokens, .. } = reply.read()?;
    format::write(&table(&tokens, OutputFormat::resolve(requested)))
}

/// The tokens of the cluster.
pub(super) async fn tokens(api: &Api) -> Result<Vec<JoinToken>, Failure> {
    let JoinTokens { tokens, .. } = api.call(&ApiRequest::get(PATH)).await.map_err(explain)?.read()?;
    Ok(tokens)
}

fn table(tokens: &[JoinToken], format: OutputFormat) -> String {
    let mut table = Table::new(&["NUMBER", "ROLE", "REPLACES", "USES", "EXPIRES", "USED BY", "CREATED", "BY"]);
    let dash = || "-".to_owned();
    for token in tokens {
        let uses = match (token.standing, token.up_to) {
            (true, Some(count)) => format!("many, up to {count} voters"),
            (true, None) => "many".to_owned(),
            (false, _) => "one".to_owned(),
        };
        table.row(vec![
            token.number.to_string(),
            token.role.to_string(),
            token.replaces.map_or_else(dash, |id| id.to_string()),
            uses,
            token.expires_at.clone().unwrap_or_else(|| "never".to_owned()),
            token.used_by.map_or_else(dash, |id| format!("node {id}")),
            token.created_at.clone(),
            if token.by.is_empty() { dash() } else { token.by.clone() },
        ]);
    }
    table.take(format)
}

/// Makes a token invalid, and says whether the cluster had it. Without it there is nothing to revoke, perhaps because of
/// an earlier attempt.
pub(super) async fn revoke_and_report(api: &Api, number: u64, remote: &RemoteArgs) -> Result<(), Failure> {
    let token = tokens(api).await?.into_iter().find(|token| token.number.0 == number);
    revoke(api, number).await?;
    if !remote.connect.quiet {
        output::note(&revoked(number, token.as_ref()));
    }
    Ok(())
}

fn revoked(number: u64, token: Option<&JoinToken>) -> String {
    match token {
        None => format!(
            "there is no join token {number}: it has expired, was revoked before, or never existed. To see those that are valid: \
             fairhold cluster tokens"
        ),
        Some(JoinToken { used_by: Some(node), .. }) => {
            format!("join token {number} was used by node {node}, which stays; it admits no other node")
        }
        Some(_) => format!("join token {number} is no longer valid"),
    }
}

/// Makes a token invalid. A number without a token is no failure.
pub(super) async fn revoke(api: &Api, number: u64) -> Result<(), Failure> {
    let request = ApiRequest::unkeyed(Method::DELETE, format!("{PATH}/{number}"));
    api.call(&request).await.map_err(explain).map(|_| ())
}

fn explain(failure: Failure) -> Failure {
    older_program::explain(failure, "join tokens")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(fields: Value) -> CreatedJoinToken {
        let mut body = json!({ "number": 3, "token": "fhj1.x", "role": "voter", "standing": false, "command": "c" });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn the_instructions_have_the_command_for_the_new_machine() {
        let once = created(json!({ "replaces": 2, "expires_at": "19:00" }));
        let lines = instructions(&once, Some(Path::new("/tmp/join.token")));
        let first = "join token 3 is in /tmp/join.token: a new node replaces node 2; it can be used once, until 19:00";
        assert_eq!(lines[0], first);
        assert_eq!(lines[2], "  fairhold serve --data DIR --join-file join.token --advertise http://HOST:7171,HOST:7271");
        assert!(lines[3].contains("the same --insecure, --peer-key-file, certificates and --admin-token-file"), "{lines:?}");
        let learner = created(json!({ "role": "learner", "expires_at": "soon" }));
        let lines = instructions(&learner, None);
        assert_eq!(lines[0], "join token 3: a new node joins as a learner; it can be used once, until soon");
        assert!(lines[1].starts_with("write the line above to a file") && lines[2].contains("--join-file FILE "), "{lines:?}");
        let standing = instructions(&created(json!({ "standing": true, "up_to": 5 })), None);
        assert!(standing[0].contains("or join while there are fewer than 5 voters; it can be used until you revoke it"));
    }

    #[test]
    fn a_token_is_a_row() {
        let token = |fields: Value| {
            let mut body = json!({ "number": 3, "role": "voter", "standing": false, "created_at": "then", "by": "" });
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            serde_json::from_value::<JoinToken>(body).unwrap()
        };
        let tokens = [
            token(json!({ "replaces": 2, "expires_at": "soon", "used_by": 4, "by": "curl@n1" })),
            token(json!({ "standing": true, "up_to": 5 })),
        ];
        let text = table(&tokens, OutputFormat::Plain);
        let rows = ["3\tvoter\t2\tone\tsoon\tnode 4\tthen\tcurl@n1", "3\tvoter\t-\tmany, up to 5 voters\tnever\t-\tthen\t-"];
        assert_eq!(text, format!("{}\n", rows.join("\n")));
    }
}
