//! Adapts the schemas of answers: an optional field is never `null`, and integers have bounds.

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
    for (_, property) in optional {
        if let Some(sorts) = property.get_mut("type").and_then(Value::as_array_mut) {
            sorts.retain(|sort| sort != "null");
            if let [only] = sorts.as_slice() {
                property["type"] = only.clone();
            }
        }
        if let Some(Value::Array(mut choices)) = property.as_object_mut().and_then(|fields| fields.remove("anyOf")) {
            choices.retain(|choice| choice["type"] != "null");
            match choices.as_slice() {
                [only] => property["$ref"] = only["$ref"].clone(),
                _ => property["anyOf"] = choices.into(),
            }
        }
    }
}

/// Gives every integer the bounds of its type.
pub(super) fn bound_integers(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(bound_integers);
            let bounds = match fields.get("format").and_then(Value::as_str) {
                Some("int32") => Some((json!(i32::MIN), json!(i32::MAX))),
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
