//! Reads of locks, sessions and servers through the client, and an administrator's actions through it.

use crate::{
    basics::client_of,
    harness::{Cluster, LONG, run_parallel},
};
use fairhold_client::{ElectionEvent, Error, Lost, WatchEvent};
use fairhold_types::{Code, Mode, watch::What};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn holders_and_waiters_are_listed_and_an_administrator_changes_them() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let locks = client.locks();
        let both = client.lock("orders/1").and_shared("stock").owner("ci-7").await.unwrap();
        let reader = client.read_lock("stock").await.unwrap();
        let grant = client.grant(both.id()).await.unwrap().unwrap();
        assert_eq!(grant.locks.iter().map(|want| want.mode).collect::<Vec<_>>(), [Mode::Exclusive, Mode::Shared]);
        let waits = tokio::spawn(client.lock("orders/1").owner("ci-9").into_future());
        let mut queue = locks.queue("orders/1").await.unwrap();
        while queue.value.len() < 2 {
            if let Some(newer) = locks.next_queue("orders/1", Some(queue.revision), 60 * SECOND).await.unwrap() {
                assert!(newer.revision > queue.revision);
                queue = newer;
            }
        }
        assert_eq!((queue.value[0].owner.as_str(), queue.value[1].owner.as_str()), ("ci-7", "ci-9"));
        let names =
            |list: Vec<fairhold_types::dto::ListedLock>| list.into_iter().map(|lock| lock.lock.to_string()).collect::<Vec<_>>();
        assert_eq!(names(locks.list().prefix("orders/").await.unwrap()), ["orders/1"]);
        assert_eq!(names(locks.list().state("queued").sort("longest_wait").await.unwrap()), ["orders/1"]);
        assert_eq!(names(locks.list().matching("DERS/").owner("ci-9").sort("held_for").await.unwrap()), ["orders/1"]);
        let page = locks.list().page(1, None).await.unwrap();
        let rest = locks.list().page(1, page.next_cursor.as_deref()).await.unwrap();
        assert_eq!((names(page.items), names(rest.items)), (vec!["orders/1".to_owned()], vec!["stock".to_owned()]));
        assert!(matches!(locks.list().sort("hight").await, Err(Error::Refused { code: Some(Code::BadRequest), .. })));

        let token = both.token().unwrap();
        let owned = locks.grants().owner("ci-7").await.unwrap();
        assert!(owned.iter().any(|grant| grant.lock.as_str() == "orders/1" && grant.token == Some(token)), "{owned:?}");
        let queued = locks.grants().prefix("orders/").state("queued").sort("lock").page(1, None).await.unwrap();
        assert_eq!((queued.items.len(), queued.items[0].position, queued.next_cursor), (1, Some(2), None));
        assert_eq!(queued.items[0].waits_for.as_ref().map(|holder| holder.number), Some(both.number()));
        assert_eq!(locks.get("orders/1").await.unwrap().value.queue_length, 1);
        assert_eq!(locks.last_token("stock").await.unwrap(), Some(reader.token().unwrap()));
        assert!(locks.check_fence("orders/1", token.0, Some(both.id())).await.unwrap());
        assert!(!locks.check_fence("orders/1", token.0 + 1, None).await.unwrap());
        locks.revoke("orders/1", "an upgrade").await.unwrap();
        locks.take_away("orders/1", "ci-7 hangs").await.unwrap();
        assert_eq!(both.lost().await, Lost::Broken);
        let next = waits.await.unwrap().unwrap();
        assert!(!locks.check_fence("orders/1", token.0, None).await.unwrap(), "stale at once");
        let history = locks.history("orders/1", None).await.unwrap();
        assert_eq!((history.len(), history[1].reason.as_str()), (2, "ci-7 hangs"));
        assert_eq!(locks.history("orders/1", Some(&token.to_string())).await.unwrap().len(), 1);
        let broken = locks.histories().prefix("orders/").owner("ci-7").ended("broken").await.unwrap();
        assert_eq!((broken.len(), broken[0].lock.as_ref().map(ToString::to_string)), (1, Some("orders/1".to_owned())));
        let then = locks.histories().at(&token.to_string()).page(1, None).await.unwrap();
        assert_eq!((then.items.len(), then.kept_per_lock, then.next_cursor.is_some()), (1, 1_000, true));
        assert_eq!(locks.histories().from(&token.to_string()).to(&(token.0 + 1).to_string()).await.unwrap().len(), 2);
        let set = locks.set("gpu").limit(8).max_waiters(100).max_hold(60 * SECOND).await.unwrap();
        assert_eq!((set.limit, set.max_waiters, set.max_hold.as_deref()), (8, Some(100), Some("60s")));
        drop((both, reader, next));
        client.settled().await;
    });
}

