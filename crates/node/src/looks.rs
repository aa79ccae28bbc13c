//! What the members say about themselves. A node asks the others only while callers want its overview, and answers from
//! memory.
//!
//! The answers are for people. They prove nothing, and they are missing rather than late.

use crate::{
    api::{MemberAnswer, MemberLook, MemberReport},
    base::{answer_time::answer_timeout, stop::Stop, tasks::Tasks},
    clock::wall_now,
    divergence::{COMPARISON_FORMAT, Comparison},
};
use fairhold_health::{
    alarms::readings::{DiskReading, MachineReading, OpenFilesReading},
    answer::ClockOffset,
    round_trips,
};
use fairhold_raft::{MemberHandler, Program, Replica, ReplicaStatus, Role};
use fairhold_types::{NodeId, duration, time::WallMillis};
use futures_util::future::join_all;
use openraft_rt::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::OwnedMutexGuard;

/// The version byte of a question and of its answer.
const LOOK_FORMAT: u8 = 1;
/// The other members are asked at most this often, no matter how many callers there are.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Answers that are older are not shown: then a caller waits for new ones.
const SHOWN_FOR: Duration = Duration::from_secs(10);

/// What a node knows about itself, besides what Raft knows.
#[derive(Debug)]
pub(crate) struct OwnFacts {
    started_at: WallMillis,
    machine: Mutex<OwnMachine>,
    stop: Stop,
    comparison: Arc<Comparison>,
}

/// What a node last read of its machine and its process.
#[derive(Debug, Clone, Copy, Default)]
struct OwnMachine {
    disk: Option<DiskReading>,
    open_files: Option<OpenFilesReading>,
}

impl OwnFacts {
    /// Call this when the node starts.
    pub(crate) fn new(stop: Stop, comparison: Arc<Comparison>) -> OwnFacts {
        OwnFacts { started_at: wall_now(), machine: Mutex::default(), stop, comparison }
    }

    pub(crate) fn set_machine(&self, read: &MachineReading) {
        *self.machine.lock() = OwnMachine { disk: read.disk, open_files: read.open_files };
    }

    /// What this node says about itself.
    pub(crate) fn report<RT: AsyncRuntime>(&self, replica: &Replica<RT>) -> MemberReport {
        let raft = replica.status();
        let entries = |last: Option<u64>| last.map_or(0, |last| last + 1);
        let machine = *self.machine.lock();
        let is_led = raft.role == Role::Leader || raft.hears_from_leader;
        MemberReport {
            version: Program::own().version,
            ready: is_led && raft.cluster.is_some() && !self.stop.is_announced() && !self.comparison.is_odd(&raft),
            applied: raft.applied,
            snapshot: raft.snapshot,
            log_entries: entries(raft.last_log_index).saturating_sub(entries(raft.purged)),
            disk: machine.disk.map(|disk| (disk.free_bytes, disk.total_bytes)),
            started_at: self.started_at,
            now: wall_now(),
            open_files: machine.open_files.map(|files| (files.open, files.max)),
            round_trip_ms: round_trip(&raft).map(duration::millis),
        }
    }
}

/// The longest round trip to a voter that the timing profile must suit: only a leader knows one.
fn round_trip(raft: &ReplicaStatus) -> Option<Duration> {
    let voters = raft.members.iter().filter(|member| member.voter);
    let longest = round_trips::longest(voters.map(|member| (member.id, member.round_trip_p50, member.round_trip_p99)));
    longest.map(|(took, _)| took)
}

/// Answers the other members.
pub(crate) struct LookService<RT: AsyncRuntime> {
    pub(crate) replica: Replica<RT>,
    pub(crate) own: Arc<OwnFacts>,
}

impl<RT: AsyncRuntime> MemberHandler for LookService<RT> {
    fn handle(&self, request: &[u8], from: NodeId) -> Vec<u8> {
        if request.first() == Some(&COMPARISON_FORMAT) {
            return self.own.comparison.handle(request, from, &self.replica);
        }
        if let Err(error) = fairhold_codec::decode::<()>(LOOK_FORMAT, request) {
            tracing::warn!(%error, from, "cannot decode the question of node {from} about this node");
            return Vec::new();
        }
        fairhold_codec::encode(LOOK_FORMAT, &self.own.report(&self.replica)).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot encode what this node says about itself");
            Vec::new()
        })
    }
}

