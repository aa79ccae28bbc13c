//! Callers that disconnect, with a slow acquire or a lost outcome.

use super::disconnects::{TIMEOUT, acquire_at, acquire_in_background, call, live, on_three_nodes, open_session, until};
use crate::{
    armed_failpoint::{ArmedFailpoint, FailpointAction},
    client_kind::{ClientKind, ClientPlan},
    facts::{Conversion, Fact},
    plan::ScenarioPlan,
    world::World,
};
use axum::body::Body;
use fairhold_node::api::{AcquireCall, Acquired};
use fairhold_state::command::Claimant;
use fairhold_types::{GrantId, Mode, NodeId, failpoint::Point};
use http::{Request, StatusCode};
use openraft_rt::{AsyncRuntime, Instant as _};
use openraft_rt_sim::{SimInstant, SimRuntime};
use serde_json::{Value, json};
use std::time::Duration;

const SLOW: NodeId = 1;
const PATIENT: Duration = Duration::from_secs(600);
const A_WHILE: Duration = Duration::from_secs(3);

/// A failpoint on the slow node that fails once, after this many passes.
fn point(point: Point, action: FailpointAction, passes: u32) -> ArmedFailpoint {
    ArmedFailpoint { point, action, at: Duration::ZERO, passes, target: Some(SLOW) }
}

fn plan(failpoints: Vec<ArmedFailpoint>) -> ScenarioPlan {
    ScenarioPlan { failpoints, ..ScenarioPlan::without_faults(3) }
}

fn with_key(mut call: AcquireCall, id_given: bool) -> AcquireCall {
    call.acquire.id_given = id_given;
    call
}

/// Partitions all nodes: from now on nothing can be committed, confirmed or forwarded.
pub(super) fn stop_all(world: &World) {
    for from in world.ids() {
        for to in world.ids().into_iter().filter(|to| *to != from) {
            world.net.cut(from, to);
        }
    }
}

#[test]
fn an_acquire_with_a_lost_outcome_ends_if_its_caller_has_disconnected() {
    let slow = FailpointAction::Delay(Duration::from_millis(300));
    let failpoints = (0..2)
        .flat_map(|_| [point(Point::NodeAcquireClaim, slow, 0), point(Point::NodeAcquireClaimed, FailpointAction::Error, 0)]);
    on_three_nodes(&plan(failpoints.collect()), async |world| {
        for (id, key_given, ends) in [(1, false, true), (2, true, false)] {
            let wanted = with_key(call(id, &format!("lost/{id}"), Duration::ZERO), key_given);
            assert_eq!(acquire_at(&world, SLOW, wanted, Duration::from_millis(100)).await, None, "its caller has disconnected");
            until(A_WHILE, "it is committed", || live(&world, id).is_some()).await;
            SimRuntime::sleep(Duration::from_secs(2)).await;
            assert_eq!(live(&world, id).is_none(), ends, "a caller that chose the id may retry with it: {id}");
        }
    });
}

#[test]
fn an_acquire_with_a_lost_outcome_stays_if_its_caller_learns_that_it_is_unknown() {
    on_three_nodes(&plan(vec![point(Point::NodeAcquireClaimed, FailpointAction::Error, 0)]), async |world| {
        let answer = acquire_at(&world, SLOW, with_key(call(1, "a", Duration::ZERO), false), PATIENT).await;
        assert!(matches!(answer, Some(Err(ref error)) if error.is_unknown()), "{answer:?}");
        SimRuntime::sleep(A_WHILE).await;
        assert!(live(&world, 1).is_some(), "the caller knows the id, and may retry with it");
    });
}

#[test]
fn an_undelivered_grant_of_a_session_ends_if_no_caller_has_its_id() {
    let slow = FailpointAction::Delay(Duration::from_millis(300));
    on_three_nodes(&plan(vec![point(Point::NodeAcquireClaim, slow, 0); 2]), async |world| {
        let session = open_session(&world).await;
        for (id, key_given) in [(1, false), (2, true)] {
            let mut wanted = with_key(call(id, &format!("untold/{id}"), Duration::ZERO), key_given);
            wanted.acquire.claimant = Claimant::Session(session);
            assert_eq!(acquire_at(&world, SLOW, wanted, Duration::from_millis(100)).await, None, "its caller has disconnected");
            until(A_WHILE, "it is committed", || live(&world, id).is_some()).await;
        }
        SimRuntime::sleep(A_WHILE).await;
        assert_eq!((live(&world, 1), live(&world, 2).is_some()), (None, true), "with its own key a caller can retry");
    });
}

