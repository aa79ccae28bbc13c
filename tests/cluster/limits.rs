//! Every limit, just below it, at it and just above it: the results are the page `docs/limits.md`.

use crate::{
    client::{Call, new_key},
    harness::{Cluster, LONG, all, eventually, run_exclusive},
    raw::{Raw, raw},
};
use fairhold_state::{
    State,
    command::{Command, OpenSession, Rejection},
    weight::*,
};
use fairhold_types::{GrantId, SessionId, duration, limits::*, time::WallMillis};
use std::{fmt::Write as _, fs, path::Path, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Connections that a node of this test accepts, in all and from one address; set by its flags.
const CONNECTIONS: usize = 60;
const CONNECTIONS_PER_ADDRESS: usize = 40;
/// The connections reserved for addresses with few connections.
const RESERVE: usize = CONNECTIONS / 20;

/// Waiters added to the queue at a time.
const WAITERS_AT_A_TIME: usize = 50;

/// A row of the page: the limit, its value, and the answers just below it, at it and just above it.
struct Row {
    limit: &'static str,
    value: String,
    seen: [String; 3],
}

/// Three requests around one limit.
struct LimitCase {
    limit: &'static str,
    value: String,
    requests: [Raw; 3],
}

fn limit_case(limit: &'static str, value: impl ToString, requests: [Raw; 3]) -> LimitCase {
    LimitCase { limit, value: value.to_string(), requests }
}

/// Just below, at, just above.
fn sizes(limit: usize) -> [usize; 3] {
    [limit - 1, limit, limit + 1]
}

fn millis(limit: Duration, step: i64) -> [String; 3] {
    let limit = i64::try_from(limit.as_millis()).expect("a short time");
    [limit - step, limit, limit + step].map(|millis| format!("{millis}ms"))
}

/// The answer: the status, and the code of a problem.
async fn seen(address: &str, request: &Raw) -> String {
    let (status, kind, answer) = request.send(address).await;
    if status < 400 {
        return status.to_string();
    }
    let shown = format!("{request:.200?}: {status} {kind} {answer}");
    assert!(kind.starts_with("application/problem+json"), "{shown:.500}");
    assert!(answer["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{shown:.500}");
    format!("{status} {}", answer["code"].as_str().unwrap_or("without a code"))
}

fn lock(name: &str) -> Raw {
    raw("POST", &format!("/v1/locks/{name}")).with(&format!("Idempotency-Key: {}", new_key()))
}

/// A new lock for each request, with these parameters.
fn fresh(parameters: &str) -> Raw {
    lock(&format!("fresh-{}?{parameters}", new_key()))
}

/// An empty JSON object of this length.
fn padded(bytes: usize) -> String {
    format!("{{{}}}", " ".repeat(bytes - 2))
}

/// An empty list, in this many bytes.
fn list(bytes: usize) -> Raw {
    let list = "{\"ids\":[]}";
    raw("POST", "/v1/sessions/keepalive").json(&format!("{}{list}", " ".repeat(bytes - list.len())))
}

/// A path of this length, including its first slash.
fn path_of(bytes: usize) -> String {
    let first = format!("{bytes}-");
    format!("{first}{}", "p".repeat(bytes - 1 - first.len()))
}

fn levels(count: usize, slash: &str) -> String {
    let first = format!("{count}-levels");
    [&[first.as_str()][..], &vec!["l"; count - 1]].concat().join(slash)
}

fn names_and_values() -> Vec<LimitCase> {
    let put = |path: &str, bytes: usize| raw("PUT", &format!("/v1/nodes/{path}?parents")).body(vec![b'v'; bytes]);
    let session = |body: String| raw("POST", "/v1/sessions").json(&body);
    let pairs = |count: usize| (0..count).map(|pair| format!("\"{pair}\":\"\"")).collect::<Vec<_>>().join(",");
    vec![
        limit_case(
            "lock name",
            format!("{LOCK_NAME_BYTES_MAX} bytes"),
            sizes(LOCK_NAME_BYTES_MAX).map(|bytes| lock(&"n".repeat(bytes))),
        ),
        limit_case(
            "lock name",
            format!("{} levels", PATH_LEVELS_MAX - 2),
            sizes(PATH_LEVELS_MAX - 2).map(|count| lock(&levels(count, "%2F"))),
        ),
        limit_case("path", format!("{PATH_BYTES_MAX} bytes"), sizes(PATH_BYTES_MAX).map(|bytes| put(&path_of(bytes), 1))),
        limit_case("path", format!("{PATH_LEVELS_MAX} levels"), sizes(PATH_LEVELS_MAX).map(|count| put(&levels(count, "/"), 1))),
        limit_case(
            "value of a node",
            format!("{VALUE_BYTES_MAX} bytes"),
            sizes(VALUE_BYTES_MAX).map(|bytes| put(&format!("value-{bytes}"), bytes)),
        ),
        limit_case(
            "JSON body of parameters",
            format!("{PARAMS_BYTES_MAX} bytes"),
            sizes(PARAMS_BYTES_MAX).map(|bytes| session(padded(bytes))),
        ),
        limit_case("any other JSON body", format!("{BODY_BYTES_MAX} bytes"), sizes(BODY_BYTES_MAX).map(list)),
        limit_case(
            "`meta`",
            format!("{META_PAIRS_MAX} pairs"),
            sizes(META_PAIRS_MAX).map(|count| session(format!("{{\"meta\":{{{}}}}}", pairs(count)))),
        ),
        limit_case(
            "`meta`, keys and values together",
            format!("{META_BYTES_MAX} bytes"),
            sizes(META_BYTES_MAX).map(|bytes| session(format!("{{\"meta\":{{\"k\":\"{}\"}}}}", "m".repeat(bytes - 1)))),
        ),
        limit_case(
            "`owner`",
            format!("{OWNER_BYTES_MAX} bytes"),
            sizes(OWNER_BYTES_MAX).map(|bytes| fresh(&format!("owner={}", "o".repeat(bytes)))),
        ),
        limit_case(
            "`value` of an election's leader",
            format!("{ELECTION_VALUE_BYTES_MAX} bytes"),
            sizes(ELECTION_VALUE_BYTES_MAX).map(|bytes| {
                let value = format!("{{\"value\":\"{}\"}}", "v".repeat(bytes));
                raw("POST", &format!("/v1/elections/fresh-{}", new_key())).json(&value)
            }),
        ),
        limit_case(
            "`name` of a session",
            format!("{OWNER_BYTES_MAX} bytes"),
            sizes(OWNER_BYTES_MAX).map(|bytes| session(format!("{{\"name\":\"{}\"}}", "s".repeat(bytes)))),
        ),
    ]
}

fn times_and_counts() -> Vec<LimitCase> {
    let time = |name: &'static str| move |time: String| fresh(&format!("{name}={time}"));
    let keepalive = |count: usize| {
        let ids: Vec<String> = (0..count).map(|number| format!("\"{number:032x}\"")).collect();
        raw("POST", "/v1/sessions/keepalive").json(&format!("{{\"ids\":[{}]}}", ids.join(",")))
    };
    let batch = |count: usize| {
        let calls: Vec<String> = (0..count).map(|_| format!("{{\"release\":{{\"id\":\"{}\"}}}}", new_key())).collect();
        raw("POST", "/v1/batch").json(&format!("{{\"calls\":[{}]}}", calls.join(",")))
    };
    // Each replaces the one before.
    let tenant = |list: &'static str, before: &'static str, after: &'static str| {
        move |count: usize| {
            let entries: Vec<String> = (0..count).map(|number| format!("\"{before}{number}{after}\"")).collect();
            raw("PUT", &format!("/v1/access/tenants/{list}")).json(&format!("{{\"{list}\":[{}]}}", entries.join(",")))
        }
    };
    let head = |bytes: usize| {
        let bare = raw("GET", "/livez").with("Fill: ");
        let length = bare.head("127.0.0.1:00000").len();
        raw("GET", "/livez").with(&format!("Fill: {}", "f".repeat(bytes - length)))
    };
    let headers = |count: usize| {
        // Host, Connection and Content-Length are the other headers.
        (3..count).fold(raw("GET", "/livez"), |request, number| request.with(&format!("h{number}: x")))
    };
    let number = |name: &'static str| move |number: usize| fresh(&format!("{name}={number}"));
    vec![
        limit_case("`ttl`, at least", duration::format(SESSION_TIMEOUT_MIN), millis(SESSION_TIMEOUT_MIN, -1).map(time("ttl"))),
        limit_case("`ttl`, at most", duration::format(SESSION_TIMEOUT_MAX), millis(SESSION_TIMEOUT_MAX, 1).map(time("ttl"))),
        limit_case("`wait`", duration::format(WAIT_MAX), millis(WAIT_MAX, 1).map(time("wait"))),
        limit_case("`lock_delay`", duration::format(LOCK_DELAY_MAX), millis(LOCK_DELAY_MAX, 1).map(time("lock_delay"))),
        limit_case(
            "`Fairhold-Timeout`",
            duration::format(TIMEOUT_MAX),
            millis(TIMEOUT_MAX, 1).map(|time| fresh("").with(&format!("Fairhold-Timeout: {time}"))),
        ),
        limit_case("`limit` of a lock", PERMITS_MAX, sizes(PERMITS_MAX as usize).map(number("limit"))),
        limit_case(
            "`permits` of a grant, if `limit` is 5",
            5,
            sizes(5).map(|permits| fresh(&format!("limit=5&permits={permits}"))),
        ),
        limit_case("sessions in one keepalive", KEEPALIVE_IDS_MAX, sizes(KEEPALIVE_IDS_MAX).map(keepalive)),
        limit_case(
            "prefixes of a tenant",
            TENANT_PREFIXES_MAX,
            sizes(TENANT_PREFIXES_MAX).map(tenant("prefixes", "locks:a/", "/**")),
        ),
        limit_case("subjects of a tenant", TENANT_SUBJECTS_MAX, sizes(TENANT_SUBJECTS_MAX).map(tenant("subjects", "user:u", ""))),
        limit_case("calls in one batch", BATCH_CALLS_MAX, sizes(BATCH_CALLS_MAX).map(batch)),
        limit_case(
            "entries on a page",
            PAGE_MAX,
            sizes(PAGE_MAX).map(|limit| raw("GET", &format!("/v1/sessions?limit={limit}"))),
        ),
        limit_case("request line and headers", format!("{HEAD_BYTES_MAX} bytes"), sizes(HEAD_BYTES_MAX).map(head)),
        limit_case("headers", HEADERS_MAX, sizes(HEADERS_MAX).map(headers)),
    ]
}

/// Fills a queue up to two places, then adds three waiters.
async fn waiters(cluster: &Cluster) -> Row {
    let client = cluster.client(0);
    let session = client.open_session("1h", "").await;
    let ask =
        |key: &str| Call::post(&format!("/v1/locks/crowded?session={}", session.id)).with("prefer", "respond-async").key(key);
    client.send(&ask(&new_key())).await.expect_status(200);
    let enter: Vec<_> = (0..WAITERS_AT_A_TIME)
        .map(|first| {
            let calls: Vec<Call> = (first..WAITERS_MAX - 2).step_by(WAITERS_AT_A_TIME).map(|_| ask(&new_key())).collect();
            let client = cluster.client(first);
            tokio::spawn(async move {
                for call in calls {
                    client.send(&call).await.expect_status(202);
                }
            })
        })
        .collect();
    all(enter).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answer = client.send(&ask(&new_key())).await;
        seen.push(format!("{} {}", answer.status, answer.code()).trim().to_owned());
    }
    client.send(&Call::delete(&format!("/v1/sessions/{}", session.id))).await.expect_status(204);
    Row { limit: "waiters of a lock", value: WAITERS_MAX.to_string(), seen: seen.try_into().expect("three") }
}

