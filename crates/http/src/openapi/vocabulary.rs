//! What the calls of more than one area take: names, paths, consistency, long polls.

use super::parameter::{Parameter, integer, one_of, span};
use fairhold_types::limits::{LOCK_NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_LEVELS_MAX, WAIT_MAX};
use fairhold_types::pattern;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn lock_name() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": LOCK_NAME_BYTES_MAX,
        "x-max-bytes": LOCK_NAME_BYTES_MAX,
        "pattern": pattern::LOCK_NAME,
        "example": "orders/42",
    })
}

pub(super) fn consistency() -> Parameter {
    let about = "`linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own \
                 state, which may be out of date.";
    one_of("consistency", about, &["linearizable", "local"], Some("linearizable"))
}

/// A path as it stands in a query, of a node that is none of the locks' own.
pub(super) fn own_path() -> Value {
    json!({
        "type": "string",
        "maxLength": PATH_BYTES_MAX,
        "x-max-bytes": PATH_BYTES_MAX,
        "pattern": format!("^/(?!locks(/|$))({})?$", levels(PATH_LEVELS_MAX)),
        "example": "/jobs/nightly",
    })
}

pub(super) fn levels(levels_max: usize) -> String {
    let level = "[^/\\u0000-\\u001f\\u007f-\\u009f]+";
    format!("(?!(.*/)?\\.{{1,2}}(/|$)){level}(/{level}){{0,{}}}", levels_max - 1)
}

/// The parameters of a read that may be held back, with these others.
pub(super) fn with_long_poll(mut others: Vec<Parameter>) -> Vec<Parameter> {
    let wait = "How long to wait for a change; `304` if there is none.";
    let after = "Wait for a change after this revision, the `Fairhold-Revision` of an earlier answer; without it, for a change \
                 after the current revision.";
    others.extend([span("wait", wait, Duration::ZERO..=WAIT_MAX, None), integer("after", after, 0..=u64::MAX, None)]);
    others
}
