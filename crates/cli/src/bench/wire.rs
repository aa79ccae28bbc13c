//! HTTP/1.1 with keep-alive over one connection, with minimal overhead: the load generator competes with servers on the
//! same machine for the processor.

use crate::remote::Failure;
use std::{io, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// The longest head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The longest body of an answer, in bytes.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The size of a read, in bytes.
const READ_BYTES: usize = 4 * 1024;
/// How long opening a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const LINE_END: &[u8] = b"\r\n";

/// The nodes for requests, in turn, from a first one on.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    /// `host:port` of each node.
    hosts: Vec<String>,
    now: usize,
    /// The authorization header with its line end; empty without a token.
    authorization: String,
}

impl Hosts {
    /// The hosts of these endpoints.
    pub(crate) fn new(endpoints: &[String], token: Option<&str>) -> Result<Hosts, Failure> {
        let host = |url: &String| match crate::remote::endpoint(url)?.strip_prefix("http://") {
            Some(host) => Ok(host.to_owned()),
            None => Err(Failure::Usage(format!(
                "--endpoint {url}: bench sends its load without TLS: pass http:// URLs, such as those of --listen-plain"
            ))),
        };
        let hosts = endpoints.iter().map(host);
        let authorization = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        Ok(Hosts { hosts: hosts.collect::<Result<_, Failure>>()?, now: 0, authorization })
    }

    /// The same hosts, starting with another one.
    pub(crate) fn beginning_with(&self, index: usize) -> Hosts {
        Hosts { now: index % self.hosts.len().max(1), ..self.clone() }
    }

    fn host(&self) -> &str {
        self.hosts.get(self.now).map_or("", String::as_str)
    }
}

/// One connection, to one node at a time.
#[derive(Debug)]
pub(crate) struct Wire {
    hosts: Hosts,
    stream: Option<TcpStream>,
    out: Vec<u8>,
    read: Vec<u8>,
    limit: Duration,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct WireAnswer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl WireAnswer {
    /// This answer if its status is a success.
    ///
    /// # Errors
    /// The status and the body of any other answer.
    pub(crate) fn success(self) -> Result<WireAnswer, String> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        Err(format!("{}: {}", self.status, String::from_utf8_lossy(&self.body)))
    }
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    /// The length of the head: the body starts there.
    bytes: usize,
    status: u16,
    length: usize,
    closes: bool,
}

impl Wire {
    /// Connects with the first request. `limit` is the timeout of a request.
    pub(crate) fn new(hosts: Hosts, limit: Duration) -> Wire {
        Wire { hosts, stream: None, out: Vec::new(), read: Vec::with_capacity(READ_BYTES), limit }
    }

    /// Sends a request and reads its answer. `headers` are complete lines. After a failure, the next request goes to
    /// the next node.
    ///
    /// # Errors
    /// There is no answer: the outcome of the request is unknown.
    pub(crate) async fn send(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) -> Result<WireAnswer, String> {
        self.send_within(self.limit, method, target, headers, body).await
    }

    /// The same with another timeout, for a request that waits at the server.
    ///
    /// # Errors
    /// As `send`.
    pub(crate) async fn send_within(
        &mut self,
        limit: Duration,
        method: &str,
        target: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<WireAnswer, String> {
        self.out.clear();
        let head = [method, " ", target, " HTTP/1.1\r\nhost: ", self.hosts.host(), "\r\n", &self.hosts.authorization, headers];
        head.iter().for_each(|part| self.out.extend_from_slice(part.as_bytes()));
        if !body.is_empty() || method != "GET" && method != "DELETE" {
            self.out.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        self.out.extend_from_slice(LINE_END);
        self.out.extend_from_slice(body);
        let why = match timeout(limit, self.exchange()).await {
            Ok(Ok(answer)) if answer.status != 503 => return Ok(answer),
            // This node cannot serve now; another one may.
            Ok(Ok(answer)) => format!("503: {}", String::from_utf8_lossy(&answer.body)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {limit:?}"),
        };
        let why = format!("{}: {why}", self.hosts.host());
        self.stream = None;
        self.hosts = self.hosts.beginning_with(self.hosts.now + 1);
        Err(why)
    }

    async fn exchange(&mut self) -> io::Result<WireAnswer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let connecting = timeout(CONNECT_WITHIN, TcpStream::connect(self.hosts.host()));
                let stream = connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                stream.set_nodelay(true)?;
                stream
            }
        };
        stream.write_all(&self.out).await?;
        self.read.clear();
        let head = loop {
            if let Some(head) = head(&self.read)? {
                break head;
            }
            self.fill(&mut stream).await?;
        };
        while self.read.len() < head.bytes + head.length {
            self.fill(&mut stream).await?;
        }
        let body = self.read[head.bytes..head.bytes + head.length].to_vec();
        if !head.closes {
            // Reuses the connection only after reading the whole answer.
            self.stream = Some(stream);
        }
        Ok(WireAnswer { status: head.status, body })
    }

    async fn fill(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        self.read.reserve(READ_BYTES);
        match stream.read_buf(&mut self.read).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The head, once it is complete.
fn head(read: &[u8]) -> io::Result<Option<Head>> {
    let wrong = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why.to_owned()));
    let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return if read.len() > HEAD_BYTES_MAX { wrong("the head of the answer is too long") } else { Ok(None) };
    };
    let text = String::from_utf8_lossy(&read[..end]);
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let Some(status) = status else { return wrong("the answer is not HTTP/1.1") };
    let mut length = None;
    let mut closes = false;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse::<usize>().ok();
        } else if name.eq_ignore_ascii_case("connection") {
            closes = value.trim().eq_ignore_ascii_case("close");
        }
    }
    match length.or((status == 204 || status == 304).then_some(0)) {
        Some(length) if length <= BODY_BYTES_MAX => Ok(Some(Head { bytes: end + 4, status, length, closes })),
        Some(_) => wrong("the answer is too long"),
        None => wrong("the answer has no content-length"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_parsed_once_it_is_complete() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nx: y\r\n\r\nabc";
        assert_eq!(head(whole).unwrap(), Some(Head { bytes: whole.len() - 3, status: 200, length: 3, closes: false }));
        assert_eq!(head(&whole[..40]).unwrap(), None);
        let closing = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
        assert_eq!(head(closing).unwrap(), Some(Head { bytes: closing.len(), status: 204, length: 0, closes: true }));
    }

    #[test]
    fn an_answer_of_unknown_length_is_an_error() {
        for wrong in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", "SSH-2.0\r\n\r\n"] {
            assert!(head(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(head(&[b'a'; HEAD_BYTES_MAX + 1]).is_err());
    }
}
