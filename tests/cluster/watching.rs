//! A watcher that reads a node's events line by line.

use crate::client::{Answer, Client};
use serde_json::Value;
use std::time::Duration;

/// The maximum time for a line: a bookmark comes every 10 s, so a later one would never arrive.
const LINE_WITHIN: Duration = Duration::from_secs(30);

/// An open watch.
#[derive(Debug)]
pub(crate) struct Watching {
    response: reqwest::Response,
    text: Vec<u8>,
    /// How much of `text` was returned.
    taken: usize,
}

impl Watching {
    /// Opens a watch at one node. `parameters` is the query string.
    pub(crate) async fn open(client: &Client, node: usize, parameters: &str) -> Watching {
        match Watching::try_open(client, node, parameters).await.expect("the node runs") {
            Ok(watching) => watching,
            Err(answer) => panic!("{parameters}: {answer:?}"),
        }
    }

    /// Like `open`, but the watch may be refused.
    pub(crate) async fn try_open(
        client: &Client,
        node: usize,
        parameters: &str,
    ) -> Result<Result<Watching, Answer>, reqwest::Error> {
        let response = client.stream_from(node, &format!("/v1/watch?{parameters}"), &[]).await?;
        if response.status().as_u16() == 200 {
            return Ok(Ok(Watching { response, text: Vec::new(), taken: 0 }));
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Err(Answer { status, headers, text, json }))
    }

    /// The next line as it was sent; `None` if the stream has ended.
    pub(crate) async fn raw(&mut self) -> Result<Option<String>, reqwest::Error> {
        loop {
            if let Some(end) = self.text[self.taken..].iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&self.text[self.taken..self.taken + end]).into_owned();
                self.taken += end + 1;
                return Ok(Some(line));
            }
            self.text.drain(..self.taken);
            self.taken = 0;
            let chunk = tokio::time::timeout(LINE_WITHIN, self.response.chunk()).await;
            match chunk.unwrap_or_else(|_| panic!("nothing came within {LINE_WITHIN:?}, not even a bookmark"))? {
                Some(chunk) => self.text.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// The next line.
    pub(crate) async fn line(&mut self) -> Option<Value> {
        let line = self.raw().await.expect("the connection is open");
        line.map(|line| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// The next line that is not a bookmark; it must exist.
    pub(crate) async fn next_event(&mut self) -> Value {
        loop {
            let line = self.line().await.expect("the stream continues");
            if line["type"] != "bookmark" {
                return line;
            }
        }
    }

    /// The next line, which must have this type.
    pub(crate) async fn expect(&mut self, kind: &str) -> Value {
        let line = self.line().await.unwrap_or_else(|| panic!("the stream ended before {kind}"));
        assert_eq!(line["type"], kind, "{line}");
        line
    }

    /// The lines that are not bookmarks, as they were sent, up to those of a revision.
    pub(crate) async fn lines_until(&mut self, revision: u64) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.raw().await.expect("the connection is open").expect("the stream continues");
            let json: Value = serde_json::from_str(&line).expect("a line is JSON");
            let reached = json["revision"].as_u64().expect("a revision") >= revision;
            if json["type"] != "bookmark" {
                lines.push(line);
            }
            if reached {
                return lines;
            }
        }
    }
}
