//! How much of its quotas each tenant uses below its prefixes: counts of the tree.
//!
//! The tree updates the counts with each node that it adds, removes or writes. Without tenants that is one comparison.
//! A name finds its tenant by its levels, so 1,000 tenants cost a few more look-ups than one.
//!
//! What exists when a tenant gets a prefix is counted in pieces, from the first name to the last (`tenant_counts`). The
//! cursor of that count splits the names: those before it are counted, and those behind it are not yet.

use crate::{
    pending::{Pending, PendingWork},
    record::{NodeRole, Znode},
};
use fairhold_access::{QuotaKind, TenantNumber, TenantPrefix};
use fairhold_types::Path;
use imbl::OrdMap;
use std::{ops::Bound, sync::Arc};

/// What a tenant uses below its prefixes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantUse {
    /// Nodes, with those of locks, without those of contenders.
    pub nodes: u64,
    /// Bytes of the values of nodes and elections.
    pub bytes: u64,
    /// Grants, held and queued, once in each of their locks.
    pub contenders: u64,
}

impl TenantUse {
    /// What a node counts.
    pub(crate) fn of(node: &Znode) -> TenantUse {
        let bytes = node.value.len() as u64;
        match &node.role {
            NodeRole::Contender(_) => TenantUse { contenders: 1, bytes, nodes: 0 },
            NodeRole::Lock(_) | NodeRole::Data => TenantUse { nodes: 1, bytes, contenders: 0 },
        }
    }

    /// One new node with a value of this length.
    pub(crate) fn node(bytes: usize) -> TenantUse {
        TenantUse { nodes: 1, bytes: bytes as u64, contenders: 0 }
    }

    pub(crate) fn bytes(bytes: u64) -> TenantUse {
        TenantUse { bytes, ..TenantUse::default() }
    }

    /// One new contender with a value of this length.
    pub(crate) fn contender(bytes: usize) -> TenantUse {
        TenantUse { contenders: 1, bytes: bytes as u64, nodes: 0 }
    }

    pub(crate) fn plus(self, other: TenantUse) -> TenantUse {
        TenantUse {
            nodes: self.nodes + other.nodes,
            bytes: self.bytes + other.bytes,
            contenders: self.contenders + other.contenders,
        }
    }

    fn minus(self, other: TenantUse) -> TenantUse {
        TenantUse {
            nodes: self.nodes - other.nodes,
            bytes: self.bytes - other.bytes,
            contenders: self.contenders - other.contenders,
        }
    }

    /// Its parts that have quotas.
    pub(crate) fn parts(self) -> [(QuotaKind, u64); 3] {
        [(QuotaKind::Nodes, self.nodes), (QuotaKind::Bytes, self.bytes), (QuotaKind::Contenders, self.contenders)]
    }
}

/// The prefixes of all tenants by the path at their top: whose it is, and its index among the prefixes of that tenant. No
/// two of them overlap.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PrefixMap {
    by_base: OrdMap<Arc<str>, (TenantNumber, u32)>,
    /// How many prefixes have so many levels. A name is looked up no deeper than the deepest of them.
    by_depth: OrdMap<usize, usize>,
}

