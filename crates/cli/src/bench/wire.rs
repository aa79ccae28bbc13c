//! HTTP/1.1 with keep-alive over one connection, with minimal overhead: the load generator competes with servers on the
//! same machine for the processor.

use crate::remote::{ConnectArgs, Failure};
use fairhold_trust::client_port::ClientTls;
use std::{fmt, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
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
    hosts: Vec<Host>,
    now: usize,
    /// The authorization header with its line end; empty without a token.
    authorization: String,
    /// For `https://` endpoints.
    tls: Option<Arc<ClientTls>>,
}

/// A node.
#[derive(Debug, Clone)]
struct Host {
    /// Its `host:port`.
    address: String,
    /// The name that its certificate must have; `None` without TLS.
    certified: Option<String>,
}

impl Host {
    fn parse(endpoint: &str) -> Result<Host, Failure> {
        let url = crate::remote::endpoint(endpoint)?;
        match url.split_once("://") {
            Some(("https", address)) => {
                let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
                let certified = Some(name.trim_matches(['[', ']']).to_owned());
                Ok(Host { address: address.to_owned(), certified })
            }
            Some((_, address)) => Ok(Host { address: address.to_owned(), certified: None }),
            None => Err(Failure::Usage(format!("--endpoint {endpoint}: expected http://HOST:PORT or https://HOST:PORT"))),
        }
    }
}

impl Hosts {
    /// The hosts of the endpoints.
    pub(crate) fn new(connect: &ConnectArgs) -> Result<Hosts, Failure> {
        let hosts: Vec<Host> = connect.endpoint.iter().map(|url| Host::parse(url)).collect::<Result<_, Failure>>()?;
        let tls = if hosts.iter().any(|host| host.certified.is_some()) { Some(Arc::new(load_tls(connect)?)) } else { None };
        let token = connect.auth_token()?;
        let authorization = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        Ok(Hosts { hosts, now: 0, authorization, tls })
    }

    /// The same hosts, starting with another one.
    pub(crate) fn beginning_with(&self, index: usize) -> Hosts {
        Hosts { now: index % self.hosts.len().max(1), ..self.clone() }
    }

    fn host(&self) -> &str {
        self.hosts.get(self.now).map_or("", |host| host.address.as_str())
    }

    async fn connect(&self) -> io::Result<Box<dyn Socket>> {
        let stream = TcpStream::connect(self.host()).await?;
        stream.set_nodelay(true)?;
        let certified = self.hosts.get(self.now).and_then(|host| host.certified.as_deref());
        match (certified, &self.tls) {
            (Some(name), Some(tls)) => Ok(Box::new(tls.connect(stream, name).await.map_err(io::Error::other)?)),
            (Some(_) | None, _) => Ok(Box::new(stream)),
        }
    }
}

/// The authorities of the servers, and the client's certificate if it has one.
fn load_tls(connect: &ConnectArgs) -> Result<ClientTls, Failure> {
    let Some(authorities) = &connect.tls.cacert else {
        return Err(Failure::Usage(
            "bench does not use the system's authorities: pass the file of the authority of your servers with --cacert"
                .to_owned(),
        ));
    };
    let pair = connect.tls.pair()?.map(|(cert, key)| (cert.to_owned(), key.to_owned()));
    ClientTls::load(authorities, pair).map_err(|error| Failure::Usage(format!("--cacert, --cert or --key: {error}")))
}

/// A connection with or without TLS.
trait Socket: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug> Socket for S {}

/// One connection, to one node at a time.
#[derive(Debug)]
pub(crate) struct Wire {
    hosts: Hosts,
    stream: Option<Box<dyn Socket>>,
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
                let connecting = timeout(CONNECT_WITHIN, self.hosts.connect());
                connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??
            }
        };
        stream.write_all(&self.out).await?;
        // TLS may keep the end of what was written.
        stream.flush().await?;
        self.read.clear();
        let head = loop {
            if let Some(head) = head(&self.read)? {
                break head;
            }
            self.fill(&mut *stream).await?;
        };
        while self.read.len() < head.bytes + head.length {
            self.fill(&mut *stream).await?;
        }
        let body = self.read[head.bytes..head.bytes + head.length].to_vec();
        if !head.closes {
            // Reuses the connection only after reading the whole answer.
            self.stream = Some(stream);
        }
        Ok(WireAnswer { status: head.status, body })
    }

    async fn fill(&mut self, stream: &mut dyn Socket) -> io::Result<()> {
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
    fn the_name_in_a_certificate_is_the_host_without_its_port() {
        let parsed = |url: &str| Host::parse(url).map(|host| (host.address, host.certified)).unwrap();
        assert_eq!(parsed("n1:7171"), ("n1:7171".to_owned(), None));
        assert_eq!(parsed("http://10.0.0.1:7171"), ("10.0.0.1:7171".to_owned(), None));
        assert_eq!(parsed("https://n1.example:7171"), ("n1.example:7171".to_owned(), Some("n1.example".to_owned())));
        assert_eq!(parsed("https://[::1]:7171"), ("[::1]:7171".to_owned(), Some("::1".to_owned())));
    }

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
