//! How much of a node's memory its clients may pin, by purpose. Each share is a fraction of the process's memory, up to the
//! amount that a large node needs. A small node refuses earlier than a large one.

use crate::limits::{
    ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, CONNECTIONS_MAX, EVENT_RING_BYTES, PROPOSALS_BYTES_MAX, STATE_MEMORY_PART,
};

/// Bytes of memory per connection that a node accepts. One connection pins at most a quarter of that.
const BYTES_PER_CONNECTION: u64 = 256 * 1024;
/// The fraction (1/N) for request bodies, and the same again for answers.
const BODIES_PART: u64 = 16;
/// The fraction (1/N) for events, and the same again for commands in the proposal queue.
const EVENTS_PART: u64 = 32;

/// The smallest share, in bytes: twice the size of the largest batch.
const SHARE_BYTES_MIN: u64 = 4 * 1024 * 1024;
/// The smallest number of connections.
const CONNECTIONS_MIN: u64 = 100;

/// The limits of a node with a given amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Client connections.
    pub connections: usize,
    /// Bytes of all request bodies over 4 KiB that are in progress. One address may use half of them.
    pub body_bytes: usize,
    /// Bytes of all answers waiting for their sockets, beyond each connection's free part. One address may use half of them.
    pub answer_bytes: usize,
    /// Bytes of the event ring.
    pub event_ring_bytes: u64,
    /// Bytes of the commands in the proposal queue.
    pub proposal_bytes: usize,
    /// Bytes of the state, by its own accounting.
    pub state_bytes: u64,
}

impl MemoryPlan {
    /// The plan for a process with this many bytes of memory.
    #[must_use]
    pub fn of(memory: u64) -> MemoryPlan {
        let part = |part: u64, max: usize| bytes((memory / part).max(SHARE_BYTES_MIN)).min(max);
        let connections = bytes((memory / BYTES_PER_CONNECTION).max(CONNECTIONS_MIN));
        MemoryPlan {
            connections: connections.min(CONNECTIONS_MAX),
            body_bytes: part(BODIES_PART, BODIES_BYTES_MAX),
            answer_bytes: part(BODIES_PART, ANSWERS_BYTES_MAX),
            event_ring_bytes: (memory / EVENTS_PART).clamp(SHARE_BYTES_MIN, EVENT_RING_BYTES),
            proposal_bytes: part(EVENTS_PART, PROPOSALS_BYTES_MAX),
            state_bytes: memory / STATE_MEMORY_PART,
        }
    }

    /// The plan for a node with as much memory as clients could ever pin.
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
    fn a_small_node_allows_a_share_of_its_memory_and_a_large_one_the_maximum() {
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