/// Opens one more connection; returns the answer and the connection.
async fn connect(address: &str, from: &str) -> (String, TcpStream) {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(format!("{from}:0").parse().expect("an address")).expect("this machine has all of 127.0.0.0/8");
    let mut stream = socket.connect(address.parse().expect("an address")).await.expect("the server takes connections");
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a request can be sent");
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    let status = answer.split(' ').nth(1).unwrap_or("nothing").to_owned();
    if status != "503" {
        return (status, stream);
    }
    assert!(answer.contains("application/problem+json") && answer.contains("Retry-After: 1"), "{answer}");
    let code = answer.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("without a code");
    (format!("503 {code}"), stream)
}

/// The last two connections that are accepted, and the first that is not.
async fn connections(address: &str, limit: &'static str, value: String, sources: &[&str], most: usize) -> Row {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    for number in 0..=most {
        let (answer, stream) = connect(address, sources[number % sources.len()]).await;
        open.push(stream);
        seen.push(answer);
    }
    let seen = seen.split_off(most - 2).try_into().expect("three");
    drop(open);
    Row { limit, value, seen }
}

/// The bytes that a server has read from its clients.
async fn received(address: &str) -> u64 {
    let text = reqwest::get(format!("http://{address}/metrics")).await.expect("an answer").text().await.expect("a text");
    let line = text.lines().find_map(|line| line.strip_prefix("fairhold_http_received_bytes_total "));
    line.and_then(|count| count.parse().ok()).expect("the received bytes are counted")
}

