//! Where this node reaches the members: where its configuration says, and as the cluster was formed where it says nothing.
//!
//! The replicated membership keeps the addresses with which the cluster was formed. Machines are given new addresses, so a node
//! that is started with others uses those. A wrong one does no harm: a connection begins with the number and the data directory
//! of the node that answers, and those are compared with the replicated ones.

use crate::base::{config::MemberAddress, peer::Target, types::Member};
use fairhold_types::NodeId;
use std::{collections::BTreeMap, sync::Arc};

/// The configured addresses. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Addresses(Arc<BTreeMap<NodeId, MemberAddress>>);

impl Addresses {
    pub(crate) fn new(configured: &BTreeMap<NodeId, MemberAddress>) -> Self {
        Addresses(Arc::new(configured.clone()))
    }

    /// A member with the addresses that count here.
    pub(crate) fn of(&self, id: NodeId, replicated: &Member) -> Member {
        match self.0.get(&id) {
            Some(MemberAddress { url, address }) => {
                Member { url: url.clone(), address: address.clone(), incarnation: replicated.incarnation }
            }
            None => replicated.clone(),
        }
    }

    /// A member as the transport knows it.
    pub(crate) fn target(&self, id: NodeId, replicated: &Member) -> Target {
        let Member { address, incarnation, .. } = self.of(id, replicated);
        Target { id, address, incarnation: Some(incarnation) }
    }

    /// Says which addresses are not those with which the cluster was formed.
    pub(crate) fn tell_changes<'a>(&self, members: impl Iterator<Item = (&'a NodeId, &'a Member)>) {
        for (&id, formed) in members {
            let here = self.of(id, formed);
            if here != *formed {
                tracing::warn!(
                    node = id,
                    "node {id} joined as {},{} but this node's configuration has {},{} for it, and uses that. Start every node \
                     with the same list of members",
                    formed.url,
                    formed.address,
                    here.url,
                    here.address
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::Incarnation;

    #[test]
    fn the_configured_address_counts_and_the_replicated_data_directory() {
        let formed = Member { url: "http://old:1".to_owned(), address: "old:2".to_owned(), incarnation: Incarnation(7) };
        let configured = MemberAddress { url: "http://new:1".to_owned(), address: "new:2".to_owned() };
        let addresses = Addresses::new(&BTreeMap::from([(1, configured)]));
        let target = addresses.target(1, &formed);
        assert_eq!((target.address.as_str(), target.incarnation), ("new:2", Some(Incarnation(7))));
        assert_eq!(addresses.of(1, &formed).url, "http://new:1");
        assert_eq!(addresses.of(2, &formed), formed, "the configuration does not name it");
    }
}
