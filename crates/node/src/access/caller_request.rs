//! The request of a caller: its identity, and the time of each stage.

use super::caller::Caller;
use fairhold_state::access::AccessData;
use fairhold_trace::RequestWork;
use std::sync::Arc;

/// A request of a caller. All handles of the node for this request share it.
#[derive(Debug)]
pub(crate) struct CallerRequest {
    caller: Caller,
    /// The data that admitted it, if rights were enforced then.
    admitted_by: Option<Arc<AccessData>>,
    work: RequestWork,
}

impl CallerRequest {
    pub(super) fn new(caller: Caller, admitted_by: Option<Arc<AccessData>>) -> CallerRequest {
        CallerRequest { caller, admitted_by, work: RequestWork::default() }
    }

    pub(super) fn admitted_by(&self) -> Option<&Arc<AccessData>> {
        self.admitted_by.as_ref()
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) fn work(&self) -> &RequestWork {
        &self.work
    }
}
