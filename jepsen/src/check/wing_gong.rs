//! Wing and Gong's search with memory: does a simple model allow any order of the operations that respects real time?
//!
//! It checks one key at a time, which is enough (linearizability is local), and trusts no revision and no token. An
//! operation with an unknown outcome may happen at any time after it was sent, or never.

pub(super) mod locks;
pub(super) mod registers;

use std::{collections::HashSet, hash::Hash};

/// The maximum number of states of the search of one key.
const STATES_MAX: usize = 2_000_000;

/// A model of the operations of one key.
pub(super) trait Model {
    /// The state between two operations.
    type State: Clone + Eq + Hash;
    /// An operation.
    type Action;

    /// The first state.
    fn initial() -> Self::State;

    /// The state after the action; `None` if the action is not possible.
    fn step(state: &Self::State, action: &Self::Action) -> Option<Self::State>;
}

/// An operation with its time.
#[derive(Debug, Clone)]
pub(super) struct Item<A> {
    /// The earliest time at which it can take effect.
    pub(super) start: u64,
    /// The latest time; `None`: any time, or never.
    pub(super) end: Option<u64>,
    /// Its role.
    pub(super) action: A,
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchAnswer {
    /// An order exists.
    Possible,
    /// No order exists; this is the length of the longest prefix that has one.
    Impossible { longest: usize },
    /// The search reached `STATES_MAX`.
    TooMany,
}

/// A position of the search: the operations taken, the state after them, and how many of the necessary ones are done.
struct SearchPlace<S> {
    taken: Vec<u64>,
    state: S,
    /// All operations before this index are taken.
    first: usize,
    done: usize,
}

/// Searches for an order.
pub(super) fn search<M: Model>(mut items: Vec<Item<M::Action>>) -> SearchAnswer {
    items.sort_by_key(|item| item.start);
    let necessary = items.iter().filter(|item| item.end.is_some()).count();
    let mut seen: HashSet<(Vec<u64>, M::State)> = HashSet::new();
    let mut places = vec![SearchPlace { taken: vec![0; items.len().div_ceil(64)], state: M::initial(), first: 0, done: 0 }];
    let mut longest = 0;
    while let Some(place) = places.pop() {
        longest = longest.max(place.done);
        if place.done == necessary {
            return SearchAnswer::Possible;
        }
        if seen.len() > STATES_MAX {
            return SearchAnswer::TooMany;
        }
        let is_taken = |index: usize| (place.taken[index / 64] >> (index % 64)) & 1 == 1;
        let first = (place.first..items.len()).find(|index| !is_taken(*index)).unwrap_or(items.len());
        // The next operation began before every remaining necessary one had ended.
        let mut until = u64::MAX;
        let mut next = Vec::new();
        for (index, item) in items.iter().enumerate().skip(first).filter(|(index, _)| !is_taken(*index)) {
            if item.start > until {
                break;
            }
            next.push(index);
            until = until.min(item.end.unwrap_or(u64::MAX));
        }
        // Operations that must happen are tried first: they are on top.
        next.retain(|index| items[*index].start <= until);
        next.sort_by_key(|index| std::cmp::Reverse(items[*index].end.unwrap_or(u64::MAX)));
        for index in next {
            let Some(state) = M::step(&place.state, &items[index].action) else { continue };
            let mut taken = place.taken.clone();
            taken[index / 64] |= 1 << (index % 64);
            if seen.insert((taken.clone(), state.clone())) {
                places.push(SearchPlace { taken, state, first, done: place.done + usize::from(items[index].end.is_some()) });
            }
        }
    }
    SearchAnswer::Impossible { longest }
}
