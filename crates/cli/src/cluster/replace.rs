//! `fairhold cluster replace`: creates a join token for the new machine, and shows the progress until the new node has the
//! place of the old one. The cluster does the work: if you stop this command, only the display stops.

use super::{
    join_tokens,
    members::{self, MembersView},
    token_file::TokenFile,
};
use crate::{
    output,
    remote::{Api, Failure, RemoteArgs},
    signals::StopSignals,
};
use fairhold_health::cluster_probe::normalized_url;
use fairhold_types::{
    JoinTokenNumber, MemberRole, NodeId,
    dto::{Join, JoinPhase, JoinToken, MemberEntry},
    duration,
};
use serde_json::json;
use std::{path::PathBuf, time::Duration};
use tokio::time::{Instant, sleep};

/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A member that has not answered the leader for this long is down, rather than slow.
const SILENT: Duration = Duration::from_secs(5);
/// A member that answered the leader less than this long ago is running.
const ANSWERS: Duration = Duration::from_secs(1);
/// How often a number that changes all the time is reported.
const REPORT_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(super) struct ReplaceArgs {
    /// Number of the member to replace; it may be dead, or lead
    id: NodeId,
    /// Write the join token to this file, readable only by its owner, and not to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// How far a replacement is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// No node has shown the token yet.
    Waiting,
    /// A node joins.
    Joining {
        id: NodeId,
        step: String,
        /// What the step waits for. Its numbers may change all the time.
        detail: Option<String>,
    },
    /// The old node is no member any more. The new one, if it was seen.
    Done(Option<NodeId>),
    /// It cannot complete.
    Over(String),
}

/// Runs the command.
pub(super) async fn run(api: &Api, args: &ReplaceArgs, remote: &RemoteArgs) -> Result<(), Failure> {
    let id = args.id;
    let before = members::view(api).await?;
    let number = match check(id, &before)? {
        Old::Replaced(join) => {
            note(remote, &already(id, join));
            None
        }
        Old::Member(role) => {
            if let Some(warning) = other_is_silent(id, &before).or_else(|| answers_now(id, &before)) {
                note(remote, &warning);
            }
            let file = args.out.as_deref().map(TokenFile::create).transpose()?;
            let (reply, created) = join_tokens::create(api, &json!({ "role": role, "replaces": id })).await?;
            join_tokens::deliver(api, &reply, &created, file, args.out.as_deref(), remote).await?;
            if let Some(warning) = other_tokens(id, created.number, &join_tokens::tokens(api).await?) {
                note(remote, &warning);
            }
            Some(created.number)
        }
    };
    note(remote, "the progress follows; Ctrl-C stops only this display");
    let mut signals = StopSignals::new()?;
    tokio::select! {
        biased;
        _ = signals.received() => Err(Failure::Ended(stopped(number))),
        done = follow(api, id, number, before, remote) => done,
    }
}

/// What goes on without the display.
fn stopped(number: Option<JoinTokenNumber>) -> String {
    let stays = number.map_or_else(String::new, |number| format!("join token {number} stays valid, and "));
    let revoke =
        number.map_or_else(String::new, |number| format!("; to revoke the token: fairhold cluster tokens revoke {number}"));
    format!(
        "only the display has stopped: {stays}a replacement that has begun continues. To see how far it is: fairhold cluster \
         members{revoke}"
    )
}

fn note(remote: &RemoteArgs, text: &str) {
    if !remote.connect.quiet {
        output::note(text);
    }
}

/// The node to replace.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Old<'v> {
    /// This join replaces it already.
    Replaced(&'v Join),
    /// A member, and the role of the node that replaces it.
    Member(MemberRole),
}

fn already(id: NodeId, join: &Join) -> String {
    let new = join.id;
    format!(
        "node {new} at {} replaces node {id} already: no other join token is needed. If the data of node {new} is lost, give its \
         join up (fairhold cluster remove {new}), and run this again",
        join.url
    )
}

