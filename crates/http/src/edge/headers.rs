//! Reads the headers of requests into types.

use crate::{
    edge::names::lock_name,
    edge::params::{decode, digits},
    edge::problem::Problem,
};
use fairhold_node::api::{Fence, Precondition};
use fairhold_types::{
    FencingToken, GrantId, Path, Revision, duration,
    limits::{REQUEST_ID_BYTES_MAX, TIMEOUT_DEFAULT, TIMEOUT_MAX},
    trace_context::{ParseTraceParentError, TRACEPARENT, TraceParent},
};
use http::{HeaderMap, HeaderName, header};
use std::time::Duration;

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const CLUSTER: HeaderName = HeaderName::from_static("fairhold-cluster");
pub(crate) const REVISION: HeaderName = HeaderName::from_static("fairhold-revision");
pub(crate) const LEADER: HeaderName = HeaderName::from_static("fairhold-leader");
/// By it a client notices that the members have changed. Only few answers have it, so that the others cost no more.
pub(crate) const MEMBERS: HeaderName = HeaderName::from_static("fairhold-members");
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("fairhold-request-id");
pub(crate) const ROUTE: HeaderName = HeaderName::from_static("fairhold-route");
const TIMEOUT: HeaderName = HeaderName::from_static("fairhold-timeout");
const MIN_REVISION: HeaderName = HeaderName::from_static("fairhold-min-revision");
const FENCE: HeaderName = HeaderName::from_static("fairhold-fence");
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The id of the last event that a browser received before its connection broke.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The maximum length of a program name from `User-Agent`.
const PROGRAM_BYTES_MAX: usize = 64;

/// The value of a header that may be given only once.
pub(crate) fn text(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::bad_request(format!("the header {name} is given twice")));
    }
    let text = value.to_str().map_err(|_| Problem::bad_request(format!("the header {name} must be plain ASCII text")))?;
    Ok(Some(text.trim()))
}

/// The revision of the last event that a browser received before its connection broke.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<Revision>, Problem> {
    let Some(text) = text(headers, LAST_EVENT_ID)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    let revision = digits(text).filter(|number| *number < u64::MAX).map(Revision);
    revision.map(Some).ok_or_else(|| Problem::bad_request("the header Last-Event-ID: expected a revision"))
}

/// How long the server may work on the request; `wait` does not count.
pub(crate) fn timeout(headers: &HeaderMap) -> Result<Duration, Problem> {
    let Some(text) = text(headers, TIMEOUT)? else { return Ok(TIMEOUT_DEFAULT) };
    match duration::parse(text) {
        Ok(timeout) if !timeout.is_zero() && timeout <= TIMEOUT_MAX => Ok(timeout),
        Ok(_) | Err(_) => {
            Err(Problem::bad_request("the header Fairhold-Timeout: expected a duration over 0s and up to 600s, like 2s"))
        }
    }
}

/// The key that makes a request safe to repeat.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<GrantId>, Problem> {
    let Some(text) = text(headers, IDEMPOTENCY_KEY)? else { return Ok(None) };
    text.parse().map(Some).map_err(|error| Problem::bad_request(format!("the header Idempotency-Key: {error}")))
}

/// The revision that a local read must reflect.
pub(crate) fn min_revision(headers: &HeaderMap) -> Result<Option<Revision>, Problem> {
    let Some(text) = text(headers, MIN_REVISION)? else { return Ok(None) };
    let revision = digits(text).ok_or_else(|| Problem::bad_request("the header Fairhold-Min-Revision: expected a revision"))?;
    Ok(Some(Revision(revision)))
}

/// Whether the caller prefers an immediate answer while its grant still waits.
pub(crate) fn respond_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|preference| preference.trim().eq_ignore_ascii_case("respond-async"))
}

