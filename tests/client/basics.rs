//! The uses of the client, each in a few lines.

use crate::{
    client::whole,
    harness::{Cluster, SHORT, eventually, run_parallel},
};
use fairhold_client::{Client, Error, Lost, WatchEvent};
use fairhold_types::watch::{WatchLine, What};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

/// A client of all nodes.
pub(crate) fn client_of(cluster: &Cluster) -> Client {
    Client::new(urls(cluster)).expect("a client")
}

pub(crate) fn urls(cluster: &Cluster) -> String {
    cluster.nodes.iter().map(|node| node.url.as_str()).collect::<Vec<_>>().join(",")
}

/// Waits until a lock has no contender.
pub(crate) async fn wait_until_free(cluster: &Cluster, lock: &str, limit: Duration) {
    let client = cluster.client(0);
    eventually(&format!("{lock} has no contender"), limit, || async { client.queue(lock).await.is_empty().then_some(()) }).await;
}

#[test]
fn a_lock_is_acquired_in_one_line_waited_for_in_order_and_released() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let first = client.lock("deploy/eu").owner("first").meta("why", "test").await.unwrap();
        let Err(Error::LockHeld { holder: Some(holder), .. }) = client.lock("deploy/eu").try_now().await else {
            panic!("it is held");
        };
        assert_eq!((holder.owner.as_str(), holder.token), ("first", first.token().ok()));
        let late = client.lock("deploy/eu").wait(SECOND / 2).await.unwrap_err();
        assert!(matches!(late, Error::WaitTimeout { .. }), "{late:?}");

        let places = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&places);
        let waits = client.lock("deploy/eu").on_queue(move |place| seen.lock().unwrap().push(place.clone()));
        let waits = tokio::spawn(waits.into_future());
        eventually("it learns its place", SHORT, || async { (!places.lock().unwrap().is_empty()).then_some(()) }).await;
        let token = first.token().unwrap();
        first.release().await.unwrap();
        let second = waits.await.unwrap().unwrap();
        assert!(second.token().unwrap() > token);
        let place = places.lock().unwrap()[0].clone();
        assert_eq!((place.position, place.waits_for.map(|first| first.owner)), (2, Some("first".to_owned())));
        drop(second);
        client.settled().await;
        assert_eq!(cluster.client(0).queue("deploy%2Feu").await, Vec::<serde_json::Value>::new());
    });
}

#[test]
fn readers_share_a_lock_writers_do_not_and_permits_are_counted() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let readers = (client.read_lock("table").await.unwrap(), client.read_lock("table").await.unwrap());
        assert!(matches!(client.write_lock("table").try_now().await, Err(Error::LockHeld { .. })));
        let shared = readers.0.held().clone();
        drop(readers);
        let writer = client.write_lock("table").wait(30 * SECOND).await.unwrap();
        assert!(matches!(client.read_lock("table").try_now().await, Err(Error::LockHeld { .. })));
        assert_eq!((shared.token(), shared.lost().await), (Err(Error::Lost(Lost::Released)), Lost::Released));
        drop(writer);

        let two = client.semaphore("pool", 3).permits(2).await.unwrap();
        let one = client.semaphore("pool", 3).await.unwrap();
        assert!(matches!(client.semaphore("pool", 3).try_now().await, Err(Error::LockHeld { .. })));
        drop((two, one));
        client.settled().await;
        drop(client.semaphore("pool", 3).permits(3).wait(30 * SECOND).await.unwrap());
        assert!(matches!(client.semaphore("pool", 0).await, Err(Error::Refused { .. })));
    });
}

