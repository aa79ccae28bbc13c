//! The model's rules about members: lists of join tokens, joins and removals that are searched from end to end.

use fairhold_state::{
    command::{AdmitNode, ClusterEvent, CreateJoinToken, JoinTokenFault, Outcome, Rejection, RequestRemoval, SetMember},
    membership::{Join, JoinToken, Membership, Placement, Removal, Removed},
};
use fairhold_types::{Incarnation, JoinTokenNumber, Revision, Timing, time::WallMillis};

/// Mistakes that the model makes on request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MembershipMistakes {
    pub(crate) lowest_free_id: bool,
    pub(crate) tokens_never_expire: bool,
    pub(crate) tokens_admit_any_directory: bool,
    pub(crate) a_member_is_replaced_twice: bool,
    pub(crate) settings_outlive_the_member: bool,
    pub(crate) a_settled_address_is_not_set: bool,
    pub(crate) a_removed_node_joins_again: bool,
    pub(crate) replacements_are_not_named: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NaiveMembership {
    pub(crate) mistakes: MembershipMistakes,
    highest: u64,
    created: u64,
    tokens: Vec<(u64, JoinToken)>,
    joins: Vec<(u64, Join)>,
    removals: Vec<(u64, Removal)>,
    removed: Vec<(u64, Removed)>,
    priorities: Vec<(u64, u8)>,
    zones: Vec<(u64, String)>,
    addresses: Vec<u64>,
    timing: Timing,
    /// The events of the change so far.
    pub(crate) events: Vec<ClusterEvent>,
}

/// What the machine's record must be, in every part.
#[derive(Debug, PartialEq)]
pub(crate) struct MembershipFacts {
    ids_through: u64,
    tokens: Vec<(u64, JoinToken)>,
    joins: Vec<(u64, Join)>,
    removals: Vec<(u64, Removal)>,
    removed: Vec<(u64, Removed)>,
    timing: Timing,
    settled: bool,
    /// For each id: its placement, whether its address is set, and whether it is gone if it is a member, and if it is
    /// not.
    nodes: Vec<(Placement, bool, bool, bool)>,
}

/// The ids of which the settings are compared.
const IDS: u64 = 250;

fn sorted<T: Clone>(list: &[(u64, T)]) -> Vec<(u64, T)> {
    let mut list = list.to_vec();
    list.sort_by_key(|(number, _)| *number);
    list
}

fn find<T>(list: &[(u64, T)], number: u64) -> Option<&T> {
    list.iter().find(|(known, _)| *known == number).map(|(_, found)| found)
}

/// The same facts, from the machine.
pub(crate) fn facts_of(membership: &Membership) -> MembershipFacts {
    let node = |id| {
        let set = membership.has_set_address(id);
        (membership.placement(id), set, membership.is_gone(id, true), membership.is_gone(id, false))
    };
    MembershipFacts {
        ids_through: membership.ids_through(),
        tokens: membership.tokens().map(|(number, token)| (number.0, token.clone())).collect(),
        joins: membership.joins().map(|(node, join)| (node, join.clone())).collect(),
        removals: membership.removals().map(|(node, removal)| (node, removal.clone())).collect(),
        removed: membership.removed().map(|(node, removed)| (node, removed.clone())).collect(),
        timing: membership.timing(),
        settled: membership.is_settled(),
        nodes: (0..IDS).map(node).collect(),
    }
}

impl NaiveMembership {
    pub(crate) fn facts(&self) -> MembershipFacts {
        let node = |id| {
            let priority = find(&self.priorities, id).copied().unwrap_or(50);
            let placement = Placement { priority, zone: find(&self.zones, id).cloned() };
            let is_removed = find(&self.removed, id).is_some();
            let was_given = id != 0 && id <= self.highest;
            let gone = is_removed || (was_given && find(&self.joins, id).is_none());
            (placement, self.addresses.contains(&id), is_removed, gone)
        };
        MembershipFacts {
            ids_through: self.highest,
            tokens: sorted(&self.tokens),
            joins: sorted(&self.joins),
            removals: sorted(&self.removals),
            removed: sorted(&self.removed),
            timing: self.timing,
            settled: self.joins.is_empty() && self.removals.is_empty(),
            nodes: (0..IDS).map(node).collect(),
        }
    }

