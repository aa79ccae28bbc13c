//! Clients that write many nodes, and a watcher at each server that continues after every break.

use super::{Keys, locks::pause};
use crate::{
    client::{ChaosClient, ClientShared},
    history::{Event, Outcome},
    http::{Http, Request},
};
use rand::RngExt;
use std::{sync::Arc, time::Duration};

/// The pause before a broken watch is resumed.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// A stream that is silent for this long is closed: a bookmark comes every 10 s.
const SILENT_AFTER: Duration = Duration::from_secs(12);
/// The timeout of the start of an answer.
const BEGINS_WITHIN: Duration = Duration::from_secs(3);

pub(super) async fn write(mut client: ChaosClient, keys: Arc<Keys>) {
    while !client.is_over() {
        let key = format!("chaos/{}", keys.next());
        if client.random.random_range(0..4) == 0 {
            client.read(&key).await;
        } else if client.write(&key, None).await == Outcome::Ok {
            pause(&mut client, 25).await;
        }
    }
}

/// How a stream ended.
enum WatchEnd {
    /// It broke, or never began.
    Broken,
    /// The requested events are compacted.
    Compacted,
}

/// Watches everything at one server until it has shown the final revision. If this server lacks
/// events because it restarted from a snapshot, watches them at another server, as the contract says. It does so, too,
/// while the machine has no member of the cluster.
pub(crate) async fn follow(node: usize, http: Http, shared: Arc<ClientShared>, mut rest: tokio::sync::watch::Receiver<u64>) {
    let (mut from, mut at) = (None, http.serving_from(node));
    loop {
        let followed = one_stream(node, at, &http, &shared, &mut from);
        let enough = async {
            loop {
                let at_rest = *rest.borrow_and_update();
                if at_rest > 0 && shared.recorder.last_revision(node - 1).0 >= at_rest {
                    return;
                }
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        };
        let ended = tokio::select! {
            ended = followed => ended,
            () = enough => return,
        };
        at = match ended {
            WatchEnd::Broken => http.serving_from(node),
            WatchEnd::Compacted => http.serving_from(at + 1),
        };
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// One streamed answer of a server, recorded for the watch of a node. Afterwards `from` says where to resume.
async fn one_stream(node: usize, at: usize, http: &Http, shared: &ClientShared, from: &mut Option<u64>) -> WatchEnd {
    let begin = from.unwrap_or(1);
    let request = Request::get(format!("/v1/watch?from={begin}"));
    let opened = tokio::time::timeout(BEGINS_WITHIN, http.open(at, &request)).await;
    let Ok(Ok(mut response)) = opened else { return WatchEnd::Broken };
    match response.status().as_u16() {
        200 => {}
        410 => return WatchEnd::Compacted,
        _other => return WatchEnd::Broken,
    }
    // The server repeats the events of this revision, in the same order.
    let (last, seen) = shared.recorder.last_revision(node - 1);
    let mut again = if last == begin { seen } else { 0 };
    let mut text = Vec::new();
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout(SILENT_AFTER, response.chunk()).await {
        text.extend_from_slice(&chunk);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let Ok(line) = serde_json::from_slice::<serde_json::Value>(&line) else { return WatchEnd::Broken };
            let revision = line["revision"].as_u64().unwrap_or(0);
            match line["type"].as_str().unwrap_or_default() {
                "bookmark" | "goaway" => *from = Some(revision + 1),
                "error" => return if line["code"] == "compacted" { WatchEnd::Compacted } else { WatchEnd::Broken },
                _change if revision == begin && again > 0 => again -= 1,
                _change => {
                    *from = Some(revision);
                    shared.recorder.record_event(node - 1, Event { at: shared.recorder.now(), revision, line: line.into() });
                }
            }
        }
    }
    WatchEnd::Broken
}
