//! One parameter: how it reads in a query and in a JSON body, within which bounds, in words.

use super::{examples, pattern};
use crate::params::KnownParams;
use fairhold_types::{
    duration,
    limits::{META_BYTES_MAX, META_PAIRS_MAX},
    pattern::WORDS,
};
use serde_json::{Map, Value, json};
use std::{ops::RangeInclusive, time::Duration};

/// The first whole number that is refused, less 1.
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// A parameter.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    about: String,
    required: bool,
    in_query: Value,
    in_body: Value,
    example: Value,
}

impl Parameter {
    fn new(name: &'static str, about: impl Into<String>, mut in_query: Value, in_body: Value) -> Parameter {
        let example = example(name, &mut in_query);
        Parameter { name, about: about.into(), required: false, in_query, in_body, example }
    }

    /// An example of its own, where that of its name would mislead.
    pub(super) fn like(self, example: impl Into<Value>) -> Parameter {
        Parameter { example: example.into(), ..self }
    }

    /// A call without it is refused.
    pub(super) fn required(self) -> Parameter {
        Parameter { required: true, ..self }
    }

    /// A list that has one item at least.
    pub(super) fn not_empty(mut self) -> Parameter {
        self.in_body["minItems"] = 1.into();
        self
    }

    pub(super) fn in_query(&self) -> Value {
        let mut parameter = json!({ "name": self.name, "in": "query", "description": self.about, "schema": self.in_query });
        if self.required {
            parameter["required"] = true.into();
        }
        show(&mut parameter, &self.example);
        parameter
    }
}

/// A header or path parameter.
pub(super) fn at(place: &str, name: &str, about: &str, mut schema: Value) -> Value {
    let example = example(name, &mut schema);
    let mut parameter = json!({ "name": name, "in": place, "description": about, "schema": schema });
    if place == "path" {
        parameter["required"] = true.into();
    }
    show(&mut parameter, &example);
    parameter
}

/// The example that a schema brings along, else the one that its parameter usually has.
fn example(name: &str, schema: &mut Value) -> Value {
    let own = schema.as_object_mut().and_then(|fields| fields.remove("example"));
    own.unwrap_or_else(|| examples::usual(name))
}

fn show(what: &mut Value, example: &Value) {
    if !example.is_null() {
        what["example"] = example.clone();
    }
}

pub(super) fn span(name: &'static str, about: &str, range: RangeInclusive<Duration>, default: Option<Duration>) -> Parameter {
    let (least, most) = (*range.start(), *range.end());
    let pattern = pattern::duration(least, most);
    let bounds = format!("{about} From {} to {}.", duration::format(least), duration::format(most));
    let mut text = json!({ "type": "string", "pattern": pattern });
    let mut any = json!({
        "type": ["string", "number"],
        "pattern": pattern,
        "minimum": least.as_secs_f64(),
        "maximum": most.as_secs_f64(),
    });
    if let Some(default) = default {
        text["default"] = duration::format(default).into();
        any["default"] = duration::format(default).into();
    }
    Parameter::new(name, bounds, text, any)
}

pub(super) fn integer(name: &'static str, about: &str, range: RangeInclusive<u64>, default: Option<u64>) -> Parameter {
    let mut schema = json!({ "type": "integer", "minimum": range.start(), "maximum": (*range.end()).min(INTEGER_MAX) });
    if let Some(default) = default {
        schema["default"] = default.into();
    }
    Parameter::new(name, about, schema.clone(), schema)
}

pub(super) fn signed(name: &'static str, about: &str) -> Parameter {
    let schema = json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX, "default": 0 });
    Parameter::new(name, about, schema.clone(), schema)
}

pub(super) fn flag(name: &'static str, about: &str) -> Parameter {
    let schema = json!({ "type": "boolean", "default": false });
    Parameter::new(name, about, schema.clone(), schema).like(true)
}

/// A flag without which the call is refused.
pub(super) fn only_true(name: &'static str, about: &str) -> Parameter {
    let schema = json!({ "type": "boolean", "enum": [true] });
    Parameter::new(name, about, schema.clone(), schema).like(true).required()
}

pub(super) fn text(name: &'static str, about: &str, bytes_max: usize) -> Parameter {
    let schema = json!({ "type": "string", "maxLength": bytes_max, "x-max-bytes": bytes_max });
    Parameter::new(name, about, schema.clone(), schema)
}