    /// The join token that the request with this key created: its number, and the fingerprint of the request.
    pub(crate) fn created_with(&self, order: &CreateJoinToken) -> Option<(u64, [u8; 16])> {
        let key = order.key?;
        let with = |token: &JoinToken| token.key.filter(|used| used.key == key.key);
        self.tokens.iter().find_map(|(number, token)| Some((*number, with(token)?.fingerprint)))
    }

    pub(crate) fn create(&mut self, order: &CreateJoinToken) -> Result<Outcome, Rejection> {
        let expired = |token: &JoinToken| token.expires_at.is_some_and(|end| order.at >= end);
        let never = self.mistakes.tokens_never_expire;
        self.tokens.retain(|(_, token)| never || !expired(token));
        if self.tokens.len() == 100 {
            let joins = |node: u64| self.joins.iter().any(|(id, _)| *id == node);
            let spent = self.tokens.iter().position(|(_, token)| token.used_by.is_some_and(|(node, _)| !joins(node)));
            match spent {
                Some(index) => drop(self.tokens.remove(index)),
                None => return Err(Rejection::JoinTokensFull { max: 100 }),
            }
        }
        self.created += 1;
        let token = JoinToken {
            role: order.role,
            replaces: order.replaces,
            standing: order.standing,
            up_to: order.up_to,
            expires_at: order.expires_at,
            created_at: order.at,
            by: order.by.clone(),
            secret_hash: order.secret_hash,
            key: order.key,
            used_by: None,
        };
        self.tokens.push((self.created, token));
        Ok(Outcome::JoinTokenCreated { number: JoinTokenNumber(self.created), repeated: false })
    }

