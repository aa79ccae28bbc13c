//! An operator that loses its role while its request is on the way, rights that are disabled meanwhile, and a node that cannot
//! decide.

use super::{
    disconnects::{TIMEOUT, on_three_nodes},
    failpoints::stop_all,
};
use crate::{
    armed_failpoint::{ArmedFailpoint, FailpointAction},
    plan::ScenarioPlan,
    world::World,
};
use fairhold_access::{Need, Principal, UserName, Verb};
use fairhold_node::{
    access::{AccessRefusal, Caller, Credential},
    api::{CallError, ChangeAccessCall},
};
use fairhold_state::{
    State,
    command::{AccessChange, AccessGuard, AccessRequester, ChangeAccess, Command},
};
use fairhold_types::{failpoint::Point, time::WallMillis};
use openraft_rt::{AsyncRuntime, Instant as _};
use openraft_rt_sim::{SimInstant, SimRuntime};
use std::time::Duration;

/// By then nothing of the start is under way.
const SETTLED: Duration = Duration::from_secs(10);
/// How long the read barrier takes by which the node admits the request, and the one by which the leader catches up.
const ADMITTED_AFTER: Duration = Duration::from_millis(100);
const CAUGHT_UP_AFTER: Duration = Duration::from_millis(500);

fn slow_barrier(delay: Duration) -> ArmedFailpoint {
    let action = FailpointAction::Delay(delay);
    ArmedFailpoint { point: Point::RaftBarrierProved, action, at: SETTLED, passes: 0, target: None }
}

/// Changes the access data, as an administrator by a file does.
async fn change_access(world: &World, change: AccessChange) {
    let leader = world.running(world.leader().unwrap()).unwrap();
    let principal = Principal::file_admin();
    let guard = AccessGuard { access: leader.replica.read(|state| state.access().revision()), principal: principal.key() };
    let requester = AccessRequester { principal, client: String::new() };
    let command = Command::ChangeAccess(ChangeAccess { key: None, change, requester, at: WallMillis(0) });
    let answer = leader.replica.propose_within(command.guarded(guard), TIMEOUT).await.unwrap();
    assert!(answer.result.is_ok(), "{answer:?}");
}

fn give(role: &str, user: &str) -> AccessChange {
    AccessChange::Bind { role: role.parse().unwrap(), subject: user.parse().unwrap() }
}

fn take(role: &str, user: &str) -> AccessChange {
    AccessChange::Unbind { role: role.parse().unwrap(), subject: user.parse().unwrap() }
}

/// The user `op`, whose request needs the right to operate.
fn operator() -> Caller {
    let user: UserName = "op".parse().unwrap();
    let credential = Credential::Certificate { user: user.clone(), not_after: WallMillis(u64::MAX) };
    Caller::new(Principal::user(&user), credential).needing(vec![Need::unnamed(Verb::Operate)])
}

#[test]
fn an_operator_that_loses_its_role_after_its_handover_was_admitted_is_denied() {
    let failpoints = vec![slow_barrier(ADMITTED_AFTER), slow_barrier(CAUGHT_UP_AFTER)];
    let plan = ScenarioPlan { failpoints, ..ScenarioPlan::without_faults(3) };
    on_three_nodes(&plan, async |world| {
        SimRuntime::sleep(SETTLED).await;
        change_access(&world, give("admin", "user:root")).await;
        change_access(&world, give("operator", "user:op")).await;
        change_access(&world, AccessChange::Enable).await;
        let leader = world.leader().unwrap();
        let to = world.ids().into_iter().find(|id| *id != leader).unwrap();
        let (host, node) = (world.host(leader).unwrap(), world.running(leader).unwrap().node.for_caller(operator()));
        let begun = SimInstant::now();
        let asked = host.spawn(async move { node.hand_over(to, None, TIMEOUT).await });
        SimRuntime::sleep(ADMITTED_AFTER + CAUGHT_UP_AFTER / 2).await;
        change_access(&world, take("operator", "user:op")).await;
        let answer = asked.await.unwrap();
        let took = SimInstant::now() - begun;
        assert!(matches!(answer, Err(CallError::Access(AccessRefusal::Denied(_)))), "{answer:?}");
        assert!(took >= ADMITTED_AFTER + CAUGHT_UP_AFTER, "it was not admitted: {took:?}");
        assert_eq!(world.leader(), Some(leader));
    });
}

/// An administrator's act by a user without a role needs the right, or the administrators' token if rights are not enforced.
/// A request that began while they were enforced has shown no such token.
#[test]
fn a_request_that_began_before_rights_were_disabled_stays_subject_to_them() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        SimRuntime::sleep(SETTLED).await;
        change_access(&world, give("admin", "user:root")).await;
        change_access(&world, AccessChange::Enable).await;
        let leader = world.leader().unwrap();
        let to = world.ids().into_iter().find(|id| *id != leader).unwrap();
        let (host, running) = (world.host(leader).unwrap(), world.running(leader).unwrap());
        let node = running.node.for_caller_under(operator(), running.replica.read(State::shared_access));
        change_access(&world, AccessChange::Disable).await;
        assert!(!running.replica.read(|state| state.access().is_on()));
        let acts = host.spawn(async move {
            let handed_over = node.hand_over(to, None, TIMEOUT).await;
            let change = give("admin", "user:op");
            let call = ChangeAccessCall { key: None, change, client: String::new(), timeout: TIMEOUT };
            (node.check_caller(), handed_over, node.change_access(call).await)
        });
        let (checked, handed_over, changed) = acts.await.unwrap();
        let is_denied = |error: Option<CallError>| matches!(error, Some(CallError::Access(AccessRefusal::Denied(_))));
        assert!(is_denied(checked.err()));
        assert!(is_denied(handed_over.err()));
        assert!(is_denied(changed.err()));
        assert_eq!(world.leader(), Some(leader));
    });
}

/// The node may not have heard of a right, so it asks the leader before it denies anything.
#[test]
fn a_node_that_reaches_no_leader_says_within_the_timeout_that_it_cannot_decide() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        SimRuntime::sleep(SETTLED).await;
        change_access(&world, give("admin", "user:root")).await;
        change_access(&world, AccessChange::Enable).await;
        let leader = world.leader().unwrap();
        let (host, node) = (world.host(leader).unwrap(), world.running(leader).unwrap().node.for_caller(operator()));
        stop_all(&world);
        let (begun, timeout) = (SimInstant::now(), Duration::from_millis(200));
        let call = ChangeAccessCall { key: None, change: give("admin", "user:op"), client: String::new(), timeout };
        let answer = host.spawn(async move { node.change_access(call).await }).await.unwrap();
        let took = SimInstant::now() - begun;
        assert!(matches!(answer, Err(CallError::Read(_))), "{answer:?}");
        assert!(took < timeout + Duration::from_millis(100), "{took:?} of {timeout:?}");
        world.net.calm();
    });
}