/// What to say if the node to replace answers the leader: another node may have died a moment ago, and the operator may mean
/// that one.
fn answers_now(id: NodeId, view: &MembersView) -> Option<String> {
    let member = view.members.iter().find(|member| member.id == id).filter(|_| view.from_leader)?;
    // A new leader may not have heard of a member yet.
    let silent_for = member.silent_for.as_deref().and_then(|text| duration::parse(text).ok());
    let answers = member.role == "leader" || silent_for.is_some_and(|time| time < ANSWERS);
    answers.then(|| {
        format!(
            "node {id} answers now, and stays a member until the new node takes its place; if you mean another node, press Ctrl-C"
        )
    })
}

/// What to say if the node to replace answers the leader, and another voter does not: the operator may mean that one.
fn other_is_silent(id: NodeId, view: &MembersView) -> Option<String> {
    let is_silent = |member: &&MemberEntry| {
        let silent_for = member.silent_for.as_deref().and_then(|text| duration::parse(text).ok());
        silent_for.is_some_and(|time| time >= SILENT)
    };
    let silent: Vec<NodeId> = view.members.iter().filter(is_silent).map(|member| member.id).collect();
    let other = silent.first().filter(|_| view.from_leader && !silent.contains(&id))?;
    Some(format!(
        "node {id} answers, and node {other} does not: if you mean node {other}, press Ctrl-C, and run fairhold cluster replace \
         {other}"
    ))
}

/// What to say if there are other tokens with which a node could replace this one.
fn other_tokens(id: NodeId, created: JoinTokenNumber, tokens: &[JoinToken]) -> Option<String> {
    let others = tokens.iter().filter(|token| token.replaces == Some(id) && token.used_by.is_none() && token.number != created);
    let numbers: Vec<String> = others.map(|token| token.number.to_string()).collect();
    let is_one = numbers.len() == 1;
    let (tokens, are) = if is_one { ("token", "is") } else { ("tokens", "are") };
    (!numbers.is_empty()).then(|| {
        format!(
            "the earlier join {tokens} {} for node {id} {are} still valid: to revoke one, run fairhold cluster tokens revoke N",
            numbers.join(", ")
        )
    })
}

fn check(id: NodeId, view: &MembersView) -> Result<Old<'_>, Failure> {
    if let Some(join) = replacing(id, view) {
        return Ok(Old::Replaced(join));
    }
    match view.members.iter().find(|member| member.id == id) {
        None => {
            let known: Vec<String> = view.members.iter().map(|member| member.id.to_string()).collect();
            Err(Failure::Ended(format!("node {id} is not a member: choose one of the members, which are {}", known.join(", "))))
        }
        Some(member) => Ok(Old::Member(if member.role == "learner" { MemberRole::Learner } else { MemberRole::Voter })),
    }
}

fn replacing(id: NodeId, view: &MembersView) -> Option<&Join> {
    view.joins.iter().find(|join| join.replaces == Some(id))
}