impl PrefixMap {
    pub(crate) fn insert(&mut self, tenant: TenantNumber, prefixes: &[TenantPrefix]) {
        for (prefix, index) in prefixes.iter().zip(0..) {
            let base = prefix.base();
            if self.by_base.insert(Arc::from(base.as_str()), (tenant, index)).is_none() {
                *self.by_depth.entry(levels(base.as_str())).or_default() += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, prefixes: &[TenantPrefix]) {
        for prefix in prefixes {
            let base = prefix.base();
            if self.by_base.remove(base.as_str()).is_none() {
                continue;
            }
            let depth = levels(base.as_str());
            let others = self.by_depth.get(&depth).map_or(0, |count| count - 1);
            if others > 0 {
                self.by_depth.insert(depth, others);
            } else {
                self.by_depth.remove(&depth);
            }
        }
    }

    /// The tenant of a name, and the index of its prefix. The root and the folder of locks belong to nobody.
    fn find(&self, path: &str) -> Option<(TenantNumber, u32)> {
        if path == "/" || path == Path::locks().as_str() {
            return None;
        }
        self.covering(path)
    }

    /// The prefix that is this path or above it.
    fn covering(&self, path: &str) -> Option<(TenantNumber, u32)> {
        // `nodes:**` does not cover the nodes of locks.
        let root = if Path::is_text_under_locks(path) { None } else { self.by_base.get("/") };
        let deepest = self.by_depth.get_max().map_or(0, |(depth, _)| *depth);
        let ends = path.match_indices('/').skip(1).map(|(end, _)| end).chain([path.len()]).take(deepest);
        let at = |end: usize| path.get(..end).and_then(|above| self.by_base.get(above));
        root.or_else(|| ends.into_iter().find_map(at)).copied()
    }

    /// Whether it has as many prefixes as all tenants together, and none is below another one.
    pub(crate) fn is_disjoint(&self, prefixes: usize) -> bool {
        let is_below = |path: &str| {
            let above = path.rfind('/').and_then(|slash| path.get(..slash.max(1))).filter(|above| above.len() < path.len());
            let above = above.filter(|above| Path::is_text_under_locks(above) == Path::is_text_under_locks(path));
            above.is_some_and(|above| self.covering(above).is_some())
        };
        self.by_base.len() == prefixes && !self.by_base.keys().any(|path| is_below(path))
    }

    /// A tenant with a prefix that overlaps this one.
    pub(crate) fn overlapping(&self, prefix: &TenantPrefix) -> Option<TenantNumber> {
        let base = prefix.base();
        let below = base.prefix_below();
        let after = |path: &str| self.by_base.range::<_, str>((Bound::Included(path), Bound::Unbounded));
        let within = || {
            if base.parent().is_some() {
                return after(&below).next().filter(|(path, _)| path.starts_with(&below)).map(|(_, found)| *found);
            }
            // Below the root are the prefixes of locks, too. Only `/locks` itself comes before another kind of name.
            let before_locks = after(&below).take(2).find(|(path, _)| !Path::is_text_under_locks(path));
            // `0` follows `/` in byte order.
            before_locks.or_else(|| after("/locks0").next()).map(|(_, found)| *found)
        };
        self.covering(base.as_str()).or_else(within).map(|(tenant, _)| tenant)
    }
}

/// How many levels a path has; the root has one, too.
fn levels(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

/// How far the names of a tenant are counted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CountCursor {
    /// The number of its pending work.
    pub(crate) work: u64,
    /// The index of the prefix that is being counted. Those before it are done.
    pub(crate) prefix: u32,
    /// The last name that is counted there.
    pub(crate) after: Option<Path>,
}

/// The use of all tenants: a cache of the tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TenantUses {
    prefixes: PrefixMap,
    used: OrdMap<TenantNumber, TenantUse>,
    counting: OrdMap<TenantNumber, CountCursor>,
}

impl TenantUses {
    /// No use yet, with the cursors of the counts that are under way.
    pub(crate) fn new(prefixes: PrefixMap, pending: &PendingWork) -> TenantUses {
        let mut uses = TenantUses { prefixes, ..TenantUses::default() };
        pending.work.iter().for_each(|(number, pending)| uses.begin(*number, pending));
        uses
    }

    /// Whether no tenant has a prefix.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.prefixes.by_base.is_empty()
    }

    /// The use of a tenant.
    pub(crate) fn of(&self, tenant: TenantNumber) -> TenantUse {
        self.used.get(&tenant).copied().unwrap_or_default()
    }

    /// The tenant of a name.
    pub(crate) fn tenant_of(&self, path: &Path) -> Option<TenantNumber> {
        self.prefixes.find(path.as_str()).map(|(tenant, _)| tenant)
    }

    /// The cursor of a tenant that is being counted.
    pub(crate) fn cursor(&self, tenant: TenantNumber) -> Option<&CountCursor> {
        self.counting.get(&tenant)
    }

    /// Replaces the prefixes. The caller restarts the counts of the tenants whose prefixes are others.
    pub(crate) fn set_prefixes(&mut self, prefixes: PrefixMap) {
        self.prefixes = prefixes;
    }

    /// Forgets the use of a tenant, and the count that is under way. Returns the number of its pending work.
    pub(crate) fn forget(&mut self, tenant: TenantNumber) -> Option<u64> {
        self.used.remove(&tenant);
        self.counting.remove(&tenant).map(|cursor| cursor.work)
    }

    /// Notes the cursor of pending work.
    pub(crate) fn begin(&mut self, work: u64, pending: &Pending) {
        if let Pending::CountTenant { tenant, prefix, after } = pending {
            self.counting.insert(*tenant, CountCursor { work, prefix: *prefix, after: after.clone() });
        }
    }

    /// Everything of the tenant is counted.
    pub(crate) fn end(&mut self, tenant: TenantNumber) {
        self.counting.remove(&tenant);
    }

    /// Counts the next node of the prefix that is being counted, or goes on to the next prefix.
    pub(crate) fn advance(&mut self, tenant: TenantNumber, next: Option<(Path, TenantUse)>) {
        let Some(cursor) = self.counting.get_mut(&tenant) else { return };
        match next {
            Some((path, counted)) => {
                cursor.after = Some(path);
                self.change(tenant, |used| used.plus(counted));
            }
            None => (cursor.prefix, cursor.after) = (cursor.prefix + 1, None),
        }
    }

