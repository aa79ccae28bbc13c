//! Building URLs.

use crate::error::Error;

use fairhold_types::Path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that need no encoding in a segment of a path or in a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Entries of one page of a listing.
pub(crate) const PAGE: usize = 1_000;

/// Percent-encodes a string as a segment of a path, or as a value in a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Adds a pair to the query of a path.
pub(crate) fn with_query(path: &str, pair: &str) -> String {
    let mark = if path.contains('?') { '&' } else { '?' };
    format!("{path}{mark}{pair}")
}

/// Parses the path of a node, with or without the leading slash.
pub(crate) fn node_path(path: &str) -> Result<Path, Error> {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Path::parse(&path).map_err(|error| Error::Invalid(format!("the path: {error}")))
}

/// The URL path of a node, each segment encoded.
pub(crate) fn node_url(path: &str) -> Result<String, Error> {
    let path = node_path(path)?;
    let levels = path.as_str().split('/').map(encode);
    Ok(format!("/v1/nodes{}", levels.collect::<Vec<_>>().join("/")))
}

/// The path of a page with at most `limit` entries.
pub(crate) fn page(path: &str, limit: usize, cursor: Option<&str>) -> String {
    let path = with_query(path, &format!("limit={limit}"));
    match cursor {
        Some(cursor) => with_query(&path, &format!("cursor={}", encode(cursor))),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_encoded_segment_by_segment() {
        assert_eq!(node_url("/a b/ü?").unwrap(), "/v1/nodes/a%20b/%C3%BC%3F");
        assert_eq!(node_url("a").unwrap(), "/v1/nodes/a");
        assert_eq!(node_url("/").unwrap(), "/v1/nodes/");
        assert!(matches!(node_url("/a//b"), Err(Error::Invalid(_))));
    }
}
