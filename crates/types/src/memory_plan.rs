//! How much of a node's memory its clients may pin, by what for. Each is a part of the memory that the process may have, up to
//! what a large node needs: a small node refuses early what a large one takes.

use crate::limits::{
    ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, CONNECTIONS_MAX, EVENT_RING_BYTES, PROPOSALS_BYTES_MAX, STATE_MEMORY_PART,
};

/// The bytes of memory for each connection that a node takes. A connection pins a quarter of that at most.
const BYTES_PER_CONNECTION: u64 = 256 * 1024;
/// One part in so many is for bodies, and as much for answers.
const BODIES_PART: u64 = 16;
/// One part in so many is for events, and as much for commands on their way.
const EVENTS_PART: u64 = 32;

/// The least that a share is: a batch of the largest size has room in it, twice.
const LEAST: u64 = 4 * 1024 * 1024;
/// The fewest connections.
const CONNECTIONS_LEAST: u64 = 100;

/// What a node with some memory allows its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Connections of clients.
    pub connections: usize,
    /// Bytes of all request bodies over 4 KiB that are in work. One address has half of them at most.
    pub body_bytes: usize,
    /// Bytes of all answers, beyond what each connection has for itself, that their sockets have not taken yet. One address has
    /// half of them at most.
    pub answer_bytes: usize,
    /// Bytes of events for those who watch.
    pub event_ring_bytes: u64,
    /// Bytes of commands that wait to be proposed.
    pub proposal_bytes: usize,
    /// Bytes of the state, as it counts itself.
    pub state_bytes: u64,
}

impl MemoryPlan {
    /// For a process that may have so many bytes of memory.
    #[must_use]
    pub fn of(memory: u64) -> MemoryPlan {
        let part = |part: u64, most: usize| bytes((memory / part).max(LEAST)).min(most);
        let connections = bytes((memory / BYTES_PER_CONNECTION).max(CONNECTIONS_LEAST));
        MemoryPlan {
            connections: connections.min(CONNECTIONS_MAX),
            body_bytes: part(BODIES_PART, BODIES_BYTES_MAX),
            answer_bytes: part(BODIES_PART, ANSWERS_BYTES_MAX),
            event_ring_bytes: (memory / EVENTS_PART).clamp(LEAST, EVENT_RING_BYTES),
            proposal_bytes: part(EVENTS_PART, PROPOSALS_BYTES_MAX),
            state_bytes: memory / STATE_MEMORY_PART,
        }
    }

    /// For a node with all the memory that its clients could pin.
    #[must_use]
    pub fn of_a_large_node() -> MemoryPlan {
        MemoryPlan::of(u64::from(u32::MAX) + 1)
    }
}

fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_node_allows_a_part_of_its_memory_and_a_large_one_what_is_enough() {
        let small = MemoryPlan {
            connections: 4_096,
            body_bytes: 64 << 20,
            answer_bytes: 64 << 20,
            event_ring_bytes: 32 << 20,
            proposal_bytes: 32 << 20,
            state_bytes: 128 << 20,
        };
        assert_eq!(MemoryPlan::of(1 << 30), small);
        let large = MemoryPlan {
            connections: 10_000,
            body_bytes: 256 << 20,
            answer_bytes: 256 << 20,
            event_ring_bytes: 64 << 20,
            proposal_bytes: 64 << 20,
            state_bytes: 512 << 20,
        };
        assert_eq!(MemoryPlan::of_a_large_node(), large);
        assert_eq!(MemoryPlan::of(1 << 40), MemoryPlan { state_bytes: 128 << 30, ..large });
        let tiny = MemoryPlan::of(1 << 20);
        assert_eq!((tiny.connections, tiny.body_bytes, tiny.event_ring_bytes), (100, 4 << 20, 4 << 20));
    }
}
