//! Settings of a member, and the timing profile of the cluster.

use super::{Membership, Placement, SetMember};
use crate::{
    change::{Change, Effect},
    event::{ClusterEvent, Event},
    outcome::Outcome,
    rejection::Rejection,
    write::WriteKey,
};
use fairhold_types::{NodeId, Timing};
use std::sync::Arc;

impl Membership {
    fn set_placement(&mut self, node: NodeId, placement: Placement) {
        if placement == Placement::default() {
            self.placements.remove(&node);
        } else {
            self.placements.insert(node, placement);
        }
    }
}

impl Change<'_> {
    /// Changes the settings of a member. Nothing is set for a node that has been removed.
    pub(crate) fn set_member(&mut self, request: &SetMember) -> Result<Effect, Rejection> {
        let node = request.node;
        if self.was_set_before(request.key)? || self.state.membership.removed_node(node).is_some() {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        let before = self.state.membership.placement(node);
        let mut placement = before.clone();
        placement.priority = request.priority.unwrap_or(placement.priority);
        if let Some(zone) = &request.zone {
            placement.zone = Some(zone.clone()).filter(|zone| !zone.is_empty());
        }
        // A second change of its address is a change too, although the state does not have the address.
        let changed = placement != before || request.address_set;
        if changed {
            let membership = Arc::make_mut(&mut self.state.membership);
            membership.set_placement(node, placement);
            if request.address_set {
                membership.set_addresses.insert(node);
            }
            self.events.push(Event::Cluster(ClusterEvent::MemberSet { node, by: request.by.clone() }));
        }
        Ok(self.end_setting(changed, request.key))
    }

    /// Sets the timing profile of the cluster.
    pub(crate) fn set_timing(&mut self, timing: Timing, by: &str, key: Option<WriteKey>) -> Result<Effect, Rejection> {
        if self.was_set_before(key)? {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        let changed = self.state.membership.timing() != timing;
        if changed {
            Arc::make_mut(&mut self.state.membership).timing = timing;
            self.events.push(Event::Cluster(ClusterEvent::TimingSet { timing, by: by.to_owned() }));
        }
        Ok(self.end_setting(changed, key))
    }

    /// Whether the request with this key was done. If it was not, the table has room for its key.
    pub(crate) fn was_set_before(&self, key: Option<WriteKey>) -> Result<bool, Rejection> {
        let Some(key) = key else { return Ok(false) };
        if self.state.was_written(key)? {
            return Ok(true);
        }
        self.require_tombstone_room().map(|()| false)
    }

    /// Remembers the key even if nothing changed: a late repetition could change something.
    pub(crate) fn end_setting(&mut self, changed: bool, key: Option<WriteKey>) -> Effect {
        key.into_iter().for_each(|key| self.remember_write(key));
        if changed || key.is_some() { Effect::Changed(Outcome::Done) } else { Effect::Unchanged(Outcome::Nothing) }
    }
}
