//! Grants that end without their holder's action: the guard learns of it soon, long before its next renewal.

use crate::{
    basics::client_of,
    client::{Call, new_key},
    harness::{Cluster, SHORT, report, run_exclusive},
};
use fairhold_client::{Error, Lost};
use std::time::{Duration, Instant};

/// A ttl so long that renewals do not reveal the loss.
const TTL: Duration = Duration::from_secs(60);
/// How long an event of the watch may take on a busy machine.
const SOON: Duration = Duration::from_secs(10);

async fn break_lock(cluster: &Cluster, lock: &str) {
    let call = Call::delete(&format!("/v1/locks/{lock}/holders?reason=test")).key(&new_key());
    cluster.client(1).send(&call).await.expect_status(204);
}

#[test]
fn a_broken_grant_of_a_shared_session_is_lost_at_once_and_the_others_stay() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let session = client.session().ttl(TTL).await.unwrap();
        let mut guards = Vec::new();
        for number in 0..50 {
            guards.push(session.lock(&format!("shared-{number}")).await.unwrap());
        }
        let begun = Instant::now();
        break_lock(&cluster, "shared-7").await;
        assert_eq!(tokio::time::timeout(SOON, guards[7].lost()).await, Ok(Lost::Broken));
        report(&format!("a broken grant of a session with 50 was lost after {:.0?}", begun.elapsed()));
        assert_eq!(guards[7].token(), Err(Error::Lost(Lost::Broken)));
        assert_eq!(guards.iter().filter(|guard| guard.is_held()).count(), 49);

        // The same after the node that served the watch is gone.
        for node in 0..3 {
            cluster.nodes[node].kill().await;
            let lock = format!("shared-{}", 20 + node);
            let call = Call::delete(&format!("/v1/locks/{lock}/holders")).key(&new_key());
            cluster.client(node + 1).send(&call).await.expect_status(204);
            assert_eq!(tokio::time::timeout(SOON, guards[20 + node].lost()).await, Ok(Lost::Broken));
            cluster.restart(node).await;
        }
        assert_eq!(guards.iter().filter(|guard| guard.is_held()).count(), 46);
        let number = session.number();
        cluster.client(2).send(&Call::delete(&format!("/v1/sessions/{number}"))).await.expect_status(204);
        let last = tokio::time::timeout(SOON, guards[49].lost()).await;
        assert_eq!(last, Ok(Lost::Broken), "an administrator ended the session");
        assert!(!session.is_alive());
    });
}

#[test]
fn a_broken_grant_with_its_own_session_is_lost_at_once() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let guard = client.lock("own").ttl(TTL).await.unwrap();
        let other = client.lock("other").ttl(TTL).await.unwrap();
        let begun = Instant::now();
        break_lock(&cluster, "own").await;
        assert_eq!(tokio::time::timeout(SOON, guard.lost()).await, Ok(Lost::Broken));
        report(&format!("a broken grant with its own session was lost after {:.0?}", begun.elapsed()));
        assert!(other.is_held());
        // Anyone with the id, such as a command under the lock, may release it.
        cluster.client(0).release(&other.id().to_string()).await;
        assert_eq!(tokio::time::timeout(SOON, other.lost()).await, Ok(Lost::Released));
    });
}
