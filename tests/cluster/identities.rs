//! Who a caller is, by a certificate or by a JWT: a real node, the commands, and credentials that end while they are used.

use crate::{
    client::{Answer, Call},
    commands::output_of,
    harness::{Cluster, Origin, SHORT, eventually, free_port, program, run_parallel, write_secret},
    leaderships::now,
};
use fairhold_trust::{
    authority_for_tests::{TestAuthority, TestPair, Wanted},
    ca_directory::CaDirectory,
    client_port::ClientTls,
    jwt_for_tests::{self, AUDIENCE, ISSUER, TestIssuer},
    stream::TlsStream,
};
use fairhold_types::time::WallMillis;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
    sync::Mutex,
};

const FILE_TOKEN: &str = "s3cret-of-the-file";
/// What a node is told must show within this time.
const SOON: Duration = Duration::from_secs(30);
/// How long the certificate of a client lives that ends while its connection goes on. A handshake is much faster.
const SHORT_LIFE_SECONDS: u64 = 12;

/// A node with TLS, an administrators' token and a provider of JWTs. It enforces access rights: `deployers` may take locks
/// below `deploy`, and those of a team below its name. The harness itself uses the plain port.
pub(crate) struct Guarded {
    pub(crate) cluster: Cluster,
    issuer: TestIssuer,
    /// A second authority of clients, which issues what `fairhold cert` does not.
    pub(crate) other_authority: TestAuthority,
    pub(crate) address: String,
}

impl Guarded {
    async fn start() -> Guarded {
        Guarded::start_with(&[]).await
    }

    /// Like `start`, with further flags of the node.
    pub(crate) async fn start_with(more: &[&str]) -> Guarded {
        let mut cluster = Cluster::plan_of(1);
        let folder = cluster.folder().to_owned();
        let ca = CaDirectory::create(&folder.join("ca"), &"prod".parse().expect("a name"), 10).expect("an authority");
        let other_authority = TestAuthority::new();
        let pair = ca.authority().issue_node(&["127.0.0.1".to_owned()], Some(1), 5).expect("a certificate");
        let (cert, key) = ca.write_pair(&folder, "node", &pair).expect("files");
        let of_both = fs::read_to_string(folder.join("ca.crt")).expect("the authority") + other_authority.cert();
        fs::write(folder.join("clients.crt"), of_both).expect("the authorities of clients");
        write_secret(&folder.join("token"), FILE_TOKEN);
        let issuer = TestIssuer::new("ES256", "1");
        write_keys(&folder, &[&issuer]);
        let jwks = folder.join("jwks.json");
        let config = format!(
            "[jwt.idp]\nissuer = \"{ISSUER}\"\naudience = \"{AUDIENCE}\"\njwks = \"{}\"\n\
             attributes = {{ team = \"/org/team\" }}\n",
            jwks.display()
        );
        fs::write(folder.join("fairhold.toml"), config).expect("a configuration");
        let (address, node) = (format!("127.0.0.1:{}", free_port()), &mut cluster.nodes[0]);
        node.origin = Origin::Members(vec![format!("1=https://{address},{}", node.peer_address)]);
        let plain = node.url.trim_start_matches("http://").to_owned();
        let files = [
            ("--cert", cert),
            ("--key", key),
            ("--client-ca", folder.join("clients.crt")),
            ("--admin-token-file", folder.join("token")),
            ("--config", folder.join("fairhold.toml")),
        ];
        let ports = ["--listen", &address, "--listen-plain", &plain].map(str::to_owned);
        let more = more.iter().map(|&flag| flag.to_owned());
        node.flags = files.iter().flat_map(|(flag, file)| [(*flag).to_owned(), text(file)]).chain(ports).chain(more).collect();
        node.start();
        cluster.ready().await;
        let guarded = Guarded { cluster, issuer, other_authority, address };
        guarded.enforce().await;
        guarded
    }

    async fn enforce(&self) {
        let rules = json!({ "rules": ["acquire,inspect locks:deploy/**", "acquire,inspect locks:{team}/**"] });
        self.admin(Call::put("/v1/access/roles/deployers", "").json(&rules)).await.expect_status(200);
        for binding in ["admin/user:root", "deployers/user:ci", "deployers/idp:*"] {
            self.admin(Call::put(&format!("/v1/access/bindings/{binding}"), "")).await.expect_status(204);
        }
        self.admin(Call::post("/v1/access/enable")).await.expect_status(200);
    }

