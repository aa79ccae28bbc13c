//! `Fairhold-Cluster`: the cluster's id. By it a client detects that it reached a node of another cluster, or another server.

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
    /// Returns the id once the node knows it.
    source: Box<dyn Fn() -> Option<ClusterId> + Send + Sync>,
    /// The id, which never changes.
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
        ClusterHeader::from_source(move || node.cluster_id())
    }

    /// The header of a cluster that is known before the node runs, if it is.
    #[must_use]
    pub fn known(cluster: Option<ClusterId>) -> ClusterHeader {
        ClusterHeader::from_source(move || cluster)
    }

    /// Calls `source` until it returns an id.
    pub(crate) fn from_source(source: impl Fn() -> Option<ClusterId> + Send + Sync + 'static) -> ClusterHeader {
        ClusterHeader(Arc::new(ClusterHeaderInner { source: Box::new(source), known: OnceLock::new() }))
    }

    /// The header's value; none before the cluster has formed.
    pub(crate) fn value(&self) -> Option<&HeaderValue> {
        let ClusterHeaderInner { source, known } = &*self.0;
        if known.get().is_none() {
            // Hexadecimal digits are valid in a header.
            let value = HeaderValue::try_from(source()?.to_hex()).ok()?;
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
    fn the_source_is_called_until_the_id_is_known() {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let header = ClusterHeader::from_source(|| (CALLS.fetch_add(1, Ordering::Relaxed) > 0).then_some(ClusterId(0xabc)));
        assert_eq!(header.value(), None);
        for _ in 0..3 {
            assert_eq!(header.clone().value().unwrap(), "00000000000000000000000000000abc");
        }
        assert_eq!(CALLS.load(Ordering::Relaxed), 2);
    }
}
