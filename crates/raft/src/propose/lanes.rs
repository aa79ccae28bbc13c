//! Commands that wait, in lanes that take turns: one lane for each tenant of this node's callers, one for its other
//! callers, and one for each node that forwards commands.
//!
//! The turns are a *deficit round robin*: in its turn, a lane may hand over commands of `TURN_COST`, and it keeps what it
//! could not use for a large command. So a flood in one lane delays another lane by a turn, whatever the sizes of the
//! commands are. If the queue is full, the longest lane loses its newest command to a shorter one.

use fairhold_types::NodeId;
use std::collections::{BTreeMap, VecDeque};

/// The cost of the commands that a lane of this node's callers may hand over in a turn: a few small commands, so that turns
/// come often. A node that forwards commands has as many tenants, so its turn is as large as those of all of them together.
const TURN_COST: usize = 16 * 1024;
/// What a command costs besides its bytes. Commands of this size reach both limits of the queue together, on a large node.
const COMMAND_COST: usize = 4 * 1024;
/// A lane keeps the memory of this many commands for the next lane.
const SPARE_COMMANDS: usize = 1_024;

/// Whose commands a lane has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Those of this node's callers, by the number of their tenant.
    Own(Option<u64>),
    /// Those that a node forwards. That node has taken turns between its callers.
    Of(NodeId),
}

/// Commands with their costs, in order.
type Waiting<T> = VecDeque<(usize, T)>;

/// The commands of one lane.
#[derive(Debug)]
struct LaneQueue<T> {
    /// Never empty.
    waiting: Waiting<T>,
    /// Their costs together.
    cost: usize,
    /// The cost that the lane may still hand over in its turn.
    credit: usize,
}

/// All lanes with their commands. A lane without commands does not exist.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    queues: BTreeMap<Lane, LaneQueue<T>>,
    /// The lanes in the order of their turns.
    turns: VecDeque<Lane>,
    /// How many lanes are of this node's callers.
    own: usize,
    len: usize,
    /// The memory of the last lane that ended: without tenants, a lane begins and ends with almost every command.
    spare: Waiting<T>,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Lanes { queues: BTreeMap::new(), turns: VecDeque::new(), own: 0, len: 0, spare: VecDeque::new() }
    }
}

impl<T> Lanes<T> {
    /// How many commands wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a command of this size to a lane. A new lane takes its turn after the others.
    pub(super) fn push(&mut self, lane: Lane, bytes: usize, command: T) {
        let credit = self.turn_cost(lane);
        let queue = self.queues.entry(lane).or_insert_with(|| {
            self.turns.push_back(lane);
            self.own += usize::from(is_own(lane));
            LaneQueue { waiting: std::mem::take(&mut self.spare), cost: 0, credit }
        });
        queue.waiting.push_back((cost(bytes), command));
        queue.cost += cost(bytes);
        self.len += 1;
    }

    /// Takes the next command in turn.
    pub(super) fn pop(&mut self) -> Option<T> {
        loop {
            let lane = *self.turns.front()?;
            let (is_alone, turn_cost) = (self.turns.len() == 1, self.turn_cost(lane));
            let queue = self.queues.get_mut(&lane)?;
            let cost = queue.waiting.front().map(|(cost, _)| *cost)?;
            if cost > queue.credit && !is_alone {
                queue.credit += turn_cost;
                self.turns.rotate_left(1);
                continue;
            }
            // Alone, a lane hands over what it has, and owes nothing for it.
            queue.credit = queue.credit.saturating_sub(cost);
            queue.cost -= cost;
            self.len -= 1;
            let command = queue.waiting.pop_front().map(|(_, command)| command);
            if queue.waiting.is_empty() {
                self.turns.pop_front();
                self.end(lane);
            }
            return command;
        }
    }