    pub(crate) async fn admin(&self, call: Call) -> Answer {
        self.with_token(call, FILE_TOKEN).await
    }

    async fn with_token(&self, call: Call, token: &str) -> Answer {
        self.cluster.client(0).send(&call.with("authorization", &format!("Bearer {token}"))).await
    }

    /// The status of a call with this token that needs nothing else.
    async fn status(&self, token: &str) -> u16 {
        self.with_token(Call::get("/v1/access/whoami"), token).await.status
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.cluster.folder().join(name)
    }

    /// `fairhold ARGUMENTS` at the port with TLS.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.args(arguments).env("FAIRHOLD_ENDPOINT", format!("https://{}", self.address));
        command.env("FAIRHOLD_CACERT", self.file("ca.crt")).kill_on_drop(true);
        command
    }

    /// The certificate and the key of a user, made by `fairhold cert client`.
    pub(crate) async fn certified(&self, user: &str) -> (String, String) {
        let arguments = ["cert", "client", "--user", user, "--ca", &text(&self.file("ca")), "--out", &text(&self.file(user))];
        let made = program().args(arguments).output().await.expect("the program runs");
        output_of(&made, 0);
        let file = |end: &str| text(&self.file(user).join(format!("client-{user}.{end}")));
        (file("crt"), file("key"))
    }

    /// A connection with TLS that stays open.
    async fn connect(&self, pair: Option<(PathBuf, PathBuf)>) -> Kept {
        let client = ClientTls::load(&self.file("ca.crt"), pair).expect("the files of a client");
        let socket = TcpStream::connect(&self.address).await.expect("a connection");
        Kept(client.connect(socket, "127.0.0.1").await.expect("TLS"))
    }

    /// Likewise, with a certificate of the second authority.
    async fn connect_with(&self, pair: &TestPair) -> Kept {
        let (cert, key) = (self.file("other.crt"), self.file("other.key"));
        fs::write(&cert, &pair.cert).expect("a certificate");
        fs::write(&key, &pair.key).expect("a key");
        self.connect(Some((cert, key))).await
    }

    fn jwt(&self, changes: &Value) -> String {
        signed(&self.issuer, changes)
    }
}

/// A JWT of this issuer that is valid now, with these claims too.
fn signed(issuer: &TestIssuer, changes: &Value) -> String {
    let mut claims = jwt_for_tests::claims(WallMillis(now()));
    claims.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
    issuer.sign(&claims)
}

fn write_keys(folder: &Path, issuers: &[&TestIssuer]) {
    fs::write(folder.join("jwks.json"), jwt_for_tests::jwks(issuers)).expect("a file of keys");
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A connection with TLS that stays open.
struct Kept(TlsStream<TcpStream>);

impl Kept {
    /// The status and the body of `GET /v1/access/whoami`, with this header.
    async fn whoami(&mut self, header: &str) -> (u16, Value) {
        let request = format!("GET /v1/access/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}\r\n");
        self.0.write_all(request.as_bytes()).await.expect("a request");
        let mut bytes = Vec::new();
        loop {
            assert!(self.0.read_buf(&mut bytes).await.expect("an answer") > 0, "the connection ended");
            let answer = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = answer.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            if body.len() < length.expect("a length").parse().expect("a number") {
                continue;
            }
            let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
            return (status, serde_json::from_str(body).expect("JSON"));
        }
    }

    async fn refused(&mut self, header: &str) -> String {
        let (status, body) = self.whoami(header).await;
        assert_eq!((status, &body["code"]), (401, &"unauthenticated".into()), "{body}");
        body["credential"].as_str().expect("what is wrong").to_owned()
    }
}

#[test]
fn a_user_takes_a_lock_with_a_certificate() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (cert, key) = guarded.certified("ci").await;
        let lock = |name: &'static str, pair: Option<(&str, &str)>| {
            let mut command = guarded.command(&["lock", name]);
            if let Some((cert, key)) = pair {
                command.args(["--cert", cert, "--key", key]);
            }
            async move { command.args(["--", "echo", "held"]).output().await.expect("the program runs") }
        };
        assert_eq!(output_of(&lock("deploy/web", Some((&cert, &key))).await, 0), "held\n");
        let denied = output_of(&lock("db", Some((&cert, &key))).await, 77);
        assert!(denied.contains("no rule of deployers allows acquire on locks:db"), "{denied}");
        let (other_cert, other_key) = guarded.certified("other").await;
        let nobody = output_of(&lock("deploy/web", Some((&other_cert, &other_key))).await, 77);
        assert!(nobody.contains("no role is bound to user:other"), "{nobody}");
        let missing = output_of(&lock("deploy/web", None).await, 77);
        assert!(missing.contains("the request has no credential"), "{missing}");

        let mut kept = guarded.connect(Some((cert.into(), key.into()))).await;
        let (status, shown) = kept.whoami("").await;
        assert_eq!((status, &shown["principal"], &shown["kind"]), (200, &"user:ci".into(), &"certificate".into()), "{shown}");
        assert_eq!(shown["roles"], json!(["deployers"]));
        assert!(shown["ends"].as_str().is_some_and(|end| end.ends_with('Z')), "{shown}");
        let created = guarded.admin(Call::post("/v1/access/tokens").json(&json!({ "user": "root" }))).await.expect_status(201);
        let (_, shown) = kept.whoami(&format!("Authorization: Bearer {}\r\n", created.string("token"))).await;
        assert_eq!((&shown["principal"], &shown["kind"]), (&"user:root".into(), &"token".into()), "a token goes first");
        assert_eq!(kept.refused("Authorization: Bearer wrong\r\n").await, "unknown");

        let disabled = |disabled: bool| Call::put("/v1/access/users/ci", "").json(&json!({ "disabled": disabled }));
        guarded.admin(disabled(true)).await.expect_status(200);
        assert_eq!(kept.refused("").await, "revoked", "on a connection that was open before");
        guarded.admin(disabled(false)).await.expect_status(200);
        assert_eq!(kept.whoami("").await.0, 200);
    });
}

