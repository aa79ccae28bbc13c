//! Ends a command that would follow its cluster for ever, if only nodes of another cluster answer.

use super::Failure;
use fairhold_client::Client;
use fairhold_types::{ClusterId, duration};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const CHECK_EVERY: Duration = Duration::from_millis(500);

/// Runs `work` to its end, or until nodes of another cluster have answered for `within`, and none of this one.
pub(crate) async fn unless_other_cluster(
    client: &Client,
    within: Duration,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    tokio::select! {
        biased;
        done = work => done,
        other = only_other_answers(client, within) => {
            let own = client.cluster_id().map_or_else(String::new, |id| format!(" {id}"));
            Err(Failure::Unavailable(format!(
                "no node of the cluster{own} has answered for {}, but one of the cluster {other} has: if the cluster was \
                 restored, start this program again",
                duration::rounded(within)
            )))
        }
    }
}

async fn only_other_answers(client: &Client, within: Duration) -> ClusterId {
    let mut since = None;
    loop {
        sleep(CHECK_EVERY).await;
        let other = client.contact().other_cluster;
        since = since_when(since, other, Instant::now());
        if let (Some(since), Some(other)) = (since, other)
            && since.elapsed() >= within
        {
            return other;
        }
    }
}

/// Since when only another cluster has answered. An answer of the client's own cluster begins anew.
fn since_when(since: Option<Instant>, other: Option<ClusterId>, now: Instant) -> Option<Instant> {
    other.and(since.or(Some(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_of_another_cluster_without_one_of_this_cluster_end_a_watch() {
        let (early, now) = (Instant::now(), Instant::now() + Duration::from_secs(9));
        let other = Some(ClusterId(8));
        assert_eq!(since_when(None, other, early), Some(early));
        assert_eq!(since_when(Some(early), other, now), Some(early), "the time runs on");
        assert_eq!(since_when(Some(early), None, now), None, "a node of this cluster has answered");
    }
}
