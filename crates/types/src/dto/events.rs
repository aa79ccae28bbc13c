//! The JSON body of a list of recent events.

use crate::{Revision, watch::WatchLine};
use serde::Serialize;

/// A page of the events that the server keeps, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RecentEvents {
    /// The events, each as a watch reports it. The last event of a revision comes first.
    pub items: Vec<WatchLine>,
    /// Where the next page begins; `null` on the last one. A page may have fewer events than the limit although another
    /// one follows.
    pub next_cursor: Option<String>,
    /// How many further events after `after` fit: the following pages have them. Missing without `after`, and if the
    /// server has not examined all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// The server keeps all events from this revision on.
    pub oldest: Revision,
    /// The server has examined the events up to this revision: to get later ones, pass it as `after`.
    pub revision: Revision,
}
