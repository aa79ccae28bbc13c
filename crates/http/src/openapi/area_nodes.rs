//! Describes the calls on the tree of nodes.

use super::{
    describe::{DescribeCall, Describer, Operation},
    examples,
    operation::OperationKind::{Keyed, Read},
    vocabulary::levels,
};
use fairhold_types::{
    Code, call, dto,
    limits::{PATH_BYTES_MAX, PATH_LEVELS_MAX, VALUE_BYTES_MAX},
};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const TAG: &str = "nodes";
const ROOT: &str = "/v1/nodes/";
const NODE: &str = "/v1/nodes/{path}";

/// A fence. The lock's name may also have % escapes, as in a URL.
const FENCE: &str = "^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*=[0-9]{1,15}(;grant=[0-7][0-9A-HJKMNP-TV-Z]{25})?$";

/// The fields of a stat: each is a header of the answer.
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

pub(super) const CALLS: &[DescribeCall] = &[
    |api| get(api, ROOT),
    |api| put(api, ROOT),
    |api| create(api, ROOT),
    |api| delete(api, ROOT),
    |api| get(api, NODE),
    |api| put(api, NODE),
    |api| create(api, NODE),
    |api| delete(api, NODE),
];

/// A path in a URL, without its first slash, of at most this many levels.
fn path(levels_max: usize) -> Value {
    json!({
        "type": "string",
        "maxLength": PATH_BYTES_MAX - 1,
        "x-max-bytes": PATH_BYTES_MAX - 1,
        "pattern": format!("^{}$", levels(levels_max)),
        "example": "jobs/nightly",
    })
}

fn tag() -> Value {
    json!({ "type": "string" })
}

fn get<'a>(api: &'a mut Describer, at: &'static str) -> Operation<'a> {
    let names = json!({ "items": ["nightly"], "next_cursor": null });
    let stats = json!({ "items": [examples::stat()], "next_cursor": null });
    let (id, summary) =
        if at == ROOT { ("getRoot", "Read the root of the tree.") } else { ("getNode", "Read a node's value, or its stat.") };
    let mut call = api.call(Read, at, id, TAG, summary).about(
        "The body is the value's bytes, and the headers have the stat. With `meta` the body is the stat as JSON instead of the \
         value. With `children` or `recursive` the body is a page of the nodes below: the names of the children, or the paths of \
         all nodes, and with `meta` the stat of each. `limit` and `cursor` are only for these pages. With `wait` or `after` the \
         server answers when something changes: the node, its children, or any node below it.",
    );
    if at == NODE {
        call = call.in_path("path", "The node's path, without its first slash.", path(PATH_LEVELS_MAX)).codes(&[Code::NoNode]);
    }
    call = call
        .query::<call::GetNode>()
        .header(
            "If-None-Match",
            "The versions that you already have, each in quotes.",
            json!({ "type": "string", "example": "\"17\"" }),
        )
        .content("The value, the stat, or a page.", "application/octet-stream", json!({}), examples::VALUE.into())
        .page::<dto::Stat>("", Value::Null)
        .or_json::<dto::Page<String>>()
        .or_json::<dto::Page<dto::Stat>>()
        .examples("application/json", [("stat", examples::stat()), ("names", names), ("stats", stats)])
        .empty(StatusCode::NOT_MODIFIED, "You already have this version, or nothing has changed.");
    for status in [StatusCode::OK, StatusCode::NOT_MODIFIED] {
        call = call.answer_header(status, "ETag", "The version, in quotes.", tag());
        for (name, sort) in STAT {
            call = call.answer_header(status, name, "A field of the stat.", json!({ "type": sort }));
        }
    }
    call
}

