//! The single-file clients that users copy, `docs/examples/fairhold.py`, `.mjs` and `.go`: programs count with them
//! under a lock, learn that they lost it, and get a refusal for a late write.

use crate::{
    basics::urls,
    client::{Call, new_key},
    harness::{Cluster, LONG, report, run_exclusive},
    without::GO,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::Command;

/// Adds 1 to the number in a file, without any protection.
const PYTHON_COUNTS: &str = "
import sys, time
from fairhold import Client
with Client().lock('deep/counter', ttl=5) as lock:
    count = int(open(sys.argv[1]).read())
    time.sleep(0.05)
    lock.check()
    open(sys.argv[1], 'w').write(str(count + 1))
";

/// The lock is broken while the program holds it: the next renewal reports it at once, and a late write is refused.
const PYTHON_LOSES: &str = "
import time, urllib.request, urllib.parse
from fairhold import Client, Lost, NotAcquired
client, name = Client(owner='me'), 'orders/42=7'
with client.lock(name, ttl=3) as lock:
    client.put('/written', 'first', fence=lock)
    try:
        Client().lock(name, wait=0).__enter__()
        raise SystemExit('held twice')
    except NotAcquired as error:
        assert 'me' in str(error), error
    client.call('DELETE', '/v1/locks/' + urllib.parse.quote(name, safe='') + '/holders?reason=test', key=None)
    try:
        client.put('/written', 'late', fence=lock)
        raise SystemExit('a late write was made')
    except Lost:
        pass
    assert lock.lost.wait(3), 'it never heard'
    try:
        lock.check()
        raise SystemExit('it believes in a lost lock')
    except Lost:
        pass
assert client.get('/written') == b'first', client.get('/written')
assert client.leader('primary') is None
with client.elect('primary', 'http://10.0.0.7:8080') as term:
    leader = client.leader('primary')
    assert leader['value'] == 'http://10.0.0.7:8080' and leader['token'] == term.token, leader
assert client.leader('primary') is None
with client.lock('table', shared=True) as one, client.lock('table', shared=True) as other:
    assert one.check() and other.check()
print('fine')
";

const NODE_COUNTS: &str = "
import { readFileSync, writeFileSync } from 'node:fs';
const { Client } = await import(process.argv[2]);
await new Client().withLock('deep/counter', async (lock) => {
  const count = Number(readFileSync(process.argv[3], 'utf8'));
  await new Promise((done) => setTimeout(done, 50));
  lock.signal.throwIfAborted();
  writeFileSync(process.argv[3], String(count + 1));
}, { ttl: 5 });
";

const NODE_LOSES: &str = "
const { Client, Refused } = await import(process.argv[2]);
const client = new Client(), name = 'orders/43=7';
await client.withLock(name, async (lock) => {
  await client.put('/seen', 'first', lock);
  await client.withLock(name, () => { throw new Error('held twice'); }, { wait: 0 })
    .catch((error) => { if (error.code !== 'lock_held' && error.code !== 'wait_timeout') throw error; });
  await client.call('DELETE', `/v1/locks/${encodeURIComponent(name)}/holders?reason=test`);
  await client.put('/seen', 'late', lock).then(
    () => { throw new Error('a late write was made'); },
    (error) => { if (!(error instanceof Refused) || error.code !== 'stale_token') throw error; });
  if (!lock.signal.aborted) {
    await new Promise((done, fail) => {
      lock.signal.addEventListener('abort', done);
      setTimeout(() => fail(new Error('it never heard')), 5000).unref();
    });
  }
}, { ttl: 3 });
console.log('fine');
";

const GO_STORY: &str = r#"package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"story/fairhold"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx, client := context.Background(), fairhold.NewClient("")
	if len(os.Args) > 1 {
		must(client.WithLock(ctx, "deep/counter", 5*time.Second, func(ctx context.Context, lock *fairhold.Lock) error {
			text, err := os.ReadFile(os.Args[1])
			must(err)
			count, err := strconv.Atoi(strings.TrimSpace(string(text)))
			must(err)
			time.Sleep(50 * time.Millisecond)
			must(ctx.Err())
			return os.WriteFile(os.Args[1], []byte(strconv.Itoa(count+1)), 0o644)
		}))
		return
	}
	must(client.WithLock(ctx, "orders/44=7 x", 3*time.Second, func(held context.Context, lock *fairhold.Lock) error {
		must(client.Put(ctx, "/gone/first", []byte("first"), lock))
		must(client.Break(ctx, lock.Name))
		var refused *fairhold.Refused
		if err := client.Put(ctx, "/gone/first", []byte("late"), lock); !errors.As(err, &refused) || refused.Code != "stale_token" {
			panic(fmt.Sprint("a late write: ", err))
		}
		select {
		case <-held.Done():
		case <-time.After(5 * time.Second):
			panic("it never heard")
		}
		return nil
	}))
	fmt.Println("fine")
}
"#;