#[test]
fn a_session_keeps_many_grants_with_one_keepalive_and_ends_them_together() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let (client, watcher) = (client_of(&cluster), cluster.client(0));
        let session = client.session().ttl(2 * SECOND).name("many").await.unwrap();
        let mut guards = Vec::new();
        for number in 0..20 {
            guards.push(session.lock(&format!("many-{number}")).await.unwrap());
        }
        let outlived = client.lock("forgotten").ttl(SECOND).await.unwrap();
        outlived.forget();
        // A waiter for the forgotten grant outlives its ttl, and that of a new grant.
        let twice = client.lock("forgotten").ttl(SECOND).await.unwrap();
        twice.forget();
        drop(client.lock("forgotten").await.unwrap());
        assert!(guards.iter().all(|guard| guard.is_held()));
        let listed = watcher.send(&crate::client::Call::get(&format!("/v1/sessions/{}", session.number()))).await;
        assert_eq!(listed.json["grants"].as_array().map(Vec::len), Some(20), "{listed:?}");
        assert_eq!(whole(&listed.json, "number"), session.number().0);

        let held = guards[0].held().clone();
        session.clone().close().await.unwrap();
        assert!(guards.iter().all(|guard| !guard.is_held()));
        assert_eq!(held.lost().await, Lost::Released);
        drop((guards, session));
        wait_until_free(&cluster, "many-19", 5 * SECOND).await;
    });
}

#[test]
fn writes_have_versions_and_a_fence() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let nodes = client.nodes();
        assert_eq!(nodes.get("/app/config").await.unwrap(), None);
        let made = nodes.put("/app/config", "one").absent().parents().await.unwrap();
        let read = nodes.get("app/config").await.unwrap().expect("it was written");
        assert_eq!((read.bytes.as_slice(), read.version), (b"one".as_slice(), made.version));
        nodes.put("/app/config", "two").version(read.version).await.unwrap();
        let stale = nodes.put("/app/config", "three").version(read.version).await.unwrap_err();
        let Error::VersionMismatch { current, .. } = stale else { panic!("{stale:?}") };
        assert_eq!(current, Some(read.version + 1));

        let guard = client.lock("app").await.unwrap();
        guard.put("/app/config", "fenced").await.unwrap();
        let held = guard.held().clone();
        // Its grant ends without its action, as by an expiry.
        let queue = cluster.client(0).queue("app").await;
        assert_eq!(whole(&queue[0], "number"), guard.number().0);
        drop(guard);
        client.settled().await;
        assert_eq!(held.put("/app/config", "late").await, Err(Error::Lost(Lost::Released)));
        assert_eq!(nodes.get("/app/config").await.unwrap().unwrap().bytes, b"fenced");
    });
}

fn is_created(line: &WatchLine, at: &str) -> bool {
    matches!(&line.what, What::NodeCreated { path } if path.as_str() == at)
}

#[test]
fn nodes_are_numbered_listed_removed_and_bound_to_a_session() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let nodes = client.nodes();
        let first = nodes.create_sequential("/jobs", "task-", "a").parents().await.unwrap();
        let second = nodes.create_sequential("/jobs", "task-", "b").await.unwrap();
        assert_eq!((first.path.as_str(), second.path.as_str()), ("/jobs/task-0000000000", "/jobs/task-0000000001"));
        assert_eq!(nodes.children("/jobs").await.unwrap(), ["task-0000000000", "task-0000000001"]);
        assert!(matches!(nodes.create("/jobs/task-0000000000", "x").await, Err(Error::NodeExists { .. })));
        assert!(matches!(nodes.children("/nothing").await, Err(Error::NoNode { .. })));
        let stat = nodes.stat("/jobs").await.unwrap().expect("it exists");
        assert_eq!((stat.num_children, stat.version, stat.ephemeral_owner.0), (2, 0, 0));
        assert_eq!(nodes.stat("/nothing").await.unwrap(), None);

        let session = client.session().ttl(5 * SECOND).await.unwrap();
        nodes.put("/jobs/here", "").ephemeral(&session).await.unwrap();
        let own = nodes.create_sequential("/jobs", "", "").ephemeral(&session).await.unwrap();
        let of = nodes.stat(own.path.as_str()).await.unwrap().expect("it exists").ephemeral_owner;
        assert_eq!(of, session.number());
        nodes.put("/jobs/short", "").ttl(SECOND).await.unwrap();
        session.close().await.unwrap();
        assert_eq!(nodes.get("/jobs/here").await.unwrap(), None);

        assert!(matches!(nodes.delete("/jobs").await, Err(Error::NotEmpty { .. })));
        assert!(matches!(nodes.delete("/jobs/task-0000000000").version(7).await, Err(Error::VersionMismatch { .. })));
        nodes.delete("/jobs/task-0000000000").version(0).await.unwrap();
        assert!(matches!(nodes.put("/jobs/task-0000000000", "").present().await, Err(Error::VersionMismatch { .. })));
        eventually("the TTL node is removed", SHORT, || async {
            (nodes.descendants("/jobs").await.unwrap() == ["/jobs/task-0000000001"]).then_some(())
        })
        .await;
        for number in 0..1_005 {
            nodes.put(&format!("/many/{number:04}"), "").parents().await.unwrap();
        }
        assert_eq!(nodes.children("/many").await.unwrap().len(), 1_005, "more than a page");
        nodes.delete("/many").recursive().await.unwrap();
        assert_eq!(nodes.stat("/many").await.unwrap(), None);
    });
}