    pub(crate) fn revoke(&mut self, number: u64) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|(known, _)| *known != number);
        self.tokens.len() != before
    }

    /// The outcome, and whether anything changed.
    pub(crate) fn admit(&mut self, order: &AdmitNode) -> Result<(Outcome, bool), Rejection> {
        let fault = |fault| Err(Rejection::JoinToken(fault));
        let Some(token) = find(&self.tokens, order.token.0).filter(|token| token.secret_hash == order.secret_hash).cloned()
        else {
            return fault(JoinTokenFault::Unknown);
        };
        let joining = self.joins.iter().find(|(_, join)| join.incarnation == order.incarnation);
        if let Some((node, join)) = joining {
            return Ok((Outcome::Admitted { node: *node, role: join.role, replaces: join.replaces }, false));
        }
        let any_directory = self.mistakes.tokens_admit_any_directory;
        if let Some((node, user)) = token.used_by {
            let is_removed = find(&self.removed, node).is_some() && !self.mistakes.a_removed_node_joins_again;
            if user == order.incarnation && !is_removed {
                return Ok((Outcome::Admitted { node, role: token.role, replaces: token.replaces }, false));
            }
        }
        if !self.mistakes.tokens_never_expire && token.expires_at.is_some_and(|end| order.at >= end) {
            return fault(JoinTokenFault::Expired);
        }
        match token.used_by {
            Some((node, _)) if !any_directory => return fault(JoinTokenFault::Used { node }),
            Some(_) | None => {}
        }
        let of_directory = |(node, removed): &(u64, Removed)| (removed.incarnation == Some(order.incarnation)).then_some(*node);
        if let Some(node) = self.removed.iter().filter_map(of_directory).min() {
            return fault(JoinTokenFault::Removed { node });
        }
        let for_nobody = token.standing && token.up_to.is_none() && order.replaces.is_none();
        let for_another = !token.standing && order.replaces != token.replaces;
        let twice = self.joins.iter().any(|(_, join)| join.replaces.is_some() && join.replaces == order.replaces);
        let gone = order.replaces.is_some_and(|node| find(&self.removed, node).is_some());
        if for_nobody || for_another || gone || (twice && !self.mistakes.a_member_is_replaced_twice) {
            return fault(JoinTokenFault::NoReplacement);
        }
        if self.joins.len() == 10 {
            return Err(Rejection::JoinsFull { max: 10 });
        }
        self.highest = self.highest.max(order.ids_through);
        let is_free = |id: &u64| find(&self.joins, *id).is_none() && *id > order.ids_through;
        let lowest = (1..).find(is_free).expect("there are many ids");
        self.highest += 1;
        let node = if self.mistakes.lowest_free_id { lowest } else { self.highest };
        let join = Join {
            incarnation: order.incarnation,
            url: order.url.clone(),
            address: order.address.clone(),
            role: token.role,
            replaces: order.replaces,
            token: order.token,
            requested_at: order.at,
        };
        self.joins.push((node, join));
        for (_, token) in self.tokens.iter_mut().filter(|(number, token)| *number == order.token.0 && !token.standing) {
            token.used_by = Some((node, order.incarnation));
        }
        self.events.push(ClusterEvent::Joining { node, role: token.role, replaces: order.replaces });
        Ok((Outcome::Admitted { node, role: token.role, replaces: order.replaces }, true))
    }

    pub(crate) fn settle(&mut self, node: u64) -> bool {
        let join = find(&self.joins, node).cloned();
        let is_joining = join.is_some();
        self.events.extend(join.map(|join| ClusterEvent::Joined { node, role: join.role }));
        self.joins.retain(|(joining, _)| *joining != node);
        if is_joining && !self.mistakes.a_settled_address_is_not_set {
            self.addresses.push(node);
        }
        is_joining
    }

    /// Whether a removal is new, and every other voter is removed or about to be.
    pub(crate) fn leaves_no_voter(&self, order: &RequestRemoval) -> bool {
        let goes = |node: u64| find(&self.removed, node).is_some() || find(&self.removals, node).is_some();
        !goes(order.node) && order.other_voters.iter().all(|voter| goes(*voter))
    }

    pub(crate) fn request_removal(&mut self, order: &RequestRemoval) -> bool {
        if find(&self.removed, order.node).is_some() || find(&self.removals, order.node).is_some() {
            return false;
        }
        self.highest = self.highest.max(order.ids_through).max(order.node);
        self.removals.push((order.node, Removal { by: order.by.clone(), requested_at: order.at }));
        self.events.push(ClusterEvent::Removing { node: order.node, by: order.by.clone() });
        true
    }

    pub(crate) fn record_removal(
        &mut self,
        node: u64,
        incarnation: Option<Incarnation>,
        through: u64,
        now: (u64, WallMillis),
    ) -> bool {
        if find(&self.removed, node).is_some() {
            return false;
        }
        let successor =
            self.joins.iter().find(|(_, join)| join.replaces == Some(node) && !self.mistakes.replacements_are_not_named);
        let by = match (find(&self.removals, node), successor) {
            (Some(removal), _) => removal.by.clone(),
            (None, Some((newer, _))) => format!("replaced by node {newer}"),
            (None, None) => String::new(),
        };
        let incarnation = incarnation.or_else(|| find(&self.joins, node).map(|join| join.incarnation));
        self.events.push(ClusterEvent::Removed { node, by: by.clone() });
        self.removed.push((node, Removed { incarnation, revision: Revision(now.0), by, at: now.1 }));
        self.joins.retain(|(other, _)| *other != node);
        self.removals.retain(|(other, _)| *other != node);
        if !self.mistakes.settings_outlive_the_member {
            self.priorities.retain(|(other, _)| *other != node);
            self.zones.retain(|(other, _)| *other != node);
            self.addresses.retain(|other| *other != node);
        }
        self.highest = self.highest.max(through).max(node);
        true
    }

    pub(crate) fn is_removed(&self, node: u64) -> bool {
        find(&self.removed, node).is_some()
    }

    pub(crate) fn set(&mut self, order: &SetMember) -> bool {
        let before = self.facts();
        if let Some(priority) = order.priority {
            self.priorities.retain(|(node, _)| *node != order.node);
            self.priorities.push((order.node, priority));
        }
        if let Some(zone) = &order.zone {
            self.zones.retain(|(node, _)| *node != order.node);
            self.zones.extend(Some((order.node, zone.clone())).filter(|_| !zone.is_empty()));
        }
        if order.address_set {
            self.addresses.push(order.node);
        }
        let changed = order.address_set || self.facts() != before;
        self.events.extend(changed.then(|| ClusterEvent::MemberSet { node: order.node, by: order.by.clone() }));
        changed
    }

    pub(crate) fn set_timing(&mut self, timing: Timing, by: &str) -> bool {
        let changed = std::mem::replace(&mut self.timing, timing) != timing;
        self.events.extend(changed.then(|| ClusterEvent::TimingSet { timing, by: by.to_owned() }));
        changed
    }
}
