//! What a person looks at first: the overview, its series, and the tree of waits. All of them come from this node alone,
//! except what the other members say about themselves, so they need no quorum.

use crate::{
    access::{SeenLocks, Visible},
    api::{
        CallError, Freshness, MemberAnswer, MemberLook, OverviewView, ReadOptions, RefusedWait, SeriesKey, SeriesView, WaitsView,
    },
    base::{
        series::Reading,
        shared_answers::{SharedAnswer, SharedAnswers},
        walks::{Walk, walk_in_turns},
    },
    clock::wall_now,
    node::Node,
};
use fairhold_health::locks::{
    LOST_TIMES, LOST_WITHIN, LockProblem, LockReading, LostReading, REFUSED_WITHIN, RefusedReading, held_too_long,
    lost_repeatedly, queue_nearly_full, refused_repeatedly,
};
use fairhold_metrics::Histogram;
use fairhold_raft::error::NotProposed;
use fairhold_state::{
    State,
    busy::{BUSY_LISTED_MAX, BusyEntry, BusyLocks},
    expiries::ExpiredOwner,
    waits::{WaitTree, WaitsQuery},
};
use fairhold_types::{LockName, NodeId, call::SeriesStep, cluster_version::LOOK_SINCE, duration, time::WallMillis};
use openraft_rt::{AsyncRuntime, Instant};
use rand::RngExt;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::MutexGuard;

/// Callers that may see the same locks share an answer for this long after it was made: many open pages cost as much as one.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// The newest answer to a question, while no other caller makes one.
type NewestAnswer<'a, I, A> = MutexGuard<'a, Option<(I, Arc<A>)>>;

impl<RT: AsyncRuntime> Node<RT> {
    /// The locks at a glance, from this node's own state. Callers that may see the same locks share it for a second.
    pub async fn overview(&self, timeout: Duration) -> Result<Arc<OverviewView>, CallError> {
        let begun = RT::Instant::now();
        let read = |timeout: Duration| ReadOptions { freshness: Freshness::Local, timeout };
        if let Some(view) = self.shared_lately(&self.0.shared_overview, &(), read(timeout)).await? {
            return Ok(view);
        }
        // Before the shared part: a caller that waits for the members holds neither a slot nor the answer of others. They may
        // take half of the time: without their answers, there is still an overview.
        let looks = self.looks(begun + timeout / 2).await;
        let read = read(timeout.saturating_sub(begun.elapsed()));
        self.shared(&self.0.shared_overview, &(), read, |walk, visible| self.new_overview(looks, walk, visible)).await
    }

    /// The answer of `make`, which has only the locks that the caller may see. Callers that may see the same locks share it.
    pub(crate) async fn shared<Q: Clone + PartialEq, A: Send + Sync, F: Future<Output = A>>(
        &self,
        answers: &SharedAnswers<RT::Instant, (Q, SeenLocks), A>,
        question: &Q,
        read: ReadOptions,
        make: impl FnOnce(Walk, Visible) -> F,
    ) -> Result<Arc<A>, CallError> {
        let begun = RT::Instant::now();
        let deadline = begun + read.timeout;
        if let Some(view) = self.shared_lately(answers, question, read).await? {
            return Ok(view);
        }
        let seen = self.visible()?.seen_locks();
        let answer = answers.of(&(question.clone(), seen.clone()));
        // A caller waits for its slot before it holds up the others: its slots may all be taken, and theirs free.
        let walk = self.walk(ReadOptions { timeout: read.timeout.saturating_sub(begun.elapsed()), ..read }).await?;
        let mut newest = Self::newest(&answer, deadline).await?;
        let visible = self.visible()?;
        if visible.seen_locks() != seen {
            drop(newest);
            return Ok(Arc::new(make(walk, visible).await));
        }
        if let Some(view) = recent(&newest) {
            return Ok(view);
        }
        let view = Arc::new(make(walk, visible).await);
        *newest = Some((RT::Instant::now(), Arc::clone(&view)));
        Ok(view)
    }

