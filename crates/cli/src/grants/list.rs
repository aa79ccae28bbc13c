//! `fairhold grants ls`: what owners and sessions hold and wait for, over all locks.

use crate::{
    cluster::older_program,
    pages::{self, PageArgs, PageFields},
    remote::{Api, ApiRequest, Failure, ReadArgs, RemoteArgs},
};

/// Which grants to list.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// List only grants of this owner
    #[arg(long)]
    owner: Option<String>,
    /// List only grants of the session with this number
    #[arg(long, value_name = "NUMBER")]
    session: Option<u64>,
    /// List only locks whose names start with this prefix
    #[arg(long)]
    prefix: Option<String>,
    /// List only grants in this state
    #[arg(long, value_name = "queued|held|cooling")]
    state: Option<String>,
    /// Sort by the time at which they queued, or by lock
    #[arg(long, value_name = "since|lock")]
    sort: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub(super) async fn run(api: &Api, args: &ListArgs, remote: &RemoteArgs) -> Result<(), Failure> {
    let request = ApiRequest::get("/v1/grants")
        .parameter("owner", args.owner.as_ref())
        .parameter("session", args.session)
        .parameter("prefix", args.prefix.as_ref())
        .parameter("state", args.state.as_ref())
        .parameter("sort", args.sort.as_ref());
    let fields = PageFields(
        &["LOCK", "STATE", "PLACE", "GRANT", "SESSION", "OWNER", "TOKEN", "SINCE", "HELD FOR", "WAITS FOR", "ITS OWNER"],
        &[
            "lock",
            "state",
            "position",
            "number",
            "session",
            "owner",
            "token",
            "since",
            "held_for",
            "waits_for.number",
            "waits_for.owner",
        ],
    );
    let listed = pages::list(api, &args.read.apply(request), &args.page, remote.output, &fields).await;
    let listed = listed.map_err(|failure| older_program::explain(failure, "the list of grants"))?;
    listed.note_if_empty("no grant matches", remote);
    Ok(())
}
