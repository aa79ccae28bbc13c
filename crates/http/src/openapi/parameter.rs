//! Describes the parameters of a call, in the query and in a JSON body, from the schema of its type.

use super::{
    examples, pattern,
    schema::{take, without_null},
};
use fairhold_types::{
    duration,
    limits::{TIMEOUT_DEFAULT, TIMEOUT_MAX},
};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A parameter of a call.
struct Parameter {
    name: String,
    about: String,
    required: bool,
    schema: Value,
}

/// A header or path parameter.
pub(super) fn at(location: &str, name: &str, about: &str, mut schema: Value) -> Value {
    let example = take(&mut schema, "example").unwrap_or_else(|| examples::usual(name));
    let mut parameter = json!({ "name": name, "in": location, "description": about, "schema": schema });
    if location == "path" {
        parameter["required"] = true.into();
    }
    set_example(&mut parameter, example);
    parameter
}

/// A duration in a header.
fn duration_header(name: &str, about: &str, min: Duration, max: Duration, default: Duration) -> Value {
    let schema = json!({ "type": "string", "pattern": pattern::duration(min, max), "default": duration::format(default) });
    at("header", name, &with_bounds(about, min, max), schema)
}

/// The header `Fairhold-Timeout`.
pub(super) fn timeout() -> Value {
    let about = "How long the server may work on the request, including hops to other servers; `wait` does not count.";
    duration_header("Fairhold-Timeout", about, Duration::from_millis(1), TIMEOUT_MAX, TIMEOUT_DEFAULT)
}

/// The parameters that a query can contain.
pub(super) fn in_query(object: &Value) -> Vec<Value> {
    parameters(object).into_iter().filter(|parameter| parameter.schema["type"] != "array").map(query_parameter).collect()
}

fn query_parameter(Parameter { name, about, required, mut schema }: Parameter) -> Value {
    let example = example(&name, &mut schema);
    let mut parameter = json!({ "name": name, "in": "query", "description": about });
    if required {
        parameter["required"] = true.into();
    }
    if is_duration(&schema) {
        schema["type"] = "string".into();
        take(&mut schema, "minimum");
        take(&mut schema, "maximum");
    }
    if schema["type"] == "object" {
        // An object in a query is JSON, not OpenAPI's own flattening.
        let mut content = json!({ "schema": schema });
        set_example(&mut content, example);
        parameter["content"] = json!({ "application/json": content });
    } else {
        parameter["schema"] = schema;
        set_example(&mut parameter, example);
    }
    parameter
}

/// All parameters, as a JSON body. `rules` are rules between fields.
pub(super) fn body(object: &Value, rules: Option<Value>, example: Value) -> Value {
    let fields: Vec<Parameter> = parameters(object);
    let required: Vec<String> = fields.iter().filter(|field| field.required).map(|field| field.name.clone()).collect();
    let properties: Map<String, Value> = fields.into_iter().map(field).collect();
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    let is_one_needed =
        rules.as_ref().and_then(Value::as_array).is_some_and(|rules| rules.iter().any(|rule| rule.get("anyOf").is_some()));
    // A required parameter, or one of several alternatives.
    let is_needed = !required.is_empty() || is_one_needed;
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if let Some(rules) = rules {
        schema["allOf"] = rules;
    }
    let content = json!({ "schema": schema, "example": example });
    json!({ "required": is_needed, "content": { "application/json": content } })
}

fn field(Parameter { name, about, mut schema, .. }: Parameter) -> (String, Value) {
    schema["description"] = about.into();
    (name, schema)
}

fn parameters(object: &Value) -> Vec<Parameter> {
    let required = object["required"].as_array().map_or(&[][..], Vec::as_slice);
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let about = take(&mut schema, "description").and_then(|about| about.as_str().map(str::to_owned)).unwrap_or_default();
        Parameter { name: name.clone(), about, required: required.iter().any(|known| known == name), schema }
    };
    object["properties"].as_object().into_iter().flatten().map(parameter).collect()
}

/// Adapts the schema of a request's type to the API: an optional field is never `null`, a choice is a list of values, a duration
/// has a pattern and a flag a default.
pub(super) fn refine(schema: &mut Value) {
    // A flag is off if it is not given. A choice between yes and no that is not given is neither.
    let is_choice = schema["type"] == json!(["boolean", "null"]);
    without_null(schema);
    list_choices(schema);
    let Some(fields) = schema.as_object_mut() else { return };
    for below in ["properties", "oneOf", "anyOf", "items"] {
        match fields.get_mut(below) {
            Some(Value::Object(properties)) if below == "properties" => properties.values_mut().for_each(refine),
            Some(Value::Array(schemas)) => schemas.iter_mut().for_each(refine),
            Some(one @ Value::Object(_)) => refine(one),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {}
        }
    }
    if let Some(about) = fields.get_mut("description")
        && let Some(text) = about.as_str()
    {
        *about = text.replace('\n', " ").into();
    }
    if schema["type"] == "boolean" && schema["enum"].is_null() && !is_choice {
        schema["default"] = false.into();
    }
    if is_duration(schema) {
        let (min, max) = (bound(&schema["minimum"]), bound(&schema["maximum"]));
        schema["pattern"] = pattern::duration(min, max).into();
        let about = schema["description"].as_str().unwrap_or_default();
        schema["description"] = with_bounds(about, min, max).into();
    }
}

/// A list of constants is an `enum`.
fn list_choices(schema: &mut Value) {
    let choices = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
    let values: Vec<Value> = choices.iter().filter_map(|choice| choice.get("const").cloned()).collect();
    if values.is_empty() || values.len() != choices.len() {
        return;
    }
    take(schema, "oneOf");
    schema["type"] = "string".into();
    schema["enum"] = values.into();
}

fn is_duration(schema: &Value) -> bool {
    schema["type"] == json!(["string", "number"])
}

fn bound(seconds: &Value) -> Duration {
    // Bounds are whole milliseconds.
    let millis = seconds.as_f64().map_or(0.0, |seconds| (seconds * 1_000.0).round());
    Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or_default()
}

fn with_bounds(about: &str, min: Duration, max: Duration) -> String {
    format!("{about} From {} to {}.", duration::format(min), duration::format(max))
}

/// The example of a field, or the usual one for its name, or one for its type.
fn example(name: &str, schema: &mut Value) -> Value {
    let own = take(schema, "example");
    let of_type = take(schema, "examples").map(|examples| examples[0].clone());
    own.or_else(|| (schema["type"] == "boolean").then_some(Value::Bool(true)))
        .or_else(|| Some(examples::usual(name)).filter(|usual| !usual.is_null()))
        .or(of_type)
        .or_else(|| Some(schema["enum"][0].clone()).filter(|first| !first.is_null()))
        .or_else(|| (schema["type"] == "integer").then(|| schema["maximum"].clone()))
        .or_else(|| is_duration(schema).then(|| duration::format(bound(&schema["maximum"])).into()))
        .unwrap_or_default()
}

fn set_example(target: &mut Value, example: Value) {
    if !example.is_null() {
        target["example"] = example;
    }
}