    /// The answer that callers with the same rights share, if there is a recent one.
    async fn shared_lately<Q: Clone + PartialEq, A: Send + Sync>(
        &self,
        answers: &SharedAnswers<RT::Instant, (Q, SeenLocks), A>,
        question: &Q,
        read: ReadOptions,
    ) -> Result<Option<Arc<A>>, CallError> {
        let deadline = RT::Instant::now() + read.timeout;
        self.freshen(read).await?;
        let seen = self.visible()?.seen_locks();
        let answer = answers.of(&(question.clone(), seen.clone()));
        match recent(&Self::newest(&answer, deadline).await?) {
            // The caller may have other rights after the wait.
            Some(view) if self.visible()?.seen_locks() == seen => Ok(Some(view)),
            Some(_) | None => Ok(None),
        }
    }

    /// Waits until no other caller makes the answer.
    async fn newest<A: Send + Sync>(
        answer: &SharedAnswer<RT::Instant, A>,
        deadline: RT::Instant,
    ) -> Result<NewestAnswer<'_, RT::Instant, A>, CallError> {
        let newest = RT::timeout_at(deadline, answer.lock()).await;
        newest.map_err(|_| CallError::Read(NotProposed::Overloaded.into()))
    }

    async fn new_overview(&self, looks: BTreeMap<NodeId, MemberLook>, walk: Walk, visible: Visible) -> OverviewView {
        let at = wall_now();
        let locks = busy_locks(&walk.state, &visible, at).await;
        let refused = self.0.hub.refused.visible(|wait| shows(&visible, wait));
        let lost = self.lost_owners(&walk.state, &visible, at).await;
        let problems = problems(&locks, at).into_iter().chain(refused_owners(&refused.waits, at)).chain(lost).collect();
        OverviewView {
            revision: walk.state.revision(),
            at,
            census: walk.state.census(),
            totals: walk.state.totals().clone(),
            recent: self.0.series.recent(),
            problems,
            locks,
            refused: refused.fitting(),
            looks,
        }
    }

    /// The problems that the rule about lost sessions finds.
    async fn lost_owners(&self, state: &State, visible: &Visible, now: WallMillis) -> Vec<(LockName, LockProblem)> {
        // Few holds expire, so most overviews need no look at the histories.
        if self.0.series.expired() < LOST_TIMES {
            return Vec::new();
        }
        let is_visible = |lock: &LockName| visible.has_lock(lock);
        let mut walk = state.expired_walk(WallMillis(now.0.saturating_sub(duration::millis(LOST_WITHIN))));
        if !visible.has_all_locks() {
            walk = walk.only(&is_visible);
        }
        walk_in_turns(|count| walk.visit(count)).await;
        judged_losses(walk.owners())
    }

    /// What each member says about itself. Before the cluster's version has this question, no member is asked.
    async fn looks(&self, deadline: RT::Instant) -> BTreeMap<NodeId, MemberLook> {
        let (replica, looks) = (&self.0.replica, &self.0.looks);
        if replica.read(|state| state.cluster_version()) < LOOK_SINCE {
            return BTreeMap::new();
        }
        let mut members = looks.others(replica, &self.0.tasks, deadline).await;
        let report = looks.own.report(replica);
        let said = MemberAnswer { at: report.now, clock: None, report };
        members.insert(replica.id(), MemberLook { reachable: true, said: Some(said) });
        members
    }

    /// Adds a row to the series of seconds, and after 60 of them one to the series of minutes. Call it once a second. It reads
    /// counters only: its cost does not depend on the size of the state. `syncs` has the times of the syncs of the disk,
    /// `server_errors` is the number of answers of the class 5xx since the start.
    pub fn take_sample(&self, syncs: &Histogram, server_errors: u64) {
        let replica = &self.0.replica;
        let (term, commits, syncs) = (replica.status().term, replica.commit_times().counts(), syncs.counts());
        let refused = self.0.hub.metrics.refused();
        let reading = replica.read(|state| {
            let (census, totals) = (state.census(), state.totals());
            Reading {
                at: wall_now(),
                granted: totals.waited.total(),
                handed_over: totals.hand_overs,
                released: totals.released,
                expired: totals.expired,
                broken: totals.broken,
                refused,
                held: census.held as u64,
                queued: census.waiting as u64,
                sessions: census.sessions as u64,
                commits,
                syncs,
                server_errors,
                term,
            }
        });
        self.0.series.add(reading, || RT::thread_rng().random());
    }

    /// The rows of a series after that position, or all.
    pub async fn series(&self, step: SeriesStep, after: Option<SeriesKey>, timeout: Duration) -> Result<SeriesView, CallError> {
        self.freshen(ReadOptions { freshness: Freshness::Local, timeout }).await?;
        Ok(self.0.series.read(step, after))
    }

    /// The tree of waits, from this node's own state. It has only the locks that the caller may see. Callers that may see the
    /// same locks share it for a second.
    pub async fn waits(&self, query: &WaitsQuery, timeout: Duration) -> Result<Arc<WaitsView>, CallError> {
        let read = ReadOptions { freshness: Freshness::Local, timeout };
        self.shared(&self.0.shared_waits, query, read, |walk, visible| new_waits(query, walk, visible)).await
    }
}