#[test]
fn all_steps_of_an_acquire_together_respect_the_timeout() {
    let slow = FailpointAction::Delay(Duration::from_millis(2_500));
    // An existing grant is renewed before the answer.
    let renewal = point(Point::NodeKeepaliveSend, FailpointAction::Delay(PATIENT), 0);
    on_three_nodes(&plan(vec![point(Point::NodeAcquireClaim, slow, 1), renewal]), async |world| {
        let first = acquire_at(&world, SLOW, call(1, "a", Duration::ZERO), PATIENT).await;
        assert!(matches!(first, Some(Ok(Acquired::Held(_)))), "{first:?}");
        let begun = SimInstant::now();
        let answer = acquire_at(&world, SLOW, call(1, "a", Duration::ZERO), PATIENT).await.unwrap();
        let took = SimInstant::now() - begun;
        assert!(matches!(answer, Err(ref error) if error.is_unknown()), "{answer:?}");
        assert!(took < TIMEOUT + Duration::from_millis(100), "{took:?} of {TIMEOUT:?}");
    });
}

/// A node that has had no sign of a leader asks for one before it serves a caller that the administrators' file does not have.
#[test]
fn the_wait_for_newer_rights_and_the_call_together_respect_the_timeout() {
    let (settled, slow) = (Duration::from_secs(10), FailpointAction::Delay(Duration::from_millis(900)));
    let slow = ArmedFailpoint { at: settled, target: None, ..point(Point::RaftBarrierProved, slow, 0) };
    // With this client in the plan, the nodes have an administrators' file.
    let administrator = ClientPlan { kind: ClientKind::AccessAdministrator, name: "a1".to_owned(), seed: 0, rounds: 0 };
    let plan = ScenarioPlan { clients: vec![administrator], ..plan(vec![slow]) };
    on_three_nodes(&plan, async |world| {
        SimRuntime::sleep(settled).await;
        let leader = world.leader().unwrap();
        let request = Request::put("/v1/nodes/a").header("fairhold-timeout", "3s").header("authorization", "Bearer unknown");
        let request = request.body(Body::from("value")).unwrap();
        let (begun, to) = (SimInstant::now(), world.clone());
        let asked = SimRuntime::spawn(async move { to.call(leader, request).await });
        // The barrier is proven, and slow. A write that did not wait for it would be committed by now.
        SimRuntime::sleep(Duration::from_millis(500)).await;
        stop_all(&world);
        let reply = asked.await.unwrap().unwrap();
        let took = SimInstant::now() - begun;
        assert!(matches!(reply.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT), "{}", reply.status);
        assert!(took > TIMEOUT - Duration::from_millis(100), "the call has the rest of the timeout: {took:?}");
        assert!(took < TIMEOUT + Duration::from_millis(100), "{took:?} of {TIMEOUT:?}");
        world.net.calm();
    });
}

#[test]
fn the_steps_after_a_wait_respect_the_rest_of_the_timeout() {
    let slow = FailpointAction::Delay(Duration::from_millis(2_500));
    on_three_nodes(&plan(vec![point(Point::NodeAcquireClaim, slow, 1)]), async |world| {
        let first = acquire_at(&world, SLOW, call(1, "a", Duration::ZERO), PATIENT).await;
        assert!(matches!(first, Some(Ok(Acquired::Held(_)))), "{first:?}");
        let (begun, wait) = (SimInstant::now(), Duration::from_secs(5));
        let waits = acquire_in_background(&world, SLOW, call(2, "a", wait), PATIENT);
        until(TIMEOUT, "it waits", || live(&world, 2).is_some()).await;
        // Giving the grant up takes a command, and so a majority.
        stop_all(&world);
        let answer = waits.await.unwrap();
        let took = SimInstant::now() - begun;
        assert!(matches!(answer, Err(ref error) if error.is_unknown()), "{answer:?}");
        assert!(took < TIMEOUT + wait + Duration::from_millis(200), "{took:?} of {TIMEOUT:?} and {wait:?}");
        world.net.calm();
    });
}

