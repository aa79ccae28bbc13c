//! The addresses at which this node reaches the members: the configured ones, or else those in the replicated
//! membership.
//!
//! The replicated membership keeps the addresses with which the cluster was formed. Machines get new addresses, so a
//! node that is started with other addresses uses those. But once the cluster itself has set the address of a member,
//! because the member joined with a token or because an operator set it, the configuration no longer counts. A wrong
//! address does no harm: a connection begins with the id and the data directory of the node that answers, and these are
//! checked against the replicated membership.

use crate::base::{config::MemberAddress, peer::Target, types::Member};
use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The addresses. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct MemberAddresses(Arc<Addresses>);

#[derive(Default)]
struct Addresses {
    configured: BTreeMap<NodeId, MemberAddress>,
    /// The members whose address the cluster has set.
    set_by_cluster: Mutex<BTreeSet<NodeId>>,
    /// The members of the newest membership.
    newest: Mutex<BTreeMap<NodeId, Member>>,
}

impl MemberAddresses {
    pub(crate) fn new(configured: &BTreeMap<NodeId, MemberAddress>) -> Self {
        MemberAddresses(Arc::new(Addresses { configured: configured.clone(), ..Addresses::default() }))
    }

    /// The members with a configured address.
    pub(crate) fn configured(&self) -> impl Iterator<Item = NodeId> {
        self.0.configured.keys().copied()
    }

    /// The members whose address the cluster has set: for these, the configuration no longer counts.
    pub(crate) fn set_by_cluster(&self, ids: BTreeSet<NodeId>) {
        *self.0.set_by_cluster.lock() = ids;
    }

    /// The members of the newest membership. openraft keeps a client for as long as its node is a member, so a client
    /// looks here for a changed address.
    pub(crate) fn set_newest<'m>(&self, members: impl Iterator<Item = (&'m NodeId, &'m Member)>) {
        *self.0.newest.lock() = members.map(|(id, member)| (*id, member.clone())).collect();
    }

    fn configured_for(&self, id: NodeId) -> Option<&MemberAddress> {
        self.0.configured.get(&id).filter(|_| !self.0.set_by_cluster.lock().contains(&id))
    }

    /// A member with the addresses that this node uses.
    pub(crate) fn of(&self, id: NodeId, replicated: &Member) -> Member {
        match self.configured_for(id) {
            Some(MemberAddress { url, address }) => {
                Member { url: url.clone(), address: address.clone(), incarnation: replicated.incarnation }
            }
            None => replicated.clone(),
        }
    }

    /// The URL of a member for clients.
    pub(crate) fn url<'m>(&'m self, id: NodeId, replicated: &'m Member) -> &'m str {
        self.configured_for(id).map_or(&replicated.url, |configured| &configured.url)
    }

    /// A member as the transport addresses it.
    pub(crate) fn target(&self, id: NodeId, replicated: &Member) -> Target {
        let address = self.configured_for(id).map_or(&replicated.address, |configured| &configured.address);
        Target { id, address: address.clone(), incarnation: Some(replicated.incarnation) }
    }

    /// A member as the transport addresses it, with its newest address. `known` is the member as it was before.
    pub(crate) fn newest_target(&self, id: NodeId, known: &Member) -> Target {
        let newest = self.0.newest.lock();
        self.target(id, newest.get(&id).filter(|member| member.incarnation == known.incarnation).unwrap_or(known))
    }

    /// Warns of each address that differs from the one with which the cluster was formed.
    pub(crate) fn log_differences<'a>(&self, members: impl Iterator<Item = (&'a NodeId, &'a Member)>) {
        for (&id, formed) in members {
            let here = self.of(id, formed);
            if here != *formed {
                tracing::warn!(
                    node = id,
                    "node {id} joined as {},{} but this node's configuration has {},{} for it. This node uses the configured \
                     addresses. Start every node with the same list of members, or set the address in the cluster: `fairhold \
                     cluster set-member {id}`",
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

    #[test]
    fn an_address_that_the_cluster_has_set_wins_over_the_configured_one() {
        let member = |host: &str| {
            let url = format!("http://{host}:1");
            Member { url, address: format!("{host}:2"), incarnation: Incarnation(7) }
        };
        let configured = MemberAddress { url: "http://old:1".to_owned(), address: "old:2".to_owned() };
        let addresses = MemberAddresses::new(&BTreeMap::from([(1, configured)]));
        let client = addresses.clone();
        assert_eq!(client.newest_target(1, &member("first")).address, "old:2");
        addresses.set_by_cluster(BTreeSet::from([1]));
        assert_eq!(client.newest_target(1, &member("first")).address, "first:2");
        assert_eq!(client.url(1, &member("first")), "http://first:1");
        addresses.set_newest([(&1, &member("second"))].into_iter());
        assert_eq!(client.newest_target(1, &member("first")).address, "second:2");
        let other = Member { incarnation: Incarnation(8), ..member("first") };
        assert_eq!(client.newest_target(1, &other).address, "first:2", "another data directory is another node");
    }
}
