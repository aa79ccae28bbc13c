//! This node's last contact with leaders and its last vote, and so how long it waits before it starts an election.

use crate::base::aliases::LeaderId;
use fairhold_types::NodeId;
use openraft::{Instant, Vote};
use parking_lot::Mutex;
use std::{collections::BTreeMap, time::Duration};

/// Of how many of the highest leader ids the process is remembered.
const CLAIMS_MAX: usize = 16;
/// Maximum election delay in one data centre. It and the next one are longer with nodes far apart.
const ELECTION_DELAY_MAX: Duration = Duration::from_secs(5);
/// A leadership that lasted this long settles its term: elections after it start with the shortest delays again.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
/// Maximum number of times the random time is doubled.
const DOUBLINGS_MAX: u32 = 5;
/// A requested vote is written twice before its answer: by the candidate and by the voter.
const WRITES_OF_A_VOTE: u32 = 2;

/// The leader that sent the last message, and when its first and last message arrived.
struct LeaderContact<I> {
    vote: Vote<LeaderId>,
    /// The boot number of its process.
    boot: u64,
    first: I,
    last: I,
}

struct ContactInner<I> {
    /// The highest vote seen. A message with a lower vote comes from a deposed leader.
    highest: Option<Vote<LeaderId>>,
    leader: Option<LeaderContact<I>>,
    /// This leader seems dead, and has sent nothing since.
    suspected: Option<Vote<LeaderId>>,
    /// When this node last granted a vote.
    voted_at: Option<I>,
    /// How long writing a vote takes.
    write_time: Duration,
    /// The last settled term.
    settled: u64,
    /// The boot number of the process that used a leader id first, for the highest ones, by term and node.
    claims: BTreeMap<(u64, NodeId), u64>,
}

impl<I> ContactInner<I> {
    fn is_older(&self, vote: Vote<LeaderId>) -> bool {
        self.highest.is_some_and(|highest| vote < highest)
    }
}

impl<I: Instant> ContactInner<I> {
    /// The leader, if it has sent a message within its lease.
    fn live_leader(&self, lease: Duration, now: I) -> Option<&LeaderContact<I>> {
        let is_current = |leader: &&LeaderContact<I>| Some(leader.vote) == self.highest && Some(leader.vote) != self.suspected;
        self.leader.as_ref().filter(is_current).filter(|leader| now < leader.last + lease)
    }
}

/// The contact with leaders. `I` is the type of the clock's instants.
pub(crate) struct Contact<I> {
    inner: Mutex<ContactInner<I>>,
    settled_after: Duration,
    election_delay_max: Duration,
}

impl<I: Instant> Contact<I> {
    /// No contact yet. `term` is the term in which the node starts. Everything takes `time_scale` times longer than in
    /// one data centre.
    pub(crate) fn new(term: u64, time_scale: u32) -> Self {
        let inner = ContactInner {
            highest: None,
            leader: None,
            suspected: None,
            voted_at: None,
            write_time: Duration::ZERO,
            settled: term,
            claims: BTreeMap::new(),
        };
        Contact {
            inner: Mutex::new(inner),
            settled_after: SETTLED_AFTER * time_scale,
            election_delay_max: ELECTION_DELAY_MAX * time_scale,
        }
    }

    /// Records a message from a leader's process when it arrives, even if Raft handles it later because it is writing
    /// to the disk.
    pub(crate) fn record_message(&self, vote: Vote<LeaderId>, boot: u64, now: I) {
        let mut inner = self.inner.lock();
        if inner.is_older(vote) {
            return;
        }
        inner.highest = Some(vote);
        inner.suspected = None;
        let first = inner.leader.as_ref().filter(|leader| leader.vote == vote).map_or(now, |leader| leader.first);
        if now.saturating_duration_since(first) >= self.settled_after {
            inner.settled = vote.leader_id.term;
        }
        inner.leader = Some(LeaderContact { vote, boot, first, last: now });
    }

    /// Marks this leader as seemingly dead, until it sends something.
    pub(crate) fn suspect(&self, vote: Vote<LeaderId>) {
        self.inner.lock().suspected = Some(vote);
    }

    /// Whether a leader has sent a message within its lease. If so, this node votes for no other node.
    pub(crate) fn has_live_leader(&self, lease: Duration, now: I) -> bool {
        self.inner.lock().live_leader(lease, now).is_some()
    }

