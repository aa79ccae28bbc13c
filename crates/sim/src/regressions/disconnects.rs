//! Callers that disconnect before they learn the outcome of their acquire, while others use the same id.

use crate::{coverage::Coverage, host::HostRuntime, plan::ScenarioPlan, world::World};
use fairhold_node::api::{AcquireCall, Acquired, At, CallError, GrantView, HoldCall, HoldEvent};
use fairhold_state::{
    command::{Acquire, Claimant, Command, IfBusy, Meta, Outcome, Owner, Want},
    read::GrantStatus,
};
use fairhold_types::{GrantId, GrantNumber, LockName, Mode, NodeId, SessionId, time::WallMillis};
use openraft_rt::{AsyncRuntime, Instant as _};
use openraft_rt_sim::{SimInstant, SimRuntime};
use std::time::Duration;

pub(super) const TIMEOUT: Duration = Duration::from_secs(3);
/// A ttl longer than any scenario: if a grant ends earlier, the cause is another.
pub(super) const TTL: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_secs(1);
/// By then a replaced caller has retried, or never will.
const GIVEN_UP: Duration = Duration::from_secs(3);
const PATIENT: Duration = Duration::from_secs(600);

/// Runs a scenario on a cluster of three nodes with a leader.
pub(super) fn on_three_nodes<F: Future<Output = ()>>(plan: &ScenarioPlan, scenario: impl FnOnce(World) -> F) {
    let mut runtime = HostRuntime::with_seed(1);
    runtime.block_on(async {
        let world = World::new(plan, Coverage::default());
        world.ids().into_iter().for_each(|id| world.start(id));
        while world.leader().is_none() || world.ids().into_iter().any(|id| world.running(id).is_none()) {
            SimRuntime::sleep(Duration::from_millis(10)).await;
        }
        #[cfg(feature = "failpoints")]
        crate::failpoint_judge::judge(&world, plan);
        scenario(world.clone()).await;
        #[cfg(feature = "failpoints")]
        fairhold_types::failpoint::set_judge(None);
        assert_eq!(world.oracle.violations(), Vec::<String>::new());
    });
}

pub(super) fn lock(name: &str) -> LockName {
    LockName::parse(name).unwrap()
}

pub(super) fn call(id: u128, name: &str, wait: Duration) -> AcquireCall {
    AcquireCall {
        acquire: Acquire {
            grant: GrantId::from_ulid(id),
            id_given: true,
            wants: vec![Want { lock: lock(name), mode: Mode::Exclusive }],
            claimant: Claimant::Anonymous { timeout_ms: u64::try_from(TTL.as_millis()).unwrap() },
            if_busy: IfBusy::Queue,
            limit: None,
            permits: 1,
            priority: 0,
            owner: Owner { text: "o".to_owned(), given: true },
            meta: Meta::new(),
            lock_delay_ms: 0,
            reentrant: false,
            max_hold_ms: None,
            value: None,
            at: WallMillis(0),
        },
        wait,
        respond_async: false,
        timeout: TIMEOUT,
    }
}

/// Acquires at a node, with a caller that disconnects after a while: then there is no answer.
pub(super) async fn acquire_at(
    world: &World,
    at: NodeId,
    call: AcquireCall,
    patience: Duration,
) -> Option<Result<Acquired, CallError>> {
    let (host, node) = (world.host(at).unwrap(), world.running(at).unwrap().node);
    let asked = host.spawn(async move { HostRuntime::timeout(patience, node.acquire(call)).await.ok() });
    asked.await.unwrap().map(|answer| answer.map(|At { value, .. }| value))
}

/// The same in the background.
pub(super) fn acquire_in_background(
    world: &World,
    at: NodeId,
    call: AcquireCall,
    patience: Duration,
) -> impl Future<Output = Option<Result<Acquired, CallError>>> + use<> {
    let world = world.clone();
    let asked = SimRuntime::spawn(async move { acquire_at(&world, at, call, patience).await });
    async move { asked.await.unwrap() }
}

