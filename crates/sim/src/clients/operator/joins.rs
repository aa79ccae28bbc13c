//! How machines join, in addition to the members or in place of one.

use super::{
    removals,
    view::{TRIES, ask_to_leave, until},
};
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
    world::NewMachine,
};
use fairhold_raft::{JoinRefusal, JoinRequest, JoinToken, Joined};
use fairhold_state::command::JoinTokenFault;
use fairhold_types::{MemberRole, NodeId, cluster_version::MEMBERSHIP_SINCE};
use http::{Method, StatusCode};
use rand::RngExt;
use std::str::FromStr;

/// The longest time between the admission of a machine and the start of its node, in milliseconds.
const STARTS_WITHIN_MS: u64 = 3_000;
/// The node of one in this many admitted machines never starts.
const GIVEN_UP_ONE_IN: u32 = 8;
/// One in this many tokens is used by a second machine.
const REUSED_ONE_IN: u32 = 4;
/// How often a request is repeated whose answer is known in advance.
pub(super) const REPEATS: u32 = 5;

/// Tries to create join tokens until the cluster's version allows it.
pub(super) async fn until_allowed(client: &mut SimClient) {
    for _ in 0..TRIES {
        if client.world.oracle.cluster_version() >= MEMBERSHIP_SINCE {
            return;
        }
        drop(create_token(client, "role=voter").await);
        client.idle(1_500).await;
    }
}

/// Lets a new machine join.
pub(super) async fn grow(client: &mut SimClient, role: MemberRole) {
    let Some(token) = create_token(client, &format!("role={role}")).await else { return };
    let machine = client.world.new_machine();
    let may_give_up = client.rng.random_range(0..GIVEN_UP_ONE_IN) == 0;
    join(client, &token, machine, may_give_up).await;
}

/// Replaces a member that runs, perhaps the leader.
pub(super) async fn replace_running(client: &mut SimClient, old: NodeId) {
    let Some(token) = create_token(client, &format!("replaces={old}")).await else { return };
    ask_to_leave(client, old);
    let machine = client.world.new_machine();
    join(client, &token, machine, false).await;
    // If it is not, the next round finds the old member.
    replaced(client, old).await;
}

/// Replaces a member whose disk is destroyed, by its own machine or by another one.
pub(super) async fn replace_destroyed(client: &mut SimClient, old: NodeId) {
    let Some(token) = create_token(client, &format!("replaces={old}")).await else { return };
    ask_to_leave(client, old);
    let is_repaired = client.rng.random_range(0..2) == 0;
    client.world.retire(old);
    client.world.coverage.fault("disk destroyed");
    client.idle(STARTS_WITHIN_MS).await;
    let machine = if is_repaired { client.world.repaired_machine(old) } else { client.world.new_machine() };
    join(client, &token, machine, false).await;
    // If it is not, the next round finds the old member.
    replaced(client, old).await;
}

/// Waits until a member is replaced. Returns whether it is.
pub(super) async fn replaced(client: &mut SimClient, old: NodeId) -> bool {
    if until(client, |seen| seen.removed.contains(&old) && !seen.is_member(old)).await.is_none() {
        return false;
    }
    client.world.coverage.probe(Probe::Replaced);
    removals::until_told(client, old).await;
    true
}

/// Creates a join token with these options. `None` if the cluster's version does not allow it.
pub(super) async fn create_token(client: &mut SimClient, options: &str) -> Option<JoinToken> {
    for _ in 0..TRIES {
        let request = ClientRequest::new(Method::POST, format!("/v1/cluster/join-tokens?{options}"));
        let request = request.header("idempotency-key", client.key());
        let Some(reply) = client.call_until_known(&request, REPEATS).await else { continue };
        match (reply.status, reply.field("code")) {
            (StatusCode::CREATED, _) => match JoinToken::from_str(reply.field("token")) {
                Ok(token) => return Some(token),
                // Another attempt created it, and its answer was lost.
                Err(_) => client.world.coverage.probe(Probe::TokenShownOnce),
            },
            (StatusCode::CONFLICT, "needs_upgrade") => {
                client.world.coverage.probe(Probe::MembersNeedUpgrade);
                return None;
            }
            (StatusCode::CONFLICT, "change_in_progress") => {}
            _ => {
                client.unexpected("a new join token", &reply);
                return None;
            }
        }
        client.idle(500).await;
    }
    None
}

