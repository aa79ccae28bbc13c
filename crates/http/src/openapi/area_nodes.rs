//! The tree of nodes, described.

use super::{
    area_locks::consistency,
    area_txn::NAME_PREFIX,
    area_watch::with_long_poll,
    describe::{Call, Describer, Kind, Operation},
    examples,
    parameter::{Parameter, flag, form, integer, only_true, span, text},
};
use crate::nodes::{DELETE, GET, POST, PUT};
use fairhold_types::{
    Code, dto,
    limits::{NODE_TTL_MAX, NODE_TTL_MIN, PAGE_DEFAULT, PAGE_MAX, PATH_BYTES_MAX, PATH_LEVELS_MAX, VALUE_BYTES_MAX},
    pattern,
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
    let mut operations = Vec::new();
    for at in [ROOT, NODE] {
        operations.extend([get(describe, at), put(describe, at), create(describe, at), delete(describe, at)]);
    }
    operations
}

/// A path of at most so many levels as it stands in a URL, after the first slash.
fn path(levels_max: usize) -> Value {
    json!({
        "type": "string",
        "maxLength": PATH_BYTES_MAX - 1,
        "x-max-bytes": PATH_BYTES_MAX - 1,
        "pattern": format!("^{}$", levels(levels_max)),
        "example": "jobs/nightly",
    })
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

fn levels(levels_max: usize) -> String {
    let level = "[^/\\u0000-\\u001f\\u007f-\\u009f]+";
    format!("(?!(.*/)?\\.{{1,2}}(/|$)){level}(/{level}){{0,{}}}", levels_max - 1)
}

fn tag() -> Value {
    json!({ "type": "string" })
}

fn get(describe: &mut Describer, at: &'static str) -> Operation {
    let octets = json!({});
    let (id, summary) =
        if at == ROOT { ("getRoot", "Read the root of the tree.") } else { ("getNode", "Read a node's value, or its stat.") };
    let mut call = describe.call(Method::GET, at, id, TAG, summary).about(
        "The value is bytes. The stat stands in the headers, and with `meta` in a JSON body instead of the value. With \
         `children` or `recursive` it is a page of what is below the node: the names of its children, or the paths of all, and \
         with `meta` the stat of each. `limit` and `cursor` are for these. With `wait` or `after` it is answered when there \
         is something newer: of the node, of its children, or of all below it.",
    );
    if at == NODE {
        call = call.in_path("path", "The node's path, without its first slash.", path(PATH_LEVELS_MAX)).codes(&[Code::NoNode]);
    }
    let listing = vec![
        flag("meta", "Answer with the stat, and not with the value."),
        flag("children", "List the children."),
        flag("recursive", "List all that is below it."),
        integer("limit", "Nodes on the page.", 1..=PAGE_MAX as u64, Some(PAGE_DEFAULT as u64)),
        text("cursor", "The `next_cursor` of the page before, of the same listing.", PATH_BYTES_MAX).like("nightly"),
        consistency(),
    ];
    call = call
        .query(&GET, with_long_poll(listing))
        .header("If-None-Match", "The versions that the caller has, in quotes.", json!({ "type": "string", "example": "\"17\"" }))
        .content(StatusCode::OK, "The value, the stat, or a page.", "application/octet-stream", octets)
        .example(StatusCode::OK, "application/octet-stream", examples::VALUE.into())
        .json::<dto::Stat>(StatusCode::OK, "", Value::Null)
        .or_json::<dto::Page<String>>(StatusCode::OK)
        .or_json::<dto::Page<dto::Stat>>(StatusCode::OK)
        .named_example(StatusCode::OK, "application/json", "stat", examples::stat())
        .named_example(StatusCode::OK, "application/json", "names", json!({ "items": ["nightly"], "next_cursor": null }))
        .named_example(StatusCode::OK, "application/json", "stats", json!({ "items": [examples::stat()], "next_cursor": null }))
        .answer_header(StatusCode::OK, "Link", "`rel=\"next\"`: the next page.", json!({ "type": "string" }))
        .empty(StatusCode::NOT_MODIFIED, "The caller has this version, or nothing is newer.");
    for status in [StatusCode::OK, StatusCode::NOT_MODIFIED] {
        call = call.answer_header(status, "ETag", "The version, in quotes.", tag());
        for (name, sort) in STAT {
            call = call.answer_header(status, name, "Of the stat.", json!({ "type": sort }));
        }
    }
    call.done(Kind::Read)
}

fn put(describe: &mut Describer, at: &'static str) -> Operation {
    let (id, summary) =
        if at == ROOT { ("putRoot", "Write the root's value.") } else { ("putNode", "Write a node's value, or create it.") };
    let mut call = describe.call(Method::PUT, at, id, TAG, summary).about(
        "Of `session`, `ttl` and `container` at most one; they are for a node that is created, or is of that kind already.",
    );
    if at == NODE {
        call = call.in_path("path", "The node's path, without its first slash.", path(PATH_LEVELS_MAX));
    }
    let mut parameters = lifetime();
    parameters.push(flag("container", "It goes some time after its last child."));
    call = if_match(call.query(&PUT, parameters)).header(
        "If-None-Match",
        "`*`: it must not exist.",
        json!({ "type": "string", "enum": ["*"] }),
    );
    for (status, about) in [(StatusCode::CREATED, "It was created."), (StatusCode::OK, "It was written.")] {
        call = call
            .json::<dto::Written>(status, about, json!({ "path": "/jobs/nightly", "version": 0, "revision": 57 }))
            .answer_header(status, "ETag", "The version, in quotes.", tag());
    }
    write(call).codes(&CREATES).codes(&[Code::VersionMismatch]).done(Kind::Keyed)
}

fn create(describe: &mut Describer, at: &'static str) -> Operation {
    let id = if at == ROOT { "createInRoot" } else { "createSequential" };
    let mut call = describe
        .call(Method::POST, at, id, TAG, "Create a child with a number in its name.")
        .about("Its name is `name` and the parent's counter in ten digits. Of `session` and `ttl` at most one.");
    if at == NODE {
        call = call.in_path("path", "The parent's path, without its first slash.", path(PATH_LEVELS_MAX - 1));
    }
    let mut parameters = lifetime();
    parameters.extend([
        only_true("sequential", "Must be there: a node with a name of the caller's own is made by PUT."),
        form("name", "What its name begins with; the path with it and the number must fit.", NAME_PREFIX).like("task-"),
    ]);
    let created = json!({ "path": "/jobs/task-0000000007", "version": 0, "revision": 57 });
    call = call
        .query(&POST, parameters)
        .json::<dto::Written>(StatusCode::CREATED, "It was created.", created)
        .answer_header(StatusCode::CREATED, "ETag", "The version, in quotes.", tag())
        .answer_header(StatusCode::CREATED, "Location", "The new node.", json!({ "type": "string" }));
    write(call).codes(&CREATES).done(Kind::Keyed)
}

fn delete(describe: &mut Describer, at: &'static str) -> Operation {
    let (id, summary) = if at == ROOT { ("deleteRoot", "Refused: the root stays.") } else { ("deleteNode", "Remove a node.") };
    let mut call = describe.call(Method::DELETE, at, id, TAG, summary);
    if at == NODE {
        call = call
            .in_path("path", "The node's path, without its first slash.", path(PATH_LEVELS_MAX))
            .empty(StatusCode::NO_CONTENT, "It is gone.")
            .codes(&[Code::NotEmpty, Code::NoNode, Code::TooLarge]);
    }
    call = if_match(call.query(&DELETE, vec![flag("recursive", "With all that is below it.")]));
    fenced(call).codes(&[Code::Denied, Code::VersionMismatch]).done(Kind::Keyed)
}

/// Why a node cannot be created.
const CREATES: [Code; 6] =
    [Code::Denied, Code::NoNode, Code::SessionNotFound, Code::NodeExists, Code::EphemeralParent, Code::TooLarge];

fn lifetime() -> Vec<Parameter> {
    vec![
        flag("parents", "Create the missing levels above it."),
        form("session", "The id of the session with which it is to live and to go.", pattern::SESSION_ID),
        span("ttl", "It goes when it was not changed and had no children for so long.", NODE_TTL_MIN..=NODE_TTL_MAX, None),
    ]
}

fn if_match(call: Call<'_>) -> Call<'_> {
    let versions = json!({ "type": "string", "minLength": 1, "pattern": "^(\\*|\"(0|[1-9][0-9]{0,8})\")$", "example": "\"17\"" });
    call.header("If-Match", "The version that it must have, in quotes, or `*`: it must exist.", versions)
}

/// A call with a value.
fn write(call: Call<'_>) -> Call<'_> {
    fenced(call.octets(&format!("The value: at most {VALUE_BYTES_MAX} bytes.")))
}

fn fenced(call: Call<'_>) -> Call<'_> {
    let fence = json!({ "type": "string", "minLength": 1, "pattern": FENCE, "example": "deploy=42" });
    call.header("Fairhold-Fence", "LOCK=TOKEN, or LOCK=TOKEN;grant=ID: write only while that token is current.", fence)
        .code_as(StatusCode::PRECONDITION_FAILED, Code::StaleToken)
}
