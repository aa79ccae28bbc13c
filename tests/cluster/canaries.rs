//! Secrets stay where they belong: 22 of them are planted, each in another place, every route and error is driven, nodes are
//! killed and started again, and everything that any process has said or stored is searched for them.

#[path = "canaries/commands.rs"]
mod commands;
#[path = "canaries/routes.rs"]
mod routes;
#[path = "canaries/search.rs"]
mod search;

use crate::{
    certificates::cert,
    client::new_key,
    harness::{Cluster, LONG, NODES, Origin, PEER_KEY, eventually, free_port, report, run_exclusive, write_secret},
    leaderships::now,
};
use fairhold_trust::jwt_for_tests::{self, AUDIENCE, ISSUER, TestIssuer};
use fairhold_types::time::WallMillis;
use futures_util::{StreamExt as _, stream};
use routes::{Request, Shown};
use search::{Canary, Evidence, Rule, leaks};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::timeout;

const CANARIES: usize = 22;
/// How long an answer is read: a stream does not end.
const READ_FOR: Duration = Duration::from_millis(400);
/// Requests at the same time.
const AT_ONCE: usize = 12;
/// Everything is logged but each step of Raft, which no secret takes part in but by the commands in its messages.
const LOG: &str = "trace,openraft=debug";
const SOON: Duration = Duration::from_secs(30);

/// Secrets that no request of this test shows: programs read them from files, or make them.
const ONLY_IN_FILES: [&str; 6] = [
    "the id of the lock command's grant",
    "the key of the authority",
    "a node's key for clients",
    "a node's key for peers",
    "the key of a user's certificate",
    "the peer key",
];

/// A cluster with a secret in each place, and what was said.
struct Planted {
    cluster: Cluster,
    http: reqwest::Client,
    urls: Vec<String>,
    shown: Shown,
    canaries: Vec<Canary>,
    evidence: Vec<Evidence>,
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A secret that no checksum protects.
fn secret(name: &str) -> String {
    format!("canary.{name}.{}", new_key())
}

/// Certificates, keys, tokens and configurations of the nodes. Returns the lines of the administrators' file, and the issuer
/// of JWTs.
async fn prepare(cluster: &mut Cluster, environment: &[(String, OsString)]) -> ([String; 2], TestIssuer, Vec<String>) {
    let folder = cluster.folder().to_owned();
    let mut lines = vec!["ca --name prod --out ca".to_owned(), "client --ca ca --user ci --out certs".to_owned()];
    for port in ["clients", "peers"] {
        lines.extend((1..=NODES).map(|id| format!("node --ca ca --id {id} --host 127.0.0.1 --out {port}")));
    }
    for line in lines {
        let (code, said) = cert(&folder, &line).await;
        assert_eq!(code, 0, "{line}: {said}");
    }
    let administrators = [secret("administrator"), secret("administrator")];
    write_secret(&folder.join("admin"), &administrators.join("\n"));
    let issuer = TestIssuer::new("ES256", "1");
    fs::write(folder.join("jwks.json"), jwt_for_tests::jwks(&[&issuer])).expect("a file of keys");
    let ports: Vec<u16> = cluster.nodes.iter().map(|_| free_port()).collect();
    let urls: Vec<String> = ports.iter().map(|port| format!("https://127.0.0.1:{port}")).collect();
    let members: Vec<String> =
        cluster.nodes.iter().zip(&urls).map(|(node, url)| format!("{}={url},{}", node.id, node.peer_address)).collect();
    for (node, port) in cluster.nodes.iter_mut().zip(ports) {
        let (id, file) = (node.id, |name: String| text(&folder.join(name)));
        let config = format!(
            "[jwt.idp]\nissuer = \"{ISSUER}\"\naudience = \"{AUDIENCE}\"\njwks = \"{}\"\n\
             [audit]\nfile = \"{}\"\nwhat = \"all\"\n",
            file("jwks.json".to_owned()),
            file(format!("audit-{id}.log"))
        );
        fs::write(folder.join(format!("{id}.toml")), config).expect("a configuration");
        let options = [
            ("--cert", file(format!("clients/node-{id}.crt"))),
            ("--key", file(format!("clients/node-{id}.key"))),
            ("--client-ca", file("ca/ca.crt".to_owned())),
            ("--peer-cert", file(format!("peers/node-{id}.crt"))),
            ("--peer-key", file(format!("peers/node-{id}.key"))),
            ("--peer-ca", file("ca/ca.crt".to_owned())),
            ("--peer-tls", "required".to_owned()),
            ("--cluster-name", "prod".to_owned()),
            ("--admin-token-file", file("admin".to_owned())),
            ("--config", file(format!("{id}.toml"))),
            ("--listen", format!("127.0.0.1:{port}")),
            ("--listen-plain", node.url.trim_start_matches("http://").to_owned()),
            ("--log", LOG.to_owned()),
        ];
        node.origin = Origin::Members(members.clone());
        node.flags = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        node.environment = environment.to_vec();
        node.start();
    }
    cluster.ready().await;
    (administrators, issuer, urls)
}

impl Planted {
    async fn start(environment: &[(String, OsString)]) -> Planted {
        let mut cluster = Cluster::plan();
        let (administrators, issuer, urls) = prepare(&mut cluster, environment).await;
        let file = |name: &str| cluster.folder().join(name);
        let mut claims = jwt_for_tests::claims(WallMillis(now()));
        claims["sub"] = json!("builder");
        let shown = Shown {
            administrator: administrators[0].clone(),
            user: String::new(),
            jwt: issuer.sign(&claims),
            grant: new_key(),
            session: String::new(),
            basic: secret("basic"),
            query: String::new(),
            path: String::new(),
            body: String::new(),
            cookie: secret("cookie"),
            proxy: secret("proxy"),
            long: secret("long"),
        };
        let plain = |name, secret: &str| Canary::new(name, Rule::Nowhere, secret);
        let canaries = vec![
            plain("the administrators' token", &administrators[0]).or(administrators[1].as_bytes()),
            plain("a JWT", &shown.jwt).or(shown.jwt.rsplit('.').next().expect("a signature")),
            Canary::key("the key of the authority", &file("ca/ca.key")),
            Canary::key("a node's key for clients", &file("clients/node-1.key")),
            Canary::key("a node's key for peers", &file("peers/node-1.key")),
            Canary::key("the key of a user's certificate", &file("certs/client-ci.key")),
            plain("the peer key", PEER_KEY),
            Canary::new("a grant's id by the client", Rule::Capability, &shown.grant),
            plain("credentials of another scheme", &shown.basic),
            plain("a cookie", &shown.cookie),
            plain("a credential for a proxy", &shown.proxy),
            plain("a header that is too long", &shown.long),
        ];
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).redirect(reqwest::redirect::Policy::none());
        let http = http.build().expect("an HTTP client");
        Planted { cluster, http, urls, shown, canaries, evidence: Vec::new() }
    }