/// Lets a machine join, and waits until it is done.
async fn join(client: &mut SimClient, token: &JoinToken, machine: NewMachine, may_give_up: bool) {
    let request = machine.request(token);
    let incarnation = machine.incarnation();
    let Some(joined) = ask_until_admitted(client, token, &request).await else { return };
    let id = joined.id;
    client.world.oracle.observe(&Fact::Joined { node: id, incarnation });
    client.world.coverage.probe(Probe::Admitted);
    if client.rng.random_range(0..2) == 0 {
        ask_again(client, token, &request, id).await;
    }
    if client.rng.random_range(0..REUSED_ONE_IN) == 0 {
        use_again(client, token).await;
    }
    if !install(client, machine, joined).await {
        return;
    }
    if may_give_up {
        client.world.coverage.probe(Probe::JoinGivenUp);
        removals::remove(client, id).await;
        // Somebody switches the machine on all the same: its node must be told.
        client.world.start(id);
        return removals::until_told(client, id).await;
    }
    client.world.start(id);
    member(client, id).await;
}

/// Installs the admitted node on its machine, which is switched on a while later. Returns whether its id is new.
pub(super) async fn install(client: &mut SimClient, machine: NewMachine, joined: Joined) -> bool {
    let id = joined.id;
    if !client.world.install(machine, joined) {
        client.world.oracle.violation(format!("a new machine got id {id}, which was used before"));
        return false;
    }
    client.idle(STARTS_WITHIN_MS).await;
    true
}

/// Waits until the join of a node is complete.
pub(super) async fn member(client: &mut SimClient, id: NodeId) {
    let Some(seen) = until(client, |seen| !seen.joins.contains(&id)).await else { return };
    if !seen.is_member(id) {
        return client.world.oracle.violation(format!("node {id} was admitted, and its join ended, but it is no member"));
    }
    client.world.coverage.probe(if seen.voters.contains(&id) { Probe::Promoted } else { Probe::LearnerJoined });
}

/// Asks the nodes that the token names, one after the other, until one admits the machine.
pub(super) async fn ask_until_admitted(client: &mut SimClient, token: &JoinToken, request: &JoinRequest) -> Option<Joined> {
    for attempt in 0..TRIES {
        match ask(client, token, attempt, request).await {
            Some(Ok(joined)) => return Some(joined),
            Some(Err(refusal)) if refusal.is_final() => {
                client.world.oracle.violation(format!("{}: a machine may not join: {refusal}", client.name));
                return None;
            }
            Some(Err(_)) | None => client.idle(800).await,
        }
    }
    None
}

/// Asks one of the nodes that the token names.
pub(super) async fn ask(
    client: &SimClient,
    token: &JoinToken,
    attempt: u32,
    request: &JoinRequest,
) -> Option<Result<Joined, JoinRefusal>> {
    let index = usize::try_from(attempt).unwrap_or_default() % token.addresses.len();
    let to = client.world.machine_at(&token.addresses[index])?;
    client.world.ask_to_join(to, request.clone()).await
}

/// A machine asks again, as if the answer was lost. It must get the same id.
async fn ask_again(client: &mut SimClient, token: &JoinToken, request: &JoinRequest, id: NodeId) {
    for attempt in 0..REPEATS {
        match ask(client, token, attempt, request).await {
            Some(Ok(joined)) if joined.id == id => return client.world.coverage.probe(Probe::JoinRepeated),
            Some(Ok(joined)) => {
                return client.world.oracle.violation(format!("a machine was admitted as node {id}, and as {}", joined.id));
            }
            Some(Err(refusal)) if refusal.is_final() => {
                return client.world.oracle.violation(format!("node {id} asks again to join, and is refused: {refusal}"));
            }
            Some(Err(_)) | None => client.idle(300).await,
        }
    }
}

/// Another machine uses the same token. It must be refused.
async fn use_again(client: &mut SimClient, token: &JoinToken) {
    let request = client.world.new_machine().request(token);
    for attempt in 0..REPEATS {
        match ask(client, token, attempt, &request).await {
            Some(Err(JoinRefusal::Token(JoinTokenFault::Used { .. }))) => {
                return client.world.coverage.probe(Probe::TokenRefused);
            }
            Some(Ok(joined)) => {
                return client.world.oracle.violation(format!("a used join token admitted another machine as {}", joined.id));
            }
            Some(Err(_)) | None => client.idle(300).await,
        }
    }
}