/// The newest answers of the other members.
#[derive(Debug)]
pub(crate) struct MemberLooks<I> {
    pub(crate) own: Arc<OwnFacts>,
    /// Held while the members are asked.
    asking: Arc<tokio::sync::Mutex<()>>,
    answers: Mutex<Answers<I>>,
}

#[derive(Debug)]
struct Answers<I> {
    /// When the members were last asked.
    asked_at: Option<I>,
    /// When the last question ended.
    ended_at: Option<I>,
    members: BTreeMap<NodeId, MemberLook>,
}

impl<I: Instant> MemberLooks<I> {
    pub(crate) fn new(own: Arc<OwnFacts>) -> MemberLooks<I> {
        let answers = Answers { asked_at: None, ended_at: None, members: BTreeMap::new() };
        MemberLooks { own, asking: Arc::default(), answers: Mutex::new(answers) }
    }

    /// The other members, as they last answered. Has them asked again for the next caller, if that is due. The caller waits
    /// for this question only if the last one is too old. Call this from `LOOK_SINCE` on.
    pub(crate) async fn others<RT: AsyncRuntime<Instant = I>>(
        self: &Arc<Self>,
        replica: &Replica<RT>,
        tasks: &Tasks,
        deadline: I,
    ) -> BTreeMap<NodeId, MemberLook> {
        let is_too_old = !is_within(self.answers.lock().ended_at, SHOWN_FOR);
        if let Some(turn) = self.turn() {
            let (looks, replica) = (Arc::clone(self), replica.clone());
            tasks.spawn::<RT>(async move {
                tokio::select! {
                    biased;
                    () = looks.own.stop.requested() => {}
                    () = looks.ask_all(&replica) => {}
                }
                drop(turn);
            });
        }
        if is_too_old {
            // Without an answer in time, the caller gets what there is.
            let _has_ended = RT::timeout_at(deadline, self.asking.lock()).await.is_ok();
        }
        self.answers.lock().members.clone()
    }

    /// The right to ask until it is dropped, if the members are not being asked and were not asked just now.
    fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        let turn = Arc::clone(&self.asking).try_lock_owned().ok()?;
        let mut answers = self.answers.lock();
        if is_within(answers.asked_at, ASK_EVERY) {
            return None;
        }
        answers.asked_at = Some(I::now());
        Some(turn)
    }

    async fn ask_all<RT: AsyncRuntime<Instant = I>>(&self, replica: &Replica<RT>) {
        let deadline = I::now() + answer_timeout(replica.timing());
        let status = replica.status();
        let others = status.members.iter().map(|member| member.id).filter(|id| *id != status.id);
        let answers = join_all(others.map(|id| async move { (id, ask(replica, id, deadline).await) })).await;
        self.answers.lock().record(answers);
    }
}

impl<I: Instant> Answers<I> {
    /// Records what the members answered. A member that did not answer keeps what it last said.
    fn record(&mut self, answers: Vec<(NodeId, Option<MemberAnswer>)>) {
        let mut before = std::mem::take(&mut self.members);
        let look = |(id, said): (NodeId, Option<_>)| {
            let reachable = said.is_some();
            (id, MemberLook { reachable, said: said.or_else(|| before.remove(&id)?.said) })
        };
        self.members = answers.into_iter().map(look).collect();
        self.ended_at = Some(I::now());
    }
}

fn is_within<I: Instant>(at: Option<I>, time: Duration) -> bool {
    at.is_some_and(|at| at.elapsed() < time)
}

/// What a member says about itself; `None` without an answer in time.
pub(crate) async fn ask<RT: AsyncRuntime>(replica: &Replica<RT>, member: NodeId, deadline: RT::Instant) -> Option<MemberAnswer> {
    let question = match fairhold_codec::encode(LOOK_FORMAT, &()) {
        Ok(question) => question,
        Err(error) => {
            tracing::error!(%error, "cannot encode a question about another node");
            return None;
        }
    };
    let asked_at = wall_now();
    let answer = replica.call_member(member, question, deadline).await?;
    let at = wall_now();
    match fairhold_codec::decode(LOOK_FORMAT, &answer) {
        Ok(report) => Some(answered(asked_at, at, report)),
        Err(error) => {
            tracing::debug!(%error, member, "cannot decode what node {member} says about itself");
            None
        }
    }
}