fn held(answer: Option<Result<Acquired, CallError>>) -> GrantView {
    match answer {
        Some(Ok(Acquired::Held(view))) => view,
        other => panic!("it is not held: {other:?}"),
    }
}

/// Releases at the leader.
pub(super) async fn release(world: &World, id: u128) {
    let leader = world.running(world.leader().unwrap()).unwrap();
    leader.node.release(GrantId::from_ulid(id), None, TIMEOUT).await.unwrap();
}

/// The grant of an id as the leader has it.
pub(super) fn live(world: &World, id: u128) -> Option<GrantNumber> {
    let leader = world.running(world.leader().unwrap()).unwrap();
    leader.replica.read(|state| match state.grant(&GrantId::from_ulid(id)) {
        GrantStatus::Live(contender) => Some(contender.number),
        GrantStatus::Ended(_) | GrantStatus::Unknown => None,
    })
}

/// Waits until a condition holds. Returns how long that took.
pub(super) async fn until(limit: Duration, what: &str, holds: impl Fn() -> bool) -> Duration {
    let begun = SimInstant::now();
    while !holds() {
        let waited = SimInstant::now() - begun;
        assert!(waited < limit, "not after {waited:?}: {what}");
        SimRuntime::sleep(Duration::from_millis(1)).await;
    }
    SimInstant::now() - begun
}

/// The nodes, a follower first and the leader last.
fn nodes(world: &World) -> [NodeId; 3] {
    let leader = world.leader().unwrap();
    let follower = |which| world.ids().into_iter().filter(|id| *id != leader).nth(which).unwrap();
    [follower(0), follower(1), leader]
}

#[test]
fn a_late_duplicate_whose_connection_ends_takes_nothing_from_the_holder() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let [slow, other, _] = nodes(&world);
        // When the disconnect is noticed depends on the network, so the test tries every time.
        for moment in 0..80 {
            let id = 1_000 + moment;
            let name = format!("held/{moment}");
            let first = held(acquire_at(&world, other, call(id, &name, Duration::ZERO), PATIENT).await);
            assert!(first.attempt_to_abandon.is_some(), "the first one ends with its caller, if its answer does not arrive");
            let patience = Duration::from_micros(100 * u64::try_from(moment).unwrap());
            if let Some(answer) = acquire_at(&world, slow, call(id, &name, Duration::ZERO), patience).await {
                assert_eq!(held(Some(answer)).attempt_to_abandon, None, "a repeated request does not end it");
            }
        }
        SimRuntime::sleep(GIVEN_UP * 2).await;
        let ended: Vec<u128> = (0..80).filter(|moment| live(&world, 1_000 + moment).is_none()).collect();
        assert_eq!(ended, [0_u128; 0], "these callers lost their grants without notice");
    });
}

#[test]
fn a_late_duplicate_whose_connection_ends_leaves_the_replaced_waiter_time_to_retry() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let [slow, other, leader] = nodes(&world);
        held(acquire_at(&world, leader, call(1, "a", Duration::ZERO), PATIENT).await);
        for (id, retries) in [(2, true), (3, false)] {
            let waiting = acquire_in_background(&world, other, call(id, "a", PATIENT), PATIENT);
            until(SOON, "it waits", || live(&world, id).is_some()).await;
            let number = live(&world, id).unwrap();
            let late = acquire_in_background(&world, slow, call(id, "a", PATIENT), Duration::from_millis(50));
            assert_eq!(waiting.await, Some(Err(CallError::Superseded)));
            assert_eq!(late.await, None, "its caller has disconnected");
            if retries {
                SimRuntime::sleep(Duration::from_millis(1_500)).await;
                let again = acquire_in_background(&world, leader, call(id, "a", PATIENT), PATIENT);
                SimRuntime::sleep(GIVEN_UP).await;
                assert_eq!(live(&world, id), Some(number), "it keeps its place");
                release(&world, 1).await;
                assert_eq!(held(again.await).number, number);
            } else {
                let took = until(GIVEN_UP, "its place is given up", || live(&world, id).is_none()).await;
                assert!(took > Duration::from_millis(1_500), "only if nobody retried: after {took:?}");
            }
        }
    });
}