#[test]
fn a_certificate_without_a_user_of_this_cluster_is_nobodys() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let of_both = Wanted { uris: vec!["fairhold://prod/user/ci", "fairhold://prod/user/root"], ..Wanted::client("") };
        for (wanted, what) in [
            (Wanted::client("fairhold://test/user/ci"), "another cluster"),
            (Wanted::client("fairhold://prod/node/1"), "a node"),
            (Wanted::client("https://prod/user/ci"), "another scheme"),
            (Wanted { uris: Vec::new(), ..Wanted::client("") }, "only a common name"),
            (of_both, "two users"),
        ] {
            let mut kept = guarded.connect_with(&guarded.other_authority.issue(&wanted)).await;
            assert_eq!(kept.refused("").await, "missing", "{what}");
            let (status, shown) = kept.whoami(&format!("Authorization: Bearer {}\r\n", guarded.jwt(&json!({})))).await;
            assert_eq!((status, &shown["kind"]), (200, &"jwt".into()), "{what}: {shown}");
        }
        let mut kept = guarded.connect(None).await;
        assert_eq!(kept.refused("").await, "missing");
    });
}

#[test]
fn a_certificate_that_expires_while_its_connection_lives_does_not_count_any_more() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let wanted = Wanted { seconds_left: Some(SHORT_LIFE_SECONDS), ..Wanted::client("fairhold://prod/user/ci") };
        let pair = guarded.other_authority.issue(&wanted);
        let kept = Mutex::new(guarded.connect_with(&pair).await);
        let (status, shown) = kept.lock().await.whoami("").await;
        assert_eq!((status, &shown["principal"]), (200, &"user:ci".into()), "{shown}");
        let refused = eventually("the certificate expires", SOON, || async {
            let (status, body) = kept.lock().await.whoami("").await;
            (status == 401).then_some(body)
        })
        .await;
        assert_eq!(refused["credential"], "expired");
        let token = format!("Authorization: Bearer {}\r\n", guarded.jwt(&json!({})));
        assert_eq!(kept.lock().await.whoami(&token).await.0, 200, "the connection goes on");
    });
}