/// The answer, unless it is too old to be shared.
fn recent<I: Instant, A>(newest: &NewestAnswer<'_, I, A>) -> Option<Arc<A>> {
    let newest = newest.as_ref().filter(|(made, _)| made.elapsed() < SHARED_FOR);
    newest.map(|(_, view)| Arc::clone(view))
}

async fn new_waits(query: &WaitsQuery, walk: Walk, visible: Visible) -> WaitsView {
    let tree = wait_tree(&walk.state, query, &visible).await;
    WaitsView { revision: walk.state.revision(), at: wall_now(), tree }
}

async fn busy_locks(state: &State, visible: &Visible, now: WallMillis) -> BusyLocks {
    let is_visible = |lock: &LockName| visible.has_lock(lock);
    let mut walk = state.busy_walk(now);
    if !visible.has_all_locks() {
        walk = walk.only(&is_visible);
    }
    walk_in_turns(|count| walk.visit(count)).await;
    walk.finish()
}

async fn wait_tree(state: &State, query: &WaitsQuery, visible: &Visible) -> WaitTree {
    let is_visible = |lock: &LockName| visible.has_lock(lock);
    let mut walk = state.wait_walk();
    if !visible.has_all_locks() {
        walk = walk.only(&is_visible);
    }
    walk_in_turns(|count| walk.visit(count)).await;
    walk.finish(query)
}

/// What the rules about locks object to.
fn problems(locks: &BusyLocks, now: WallMillis) -> Vec<(LockName, LockProblem)> {
    let reading = |entry: &BusyEntry| {
        let reading = LockReading {
            lock: entry.lock.as_str(),
            held: Some(Duration::from_millis(now.0.saturating_sub(entry.since.0))),
            usual: entry.usual_hold_ms.map(Duration::from_millis),
            waiting: entry.waiting as u64,
            max_waiters: entry.max_waiters,
        };
        (held_too_long(&reading), queue_nearly_full(&reading))
    };
    let long = locks.blocking.iter().filter_map(|entry| Some((entry.lock.clone(), reading(entry).0?)));
    let full = locks.full.iter().filter_map(|entry| Some((entry.lock.clone(), reading(entry).1?)));
    full.chain(long).collect()
}

/// Whether a refusal may be shown: all locks of its cycle are visible.
fn shows(visible: &Visible, wait: &RefusedWait) -> bool {
    let named = || wait.cycle.iter().all(|one| visible.has_lock(&one.lock));
    visible.has_all_locks() || (wait.left_out == 0 && named())
}

