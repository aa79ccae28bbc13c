//! Describes watches.

use super::{
    describe::{DescribeCall, Describer, Operation},
    lines,
    operation::OperationKind::Read,
};
use fairhold_types::{
    Code, call,
    limits::PAGE_SCANNED_MAX,
    watch::{RecentEvents, WatchLine},
};
use serde_json::{Value, json};

const TAG: &str = "watch";

pub(super) const CALLS: &[DescribeCall] = &[watch, events];

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

fn events(api: &mut Describer) -> Operation<'_> {
    let [lines, _] = lines::watched();
    let line = |name: &str| lines.iter().find(|(known, _)| known == name).map(|(_, line)| line.clone());
    let items: Vec<Value> = ["granted", "queued"].into_iter().filter_map(line).collect();
    let example = json!({ "items": items, "next_cursor": "58-0", "skipped": 9312, "oldest": 1, "revision": 58 });
    api.call(Read, "/v1/events", "listEvents", TAG, "List recent events, newest first.")
        .about(&format!(
            "The server lists the events that it keeps for watches: those of nodes, locks, sessions and the cluster. All \
             filters apply together. Pass the `revision` of an answer as `after` to get what happened since. The list has only \
             events that you may watch. For one page, the server reads no further revisions once it has examined \
             {PAGE_SCANNED_MAX} events.",
        ))
        .query::<call::ListEvents>()
        .page::<RecentEvents>("A page.", example)
        .codes(&[Code::Compacted])
}
