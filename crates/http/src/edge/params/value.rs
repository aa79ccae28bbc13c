//! The value of one parameter. It deserializes as its type requires.

use super::{refusal::Refusal, text::digits};
use crate::edge::json_fault;
use serde::{
    Deserialize, Deserializer,
    de::{
        self, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
        value::{MapAccessDeserializer, MapDeserializer, SeqAccessDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Value;
use std::{borrow::Cow, fmt};

/// The value of one parameter.
#[derive(Debug)]
pub(super) enum ParamValue<'a> {
    /// No value: a bare name in the query.
    Bare,
    /// A value in the query.
    Query(Cow<'a, str>),
    /// A string in the body.
    Text(Cow<'a, str>),
    /// `null` in the body: the parameter is not given.
    Null,
    /// Any other value in the body.
    Json(Value),
}

fn refused(error: serde_json::Error) -> Refusal {
    Refusal::custom(json_fault::describe(&error))
}

fn visit_text<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value, Refusal> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

fn visit_json<'de, V: Visitor<'de>>(json: Value, visitor: V) -> Result<V::Value, Refusal> {
    match json {
        Value::Null => visitor.visit_unit(),
        Value::Bool(value) => visitor.visit_bool(value),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), _, _) => visitor.visit_u64(number),
            (None, Some(number), _) => visitor.visit_i64(number),
            (None, None, Some(number)) => visitor.visit_f64(number),
            (None, None, None) => Err(Refusal::invalid_type(Unexpected::Other("a number"), &visitor)),
        },
        Value::String(text) => visitor.visit_string(text),
        Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(ParamValue::from))),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, ParamValue::from(value)));
            visitor.visit_map(MapDeserializer::new(fields))
        }
    }
}

impl<'de> Deserializer<'de> for ParamValue<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self {
            ParamValue::Bare | ParamValue::Null => visitor.visit_unit(),
            ParamValue::Query(text) | ParamValue::Text(text) => visit_text(text, visitor),
            ParamValue::Json(json) => visit_json(json, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        if matches!(self, ParamValue::Null) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    /// A flag is a bare name, or has the value `true` or `false`.
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self {
            ParamValue::Bare => visitor.visit_bool(true),
            ParamValue::Null => visitor.visit_bool(false),
            ParamValue::Query(text) => match &*text {
                "true" => visitor.visit_bool(true),
                "false" => visitor.visit_bool(false),
                _ => Err(Refusal::invalid_value(Unexpected::Str(&text), &visitor)),
            },
            value @ (ParamValue::Text(_) | ParamValue::Json(_)) => value.deserialize_any(visitor),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let ParamValue::Query(text) = self else { return self.deserialize_any(visitor) };
        match digits(&text) {
            Some(number) => visitor.visit_u64(number),
            None => Err(Refusal::invalid_value(Unexpected::Str(&text), &visitor)),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let ParamValue::Query(text) = self else { return self.deserialize_any(visitor) };
        match text.parse() {
            Ok(number) => visitor.visit_i64(number),
            Err(_) => Err(Refusal::invalid_value(Unexpected::Str(&text), &visitor)),
        }
    }

    /// An object in a query is JSON.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let ParamValue::Query(text) = self else { return self.deserialize_any(visitor) };
        visit_json(serde_json::from_str(&text).map_err(refused)?, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        match self {
            ParamValue::Query(text) | ParamValue::Text(text) => visitor.visit_enum((&*text).into_deserializer()),
            ParamValue::Bare | ParamValue::Null | ParamValue::Json(_) => Err(Refusal::unknown_variant("", known)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let ParamValue::Json(json) = self else { return self.deserialize_any(visitor) };
        // The object's fields have their own names, which are not names of parameters.
        json.deserialize_struct(name, fields, visitor).map_err(refused)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct identifier
        ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Refusal> for ParamValue<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl From<Value> for ParamValue<'_> {
    fn from(json: Value) -> Self {
        match json {
            Value::Null => ParamValue::Null,
            Value::String(text) => ParamValue::Text(text.into()),
            json @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => ParamValue::Json(json),
        }
    }
}

/// Reads JSON, and borrows a string without escapes.
impl<'de> Deserialize<'de> for ParamValue<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = ParamValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<ParamValue<'de>, E> {
        Ok(ParamValue::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<ParamValue<'de>, E> {
        Ok(ParamValue::Json(value.into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<ParamValue<'de>, E> {
        Ok(ParamValue::Json(number.into()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<ParamValue<'de>, E> {
        Ok(ParamValue::Json(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<ParamValue<'de>, E> {
        Ok(ParamValue::Json(number.into()))
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<ParamValue<'de>, E> {
        Ok(ParamValue::Text(text.into()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ParamValue<'de>, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<ParamValue<'de>, E> {
        Ok(ParamValue::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<ParamValue<'de>, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(seq)).map(ParamValue::Json)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ParamValue<'de>, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(ParamValue::Json)
    }
}