/// `Fairhold-Fence: deploy=42`, or `deploy=42;grant=ID`; the lock's name is encoded as in a URL.
pub(crate) fn fence(headers: &HeaderMap) -> Result<Option<Fence>, Problem> {
    let expected = || {
        Problem::bad_request(
            "the header Fairhold-Fence: expected LOCK=TOKEN or LOCK=TOKEN;grant=ID, with % escapes in LOCK as in a URL",
        )
    };
    let Some(text) = text(headers, FENCE)? else { return Ok(None) };
    let (check, grant) = match text.rsplit_once(";grant=") {
        Some((check, grant)) => {
            let grant = grant.trim().parse();
            (check, Some(grant.map_err(|error| Problem::bad_request(format!("the header Fairhold-Fence: grant: {error}")))?))
        }
        None => (text, None),
    };
    let (name, token) = check.rsplit_once('=').ok_or_else(expected)?;
    let token = digits(token.trim()).map(FencingToken).ok_or_else(expected)?;
    Ok(Some(Fence { lock: lock_name(&decode(name.trim())?)?, token, grant }))
}

/// The condition of a write, from `If-Match` and `If-None-Match`.
pub(crate) fn precondition(headers: &HeaderMap, path: &Path) -> Result<Option<Precondition>, Problem> {
    match (text(headers, header::IF_MATCH)?, text(headers, header::IF_NONE_MATCH)?) {
        (None, None) => Ok(None),
        (Some("*"), None) => Ok(Some(Precondition::Exists(path.clone()))),
        (Some(tag), None) => {
            let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|tag| tag.parse().ok());
            let problem = || Problem::bad_request("the header If-Match: expected one version in quotes, like \"17\", or *");
            version.map(|version| Some(Precondition::Version(path.clone(), version))).ok_or_else(problem)
        }
        (None, Some("*")) => Ok(Some(Precondition::Absent(path.clone()))),
        (None, Some(_)) => Err(Problem::bad_request("the header If-None-Match: a write takes only *")),
        (Some(_), Some(_)) => Err(Problem::bad_request("pass either If-Match or If-None-Match, not both")),
    }
}

/// Whether the caller already has this version.
pub(crate) fn has_version(headers: &HeaderMap, version: i32) -> Result<bool, Problem> {
    let Some(tags) = text(headers, header::IF_NONE_MATCH)? else { return Ok(false) };
    let same = |tag: &str| {
        let tag = tag.trim();
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        let tag = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        tag.and_then(|tag| tag.parse().ok()) == Some(version)
    };
    Ok(tags == "*" || tags.split(',').any(same))
}

/// The client's program name, the first word of its `User-Agent`: `curl` of `curl/8.5.0`.
pub(crate) fn program(headers: &HeaderMap) -> &str {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let program = agent.split(['/', ' ', '\t', '(', ';', ',']).next().unwrap_or_default();
    if program.is_empty() || program.len() > PROGRAM_BYTES_MAX { "client" } else { program }
}

/// The caller's span, if the request has the header `traceparent`. Two such headers are none.
pub(crate) fn trace_parent(headers: &HeaderMap) -> Option<Result<TraceParent, ParseTraceParentError>> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return Some(Err(ParseTraceParentError));
    }
    Some(value.to_str().map_err(|_| ParseTraceParentError).and_then(str::parse))
}

