//! Makes Raft's members what was requested: only the leader does.
//!
//! The state holds the requests, Raft's membership the result. Every look compares both and takes the next step
//! (`plan`). So a crash of the leader at any moment leaves nothing behind that the next leader does not see.

pub(crate) mod plan;
pub(crate) mod steps;
pub(crate) mod view;

use crate::{
    core::{Core, Leadership, leadership_in},
    leadership::{
        placement::Placer,
        reconciler::{
            plan::{Phase, Step},
            view::{Answered, Sight},
        },
    },
    queues::Queues,
};
use fairhold_types::{Incarnation, NodeId};
use openraft::{AsyncRuntime, Instant};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Pause between two looks while something is pending.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two looks while nothing is pending, and after a step that failed.
const SETTLED_PAUSE: Duration = Duration::from_millis(500);
/// How long the voters may be joint before a leader ends a change that another leader began.
const ABANDONED_AFTER: Duration = Duration::from_secs(2);
/// How often in a row a learner must be close behind before it becomes a voter.
const LOOKS_NEEDED: u32 = 3;
/// Pause between two looks that count.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Runs until Raft stops.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>, queues: Queues) {
    while let Some(leadership) = core.until(leadership_in).await {
        let mut reconciler = Reconciler::new(&core, &queues, leadership);
        let mut pause = if reconciler.is_state_current().await { Duration::ZERO } else { BUSY_PAUSE };
        let is_current = pause.is_zero();
        loop {
            tokio::select! {
                biased;
                () = core.stopped() => return,
                () = core.reconcile.notified() => {}
                () = RT::sleep(pause) => {}
            }
            if !is_current || core.leadership() != Some(leadership) {
                break;
            }
            pause = reconciler.look().await;
        }
    }
}

/// Drives the changes under one leadership.
struct Reconciler<'c, RT: AsyncRuntime> {
    core: &'c Core<RT>,
    queues: &'c Queues,
    leadership: Leadership,
    since: RT::Instant,
    /// The learners that are close behind: in how many looks in a row, and when the last one that counts was.
    close_behind: BTreeMap<NodeId, (u32, RT::Instant)>,
    /// Since when the voters are joint.
    joint_since: Option<RT::Instant>,
    /// The data directories of the members, also of those that are gone meanwhile.
    incarnations: BTreeMap<NodeId, Incarnation>,
    placer: Placer<RT::Instant>,
    /// The last step that failed, and how: it is logged once.
    failed: Option<(Step, String)>,
}

impl<'c, RT: AsyncRuntime> Reconciler<'c, RT> {
    fn new(core: &'c Core<RT>, queues: &'c Queues, leadership: Leadership) -> Self {
        Reconciler {
            core,
            queues,
            leadership,
            since: RT::Instant::now(),
            close_behind: BTreeMap::new(),
            joint_since: None,
            incarnations: BTreeMap::new(),
            placer: Placer::default(),
            failed: None,
        }
    }

    /// Waits until the local state has everything that earlier leaders acknowledged. An older state could show
    /// requests that are done.
    async fn is_state_current(&self) -> bool {
        match self.queues.barriers.next(true).await {
            Ok(index) => self.core.applied(index).await.is_some(),
            Err(_) => false,
        }
    }

