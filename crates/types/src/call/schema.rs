//! JSON Schemas of the bounded values.

use super::{
    address::{NodeUrl, PeerAddress},
    bounded::{
        BoundedCount, BoundedDuration, BoundedInteger, BoundedList, BoundedText, LockList, MetaPairs, PlainText, SignedInteger,
    },
};
use crate::{
    dto::Want,
    limits,
    pattern::{NODE_URL, PEER_ADDRESS, WORDS},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::{borrow::Cow, time::Duration};

macro_rules! inline_schema {
    ($([$($generics:tt)*] $type:ty: |$generator:ident| $schema:expr;)*) => {
        $(
            impl<$($generics)*> JsonSchema for $type {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    std::any::type_name::<Self>().into()
                }

                fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                    $schema
                }
            }
        )*
    };
}

inline_schema! {
    [const MIN: u64, const MAX: u64] BoundedDuration<MIN, MAX>: |_generator| json_schema!({
        "type": ["string", "number"],
        "minimum": Duration::from_millis(MIN).as_secs_f64(),
        "maximum": Duration::from_millis(MAX).as_secs_f64(),
    });
    [const MIN: u64, const MAX: u64] BoundedInteger<MIN, MAX>: |_generator| json_schema!({
        "type": "integer", "minimum": MIN, "maximum": MAX,
    });
    [const MIN: u32, const MAX: u32] BoundedCount<MIN, MAX>: |_generator| json_schema!({
        "type": "integer", "minimum": MIN, "maximum": MAX,
    });
    [const MIN: i32, const MAX: i32] SignedInteger<MIN, MAX>: |_generator| json_schema!({
        "type": "integer", "minimum": MIN, "maximum": MAX,
    });
    [const MAX: usize] BoundedText<MAX>: |_generator| json_schema!({
        "type": "string", "maxLength": MAX, "x-max-bytes": MAX,
    });
    [const MAX: usize] PlainText<MAX>: |_generator| json_schema!({
        "type": "string", "maxLength": MAX, "x-max-bytes": MAX, "pattern": WORDS,
    });
    [] NodeUrl: |_generator| json_schema!({
        "type": "string", "maxLength": limits::MEMBER_ADDRESS_BYTES_MAX, "pattern": NODE_URL,
    });
    [] PeerAddress: |_generator| json_schema!({
        "type": "string", "maxLength": limits::MEMBER_ADDRESS_BYTES_MAX, "pattern": PEER_ADDRESS,
    });
    [] MetaPairs: |_generator| json_schema!({
        "type": "object",
        "maxProperties": limits::META_PAIRS_MAX,
        "propertyNames": { "pattern": WORDS },
        "additionalProperties": { "type": "string", "maxLength": limits::META_BYTES_MAX, "pattern": WORDS },
        "x-max-bytes": limits::META_BYTES_MAX,
    });
    [T: JsonSchema, const MAX: usize] BoundedList<T, MAX>: |generator| json_schema!({
        "type": "array", "items": generator.subschema_for::<T>(), "maxItems": MAX,
    });
    [] LockList: |generator| json_schema!({
        "type": "array",
        "items": generator.subschema_for::<Want>(),
        "minItems": 1,
        "maxItems": limits::LOCKS_PER_ACQUIRE_MAX,
    });
}