    /// Sends a request to a node, and keeps the answer as far as it comes. `None` if the node closed the connection.
    async fn answer(&self, node: usize, request: &Request) -> Option<(u16, String)> {
        let method = reqwest::Method::from_bytes(request.method.as_bytes()).expect("a method");
        let mut call = self.http.request(method, format!("{}{}", self.cluster.nodes[node].url, request.path));
        for (name, value) in &request.headers {
            call = call.header(name, value);
        }
        let mut response = timeout(SOON, call.body(request.body.clone()).send()).await.ok()?.ok()?;
        let mut said = format!("{}\n{:?}\n", response.status(), response.headers());
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                said.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        timeout(READ_FOR, read).await.ok();
        Some((response.status().as_u16(), said))
    }

    fn evidence_of(node: usize, request: &Request, said: &str) -> Evidence {
        let mut sent = format!("{} {}\n", request.method, request.path);
        for (name, value) in &request.headers {
            writeln!(sent, "{name}: {value}").expect("writing to a string succeeds");
        }
        let place = format!("the answer of node index {node} to {} {}", request.method, request.path);
        Evidence::answer(place, said, [sent.as_bytes(), &request.body].concat())
    }

    /// Sends a request of the administrator that succeeds, and returns its JSON. `gives` names the secret in the answer.
    async fn administer(&mut self, request: Request, gives: Option<&'static str>) -> Value {
        let administrator = self.shown.administrator.clone();
        self.succeed(request.bearer(&administrator), gives).await
    }

    async fn succeed(&mut self, request: Request, gives: Option<&'static str>) -> Value {
        let (status, said) = eventually("an answer", SOON, || self.answer(0, &request)).await;
        assert!((200..300).contains(&status), "{} {}: {said}", request.method, request.path);
        self.evidence.push(Evidence { gives, ..Planted::evidence_of(0, &request, &said) });
        said.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    }