    /// Takes the newest command of the longest lane, if that lane is longer than this one would be with another command of
    /// this size. The first command of a lane has room whatever its size is.
    pub(super) fn make_room_for(&mut self, lane: Lane, bytes: usize) -> Option<T> {
        let length = self.queues.get(&lane).map_or(0, |queue| queue.cost + cost(bytes));
        let (longest, queue) = self.queues.iter_mut().max_by_key(|(_, queue)| queue.cost)?;
        if queue.cost <= length {
            return None;
        }
        let longest = *longest;
        let (cost, command) = queue.waiting.pop_back()?;
        queue.cost -= cost;
        self.len -= 1;
        if queue.waiting.is_empty() {
            self.turns.retain(|other| *other != longest);
            self.end(longest);
        }
        Some(command)
    }

    fn turn_cost(&self, lane: Lane) -> usize {
        if is_own(lane) { TURN_COST } else { TURN_COST * self.own.max(1) }
    }

    /// Forgets an empty lane, with its credit.
    fn end(&mut self, lane: Lane) {
        if let Some(mut queue) = self.queues.remove(&lane) {
            self.own -= usize::from(is_own(lane));
            queue.waiting.shrink_to(SPARE_COMMANDS);
            self.spare = queue.waiting;
        }
    }
}

fn is_own(lane: Lane) -> bool {
    match lane {
        Lane::Own(_) => true,
        Lane::Of(_) => false,
    }
}