/// The caller's own request id, if it is safe to log.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&http::HeaderValue> {
    let value = headers.get(REQUEST_ID)?;
    let bytes = value.as_bytes();
    let sane = !bytes.is_empty() && bytes.len() <= REQUEST_ID_BYTES_MAX && bytes.iter().all(u8::is_ascii_graphic);
    sane.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const KEY: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_fence_names_a_lock_a_token_and_optionally_a_grant() {
        for (text, lock, token, grant) in [
            ("deploy=42", "deploy", 42, false),
            ("orders/42=7", "orders/42", 7, false),
            ("orders%2F42=7", "orders/42", 7, false),
            ("a=b=7", "a=b", 7, false),
            ("caf%C3%A9=7", "café", 7, false),
            ("deploy=42;grant=01ARZ3NDEKTSV4RRFFQ69G5FAV", "deploy", 42, true),
        ] {
            let fence = fence(&headers(&[("fairhold-fence", text)])).unwrap().unwrap();
            assert_eq!((fence.lock.as_str(), fence.token.0, fence.grant.is_some()), (lock, token, grant), "{text}");
        }
        for text in ["deploy", "deploy=", "=42", "deploy=-1", "deploy=x", "deploy=42;grant=7", "a//b=1", "a%2=1"] {
            assert!(fence(&headers(&[("fairhold-fence", text)])).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn a_write_may_require_one_version_or_none() {
        let path = Path::parse("/a").unwrap();
        let wanted = |pairs: &[(&'static str, &str)]| precondition(&headers(pairs), &path);
        assert_eq!(wanted(&[]).unwrap(), None);
        assert_eq!(wanted(&[("if-match", "\"17\"")]).unwrap(), Some(Precondition::Version(path.clone(), 17)));
        assert_eq!(wanted(&[("if-match", "*")]).unwrap(), Some(Precondition::Exists(path.clone())));
        assert_eq!(wanted(&[("if-none-match", "*")]).unwrap(), Some(Precondition::Absent(path.clone())));
        for wrong in [
            &[("if-match", "17")][..],
            &[("if-match", "W/\"17\"")],
            &[("if-match", "\"1\", \"2\"")],
            &[("if-none-match", "\"17\"")],
            &[("if-match", "\"1\""), ("if-none-match", "*")],
        ] {
            assert!(wanted(wrong).is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn a_version_that_the_caller_already_has_is_detected() {
        for (tags, has) in
            [("\"17\"", true), ("W/\"17\"", true), ("\"1\", \"17\"", true), ("*", true), ("\"16\"", false), ("17", false)]
        {
            assert_eq!(has_version(&headers(&[("if-none-match", tags)]), 17).unwrap(), has, "{tags}");
        }
    }

    #[test]
    fn the_timeout_has_bounds() {
        assert_eq!(timeout(&headers(&[])).unwrap(), Duration::from_secs(10));
        assert_eq!(timeout(&headers(&[("fairhold-timeout", "250ms")])).unwrap(), Duration::from_millis(250));
        assert_eq!(timeout(&headers(&[("fairhold-timeout", "10m")])).unwrap(), Duration::from_secs(600));
        for wrong in ["0", "601s", "soon", "-1s", ""] {
            assert!(timeout(&headers(&[("fairhold-timeout", wrong)])).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_key_is_given_once_and_in_a_known_format() {
        assert!(idempotency_key(&headers(&[])).unwrap().is_none());
        assert_eq!(idempotency_key(&headers(&[("idempotency-key", KEY)])).unwrap().unwrap().to_string(), KEY);
        assert!(idempotency_key(&headers(&[("idempotency-key", "mine")])).is_err());
        assert!(idempotency_key(&headers(&[("idempotency-key", KEY), ("idempotency-key", KEY)])).is_err());
    }

    #[test]
    fn respond_async_may_be_one_of_several_preferences() {
        for (prefer, wanted) in [("respond-async", true), ("wait=10, Respond-Async", true), ("respond-asynchronously", false)] {
            assert_eq!(respond_async(&headers(&[("prefer", prefer)])), wanted, "{prefer}");
        }
        assert!(!respond_async(&headers(&[])));
    }

    #[test]
    fn a_request_is_part_of_one_trace_at_most() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace_parent(&headers(&[])), None);
        assert_eq!(trace_parent(&headers(&[("traceparent", valid)])), Some(Ok(valid.parse().unwrap())));
        let long = "0".repeat(10 * 1024);
        for wrong in [&[("traceparent", "")][..], &[("traceparent", &long)], &[("traceparent", valid), ("traceparent", valid)]] {
            assert_eq!(trace_parent(&headers(wrong)), Some(Err(ParseTraceParentError)), "{wrong:?}");
        }
        let mut foreign = HeaderMap::new();
        foreign.insert("traceparent", HeaderValue::from_bytes(b"00-\xff").unwrap());
        assert_eq!(trace_parent(&foreign), Some(Err(ParseTraceParentError)));
    }

    #[test]
    fn the_program_is_the_first_word_of_the_user_agent() {
        for (agent, name) in [("curl/8.5.0", "curl"), ("Mozilla/5.0 (X11)", "Mozilla"), ("ci runner", "ci"), ("/1", "client")] {
            assert_eq!(program(&headers(&[("user-agent", agent)])), name, "{agent}");
        }
        assert_eq!(program(&headers(&[])), "client");
    }
}
