//! What this node has heard of leaders and has given its vote to, and so for how long it still waits before it stands.

use crate::base::aliases::LeaderId;
use openraft::{Instant, Vote};
use parking_lot::{Mutex, MutexGuard};
use std::time::Duration;

/// The longest random time.
const PATIENCE_MAX: Duration = Duration::from_secs(5);
/// A leadership that lasted so long counts: elections after it start with the shortest times again.
const LASTING: Duration = Duration::from_secs(3);
/// How often the random time is doubled, at most.
const DOUBLINGS_MAX: u32 = 5;
/// A vote that is asked for is written twice before its answer: by the candidate and by the voter.
const WRITES_OF_A_VOTE: u32 = 2;

/// The leader that was heard last.
struct LastHeard<I> {
    vote: Vote<LeaderId>,
    first: I,
    last: I,
}

struct ContactInner<I> {
    /// The highest vote that was heard of. A message under an older one is from a deposed leader.
    highest: Option<Vote<LeaderId>>,
    leader: Option<LastHeard<I>>,
    /// This leader seems to be dead, and has said nothing since.
    suspected: Option<Vote<LeaderId>>,
    /// When this node last gave its vote.
    gave: Option<I>,
    /// How long it takes to write a vote.
    write_time: Duration,
    /// The last term whose leader lasted.
    settled: u64,
}

impl<I> ContactInner<I> {
    fn is_older(&self, vote: Vote<LeaderId>) -> bool {
        self.highest.is_some_and(|highest| vote < highest)
    }
}

/// What has been heard, by a clock whose moments are `I`.
pub(crate) struct Contact<I>(Mutex<ContactInner<I>>);

impl<I: Instant> Contact<I> {
    /// Nothing yet. `term` is the one with which the node starts.
    pub(crate) fn new(term: u64) -> Self {
        Contact(Mutex::new(ContactInner {
            highest: None,
            leader: None,
            suspected: None,
            gave: None,
            write_time: Duration::ZERO,
            settled: term,
        }))
    }

    /// A message of a leader came, whether this node has looked at it yet or not: while it writes to its disk it does not.
    pub(crate) fn heard(&self, vote: Vote<LeaderId>, now: I) {
        let mut inner = self.locked();
        if inner.is_older(vote) {
            return;
        }
        inner.highest = Some(vote);
        inner.suspected = None;
        let first = inner.leader.as_ref().filter(|heard| heard.vote == vote).map_or(now, |heard| heard.first);
        if now.saturating_duration_since(first) >= LASTING {
            inner.settled = vote.leader_id.term;
        }
        inner.leader = Some(LastHeard { vote, first, last: now });
    }

    /// This leader seems to be dead, until it says something.
    pub(crate) fn suspects(&self, vote: Vote<LeaderId>) {
        self.locked().suspected = Some(vote);
    }

    /// Whether there is a leader that this node hears: then it would vote for nobody else.
    pub(crate) fn hears_leader(&self, lease: Duration, now: I) -> bool {
        let inner = self.locked();
        let in_office = |heard: &&LastHeard<I>| Some(heard.vote) == inner.highest && Some(heard.vote) != inner.suspected;
        inner.leader.as_ref().filter(in_office).is_some_and(|heard| now < heard.last + lease)
    }

    /// This node has given its vote, for which it was asked before.
    pub(crate) fn gave(&self, vote: Vote<LeaderId>, asked: I, now: I) {
        let mut inner = self.locked();
        if !inner.is_older(vote) {
            inner.highest = Some(vote);
        }
        inner.gave = Some(now);
        drop(inner);
        self.wrote_within(now.saturating_duration_since(asked));
    }

    /// A vote was written within that time, or something else that Raft waits for.
    pub(crate) fn wrote_within(&self, within: Duration) {
        let mut inner = self.locked();
        inner.write_time = within.max(inner.write_time / 2);
    }

    /// This node led in a term, for so long.
    pub(crate) fn led(&self, term: u64, lasted: Duration) {
        if lasted >= LASTING {
            let mut inner = self.locked();
            inner.settled = inner.settled.max(term);
        }
    }

    /// Since when nothing is known that speaks against an election: the end of a leader's lease, or the last vote that was given.
    pub(crate) fn quiet_since(&self, lease: Duration) -> Option<I> {
        let inner = self.locked();
        inner.leader.as_ref().map(|heard| heard.last + lease).max(inner.gave)
    }

