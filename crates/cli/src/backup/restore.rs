//! `fairhold backup restore`.

use super::{
    error::BackupError,
    inspect::age,
    source::{now, read},
};
use crate::member::{ServeMember, parse_members};
use fairhold_access::token::AccessTokenNumber;
use fairhold_backup::{BackupHeader, BackupSource, RestoreRequest, is_ahead, restored};
use fairhold_raft::restored_meta;
use fairhold_state::State;
use fairhold_storage::{
    known_members::{KnownAddresses, KnownMembers},
    restored_dir::{self, RestoredNode},
};
use fairhold_types::{ClusterId, NodeId, Revision, limits::NODE_ID_MAX};
use openraft_rt_tokio::TokioRuntime;
use std::{collections::BTreeMap, path::PathBuf};

/// How many access tokens the report lists.
const TOKENS_SHOWN: usize = 20;

/// What an operator accepts with a backup that may lack acknowledged writes.
const LOST_WRITES: &str = "What only other nodes had acknowledged is lost. What this node had, and nobody acknowledged, may \
                           appear. If nodes of the old cluster still run somewhere, two clusters serve, and only the larger \
                           tokens of the new one tell them apart: stop the old nodes for good.";

/// What an operator does when the new cluster serves.
const RESTART: &str = "Then restart every program that used the old cluster: it keeps the id of that one, so the new one refuses \
                       its requests (wrong_cluster)";

#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// File of the backup; `-` reads it from standard input
    file: PathBuf,
    /// Data directory to make; it must be empty, or not exist
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Number of this node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=NODE_ID_MAX))]
    id: NodeId,
    /// A node of the new cluster, with its number and its two addresses; repeat it for every node
    #[arg(long, value_name = "N=http://HOST:PORT,HOST:PORT", required = true)]
    member: Vec<String>,
    /// Largest fencing token that you know; needed if a clock was wrong, or if an earlier restore said so
    #[arg(long, value_name = "REVISION")]
    revision_above: Option<u64>,
    /// Revoke all access tokens in the backup
    #[arg(long)]
    revoke_tokens: bool,
    /// Accept that writes may be missing, and that others may appear
    #[arg(long)]
    accept_lost_writes: bool,
}

pub(super) fn run(args: &RestoreArgs) -> Result<String, BackupError> {
    let members = parse_members(args.id, &args.member).map_err(|error| BackupError::Usage(error.to_string()))?;
    restored_dir::check_empty(&args.data)?;
    let (backup, _) = read(&args.file)?;
    let header = backup.header().clone();
    if header.source.may_lack_writes() && !args.accept_lost_writes {
        return Err(BackupError::Usage(format!(
            "this backup may lack acknowledged writes, because it comes from {}. {LOST_WRITES} If you accept that, repeat the \
             command with --accept-lost-writes. Nothing was written",
            match header.source {
                BackupSource::Stopped => "the data directory of one node",
                BackupSource::Barrier | BackupSource::Local => "a node that may have been behind",
            }
        )));
    }
    let request = RestoreRequest {
        cluster: ClusterId(rand::random()),
        at: now(),
        above: args.revision_above.map(Revision),
        revoke_tokens: args.revoke_tokens,
    };
    let revived = tokens(backup.state());
    let state = restored(backup, &request)?;
    state.check().map_err(BackupError::Inconsistent)?;
    create(args, &members, request.cluster, &state)?;
    Ok(report(args, &members, &request, (&header, &state, revived.as_slice())))
}

fn create(
    args: &RestoreArgs,
    members: &BTreeMap<NodeId, ServeMember>,
    cluster: ClusterId,
    state: &State,
) -> Result<(), BackupError> {
    let known = members.iter().map(|(id, member)| (*id, KnownAddresses::from(member.clone()))).collect();
    let node = RestoredNode {
        id: args.id,
        cluster,
        members: KnownMembers { joined: false, members: known },
        timing: state.membership().timing(),
    };
    let failed = |error| BackupError::File { file: args.data.clone(), error };
    let meta = restored_meta::<TokioRuntime>().map_err(failed)?;
    Ok(restored_dir::create(&args.data, node, (meta, state.snapshot_bytes()), state.snapshot_blocks())?)
}

/// The access tokens, with their users.
fn tokens(state: &State) -> Vec<String> {
    let tokens = state.access().tokens_after(AccessTokenNumber(0));
    tokens.map(|(number, token)| format!("{number} of {}", token.user)).collect()
}

fn report(
    args: &RestoreArgs,
    members: &BTreeMap<NodeId, ServeMember>,
    request: &RestoreRequest,
    (header, state, tokens): (&BackupHeader, &State, &[String]),
) -> String {
    let data = args.data.display();
    let old = header.cluster.map_or_else(|| "none".to_owned(), |cluster| cluster.to_string());
    let census = state.census();
    let mut text = format!(
        "restored node {} of the new cluster {} in {data}\n\
         backup:   {}, node {} of cluster {old}, revision {}\n\
         kept:     {} nodes with {} bytes of values, {} entries of the history, {} of the audit\n\
         ended:    {} sessions, {} grants\n\
         revision: {}; every new token is larger\n",
        args.id,
        request.cluster,
        age(header.at, request.at),
        header.node,
        header.revision,
        census.nodes,
        census.value_bytes,
        census.history,
        state.audit().len(),
        header.sessions,
        header.grants,
        state.revision(),
    );
    text += &of_clocks(args, request, state.revision());
    text += &match (tokens.is_empty(), args.revoke_tokens) {
        (true, _) => "tokens:   the backup has no access tokens\n".to_owned(),
        (false, true) => format!("tokens:   {} access tokens are revoked\n", tokens.len()),
        (false, false) => {
            let more = tokens.len().saturating_sub(TOKENS_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let shown = tokens.iter().take(TOKENS_SHOWN).cloned().collect::<Vec<_>>().join(", ");
            format!("tokens:   valid again, also if they were revoked since: {shown}{more}\n")
        }
    };
    if header.source.may_lack_writes() {
        text += &format!("accepted: {LOST_WRITES}\n");
    }
    if state.access().is_on() {
        text += "rights:   they are enforced, so every call needs a token: start each node with --admin-token-file. Roles, \
                 bindings and disabled users are those of the backup: disable and unbind again what was disabled and unbound \
                 since\n";
    }
    let others: Vec<String> = members.keys().filter(|id| **id != args.id).map(ToString::to_string).collect();
    if others.is_empty() {
        text += &format!("next:     start this node with --data {data}. {RESTART}\n");
    } else {
        text += &format!(
            "next:     start this node with --data {data}, and nodes {} with empty data directories and the same --member list. \
             The cluster begins when all of them have started. {RESTART}\n",
            others.join(", ")
        );
    }
    text
}

/// What the revision rests on: this command does not know the other restores.
fn of_clocks(args: &RestoreArgs, request: &RestoreRequest, revision: Revision) -> String {
    let mut text = String::new();
    if request.above.is_none() {
        text += &format!(
            "clock:    {}. If it is behind the true time, delete {} and restore with --revision-above and the largest fencing \
             token that you know. Do the same if an earlier restore said `ahead`, or had a clock that was ahead, and this backup \
             was made before that restore\n",
            request.at.to_text(),
            args.data.display(),
        );
    }
    if is_ahead(revision, request.at) {
        text += &format!(
            "ahead:    the new tokens are ahead of the clock, which no backup from before this restore knows. To restore one of \
             them after this, this one too, pass --revision-above with the largest fencing token that you know, at least \
             {revision}\n"
        );
    }
    text
}
