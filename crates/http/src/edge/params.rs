//! A request's parameters, read into its type from the query and, for a POST, from a JSON body. An unknown parameter is
//! refused by name.
//!
//! The types are those of `fairhold_types::call`, which deserialize themselves. A value in the query is text. It
//! becomes a number, a flag or an object if its type requires one.

mod body;
mod refusal;
mod text;
mod value;

pub(crate) use body::BodyFields;
pub(crate) use refusal::expected;
pub(crate) use text::digits;

use crate::edge::{json_fault, problem::Problem};
use refusal::Refusal;
use serde::{
    Deserializer,
    de::{DeserializeOwned, DeserializeSeed, MapAccess, Visitor, value::StrDeserializer},
    forward_to_deserialize_any,
};
use std::{borrow::Cow, str::Split, vec};
use text::{decode_form, percent_decoded};
use value::ParamValue;

/// The parameters of a request, parsed.
#[derive(Debug)]
pub(crate) struct ParsedParams<T> {
    /// The parameters themselves.
    pub(crate) params: T,
    /// Whether the caller gave `wait`: such requests are measured apart.
    pub(crate) has_wait: bool,
}

/// Reads a query and a body. An empty body has no parameters. serde calls back into `Pairs` for each name and value.
pub(crate) fn parse<T: DeserializeOwned>(query: Option<&str>, body: &[u8]) -> Result<ParsedParams<T>, Problem> {
    let fields = if body.is_empty() {
        BodyFields::default()
    } else {
        let problem = |error| Problem::bad_request(format!("the body must be one JSON object: {}", json_fault::describe(&error)));
        serde_json::from_slice(body).map_err(problem)?
    };
    let mut pairs = Pairs::new(query.unwrap_or_default(), fields);
    let params = T::deserialize(&mut pairs)?;
    Ok(ParsedParams { params, has_wait: pairs.has_wait })
}

/// Reads the fields of an object.
pub(crate) fn read_fields<T: DeserializeOwned>(fields: BodyFields<'_>) -> Result<T, Problem> {
    Ok(T::deserialize(&mut Pairs::new("", fields))?)
}

/// Decodes `%` and two digits to a byte. Refuses half an escape, and bytes that are not UTF-8.
pub(crate) fn decode(text: &str) -> Result<Cow<'_, str>, Problem> {
    percent_decoded(text).map_err(Problem::bad_request)
}

/// Names and values in order: first those of the query, then those of the body.
struct Pairs<'a> {
    query: Split<'a, char>,
    body: vec::IntoIter<(Cow<'a, str>, ParamValue<'a>)>,
    /// The pair whose name was just read.
    current: Option<(Cow<'a, str>, ParamValue<'a>)>,
    has_wait: bool,
}

impl<'a> Pairs<'a> {
    fn new(query: &'a str, BodyFields(fields): BodyFields<'a>) -> Pairs<'a> {
        Pairs { query: query.split('&'), body: fields.into_iter(), current: None, has_wait: false }
    }

    fn next(&mut self) -> Result<Option<(Cow<'a, str>, ParamValue<'a>)>, &'static str> {
        let Some(pair) = self.query.find(|pair| !pair.is_empty()) else { return Ok(self.body.next()) };
        Ok(Some(match pair.split_once('=') {
            Some((name, value)) => (decode_form(name)?, ParamValue::Query(decode_form(value)?)),
            None => (decode_form(pair)?, ParamValue::Bare),
        }))
    }
}

impl<'de> Deserializer<'de> for &mut Pairs<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Pairs<'de> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        self.current = self.next().map_err(Refusal::complete)?;
        let Some((name, _)) = &self.current else { return Ok(None) };
        self.has_wait |= name == "wait";
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        // serde requests a value only after its name.
        let (name, value) = self.current.take().unwrap_or((Cow::Borrowed(""), ParamValue::Null));
        seed.deserialize(value).map_err(|refusal| refusal.of(&name))
    }
}

#[cfg(test)]
mod tests;
