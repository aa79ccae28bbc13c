//! The request of a caller: its identity, and the time of each stage.

use super::caller::Caller;
use fairhold_access::Rights;
use fairhold_state::access::AccessData;
use fairhold_trace::RequestWork;
use fairhold_types::Revision;
use std::sync::{Arc, OnceLock};

/// A request of a caller. All handles of the node for this request share it.
#[derive(Debug)]
pub(crate) struct CallerRequest {
    caller: Caller,
    /// The data that admitted it, if rights were enforced then.
    admitted_by: Option<Arc<AccessData>>,
    /// The rights of its first decision, and the revision of the data that they come from.
    first_rights: OnceLock<(Revision, Arc<Rights>)>,
    work: RequestWork,
}

impl CallerRequest {
    pub(super) fn new(caller: Caller, admitted_by: Option<Arc<AccessData>>) -> CallerRequest {
        CallerRequest { caller, admitted_by, first_rights: OnceLock::new(), work: RequestWork::default() }
    }

    pub(super) fn admitted_by(&self) -> Option<&Arc<AccessData>> {
        self.admitted_by.as_ref()
    }

    /// The rights of its caller by data of this revision: looked up once, unless the data changes.
    pub(super) fn rights(&self, access: Revision, look_up: impl Fn() -> Arc<Rights>) -> Arc<Rights> {
        let (revision, rights) = self.first_rights.get_or_init(|| (access, look_up()));
        if *revision == access { Arc::clone(rights) } else { look_up() }
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) fn work(&self) -> &RequestWork {
        &self.work
    }
}