/// An administrator's call, which only this test needs from the client.
const GO_BREAKS: &str = "package fairhold

import (
	\"context\"
	\"net/url\"
)

func (c *Client) Break(ctx context.Context, name string) error {
	_, err := c.call(ctx, \"DELETE\", \"/v1/locks/\"+url.PathEscape(name)+\"/holders?reason=test\", newKey(), nil, nil)
	return err
}
";

fn examples() -> PathBuf {
    fs::canonicalize("../../docs/examples").expect("the examples")
}

/// The interpreters on this machine; at least one.
fn pythons() -> Vec<String> {
    let all = ["python3", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13"];
    let runs =
        |name: &&&str| std::process::Command::new(name).args(["-c", ""]).output().is_ok_and(|output| output.status.success());
    let found: Vec<String> = all.iter().filter(runs).map(|name| (*name).to_owned()).collect();
    assert!(!found.is_empty(), "the tests need python3");
    found
}

fn python(cluster: &Cluster, version: &str, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(version);
    command.args(["-B", "-c", program]).args(arguments).env("PYTHONPATH", examples()).env("FAIRHOLD_ENDPOINT", urls(cluster));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn node(cluster: &Cluster, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("node");
    let client = examples().join("fairhold.mjs").to_string_lossy().into_owned();
    // The argument after -e is a program; those after - are its arguments.
    command.args(["--input-type=module", "-e", program, "-", &client]).args(arguments);
    command.env("FAIRHOLD_ENDPOINT", urls(cluster)).stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn ends_well(mut command: Command) -> String {
    let output = command.output().await.expect("it runs");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    said
}

async fn count(copies: usize, start: impl Fn(&str) -> Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let counter = folder.path().join("counter");
    fs::write(&counter, "0").expect("it can be written");
    let path = counter.to_str().expect("UTF-8");
    futures_util::future::join_all((0..copies).map(|_| ends_well(start(path)))).await;
    assert_eq!(fs::read_to_string(&counter).expect("the counter"), copies.to_string());
}

#[test]
fn the_python_client_counts_learns_of_its_loss_and_elects_with_each_installed_python() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let versions = pythons();
        report(&format!("Python: {}", versions.join(", ")));
        count(8, |path| python(&cluster, &versions[0], PYTHON_COUNTS, &[path])).await;
        for version in &versions {
            let client = cluster.client(0);
            client.send(&Call::put("/v1/nodes/written", "nothing yet").key(&new_key())).await;
            assert_eq!(ends_well(python(&cluster, version, PYTHON_LOSES, &[])).await, "fine\n", "{version}");
        }
    });
}

#[test]
fn the_javascript_client_counts_under_a_lock_and_learns_of_its_loss() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        count(6, |path| node(&cluster, NODE_COUNTS, &[path])).await;
        assert_eq!(ends_well(node(&cluster, NODE_LOSES, &[])).await, "fine\n");
    });
}

/// The Go program with the client, compiled.
async fn go_program(folder: &Path) -> PathBuf {
    fs::create_dir(folder.join("fairhold")).expect("a folder");
    fs::copy(examples().join("fairhold.go"), folder.join("fairhold/fairhold.go")).expect("the client");
    fs::write(folder.join("fairhold/break.go"), GO_BREAKS).expect("it can be written");
    fs::write(folder.join("main.go"), GO_STORY).expect("it can be written");
    fs::write(folder.join("go.mod"), "module story\n\ngo 1.19\n").expect("it can be written");
    for arguments in [&["vet", "./..."][..], &["build", "-o", "story", "."]] {
        let mut command = Command::new("go");
        command.args(arguments).current_dir(folder).env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
        ends_well(command).await;
    }
    folder.join("story")
}

#[test]
fn the_go_client_counts_under_a_lock_and_learns_of_its_loss() {
    let go = std::process::Command::new("go").arg("version").output().map_err(|error| error.to_string());
    if GO.or_without(go).is_none() {
        return;
    }
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let program = go_program(folder.path()).await;
        let start = |arguments: &[&str]| {
            let mut command = Command::new(&program);
            command.args(arguments).env("FAIRHOLD_ENDPOINT", urls(&cluster)).stdin(Stdio::null()).kill_on_drop(true);
            command
        };
        count(6, |path| start(&[path])).await;
        assert_eq!(ends_well(start(&[])).await, "fine\n");
    });
}
