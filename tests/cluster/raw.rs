//! Requests as raw bytes, which no well-behaved client would send.

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A request exactly as its bytes are sent: no library corrects it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Raw {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn raw(method: &'static str, target: &str) -> Raw {
    Raw { method, target: target.to_owned(), ..Raw::default() }
}

impl Raw {
    pub(crate) fn with(mut self, header: &str) -> Raw {
        self.headers.push(header.to_owned());
        self
    }

    pub(crate) fn json(self, body: &str) -> Raw {
        Raw { body: body.as_bytes().to_vec(), ..self.with("Content-Type: application/json") }
    }

    pub(crate) fn body(self, body: Vec<u8>) -> Raw {
        Raw { body, ..self }
    }

    /// Its request line and headers, for this address.
    pub(crate) fn head(&self, address: &str) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n", self.method, self.target);
        for header in &self.headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        head + &format!("Content-Length: {}\r\n\r\n", self.body.len())
    }

    /// Sends it on its own connection; returns the status, content type and body of the answer.
    pub(crate) async fn send(&self, address: &str) -> (u16, String, Value) {
        let head = self.head(address);
        let mut stream = TcpStream::connect(address).await.expect("the server takes connections");
        stream.write_all(head.as_bytes()).await.expect("a head can be sent");
        stream.write_all(&self.body).await.expect("a body is read to its end, even if it is too large");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer can be read to its end");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {self:.200?}: {answer:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let content_type = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-type: ").map(str::to_owned));
        (status, content_type.unwrap_or_default(), serde_json::from_str(body).unwrap_or(Value::Null))
    }
}