fn cost(bytes: usize) -> usize {
    bytes.saturating_add(COMMAND_COST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Lane = Lane::Own(Some(1));
    const BLUE: Lane = Lane::Own(Some(2));
    const NOBODY: Lane = Lane::Own(None);
    /// A command of this size costs a whole turn.
    const WHOLE_TURN: usize = TURN_COST - COMMAND_COST;

    fn taken<T>(lanes: &mut Lanes<T>, count: usize) -> Vec<T> {
        std::iter::from_fn(|| lanes.pop()).take(count).collect()
    }

    fn position(taken: &[&str], lane: &str) -> Option<usize> {
        taken.iter().position(|other| *other == lane)
    }

    #[test]
    fn one_lane_is_a_queue() {
        let mut lanes = Lanes::default();
        for (number, bytes) in [(1, 10), (2, 100 * TURN_COST), (3, 0)] {
            lanes.push(NOBODY, bytes, number);
        }
        assert_eq!(lanes.len(), 3);
        assert_eq!(taken(&mut lanes, 9), [1, 2, 3]);
        assert_eq!((lanes.len(), lanes.pop(), lanes.turns.len(), lanes.queues.len()), (0, None, 0, 0));
    }

    #[test]
    fn a_node_that_forwards_has_as_much_as_all_lanes_of_this_node() {
        let mut lanes = Lanes::default();
        for number in 0..20_000_u64 {
            lanes.push(Lane::Own(Some(number % 50)), 100, "own");
            lanes.push(Lane::Of(2), 100, "forwarded");
        }
        let next = taken(&mut lanes, 10_000);
        let forwarded = next.iter().filter(|lane| **lane == "forwarded").count();
        assert!((4_500..5_500).contains(&forwarded), "{forwarded}");
    }

    #[test]
    fn one_lane_that_ends_and_begins_keeps_its_memory_but_not_that_of_a_flood() {
        let mut lanes = Lanes::default();
        lanes.push(NOBODY, 10, 1);
        lanes.pop();
        let memory = lanes.spare.as_slices().0.as_ptr();
        assert!(lanes.spare.capacity() > 0);
        lanes.push(NOBODY, 10, 2);
        assert_eq!(lanes.spare.capacity(), 0, "the lane has it");
        lanes.pop();
        assert_eq!(lanes.spare.as_slices().0.as_ptr(), memory);
        (0..100 * SPARE_COMMANDS).for_each(|number| lanes.push(NOBODY, 10, number));
        while lanes.pop().is_some() {}
        assert!(lanes.spare.capacity() < 2 * SPARE_COMMANDS, "{}", lanes.spare.capacity());
    }

    #[test]
    fn a_flood_in_one_lane_delays_the_others_by_a_turn() {
        let mut lanes = Lanes::default();
        (0..10_000).for_each(|_| lanes.push(RED, 100, "red"));
        assert_eq!(taken(&mut lanes, 5_000), ["red"; 5_000]);
        lanes.push(BLUE, 100, "blue");
        lanes.push(Lane::Of(2), 100, "forwarded");
        // Alone, the flood has used its credit, and it has no debt either.
        assert_eq!(taken(&mut lanes, 6), ["blue", "forwarded", "red", "red", "red", "red"]);
        for _ in 0..100 {
            lanes.push(BLUE, 100, "blue");
            let next = taken(&mut lanes, 5);
            assert!(position(&next, "blue").is_some(), "{next:?}");
        }
    }

    #[test]
    fn lanes_share_by_cost_and_not_by_commands() {
        let mut lanes = Lanes::default();
        (0..100).for_each(|_| lanes.push(RED, 16 * WHOLE_TURN + 15 * COMMAND_COST, "red"));
        (0..1_600).for_each(|_| lanes.push(BLUE, WHOLE_TURN, "blue"));
        let taken = taken(&mut lanes, 17 * 50);
        let red = taken.iter().filter(|lane| **lane == "red").count();
        assert!((49..=51).contains(&red), "{red} large ones and {} small ones", taken.len() - red);
    }

    #[test]
    fn a_command_that_costs_more_than_a_turn_saves_turns() {
        let mut lanes = Lanes::default();
        lanes.push(RED, 2 * TURN_COST + WHOLE_TURN, "red");
        (0..100).for_each(|_| lanes.push(BLUE, WHOLE_TURN, "blue"));
        let taken = taken(&mut lanes, 10);
        assert_eq!(position(&taken, "red"), Some(2), "{taken:?}");
    }

    #[test]
    fn a_lane_that_ends_takes_no_credit_along() {
        let mut lanes = Lanes::default();
        (0..100).for_each(|_| lanes.push(RED, WHOLE_TURN, "red"));
        for _ in 0..10 {
            lanes.push(BLUE, 0, "blue");
            while lanes.pop() != Some("blue") {}
        }
        (0..10).for_each(|_| lanes.push(BLUE, WHOLE_TURN, "blue"));
        let next = taken(&mut lanes, 6);
        assert_eq!(next.iter().filter(|lane| **lane == "blue").count(), 3, "{next:?}");
    }

    #[test]
    fn the_longest_lane_makes_room_for_a_shorter_one() {
        let mut lanes = Lanes::default();
        (0..3).for_each(|number| lanes.push(RED, 10, number));
        lanes.push(BLUE, 10, 10);
        assert_eq!(lanes.make_room_for(RED, 10), None, "the longest lane itself gets no room");
        assert_eq!(lanes.make_room_for(NOBODY, 10), Some(2), "the newest");
        assert_eq!(lanes.make_room_for(BLUE, 10), None, "it would be as long");
        assert_eq!(lanes.make_room_for(BLUE, COMMAND_COST + 20), None, "a large command would be longer");
        assert_eq!(lanes.make_room_for(NOBODY, 100 * COMMAND_COST), Some(1), "a lane without commands");
        assert_eq!(lanes.len(), 2);
        let mut only = Lanes::default();
        assert_eq!(only.make_room_for(RED, 0), None::<u8>);
        only.push(RED, 10, 1);
        assert_eq!((only.make_room_for(BLUE, 1), only.len(), only.pop()), (Some(1), 0, None));
    }

    #[test]
    fn a_few_large_commands_are_no_longer_than_a_flood_of_small_ones() {
        let mut lanes = Lanes::default();
        (0..1_000).for_each(|_| lanes.push(RED, 100, "small"));
        (0..3).for_each(|_| lanes.push(BLUE, 1024 * 1024, "large"));
        assert_eq!(lanes.make_room_for(NOBODY, 100), Some("small"));
        assert_eq!(lanes.make_room_for(BLUE, 100), Some("small"));
    }
}
