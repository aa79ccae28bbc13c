//! The clients in one file that users copy, `docs/examples/fairhold.py` and `fairhold.mjs`: programs with them count under a
//! lock, learn that they lost it, and are refused a late write.

use crate::{
    client::{Call, new_key},
    harness::{Cluster, LONG, alone, report},
    uses::urls,
};
use std::{fs, path::PathBuf, process::Stdio};
use tokio::process::Command;

/// Adds 1 to the number in a file, without any care of its own.
const PYTHON_COUNTS: &str = "
import sys, time
from fairhold import Client
with Client().lock('deep/counter', ttl=5) as lock:
    count = int(open(sys.argv[1]).read())
    time.sleep(0.05)
    lock.check()
    open(sys.argv[1], 'w').write(str(count + 1))
";

/// Is broken while it holds: it says so at once on the next renewal, and a late write is refused.
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

fn examples() -> PathBuf {
    fs::canonicalize("../../docs/examples").expect("the examples")
}

/// The interpreters that are here; one at least.
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
    // What comes after -e is a program; what comes after - are its arguments.
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
fn the_python_client_counts_learns_of_its_loss_and_elects_with_each_python_that_is_here() {
    alone(LONG, async {
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
fn the_javascript_client_counts_and_learns_of_its_loss() {
    alone(LONG, async {
        let cluster = Cluster::start().await;
        count(6, |path| node(&cluster, NODE_COUNTS, &[path])).await;
        assert_eq!(ends_well(node(&cluster, NODE_LOSES, &[])).await, "fine\n");
    });
}
