//! The use of tenants: what a request may add, and the count of what existed before a tenant got a prefix.

use crate::{
    State,
    change::Change,
    command::{Acquire, Rejection},
    pending::Pending,
    tenant_uses::TenantUse,
};
use fairhold_access::{QuotaKind, TenantNumber, TenantPrefix};
use fairhold_types::{LockName, Path};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The cost of counting a node, in steps.
const COUNT_STEPS: u64 = 1;

impl State {
    /// What a tenant uses below its prefixes.
    #[must_use]
    pub fn use_of_tenant(&self, tenant: TenantNumber) -> TenantUse {
        self.tree.uses.of(tenant)
    }

    /// Whether things that exist below the prefixes of a tenant are still being counted.
    #[must_use]
    pub fn is_counting(&self, tenant: TenantNumber) -> bool {
        self.tree.uses.cursor(tenant).is_some()
    }

    /// Refuses what would exceed a quota of the tenants of these names. What adds nothing to a quota passes, even if the
    /// use is over it.
    pub(crate) fn require_quota<'a>(&self, added: impl IntoIterator<Item = (&'a Path, TenantUse)>) -> Result<(), Rejection> {
        let uses = &self.tree.uses;
        if uses.is_empty() {
            return Ok(());
        }
        let mut sums: BTreeMap<TenantNumber, TenantUse> = BTreeMap::new();
        for (path, added) in added {
            if let Some(tenant) = uses.tenant_of(path) {
                let sum = sums.entry(tenant).or_default();
                *sum = sum.plus(added);
            }
        }
        for (tenant, added) in sums {
            for ((kind, used), (_, added)) in uses.of(tenant).parts().into_iter().zip(added.parts()) {
                self.access.require_below(tenant, kind, used, added)?;
            }
        }
        Ok(())
    }

    /// Refuses a longer value that would exceed a quota of bytes.
    pub(crate) fn require_quota_of_value(
        &self,
        path: &Path,
        after: usize,
        before: impl FnOnce(&State) -> Option<usize>,
    ) -> Result<(), Rejection> {
        if self.tree.uses.is_empty() {
            return Ok(());
        }
        let added = after.saturating_sub(before(self).unwrap_or(0)) as u64;
        self.require_quota([(path, TenantUse::bytes(added))])
    }

    /// Refuses a grant that would exceed a quota: of contenders, or of nodes if locks are new.
    pub(crate) fn require_quota_of_grant(&self, acquire: &Acquire) -> Result<(), Rejection> {
        if self.tree.uses.is_empty() {
            return Ok(());
        }
        let value = acquire.value.as_ref().map_or(0, Vec::len);
        let locks: Vec<Path> = acquire.wants.iter().map(|want| want.lock.path()).collect();
        let new: BTreeSet<Path> = acquire.wants.iter().flat_map(|want| self.new_nodes_of(&want.lock)).collect();
        let contenders = locks.iter().map(|lock| (lock, TenantUse::contender(value)));
        self.require_quota(new.iter().map(|path| (path, TenantUse::node(0))).chain(contenders))
    }

    /// Refuses the settings of a new lock that would exceed a quota of nodes.
    pub(crate) fn require_quota_of_lock(&self, lock: &LockName) -> Result<(), Rejection> {
        if self.tree.uses.is_empty() {
            return Ok(());
        }
        let new: Vec<Path> = self.new_nodes_of(lock);
        self.require_quota(new.iter().map(|path| (path, TenantUse::node(0))))
    }

    /// The nodes that are created with a lock: its own, and those above it.
    fn new_nodes_of(&self, lock: &LockName) -> Vec<Path> {
        let above = std::iter::successors(Some(lock.path()), Path::parent);
        above.take_while(|path| self.tree.get(path).is_none()).collect()
    }

    /// Refuses a wait for a lock whose queue is as long as the quota of its tenant allows.
    pub(crate) fn require_quota_of_waiters(&self, lock: &LockName, waiting: u64) -> Result<(), Rejection> {
        if self.tree.uses.is_empty() {
            return Ok(());
        }
        let tenant = self.tree.uses.tenant_of(&lock.path());
        tenant.map_or(Ok(()), |tenant| self.access.require_below(tenant, QuotaKind::Waiters, waiting, 1))
    }
}

impl Change<'_> {
    /// Counts anew what a tenant uses, because its prefixes have changed. Later commands count the rest.
    pub(crate) fn recount(&mut self, tenant: TenantNumber) {
        let State { tree, access, .. } = &mut *self.state;
        tree.uses.set_prefixes(access.tenant_prefixes().clone());
        let has_prefixes = !access.prefixes_of(tenant).is_empty();
        if let Some(work) = tree.uses.forget(tenant) {
            self.finish_pending(work);
        }
        if has_prefixes {
            self.defer(Pending::CountTenant { tenant, prefix: 0, after: None });
            self.run_pieces();
        }
    }

    /// Counts as many nodes of a tenant as one command may. Returns what is left of the work.
    pub(crate) fn count_some(&mut self, tenant: TenantNumber) -> Option<Pending> {
        let access = Arc::clone(&self.state.access);
        let prefixes: &[TenantPrefix] = access.prefixes_of(tenant);
        loop {
            let cursor = self.state.tree.uses.cursor(tenant)?;
            let Some(prefix) = usize::try_from(cursor.prefix).ok().and_then(|index| prefixes.get(index)) else {
                self.state.tree.uses.end(tenant);
                return None;
            };
            if !self.has_steps_left() {
                return Some(Pending::CountTenant { tenant, prefix: cursor.prefix, after: cursor.after.clone() });
            }
            self.count_steps(COUNT_STEPS);
            self.state.tree.count_next(tenant, prefix.base());
        }
    }
}
