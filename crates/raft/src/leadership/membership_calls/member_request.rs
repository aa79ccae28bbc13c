//! One request about a member at the leader, and how it changes Raft's membership.

use crate::{
    base::{error::ProposeError, membership::MembershipError, types::Member, wall_clock::wall_now},
    core::{Core, Leadership},
    leadership::{
        handover,
        membership_calls::ready::turn,
        reconciler::{
            plan::{Health, Phase},
            steps::{self, Changes, StepError},
            view::{Answered, Sight, ask, look},
        },
    },
    propose::times::ProposalOutcome,
    queues::Queues,
};
use fairhold_state::command::{AccessGuard, ActOrigin, Command, NoteAct, NotedAct, NotedEnd, Rejection, WriteKey};
use fairhold_types::{NodeId, time::WallMillis};
use openraft::{AsyncRuntime, Instant as _};
use std::time::Duration;

/// Pause before another attempt while other changes are in progress.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// How long the note of a change may take at least, also if its caller has no time left.
const NOTE_TIMEOUT: Duration = Duration::from_secs(30);

/// One request at the leader.
pub(super) struct Request<'c, RT: AsyncRuntime> {
    pub(super) core: &'c Core<RT>,
    pub(super) queues: &'c Queues,
    pub(super) leadership: Leadership,
    /// By which access data it was decided, if rights are enforced.
    pub(super) guard: Option<AccessGuard>,
    /// Where it comes from, for the audit.
    pub(super) origin: Option<ActOrigin>,
    pub(super) deadline: RT::Instant,
}

/// A change of Raft's membership that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// By this request.
    Now,
    /// Before this request.
    Before,
}

