//! The cycle in which a request would wait, as its caller is told.

use super::search::Search;
use crate::command::Blocked;
use fairhold_types::Mode;
use std::collections::VecDeque;

/// How much of a line was followed.
#[derive(Debug, Clone, Copy, Default)]
struct Followed {
    /// So many of those who wait.
    waiting: usize,
    /// The holders that stop readers.
    stopping_readers: bool,
    /// All who hold it.
    holders: bool,
}

impl Search<'_> {
    /// The shortest way from the request back to itself, among those who are left. Everybody is followed once, so it costs as
    /// much as was collected.
    pub(super) fn cycle(&self) -> Vec<Blocked> {
        // By which stand each actor was reached.
        let mut by: Vec<Option<usize>> = vec![None; self.actors()];
        let mut followed = vec![Followed::default(); self.lines.len()];
        let places = self.places();
        let mut next = VecDeque::from([Search::REQUEST]);
        while let Some(actor) = next.pop_front() {
            for stand in self.stands_of(actor).iter().copied().filter(|stand| self.stands[*stand].waits()) {
                for other in self.waits_for(stand, places[stand], &mut followed[self.stands[stand].line]) {
                    let reached = self.stands[other].actor;
                    if reached == Search::REQUEST {
                        return self.way(&by, stand);
                    }
                    if by[reached].is_none() {
                        by[reached] = Some(stand);
                        next.push_back(reached);
                    }
                }
            }
        }
        // It stands behind a cycle of others. A lowered limit may have closed it, or a request of priority without a named owner.
        let own = self.stands_of(Search::REQUEST).iter().find(|stand| self.stands[**stand].waits());
        own.map(|stand| self.blocked(*stand)).into_iter().collect()
    }

    /// How many of those who waited at the beginning stood before each.
    fn places(&self) -> Vec<usize> {
        let mut places = vec![0; self.stands.len()];
        for line in &self.lines {
            for (place, stand) in line.waiting.iter().enumerate() {
                places[*stand] = place;
            }
        }
        places
    }

    /// For which of those who were not followed yet a stand waits, by the rules of its lock.
    fn waits_for(&self, number: usize, own: usize, followed: &mut Followed) -> Vec<usize> {
        let stand = &self.stands[number];
        let line = &self.lines[stand.line];
        let left = |other: &usize| *other != number && !self.stands[*other].gone;
        let mut found = Vec::new();
        if !stand.granted {
            let before = line.waiting.iter().take(own).skip(followed.waiting.max(line.granted));
            found.extend(before.copied().filter(left));
            followed.waiting = followed.waiting.max(own);
        }
        let holders = || line.holders.iter().chain(line.waiting.iter().take(line.granted)).copied().filter(left);
        if stand.upgrading || stand.mode == Mode::Exclusive {
            if !std::mem::replace(&mut followed.holders, true) {
                found.extend(holders());
            }
        } else if !std::mem::replace(&mut followed.stopping_readers, true) {
            let stops = |holder: &usize| self.stands[*holder].mode == Mode::Exclusive || self.stands[*holder].upgrading;
            found.extend(holders().filter(stops));
        }
        found
    }

    /// The links from the request to that stand, which waits for the request.
    fn way(&self, by: &[Option<usize>], last: usize) -> Vec<Blocked> {
        let mut way = vec![self.blocked(last)];
        let mut actor = self.stands[last].actor;
        while actor != Search::REQUEST
            && let Some(stand) = by[actor]
        {
            way.push(self.blocked(stand));
            actor = self.stands[stand].actor;
        }
        way.reverse();
        way
    }

    fn blocked(&self, stand: usize) -> Blocked {
        let stand = &self.stands[stand];
        Blocked { session: stand.session, owner: stand.owner.to_owned(), lock: self.lines[stand.line].lock.clone() }
    }
}
