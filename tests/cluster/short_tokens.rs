//! Tokens that expire while they are used: the next one in the file keeps the lock, the place in a queue and the watch, and a
//! stream says in time that it ends.

use crate::{
    access::{Guarded, User},
    client::Call,
    harness::{SHORT, all, eventually, program, run_parallel, write_secret},
    lock_command::assert_code,
};
use fairhold_client::{Client, WatchEvent};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{process::Child, time::timeout};

/// How long an expected change may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// The exit code of `fairhold lock` after a loss.
const LOST: i32 = 79;

/// A token of `ci` that lives for so long.
async fn token(guarded: &Guarded, ttl: &str) -> String {
    let body = json!({ "user": "ci", "ttl": ttl });
    let created = guarded.file().send(Call::post("/v1/access/tokens").json(&body)).await.expect_status(201);
    created.string("token").to_owned()
}

fn file(guarded: &Guarded, name: &str, token: &str) -> PathBuf {
    let path = guarded.cluster.folder().join(name);
    write_secret(&path, token);
    path
}

/// Puts another token into a file, in one step.
fn replace(path: &Path, token: &str) {
    let next = path.with_extension("next");
    write_secret(&next, token);
    fs::rename(next, path).expect("a file is replaced");
}

/// Waits until a token has expired.
async fn expired(guarded: &Guarded, token: &str) {
    let with_it = User { token: token.to_owned(), ..guarded.file() };
    eventually("the token expires", SOON, || async {
        let answer = with_it.send(Call::get("/v1/access/whoami")).await;
        (answer.status == 401).then(|| assert_eq!(answer.string("credential"), "expired"))
    })
    .await;
}

/// `fairhold lock` with a token file. Its command runs until its input ends.
fn locking(guarded: &Guarded, lock: &str, file: &Path) -> Child {
    let mut command = program();
    command.args(["lock", lock, "--ttl", "3s", "-e", &guarded.cluster.nodes[0].url, "--auth-token-file"]).arg(file);
    command.args(["--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().expect("fairhold lock starts")
}

/// The number of the grant that holds a lock.
async fn holder(root: &User, lock: &str) -> Option<u64> {
    let shown = root.send(Call::get(&format!("/v1/locks/{lock}"))).await;
    shown.json["holders"][0]["number"].as_u64()
}

#[test]
fn a_long_lock_outlives_its_token_if_its_file_gets_the_next_one() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        let (short, next) = (token(&guarded, "15s").await, token(&guarded, "1h").await);
        let (kept, lost) = (file(&guarded, "kept", &short), file(&guarded, "lost", &short));
        let (mut keeps, mut loses) = (locking(&guarded, "deploy/kept", &kept), locking(&guarded, "deploy/lost", &lost));
        let (input, _input_of_the_other) = (keeps.stdin.take(), loses.stdin.take());
        let before = eventually("both are held", SOON, || async {
            holder(&root, "deploy%2Flost").await?;
            holder(&root, "deploy%2Fkept").await
        })
        .await;
        replace(&kept, &next);
        expired(&guarded, &short).await;

        // A lock whose token has expired is not renewed, and passes before the other one would.
        let output = timeout(SOON, loses.wait_with_output()).await.expect("it ends").expect("it runs");
        assert_code(&output, LOST, "the lock deploy/lost was lost");
        root.acquire("deploy%2Flost", "wait=30s").await.expect_status(200);
        assert_eq!(holder(&root, "deploy%2Fkept").await, Some(before), "it is renewed with the next token");
        drop(input);
        let output = timeout(SOON, keeps.wait_with_output()).await.expect("it ends").expect("it runs");
        assert_code(&output, 0, "");
        assert_eq!(holder(&root, "deploy%2Fkept").await, None, "it is released");
    });
}

