//! A request's parameters: from the query and, for a POST, from a JSON body. Unknown ones are refused and named.

use crate::problem::Problem;
use fairhold_types::{
    Mode,
    dto::Meta,
    duration,
    limits::{META_BYTES_MAX, META_PAIRS_MAX},
    text::first_not_plain,
};
use percent_encoding::percent_decode;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::{borrow::Cow, fmt, ops::RangeInclusive, time::Duration};
use strsim::levenshtein;

/// The first whole number that JSON readers in other languages may not hold exactly.
const INTEGER_END: u64 = 1 << 53;
/// Two names are close when this many changes of a character make one out of the other.
const SUGGESTION_DISTANCE_MAX: usize = 2;
/// Longer names are not compared with the known ones, nor repeated in full.
const NAME_BYTES_MAX: usize = 64;

/// The parameters of one call.
#[derive(Debug)]
pub(crate) struct KnownParams {
    /// The parameters that this version supports.
    pub(crate) now: &'static [&'static str],
    /// Those of the contract that it does not do yet.
    pub(crate) later: &'static [&'static str],
}

/// The parameters of one request, each known and given once.
#[derive(Debug, Default)]
pub(crate) struct Params<'a>(Vec<(Cow<'a, str>, ParamValue<'a>)>);

#[derive(Debug)]
enum ParamValue<'a> {
    /// A bare name in the query.
    Bare,
    /// A value in the query.
    Text(Cow<'a, str>),
    /// A field of the body.
    Json(serde_json::Value),
}

