//! The format of a stream's lines: JSON objects, one a line or as server-sent events.

use crate::{
    edge::answer,
    edge::body::{self, NDJSON},
    edge::headers,
    edge::problem::Problem,
};
use axum::{body::Body, response::Response};
use fairhold_types::Revision;
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Whether an answer is a stream.
pub(crate) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| {
        kind == b"application/x-ndjson" || kind == b"application/vnd.fairhold.backup" || kind.starts_with(b"text/event-stream")
    })
}

/// The format of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    /// One JSON object a line.
    Lines,
    /// Server-sent events, as browsers read them.
    Events,
}

impl StreamFormat {
    /// The format of an answer that is always a stream. The default is one JSON object a line.
    pub(crate) fn requested_or_default(headers: &HeaderMap) -> Result<StreamFormat, Problem> {
        Ok(StreamFormat::requested(headers)?.unwrap_or(StreamFormat::Lines))
    }

    /// The format of a stream, if the request is for a stream.
    pub(crate) fn requested(headers: &HeaderMap) -> Result<Option<StreamFormat>, Problem> {
        let accepted = headers::text(headers, header::ACCEPT)?.unwrap_or_default();
        let types = accepted.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let types: Vec<&str> = types.collect();
        let names = |form: HeaderValue| types.iter().any(|kind| form.as_bytes().eq_ignore_ascii_case(kind.as_bytes()));
        Ok(match (names(EVENT_STREAM), names(NDJSON)) {
            (true, _) => Some(StreamFormat::Events),
            (false, true) => Some(StreamFormat::Lines),
            (false, false) => None,
        })
    }

    /// A stream in this format that starts at a revision.
    pub(crate) fn answer(self, body: Body, start: Revision) -> Response {
        let content_type = if self == StreamFormat::Events { EVENT_STREAM } else { NDJSON };
        let mut response = answer::stamped(body::answer(content_type, body), start);
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
        response
    }

    /// Writes one line. A browser resumes after the newest id, so only the last line of a revision has an id.
    pub(crate) fn write(self, line: &impl Serialize, id: Option<Revision>, out: &mut Vec<u8>) {
        if self == StreamFormat::Events {
            if let Some(id) = id {
                out.extend_from_slice(format!("id: {id}\n").as_bytes());
            }
            out.extend_from_slice(b"data: ");
        }
        body::write_json(line, out);
        out.extend_from_slice(match self {
            StreamFormat::Lines => b"\n",
            StreamFormat::Events => b"\n\n",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_sent_events_need_an_accept_header() {
        for (accept, form) in [
            (None, None),
            (Some("*/*"), None),
            (Some("application/json"), None),
            (Some("application/x-ndjson"), Some(StreamFormat::Lines)),
            (Some("text/event-stream"), Some(StreamFormat::Events)),
            (Some("text/html, text/event-stream;q=0.9"), Some(StreamFormat::Events)),
        ] {
            let headers = accept.map(|accept| (header::ACCEPT, HeaderValue::from_static(accept))).into_iter().collect();
            assert_eq!(StreamFormat::requested(&headers).unwrap(), form, "{accept:?}");
            assert_eq!(StreamFormat::requested_or_default(&headers).unwrap(), form.unwrap_or(StreamFormat::Lines), "{accept:?}");
        }
    }
}