    /// Counts a node that is new.
    #[inline]
    pub(crate) fn add(&mut self, path: &Path, node: &Znode) {
        if !self.is_empty() {
            self.update(path, |used| used.plus(TenantUse::of(node)));
        }
    }

    /// Counts a node that is gone.
    #[inline]
    pub(crate) fn remove(&mut self, path: &Path, node: &Znode) {
        if !self.is_empty() {
            self.update(path, |used| used.minus(TenantUse::of(node)));
        }
    }

    /// Counts a value that has replaced another one.
    #[inline]
    pub(crate) fn resize(&mut self, path: &Path, before: usize, after: usize) {
        if !self.is_empty() {
            self.update(path, |used| used.minus(TenantUse::bytes(before as u64)).plus(TenantUse::bytes(after as u64)));
        }
    }

    fn update(&mut self, path: &Path, change: impl FnOnce(TenantUse) -> TenantUse) {
        let Some((tenant, prefix)) = self.prefixes.find(path.as_str()) else { return };
        let is_counted = |cursor: &CountCursor| {
            prefix < cursor.prefix || (prefix == cursor.prefix && cursor.after.as_ref().is_some_and(|after| path <= after))
        };
        if self.counting.get(&tenant).is_none_or(is_counted) {
            self.change(tenant, change);
        }
    }

    fn change(&mut self, tenant: TenantNumber, change: impl FnOnce(TenantUse) -> TenantUse) {
        let used = change(self.of(tenant));
        if used == TenantUse::default() {
            self.used.remove(&tenant);
        } else {
            self.used.insert(tenant, used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(prefixes: &[(u64, &str)]) -> PrefixMap {
        let mut map = PrefixMap::default();
        for (tenant, text) in prefixes {
            map.insert(TenantNumber(*tenant), &[TenantPrefix::parse(text).unwrap()]);
        }
        map
    }

    #[test]
    fn a_name_belongs_to_the_prefix_above_it_level_by_level() {
        let some = map(&[(1, "locks:a/**"), (2, "nodes:a/b/**"), (3, "locks:a-b/**"), (4, "nodes:é/**")]);
        let all = map(&[(5, "nodes:**"), (6, "locks:**")]);
        for (path, of_some, of_all) in [
            ("/locks/a", Some(1), Some(6)),
            ("/locks/a/x/7-lock-0000000001", Some(1), Some(6)),
            ("/locks/a-b/x", Some(3), Some(6)),
            ("/locks/ab", None, Some(6)),
            ("/locks", None, None),
            ("/", None, None),
            ("/a", None, Some(5)),
            ("/a/b", Some(2), Some(5)),
            ("/a/b/c/d", Some(2), Some(5)),
            ("/a/bc", None, Some(5)),
            ("/locksmith", None, Some(5)),
            ("/é/x", Some(4), Some(5)),
        ] {
            assert_eq!(some.find(path).map(|(tenant, _)| tenant.0), of_some, "{path}");
            assert_eq!(all.find(path).map(|(tenant, _)| tenant.0), of_all, "{path}");
        }
    }

    #[test]
    fn a_prefix_overlaps_those_above_and_below_it() {
        let map = map(&[(1, "locks:a/b/**"), (2, "nodes:a/b/**")]);
        for (text, tenant) in [
            ("locks:a/b/**", Some(1)),
            ("locks:a/b/c/**", Some(1)),
            ("locks:a/**", Some(1)),
            ("locks:**", Some(1)),
            ("locks:a/bc/**", None),
            ("nodes:**", Some(2)),
            ("nodes:a/**", Some(2)),
            ("nodes:b/**", None),
        ] {
            let found = map.overlapping(&TenantPrefix::parse(text).unwrap());
            assert_eq!(found.map(|tenant| tenant.0), tenant, "{text}");
        }
        for (other, overlaps) in
            [("nodes:locks-a/**", true), ("nodes:locksmith/**", true), ("nodes:z/**", true), ("locks:b/**", false)]
        {
            let map = self::map(&[(1, other), (2, "locks:a/**")]);
            assert_eq!(map.overlapping(&TenantPrefix::parse("nodes:**").unwrap()).is_some(), overlaps, "{other}");
        }
        let of_locks = self::map(&[(1, "locks:a/**")]);
        assert_eq!(of_locks.overlapping(&TenantPrefix::parse("nodes:**").unwrap()), None);
        let of_nodes = self::map(&[(1, "nodes:**")]);
        assert_eq!(of_nodes.overlapping(&TenantPrefix::parse("locks:**").unwrap()), None);
        assert_eq!(of_nodes.overlapping(&TenantPrefix::parse("nodes:locksmith/**").unwrap()), Some(TenantNumber(1)));
    }
}
