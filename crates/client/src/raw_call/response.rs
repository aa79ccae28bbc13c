//! The answers to raw calls.

use crate::{
    error::Error,
    problem::ProblemBody,
    wire::{reply::Reply, stream_lines::StreamLines},
};
use reqwest::{StatusCode, header::HeaderMap};
use std::time::Duration;

/// The definite answer to a raw call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RawReply {
    /// The HTTP status, which may be a refusal.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// An earlier attempt got no definite answer, so the cluster may have carried it out. A refusal such as
    /// `session_not_found` can then be the effect of that attempt.
    pub after_unknown: bool,
}

/// The first answer to a call that asked for a stream.
#[derive(Debug)]
pub enum RawResponse {
    /// The status is a success, and the body can be read as it arrives.
    Stream(RawStream),
    /// Any other definite answer, with its whole body.
    Reply(RawReply),
}

/// A body that is read as it arrives. It comes from one node. If it breaks, the caller decides how to continue.
#[derive(Debug)]
pub struct RawStream {
    pub(super) lines: StreamLines,
}

impl RawReply {
    pub(super) fn new(reply: Reply, after_unknown: bool) -> Result<RawReply, Error> {
        let Reply { status, headers, body, is_whole, .. } = reply;
        if !is_whole {
            return Err(Error::NotUnderstood { why: "it is larger than 8 MiB".to_owned() });
        }
        Ok(RawReply { status, headers, body, after_unknown })
    }

    /// The refusal as an error.
    pub(crate) fn into_error(self) -> Error {
        Error::refused(self.status.as_u16(), ProblemBody::read(&self.body))
    }
}

impl RawStream {
    /// The HTTP status, which is a success.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.lines.status
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.lines.headers
    }

    /// The next line without its end. A stream that ends, for whatever reason, is an error.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the node ended the stream, the connection broke, or no byte arrived for `silence`.
    pub async fn line(&mut self, silence: Duration) -> Result<Vec<u8>, Error> {
        self.lines.next(silence).await.map_err(|last| Error::Unavailable { last })
    }

    /// The next bytes, or nothing at the end of the body.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the connection broke, or no byte arrived for `silence`.
    pub async fn chunk(&mut self, silence: Duration) -> Result<Option<Vec<u8>>, Error> {
        self.lines.chunk(silence).await.map_err(|last| Error::Unavailable { last })
    }
}