/// The problems that the rule about refusals finds. `waits` has the newest first, and a problem names the lock of the
/// newest one.
fn refused_owners(waits: &[Arc<RefusedWait>], now: WallMillis) -> Vec<(LockName, LockProblem)> {
    let from = WallMillis(now.0.saturating_sub(duration::millis(REFUSED_WITHIN)));
    let mut owners: BTreeMap<&str, (&LockName, u64, WallMillis)> = BTreeMap::new();
    for wait in waits.iter().filter(|wait| wait.at >= from) {
        let Some(requester) = wait.cycle.first() else { continue };
        let (_, times, since) = owners.entry(&requester.owner).or_insert((&requester.lock, 0, wait.at));
        *times += 1;
        *since = (*since).min(wait.at);
    }
    let judged = owners.into_iter().filter_map(|(owner, (lock, times, since))| {
        let problem = refused_repeatedly(&RefusedReading { owner, lock: lock.as_str(), times, since })?;
        Some((lock.clone(), problem))
    });
    judged.take(BUSY_LISTED_MAX).collect()
}

/// The problems of owners that lost sessions. A problem names the lock of the newest hold.
fn judged_losses<'a>(owners: impl Iterator<Item = ExpiredOwner<'a>>) -> Vec<(LockName, LockProblem)> {
    let judged = owners.filter_map(|ExpiredOwner { owner, sessions, lock, since }| {
        let problem = lost_repeatedly(&LostReading { owner, lock: lock.as_str(), times: sessions as u64, since })?;
        Some((lock.clone(), problem))
    });
    judged.take(BUSY_LISTED_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_state::command::Blocked;
    use fairhold_types::{GrantNumber, SessionNumber};

    #[test]
    fn each_rule_looks_at_its_own_list() {
        let entry = |lock: &str, since: u64, max_waiters| BusyEntry {
            lock: LockName::parse(lock).unwrap(),
            number: GrantNumber(1),
            session: None,
            owner: "ci-7".to_owned(),
            since: WallMillis(since),
            waiting: 9,
            max_waiters,
            usual_hold_ms: Some(1_000),
            holder: None,
        };
        let locks = BusyLocks {
            waiting: vec![entry("waited-for", 0, None)],
            holding: vec![entry("held", 0, None)],
            blocking: vec![entry("slow", 400_000, None), entry("quick", 999_000, None)],
            full: vec![entry("full", 999_000, Some(10)), entry("half-full", 999_000, Some(18))],
            hot: Vec::new(),
        };
        let found = problems(&locks, WallMillis(1_000_000));
        let found: Vec<_> = found.iter().map(|(lock, problem)| (lock.as_str(), problem.check)).collect();
        assert_eq!(found, [("full", "queue_nearly_full"), ("slow", "held_too_long")]);
    }

    #[test]
    fn an_owner_that_was_refused_three_times_within_ten_minutes_is_a_problem() {
        let refused = |at: u64, owner: &str, lock: &str| {
            let lock = LockName::parse(lock).unwrap();
            let cycle = vec![Blocked { session: SessionNumber(1), owner: owner.to_owned(), lock }];
            Arc::new(RefusedWait { at: WallMillis(at), cycle, left_out: 0 })
        };
        let mut waits =
            vec![refused(900_000, "ci-9", "stock"), refused(850_000, "ci-7", "deploy"), refused(500_000, "ci-9", "deploy")];
        waits.push(refused(399_999, "ci-9", "deploy"));
        assert_eq!(refused_owners(&waits, WallMillis(1_000_000)), [], "the oldest is older than ten minutes");
        waits.push(refused(400_000, "ci-9", "deploy"));
        let found = refused_owners(&waits, WallMillis(1_000_000));
        let found: Vec<_> = found.iter().map(|(lock, problem)| (lock.as_str(), problem.check, problem.since)).collect();
        assert_eq!(found, [("stock", "refused_repeatedly", Some(WallMillis(400_000)))]);
    }

    #[test]
    fn an_owner_that_lost_three_sessions_within_ten_minutes_is_a_problem() {
        let names = ["stock", "deploy"].map(|lock| LockName::parse(lock).unwrap());
        let owner = |owner, sessions, lock| ExpiredOwner { owner, sessions, lock, since: WallMillis(7) };
        let found = judged_losses([owner("ci-7", 2, &names[1]), owner("ci-9", 3, &names[0])].into_iter());
        let found: Vec<_> = found.iter().map(|(lock, problem)| (lock.as_str(), problem.check, problem.since)).collect();
        assert_eq!(found, [("stock", "lost_repeatedly", Some(WallMillis(7)))]);
    }
}