/// A text for people, without control, invisible or direction characters.
pub(super) fn words(name: &'static str, about: &str, bytes_max: usize) -> Parameter {
    let schema = json!({ "type": "string", "maxLength": bytes_max, "x-max-bytes": bytes_max, "pattern": WORDS });
    Parameter::new(name, about, schema.clone(), schema)
}

pub(super) fn form(name: &'static str, about: &str, pattern: &str) -> Parameter {
    of(name, about, json!({ "type": "string", "pattern": pattern }))
}

/// One whose schema stands elsewhere.
pub(super) fn of(name: &'static str, about: &str, schema: Value) -> Parameter {
    Parameter::new(name, about, schema.clone(), schema)
}

pub(super) fn one_of(name: &'static str, about: &str, values: &[&str], default: Option<&str>) -> Parameter {
    let mut schema = json!({ "type": "string", "enum": values });
    if let Some(default) = default {
        schema["default"] = default.into();
    }
    Parameter::new(name, about, schema.clone(), schema)
}

pub(super) fn meta() -> Parameter {
    let about = format!(
        "Pairs of text, for people to read: at most {META_PAIRS_MAX}, and {META_BYTES_MAX} bytes in total. In a query, pass one \
         JSON object."
    );
    let object = json!({
        "type": "object",
        "maxProperties": META_PAIRS_MAX,
        "propertyNames": { "pattern": WORDS },
        "additionalProperties": { "type": "string", "maxLength": META_BYTES_MAX, "pattern": WORDS },
        "x-max-bytes": META_BYTES_MAX,
    });
    Parameter::new("meta", about, object.clone(), object)
}

/// A list, which can only stand in a body.
pub(super) fn list(name: &'static str, about: &str, item: Value, max: usize) -> Parameter {
    let schema = json!({ "type": "array", "items": item, "maxItems": max });
    Parameter::new(name, about, Value::Null, schema)
}

/// The parameters of a call, in the order in which the parser knows them. Each that it knows is described, and no other.
pub(super) fn checked(known: &KnownParams, mut given: Vec<Parameter>) -> Vec<Parameter> {
    given.sort_by_key(|parameter| known.now.iter().position(|name| *name == parameter.name));
    let names: Vec<&str> = given.iter().map(|parameter| parameter.name).collect();
    assert_eq!(names, known.now, "the description and the parser know other parameters");
    given
}

/// The parameters that a query can contain.
pub(super) fn in_query(parameters: &[Parameter]) -> Vec<Value> {
    parameters.iter().filter(|parameter| !parameter.in_query.is_null()).map(query_parameter).collect()
}

fn query_parameter(parameter: &Parameter) -> Value {
    let mut value = parameter.in_query();
    // An object in a query is JSON, not OpenAPI's own flattening.
    if parameter.in_query["type"] == "object"
        && let Some(fields) = value.as_object_mut()
        && let Some(schema) = fields.remove("schema")
    {
        let mut content = json!({ "schema": schema });
        show(&mut content, &parameter.example);
        fields.remove("example");
        fields.insert("content".to_owned(), json!({ "application/json": content }));
    }
    value
}

/// All, as a JSON body. `null` stands for not given.
pub(super) fn body(parameters: &[Parameter], rules: Option<Value>, example: Option<Value>) -> Value {
    let property = |parameter: &Parameter| {
        let mut schema = parameter.in_body.clone();
        schema["description"] = parameter.about.clone().into();
        (parameter.name.to_owned(), schema)
    };
    let properties: Map<String, Value> = parameters.iter().map(property).collect();
    let required: Vec<&str> = parameters.iter().filter(|parameter| parameter.required).map(|parameter| parameter.name).collect();
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let is_one_needed =
        rules.as_ref().and_then(Value::as_array).is_some_and(|rules| rules.iter().any(|rule| rule.get("anyOf").is_some()));
    if let Some(rules) = rules {
        schema["allOf"] = rules;
    }
    let mut content = json!({ "schema": schema });
    if let Some(example) = example {
        content["example"] = example;
    }
    // A required parameter, or one of several alternatives.
    let is_needed = !required.is_empty() || is_one_needed;
    json!({ "required": is_needed, "content": { "application/json": content } })
}
