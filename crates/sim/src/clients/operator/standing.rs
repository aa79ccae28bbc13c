//! Standing join tokens: one admits a machine in place of a silent member with the same address, or adds voters up to a
//! number.

use super::{
    joins::{REPEATS, ask, ask_until_admitted, create_token, install, member, replaced},
    view::{self, MembersSeen, SPARE_VOTERS, TRIES, VOTERS_MAX, ask_to_leave},
};
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
    host::TRUE_RATE,
    trace,
    world::NewMachine,
};
use fairhold_raft::{JoinRefusal, JoinToken};
use fairhold_state::command::JoinTokenFault;
use fairhold_types::{NodeId, cluster_version::MEMBERSHIP_SINCE};
use http::{Method, StatusCode};
use rand::RngExt;
use std::time::Duration;

/// A member must be silent for 60 s before a standing token replaces it. Before its machine went off, a fault may have
/// silenced it for half of that time.
const OFF_FOR_MIN: Duration = Duration::from_secs(30);

/// In two of three scenarios, the operator ends its work with a standing token.
pub(super) async fn work(client: &mut SimClient) {
    let choice = client.rng.random_range(0..3);
    if choice == 0 || client.world.oracle.cluster_version() < MEMBERSHIP_SINCE {
        return;
    }
    let Some(seen) = view::settled(client).await else { return };
    client.world.calm.begin_change();
    match choice {
        1 if seen.voters.len() >= SPARE_VOTERS => replace_silent(client, &seen).await,
        _ if seen.voters.len() < VOTERS_MAX => add_one(client, &seen).await,
        _ => {}
    }
    client.world.calm.end_change();
}

/// Destroys the disk of a voter. Its machine joins again by itself, with an empty disk and the same address.
async fn replace_silent(client: &mut SimClient, seen: &MembersSeen) {
    let Some(token) = create_token(client, "standing=true").await else { return };
    let old = seen.voters[client.rng.random_range(0..seen.voters.len())];
    let has_fast_clock = client.world.fastest_rate() > TRUE_RATE;
    if !has_fast_clock {
        be_refused(client, &token, old).await;
    }
    ask_to_leave(client, old);
    client.world.retire(old);
    client.world.coverage.fault("disk destroyed");
    let off_since = trace::since_start();
    let machine = client.world.repaired_machine(old);
    let request = machine.request(&token);
    let Some(joined) = ask_until_admitted(client, &token, &request).await else { return };
    let off_for = trace::since_start() - off_since;
    if !has_fast_clock && off_for < OFF_FOR_MIN {
        client.world.oracle.violation(format!("node {old} was replaced after it was off for {off_for:?}"));
    }
    let id = joined.id;
    client.world.oracle.observe(&Fact::Joined { node: id, incarnation: machine.incarnation() });
    if !install(client, machine, joined).await {
        return;
    }
    client.world.start(id);
    member(client, id).await;
    if replaced(client, old).await {
        return client.world.coverage.probe(Probe::StandingReplaced);
    }
    client.world.oracle.violation(format!("node {old} is off for ever, and was not replaced"));
}

/// A second machine with the address of a member that runs wants to join. It must be refused.
async fn be_refused(client: &mut SimClient, token: &JoinToken, node: NodeId) {
    let request = client.world.repaired_machine(node).request(token);
    for attempt in 0..REPEATS {
        match ask(client, token, attempt, &request).await {
            Some(Err(JoinRefusal::Unreplaceable { .. })) => return client.world.coverage.probe(Probe::StandingRefused),
            Some(Ok(joined)) => {
                let id = joined.id;
                return client.world.oracle.violation(format!("node {id} was admitted in place of node {node}, which runs"));
            }
            Some(Err(_)) | None => client.idle(300).await,
        }
    }
}

/// Lets one voter join, and not two. Then revokes the token.
async fn add_one(client: &mut SimClient, seen: &MembersSeen) {
    let up_to = seen.voters.len() + 1;
    let Some(token) = create_token(client, &format!("standing=true&up_to={up_to}")).await else { return };
    let machine = client.world.new_machine();
    let Some(joined) = ask_until_admitted(client, &token, &machine.request(&token)).await else { return };
    let id = joined.id;
    client.world.oracle.observe(&Fact::Joined { node: id, incarnation: machine.incarnation() });
    let second = client.world.new_machine();
    // While the join is pending and after it, the cluster has enough voters.
    if client.rng.random_range(0..2) == 0 && be_refused_as(client, &token, &second, &JoinTokenFault::NoReplacement).await {
        client.world.coverage.probe(Probe::StandingFull);
    }
    if !install(client, machine, joined).await {
        return;
    }
    client.world.start(id);
    member(client, id).await;
    if be_refused_as(client, &token, &second, &JoinTokenFault::NoReplacement).await {
        client.world.coverage.probe(Probe::StandingAdded);
    }
    if revoke(client, &token).await && be_refused_as(client, &token, &second, &JoinTokenFault::Unknown).await {
        client.world.coverage.probe(Probe::TokenRevoked);
    }
}

/// A machine with the token must be refused for this reason. Returns whether it was: the nodes may not answer.
async fn be_refused_as(client: &mut SimClient, token: &JoinToken, machine: &NewMachine, fault: &JoinTokenFault) -> bool {
    let request = machine.request(token);
    for attempt in 0..REPEATS {
        match ask(client, token, attempt, &request).await {
            Some(Err(JoinRefusal::Token(found))) if found == *fault => return true,
            Some(Ok(joined)) => {
                let id = joined.id;
                client.world.oracle.violation(format!("a join token admitted node {id}, instead of a refusal: {fault}"));
                return false;
            }
            Some(Err(_)) | None => client.idle(300).await,
        }
    }
    false
}

/// Revokes a join token. Returns whether it is certain.
async fn revoke(client: &mut SimClient, token: &JoinToken) -> bool {
    for _ in 0..TRIES {
        let request = ClientRequest::new(Method::DELETE, format!("/v1/cluster/join-tokens/{}", token.number));
        match client.call_until_known(&request, REPEATS).await {
            Some(reply) if reply.status == StatusCode::NO_CONTENT => return true,
            Some(reply) => {
                client.unexpected("the end of a join token", &reply);
                return false;
            }
            None => {}
        }
    }
    false
}