impl<'a> Params<'a> {
    /// Takes the query and the body apart. An empty body is none.
    pub(crate) fn parse(query: Option<&'a str>, body: &[u8], known: &KnownParams) -> Result<Params<'a>, Problem> {
        let mut params = Params(Vec::new());
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name, ParamValue::Text(decode_form(value)?)),
                None => (pair, ParamValue::Bare),
            };
            params.add(decode_form(name)?, value, known)?;
        }
        if !body.is_empty() {
            let fields = serde_json::from_slice(body)
                .map_err(|error| Problem::bad_request(format!("the body must be one JSON object: {error}")))?;
            params.extend(fields, known)?;
        }
        Ok(params)
    }

    /// Those of an object that was read already.
    pub(crate) fn of(fields: BodyFields, known: &KnownParams) -> Result<Params<'static>, Problem> {
        let mut params = Params(Vec::with_capacity(fields.0.len()));
        params.extend(fields, known)?;
        Ok(params)
    }

    fn extend(&mut self, BodyFields(fields): BodyFields, known: &KnownParams) -> Result<(), Problem> {
        fields.into_iter().try_for_each(|(name, value)| self.add(Cow::Owned(name), ParamValue::Json(value), known))
    }

    fn add(&mut self, name: Cow<'a, str>, value: ParamValue<'a>, known: &KnownParams) -> Result<(), Problem> {
        if !known.now.contains(&&*name) {
            return Err(if known.later.contains(&&*name) {
                Problem::unsupported(&format!("the parameter \"{name}\""))
            } else {
                Problem::bad_request(unknown(&name, known.now))
            });
        }
        if self.0.iter().any(|(other, _)| *other == name) {
            return Err(Problem::bad_request(format!("the parameter \"{name}\" is given twice")));
        }
        self.0.push((name, value));
        Ok(())
    }

    /// Whether it was given, and not taken yet.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    fn take(&mut self, name: &str) -> Option<ParamValue<'a>> {
        let index = self.0.iter().position(|(known, _)| known == name)?;
        match self.0.swap_remove(index).1 {
            ParamValue::Json(serde_json::Value::Null) => None,
            value @ (ParamValue::Bare | ParamValue::Text(_) | ParamValue::Json(_)) => Some(value),
        }
    }

    /// A duration within these bounds.
    pub(crate) fn duration(&mut self, name: &str, range: RangeInclusive<Duration>) -> Result<Option<Duration>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let parsed = match &value {
            ParamValue::Bare => None,
            ParamValue::Text(text) => duration::parse(text).ok(),
            ParamValue::Json(serde_json::Value::String(text)) => duration::parse(text).ok(),
            ParamValue::Json(serde_json::Value::Number(number)) => seconds(number),
            ParamValue::Json(_) => None,
        };
        let Some(duration) = parsed else {
            return Err(expected(name, "a duration with a unit, like 30s, 250ms or 10m (a bare number means seconds)"));
        };
        if !range.contains(&duration) {
            let (least, most) = (duration::format(*range.start()), duration::format(*range.end()));
            return Err(expected(name, &format!("a duration from {least} to {most}")));
        }
        Ok(Some(duration))
    }

    /// A whole number within these bounds.
    pub(crate) fn integer(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let parsed = match &value {
            ParamValue::Bare => None,
            ParamValue::Text(text) => digits(text),
            ParamValue::Json(json) => json.as_u64(),
        };
        match parsed.filter(|number| range.contains(number) && *number < INTEGER_END) {
            Some(number) => Ok(Some(number)),
            None => {
                let most = (*range.end()).min(INTEGER_END - 1);
                Err(expected(name, &format!("a whole number from {} to {most}", range.start())))
            }
        }
    }

    /// The same as a 32-bit number.
    pub(crate) fn count(&mut self, name: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, Problem> {
        let number = self.integer(name, u64::from(*range.start())..=u64::from(*range.end()))?;
        // It is within the range, and the range within 32 bits.
        Ok(number.and_then(|number| u32::try_from(number).ok()))
    }

    /// A whole number that may be negative.
    pub(crate) fn signed(&mut self, name: &str) -> Result<Option<i32>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let parsed = match &value {
            ParamValue::Bare => None,
            ParamValue::Text(text) => text.parse().ok(),
            ParamValue::Json(json) => json.as_i64().and_then(|number| i32::try_from(number).ok()),
        };
        parsed.map(Some).ok_or_else(|| expected(name, &format!("a whole number from {} to {}", i32::MIN, i32::MAX)))
    }

    /// A flag: bare, `=true` or `=false`; not given is false.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        let Some(value) = self.take(name) else { return Ok(false) };
        let parsed = match &value {
            ParamValue::Bare => Some(true),
            ParamValue::Text(text) => match &**text {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            },
            ParamValue::Json(json) => json.as_bool(),
        };
        parsed.ok_or_else(|| expected(name, "true or false"))
    }

    /// A text of at most so many bytes.
    pub(crate) fn text(&mut self, name: &str, bytes_max: usize) -> Result<Option<String>, Problem> {
        let text = match self.take(name) {
            None => return Ok(None),
            Some(ParamValue::Text(text)) => text.into_owned(),
            Some(ParamValue::Json(serde_json::Value::String(text))) => text,
            Some(ParamValue::Bare | ParamValue::Json(_)) => return Err(expected(name, "a text")),
        };
        if text.len() > bytes_max {
            return Err(expected(name, &format!("a text of at most {bytes_max} bytes, not {}", text.len())));
        }
        Ok(Some(text))
    }

    /// A text for people, of at most so many bytes. Nothing in it can move a cursor or make it look like another.
    pub(crate) fn words(&mut self, name: &str, bytes_max: usize) -> Result<Option<String>, Problem> {
        let text = self.text(name, bytes_max)?;
        text.iter().try_for_each(|text| check_plain(name, text))?;
        Ok(text)
    }

    /// Something that reads itself from a text and says what it expects.
    pub(crate) fn parsed<T: std::str::FromStr<Err: fmt::Display>>(&mut self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name, usize::MAX)? else { return Ok(None) };
        text.parse().map(Some).map_err(|error| Problem::bad_request(format!("the parameter \"{name}\": {error}")))
    }

    /// A list of such.
    pub(crate) fn list<T: std::str::FromStr<Err: fmt::Display>>(&mut self, name: &str, max: usize) -> Result<Vec<T>, Problem> {
        let Some(ParamValue::Json(serde_json::Value::Array(items))) = self.take(name) else {
            return Err(expected(name, "a list of texts, in a JSON body"));
        };
        if items.len() > max {
            return Err(expected(name, &format!("a list of at most {max} texts, not {}", items.len())));
        }
        let one = |item: &serde_json::Value| {
            let text = item.as_str().ok_or_else(|| expected(name, "a list of texts"))?;
            text.parse().map_err(|error| Problem::bad_request(format!("the parameter \"{name}\": {error}")))
        };
        items.iter().map(one).collect()
    }

    /// A list of objects, each of which must have the fields that its type has, and no others.
    pub(crate) fn objects<T: serde::de::DeserializeOwned>(&mut self, name: &str, max: usize) -> Result<Vec<T>, Problem> {
        let Some(ParamValue::Json(serde_json::Value::Array(items))) = self.take(name) else {
            return Err(expected(name, "a list of objects, in a JSON body"));
        };
        if items.len() > max {
            return Err(expected(name, &format!("a list of at most {max}, not {}", items.len())));
        }
        let one = |item: serde_json::Value| {
            serde_json::from_value(item).map_err(|error| Problem::bad_request(format!("the parameter \"{name}\": {error}")))
        };
        items.into_iter().map(one).collect()
    }

    /// `exclusive` or `shared`.
    pub(crate) fn mode(&mut self, name: &str) -> Result<Mode, Problem> {
        match self.text(name, usize::MAX)?.as_deref() {
            None | Some("exclusive") => Ok(Mode::Exclusive),
            Some("shared") => Ok(Mode::Shared),
            Some(_) => Err(expected(name, "exclusive or shared")),
        }
    }

    /// Pairs of text; in a query they are one JSON object.
    pub(crate) fn meta(&mut self, name: &str) -> Result<Meta, Problem> {
        let json = match self.take(name) {
            None => return Ok(Meta::new()),
            Some(ParamValue::Json(json)) => json,
            Some(ParamValue::Text(text)) => serde_json::from_str(&text).unwrap_or(serde_json::Value::Null),
            Some(ParamValue::Bare) => serde_json::Value::Null,
        };
        let meta: Meta = serde_json::from_value(json).map_err(|_| expected(name, "a JSON object whose values are all texts"))?;
        let bytes: usize = meta.iter().map(|(key, value)| key.len() + value.len()).sum();
        if meta.len() > META_PAIRS_MAX || bytes > META_BYTES_MAX {
            return Err(expected(name, &format!("at most {META_PAIRS_MAX} pairs and {META_BYTES_MAX} bytes together")));
        }
        meta.iter().flat_map(|(key, value)| [key, value]).try_for_each(|text| check_plain(name, text))?;
        Ok(meta)
    }
}

