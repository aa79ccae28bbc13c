//! Describes watches.

use super::{
    describe::{DescribeCall, Describer, Operation},
    lines,
    operation::OperationKind::Read,
};
use fairhold_types::{Code, call, watch::WatchLine};
use serde_json::json;

const TAG: &str = "watch";

pub(super) const CALLS: &[DescribeCall] = &[watch];

fn watch(api: &mut Describer) -> Operation<'_> {
    api.call(Read, "/v1/watch", "watch", TAG, "Watch events as they happen.")
        .about(
            "The stream has every event of the things that you name, once and in order; if some events are no longer kept, its \
             last line says so. Each parameter adds to what you watch; without any, you watch all nodes, locks and sessions. \
             `from` is inclusive. `from` excludes `initial`, `recursive` excludes `children`, and `cluster` excludes `initial` \
             and all other things that you can name. A `bookmark` names the revision up to which you have all events: the \
             server sends one as soon as you have caught up, then every 10 s.",
        )
        .query::<call::Watch>()
        .header("Last-Event-ID", "Continue after this revision.", json!({ "type": "string", "pattern": "^[0-9]{1,15}$" }))
        .stream::<WatchLine>("A stream of lines, for as long as you read it.", lines::watched())
        .codes(&[Code::Compacted])
}