#[test]
fn sessions_and_servers_are_listed_and_a_session_is_ended_by_its_number() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let session = client.session().name("worker-3").await.unwrap();
        let guard = session.lock("deploy").await.unwrap();
        let listed = client.sessions().list().await.unwrap();
        assert!(listed.iter().any(|one| one.name == "worker-3"), "{listed:?}");
        let shown = client.sessions().get(session.number()).await.unwrap().unwrap();
        assert_eq!(shown.grants.iter().map(|grant| grant.lock.as_str()).collect::<Vec<_>>(), ["deploy"]);
        client.sessions().end(session.number().0, "its host is gone").await.unwrap();
        guard.lost().await;
        assert_eq!(client.sessions().get(session.number()).await.unwrap(), None);
        let again = client.sessions().end(session.number().0, "").await;
        assert!(matches!(again, Err(Error::Lost(Lost::Expired))), "{again:?}");

        let urls = &cluster.nodes;
        let status = client.cluster().status().await.unwrap();
        let leader = status.leader.unwrap();
        let digest = client.cluster().status_of(&urls[0].url, true).await.unwrap();
        assert!(status.members.len() == 3 && status.digest.is_none() && digest.digest.is_some());
        assert!(client.cluster().is_alive(&urls[1].url).await.unwrap());
        assert!(!client.cluster().is_alive("http://127.0.0.1:9").await.unwrap());
        assert!(client.cluster().readiness(&urls[1].url).await.unwrap().ready);
        assert_eq!(client.cluster().version(&urls[1].url).await.unwrap().name, "fairhold");
        assert!(client.cluster().metrics(&urls[1].url).await.unwrap().contains("# TYPE"));
        assert_eq!(client.cluster().description(&urls[1].url).await.unwrap()["openapi"], "3.1.0");
        assert_eq!(client.cluster().take_snapshot(&urls[2].url).await.unwrap().id, 3);
        let to = leader % 3 + 1;
        cluster.expect_elections(1, "the client requests it");
        assert_eq!(client.cluster().hand_over(to).await.unwrap().leader, to);
    });
}

#[test]
fn reads_are_as_fresh_as_requested_and_wait_for_changes() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        client.nodes().put("/app/a", "1").parents().await.unwrap();
        let first = client.nodes().get("/app/a").await.unwrap().unwrap();
        let stats = client.nodes().child_stats("/app").await.unwrap();
        assert_eq!((stats.len(), stats[0].path.as_str()), (1, "/app/a"));
        let local = client.nodes().local().at_least(first.revision);
        assert_eq!(local.get("/app/a").await.unwrap().unwrap().bytes, b"1");
        assert!(client.nodes().get_next("/app/a", Some(first.revision), SECOND / 10).await.unwrap().is_none());
        let nodes = client.nodes();
        let (next, put) =
            tokio::join!(nodes.get_next("/app/a", Some(first.revision), 60 * SECOND), nodes.put("/app/a", "2").into_future(),);
        put.unwrap();
        assert_eq!(next.unwrap().unwrap().bytes, b"2");
        let lock = client.locks().local().at_least(first.revision).get("deploy").await.unwrap();
        assert!(lock.value.holders.is_empty() && lock.revision >= first.revision);
        assert!(client.sessions().local().at_least(first.revision).list().await.is_ok());
    });
}

#[test]
fn a_recursive_watch_of_locks_and_an_observer_start_at_a_given_revision() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let mut watching = client.watch().locks_below("orders").await.unwrap();
        let guard = client.lock("orders/42").await.unwrap();
        let token = guard.token().unwrap();
        loop {
            let event = watching.next().await.unwrap().unwrap();
            if let WatchEvent::Change(line) = event
                && let What::Granted { lock, token: given, .. } = line.what
            {
                assert_eq!((lock.as_str(), given), ("orders/42", token));
                break;
            }
        }
        let wrong = client.watch().node("/app").locks_below("orders").await;
        assert!(matches!(wrong, Err(Error::Invalid(_))), "{wrong:?}");

        let leads = client.elect("primary", "http://a:1").await.unwrap();
        let elected = fairhold_types::Revision(leads.token().unwrap().0);
        leads.held().proclaim("http://a:2").await.unwrap();
        let mut now = client.observe("primary").unwrap();
        assert!(matches!(now.next().await.unwrap(), ElectionEvent::Elected(leader) if leader.value == "http://a:2"));
        let mut then = client.observe("primary").unwrap().from(elected);
        assert!(matches!(then.next().await.unwrap(), ElectionEvent::Elected(leader) if leader.value == "http://a:1"));
        assert!(matches!(then.next().await.unwrap(), ElectionEvent::Proclaimed(leader) if leader.value == "http://a:2"));
        drop((guard, leads));
        client.settled().await;
    });
}

#[test]
fn blocking_code_can_use_the_whole_client() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let url = cluster.nodes[0].url.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let client = fairhold_client::blocking::Client::new(url)?;
            client.with(async |client| client.cluster().status().await)
        });
        assert_eq!(asked.await.unwrap().unwrap().members.len(), 3);
    });
}
