//! The calls that read tenants.

use crate::{
    api::{At, CallError, ReadOptions, TenantView},
    node::Node,
};
use fairhold_access::{Principal, TenantName, TenantNumber};
use fairhold_state::{State, access::TenantRecord};
use openraft_rt::AsyncRuntime;

impl<RT: AsyncRuntime> Node<RT> {
    /// All tenants by name.
    pub async fn tenants(&self, options: ReadOptions) -> Result<At<Vec<TenantView>>, CallError> {
        let state = self.fresh_copy(options).await?;
        let views = state.access().tenants().map(|(name, record)| self.view(&state, name, record)).collect();
        Ok(At { value: views, revision: state.revision() })
    }

    /// A tenant.
    pub async fn show_tenant(&self, name: &TenantName, options: ReadOptions) -> Result<At<Option<TenantView>>, CallError> {
        self.read(options, |state| self.view_of(state, name)).await
    }

    /// A tenant in this node's own state.
    #[must_use]
    pub fn tenant_now(&self, name: &TenantName) -> Option<TenantView> {
        self.0.replica.read(|state| self.view_of(state, name))
    }

    /// The tenant of the caller. While rights are not enforced, it has none.
    #[must_use]
    pub fn tenant(&self) -> Option<(TenantName, TenantNumber)> {
        let access = self.access();
        let principal = self.caller().map_or_else(Principal::anonymous, |caller| caller.principal().clone());
        let number = access.tenant_of(&principal).filter(|_| access.is_on())?;
        access.tenant_numbered(number).map(|(name, _)| (name.clone(), number))
    }

    fn view_of(&self, state: &State, name: &TenantName) -> Option<TenantView> {
        state.access().tenant(name).map(|record| self.view(state, name, record))
    }

    fn view(&self, state: &State, name: &TenantName, record: &TenantRecord) -> TenantView {
        TenantView {
            name: name.clone(),
            record: record.clone(),
            in_names: state.use_of_tenant(record.number),
            sessions: state.access().sessions_of_tenant(record.number),
            tokens: state.access().tokens_of_tenant(&record.tenant),
            open_here: self.0.tenant_door.open_of(record.number),
            counting: state.is_counting(record.number),
        }
    }
}