    /// How long it waits after that, by a random time.
    pub(crate) fn patience(&self, random: Duration, term: u64) -> Duration {
        let inner = self.locked();
        patience(random, term.saturating_sub(inner.settled), inner.write_time)
    }

    /// The last term whose leader lasted.
    pub(crate) fn settled_term(&self) -> u64 {
        self.locked().settled
    }

    /// How long it takes to write a vote.
    pub(crate) fn write_time(&self) -> Duration {
        self.locked().write_time
    }

    fn locked(&self) -> MutexGuard<'_, ContactInner<I>> {
        self.0.lock()
    }
}

/// The random time, doubled with each vain term but the first, and longer by what the writes of the vote take.
fn patience(random: Duration, vain_terms: u64, write_time: Duration) -> Duration {
    let doublings = u32::try_from(vain_terms.saturating_sub(1)).unwrap_or(DOUBLINGS_MAX).min(DOUBLINGS_MAX);
    (random * (1 << doublings) + write_time * WRITES_OF_A_VOTE).min(PATIENCE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::AsyncRuntime;
    use openraft_rt_tokio::TokioRuntime;

    const LEASE: Duration = Duration::from_millis(300);

    fn vote(term: u64, node_id: u64) -> Vote<LeaderId> {
        Vote { leader_id: LeaderId { term, node_id }, committed: true }
    }

    fn start() -> <TokioRuntime as AsyncRuntime>::Instant {
        Instant::now()
    }

    #[test]
    fn each_vain_term_doubles_the_time_up_to_a_bound() {
        let random = Duration::from_millis(200);
        let of = |vain_terms| patience(random, vain_terms, Duration::ZERO).as_millis();
        assert_eq!([0, 1, 2, 3, 4, 9].map(of), [200, 200, 400, 800, 1_600, 5_000]);
        assert_eq!(patience(random, u64::MAX, Duration::ZERO), PATIENCE_MAX);
        assert_eq!(patience(random, 1, Duration::from_millis(250)), Duration::from_millis(700));
    }

    #[test]
    fn a_leader_that_was_deposed_is_not_heard() {
        let (contact, start) = (Contact::new(0), start());
        assert_eq!(contact.quiet_since(LEASE), None);
        contact.heard(vote(2, 1), start);
        contact.heard(vote(1, 3), start + LEASE);
        assert_eq!(contact.quiet_since(LEASE), Some(start + LEASE), "an older term");
        contact.heard(vote(2, 1), start + LEASE);
        assert_eq!(contact.quiet_since(LEASE), Some(start + LEASE * 2));
        let successor = Vote { committed: false, ..vote(3, 2) };
        contact.gave(successor, start + LEASE, start + LEASE * 4);
        contact.heard(vote(2, 1), start + LEASE * 4);
        assert_eq!(contact.quiet_since(LEASE), Some(start + LEASE * 4), "its successor has this node's vote");
        assert_eq!(contact.write_time(), LEASE * 3);
    }

    #[test]
    fn a_leader_is_heard_for_its_lease_unless_it_seems_to_be_dead_or_has_a_successor() {
        let (contact, start) = (Contact::new(0), start());
        assert!(!contact.hears_leader(LEASE, start));
        contact.heard(vote(2, 1), start);
        assert!(contact.hears_leader(LEASE, start + LEASE / 2) && !contact.hears_leader(LEASE, start + LEASE));
        contact.suspects(vote(2, 1));
        assert!(!contact.hears_leader(LEASE, start));
        contact.heard(vote(2, 1), start);
        assert!(contact.hears_leader(LEASE, start), "it was a false alarm");
        contact.gave(Vote { committed: false, ..vote(3, 2) }, start, start);
        assert!(!contact.hears_leader(LEASE, start), "this node voted for another one since");
    }

    #[test]
    fn only_a_leader_that_lasts_settles_a_term() {
        let (contact, start) = (Contact::new(4), start());
        contact.heard(vote(5, 1), start);
        contact.heard(vote(6, 2), start + LASTING / 2);
        contact.heard(vote(6, 2), start + LASTING);
        assert_eq!(contact.settled_term(), 4);
        contact.heard(vote(6, 2), start + LASTING * 2);
        assert_eq!(contact.settled_term(), 6);
        contact.led(7, LASTING / 2);
        assert_eq!(contact.settled_term(), 6);
        contact.led(7, LASTING);
        assert_eq!(contact.settled_term(), 7);
    }
}