    /// Looks, and takes at most one step. Returns the pause until the next look.
    async fn look(&mut self) -> Duration {
        let core = self.core;
        core.links.round_trips.set_led_for(self.leadership.0, self.since.elapsed());
        let is_joint = core.with_metrics(|metrics| metrics.membership_config.membership().get_joint_config().len() > 1);
        if !is_joint && core.shared.read().membership().is_settled() {
            self.joint_since = None;
            self.close_behind.clear();
            self.placer.look(core).await;
            return SETTLED_PAUSE;
        }
        let state = core.shared.read().clone();
        let membership = state.membership();
        let now = RT::Instant::now();
        let close_behind = &mut self.close_behind;
        let abandoned = self.joint_since.is_some_and(|since| since + ABANDONED_AFTER <= now);
        let has_caught_up = |node, is_close| has_caught_up(close_behind, node, is_close, now);
        let mut sight = view::look(core, membership, abandoned, Answered::Lately, has_caught_up);
        self.joint_since = match sight.view.phase {
            Phase::Joint { .. } => self.joint_since.or(Some(now)),
            Phase::Uncommitted => self.joint_since,
            Phase::Uniform => None,
        };
        self.incarnations.extend(sight.nodes.iter().map(|(id, member)| (*id, member.incarnation)));
        let Some(step) = plan::next_step(&sight.view) else {
            self.placer.look(core).await;
            return BUSY_PAUSE;
        };
        if step.depends_on_votes(&sight.view) {
            let answered = view::ask(core, step.new_voter()).await;
            let caught_up: BTreeSet<NodeId> = sight.view.caught_up().collect();
            sight = view::look(core, membership, abandoned, answered, |node, is_close| is_close && caught_up.contains(&node));
            if plan::next_step(&sight.view) != Some(step) {
                return BUSY_PAUSE;
            }
        }
        if self.failed.as_ref().is_none_or(|(failed, _)| *failed != step) {
            log_step(step, false);
        }
        let incarnation_of = |node| self.incarnations.get(&node).copied();
        let taken = steps::take((core, self.queues), self.leadership, &sight, membership, step, incarnation_of).await;
        match taken {
            Ok(()) => {
                log_step(step, true);
                self.failed = None;
                Duration::ZERO
            }
            Err(error) => {
                self.log_failure(&sight, step, error.to_string());
                SETTLED_PAUSE
            }
        }
    }

    fn log_failure(&mut self, sight: &Sight, step: Step, why: String) {
        let failed = Some((step, why));
        if self.failed != failed
            && let Some((step, why)) = &failed
        {
            let voters = &sight.view.voters;
            tracing::warn!(?step, ?voters, "a change of the members is not complete, and will be tried again: {why}");
        }
        self.failed = failed;
    }
}

/// Whether a learner was close behind often enough in a row. Counts a look if the last one that counts is long enough
/// ago.
fn has_caught_up<I: Instant>(close_behind: &mut BTreeMap<NodeId, (u32, I)>, node: NodeId, is_close: bool, now: I) -> bool {
    if !is_close {
        close_behind.remove(&node);
        return false;
    }
    let (looks, last) = close_behind.entry(node).or_insert((1, now));
    if *last + LOOK_PAUSE <= now {
        *looks += 1;
        *last = now;
    }
    *looks >= LOOKS_NEEDED
}

fn log_step(step: Step, done: bool) {
    let progress = if done { "done" } else { "begun" };
    match step {
        Step::FlattenJoint => tracing::info!("{progress}: ending a change of the members that another leader began"),
        Step::AddLearner { node } => tracing::info!(node, "{progress}: adding node {node} as a learner"),
        Step::Promote { node } => tracing::info!(node, "{progress}: making node {node} a voter"),
        Step::Replace { new, old } => tracing::info!(node = new, old, "{progress}: replacing node {old} by node {new}"),
        Step::RemoveMember { node } => tracing::info!(node, "{progress}: removing node {node}"),
        Step::HandOver { to } => {
            tracing::info!(node = to, "{progress}: handing the leadership to node {to}, because this node is to go");
        }
        Step::Settle { node } => tracing::info!(node, "{progress}: recording that node {node} has joined"),
        Step::RecordRemoval { node } => tracing::info!(node, "{progress}: recording that node {node} is removed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;

    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    #[test]
    fn a_learner_has_caught_up_after_three_looks_in_a_row() {
        let mut close_behind = BTreeMap::new();
        let start = <Moment as Instant>::now();
        let mut look =
            |after_ms, is_close| has_caught_up(&mut close_behind, 4, is_close, start + Duration::from_millis(after_ms));
        assert_eq!([0, 100, 500, 900].map(|after| look(after, true)), [false; 4]);
        assert!(!look(950, false), "it fell behind: count again");
        assert_eq!([1_000, 1_400, 1_500, 1_900, 2_000].map(|after| look(after, true)), [false, false, false, false, true]);
        assert!(look(2_100, true));
    }
}
