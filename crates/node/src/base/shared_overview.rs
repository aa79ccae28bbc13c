//! The overview that many callers share.

use crate::api::OverviewView;
use std::sync::Arc;

/// The newest overview of all locks, and when it was made.
#[derive(Debug)]
pub(crate) struct SharedOverview<I>(pub(crate) tokio::sync::Mutex<Option<(I, Arc<OverviewView>)>>);

impl<I> Default for SharedOverview<I> {
    fn default() -> Self {
        SharedOverview(tokio::sync::Mutex::new(None))
    }
}
