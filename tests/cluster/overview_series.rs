//! The totals over time: each node keeps rows of its own, gives only newer ones, and says if they do not follow.

use crate::{
    client::{Answer, Call},
    harness::{Cluster, READY_WITHIN, SHORT, eventually, run_parallel},
};

async fn series(cluster: &Cluster, index: usize, query: &str) -> Answer {
    let call = Call::get(&format!("/v1/overview/series{query}"));
    cluster.client(index).send_to(index, &call).await.expect("the node runs").expect_status(200)
}

/// The figures of one column, the oldest first.
fn column(answer: &Answer, name: &str) -> Vec<u64> {
    let names = answer.json["names"].as_array().expect("names");
    let at = names.iter().position(|known| known == name).unwrap_or_else(|| panic!("no {name}: {answer:?}"));
    let rows = answer.json["rows"].as_array().expect("rows");
    rows.iter().map(|row| row[at].as_u64().unwrap_or_else(|| panic!("no integer: {row}"))).collect()
}

#[test]
fn a_node_tells_its_totals_over_time_and_continues_them_until_it_restarts() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        for lock in ["a", "b", "c"] {
            client.acquire(lock, "ttl=60s").await;
        }
        let first = eventually("a row has the held locks", READY_WITHIN, || async {
            let answer = series(&cluster, 0, "?step=1s").await;
            (column(&answer, "held").last() == Some(&3)).then_some(answer)
        })
        .await;
        assert_eq!(column(&first, "grants").iter().sum::<u64>(), 3, "{first:?}");
        assert_eq!((first.string("step"), &first.json["continues"]), ("1s", &false.into()));
        assert!(column(&first, "term").last().is_some_and(|term| *term > 0), "{first:?}");

        let after = format!("?after={}", first.string("next"));
        let newer = eventually("a newer row", READY_WITHIN, || async {
            let answer = series(&cluster, 0, &after).await;
            (!column(&answer, "at").is_empty()).then_some(answer)
        })
        .await;
        assert_eq!(newer.json["continues"], true);
        assert!(column(&newer, "at").first() > column(&first, "at").last(), "{newer:?} after {first:?}");

        let other = series(&cluster, 1, &after).await;
        assert_eq!(other.json["continues"], false, "the rows of another node follow no row of this one");
        let minutes = series(&cluster, 0, &after.replace("?", "?step=1m&")).await;
        assert_eq!((minutes.string("step"), &minutes.json["continues"]), ("1m", &false.into()));

        cluster.nodes[0].kill().await;
        cluster.nodes[0].start();
        cluster.ready().await;
        assert_eq!(series(&cluster, 0, &after).await.json["continues"], false, "the rows from before are gone");
    });
}