    /// A token of this user, made by the node.
    async fn token(&mut self, name: &'static str, user: &str) -> String {
        let create = Request::new("POST", "/v1/access/tokens").json(&json!({ "user": user }));
        let created = self.administer(create, Some(name)).await;
        let token = created["token"].as_str().expect("a token").to_owned();
        self.canaries.push(Canary::token(name, &token));
        token
    }

    /// Gives the user `ci` a few rights, and plants the secrets that nodes make.
    async fn plant(&mut self) {
        let rules = ["acquire,share,inspect,fence locks:orders/**", "read,write nodes:jobs/**"];
        self.administer(Request::new("PUT", "/v1/access/roles/deployers").json(&json!({ "rules": rules })), None).await;
        for binding in ["deployers/user:ci", "viewer/idp:*", "admin/user:root"] {
            self.administer(Request::new("PUT", &format!("/v1/access/bindings/{binding}")), None).await;
        }
        self.shown.user = self.token("a user's token", "ci").await;
        self.shown.query = self.token("a token in a query", "ci").await;
        self.shown.path = self.token("a token in a path", "ci").await;
        self.shown.body = self.token("a token in a body", "ci").await;
        let join = "a join token";
        let created = self.administer(Request::new("POST", "/v1/cluster/join-tokens").json(&json!({})), Some(join)).await;
        self.canaries.push(Canary::new(join, Rule::Nowhere, created["token"].as_str().expect("a token")));
        self.administer(Request::new("POST", "/v1/access/enable"), None).await;

        let user = self.shown.user.clone();
        let by_user = |method: &str, path: &str| Request::new(method, path).bearer(&user);
        let open = by_user("POST", "/v1/sessions").json(&json!({ "ttl": "10m" }));
        let session = "a session's id";
        let opened = self.succeed(open, Some(session)).await;
        self.shown.session = opened["id"].as_str().expect("an id").to_owned();
        self.canaries.push(Canary::new(session, Rule::Capability, &self.shown.session));
        let key = self.shown.grant.clone();
        self.succeed(by_user("POST", "/v1/locks/orders%2F42?ttl=10m").with("idempotency-key", &key), None).await;
        let grant = "a grant's id by a node";
        let held = self.succeed(by_user("POST", "/v1/locks/orders%2F43?ttl=10m"), Some(grant)).await;
        self.canaries.push(Canary::new(grant, Rule::Capability, held["id"].as_str().expect("an id")));
        let write_key = new_key();
        let put = self.shown.administrator.clone();
        let put = Request::new("PUT", "/v1/nodes/jobs?parents").bearer(&put).with("idempotency-key", &write_key);
        self.succeed(put, None).await;
        self.canaries.push(Canary::new("the key of a write", Rule::Capability, &write_key));
        let in_session = format!("/v1/locks/orders%2F44?session={}", self.shown.session);
        self.succeed(by_user("POST", &in_session), None).await;
    }

    /// Sends all requests of the walk, spread over the nodes. Returns the statuses.
    async fn walk(&mut self) -> BTreeSet<u16> {
        let requests = routes::requests(&self.shown);
        let this = &*self;
        let answers = stream::iter(requests.iter().enumerate()).map(|(number, request)| async move {
            let node = number % NODES;
            let (status, said) = this.answer(node, request).await?;
            Some((status, Planted::evidence_of(node, request, &said)))
        });
        let answers: Vec<Option<(u16, Evidence)>> = answers.buffer_unordered(AT_ONCE).collect().await;
        let answered = answers.len();
        let (statuses, evidence): (BTreeSet<u16>, Vec<Evidence>) = answers.into_iter().flatten().unzip();
        report(&format!("canaries: {} of {answered} requests have an answer, with {statuses:?}", evidence.len()));
        self.evidence.extend(evidence);
        statuses
    }

    /// What each node lists, counts and streams.
    async fn look(&mut self) {
        for node in 0..NODES {
            for path in [
                "/metrics",
                "/readyz?verbose",
                "/v1/cluster?digest",
                "/v1/watch?initial",
                "/v1/watch?from=1",
                "/v1/watch?cluster",
                "/v1/sessions",
                "/v1/locks",
                "/v1/grants",
                "/v1/locks/orders%2F42/history",
                "/v1/locks/orders%2F43",
                "/v1/access/tokens",
                "/v1/cluster/join-tokens",
                "/v1/nodes/?recursive&meta",
            ] {
                let request = Request::new("GET", path).bearer(&self.shown.administrator);
                let (_, said) = eventually("an answer", SOON, || self.answer(node, &request)).await;
                self.evidence.push(Planted::evidence_of(node, &request, &said));
            }
        }
    }