/// The answer to a question that was asked and answered at these times. The member read its clock at some time in between,
/// so the round trip bounds what is known of it.
fn answered(asked_at: WallMillis, at: WallMillis, report: MemberReport) -> MemberAnswer {
    MemberAnswer { at, clock: Some(ClockOffset::between(asked_at, report.now, at)), report }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;

    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    fn looks() -> MemberLooks<Moment> {
        MemberLooks::new(Arc::new(OwnFacts::new(Stop::default(), Arc::default())))
    }

    fn report(applied: u64) -> MemberReport {
        MemberReport {
            version: None,
            ready: true,
            applied: Some(applied),
            snapshot: None,
            log_entries: 7,
            disk: Some((1, 2)),
            started_at: WallMillis(3),
            now: WallMillis(4),
            open_files: Some((5, Some(6))),
            round_trip_ms: Some(7),
        }
    }

    fn said(at: u64, applied: u64) -> Option<MemberAnswer> {
        Some(answered(WallMillis(at), WallMillis(at), report(applied)))
    }

    #[test]
    fn the_members_are_asked_by_one_caller_at_a_time_and_once_a_second_at_most() {
        let looks = looks();
        let turn = looks.turn().unwrap();
        looks.answers.lock().asked_at = None;
        assert!(looks.turn().is_none(), "they are being asked");
        drop(turn);
        // The test may be slow.
        looks.answers.lock().asked_at = Some(Moment::now() + Duration::from_secs(60));
        assert!(looks.turn().is_none(), "they were asked just now");
        looks.answers.lock().asked_at = Some(Moment::now() - ASK_EVERY);
        assert!(looks.turn().is_some());
    }

    #[test]
    fn a_member_that_does_not_answer_keeps_what_it_last_said_and_a_removed_one_is_forgotten() {
        let looks = looks();
        let mut answers = looks.answers.lock();
        let old = said(5, 9);
        answers.record(vec![(2, old.clone()), (3, old.clone()), (4, None)]);
        for _ in 0..2 {
            answers.record(vec![(2, None), (4, None)]);
            let kept = (2, MemberLook { reachable: false, said: old.clone() });
            assert_eq!(answers.members, BTreeMap::from([kept, (4, MemberLook { reachable: false, said: None })]));
        }
        let newer = said(6, 10);
        answers.record(vec![(2, newer.clone())]);
        assert_eq!(answers.members, BTreeMap::from([(2, MemberLook { reachable: true, said: newer })]));
    }

    #[test]
    fn the_clock_of_a_member_is_compared_with_half_of_the_round_trip_as_the_doubt() {
        let of = |now| {
            let shown = MemberReport { now: WallMillis(now), ..report(9) };
            let answer = answered(WallMillis(1_000), WallMillis(1_040), shown);
            (answer.at.0, answer.clock.map(|clock| (clock.offset, clock.uncertainty)))
        };
        assert_eq!(of(1_020), (1_040, Some((0, 21))));
        assert_eq!(of(4_020), (1_040, Some((3_000, 21))));
        assert_eq!(of(20), (1_040, Some((-1_000, 21))));
    }

    /// These bytes are sent between programs of different versions: other ones need another `LOOK_FORMAT`.
    #[test]
    fn what_a_member_says_has_stable_bytes() {
        let bytes = fairhold_codec::encode(LOOK_FORMAT, &report(9)).unwrap();
        let (body, _checksum) = bytes.split_at(bytes.len() - 4);
        assert_eq!(body, [LOOK_FORMAT, 0, 1, 1, 9, 0, 7, 1, 1, 2, 3, 4, 1, 5, 1, 6, 1, 7]);
        assert_eq!(fairhold_codec::decode::<MemberReport>(LOOK_FORMAT, &bytes).unwrap(), report(9));
        assert!(fairhold_codec::decode::<()>(LOOK_FORMAT, &fairhold_codec::encode(LOOK_FORMAT, &()).unwrap()).is_ok());
    }
}
