//! JSON Schemas of the types with their own text form. The derived schemas are next to their types.

use crate::{GrantId, LockName, Path, SessionId, limits, pattern};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

macro_rules! text_schema {
    ($($type:ident: $schema:expr;)*) => {
        $(
            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($type).into()
                }

                fn schema_id() -> Cow<'static, str> {
                    concat!(module_path!(), "::", stringify!($type)).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    $schema
                }
            }
        )*
    };
}

text_schema! {
    SessionId: json_schema!({
        "type": "string",
        "description": "A session's secret id: 128 random bits. Keep it secret: with it, anyone can control the session.",
        "pattern": pattern::SESSION_ID,
        "examples": ["5f2b0c6e9d8a4b1f9c3e7a6d5b4c3d2e"]
    });
    GrantId: json_schema!({
        "type": "string",
        "description": "A grant's secret id, and the idempotency key of its acquire: a ULID or a UUIDv7, as the client wrote it.",
        "pattern": pattern::GRANT_ID,
        "examples": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"]
    });
    LockName: json_schema!({
        "type": "string",
        "description": "A lock's name, like `deploy` or `orders/42`; in a URL its slashes are written %2F.",
        "pattern": pattern::LOCK_NAME,
        "minLength": 1,
        "maxLength": limits::LOCK_NAME_BYTES_MAX,
        "x-max-bytes": limits::LOCK_NAME_BYTES_MAX,
        "examples": ["deploy", "orders/42"]
    });
    Path: json_schema!({
        "type": "string",
        "description": "A path of the tree, like `/jobs/nightly`; `/` is the root.",
        "pattern": pattern::PATH,
        "maxLength": limits::PATH_BYTES_MAX,
        "x-max-bytes": limits::PATH_BYTES_MAX,
        "examples": ["/jobs/nightly"]
    });
}
