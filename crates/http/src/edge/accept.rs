//! What a client accepts: the content type, the encoding, and what it has already.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Whether the client names HTML. Browsers do; curl and most programs accept anything.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    lists(headers, header::ACCEPT, |kind| kind.starts_with("text/html"))
}

/// Whether the client accepts a body that is compressed by gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    lists(headers, header::ACCEPT_ENCODING, is_gzip)
}

/// Whether the client has the version with this tag.
pub(crate) fn has_version(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    lists(headers, header::IF_NONE_MATCH, |known| known == "*" || tag == known)
}

fn lists(headers: &HeaderMap, name: HeaderName, wanted: impl Fn(&str) -> bool) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| wanted(entry.trim()))
}

/// Whether this entry of `Accept-Encoding` accepts gzip: its weight must not be 0.
fn is_gzip(entry: &str) -> bool {
    let (coding, weight) = entry.split_once(';').unwrap_or((entry, ""));
    let refused = weight.trim().strip_prefix("q=").is_some_and(|weight| weight.trim().parse() == Ok(0.0));
    coding.trim().eq_ignore_ascii_case("gzip") && !refused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn browsers_name_html_and_curl_does_not() {
        let names_html = |accept| accepts_html(&headers(header::ACCEPT, accept));
        assert!(names_html("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(!names_html("*/*") && !names_html("application/json") && !accepts_html(&HeaderMap::new()));
    }

    #[test]
    fn gzip_is_accepted_unless_its_weight_is_zero() {
        for (accepted, is_accepted) in [("gzip", true), ("br, GZIP;q=0.5", true), ("gzip;q=0", false), ("identity", false)] {
            assert_eq!(accepts_gzip(&headers(header::ACCEPT_ENCODING, accepted)), is_accepted, "{accepted}");
        }
    }

    #[test]
    fn a_known_version_is_found_in_a_list() {
        let tag = HeaderValue::from_static("\"a\"");
        for (known, is_known) in [("\"a\"", true), ("\"b\", \"a\"", true), ("*", true), ("\"b\"", false)] {
            assert_eq!(has_version(&headers(header::IF_NONE_MATCH, known), &tag), is_known, "{known}");
        }
    }
}