/// Reports the progress until the replacement is over.
async fn follow(
    api: &Api,
    old: NodeId,
    number: Option<JoinTokenNumber>,
    before: MembersView,
    remote: &RemoteArgs,
) -> Result<(), Failure> {
    let mut api = reaching(api, remote, &before)?;
    let mut progress = Progress::default();
    loop {
        match look(&api, old, number).await {
            Ok((stage, view)) => {
                api = reaching(&api, remote, &view)?;
                if let Some(line) = progress.line(old, &stage, Instant::now()) {
                    note(remote, &line);
                }
                match stage {
                    Stage::Done(_) => return Ok(()),
                    Stage::Over(why) => return Err(Failure::Ended(why)),
                    Stage::Waiting | Stage::Joining { .. } => {}
                }
            }
            // The nodes may elect a leader, or this machine may have lost its network for a moment.
            Err(Failure::Unavailable(why)) => note(remote, &format!("{why}; the replacement does not depend on this display")),
            Err(failure) => return Err(failure),
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The same cluster through the given nodes and the current members: the given ones may all be replaced.
fn reaching(api: &Api, remote: &RemoteArgs, view: &MembersView) -> Result<Api, Failure> {
    let mut urls = remote.connect.urls()?;
    for url in view.members.iter().map(|member| normalized_url(&member.url)) {
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    Ok(api.at(urls))
}

async fn look(api: &Api, old: NodeId, number: Option<JoinTokenNumber>) -> Result<(Stage, MembersView), Failure> {
    // First the token, then the members: if a node has used the token, its join is among them, or complete.
    let token = match number {
        Some(number) => join_tokens::tokens(api).await?.into_iter().find(|token| token.number == number),
        None => None,
    };
    let view = members::view(api).await?;
    Ok((stage(old, number, token.as_ref(), &view), view))
}

fn stage(old: NodeId, number: Option<JoinTokenNumber>, token: Option<&JoinToken>, view: &MembersView) -> Stage {
    let used_by = token.and_then(|token| token.used_by);
    if let Some(join) = replacing(old, view) {
        return joining(old, join);
    }
    if !view.from_leader {
        return Stage::Waiting;
    }
    if view.members.iter().all(|member| member.id != old) {
        // The token outlives its use for a while.
        if let Some(unused) = token.filter(|token| token.used_by.is_none()) {
            return Stage::Over(format!(
                "node {old} is no member any more, but no node has used the join token: it was removed, or replaced with another \
                 token. To see the members: fairhold cluster members; to revoke the token: fairhold cluster tokens revoke {}",
                unused.number
            ));
        }
        return Stage::Done(used_by);
    }
    match (used_by, token, number) {
        (Some(new), ..) => Stage::Over(format!(
            "node {new} has used the join token, but does not join any more; node {old} is still a member. To try again, run \
             fairhold cluster replace {old}"
        )),
        (None, None, Some(number)) => Stage::Over(format!(
            "join token {number} has expired or was revoked before a node used it; node {old} is still a member. To try again, \
             run fairhold cluster replace {old}"
        )),
        (None, None, None) => Stage::Over(format!(
            "the join was given up; node {old} is still a member. To try again, run fairhold cluster replace {old}"
        )),
        (None, Some(_), _) => Stage::Waiting,
    }
}

fn joining(old: NodeId, join: &Join) -> Stage {
    let id = join.id;
    let step = match join.phase {
        JoinPhase::Pending => format!("node {id} at {} has joined, and becomes a learner", join.url),
        JoinPhase::CatchingUp => format!("node {id} catches up"),
        JoinPhase::Promoting => format!("node {id} takes the place of node {old}"),
    };
    let behind = join.lag.filter(|_| join.phase == JoinPhase::CatchingUp);
    let behind = behind.map(|lag| format!("it is {lag} log entries behind the leader"));
    Stage::Joining { id, step, detail: join.waits_for.clone().or(behind) }
}

/// What was reported last.
#[derive(Debug, Default)]
struct Progress {
    line: String,
    reported_at: Option<Instant>,
    /// The new node.
    new: Option<NodeId>,
}

impl Progress {
    /// The line to print, if something has changed.
    fn line(&mut self, old: NodeId, stage: &Stage, now: Instant) -> Option<String> {
        let line = match stage {
            Stage::Waiting => "waiting for the new node to show the join token".to_owned(),
            Stage::Joining { id, step, detail } => {
                self.new = Some(*id);
                detail.as_ref().map_or_else(|| step.clone(), |detail| format!("{step}: {detail}"))
            }
            Stage::Done(used_by) => match used_by.or(self.new) {
                Some(new) => format!("done: node {new} has replaced node {old}"),
                None => format!("done: node {old} has been replaced"),
            },
            Stage::Over(_) => return None,
        };
        let without_numbers = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "");
        let is_due = self.reported_at.is_none_or(|at| now.duration_since(at) >= REPORT_EVERY);
        if line == self.line || !is_due && without_numbers(&line) == without_numbers(&self.line) {
            return None;
        }
        self.reported_at = Some(now);
        self.line.clone_from(&line);
        Some(line)
    }
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;
