//! The compiled rights of the principals that were seen at one revision of the access data.

use fairhold_access::{Attributes, Principal, Rights};
use fairhold_state::access::AccessData;
use fairhold_types::Revision;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// How many principals it keeps. One more empties it.
const PRINCIPALS_MAX: usize = 10_000;

/// Rights by principal.
#[derive(Debug, Default)]
pub(crate) struct RightsCache(Mutex<CachedRights>);

#[derive(Debug, Default)]
struct CachedRights {
    /// The revision of the access data that they were compiled from.
    access: Revision,
    by_principal: BTreeMap<Principal, Arc<Rights>>,
}

impl RightsCache {
    /// The rights of a principal by this data.
    pub(crate) fn rights(&self, access: &AccessData, principal: &Principal) -> Arc<Rights> {
        let mut cached = self.0.lock();
        if cached.access != access.revision() {
            *cached = CachedRights { access: access.revision(), by_principal: BTreeMap::new() };
        }
        if let Some(rights) = cached.by_principal.get(principal) {
            return Arc::clone(rights);
        }
        if cached.by_principal.len() >= PRINCIPALS_MAX {
            cached.by_principal.clear();
        }
        let rights = Arc::new(access.rights(principal, &Attributes::of(principal, [])));
        cached.by_principal.insert(principal.clone(), Arc::clone(&rights));
        rights
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_access::{Need, RoleName, Subject, Verb};
    use fairhold_state::{
        State,
        command::{AccessChange, AccessRequester, ChangeAccess, Command},
    };
    use fairhold_types::{ClusterId, cluster_version::ACCESS_SINCE, time::WallMillis};

    #[test]
    fn rights_are_compiled_anew_when_the_access_data_changes() {
        let mut state = State::new();
        state.apply(&Command::FormClusterAt { cluster: ClusterId(1), version: ACCESS_SINCE });
        let cache = RightsCache::default();
        let principal = Principal::parse("user:ci").unwrap();
        let may = |state: &State| cache.rights(state.access(), &principal).decide(&Need::unnamed(Verb::Status)).is_ok();
        let first = cache.rights(state.access(), &principal);
        assert!(Arc::ptr_eq(&first, &cache.rights(state.access(), &principal)) && !may(&state));
        let (role, subject) = (RoleName::parse("viewer").unwrap(), Subject::parse("user:*").unwrap());
        let requester = AccessRequester { principal: Principal::file_admin(), client: String::new() };
        for (change, allowed) in [
            (AccessChange::Bind { role: role.clone(), subject: subject.clone() }, true),
            (AccessChange::Unbind { role, subject }, false),
        ] {
            let command = ChangeAccess { key: None, change, requester: requester.clone(), at: WallMillis(0) };
            state.apply(&Command::ChangeAccess(command)).answer.result.unwrap();
            assert_eq!(may(&state), allowed);
        }
    }
}
