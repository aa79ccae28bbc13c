//! The network between a client and its cluster is cut: the client knows before the cluster grants to another.

use crate::{
    harness::{Cluster, SHORT, alone, report},
    uses::client_of,
};
use fairhold_client::{Client, Lost, margin};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

const TTL: Duration = Duration::from_secs(3);

/// Passes bytes on to a node until it is cut; then connections stand, and nothing passes.
async fn proxy(to: String, cut: watch::Receiver<bool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let to: Arc<str> = to.trim_start_matches("http://").into();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (to, mut cut) = (Arc::clone(&to), cut.clone());
            tokio::spawn(async move {
                let Ok(mut node) = TcpStream::connect(&*to).await else { return };
                tokio::select! {
                    biased;
                    _ = async { cut.wait_for(|cut| *cut).await.is_ok() } => std::future::pending::<()>().await,
                    passed = tokio::io::copy_bidirectional(&mut client, &mut node) => drop(passed),
                }
            });
        }
    });
    url
}

#[test]
fn a_guard_that_is_cut_off_is_lost_before_the_next_one_is_granted() {
    alone(SHORT, async {
        let cluster = Cluster::start().await;
        let (cut, is_cut) = watch::channel(false);
        let mut builder = Client::builder().discover(false);
        for node in &cluster.nodes {
            builder = builder.endpoint(proxy(node.url.clone(), is_cut.clone()).await);
        }
        let client = builder.build().unwrap();
        let guard = client.lock("cut").ttl(TTL).await.unwrap();
        let next = tokio::spawn(client_of(&cluster).lock("cut").into_future());
        // Renewals pass first, so that it is not the acquire that is counted from.
        crate::harness::pass(TTL * 2).await;
        assert!(guard.is_held(), "its renewals pass");

        let cut_at = Instant::now();
        cut.send(true).unwrap();
        let lost = guard.lost().await;
        let lost_after = cut_at.elapsed();
        let granted = next.await.unwrap().unwrap();
        let granted_after = cut_at.elapsed();
        report(&format!("cut off: lost {lost_after:.2?} after the cut; the next one was granted after {granted_after:.2?}"));
        assert_eq!(lost, Lost::CutOff);
        assert!(lost_after <= TTL - margin(TTL) + Duration::from_millis(100), "too late: {lost_after:?}");
        assert!(granted_after >= lost_after, "granted to another before it was lost");
        assert!(granted.is_held() && !guard.is_held());
    });
}
