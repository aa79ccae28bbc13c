//! The quotas of the caller's tenant at this node.

use super::{TenantSlot, tenant_door::SlotKind};
use crate::{api::CallError, node::Node};
use fairhold_access::{QuotaKind, TenantName};
use fairhold_state::{access::TenantRecord, command::Rejection, read::GrantStatus};
use fairhold_types::GrantId;
use openraft_rt::AsyncRuntime;
use std::time::Duration;

impl<RT: AsyncRuntime> Node<RT> {
    /// Counts a request of the caller against the rate of its tenant. Renewals, keepalives, releases and withdrawals are not
    /// counted.
    pub fn take_request(&self) -> Result<(), CallError> {
        self.with_own_tenant(|name, record| {
            let quota = &record.tenant.quota;
            let Some(rate) = quota.requests_per_second else { return Ok(()) };
            if self.0.tenant_door.take_request(record.number, rate, quota.burst.unwrap_or(rate)) {
                return Ok(());
            }
            self.0.hub.metrics.record_over_quota(QuotaKind::Requests);
            Err(CallError::OverRate { tenant: name.clone(), limit: rate })
        })
    }

    /// Opens a wait of the caller's tenant. A request that does not wait needs none.
    pub(crate) fn begin_wait(&self, wait: Duration) -> Result<Option<TenantSlot>, CallError> {
        if wait.is_zero() { Ok(None) } else { self.open_slot(SlotKind::Wait, true) }
    }

    /// The same for a request that acquires the grant with this id. If the grant is held, the request keeps it: it counts, and
    /// is never refused.
    pub(crate) fn begin_wait_for(&self, grant: &GrantId, wait: Duration) -> Result<Option<TenantSlot>, CallError> {
        let is_live = || self.0.replica.read(|state| matches!(state.grant(grant), GrantStatus::Live(_)));
        match self.begin_wait(wait) {
            Err(_) if is_live() => self.open_slot(SlotKind::Wait, false),
            opened => opened,
        }
    }

    /// Opens a watch of the caller's tenant.
    pub(crate) fn begin_watch(&self) -> Result<Option<TenantSlot>, CallError> {
        self.open_slot(SlotKind::Watch, true)
    }

    fn open_slot(&self, kind: SlotKind, is_limited: bool) -> Result<Option<TenantSlot>, CallError> {
        let mut slot = None;
        self.with_own_tenant(|name, record| {
            let limit = match kind {
                SlotKind::Wait => record.tenant.quota.waits,
                SlotKind::Watch => record.tenant.quota.watches,
            };
            match self.0.tenant_door.open(record.number, kind, limit.filter(|_| is_limited)) {
                Ok(opened) => slot = Some(opened),
                Err(used) => {
                    self.0.hub.metrics.record_over_quota(kind.quota());
                    let limit = limit.map_or(0, u64::from);
                    let (tenant, quota, used) = (name.clone(), kind.quota(), used.into());
                    return Err(Rejection::QuotaExceeded { tenant, quota, limit, used }.into());
                }
            }
            Ok(())
        })?;
        Ok(slot)
    }

    /// Passes on the tenant of the caller, if it has one.
    fn with_own_tenant(&self, decide: impl FnOnce(&TenantName, &TenantRecord) -> Result<(), CallError>) -> Result<(), CallError> {
        let Some((caller, access)) = self.enforcing() else { return Ok(()) };
        let found = access.tenant_of(caller.principal()).and_then(|number| access.tenant_numbered(number));
        found.map_or(Ok(()), |(name, record)| decide(name, record))
    }
}