fn check_plain(name: &str, text: &str) -> Result<(), Problem> {
    match first_not_plain(text) {
        None => Ok(()),
        Some(c) => {
            let what = "a text without control characters, and without characters that are invisible or change its direction,";
            Err(expected(name, &format!("{what} not one with U+{:04X}", u32::from(c))))
        }
    }
}

/// Says what a parameter should be. What it is stays unsaid: it may be a secret.
pub(crate) fn expected(name: &str, what: &str) -> Problem {
    Problem::bad_request(format!("the parameter \"{name}\": expected {what}"))
}

/// The digits of a whole number, with neither a sign nor spaces.
pub(crate) fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn seconds(number: &serde_json::Number) -> Option<Duration> {
    match number.as_u64() {
        Some(whole) => Some(Duration::from_secs(whole)),
        None => number.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    if name.len() > NAME_BYTES_MAX {
        let mut end = NAME_BYTES_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        return format!("there is no parameter \"{}…\" here", &name[..end]);
    }
    let close = known.iter().map(|other| (levenshtein(name, other), other)).min();
    match close {
        Some((distance, other)) if distance <= SUGGESTION_DISTANCE_MAX && distance < other.len() => {
            format!("there is no parameter \"{name}\" here; did you mean \"{other}\"?")
        }
        Some(_) => format!("there is no parameter \"{name}\" here; the parameters are: {}", known.join(", ")),
        None => format!("there is no parameter \"{name}\" here; this call has no parameters"),
    }
}

/// Decodes a name or value of a query: `+` is a space, `%` and two digits are a byte.
fn decode_form(text: &str) -> Result<Cow<'_, str>, Problem> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return decode(&spaced).map(|decoded| Cow::Owned(decoded.into_owned()));
    }
    decode(text)
}

/// Decodes `%` and two digits to a byte, and refuses what is broken: half an escape, and bytes that are not UTF-8.
pub(crate) fn decode(text: &str) -> Result<Cow<'_, str>, Problem> {
    let bytes = text.as_bytes();
    let broken = |(index, byte): (usize, &u8)| {
        *byte == b'%' && !bytes.get(index + 1..index + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if bytes.iter().enumerate().any(broken) {
        return Err(Problem::bad_request("the URL is not valid: two hexadecimal digits must follow % (write % itself as %25)"));
    }
    percent_decode(bytes).decode_utf8().map_err(|_| Problem::bad_request("the URL is not valid: its bytes are not UTF-8"))
}

/// The fields of a JSON object in order, repeated names included, so that they can be refused.
#[derive(Debug)]
pub(crate) struct BodyFields(Vec<(String, serde_json::Value)>);

impl<'de> Deserialize<'de> for BodyFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = BodyFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BodyFields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(BodyFields(fields))
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

#[cfg(test)]
mod tests;
