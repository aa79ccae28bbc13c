//! The compiled rights of the callers that were seen at one revision of the access data.

use super::caller::CallerIdentity;
use fairhold_access::Rights;
use fairhold_state::access::AccessData;
use fairhold_types::Revision;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// How many callers it keeps. One more empties it.
const CALLERS_MAX: usize = 10_000;

/// Rights by caller.
#[derive(Debug, Default)]
pub(crate) struct RightsCache(Mutex<CachedRights>);

#[derive(Debug, Default)]
struct CachedRights {
    /// The revision of the access data that they were compiled from.
    access: Revision,
    by_caller: BTreeMap<CallerIdentity, Arc<Rights>>,
}

impl RightsCache {
    /// The rights of a caller by this data.
    pub(crate) fn rights(&self, access: &AccessData, caller: &CallerIdentity) -> Arc<Rights> {
        let mut cached = self.0.lock();
        if cached.access != access.revision() {
            *cached = CachedRights { access: access.revision(), by_caller: BTreeMap::new() };
        }
        if let Some(rights) = cached.by_caller.get(caller) {
            return Arc::clone(rights);
        }
        if cached.by_caller.len() >= CALLERS_MAX {
            cached.by_caller.clear();
        }
        let rights = Arc::new(access.rights(&caller.principal, &caller.attributes));
        cached.by_caller.insert(caller.clone(), Arc::clone(&rights));
        rights
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_access::{Attributes, Need, Principal, RoleName, Rule, Subject, Verb};
    use fairhold_state::{
        State,
        command::{AccessChange, AccessRequester, ChangeAccess, Command},
    };
    use fairhold_types::{ClusterId, LockName, cluster_version::ACCESS_SINCE, time::WallMillis};

    fn change(state: &mut State, change: AccessChange) {
        let requester = AccessRequester { principal: Principal::file_admin(), client: String::new() };
        let command = ChangeAccess { key: None, change, requester, at: WallMillis(0) };
        state.apply(&Command::ChangeAccess(command)).answer.result.unwrap();
    }

    #[test]
    fn two_callers_with_one_name_and_other_attributes_have_their_own_rights() {
        let mut state = State::new();
        state.apply(&Command::FormClusterAt { cluster: ClusterId(1), version: ACCESS_SINCE });
        let (role, subject) = (RoleName::parse("teams").unwrap(), Subject::parse("k8s:*").unwrap());
        let rules = vec![Rule::parse("acquire locks:{namespace}/**").unwrap()];
        change(&mut state, AccessChange::PutRole { role: role.clone(), rules, expected: None });
        change(&mut state, AccessChange::Bind { role, subject });
        let cache = RightsCache::default();
        let principal = Principal::parse("k8s:ci").unwrap();
        let may = |namespace: &str, lock: &str| {
            let attributes = Attributes::of(&principal, [("namespace".to_owned(), namespace.to_owned())]);
            let identity = CallerIdentity { principal: principal.clone(), attributes };
            let lock = LockName::parse(lock).unwrap();
            cache.rights(state.access(), &identity).decide(&Need::on_lock(Verb::Acquire, &lock)).is_ok()
        };
        assert!(may("a", "a/x") && may("b", "b/x"));
        assert!(!may("a", "b/x") && !may("b", "a/x") && !may("*", "a/x") && !may("", "a/x"));
    }

    #[test]
    fn rights_are_compiled_anew_when_the_access_data_changes() {
        let mut state = State::new();
        state.apply(&Command::FormClusterAt { cluster: ClusterId(1), version: ACCESS_SINCE });
        let cache = RightsCache::default();
        let caller = CallerIdentity::of(&Principal::parse("user:ci").unwrap());
        let may = |state: &State| cache.rights(state.access(), &caller).decide(&Need::unnamed(Verb::Status)).is_ok();
        let first = cache.rights(state.access(), &caller);
        assert!(Arc::ptr_eq(&first, &cache.rights(state.access(), &caller)) && !may(&state));
        let (role, subject) = (RoleName::parse("viewer").unwrap(), Subject::parse("user:*").unwrap());
        for (made, allowed) in [
            (AccessChange::Bind { role: role.clone(), subject: subject.clone() }, true),
            (AccessChange::Unbind { role, subject }, false),
        ] {
            change(&mut state, made);
            assert_eq!(may(&state), allowed);
        }
    }
}