impl<RT: AsyncRuntime> Request<'_, RT> {
    /// Refuses the request if the rights of its principal were narrowed after it was decided. Raft's own changes of members
    /// are no commands of the state, so `apply` compares no guard: this does, directly before each change.
    pub(super) fn check_guard(&self) -> Result<(), MembershipError> {
        let state = self.core.shared.read();
        state.require_guard(self.guard).map_err(|_| MembershipError::AccessChanged { revision: state.revision() })
    }

    pub(super) fn sight(&self) -> Sight {
        self.sight_with(Answered::Lately)
    }

    /// Like `sight`, after a question to the voters and this node: only those that answer it count as healthy.
    pub(super) async fn sight_of_the_answering(&self, node: NodeId) -> Sight {
        self.sight_with(ask(self.core, [node]).await)
    }

    fn sight_with(&self, answered: Answered<RT::Instant>) -> Sight {
        let state = self.core.shared.read().clone();
        look(self.core, state.membership(), false, answered, |_, is_close| is_close)
    }

    /// Makes a change of Raft's membership that `decide` chooses, once the voters do not change otherwise. `None` if
    /// there is nothing to change. `conflict` finds the pending request about the node that does not allow it.
    ///
    /// If the change has begun and its end is not known, the error is `Unfinished`, or `NoLeader` if this node leads no more:
    /// the caller then asks the next leader, which finds the change made, or makes it.
    pub(super) async fn change_members(
        &self,
        node: NodeId,
        conflict: fn(&Sight, NodeId) -> Option<String>,
        decide: impl Fn(&Sight) -> Result<Option<Changes>, MembershipError>,
    ) -> Result<Made, MembershipError> {
        let mut has_begun = false;
        let changed = self.change_members_if(node, conflict, decide, &mut has_begun).await;
        match changed {
            Err(MembershipError::NoLeader) if has_begun => {
                tracing::warn!(node, "a change of node {node} has begun and may be missing in the audit: another node leads");
                Err(MembershipError::NoLeader)
            }
            Err(error) if has_begun => {
                tracing::debug!(node, "a change of node {node} has begun, and its end is not known: {error}");
                Err(MembershipError::Unfinished { what: format!("the change of node {node}") })
            }
            changed => changed,
        }
    }

    async fn change_members_if(
        &self,
        node: NodeId,
        conflict: fn(&Sight, NodeId) -> Option<String>,
        decide: impl Fn(&Sight) -> Result<Option<Changes>, MembershipError>,
        has_begun: &mut bool,
    ) -> Result<Made, MembershipError> {
        loop {
            if self.core.leadership() != Some(self.leadership) {
                return Err(MembershipError::NoLeader);
            }
            let turn = turn(self.core, self.deadline).await?;
            let sight = self.sight_of_the_answering(node).await;
            require_member(&sight, node)?;
            if let Some(other) = conflict(&sight, node) {
                return Err(in_progress(other));
            }
            if sight.view.phase == Phase::Uniform {
                let Some(changes) = decide(&sight)? else { return Ok(if *has_begun { Made::Now } else { Made::Before }) };
                self.check_guard()?;
                *has_begun = true;
                let changed = steps::change(self.core, self.leadership, sight.set_by, changes, true);
                match RT::timeout_at(self.deadline, changed).await {
                    Ok(Ok(())) => return Ok(Made::Now),
                    Ok(Err(StepError::Deposed)) => return Err(MembershipError::NoLeader),
                    Ok(Err(error)) => tracing::debug!(node, "the change of node {node} is tried again: {error}"),
                    Err(_) => return Err(in_progress(format!("the change of node {node}"))),
                }
            }
            drop(turn);
            let pause = RT::sleep(RETRY_PAUSE);
            if RT::timeout_at(self.deadline, pause).await.is_err() {
                return Err(in_progress("the voters are changing".to_owned()));
            }
        }
    }

    /// Hands the leadership over, because of what this node is to become. The next leader serves the request: the
    /// caller tries it again there. Rights may have been narrowed while the members were asked.
    pub(super) async fn hand_over(&self, sight: &Sight, why: &str) -> MembershipError {
        if let Err(refused) = self.check_guard() {
            return refused;
        }
        let Some(to) = sight.view.successor() else {
            let mut voters = sight.view.voters.clone();
            voters.remove(&self.core.id);
            let Health { voters, needed, .. } = sight.view.health(&voters);
            return MembershipError::WouldLoseQuorum { voters, healthy: 0, needed };
        };
        tracing::info!(node = to, "transferring the leadership to node {to}, because {why}");
        handover::transfer_to(self.core, to).await;
        MembershipError::NoLeader
    }

    /// Makes a change unless it was made before under the same key. Then notes it and records the key.
    pub(super) async fn once(
        &self,
        key: Option<WriteKey>,
        act: NotedAct,
        change: impl Future<Output = Result<Made, MembershipError>>,
    ) -> Result<(), MembershipError> {
        if self.was_done(key)? {
            return Ok(());
        }
        self.noted(key, act, change.await).await?;
        match key {
            // The time is only for display, and this one is never shown.
            Some(key) => self.propose(Command::RecordKey { key, at: WallMillis(0) }).await,
            None => Ok(()),
        }
    }

    pub(super) fn was_done(&self, key: Option<WriteKey>) -> Result<bool, MembershipError> {
        let Some(key) = key else { return Ok(false) };
        self.core.shared.read().was_written(key).map_err(|_| MembershipError::OtherRequest)
    }

    /// Notes a change of Raft's membership, which is no command of the state. What has begun is noted too. What this request
    /// made is noted in any case: an earlier try may have left a note, and no key. The note may be missing if the queue
    /// refuses it or this leader is deposed just now: then the log of the node says so. If the caller hears of that, it asks
    /// the next leader, which finds the change made and notes it.
    ///
    /// A note that an earlier try left is not proposed again: a try may have time for only one command, and the key, which
    /// ends the request, comes after the note.
    pub(super) async fn noted(
        &self,
        key: Option<WriteKey>,
        act: NotedAct,
        changed: Result<Made, MembershipError>,
    ) -> Result<(), MembershipError> {
        let end = match &changed {
            Ok(Made::Now) => NotedEnd::DoneNow,
            Ok(Made::Before) if key.is_some_and(|key| self.core.shared.read().is_noted(key, &act)) => return Ok(()),
            Ok(Made::Before) => NotedEnd::Done,
            Err(MembershipError::Unfinished { .. }) => NotedEnd::Unknown,
            Err(_) => return changed.map(|_| ()),
        };
        let note = NoteAct { key: key.filter(|_| changed.is_ok()), act, end, at: wall_now() };
        let noted = self.note(note).await;
        changed.and(noted)
    }

    /// Proposes a note and waits for it until the deadline. The note stays in the queue if its caller has no time left: what
    /// it tells of has begun, and the caller may never ask again.
    async fn note(&self, note: NoteAct) -> Result<(), MembershipError> {
        let submitted = self.queues.proposals.submit(self.attributed(Command::NoteAct(note)), true);
        // If this waited no longer than the caller, it would withdraw a note that is still in the queue.
        let by = self.deadline.max(RT::Instant::now() + NOTE_TIMEOUT);
        let noting = RT::spawn(async move {
            let noted = match submitted {
                Ok(submitted) => proposed(submitted.outcome::<RT>(by).await),
                Err(_) => Err(MembershipError::NoLeader),
            };
            if let Err(error) = &noted {
                tracing::warn!("a change of a member that has begun may be missing in the audit: {error}");
            }
            noted
        });
        match RT::timeout_at(self.deadline, noting).await {
            Ok(Ok(noted)) => noted,
            Ok(Err(_)) | Err(_) => Err(MembershipError::NoLeader),
        }
    }

    pub(super) async fn propose(&self, command: Command) -> Result<(), MembershipError> {
        self.propose_bare(self.attributed(command)).await
    }

    fn attributed(&self, command: Command) -> Command {
        match &self.origin {
            Some(origin) if command.is_act() => command.attributed(origin.clone()),
            Some(_) | None => command,
        }
    }

    /// Proposes a command without its origin.
    pub(super) async fn propose_bare(&self, command: Command) -> Result<(), MembershipError> {
        let command = match self.guard {
            Some(guard) if command.needs_guard() => command.guarded(guard),
            Some(_) | None => command,
        };
        let submitted = self.queues.proposals.submit(command, true).map_err(|_| MembershipError::NoLeader)?;
        proposed(submitted.outcome::<RT>(self.deadline).await)
    }
}

