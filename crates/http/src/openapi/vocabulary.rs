//! Schemas that several areas use: names and paths.

use fairhold_types::{limits::LOCK_NAME_BYTES_MAX, pattern};
use serde_json::{Value, json};

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

pub(super) fn levels(levels_max: usize) -> String {
    let level = "[^/\\u0000-\\u001f\\u007f-\\u009f]+";
    format!("(?!(.*/)?\\.{{1,2}}(/|$)){level}(/{level}){{0,{}}}", levels_max - 1)
}
