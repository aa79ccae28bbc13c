//! Waits until every node is ready.

use super::DevPlan;
use fairhold_types::text::terminal_safe;
use reqwest::Client;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The polling interval.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// How long one answer may take.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How often `dev` repeats which nodes are not ready.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Waits until `/readyz` of every node answers 200 in one round.
pub(super) async fn all_ready(plan: &DevPlan, client: &Client) {
    let mut reported = Instant::now();
    loop {
        let polls = plan.nodes().map(|node| {
            let request = client.get(format!("{}/readyz", node.url()));
            async move { (node.id(), answer(request).await) }
        });
        let answers = futures_util::future::join_all(polls).await;
        let unready: Vec<String> =
            answers.into_iter().filter_map(|(id, answer)| answer.err().map(|why| format!("node {id}: {why}"))).collect();
        if unready.is_empty() {
            return;
        }
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            eprintln!("dev: not ready yet: {}", terminal_safe(&unready.join("; ")));
        }
        sleep(POLL_EVERY).await;
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<(), String> {
    match request.send().await {
        Ok(answer) if answer.status() == reqwest::StatusCode::OK => Ok(()),
        Ok(answer) => Err(answer.status().to_string()),
        Err(error) if error.is_connect() => Err("not listening yet".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
