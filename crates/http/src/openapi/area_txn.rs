//! Describes transactions. The schema of their body comes from its types; rules between fields are added here.

use super::{
    area_nodes,
    describe::{DescribeCall, Describer, Operation},
    operation::OperationKind::Keyed,
    pattern,
};
use fairhold_types::{
    Code,
    limits::{NODE_TTL_MAX, NODE_TTL_MIN, PATH_BYTES_MAX, TRANSACTION_STEPS_MAX, VALUE_BYTES_MAX},
    pattern as id_pattern, txn,
};
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// Base64 with padding, and no extra bits after the last byte.
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

pub(super) const CALLS: &[DescribeCall] = &[transact];

fn transact(api: &mut Describer) -> Operation<'_> {
    api.refine("Transaction", refine_transaction);
    api.refine("Condition", refine_condition);
    api.refine("Span", refine_span);
    api.refine("Create", refine_create);
    api.refine("Put", refine_put);
    api.refine("Set", refine_value);
    let example = json!({
        "if": [{ "path": "/jobs/7", "version": 3 }, { "fence": { "lock": "deploy", "token": 42 } }],
        "then": [{ "put": { "path": "/jobs/7", "value": "done" } }, { "delete": { "path": "/jobs/7/owner" } }],
    });
    let done = json!({
        "succeeded": true,
        "results": [
            { "put": { "path": "/jobs/7", "created": false, "version": 4 } },
            { "delete": { "path": "/jobs/7/owner", "count": 1 } },
        ],
        "revision": 57,
    });
    api.call(Keyed(Method::POST), "/v1/txn", "transact", "nodes", "Change several nodes in one step, if conditions hold.")
        .about(
            "All or nothing, and at one revision. If all conditions hold, the server runs `then`, otherwise `else`; without \
             `else` it refuses the transaction. Each operation sees the effects of those before it. A refusal changes nothing, \
             and its `failed` names the refused entry.",
        )
        .request::<txn::Transaction>(example)
        .json::<txn::Transacted>("The transaction was done.", done)
        .codes(&area_nodes::CREATES)
        .codes(&[Code::NotEmpty, Code::VersionMismatch])
        .code_as(StatusCode::PRECONDITION_FAILED, Code::StaleToken)
}

fn refine_transaction(schema: &mut Value) {
    for part in ["if", "then", "else"] {
        schema["properties"][part]["maxItems"] = TRANSACTION_STEPS_MAX.into();
    }
}

/// A condition is one of four; fields of the others may be `null`.
fn refine_condition(schema: &mut Value) {
    let one = |given: &[&str]| {
        let absent: Vec<Value> = ["path", "version", "exists", "fence", "session"]
            .iter()
            .filter(|name| !given.contains(name))
            .map(|name| json!({ "properties": { *name: { "type": "null" } } }))
            .collect();
        let there: Vec<Value> = given.iter().map(|name| is_given(name)).collect();
        json!({ "allOf": there.into_iter().chain(absent).collect::<Vec<Value>>() })
    };
    schema["anyOf"] = json!([one(&["path", "version"]), one(&["path", "exists"]), one(&["fence"]), one(&["session"])]);
}

fn refine_span(schema: &mut Value) {
    let (min, max) = (NODE_TTL_MIN, NODE_TTL_MAX);
    schema["anyOf"] = json!([
        { "type": "integer", "minimum": min.as_secs().max(1), "maximum": max.as_secs() },
        { "type": "string", "pattern": pattern::duration(min, max) },
    ]);
}

fn refine_create(schema: &mut Value) {
    refine_put(schema);
    schema["properties"]["name"]["pattern"] = id_pattern::NAME_PREFIX.into();
    schema["properties"]["name"]["maxLength"] = PATH_BYTES_MAX.into();
    let sequential = json!({ "required": ["sequential"], "properties": { "sequential": { "const": true } } });
    add_rule(schema, json!({ "anyOf": [sequential, { "not": is_given("name") }] }));
}

fn refine_put(schema: &mut Value) {
    refine_value(schema);
    let container = json!({ "required": ["container"], "properties": { "container": { "const": true } } });
    for (one, other) in
        [(is_given("session"), is_given("ttl")), (is_given("session"), container.clone()), (is_given("ttl"), container)]
    {
        add_rule(schema, json!({ "not": { "allOf": [one, other] } }));
    }
}

fn refine_value(schema: &mut Value) {
    schema["properties"]["value"]["maxLength"] = VALUE_BYTES_MAX.into();
    schema["properties"]["value"]["x-max-bytes"] = VALUE_BYTES_MAX.into();
    schema["properties"]["value_base64"]["pattern"] = BASE64.into();
    add_rule(schema, json!({ "not": { "allOf": [is_given("value"), is_given("value_base64")] } }));
}

/// The field is present and not `null`.
fn is_given(name: &str) -> Value {
    json!({ "required": [name], "properties": { name: { "not": { "type": "null" } } } })
}

fn add_rule(schema: &mut Value, rule: Value) {
    match schema.get_mut("allOf").and_then(Value::as_array_mut) {
        Some(rules) => rules.push(rule),
        None => schema["allOf"] = json!([rule]),
    }
}