#[test]
fn a_transaction_is_one_step_and_its_fence_is_a_guard() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let guard = client.lock("deploy").await.unwrap();
        let made = client.transaction().if_held(&guard).if_absent("/app").create("/app", [0xff_u8, 0]);
        let made = made.create_sequential("/app", "log-", "v1").put("/app/state", "new").await.unwrap();
        assert_eq!((made.succeeded, made.results.len()), (true, 3));
        assert_eq!(client.nodes().get("/app").await.unwrap().expect("it was made").bytes, [0xff, 0]);
        let other = client.transaction().if_version("/app/state", 7).delete("/app/state");
        let other = other.otherwise().set("/app/state", "kept").await.unwrap();
        assert!(!other.succeeded);
        let refused = client.transaction().if_exists("/app").set("/app/state", "x").delete("/app").await.unwrap_err();
        assert!(matches!(refused, Error::NotEmpty { .. }), "{refused:?}");
        assert_eq!(client.nodes().get("/app/state").await.unwrap().expect("it is there").bytes, b"kept");
        let session = client.session().await.unwrap();
        let alive = client.transaction().if_alive(&session).create_ephemeral("/app/here", "", &session);
        assert!(alive.clone().await.unwrap().succeeded);
        assert!(matches!(client.transaction().put("no//path", "").await, Err(Error::Invalid(_))));

        let held = guard.held().clone();
        drop(guard);
        client.settled().await;
        assert_eq!(client.transaction().if_held(&held).set("/app/state", "late").await, Err(Error::Lost(Lost::Released)));
    });
}

#[test]
fn blocking_code_can_do_the_same() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let urls = urls(&cluster);
        let program = tokio::task::spawn_blocking(move || -> Result<(), Error> {
            let client = fairhold_client::blocking::Client::new(urls)?;
            let guard = client.lock("job").with(|lock| lock.wait(30 * SECOND).ttl(2 * SECOND)).take()?;
            assert!(matches!(client.lock("job").try_now(), Err(Error::LockHeld { .. })));
            let mut watching = client.watch().with(|watch| watch.node("/job")).begin()?;
            guard.put("/job", "1").with(fairhold_client::Put::parents).send()?;
            assert_eq!(client.nodes().get("/job")?.expect("it was written").bytes, b"1");
            assert!(watching.any(|event| matches!(event, Ok(WatchEvent::Change(line)) if is_created(&line, "/job"))));
            let session = client.session().with(|session| session.ttl(5 * SECOND)).open()?;
            drop(session.read_lock("table").take()?);
            client.nodes().create("/job-runs-here", "").with(|create| create.ephemeral(&session)).send()?;
            let done = client.transaction().with(|txn| txn.if_held(&guard).set("/job", "2").delete("/job-runs-here")).send()?;
            assert!(done.succeeded);
            let held = session.lock("inner").run(|guard| guard.token())?;
            assert!(held.is_ok());
            guard.release()?;
            drop(client.lock("job").try_now()?);
            session.close()
        });
        program.await.unwrap().unwrap();
        wait_until_free(&cluster, "job", 5 * SECOND).await;
    });
}
