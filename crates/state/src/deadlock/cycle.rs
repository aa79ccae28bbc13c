//! Finds the cycle that a request would close, for its rejection.

use super::search::Search;
use crate::command::Blocked;
use fairhold_types::Mode;
use std::collections::VecDeque;

/// The part of a queue that the walk has followed.
#[derive(Debug, Clone, Copy, Default)]
struct Followed {
    /// How many waiters, from the front.
    waiting: usize,
    /// Whether it has followed the holders that block readers.
    reader_blockers: bool,
    /// Whether it has followed all holders.
    holders: bool,
}

impl Search<'_> {
    /// The shortest path from the request back to itself, among the actors that could not run. The walk follows each
    /// entry once, so it costs as much as the collection.
    pub(super) fn cycle(&self) -> Vec<Blocked> {
        // The entry through which the walk reached each actor.
        let mut reached_by: Vec<Option<usize>> = vec![None; self.actor_count()];
        let mut followed = vec![Followed::default(); self.queues.len()];
        let ahead = self.waiting_ahead();
        let mut next = VecDeque::from([Search::REQUESTER]);
        while let Some(actor) = next.pop_front() {
            for entry in self.entries_of(actor).iter().copied().filter(|entry| self.entries[*entry].waits()) {
                for other in self.waits_for(entry, ahead[entry], &mut followed[self.entries[entry].queue]) {
                    let reached = self.entries[other].actor;
                    if reached == Search::REQUESTER {
                        return self.path_to(&reached_by, entry);
                    }
                    if reached_by[reached].is_none() {
                        reached_by[reached] = Some(entry);
                        next.push_back(reached);
                    }
                }
            }
        }
        // The request waits behind a cycle of others. A lowered limit, or a prioritized request without a named owner,
        // can create such a cycle.
        let own = self.entries_of(Search::REQUESTER).iter().find(|entry| self.entries[**entry].waits());
        own.map(|entry| self.blocked(*entry)).into_iter().collect()
    }

    /// For each entry, how many waiters were ahead of it before any actor ran.
    fn waiting_ahead(&self) -> Vec<usize> {
        let mut ahead = vec![0; self.entries.len()];
        for queue in &self.queues {
            for (count, entry) in queue.waiting.iter().enumerate() {
                ahead[*entry] = count;
            }
        }
        ahead
    }

    /// The entries that block this one by the rules of its lock, except those that the walk has already followed.
    fn waits_for(&self, index: usize, ahead: usize, followed: &mut Followed) -> Vec<usize> {
        let entry = &self.entries[index];
        let queue = &self.queues[entry.queue];
        let remains = |other: &usize| *other != index && !self.entries[*other].released;
        let mut found = Vec::new();
        if !entry.granted {
            let before = queue.waiting.iter().take(ahead).skip(followed.waiting.max(queue.granted_count));
            found.extend(before.copied().filter(remains));
            followed.waiting = followed.waiting.max(ahead);
        }
        let holders = || queue.holders.iter().chain(queue.waiting.iter().take(queue.granted_count)).copied().filter(remains);
        if entry.upgrading || entry.mode == Mode::Exclusive {
            if !std::mem::replace(&mut followed.holders, true) {
                found.extend(holders());
            }
        } else if !std::mem::replace(&mut followed.reader_blockers, true) {
            let blocks = |holder: &usize| self.entries[*holder].mode == Mode::Exclusive || self.entries[*holder].upgrading;
            found.extend(holders().filter(blocks));
        }
        found
    }

    /// The path from the request to the entry `last`, which waits for the request.
    fn path_to(&self, reached_by: &[Option<usize>], last: usize) -> Vec<Blocked> {
        let mut path = vec![self.blocked(last)];
        let mut actor = self.entries[last].actor;
        while actor != Search::REQUESTER
            && let Some(entry) = reached_by[actor]
        {
            path.push(self.blocked(entry));
            actor = self.entries[entry].actor;
        }
        path.reverse();
        path
    }

    fn blocked(&self, entry: usize) -> Blocked {
        let entry = &self.entries[entry];
        Blocked { session: entry.session, owner: entry.owner.to_owned(), lock: self.queues[entry.queue].lock.clone() }
    }
}
