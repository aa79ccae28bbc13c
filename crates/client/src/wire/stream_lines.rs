//! The body of a stream, line by line.

use crate::wire::{failure_text::describe, reply::REVISION};
use fairhold_types::Revision;
use reqwest::{StatusCode, header};
use std::time::Duration;
use tokio::time::timeout;

/// The longest line of a stream.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// A body that is read as it arrives.
#[derive(Debug)]
pub(crate) struct StreamLines {
    pub(crate) status: StatusCode,
    pub(crate) headers: header::HeaderMap,
    response: reqwest::Response,
    read: Vec<u8>,
    /// How many of these bytes `next` has returned.
    taken: usize,
}

impl StreamLines {
    pub(crate) fn new(mut response: reqwest::Response) -> StreamLines {
        let headers = std::mem::take(response.headers_mut());
        StreamLines { status: response.status(), headers, response, read: Vec::new(), taken: 0 }
    }

    /// The revision at which the stream starts, if its head names one.
    pub(crate) fn revision(&self) -> Option<Revision> {
        let named = self.headers.get(REVISION)?.to_str().ok()?;
        named.parse().ok().map(Revision)
    }

    /// The next bytes; `None` at the end of the body.
    pub(crate) async fn chunk(&mut self, silent_max: Duration) -> Result<Option<Vec<u8>>, String> {
        if self.taken < self.read.len() {
            let rest = self.read.split_off(self.taken);
            self.read.clear();
            self.taken = 0;
            return Ok(Some(rest));
        }
        match timeout(silent_max, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk.map(|chunk| chunk.to_vec())),
            Ok(Err(error)) => Err(describe(&error)),
            Err(_) => Err(format!("nothing arrived for {silent_max:?}")),
        }
    }

    /// The next line without its newline. The error says why none came.
    pub(crate) async fn next(&mut self, silent_max: Duration) -> Result<Vec<u8>, String> {
        loop {
            if let Some(length) = self.read[self.taken..].iter().position(|byte| *byte == b'\n') {
                let line = self.read[self.taken..self.taken + length].to_vec();
                self.taken += length + 1;
                return Ok(line);
            }
            self.read.drain(..self.taken);
            self.taken = 0;
            if self.read.len() > LINE_BYTES_MAX {
                return Err(format!("a line is longer than {LINE_BYTES_MAX} bytes"));
            }
            match timeout(silent_max, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => self.read.extend_from_slice(&chunk),
                Ok(Ok(None)) => return Err("the node ended the stream".to_owned()),
                Ok(Err(error)) => return Err(describe(&error)),
                Err(_) => return Err(format!("nothing arrived for {silent_max:?}")),
            }
        }
    }
}