/// Unfinished bodies fill the share of one address, except for the size of one more body.
async fn bodies(address: &str) -> Row {
    const HELD: usize = 127;
    const EACH: usize = BODY_BYTES_MAX / 3 * 2;
    let before = received(address).await;
    let mut open = Vec::new();
    for number in 0..HELD {
        let mut stream = TcpStream::connect(address).await.expect("the server takes connections");
        let head = format!("PUT /v1/nodes/held-{number} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", EACH + 1);
        stream.write_all(head.as_bytes()).await.expect("a head can be sent");
        stream.write_all(&vec![b'x'; EACH]).await.expect("a body can be sent");
        open.push(stream);
    }
    let rest = BODIES_BYTES_PER_ADDRESS_MAX - HELD * EACH;
    let [within, at, beyond] = sizes(rest).map(list);
    // An extra body that arrived earlier could use the share of one of these.
    eventually("all bodies have arrived", Duration::from_secs(30), || async {
        (received(address).await >= before + (HELD * EACH) as u64).then_some(())
    })
    .await;
    let beyond = eventually("a body finds no room", Duration::from_secs(30), || async {
        Some(seen(address, &beyond).await).filter(|seen| seen.starts_with("503"))
    })
    .await;
    let seen = [seen(address, &within).await, seen(address, &at).await, beyond];
    drop(open);
    Row { limit: "bodies over 4 KiB from one address, together", value: format!("{BODIES_BYTES_PER_ADDRESS_MAX} bytes"), seen }
}

