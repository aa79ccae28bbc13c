//! The fields of a JSON body.

use super::value::ParamValue;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// The fields of a JSON object in order. Repeated names are kept, so that they can be refused.
#[derive(Debug, Default)]
pub(crate) struct BodyFields<'a>(pub(super) Vec<(Cow<'a, str>, ParamValue<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for BodyFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = BodyFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BodyFields<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some((Name(name), value)) = map.next_entry()? {
            fields.push((name, value));
        }
        Ok(BodyFields(fields))
    }
}

/// The name of a field. It borrows a name without escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