    /// Writes snapshots, kills one node, and stops another one.
    async fn crash(&mut self) {
        self.cluster.expect_elections(2, "the killed node or the stopped one may be the leader");
        for node in 0..NODES {
            let snapshot = Request::new("POST", "/v1/cluster/snapshot").bearer(&self.shown.administrator);
            let (_, said) = eventually("an answer", SOON, || self.answer(node, &snapshot)).await;
            self.evidence.push(Planted::evidence_of(node, &snapshot, &said));
        }
        self.cluster.nodes[0].kill().await;
        self.cluster.restart(0).await;
        self.cluster.nodes[1].terminate().await;
        self.cluster.restart(1).await;
    }

    /// Stops the nodes, and takes what they have written.
    async fn take_files(&mut self) {
        for node in &mut self.cluster.nodes {
            node.terminate().await;
            self.evidence.push(Evidence::new(format!("the log of node {}", node.id), node.log_text()));
            self.evidence.extend(Evidence::data(&node.data));
        }
        let folder = self.cluster.folder();
        for id in 1..=NODES {
            let audit = folder.join(format!("audit-{id}.log"));
            self.evidence.push(Evidence::new(text(&audit), fs::read(&audit).expect("an audit log")));
        }
    }

    /// The bytes in all places whose name has this part.
    fn said_in(&self, part: &str) -> usize {
        self.evidence.iter().filter(|said| said.place.contains(part)).map(|said| said.bytes.len()).sum()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.cluster.folder().join(name)
    }
}

/// Plants the secrets, drives everything, and returns what was said.
async fn drive(environment: &[(String, OsString)]) -> Planted {
    let mut planted = Planted::start(environment).await;
    planted.plant().await;
    planted.commands().await;
    planted.look().await;
    let statuses = planted.walk().await;
    for status in [200, 201, 204, 400, 401, 403, 404, 405, 409, 431] {
        assert!(statuses.contains(&status), "no request of the walk was answered with {status}: {statuses:?}");
    }
    planted.look().await;
    planted.crash().await;
    planted.look().await;
    planted.take_files().await;
    planted
}

/// Shows that a secret would be found in each kind of place: in the log, the audit log, the data, an answer, and the output of a
/// command.
fn assert_each_place_is_searched(planted: &Planted) {
    for place in ["the log of node 1", "audit-1.log", "/node-1/", "the answer of node index 0", "fairhold locks ls", "bundle.tar"]
    {
        assert!(planted.said_in(place) > 0, "nothing was said in {place}");
        let first = planted.evidence.iter().find(|said| said.place.contains(place)).expect("it is there");
        for canary in planted.canaries.iter().filter(|canary| !canary.may_be_data()) {
            let told = Evidence { bytes: [&first.bytes[..], canary.text()].concat(), gives: None, ..first.clone() };
            assert!(!leaks(std::slice::from_ref(canary), &[told]).is_empty(), "{} would not be found in {place}", canary.name);
        }
    }
}

#[test]
fn no_secret_leaves_its_place_whatever_is_asked_and_whatever_crashes() {
    run_exclusive(2 * LONG, async {
        let planted = drive(&[]).await;
        assert_eq!(planted.canaries.len(), CANARIES);
        for canary in &planted.canaries {
            let is_shown = planted.evidence.iter().any(|said| canary.is_in(&said.request) || said.gives == Some(canary.name));
            assert!(is_shown || ONLY_IN_FILES.contains(&canary.name), "nothing shows {}", canary.name);
        }
        assert_each_place_is_searched(&planted);
        let found = leaks(&planted.canaries, &planted.evidence);
        let (places, bytes) = (planted.evidence.len(), planted.said_in(""));
        report(&format!("canaries: {CANARIES} planted, {} found in {places} places with {bytes} bytes", found.len()));
        assert!(found.is_empty(), "{} leaks:\n{}", found.len(), found.join("\n"));
    });
}

/// Only builds with planted bugs have this test.
#[cfg(feature = "failpoints")]
#[test]
fn a_planted_leak_is_found() {
    run_exclusive(2 * LONG, async {
        let planted = drive(&[("FAIRHOLD_PLANTED_LEAK".to_owned(), "1".into())]).await;
        let found = leaks(&planted.canaries, &planted.evidence);
        assert!(found.iter().any(|leak| leak.starts_with("a user's token is in the log of node ")), "{found:?}");
    });
}