fn put<'a>(api: &'a mut Describer, at: &'static str) -> Operation<'a> {
    let (id, summary) =
        if at == ROOT { ("putRoot", "Write the root's value.") } else { ("putNode", "Write a node's value, or create it.") };
    let mut call = api.call(Keyed(Method::PUT), at, id, TAG, summary).about(
        "Pass at most one of `session`, `ttl` and `container`; they apply only to a node that you create, or that is already of \
         that kind.",
    );
    if at == NODE {
        call = call.in_path("path", "The node's path, without its first slash.", path(PATH_LEVELS_MAX));
    }
    call = if_match(call.query::<call::PutNode>()).header(
        "If-None-Match",
        "`*`: the node must not exist.",
        json!({ "type": "string", "enum": ["*"] }),
    );
    for (status, about) in [(StatusCode::CREATED, "The node was created."), (StatusCode::OK, "The node was written.")] {
        call = call
            .json_as::<dto::Written>(status, about, json!({ "path": "/jobs/nightly", "version": 0, "revision": 57 }))
            .answer_header(status, "ETag", "The version, in quotes.", tag());
    }
    write(call).codes(&CREATES).codes(&[Code::VersionMismatch])
}

fn create<'a>(api: &'a mut Describer, at: &'static str) -> Operation<'a> {
    let id = if at == ROOT { "createInRoot" } else { "createSequential" };
    let mut call = api.call(Keyed(Method::POST), at, id, TAG, "Create a child whose name ends in a number.").about(
        "The server builds the child's name from `name` and the parent's counter in ten digits. Pass at most one of `session` \
         and `ttl`.",
    );
    if at == NODE {
        call = call.in_path("path", "The parent's path, without its first slash.", path(PATH_LEVELS_MAX - 1));
    }
    let created = json!({ "path": "/jobs/task-0000000007", "version": 0, "revision": 57 });
    call = call
        .query::<call::CreateNode>()
        .required_flag("sequential")
        .json_as::<dto::Written>(StatusCode::CREATED, "The node was created.", created)
        .answer_header(StatusCode::CREATED, "ETag", "The version, in quotes.", tag())
        .answer_header(StatusCode::CREATED, "Location", "The new node.", json!({ "type": "string" }));
    write(call).codes(&CREATES)
}

fn delete<'a>(api: &'a mut Describer, at: &'static str) -> Operation<'a> {
    let (id, summary) =
        if at == ROOT { ("deleteRoot", "Refused: you cannot delete the root.") } else { ("deleteNode", "Remove a node.") };
    let mut call = api.call(Keyed(Method::DELETE), at, id, TAG, summary);
    if at == NODE {
        call = call
            .in_path("path", "The node's path, without its first slash.", path(PATH_LEVELS_MAX))
            .empty(StatusCode::NO_CONTENT, "The node is removed.")
            .codes(&[Code::NotEmpty, Code::NoNode, Code::TooLarge]);
    }
    call = if_match(call.query::<call::DeleteNode>());
    fenced(call).codes(&[Code::Denied, Code::VersionMismatch])
}

/// The codes with which a create can fail.
pub(super) const CREATES: [Code; 6] =
    [Code::Denied, Code::NoNode, Code::SessionNotFound, Code::NodeExists, Code::EphemeralParent, Code::TooLarge];

fn if_match(call: Operation<'_>) -> Operation<'_> {
    let versions = json!({ "type": "string", "minLength": 1, "pattern": "^(\\*|\"(0|[1-9][0-9]{0,8})\")$", "example": "\"17\"" });
    call.header("If-Match", "The version that the node must have, in quotes, or `*` if it only has to exist.", versions)
}

/// A call with a value.
fn write(call: Operation<'_>) -> Operation<'_> {
    fenced(call.octets(&format!("The value: at most {VALUE_BYTES_MAX} bytes.")))
}

fn fenced(call: Operation<'_>) -> Operation<'_> {
    let fence = json!({ "type": "string", "minLength": 1, "pattern": FENCE, "example": "deploy=42" });
    call.header("Fairhold-Fence", "LOCK=TOKEN or LOCK=TOKEN;grant=ID: write only while that token is current.", fence)
        .code_as(StatusCode::PRECONDITION_FAILED, Code::StaleToken)
}