#[test]
fn a_place_in_a_queue_outlives_its_token() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        let held = root.acquire("deploy%2Fa", "ttl=10m").await.expect_status(200);
        let (short, next) = (token(&guarded, "15s").await, token(&guarded, "1h").await);
        let path = file(&guarded, "token", &short);
        let url = &guarded.cluster.nodes[1].url;
        let client = Client::builder().endpoint(url).auth_token_file(&path).build().expect("a client");
        let waiting = tokio::spawn(async move { client.lock("deploy/a").await });
        let number = || async {
            let queue = root.send(Call::get("/v1/locks/deploy%2Fa/queue")).await.expect_status(200);
            queue.json["items"][1]["number"].as_u64()
        };
        let before = eventually("it waits", SOON, number).await;
        replace(&path, &next);
        expired(&guarded, &short).await;
        assert_eq!(number().await, Some(before), "the place is the same");
        root.send(Call::delete(&format!("/v1/grants/{}", held.string("id")))).await.expect_status(204);
        let guard = timeout(SOON, waiting).await.expect("it is granted").expect("the task").expect("the lock");
        assert_eq!(holder(&root, "deploy%2Fa").await, Some(before));
        guard.release().await.expect("a release");
    });
}

#[test]
fn a_watch_of_the_client_outlives_its_token() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        let (short, next) = (token(&guarded, "15s").await, token(&guarded, "1h").await);
        let path = file(&guarded, "token", &short);
        let client = Client::builder().endpoint(&guarded.cluster.nodes[0].url).auth_token_file(&path).build();
        let client = client.expect("a client");
        let mut watching = client.watch().lock("deploy/a").await.expect("a watch");
        replace(&path, &next);
        expired(&guarded, &short).await;
        root.acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
        let seen = async { while !matches!(watching.next().await, Some(Ok(WatchEvent::Change(_)))) {} };
        timeout(SOON, seen).await.expect("the change arrives");
    });
}

/// The names of the lines of a stream, until the given one.
async fn lines_until(user: &User, url: &str, method: reqwest::Method, path: &str, tag: &str, last: &str) -> Vec<String> {
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("an HTTP client");
    let call = http.request(method, format!("{url}{path}")).bearer_auth(&user.token);
    let mut response = call.header("accept", "application/x-ndjson").send().await.expect("the node runs");
    assert_eq!(response.status().as_u16(), 200, "{path}");
    let (mut text, mut names) = (String::new(), Vec::<String>::new());
    let reading = async {
        while names.last().is_none_or(|name| name != last) {
            let chunk = response.chunk().await.expect("the stream goes on").expect("the stream goes on");
            text.push_str(&String::from_utf8_lossy(&chunk));
            while let Some((line, rest)) = text.split_once('\n') {
                let line: Value = serde_json::from_str(line).expect("a line of JSON");
                names.push(line[tag].as_str().expect("a name").to_owned());
                text = rest.to_owned();
            }
        }
    };
    timeout(SOON, reading).await.unwrap_or_else(|_| panic!("{path}: not within {SOON:?}"));
    names
}

#[test]
fn a_stream_says_once_that_its_credential_is_about_to_expire_and_then_ends() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (_, ci) = guarded.enforce().await;
        let url = guarded.cluster.nodes[0].url.clone();
        let short = User { token: token(&guarded, "12s").await, ..ci.clone() };
        let streams = [
            (reqwest::Method::GET, "/v1/watch?lock=deploy%2Fa", "type"),
            (reqwest::Method::GET, "/v1/elections/deploy%2Fleader", "type"),
            (reqwest::Method::POST, "/v1/locks/deploy%2Fb?hold=stream&ttl=60s", "event"),
        ];
        let streams = streams.map(|(method, path, tag)| {
            let (user, url) = (short.clone(), url.clone());
            tokio::spawn(async move { lines_until(&user, &url, method, path, tag, "error").await })
        });
        for names in all(streams.into()).await {
            let told = names.iter().filter(|name| *name == "credential_expires").count();
            assert_eq!(told, 1, "{names:?}");
        }

        // The stream of a credential that lives for longer says nothing yet.
        let watch = lines_until(&ci, &url, reqwest::Method::GET, "/v1/watch?lock=deploy%2Fa&from=1", "type", "granted");
        guarded.file().acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
        let names = watch.await;
        assert!(!names.contains(&"credential_expires".to_owned()), "{names:?}");
    });
}