/// The state machine's answer as the API shows it: `crates/http/src/edge/error.rs` tests that.
fn code(result: Result<(), Rejection>) -> String {
    match result {
        Ok(()) => "taken".to_owned(),
        Err(Rejection::SessionsFull { .. } | Rejection::MemoryFull { .. }) => "429 rate_limited".to_owned(),
        Err(other) => panic!("{other}"),
    }
}

/// For limits that only the state machine itself can reach: its last two steps, and the refused one.
fn fill(limit: &'static str, most: usize, command: impl Fn(u128) -> Command, last: impl Fn(u128) -> Command) -> Row {
    let mut state = State::new();
    for number in 1..=most as u128 - 2 {
        assert!(state.apply(&command(number)).answer.result.is_ok(), "{limit}: {number}");
    }
    let seen = [most - 1, most, most + 1].map(|number| code(state.apply(&last(number as u128)).answer.result.map(|_| ())));
    Row { limit, value: most.to_string(), seen }
}

fn open(number: u128, key: Option<GrantId>) -> Command {
    Command::OpenSession(OpenSession {
        key,
        id: SessionId(number),
        timeout_ms: 10_000,
        name: String::new(),
        meta: Default::default(),
        at: WallMillis(0),
    })
}

fn machine() -> Vec<Row> {
    vec![
        fill("sessions of the cluster", SESSIONS_MAX, |number| open(number, None), |number| open(number, None)),
        fill(
            "ids remembered without a session, for at least 60 s",
            TOMBSTONES_MAX,
            |number| Command::Release { grant: GrantId::from_ulid(number), session: None, at: WallMillis(0) },
            |number| open(number, Some(GrantId::from_ulid(number))),
        ),
    ]
}

