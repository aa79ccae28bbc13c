//! `fairhold locks history`: shows the holders of one lock or of all locks, and how each hold ended.

use crate::{
    cluster::older_program,
    moment,
    pages::{PageArgs, PageFields, list},
    remote::{Api, ApiRequest, Failure, ReadArgs, RemoteArgs, request::encode},
};

/// What to show of the history.
#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// Name of the lock [default: all locks]
    name: Option<String>,
    /// Show only the holders at this revision or time (UTC): 14:03, 2026-11-21T14:03:27Z, '10m ago'
    #[arg(long, value_name = "TIME|REVISION", value_parser = moment::parse)]
    at: Option<String>,
    /// Without NAME, show only holds that ended after this revision or time, or have not ended
    #[arg(long, value_name = "TIME|REVISION", value_parser = moment::parse, conflicts_with_all = ["at", "name"])]
    from: Option<String>,
    /// Without NAME, show only holds that began before this revision or time
    #[arg(long, value_name = "TIME|REVISION", value_parser = moment::parse, conflicts_with_all = ["at", "name"])]
    to: Option<String>,
    /// Without NAME, show only holds of this owner
    #[arg(long, conflicts_with = "name")]
    owner: Option<String>,
    /// Without NAME, show only locks whose names start with this prefix
    #[arg(long, conflicts_with = "name")]
    prefix: Option<String>,
    /// Without NAME, show only holds that ended in this way
    #[arg(long, value_name = "released|expired|broken|withdrawn|upgraded|downgraded", conflicts_with = "name")]
    ended: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub(super) async fn run(api: &Api, args: &HistoryArgs, remote: &RemoteArgs) -> Result<(), Failure> {
    let (request, fields, empty) = match &args.name {
        Some(name) => (
            ApiRequest::get(format!("/v1/locks/{}/history", encode(name))),
            PageFields(
                &["GRANT", "SESSION", "OWNER", "MODE", "TOKEN", "FROM", "TO", "HELD FOR", "ENDED", "BY", "REASON"],
                &["number", "session", "owner", "mode", "token", "from", "to", "held_for", "ended", "by", "reason"],
            ),
            format!("the history of {name} is empty"),
        ),
        None => (
            ApiRequest::get("/v1/history")
                .parameter("from", args.from.as_ref())
                .parameter("to", args.to.as_ref())
                .parameter("owner", args.owner.as_ref())
                .parameter("prefix", args.prefix.as_ref())
                .parameter("ended", args.ended.as_ref()),
            PageFields(
                &["LOCK", "GRANT", "SESSION", "OWNER", "MODE", "TOKEN", "FROM", "TO", "HELD FOR", "ENDED", "BY", "REASON"],
                &["lock", "number", "session", "owner", "mode", "token", "from", "to", "held_for", "ended", "by", "reason"],
            ),
            "no hold matches".to_owned(),
        ),
    };
    let request = args.read.apply(request.parameter("at", args.at.as_ref()));
    let listed = list(api, &request, &args.page, remote.output, &fields).await;
    let explained = listed.map_err(|failure| match args.name {
        // Every program knows this call.
        Some(_) => failure,
        None => older_program::explain(failure, "the history of all locks"),
    });
    explained?.note_if_empty(&empty, remote);
    Ok(())
}
