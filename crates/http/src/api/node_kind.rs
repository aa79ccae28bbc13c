//! The lifetime of a new node, and its value in JSON.

use crate::edge::problem::Problem;
use base64::{Engine, engine::general_purpose::STANDARD};
use fairhold_state::{command::Lifetime, value::Value};
use fairhold_types::{
    Code, Path, SessionId,
    call::NodeTtl,
    duration,
    limits::{NODE_TTL_MAX, NODE_TTL_MIN, VALUE_BYTES_MAX},
    txn::Span,
};
use std::time::Duration;

/// The longest number at the end of a sequential name: it follows 2147483647.
const WIDEST_NUMBER: &str = "-2147483648";

/// The lifetime given by the fields of a transaction's operation.
pub(crate) fn from_fields(session: Option<SessionId>, ttl: Option<Span>, container: bool) -> Result<Lifetime, Problem> {
    let span = |span| match span {
        Span::Seconds(seconds) => Some(Duration::from_secs(seconds)),
        Span::Text(text) => duration::parse(&text).ok(),
    };
    let ttl = match ttl.map(span) {
        None => None,
        Some(ttl) => Some(ttl.and_then(|ttl| NodeTtl::try_from(ttl).ok()).ok_or_else(|| {
            let (min, max) = (duration::format(NODE_TTL_MIN), duration::format(NODE_TTL_MAX));
            Problem::bad_request(format!("the field \"ttl\": expected a duration from {min} to {max}"))
        })?),
    };
    of(session, ttl, container)
}

/// The lifetime given by `session`, `ttl` and `container`. At most one of them is allowed.
pub(crate) fn of(session: Option<SessionId>, ttl: Option<NodeTtl>, container: bool) -> Result<Lifetime, Problem> {
    match (session, ttl, container) {
        (None, None, false) => Ok(Lifetime::Persistent),
        (Some(session), None, false) => Ok(Lifetime::Ephemeral { session }),
        (None, Some(ttl), false) => Ok(Lifetime::Ttl { ttl_ms: ttl.millis() }),
        (None, None, true) => Ok(Lifetime::Container),
        (_, _, _) => Err(Problem::bad_request(
            "pass at most one of session, ttl and container: a node lives as long as a session, until it has been idle for its \
             ttl, or until its last child is gone",
        )),
    }
}

/// The value of a node in JSON: text, or base64 if it is not UTF-8.
pub(crate) fn value(text: Option<String>, base64: Option<String>) -> Result<Value, Problem> {
    let bytes = match (text, base64) {
        (None, None) => Vec::new(),
        (Some(text), None) => text.into_bytes(),
        (None, Some(text)) => STANDARD.decode(text).map_err(|error| {
            Problem::bad_request(format!("the field \"value_base64\": expected base64 with padding ({error})"))
        })?,
        (Some(_), Some(_)) => {
            return Err(Problem::bad_request("pass either \"value\" or \"value_base64\", not both"));
        }
    };
    if bytes.len() > VALUE_BYTES_MAX {
        return Err(Problem::new(Code::TooLarge, format!("a value can have at most {VALUE_BYTES_MAX} bytes")));
    }
    Ok(Value::from(bytes))
}

/// The prefix of a sequential name: one level, with room for the number.
pub(crate) fn sequential_prefix(parent: &Path, name: Option<String>) -> Result<String, Problem> {
    let name = name.unwrap_or_default();
    if name.contains('/') {
        return Err(Problem::bad_request("the parameter \"name\": expected one level without a /"));
    }
    match Path::parse(&format!("{}{name}{WIDEST_NUMBER}", parent.prefix_below())) {
        Ok(_) => Ok(name),
        Err(error) => Err(Problem::bad_request(format!("the path with \"name\" and its number: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::limits::PATH_BYTES_MAX;

    #[test]
    fn a_node_has_one_lifetime() {
        let session = SessionId(7);
        let ttl = || Some(Span::Text("1500ms".to_owned()));
        assert_eq!(from_fields(None, None, false).unwrap(), Lifetime::Persistent);
        assert_eq!(from_fields(Some(session), None, false).unwrap(), Lifetime::Ephemeral { session });
        assert_eq!(from_fields(None, ttl(), false).unwrap(), Lifetime::Ttl { ttl_ms: 1_500 });
        assert_eq!(from_fields(None, Some(Span::Seconds(2)), false).unwrap(), Lifetime::Ttl { ttl_ms: 2_000 });
        assert_eq!(from_fields(None, None, true).unwrap(), Lifetime::Container);
        assert!(from_fields(Some(session), ttl(), false).is_err());
        assert!(from_fields(Some(session), None, true).is_err());
        assert!(from_fields(None, ttl(), true).is_err());
    }

    #[test]
    fn a_ttl_has_zookeepers_bounds() {
        let ttl = |millis: u64| from_fields(None, Some(Span::Text(format!("{millis}ms"))), false);
        assert!(ttl(0).is_err() && ttl(1).is_ok() && ttl((1 << 40) - 1).is_ok() && ttl(1 << 40).is_err());
        assert!(from_fields(None, Some(Span::Text("soon".to_owned())), false).is_err());
    }

    #[test]
    fn a_value_is_a_text_or_base64_and_not_too_large() {
        let bytes = |text: Option<&str>, base64: Option<&str>| {
            value(text.map(str::to_owned), base64.map(str::to_owned)).map(|value| value.to_vec())
        };
        assert_eq!(bytes(None, None).unwrap(), b"");
        assert_eq!(bytes(Some("é"), None).unwrap(), "é".as_bytes());
        assert_eq!(bytes(None, Some("AP8=")).unwrap(), [0, 255]);
        assert!(bytes(None, Some("AP8")).is_err() && bytes(Some(""), Some("")).is_err());
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        assert!(bytes(Some(&long[1..]), None).is_ok() && bytes(Some(&long), None).is_err());
    }

    #[test]
    fn a_sequential_name_leaves_room_for_its_number() {
        let parent = Path::parse("/jobs").unwrap();
        let prefix = |name: &str| sequential_prefix(&parent, Some(name.to_owned()));
        assert_eq!((prefix("").unwrap(), prefix(".").unwrap()), (String::new(), ".".to_owned()));
        assert!(prefix("a/b").is_err() && prefix("a\n").is_err());
        let max = PATH_BYTES_MAX - "/jobs/".len() - WIDEST_NUMBER.len();
        assert!(prefix(&"x".repeat(max)).is_ok() && prefix(&"x".repeat(max + 1)).is_err());
        assert!(sequential_prefix(&Path::parse(&"/x".repeat(32)).unwrap(), None).is_err(), "33 levels");
    }
}
