//! What a tenant uses below its prefixes never grows beyond its quotas. `machine` recounts the use.

use super::invariant::Invariant;
use crate::facts::Applied;
use fairhold_access::{QuotaKind, Tenant, TenantNumber};
use fairhold_state::{State, tenant_uses::TenantUse};
use fairhold_types::Revision;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Quotas {
    /// The use of each tenant whose prefixes are counted, and the revision of its record.
    before: BTreeMap<TenantNumber, (Revision, TenantUse)>,
}

fn parts(of: TenantUse) -> [(QuotaKind, u64); 3] {
    [(QuotaKind::Nodes, of.nodes), (QuotaKind::Bytes, of.bytes), (QuotaKind::Contenders, of.contenders)]
}

fn check_growth(tenant: &Tenant, before: TenantUse, after: TenantUse) -> Result<(), String> {
    for ((kind, before), (_, after)) in parts(before).into_iter().zip(parts(after)) {
        if after > before && tenant.quota.limit(kind).is_some_and(|limit| after > limit) {
            return Err(format!(
                "the use of {kind:?} grew from {before} to {after}, but the limit is {:?}",
                tenant.quota.limit(kind)
            ));
        }
    }
    Ok(())
}

impl Invariant for Quotas {
    fn name(&self) -> &'static str {
        "quotas bound what tenants use"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        let state: &State = applied.state;
        let before = std::mem::take(&mut self.before);
        for (name, record) in state.access().tenants() {
            if state.is_counting(record.number) {
                continue;
            }
            let used = state.use_of_tenant(record.number);
            self.before.insert(record.number, (record.revision, used));
            let Some((_, before)) = before.get(&record.number).filter(|(revision, _)| *revision == record.revision) else {
                continue;
            };
            check_growth(&record.tenant, *before, used)
                .map_err(|error| format!("tenant {name} at revision {}: {error}", applied.revision))?;
        }
        Ok(())
    }
}