fn proposed(outcome: ProposalOutcome) -> Result<(), MembershipError> {
    match outcome {
        Ok(answer) => match answer.result {
            Ok(_) => Ok(()),
            Err(Rejection::AccessChanged) => Err(MembershipError::AccessChanged { revision: answer.revision }),
            Err(Rejection::MemoryFull { .. } | Rejection::StateFull { .. }) => Err(MembershipError::TooManyKeys),
            Err(Rejection::IdempotencyMismatch { .. }) => Err(MembershipError::OtherRequest),
            Err(rejection @ Rejection::NoVoterLeft { .. }) => Err(in_progress(rejection.to_string())),
            Err(rejection) => Err(MembershipError::BadRequest(rejection.to_string())),
        },
        // A repeated request does nothing, so trying again is safe.
        Err(ProposeError::NotProposed(_) | ProposeError::Unknown(_)) => Err(MembershipError::NoLeader),
    }
}

pub(super) fn require_member(sight: &Sight, node: NodeId) -> Result<&Member, MembershipError> {
    let members = || sight.nodes.keys().copied().collect();
    sight.nodes.get(&node).ok_or_else(|| MembershipError::NotMember { node, members: members() })
}

/// The pending request that concerns a member.
pub(super) fn other_change(sight: &Sight, node: NodeId) -> Option<String> {
    let joins = || sight.view.joins.contains_key(&node).then(|| format!("node {node} is joining"));
    departure(sight, node).or_else(joins)
}

/// The pending request after which a node is no member any more.
pub(super) fn departure(sight: &Sight, node: NodeId) -> Option<String> {
    if sight.view.removals.contains(&node) {
        return Some(format!("node {node} is being removed"));
    }
    let replacement = sight.view.joins.iter().find(|(_, join)| join.replaces == Some(node));
    replacement.map(|(new, _)| format!("node {new} is replacing node {node}"))
}

pub(super) fn in_progress(what: String) -> MembershipError {
    MembershipError::ChangeInProgress { what }
}
