//! The tree of nodes, described.

use super::{
    area_locks::consistency,
    area_watch::with_long_poll,
    describe::{Describer, Kind, Operation},
    parameter::flag,
};
use crate::nodes::{GET, PUT};
use fairhold_types::{
    Code, dto,
    limits::{PATH_BYTES_MAX, VALUE_BYTES_MAX},
};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const TAG: &str = "nodes";
const ROOT: &str = "/v1/nodes/";
const NODE: &str = "/v1/nodes/{path}";

/// A fence; a lock's name in it may have % escapes as in a URL too.
const FENCE: &str = "^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*=[0-9]{1,15}(;grant=[0-7][0-9A-HJKMNP-TV-Z]{25})?$";

/// The stat's fields, each a header of the answer.
const STAT: [(&str, &str); 11] = [
    ("fairhold-czxid", "integer"),
    ("fairhold-mzxid", "integer"),
    ("fairhold-pzxid", "integer"),
    ("fairhold-ctime", "string"),
    ("fairhold-mtime", "string"),
    ("fairhold-version", "integer"),
    ("fairhold-cversion", "integer"),
    ("fairhold-aversion", "integer"),
    ("fairhold-ephemeral-owner", "integer"),
    ("fairhold-data-length", "integer"),
    ("fairhold-num-children", "integer"),
];

pub(super) fn operations(describe: &mut Describer) -> Vec<Operation> {
    vec![get(describe, ROOT), get(describe, NODE), put(describe, ROOT), put(describe, NODE)]
}

/// A path as it stands in a URL, after the first slash.
fn path() -> Value {
    json!({
        "type": "string",
        "maxLength": PATH_BYTES_MAX - 1,
        "x-max-bytes": PATH_BYTES_MAX - 1,
        "pattern": "^(?!(.*/)?\\.{1,2}(/|$))[^/\\u0000-\\u001f\\u007f-\\u009f]+(/[^/\\u0000-\\u001f\\u007f-\\u009f]+){0,31}$",
        "example": "jobs/nightly",
    })
}

fn get(describe: &mut Describer, at: &'static str) -> Operation {
    let octets = json!({});
    let (id, summary) =
        if at == ROOT { ("getRoot", "Read the root of the tree.") } else { ("getNode", "Read a node's value, or its stat.") };
    let mut call = describe
        .call(Method::GET, at, id, TAG, summary)
        .about("The value is bytes. The stat stands in the headers, and with `meta` in a JSON body instead of the value.");
    if at == NODE {
        call = call.in_path("path", "The node's path, without its first slash.", path()).codes(&[Code::NoNode]);
    }
    call = call
        .query(&GET, with_long_poll(vec![flag("meta", "Answer with the stat, and not with the value."), consistency()]))
        .header("If-None-Match", "The versions that the caller has, in quotes.", json!({ "type": "string", "example": "\"17\"" }))
        .content(StatusCode::OK, "The value, or the stat.", "application/octet-stream", octets)
        .json::<dto::Stat>(StatusCode::OK, "", Value::Null)
        .empty(StatusCode::NOT_MODIFIED, "The caller has this version, or nothing is newer.");
    for status in [StatusCode::OK, StatusCode::NOT_MODIFIED] {
        call = call.answer_header(status, "ETag", "The version, in quotes.", json!({ "type": "string" }));
        for (name, sort) in STAT {
            call = call.answer_header(status, name, "Of the stat.", json!({ "type": sort }));
        }
    }
    call.done(Kind::Read)
}

fn put(describe: &mut Describer, at: &'static str) -> Operation {
    let (id, summary) =
        if at == ROOT { ("putRoot", "Refused: the root has no value.") } else { ("putNode", "Write a node's value.") };
    let mut call = describe
        .call(Method::PUT, at, id, TAG, summary)
        .octets(&format!("The value: at most {VALUE_BYTES_MAX} bytes."))
        .codes(&[Code::Denied, Code::NoNode, Code::VersionMismatch, Code::TooLarge])
        .code_as(StatusCode::PRECONDITION_FAILED, Code::StaleToken);
    if at == NODE {
        call = call.in_path("path", "The node's path, without its first slash.", path());
    }
    let tag = json!({ "type": "string", "pattern": "^\"(0|[1-9][0-9]{0,8})\"$", "example": "\"17\"" });
    let fence = json!({ "type": "string", "pattern": FENCE, "example": "deploy=42" });
    call = call
        .query(&PUT, vec![flag("parents", "Create the missing levels above it.")])
        .header("If-Match", "The version that it must have, in quotes.", tag)
        .header("If-None-Match", "`*`: it must not exist.", json!({ "type": "string", "enum": ["*"] }))
        .header("Fairhold-Fence", "LOCK=TOKEN, or LOCK=TOKEN;grant=ID: write only while that token is current.", fence);
    for (status, about) in [(StatusCode::CREATED, "It was created."), (StatusCode::OK, "It was written.")] {
        call = call
            .json::<dto::Written>(status, about, json!({ "path": "/jobs/nightly", "version": 0, "revision": 57 }))
            .answer_header(status, "ETag", "The version, in quotes.", json!({ "type": "string" }));
    }
    call.done(Kind::Keyed)
}
