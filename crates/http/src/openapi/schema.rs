//! Adapts schemas: an optional field is never `null`, and integers have bounds.

use serde_json::{Value, json};

/// Answers omit unknown values, so an optional field is never `null`, except these: there `null` means that there is none.
const NULLABLE: [&str; 2] = ["current_token", "current_version"];

pub(super) fn omit_instead_of_null(schema: &mut Value) {
    let names = schema["required"].as_array().into_iter().flatten();
    let required: Vec<String> = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let optional = properties
        .iter_mut()
        .filter(|(name, _)| !required.iter().any(|known| known == *name) && !NULLABLE.contains(&name.as_str()));
    optional.for_each(|(_, property)| without_null(property));
}

/// Removes `null` from the types, values and choices of a schema.
pub(super) fn without_null(schema: &mut Value) {
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            schema["type"] = only.clone();
        }
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(mut choices)) = take(schema, "anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        match (choices.as_mut_slice(), schema.as_object_mut()) {
            // The field's own keywords take precedence over those of its type.
            ([Value::Object(only)], Some(fields)) => {
                for (key, value) in std::mem::take(only) {
                    fields.entry(key).or_insert(value);
                }
            }
            _ => schema["anyOf"] = choices.into(),
        }
    }
}

/// Removes a keyword.
pub(super) fn take(schema: &mut Value, key: &str) -> Option<Value> {
    schema.as_object_mut().and_then(|fields| fields.remove(key))
}

/// Gives every integer the bounds of its type.
pub(super) fn bound_integers(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(bound_integers);
            let bounds = match fields.get("format").and_then(Value::as_str) {
                Some("int32") => Some((json!(i32::MIN), json!(i32::MAX))),
                Some("int64") => Some((json!(i64::MIN), json!(i64::MAX))),
                Some("uint64") => Some((json!(0), json!(u64::MAX))),
                _ => None,
            };
            if let Some((min, max)) = bounds {
                fields.insert("minimum".to_owned(), min);
                fields.insert("maximum".to_owned(), max);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(bound_integers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
