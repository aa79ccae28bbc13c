//! Watches, described.

use super::{
    area_locks::{consistency, lock_name},
    area_nodes::own_path,
    describe::{Describer, Kind, Operation},
    lines,
    parameter::{Parameter, flag, integer, of, span},
};
use crate::watch::WATCH;
use fairhold_types::{Code, limits::WAIT_MAX, watch::Line};
use http::{Method, StatusCode};
use serde_json::json;
use std::time::Duration;

const TAG: &str = "watch";

pub(super) fn operations(describe: &mut Describer) -> Vec<Operation> {
    vec![watch(describe)]
}

/// The parameters of a read that may be held back, with these others.
pub(super) fn with_long_poll(mut others: Vec<Parameter>) -> Vec<Parameter> {
    let wait = "How long to wait for something newer; `304` where nothing came.";
    let after = "Newer than this revision, the `Fairhold-Revision` of an earlier answer; not given: than what is there now.";
    others.extend([span("wait", wait, Duration::ZERO..=WAIT_MAX, None), integer("after", after, 0..=u64::MAX, None)]);
    others
}

fn watch(describe: &mut Describer) -> Operation {
    let line = describe.schema::<Line>();
    let [lines, events] = lines::watched();
    describe
        .call(Method::GET, "/v1/watch", "watch", TAG, "Tell what happens, as it happens.")
        .about(
            "Every event of what is named, once and in order, or as the last line the news that some are gone. Each parameter \
             adds to what is watched; without any it is everything. `from` is inclusive and excludes `initial`, `recursive` \
             excludes `children`. A `bookmark` says up to which revision everything was told: as soon as that is so, then \
             every 10 s.",
        )
        .query(
            &WATCH,
            vec![
                of("path", "A node of the tree, whether it is there or not; locks are watched by name.", own_path()),
                flag("recursive", "With all below that path, or that lock."),
                flag("children", "With the direct children of that path."),
                of("lock", "A lock, whether it was used or not.", lock_name()),
                flag("locks", "Every lock."),
                integer("session", "A session, by its public number, and what becomes of its grants.", 0..=u64::MAX, None)
                    .like(41),
                flag("sessions", "Every session."),
                integer("from", "Begin with this revision; the next one is the last that may be named.", 1..=u64::MAX, None),
                flag("initial", "Begin with what is there."),
                consistency(),
            ],
        )
        .header("Last-Event-ID", "Go on after this revision.", json!({ "type": "string", "pattern": "^[0-9]{1,15}$" }))
        .content(StatusCode::OK, "Lines, for as long as the caller listens.", "application/x-ndjson", line)
        .lines("application/x-ndjson", lines)
        .content(StatusCode::OK, "", "text/event-stream", json!({ "type": "string" }))
        .lines("text/event-stream", events)
        .codes(&[Code::Compacted])
        .done(Kind::Read)
}
