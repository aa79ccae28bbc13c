//! Answers with a body: JSON, content type, and the header that forbids caching.

use axum::{body::Body, response::Response};
use http::{HeaderValue, header};
use serde::Serialize;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");
pub(crate) const BACKUP: HeaderValue = HeaderValue::from_static("application/vnd.fairhold.backup");
/// Answers may contain secrets, and may be out of date as soon as they are sent.
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The headers of nearly every answer fit into this, so their map does not grow step by step.
pub(crate) const HEADERS: usize = 8;

/// An answer with this body, not to be cached.
pub(crate) fn answer(content_type: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    response
}

/// Appends a value as JSON. If a value cannot be encoded, which would be a defect, logs an error and appends `null`.
pub(crate) fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    let before = out.len();
    if let Err(error) = serde_json::to_writer(&mut *out, value) {
        tracing::error!(%error, "cannot encode a part of an answer as JSON");
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}