const HEAD: &str = "# Limits

A test (`tests/cluster/limits.rs`) sends requests to running nodes just below each limit, at it, and
just above it, and fails if the answers differ from this page. With `UPDATE_GOLDENFILES=1` it writes
the page. The numbers are in `crates/types/src/limits.rs`.

| limit | value | just within | at | just beyond |
|---|---|---|---|---|
";

const TAIL: &str = "
`--connections-max` (one for each 256 KiB of memory, up to 10000) and
`--connections-per-address-max` (an eighth of that) set the limits on connections. Behind a proxy
all clients share one address, so set both to the same number there. An IPv6 address counts as its
network of 64 bits. A node reserves one connection in twenty for addresses with fewer than 8
connections. When all others are in use, such an address still gets a connection, and the address
with the most connections loses its newest one that is idle or only reads.
`--listen-status HOST:PORT` serves `/livez`, `/readyz` and `/metrics` on a port where clients cannot
use up the connections. The test sets these limits low. It counts sessions and remembered ids in the
replicated state machine itself.

A node needs open files for more than its clients, so it lowers `--connections-max` at its start if
the limit on open files is too low. It first raises its soft limit to the hard one (`ulimit -Hn`).
If that limit less 1,024 is smaller than `--connections-max`, it accepts only that many connections,
lowers `--connections-per-address-max` in proportion, and logs a warning with both numbers. With a
limit below 1,200 it does not start. Both limits on connections
[can change](guides/configuration.md#change-it-while-the-node-runs) while the node runs.

If a body is too large, the node reads up to 64 MiB of it before it answers. `503 overloaded` means
that nothing was done: retry after `Retry-After`, or at another node. If a client is too slow, the
node closes the connection without an answer: the first byte must arrive within 15 s after
connecting, the head of a request within 5 s of its first byte, and the body within 30 s. Between
two requests a connection may be idle for 120 s, or for 10 s while more than three quarters of all
connections are in use. A client must read an answer at 1 KiB/s or faster.

If another server could read a request differently, the node answers `400` and closes the
connection. This applies to a line that ends with a bare LF, to two `Content-Length` headers, to
`Content-Length` together with `Transfer-Encoding`, and to lengths that are not made of digits.

With TLS, a handshake must be complete within 5 s. A node runs 64 handshakes at a time for each
processor, and one address may have half of them. Further ones wait for up to 10 s, and are closed
then. A connection beyond the limits on connections is closed without an answer, because a client
with TLS cannot read a plain one. Beside the memory in the table below, a connection with TLS may
have 32 KiB of encrypted bytes that wait for its socket, and a record of 18 KiB that has not arrived
whole. The plain port of `--listen-plain` shares the limits with the port with TLS.

Texts for people (`owner`, the `name` of a session, `reason` and `meta`) must not contain control
characters, or characters that are invisible or change the text direction (U+061C, U+200B to U+200F,
U+2028 to U+202E, U+2060 to U+2069, U+FEFF): `400`.

A JSON body of parameters has at most 64 KiB; a batch, a transaction, or a list of sessions or locks
at most 1.5 MiB. The node frees the memory of a body when it has read the parameters, so a waiting
request holds none of it.

A cluster has at most 1,000 roles of 100 rules, 10,000 bindings of roles, 10,000 disabled users,
1,000 [tenants](guides/access.md#tenants) and 100,000 tokens, 1,000 of them for one user. A rule and
a prefix of a tenant have at most 1,152 bytes, their pattern 1,024, and the name of a role, a user,
a tenant or a principal 128.

The file of administrators' tokens has at most 16 tokens of 16 to 4,096 characters.

A node has at most 16 providers of JWTs, with 16 attributes and 64 keys each. A JWT has at most
8 KiB and lives for at most 24 hours, and the clocks of its issuer and of the node may differ by
30 s.

An [audit log](guides/access.md#audit) has up to 10 files of 64 MiB. Up to 4 MiB of entries wait for
the disk, and as many that could not be written; further ones are lost and counted. An entry has at
most 64 names and 8 KiB of them. The log has at most 20 refusals of one caller in a second, and 500
of all callers; further ones are counted there.

The log has at most 10 [slow requests](guides/tracing.md#slow-requests) in a second, and up to 8,192
spans wait for the collector of [traces](guides/tracing.md#traces). Further ones are counted. The
node ignores a `traceparent` of more than 256 bytes.

The cluster keeps the newest 10,000 [administrative acts](guides/access.md#administrative-acts), and
8 MiB of them at most, or a sixteenth of the state's budget if that is less. Each text of an act has
at most 600 bytes. A longer one is cut, and ends with the hash of the whole text. An act counts 450
bytes and its texts.

A node makes one [backup](guides/backup.md) at a time for clients. A reader may take 30 s for each
block of it, of 512 KiB or of one larger value, and must take 256 KiB a second on average.
[Scheduled backups](guides/backup.md#on-a-schedule) are 1 minute to 30 days apart.

A node makes four long reads at a time: overviews, trees of waits, searches of locks, lists of
grants, and histories of all locks or at a point in time; while rights are enforced, also lists of
locks and nodes, and for users with few rights those of elections and events. One user may have two
of them, and so may all callers without credentials at one address. A read that has to wait longer
than its timeout gets `503 overloaded`.

A node keeps an answer in memory until the socket has taken it: up to 16 KiB for each connection,
and beyond that 128 MiB for one address and 256 MiB in total. If there is no memory for an answer, a
read gets `503 overloaded`, and so does a batch, before any of its calls starts. Any other call has
been made by then: it gets `504` with the outcome `unknown`, so retry it with the same
`Idempotency-Key`. Only transactions, keepalives of many sessions and grants of many locks have
answers that long.

**The disk of a node** holds at most 3 × the state + 256 MiB at any time: the newest snapshot, the
next one while the node writes it, the log since the newest snapshot, 32 MiB of the log before it,
and what RocksDB needs to merge its tables. The state is what `raft_snapshot_bytes` reports: values,
and some 250 bytes for each node, session and remembered id. A fresh node takes 22 MiB.

The next snapshot is due when the log since the newest one has half the size of the state, or 32 MiB
if that is more. The log may grow by the same amount again while the node writes the snapshot. If it
has grown by half of that, the leader answers large writes with `503 overloaded`; if it has grown by
all of it, all writes that need space, until the snapshot is complete. This assumes that the other
nodes write snapshots about as fast as the leader does. While a leader sends a snapshot to another
node, it keeps that snapshot, and as many more bytes of the log, so that the other node can catch
up: at most 5 × the state + 256 MiB. A learner gets it slowly at first, so that
clients do not wait: 16 MiB a second, and twice as much after every 10 s
([0062](internals/decisions/0062-catching-up.md)).

While fewer than a majority of the nodes have 256 MiB free, the leader refuses writes that need
space (`503 disk_low`). Releases, deletes and keepalives still work, but a transaction over 64 KiB
always needs space: split a large delete. A start needs 128 MiB, and first frees the log entries
that the snapshot covers.

**The commands** trust no server with their memory: a command ends with an error when an answer has
more than 8 MiB, or a line of a stream more than 1 MiB. `doctor`, `top`, `cluster members` and
`cluster alarms` read at most 2 MiB of each answer to a probe, and ask at most 34 members that they
learn from others, twice as many as a cluster has. What a server says is printed with its control
characters escaped.

**The memory of a node** is 0.2 GiB, plus the values, 0.5 KB for each node, and 1 to 9 KB for each
grant or session, depending on the length of its texts. Building a snapshot adds a few MiB, plus the
changes made meanwhile. A start needs the size of the state once; a node that receives a snapshot
needs it twice. Plan for twice the state on every node, because any node may fall behind and receive
a snapshot.

**Between the nodes**, a round trip must stay well below the heartbeat interval: above that, no
leader lasts and the cluster serves nothing. The interval is 50 ms with the timing profile `lan`,
which suits round trips up to 10 ms, and up to 800 ms with a [slower
profile](guides/regions.md#the-timing-profile). If a round trip is too long for the profile, the
leader raises the alarm [`timing`](alarms.md#the-alarms).
";

const BUDGET: &str = "
## The state's budget

Every node keeps the whole state in memory, so the state has a budget in bytes: the smallest amount
that any node can hold. That amount is `serve --state-bytes-max`, or by default an eighth of the
memory of the node's cgroup or machine: 128 MiB of 1 GiB. The share is small because the memory has
several copies of the state while a node builds, sends or installs a snapshot. `/v1/cluster` shows
`state_bytes` and `state_bytes_max`, and `doctor` warns at 80 %.

From 75 % on, the cluster refuses a new node or a larger value with `429 state_full`, so that values
cannot stop locks. From 95 % on, it refuses a grant or a place in a queue, a session, and a lock's
settings. The last 5 % are for ids that the cluster remembers for a minute: it refuses writes that
enlarge nothing, and changes of a grant with a key, only at 100 %. It never refuses requests that
free something: deletes, releases, ends of sessions, breaks and expiries. Nor does it refuse
keepalives, or retries of completed requests with the same key. It judges a transaction as a whole:
a transaction that makes the state smaller always passes, and so does a transaction that only
deletes.

Each item counts this many bytes, plus the lengths of its texts and values:

";

const BUDGET_RULES: &str = "
The history takes at most an eighth of the budget; beyond that, the cluster forgets the oldest
entries. It remembers the results of a write up to 4,096 bytes, as this table counts them. If you
repeat a larger write with its key, it is not done again, and the answer has no results:
`{\"succeeded\":true,\"results\":[],\"revision\":57,\"replayed\":true}`.

An unused lock is forgotten after 10 minutes. Unused locks take at most an eighth of the budget:
beyond that, the cluster forgets the locks that were unused for longest, once nobody has used them
for 10 seconds.

**Memory:** give a node eight times the size of the state that you need, and at least 256 MiB. If
clients acquire and release 1,000 locks a second, the remembered ids alone take 20 MiB.

While the process uses more than 85 % of its memory, the node refuses requests that create something
with `503 overloaded`, and `/readyz?verbose` says so. It still accepts requests that free something.
";

/// The cost of each item in the state's budget.
fn weights() -> String {
    let in_a_lock = NODE_BYTES + CONTENDER_BYTES + ENDED_ID_BYTES;
    let rows = [
        ("node", NODE_BYTES, "its path and its value".to_owned()),
        ("lock", NODE_BYTES + LOCK_BYTES + STATISTICS_BYTES, "its name three times; with each missing level above it".to_owned()),
        ("grant, held or queued, in each of its locks", in_a_lock, "the name of its lock twice, `owner`, `meta`".to_owned()),
        ("grant without a session, in addition", SESSION_BYTES, "—".to_owned()),
        ("grant with a `lock_delay`, in addition, in each of its locks", REMEMBERED_BYTES, "—".to_owned()),
        ("each further hold of a grant", HOLD_BYTES, "the name of its lock, `meta`".to_owned()),
        ("session", SESSION_BYTES, "its name, `meta`".to_owned()),
        ("`meta`, if present", META_BYTES, format!("{META_PAIR_BYTES} for each pair, and its texts")),
        ("ended grant that a session remembers, up to 1,024 of them", ENDED_ID_BYTES, "—".to_owned()),
        (
            "id or key that is remembered for a minute",
            REMEMBERED_BYTES,
            format!("{RESULT_BYTES} for each result of its write, and the paths of sequential nodes"),
        ),
        ("key of a change to a grant, up to 16 of them", CHANGE_KEY_BYTES, "—".to_owned()),
        ("hold in the history", HISTORY_BYTES, "the names of its lock and its owner, who ended it and why".to_owned()),
    ];
    let mut table = "| what | bytes | and |\n|---|---|---|\n".to_owned();
    for (what, bytes, besides) in rows {
        writeln!(table, "| {what} | {bytes} | {besides} |").expect("writing to a string succeeds");
    }
    table
}

fn page(rows: &[Row]) -> String {
    let mut page = HEAD.to_owned();
    for Row { limit, value, seen: [within, at, beyond] } in rows {
        writeln!(page, "| {limit} | {value} | {within} | {at} | {beyond} |").expect("writing to a string succeeds");
    }
    page + TAIL + BUDGET + &weights() + BUDGET_RULES + &crate::memory::section()
}

/// Rows of a cluster with few connections. The connections of the tests' own client close within seconds.
async fn few_connections() -> [Row; 2] {
    let (all, each) = (CONNECTIONS.to_string(), CONNECTIONS_PER_ADDRESS.to_string());
    let flags = ["--connections-max", &all, "--connections-per-address-max", &each];
    let cluster = Cluster::start_with(&flags).await;
    let address = cluster.nodes[0].url.trim_start_matches("http://").to_owned();
    let row = |limit, value: String, sources: &'static [&'static str], most| {
        let address = address.clone();
        async move {
            eventually("all places are free", Duration::from_secs(30), || async {
                let row = connections(&address, limit, value.clone(), sources, most).await;
                (row.seen[1] == "200").then_some(row)
            })
            .await
        }
    };
    let per_address = format!("an eighth of all, here {CONNECTIONS_PER_ADDRESS}");
    let in_all = format!("{CONNECTIONS_MAX}, here {CONNECTIONS}, {RESERVE} of them reserved");
    [
        row("connections from one address", per_address, &["127.0.0.2"], CONNECTIONS_PER_ADDRESS).await,
        row("connections to one node", in_all, &["127.0.0.3", "127.0.0.4"], CONNECTIONS - RESERVE).await,
    ]
}

fn compare(seen: &str) {
    let path = Path::new("../../docs/limits.md");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(path, seen).expect("the page can be written");
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    let differs = seen.lines().zip(committed.lines().chain(std::iter::repeat(""))).find(|(seen, committed)| seen != committed);
    assert!(committed == seen, "docs/limits.md differs from the results (UPDATE_GOLDENFILES=1 writes it): {differs:?}");
}

#[test]
fn every_limit_matches_its_page() {
    run_exclusive(LONG, async {
        let all_connections = CONNECTIONS.max(200).to_string();
        let cluster =
            Cluster::start_with(&["--connections-max", &all_connections, "--connections-per-address-max", &all_connections])
                .await;
        let address = cluster.nodes[0].url.trim_start_matches("http://").to_owned();
        let mut rows = Vec::new();
        for LimitCase { limit, value, requests } in names_and_values().into_iter().chain(times_and_counts()) {
            let mut answers = Vec::new();
            for request in &requests {
                answers.push(seen(&address, request).await);
            }
            rows.push(Row { limit, value, seen: answers.try_into().expect("three") });
        }
        rows.push(bodies(&address).await);
        rows.push(waiters(&cluster).await);
        drop(cluster);
        rows.extend(few_connections().await);
        rows.extend(machine());
        compare(&page(&rows));
    });
}
