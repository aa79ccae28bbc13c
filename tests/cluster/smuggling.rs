//! Requests that hide a second one, to a node directly and through common proxies: the node must not act on the hidden one.
//!
//! The proxies refuse the path of the hidden request. If the node acts on it all the same, the proxy took it for a part of the
//! first request.

use crate::{
    client::Call,
    harness::{Cluster, LONG, all, eventually, free_port, pass_time, report, run_parallel},
    without::PROXIES,
};
use std::{
    fs,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
};

/// A value for the length of the body, filled in for each form of the attack.
const LENGTH: &str = "{length}";
/// How long a proxy may wait for the rest of a request, and for the next one.
const PROXY_WAITS: Duration = Duration::from_secs(1);
/// How long an attacker waits for answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Nodes that honest clients read through a proxy, meanwhile.
const HONEST: usize = 4;

/// Headers of which two servers could conclude different lengths of the body.
const HEADERS: &[&str] = &[
    "Content-Length: {length}\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: {length}",
    "Content-Length: {length}\r\nContent-Length: {length}",
    "Content-Length: {length}\r\nContent-Length: 0",
    "Content-Length: 0\r\nContent-Length: {length}",
    "Content-Length: {length}, {length}",
    "Content-Length: {length}, 0",
    "Content-Length: +{length}",
    "Content-Length: -{length}",
    "Content-Length: 0x{length}",
    "Content-Length: {length} 0",
    "Content-Length : {length}",
    "Content-Length:\r\n {length}",
    "Content-Length: 1\r\n{length}",
    "Content-Length: {length}\u{0}",
    "Content-Length: 99999999999999999999999{length}",
    "Content-Length: {length}\nA: b",
    "A: b\nContent-Length: {length}",
    "A: b\rContent-Length: {length}",
    "Content-Length: {length}\r\nTransfer-Encoding: xchunked",
    "Content-Length: {length}\r\nTransfer-Encoding: identity",
    "Content-Length: {length}\r\nTransfer-Encoding: chunked, identity",
    "Content-Length: {length}\r\nTransfer-Encoding: identity, chunked",
    "Content-Length: {length}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Content-Length: {length}\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    "Content-Length: {length}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Content-Length: {length}\r\nTransfer-Encoding : chunked",
    "Content-Length: {length}\r\nTransfer-Encoding\t: chunked",
    "Content-Length: {length}\r\n Transfer-Encoding: chunked",
    "Content-Length: {length}\r\nTransfer-Encoding:\r\n chunked",
    "Content-Length: {length}\r\nTransfer-Encoding:\u{b}chunked",
    "Content-Length: {length}\r\nTransfer-Encoding: chunked\u{0}",
    "Content-Length: {length}\r\nTransfer-Encoding: \"chunked\"",
    "Content-Length: {length}\r\nTransfer-Encoding: chunked;q=1",
    "Content-Length: {length}\r\nA: b\nTransfer-Encoding: chunked",
    "Content-Length: {length}\r\nA: b\rTransfer-Encoding: chunked",
    "Content-Length: {length}\r\nA: b\u{0}\nTransfer-Encoding: chunked",
    "Content-Length: {length}\nTransfer-Encoding: chunked",
    "Content-Length: {length}\r\nConnection: Content-Length\r\nTransfer-Encoding: chunked",
    "Content-Length: {length}\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
];

/// Bodies in chunks whose end two servers could see at different bytes; the hidden request follows, or is within.
const CHUNKS: &[&str] = &[
    "0\n\r\n{hidden}",
    "0\r\n\n{hidden}",
    "0\r\nA: b\n\n{hidden}",
    "0\r\nA: b\n\r\n{hidden}",
    "0\r\nA: b\r\n {hidden}",
    "0\r{hidden}\r\n\r\n",
    "0\r\n{hidden}",
    "1\na\n0\n\n{hidden}",
    "1;\n{hidden}\r\n0\r\n\r\n",
    "1;a\rb\r\na\r\n0\r\n\r\n{hidden}",
    "1;a\n0\r\n\r\n{hidden}",
    "1\r\nab0\r\n\r\n{hidden}",
    "1\r\na0\r\n\r\n{hidden}",
    "1 0\r\na\r\n0\r\n\r\n{hidden}",
    "+0\r\n\r\n{hidden}",
    "-1\r\n\r\n{hidden}",
    "0x0\r\n\r\n{hidden}",
    "10000000000000000\r\n\r\n{hidden}",
    "ffffffffffffffff\r\n{hidden}",
    "\r\n{hidden}",
];

/// Whole heads that two servers could read differently.
const HEADS: &[&str] = &[
    "GET /v1/nodes/visible\r\n",
    "GET /v1/nodes/visible HTTP/0.9\r\n\r\n",
    "GET /v1/nodes/visible HTTP/1.1\nHost: x\n\n",
    "GET /v1/nodes/visible HTTP/1.1\r\nHost: x\r\n\n",
    "POST /v1/nodes/visible HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET /v1/nodes/visible HTTP/1.1\r\n\r\n",
    "GET /v1/nodes/visible HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "GET /v1/nodes/visible HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "GET /v1/nodes/visible HTTP/1.1\r\nHost: x\r\nA: b\u{0}\r\n\r\n",
    "GET /v1/nodes/visible HTTP/1.1\r\nHost: x\r\nA: b\r\r\n\r\n",
];