    /// Whether node `id` leads with another process than this one. A restarted node does not lead, and is told so until
    /// the lease of the process before it has ended. 0 is an unknown number.
    pub(crate) fn leads_with_another_process(&self, id: NodeId, boot: u64, lease: Duration, now: I) -> bool {
        let inner = self.inner.lock();
        let leader = inner.live_leader(lease, now).filter(|leader| leader.vote.leader_id.node_id == id);
        leader.is_some_and(|leader| leader.boot != boot && leader.boot != 0 && boot != 0)
    }

    /// Records that a process uses this leader id, as a candidate or as the leader; `false` if another process of the node
    /// has used it: one of them is a copy. A process that restarts never uses a leader id again, as it starts no election in
    /// an old term and does not resume its leadership. 0 is an unknown number.
    pub(crate) fn claim(&self, leader: LeaderId, boot: u64) -> bool {
        if boot == 0 {
            return true;
        }
        let mut inner = self.inner.lock();
        let first = *inner.claims.entry((leader.term, leader.node_id)).or_insert(boot);
        if inner.claims.len() > CLAIMS_MAX {
            inner.claims.pop_first();
        }
        first == boot
    }

    /// Records that this node granted its vote, requested at `requested_at`.
    pub(crate) fn voted(&self, vote: Vote<LeaderId>, requested_at: I, now: I) {
        let mut inner = self.inner.lock();
        if !inner.is_older(vote) {
            inner.highest = Some(vote);
        }
        inner.voted_at = Some(now);
        drop(inner);
        self.wrote_within(now.saturating_duration_since(requested_at));
    }

    /// Records how long writing a vote took, or another write that Raft waits for.
    pub(crate) fn wrote_within(&self, within: Duration) {
        let mut inner = self.inner.lock();
        inner.write_time = within.max(inner.write_time / 2);
    }

    /// Records that this node led in a term for this long.
    pub(crate) fn led(&self, term: u64, lasted: Duration) {
        if lasted >= self.settled_after {
            let mut inner = self.inner.lock();
            inner.settled = inner.settled.max(term);
        }
    }

    /// The time from which nothing prevents an election: the end of a leader's lease, or this node's last vote.
    pub(crate) fn quiet_since(&self, lease: Duration) -> Option<I> {
        let inner = self.inner.lock();
        inner.leader.as_ref().map(|leader| leader.last + lease).max(inner.voted_at)
    }

    /// How long this node waits after that, given a random time.
    pub(crate) fn election_delay(&self, random: Duration, term: u64) -> Duration {
        let inner = self.inner.lock();
        election_delay(random, term.saturating_sub(inner.settled), inner.write_time, self.election_delay_max)
    }

    /// The last settled term.
    pub(crate) fn settled_term(&self) -> u64 {
        self.inner.lock().settled
    }

    /// How long writing a vote takes.
    pub(crate) fn write_time(&self) -> Duration {
        self.inner.lock().write_time
    }
}

