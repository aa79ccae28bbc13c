//! The kinds of nodes, which say how long a node lives.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How long a node lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeKind {
    /// Until it is removed.
    Persistent,
    /// As long as the session that owns it.
    Ephemeral,
    /// Until it has had no children for some time; never before its first child.
    Container,
    /// Until it has had no children and no change for this long.
    Ttl {
        /// Its time to live in milliseconds.
        ttl_ms: u64,
    },
}

/// A kind in 8 bytes instead of 16. With it, a node takes 128 bytes, which is an allocator's size class. With 8 more it
/// would take 160.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "NodeKind", into = "NodeKind")]
pub struct PackedKind(u64);

impl PackedKind {
    const PERSISTENT: u64 = 0;
    const EPHEMERAL: u64 = 1;
    const CONTAINER: u64 = 2;
    /// A time to live of 0.
    const TTL: u64 = 3;

    /// The unpacked kind.
    #[must_use]
    pub fn get(self) -> NodeKind {
        match self.0 {
            PackedKind::PERSISTENT => NodeKind::Persistent,
            PackedKind::EPHEMERAL => NodeKind::Ephemeral,
            PackedKind::CONTAINER => NodeKind::Container,
            ttl => NodeKind::Ttl { ttl_ms: ttl - PackedKind::TTL },
        }
    }
}

impl From<NodeKind> for PackedKind {
    fn from(kind: NodeKind) -> PackedKind {
        PackedKind(match kind {
            NodeKind::Persistent => PackedKind::PERSISTENT,
            NodeKind::Ephemeral => PackedKind::EPHEMERAL,
            NodeKind::Container => PackedKind::CONTAINER,
            // The limits keep it far below: ten thousand years would fit.
            NodeKind::Ttl { ttl_ms } => PackedKind::TTL.saturating_add(ttl_ms),
        })
    }
}

impl From<PackedKind> for NodeKind {
    fn from(kind: PackedKind) -> NodeKind {
        kind.get()
    }
}

impl PartialEq<NodeKind> for PackedKind {
    fn eq(&self, other: &NodeKind) -> bool {
        self.get() == *other
    }
}

impl fmt::Debug for PackedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [NodeKind; 6] = [
        NodeKind::Persistent,
        NodeKind::Ephemeral,
        NodeKind::Container,
        NodeKind::Ttl { ttl_ms: 0 },
        NodeKind::Ttl { ttl_ms: 1 },
        NodeKind::Ttl { ttl_ms: u64::MAX - PackedKind::TTL },
    ];

    #[test]
    fn every_kind_survives_packing() {
        for kind in KINDS {
            assert_eq!(PackedKind::from(kind).get(), kind);
        }
    }

    #[test]
    fn a_packed_kind_is_encoded_like_the_kind() {
        for kind in KINDS {
            let written = fairhold_codec::encode(1, &PackedKind::from(kind)).unwrap();
            assert_eq!(written, fairhold_codec::encode(1, &kind).unwrap());
            assert_eq!(fairhold_codec::decode::<PackedKind>(1, &written).unwrap(), kind);
        }
    }

    #[test]
    fn a_command_is_no_larger_than_an_acquire() {
        // Each command is moved several times on its way: put the large parts of a rare one in a box.
        assert!(size_of::<crate::command::Command>() <= size_of::<crate::command::Acquire>());
    }

    #[test]
    fn a_node_with_its_reference_counts_fits_a_size_class() {
        assert_eq!(size_of::<crate::record::Znode>() + 2 * size_of::<usize>(), 128);
    }
}