/// The request that no proxy lets pass: it writes a node of this name.
fn hidden(name: &str) -> String {
    format!("PUT /v1/nodes/{name} HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nhidden")
}

/// The bytes of an attack, which hides the given request.
type Shape = Box<dyn Fn(&str) -> String>;

/// All attacks: each hides a request that writes the node `hidden-WHERE-NUMBER`.
fn attacks(place: &str) -> Vec<(String, String)> {
    let mut shapes: Vec<Shape> = Vec::new();
    for headers in HEADERS {
        let head = move |length: usize| {
            let headers = headers.replace(LENGTH, &length.to_string());
            format!("PUT /v1/nodes/visible HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n")
        };
        // If the coding decides, the hidden request comes after the body.
        shapes.push(Box::new(move |hidden| {
            let body = format!("0\r\n\r\n{hidden}");
            head(body.len()) + &body
        }));
        // If the length decides, it does.
        shapes.push(Box::new(move |hidden| {
            let size = format!("{:x}\r\n", hidden.len());
            format!("{}{size}{hidden}\r\n0\r\n\r\n", head(size.len()))
        }));
        // If neither counts, it does too.
        shapes.push(Box::new(move |hidden| head(hidden.len()) + hidden));
    }
    for chunks in CHUNKS {
        shapes.push(Box::new(move |hidden| {
            let head = "PUT /v1/nodes/visible HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
            format!("{head}{}", chunks.replace("{hidden}", hidden))
        }));
    }
    for head in HEADS {
        shapes.push(Box::new(move |hidden| format!("{head}{hidden}")));
    }
    let numbered = shapes.iter().enumerate().map(|(number, shape)| (format!("hidden-{place}-{number}"), shape));
    numbered.map(|(name, shape)| (name.clone(), shape(&hidden(&name)))).collect()
}

/// Sends the bytes, and returns all answers until the other side closes the connection or is silent for too long.
async fn exchange(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the port takes connections");
    // The other side may close the connection before it has everything.
    let _sent = stream.write_all(bytes).await;
    let mut answers = Vec::new();
    let _closed = tokio::time::timeout(ANSWERS_WITHIN, stream.read_to_end(&mut answers)).await;
    String::from_utf8_lossy(&answers).into_owned()
}

/// Makes all attacks at once, then asserts that no node of a hidden request exists. Returns the first lines of the answers.
async fn attack(cluster: &Cluster, address: &str, place: &str) -> Vec<String> {
    let attacks = attacks(place);
    let sent = attacks.iter().map(|(_, bytes)| {
        let (address, bytes) = (address.to_owned(), bytes.clone());
        tokio::spawn(async move { exchange(&address, bytes.as_bytes()).await })
    });
    let answers = futures_util::future::join_all(sent).await;
    let mut lines = Vec::new();
    for ((name, bytes), answer) in attacks.iter().zip(answers) {
        let answer = answer.expect("an attacker does not panic");
        let found = cluster.client(0).once(&Call::get(&format!("/v1/nodes/{name}"))).await;
        assert_eq!(found.status, 404, "{place}: the node acted on the request that was hidden in {bytes:?}\n{answer}");
        lines.push(answer.lines().next().unwrap_or_default().to_owned());
    }
    lines
}

fn address(url: &str) -> &str {
    url.trim_start_matches("http://")
}

#[test]
fn a_node_never_acts_on_a_request_that_is_hidden_in_another() {
    run_parallel(LONG, async {
        let cluster = Cluster::start_of(1).await;
        let node = address(&cluster.nodes[0].url).to_owned();
        let lines = attack(&cluster, &node, "direct").await;
        assert!(lines.iter().all(|line| !line.contains(" 2")), "an ambiguous request was not refused: {lines:?}");
        let refused = lines.iter().filter(|line| line.contains(" 400 ")).count();
        report(&format!("{} ambiguous requests to a node: {refused} times 400", lines.len()));
        // The second request is sent right behind the first, so it is answered if the first is unambiguous.
        let first = "PUT /v1/nodes/visible HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        let close = hidden("follows").replace("Host: x", "Host: x\r\nConnection: close");
        exchange(&node, format!("{first}{close}").as_bytes()).await;
        assert_eq!(cluster.client(0).value("follows").await, "hidden");
    });
}

/// A proxy in front of one node. It refuses requests whose path begins with `/v1/nodes/hidden`.
struct Proxy {
    address: String,
    _process: Child,
}

impl Proxy {
    async fn start(mut command: Command, port: u16) -> Proxy {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let process = command.spawn().expect("the proxy starts");
        let address = format!("127.0.0.1:{port}");
        eventually("the proxy listens", Duration::from_secs(20), || async { TcpStream::connect(&address).await.ok() }).await;
        Proxy { address, _process: process }
    }