#[test]
fn a_slow_call_of_a_batch_delays_the_other_answers_no_longer_than_the_timeout() {
    let slow = FailpointAction::Delay(Duration::from_millis(2_500));
    on_three_nodes(&plan(vec![point(Point::NodeAcquireClaim, slow, 0)]), async |world| {
        let session = open_session(&world).await;
        let acquire = |id: u128| {
            let (id, lock) = (GrantId::from_ulid(id).to_string(), format!("l/{id}"));
            json!({ "acquire": { "id": id, "lock": lock, "session": session.to_hex() } })
        };
        let release = json!({ "release": { "id": GrantId::from_ulid(1).to_string() } });
        let calls = [acquire(1), release.clone(), release, acquire(2)];
        let request = Request::post("/v1/batch").header("fairhold-timeout", "3s").header("content-type", "application/json");
        let request = request.body(Body::from(json!({ "calls": calls }).to_string())).unwrap();
        let (begun, to) = (SimInstant::now(), world.clone());
        let asked = SimRuntime::spawn(async move { to.call(SLOW, request).await });
        until(TIMEOUT, "the slow one is committed", || live(&world, 1).is_some()).await;
        // So the release of the grant is not committed.
        stop_all(&world);
        let reply = asked.await.unwrap().unwrap();
        let took = SimInstant::now() - begun;
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        let statuses: Vec<_> = body["answers"].as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
        assert_eq!((&statuses[0], &statuses[2], &statuses[3]), (&json!(200), &json!(504), &json!(200)), "{body}");
        assert_eq!(body["answers"][2]["body"]["outcome"], "none", "{body}");
        assert!(took < TIMEOUT + Duration::from_millis(100), "{took:?} of {TIMEOUT:?}");
        world.net.calm();
    });
}

#[test]
fn the_steps_after_the_wait_of_an_upgrade_respect_the_rest_of_the_timeout() {
    let slow = FailpointAction::Delay(Duration::from_millis(2_500));
    on_three_nodes(&plan(vec![point(Point::RaftProposeForward, slow, 0)]), async |world| {
        if world.leader() == Some(SLOW) {
            world.running(SLOW).unwrap().node.hand_over(2, None, TIMEOUT).await.unwrap();
            until(TIMEOUT, "another leads", || world.leader() == Some(2)).await;
        }
        let shared = |id| {
            let mut call = call(id, "a", Duration::ZERO);
            call.acquire.wants[0].mode = Mode::Shared;
            call
        };
        for id in [1, 2] {
            let reader = acquire_at(&world, 2, shared(id), PATIENT).await;
            assert!(matches!(reader, Some(Ok(Acquired::Held(_)))), "{reader:?}");
        }
        let (host, node) = (world.host(SLOW).unwrap(), world.running(SLOW).unwrap().node);
        let (begun, wait) = (SimInstant::now(), Duration::from_secs(5));
        let target = format!("#{}", live(&world, 1).unwrap());
        world.oracle.observe(&Fact::Changing { target, key: "upgrade".to_owned(), change: Conversion::Upgraded });
        let upgrade = host.spawn(async move { node.upgrade(GrantId::from_ulid(1), None, wait, TIMEOUT).await });
        let upgrading = || {
            let state = world.running(2).unwrap().replica.state();
            state.contender(live(&world, 1).unwrap()).is_some_and(|contender| contender.upgrading)
        };
        until(TIMEOUT, "it waits to be the only holder", upgrading).await;
        // Giving the grant up takes a command, and so a majority.
        stop_all(&world);
        let answer = upgrade.await.unwrap();
        let took = SimInstant::now() - begun;
        assert!(matches!(answer, Err(ref error) if error.is_unknown()), "{answer:?}");
        assert!(took < TIMEOUT + wait + Duration::from_millis(200), "{took:?} of {TIMEOUT:?} and {wait:?}");
        world.net.calm();
    });
}
