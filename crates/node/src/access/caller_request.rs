//! The request of a caller: its identity, and the time of each stage.

use super::caller::Caller;
use fairhold_trace::RequestWork;

/// A request of a caller. All handles of the node for this request share it.
#[derive(Debug)]
pub(crate) struct CallerRequest {
    caller: Caller,
    work: RequestWork,
}

impl CallerRequest {
    pub(super) fn new(caller: Caller) -> CallerRequest {
        CallerRequest { caller, work: RequestWork::default() }
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) fn work(&self) -> &RequestWork {
        &self.work
    }
}