#[test]
fn a_disconnected_waiter_without_a_duplicate_leaves_at_once() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let [slow, _, leader] = nodes(&world);
        held(acquire_at(&world, leader, call(1, "a", Duration::ZERO), PATIENT).await);
        assert_eq!(acquire_at(&world, slow, call(2, "a", PATIENT), Duration::from_millis(200)).await, None);
        assert!(live(&world, 2).is_some());
        until(SOON, "it has left", || live(&world, 2).is_none()).await;
    });
}

/// Opens a stream at a node.
async fn open(world: &World, at: NodeId, call: AcquireCall) -> HoldCall {
    let (host, node) = (world.host(at).unwrap(), world.running(at).unwrap().node);
    host.spawn(async move { node.hold(call).await }).await.unwrap().unwrap()
}

#[test]
fn a_replaced_stream_learns_it_and_has_time_to_retry() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let [slow, other, leader] = nodes(&world);
        let mut first = open(&world, other, call(1, "a", Duration::ZERO)).await;
        let late = open(&world, slow, call(1, "a", Duration::ZERO)).await;
        let received = loop {
            let received = first.events.recv().await.unwrap().value;
            if received != HoldEvent::Alive {
                break received;
            }
        };
        assert_eq!(received, HoldEvent::Failed(CallError::Superseded));
        drop(late);
        SimRuntime::sleep(Duration::from_millis(1_500)).await;
        let again = open(&world, leader, call(1, "a", Duration::ZERO)).await;
        assert!(matches!(again.first.value, HoldEvent::Held(_)), "{:?}", again.first);
        SimRuntime::sleep(GIVEN_UP).await;
        assert!(live(&world, 1).is_some(), "it is still held");
        drop(again);
        until(GIVEN_UP, "it ends with the connection", || live(&world, 1).is_none()).await;

        let exclusive = open(&world, other, call(2, "a", Duration::ZERO)).await;
        drop(exclusive);
        let took = until(SOON, "it ends with its connection", || live(&world, 2).is_none()).await;
        assert!(took < Duration::from_millis(100), "at once: {took:?}");
    });
}

/// Opens a session at the leader.
pub(super) async fn open_session(world: &World) -> SessionId {
    let id = SessionId(7);
    let leader = world.running(world.leader().unwrap()).unwrap();
    let open = fairhold_state::command::OpenSession {
        key: None,
        id,
        timeout_ms: u64::try_from(TTL.as_millis()).unwrap(),
        name: String::new(),
        meta: Meta::new(),
        at: WallMillis(0),
    };
    let opened = leader.replica.propose_within(Command::OpenSession(open), TIMEOUT).await.unwrap();
    assert!(matches!(opened.result, Ok(Outcome::SessionOpened { .. })));
    id
}

#[test]
fn a_queued_grant_of_a_session_ends_with_its_caller_if_no_caller_has_its_id() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let [slow, _, leader] = nodes(&world);
        let session = open_session(&world).await;
        held(acquire_at(&world, leader, call(1, "a", Duration::ZERO), PATIENT).await);
        let of_session = |id, id_given| {
            let mut call = call(id, "a", PATIENT);
            (call.acquire.claimant, call.acquire.id_given) = (Claimant::Session(session), id_given);
            // Otherwise the second request would wait for the first, which has the same owner.
            call.acquire.owner.given = false;
            call
        };
        for (id, id_given) in [(2, false), (3, true)] {
            assert_eq!(acquire_at(&world, slow, of_session(id, id_given), Duration::from_millis(200)).await, None);
        }
        SimRuntime::sleep(GIVEN_UP).await;
        assert_eq!((live(&world, 2), live(&world, 3).is_some()), (None, true), "with its own key a caller can retry");
    });
}
