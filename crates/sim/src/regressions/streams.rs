//! Streams that hold a grant (`hold=stream`) at one node without faults.

use super::{
    disconnects::{TIMEOUT, call, lock},
    on_one_node,
    one_node::{SECOND, SOON, id, is_live, next, since, take, until_ended},
};
use crate::host::HostRuntime;
use fairhold_node::{
    Node,
    api::{CallError, HoldEvent, RevokeCall},
};
use fairhold_state::command::Claimant;
use fairhold_types::EndReason;
use openraft_rt::{AsyncRuntime, Instant as _};
use openraft_rt_sim::{SimInstant, SimRuntime};
use std::time::Duration;

async fn revoke(node: &Node<HostRuntime>, name: &str, reason: &str) {
    let (by, reason) = ("admin".to_owned(), reason.to_owned());
    node.revoke(RevokeCall { key: None, lock: lock(name), by, reason, timeout: TIMEOUT }).await.unwrap();
}

#[test]
fn a_stream_reports_each_change_of_its_grant() {
    on_one_node(async |node| {
        let mut first = node.hold(call(1, "a", Duration::ZERO)).await.unwrap();
        assert!(matches!(&first.first.value, HoldEvent::Held(view) if view.token.is_some()));
        let mut second = node.hold(call(2, "a", 60 * SECOND)).await.unwrap();
        let HoldEvent::Queued { view } = &second.first.value else { panic!("{:?}", second.first) };
        assert_eq!(view.queue_position.as_ref().map(|queue_position| queue_position.position), Some(2), "behind the holder");
        for reason in ["please", "please!"] {
            revoke(&node, "a", reason).await;
            let received = next(&mut first).await;
            assert!(matches!(&received, HoldEvent::Revoke(word) if word.reason == reason), "{received:?}");
        }
        node.release(id(1), None, TIMEOUT).await.unwrap();
        assert!(matches!(next(&mut first).await, HoldEvent::Lost(EndReason::Released)));
        assert!(first.events.recv().await.is_none(), "that was the last");
        assert!(matches!(next(&mut second).await, HoldEvent::Held(_)));
        // The connection is the session: when it closes, the lock is free at once.
        drop(second);
        assert!(until_ended(&node, 2).await < SOON);
    });
}

#[test]
fn a_stream_sends_keepalives_for_as_long_as_it_holds() {
    on_one_node(async |node| {
        let mut short = call(1, "a", Duration::ZERO);
        short.acquire.claimant = Claimant::Anonymous { timeout_ms: 3_000 };
        let mut hold = node.hold(short).await.unwrap();
        let begun = SimInstant::now();
        for sign in 1..=9 {
            assert!(matches!(hold.events.recv().await.unwrap().value, HoldEvent::Alive));
            assert!(since(begun) <= sign * SECOND + SOON, "keepalive {sign} came after {:?}", since(begun));
        }
        assert!(since(begun) >= 8 * SECOND, "nine keepalives in {:?}", since(begun));
        assert!(is_live(&node, 1).await, "the stream keeps it alive");
    });
}

#[test]
fn a_stream_whose_wait_is_over_has_left_the_queue() {
    on_one_node(async |node| {
        take(&node, 1, "a").await;
        let begun = SimInstant::now();
        let mut hold = node.hold(call(2, "a", 2 * SECOND)).await.unwrap();
        assert!(matches!(hold.first.value, HoldEvent::Queued { .. }));
        let received = next(&mut hold).await;
        assert!(matches!(received, HoldEvent::Failed(CallError::WaitTimeout { .. })), "{received:?}");
        assert!((2 * SECOND..2 * SECOND + SOON).contains(&since(begun)), "{:?}", since(begun));
        assert!(!is_live(&node, 2).await && is_live(&node, 1).await);
        // A stream whose request does not wait.
        let refused = node.hold(call(3, "a", Duration::ZERO)).await;
        assert!(matches!(refused, Err(CallError::LockHeld { .. })), "{refused:?}");
    });
}

#[test]
fn a_stream_that_breaks_before_its_first_event_may_be_retried() {
    on_one_node(async |node| {
        let broken = SimRuntime::timeout(Duration::ZERO, node.hold(call(1, "a", Duration::ZERO))).await;
        assert!(broken.is_err());
        SimRuntime::sleep(SOON).await;
        assert!(is_live(&node, 1).await, "its caller has a moment to retry");
        let again = node.hold(call(1, "a", Duration::ZERO)).await.unwrap();
        assert!(matches!(again.first.value, HoldEvent::Held(_)));
        SimRuntime::sleep(10 * SECOND).await;
        assert!(is_live(&node, 1).await);
        drop(again);
        assert!(until_ended(&node, 1).await < 3 * SECOND);
    });
}

#[test]
fn a_stream_that_is_granted_at_once_counts_as_held_and_sends_a_keepalive_after_three_seconds() {
    on_one_node(async |node| {
        let mut registry = fairhold_metrics::registry();
        node.register_metrics(&mut registry);
        let mut held = node.hold(call(1, "a", SECOND)).await.unwrap();
        assert!(matches!(held.first.value, HoldEvent::Held(_)), "{:?}", held.first);
        let text = fairhold_metrics::text(&registry, fairhold_metrics::Format::accepted(None)).unwrap();
        assert!(text.contains(r#"acquires_total{outcome="held"} 1"#), "{text}");
        let begun = SimInstant::now();
        let received = held.events.recv().await.expect("it goes on");
        assert!(matches!(received.value, HoldEvent::Alive), "{received:?}");
        let after = since(begun);
        assert!((3 * SECOND..4 * SECOND).contains(&after), "after {after:?}");
    });
}