#[test]
fn a_program_takes_a_lock_with_a_jwt() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let token = guarded.jwt(&json!({ "sub": "repo:web", "org": { "team": "red" } }));
        write_secret(&guarded.file("jwt"), &token);
        let lock = |name: &'static str| {
            let mut command = guarded.command(&["lock", name, "--auth-token-file", &text(&guarded.file("jwt"))]);
            async move { command.args(["--", "echo", "held"]).output().await.expect("the program runs") }
        };
        assert_eq!(output_of(&lock("deploy/web").await, 0), "held\n");
        assert_eq!(output_of(&lock("red/web").await, 0), "held\n", "the team is an attribute of the token");
        let denied = output_of(&lock("blue/web").await, 77);
        assert!(denied.contains("no rule of deployers allows acquire on locks:blue/web"), "{denied}");

        let shown = guarded.with_token(Call::get("/v1/access/whoami"), &token).await.expect_status(200);
        assert_eq!((shown.string("principal"), shown.string("kind")), ("idp:repo:web", "jwt"));
        assert!(shown.string("ends").ends_with('Z'));
        let check = Call::post("/v1/access/check").json(&json!({ "verb": "acquire", "on": "locks:red/web" }));
        assert_eq!(guarded.with_token(check, &token).await.expect_status(200).json["allowed"], true);
        for (changes, fault) in [
            (json!({ "exp": 1 }), "expired"),
            (json!({ "aud": "another" }), "wrong_audience"),
            (json!({ "nbf": now() / 1_000 + 300 }), "not_yet"),
            (json!({ "iss": "https://another.test" }), "unknown"),
        ] {
            let refused = guarded.with_token(Call::get("/v1/locks"), &guarded.jwt(&changes)).await;
            let refused = refused.expect_problem(401, "unauthenticated");
            assert_eq!((refused.string("credential"), refused.header("www-authenticate")), (fault, Some("Bearer")));
        }
        let forged = signed(&TestIssuer::new("ES256", "1"), &json!({}));
        let refused = guarded.with_token(Call::get("/v1/locks"), &forged).await.expect_problem(401, "unauthenticated");
        assert_eq!(refused.string("credential"), "bad_signature");
        let in_url = guarded.cluster.client(0).send(&Call::get(&format!("/v1/locks?id_token={token}"))).await;
        in_url.expect_problem(400, "bad_request");
        let unknown = json!({ "rules": ["acquire locks:{squad}/**"] });
        guarded.admin(Call::put("/v1/access/roles/other", "").json(&unknown)).await.expect_problem(422, "bad_rule");
    });
}

#[test]
fn a_node_follows_the_keys_of_a_provider() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (old, next) = (guarded.jwt(&json!({})), TestIssuer::new("RS256", "2"));
        let new = signed(&next, &json!({}));
        assert_eq!((guarded.status(&old).await, guarded.status(&new).await), (200, 401));
        fs::write(guarded.file("jwks.json"), "{\"keys\":[").expect("a damaged file");
        eventually("the node warns", SOON, || async {
            let ready = guarded.admin(Call::get("/readyz?verbose")).await;
            ready.text.contains("the keys for the JWTs of idp cannot be read again").then_some(())
        })
        .await;
        assert_eq!(guarded.status(&old).await, 200, "the last keys stay in use");
        write_keys(guarded.cluster.folder(), &[&guarded.issuer, &next]);
        eventually("the new key counts", SOON, || async { (guarded.status(&new).await == 200).then_some(()) }).await;
        assert_eq!(guarded.status(&old).await, 200, "so does the old one");
        write_keys(guarded.cluster.folder(), &[&next]);
        eventually("the old key does not count", SOON, || async { (guarded.status(&old).await == 401).then_some(()) }).await;
        assert_eq!(guarded.status(&new).await, 200);
        let log = guarded.cluster.nodes[0].log_text();
        let told = log.matches("JWTs of idp are still verified with the old keys").count();
        assert_eq!(told, 1, "a damaged file is logged once: {log}");
        assert!(log.contains("the JWTs of idp are verified with new keys (2)"), "{log}");
    });
}

#[test]
fn a_node_with_unusable_keys_does_not_start() {
    run_parallel(SHORT, async {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let table = format!("[jwt.idp]\nissuer = \"i\"\naudience = \"a\"\njwks = \"{}\"\n", text(&file("jwks.json")));
        fs::write(file("fairhold.toml"), table).expect("a configuration");
        fs::write(file("jwks.json"), "{}").expect("a file");
        let data = text(&file("data"));
        for first in [&["serve"][..], &["config", "check"]] {
            let member = ["--id", "1", "--member", "1=http://127.0.0.1:1,127.0.0.1:2", "--insecure", "--data", &data];
            let mut command = program();
            command.args(first).args(member).arg("--config").arg(file("fairhold.toml")).kill_on_drop(true);
            let refused = output_of(&command.output().await.expect("the program runs"), 2);
            assert!(refused.contains("jwks.json is no set of keys"), "{refused}");
        }
    });
}
