//! The addresses at which this node reaches the members: the configured ones, or else those with which the cluster was
//! formed.
//!
//! The replicated membership keeps the addresses with which the cluster was formed. Machines get new addresses, so a
//! node that is started with other addresses uses those. A wrong address does no harm: a connection begins with the id
//! and the data directory of the node that answers, and these are checked against the replicated membership.

use crate::base::{config::MemberAddress, peer::Target, types::Member};
use fairhold_types::NodeId;
use std::{collections::BTreeMap, sync::Arc};

/// The configured addresses. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct MemberAddresses(Arc<BTreeMap<NodeId, MemberAddress>>);

impl MemberAddresses {
    pub(crate) fn new(configured: &BTreeMap<NodeId, MemberAddress>) -> Self {
        MemberAddresses(Arc::new(configured.clone()))
    }

    /// A member with the addresses that this node uses.
    pub(crate) fn of(&self, id: NodeId, replicated: &Member) -> Member {
        match self.0.get(&id) {
            Some(MemberAddress { url, address }) => {
                Member { url: url.clone(), address: address.clone(), incarnation: replicated.incarnation }
            }
            None => replicated.clone(),
        }
    }

    /// The URL of a member for clients.
    pub(crate) fn url<'m>(&'m self, id: NodeId, replicated: &'m Member) -> &'m str {
        self.0.get(&id).map_or(&replicated.url, |configured| &configured.url)
    }

    /// A member as the transport addresses it.
    pub(crate) fn target(&self, id: NodeId, replicated: &Member) -> Target {
        let Member { address, incarnation, .. } = self.of(id, replicated);
        Target { id, address, incarnation: Some(incarnation) }
    }

    /// Warns of each address that differs from the one with which the cluster was formed.
    pub(crate) fn log_differences<'a>(&self, members: impl Iterator<Item = (&'a NodeId, &'a Member)>) {
        for (&id, formed) in members {
            let here = self.of(id, formed);
            if here != *formed {
                tracing::warn!(
                    node = id,
                    "node {id} joined as {},{} but this node's configuration has {},{} for it. This node uses the configured \
                     addresses. Start every node with the same list of members",
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
    fn the_configured_address_and_the_replicated_data_directory_win() {
        let formed = Member { url: "http://old:1".to_owned(), address: "old:2".to_owned(), incarnation: Incarnation(7) };
        let configured = MemberAddress { url: "http://new:1".to_owned(), address: "new:2".to_owned() };
        let addresses = MemberAddresses::new(&BTreeMap::from([(1, configured)]));
        let target = addresses.target(1, &formed);
        assert_eq!((target.address.as_str(), target.incarnation), ("new:2", Some(Incarnation(7))));
        assert_eq!(addresses.of(1, &formed).url, "http://new:1");
        assert_eq!(addresses.of(2, &formed), formed, "the configuration does not name it");
    }
}
