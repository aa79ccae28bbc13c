//! `Fairhold-Cluster`: the id by which a client recognises a node of its cluster, whatever answers at an address.

use fairhold_node::Node;
use fairhold_types::ClusterId;
use http::HeaderValue;
use openraft_rt::AsyncRuntime;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// The cluster's id for every answer, once this node knows it. Clones share it.
#[derive(Clone)]
pub struct ClusterHeader(Arc<ClusterHeaderInner>);

struct ClusterHeaderInner {
    ask: Box<dyn Fn() -> Option<ClusterId> + Send + Sync>,
    /// It never changes.
    known: OnceLock<HeaderValue>,
}

impl fmt::Debug for ClusterHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClusterHeader").field(&self.0.known.get()).finish()
    }
}

impl ClusterHeader {
    /// The header of a node's cluster.
    #[must_use]
    pub fn of<RT: AsyncRuntime>(node: &Node<RT>) -> ClusterHeader {
        let node = node.clone();
        ClusterHeader::asking(move || node.cluster_id())
    }

    /// Reads the node's status until it has an id.
    pub(crate) fn asking(ask: impl Fn() -> Option<ClusterId> + Send + Sync + 'static) -> ClusterHeader {
        ClusterHeader(Arc::new(ClusterHeaderInner { ask: Box::new(ask), known: OnceLock::new() }))
    }

    /// The header's value; none before the cluster has formed.
    pub(crate) fn value(&self) -> Option<&HeaderValue> {
        let ClusterHeaderInner { ask, known } = &*self.0;
        if known.get().is_none() {
            // Hexadecimal digits are valid in a header.
            let value = HeaderValue::try_from(ask()?.to_hex()).ok()?;
            known.get_or_init(|| value);
        }
        known.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn it_is_asked_for_until_it_is_known_and_then_no_more() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let header = ClusterHeader::asking(|| (ASKED.fetch_add(1, Ordering::Relaxed) > 0).then_some(ClusterId(0xabc)));
        assert_eq!(header.value(), None);
        for _ in 0..3 {
            assert_eq!(header.clone().value().unwrap(), "00000000000000000000000000000abc");
        }
        assert_eq!(ASKED.load(Ordering::Relaxed), 2);
    }
}