/// The random time, doubled with each failed term but the first, plus the time to write a vote, up to a maximum.
fn election_delay(random: Duration, failed_terms: u64, write_time: Duration, max: Duration) -> Duration {
    let doublings = u32::try_from(failed_terms.saturating_sub(1)).unwrap_or(DOUBLINGS_MAX).min(DOUBLINGS_MAX);
    (random * (1 << doublings) + write_time * WRITES_OF_A_VOTE).min(max)
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
    fn each_failed_term_doubles_the_delay_up_to_a_limit() {
        let random = Duration::from_millis(200);
        let of = |failed_terms| election_delay(random, failed_terms, Duration::ZERO, ELECTION_DELAY_MAX).as_millis();
        assert_eq!([0, 1, 2, 3, 4, 9].map(of), [200, 200, 400, 800, 1_600, 5_000]);
        assert_eq!(of(u64::MAX), ELECTION_DELAY_MAX.as_millis());
        assert_eq!(election_delay(random, 1, Duration::from_millis(250), ELECTION_DELAY_MAX), Duration::from_millis(700));
    }

    #[test]
    fn messages_of_a_deposed_leader_do_not_count() {
        let contact = Contact::new(0, 1);
        let start = start();
        assert_eq!(contact.quiet_since(LEASE), None);
        contact.record_message(vote(2, 1), 1, start);
        contact.record_message(vote(1, 3), 1, start + LEASE);
        assert_eq!(contact.quiet_since(LEASE), Some(start + LEASE), "an older term");
        contact.record_message(vote(2, 1), 1, start + LEASE);
        assert_eq!(contact.quiet_since(LEASE), Some(start + LEASE * 2));
        let successor = Vote { committed: false, ..vote(3, 2) };
        contact.voted(successor, start + LEASE, start + LEASE * 4);
        contact.record_message(vote(2, 1), 1, start + LEASE * 4);
        assert_eq!(contact.quiet_since(LEASE), Some(start + LEASE * 4), "its successor has this node's vote");
        assert_eq!(contact.write_time(), LEASE * 3);
    }

    #[test]
    fn a_leader_is_live_for_its_lease_unless_it_seems_dead_or_has_a_successor() {
        let contact = Contact::new(0, 1);
        let start = start();
        assert!(!contact.has_live_leader(LEASE, start));
        contact.record_message(vote(2, 1), 1, start);
        assert!(contact.has_live_leader(LEASE, start + LEASE / 2) && !contact.has_live_leader(LEASE, start + LEASE));
        contact.suspect(vote(2, 1));
        assert!(!contact.has_live_leader(LEASE, start));
        contact.record_message(vote(2, 1), 1, start);
        assert!(contact.has_live_leader(LEASE, start), "it was a false alarm");
        contact.voted(Vote { committed: false, ..vote(3, 2) }, start, start);
        assert!(!contact.has_live_leader(LEASE, start), "this node has voted for another one");
    }

    #[test]
    fn a_second_process_of_the_leader_is_recognized_until_the_lease_of_the_first_one_ends() {
        let contact = Contact::new(0, 1);
        let start = start();
        let differs = |id, boot, now| contact.leads_with_another_process(id, boot, LEASE, now);
        assert!(!differs(1, 8, start), "no leader is known");
        contact.record_message(vote(2, 1), 7, start);
        assert!(differs(1, 8, start) && !differs(1, 7, start) && !differs(1, 0, start) && !differs(3, 8, start));
        assert!(!differs(1, 8, start + LEASE), "the first one may have ended");
        contact.suspect(vote(2, 1));
        assert!(!differs(1, 8, start), "the first one has ended");
        contact.record_message(vote(3, 1), 8, start);
        assert!(differs(1, 7, start) && !differs(1, 8, start), "the second one leads now");
        contact.record_message(vote(2, 1), 7, start);
        assert!(!differs(1, 8, start), "a message of a deposed leader");
        contact.record_message(vote(4, 1), 0, start);
        assert!(!differs(1, 8, start), "it runs an older program");
    }

    #[test]
    fn of_two_processes_with_one_leader_id_only_the_first_one_counts() {
        let contact = Contact::<<TokioRuntime as AsyncRuntime>::Instant>::new(0, 1);
        let of = |term, node_id| LeaderId { term, node_id };
        assert!(contact.claim(of(2, 1), 7) && contact.claim(of(2, 1), 7));
        assert!(!contact.claim(of(2, 1), 8), "a copy");
        assert!(contact.claim(of(3, 1), 8) && contact.claim(of(2, 3), 8), "another term, and another node");
        assert!(!contact.claim(of(3, 1), 7) && contact.claim(of(2, 1), 7));
        assert!(contact.claim(of(3, 1), 0), "it runs an older program");
        assert!((4..40).all(|term| contact.claim(of(term, 1), 7)));
        assert!(contact.claim(of(3, 1), 7), "it is forgotten");
        assert!(!contact.claim(of(39, 1), 8), "the highest ones are remembered");
    }

    #[test]
    fn only_a_leader_that_lasts_settles_a_term() {
        let contact = Contact::new(4, 1);
        let start = start();
        contact.record_message(vote(5, 1), 1, start);
        contact.record_message(vote(6, 2), 1, start + SETTLED_AFTER / 2);
        contact.record_message(vote(6, 2), 1, start + SETTLED_AFTER);
        assert_eq!(contact.settled_term(), 4);
        contact.record_message(vote(6, 2), 1, start + SETTLED_AFTER * 2);
        assert_eq!(contact.settled_term(), 6);
        contact.led(7, SETTLED_AFTER / 2);
        assert_eq!(contact.settled_term(), 6);
        contact.led(7, SETTLED_AFTER);
        assert_eq!(contact.settled_term(), 7);
    }

    #[test]
    fn with_nodes_far_apart_everything_takes_longer() {
        let contact = Contact::<<TokioRuntime as AsyncRuntime>::Instant>::new(4, 16);
        contact.led(5, SETTLED_AFTER * 15);
        assert_eq!(contact.settled_term(), 4);
        contact.led(5, SETTLED_AFTER * 16);
        assert_eq!(contact.settled_term(), 5);
        let random = Duration::from_secs(6);
        assert_eq!(contact.election_delay(random, 6), random, "longer than the maximum in one data centre");
        assert_eq!(contact.election_delay(random, 99), ELECTION_DELAY_MAX * 16);
    }
}