    async fn nginx(folder: &Path, node: &str) -> Proxy {
        let port = free_port();
        let seconds = PROXY_WAITS.as_secs();
        let paths =
            ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {name};\n")).concat();
        let text = format!(
            "daemon off; master_process off; pid nginx.pid; error_log error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\n{paths}access_log off;\n\
             client_header_timeout {seconds}s; client_body_timeout {seconds}s; keepalive_timeout {seconds}s;\n\
             upstream node {{ server {node}; keepalive 8; }}\n\
             server {{ listen 127.0.0.1:{port};\n\
             location /v1/nodes/hidden {{ return 403; }}\n\
             location / {{ proxy_pass http://node; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
             proxy_request_buffering off; }} }} }}\n"
        );
        fs::write(folder.join("nginx.conf"), text).expect("the folder can be written");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder).arg("-c").arg("nginx.conf").arg("-e").arg("error.log");
        Proxy::start(command, port).await
    }

    async fn haproxy(folder: &Path, node: &str) -> Proxy {
        let port = free_port();
        let seconds = PROXY_WAITS.as_secs();
        let text = format!(
            "global\n maxconn 1024\n\
             defaults\n mode http\n timeout connect 5s\n timeout client {seconds}s\n timeout server 30s\n \
             timeout http-request {seconds}s\n timeout http-keep-alive {seconds}s\n\
             frontend clients\n bind 127.0.0.1:{port}\n http-request deny if {{ path_beg /v1/nodes/hidden }}\n \
             default_backend nodes\n\
             backend nodes\n http-reuse always\n server one {node}\n"
        );
        fs::write(folder.join("haproxy.cfg"), text).expect("the folder can be written");
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(folder.join("haproxy.cfg"));
        Proxy::start(command, port).await
    }
}

/// Reads its own node through the proxy until the attack is over. An answer to another client's request would be another value.
async fn read_own(address: String, number: usize, over: Arc<AtomicBool>, right: Arc<AtomicUsize>) {
    while !over.load(SeqCst) {
        let request = format!("GET /v1/nodes/honest-{number} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = exchange(&address, request.as_bytes()).await;
        if answer.starts_with("HTTP/1.1 200 ") {
            assert!(answer.ends_with(&format!("value of {number}")), "an answer to another request: {answer}");
            right.fetch_add(1, SeqCst);
        } else {
            // The node closed the connection to the proxy that this request was sent on.
            assert!(answer.starts_with("HTTP/1.1 50"), "{answer:?}");
        }
        pass_time(Duration::from_millis(5)).await;
    }
}

/// Attacks through a proxy, while honest clients use it too.
async fn attack_through(cluster: &Cluster, proxy: &Proxy, name: &str) {
    // The proxy passes requests, refuses the path, and the node would accept it.
    let put = |path: &str| format!("PUT /v1/nodes/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
    assert!(exchange(&proxy.address, put("visible").as_bytes()).await.starts_with("HTTP/1.1 20"));
    assert!(exchange(&proxy.address, put("hidden-by-path").as_bytes()).await.starts_with("HTTP/1.1 403"));
    let (over, right) = (Arc::new(AtomicBool::default()), Arc::new(AtomicUsize::default()));
    let mut honest = Vec::new();
    for number in 0..HONEST {
        cluster.client(0).write(&Call::put(&format!("/v1/nodes/honest-{number}"), format!("value of {number}"))).await;
        honest.push(tokio::spawn(read_own(proxy.address.clone(), number, Arc::clone(&over), Arc::clone(&right))));
    }
    let lines = attack(cluster, &proxy.address, name).await;
    let before = right.load(SeqCst);
    eventually("honest clients are served", Duration::from_secs(20), || async {
        (right.load(SeqCst) > before + 100).then_some(())
    })
    .await;
    over.store(true, SeqCst);
    all(honest).await;
    let refused = lines.iter().filter(|line| line.contains(" 40")).count();
    report(&format!(
        "{} ambiguous requests through {name}: {refused} refused, none acted on; {} honest answers",
        lines.len(),
        right.load(SeqCst)
    ));
}

/// Whether both proxies are installed.
fn proxies() -> Result<(), String> {
    for name in ["nginx", "haproxy"] {
        let output = std::process::Command::new(name).arg("-v").output().map_err(|error| format!("{name}: {error}"))?;
        assert!(output.status.success(), "{name} -v: {output:?}");
    }
    Ok(())
}

#[test]
fn a_request_that_is_hidden_from_a_proxy_is_never_acted_on_and_no_answer_goes_astray() {
    if PROXIES.or_without(proxies()).is_none() {
        return;
    }
    run_parallel(LONG, async {
        let cluster = Cluster::start_of(1).await;
        let node = address(&cluster.nodes[0].url).to_owned();
        let proxy = Proxy::nginx(cluster.folder(), &node).await;
        attack_through(&cluster, &proxy, "nginx").await;
        let proxy = Proxy::haproxy(cluster.folder(), &node).await;
        attack_through(&cluster, &proxy, "haproxy").await;
    });
}
