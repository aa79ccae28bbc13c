//! The calls on join tokens, members and settings.

use crate::{
    edge::answer,
    edge::error::{of_change, of_read},
    edge::params::digits,
    edge::problem::Problem,
    edge::request::Received,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_node::{
    Node,
    api::{CreateJoinTokenCall, Freshness, JoinTokenView, MemberRoundTrips, ReadOptions, SetTimingCall, TimingView},
};
use fairhold_raft::{JoinPhase, JoinRow, MemberRequest, MemberRow, MembersView, RemovedRow};
use fairhold_types::{
    ClusterVersion, JoinTokenNumber, MemberRole, NodeId, Timing, call, dto, duration, limits::JOIN_TOKEN_TTL_DEFAULT,
    time::WallMillis,
};
use http::StatusCode;
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

/// The command that starts a new node. It does not contain the token, because command lines are no secret.
const JOIN_COMMAND: &str =
    "fairhold serve --data /var/lib/fairhold --join-file join-token --advertise http://HOST:7171,HOST:7271";

/// `POST /v1/cluster/join-tokens`
pub(crate) async fn create_join_token<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    request: Request,
) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let params: call::CreateJoinToken = received.params(body)?;
    check_token(&params)?;
    let ttl = params.ttl.map_or(JOIN_TOKEN_TTL_DEFAULT, call::JoinTokenTtl::get);
    let call = CreateJoinTokenCall {
        key: received.key()?,
        role: params.role,
        replaces: params.replaces.map(call::PositiveNumber::get),
        ttl: if params.standing { None } else { Some(ttl) },
        up_to: params.up_to.and_then(|voters| u8::try_from(voters.get()).ok()),
        by: received.caller(),
        timeout: received.timeout,
    };
    let created = node.create_join_token(call).await.map_err(of_change)?;
    let JoinTokenView { number, role, replaces, standing, up_to, expires_at, .. } = created.value.view;
    let body = dto::CreatedJoinToken {
        number,
        token: created.value.token,
        role,
        replaces,
        standing,
        up_to,
        expires_at: expires_at.map(WallMillis::to_rfc3339),
        command: JOIN_COMMAND.to_owned(),
    };
    answer::json(StatusCode::CREATED, created.revision, &body)
}

/// Checks the rules between the options of a join token.
fn check_token(params: &call::CreateJoinToken) -> Result<(), Problem> {
    let refused = match (params.standing, params) {
        (false, params) if params.up_to.is_some() => {
            "pass \"up_to\" only with \"standing\": any other join token admits one node"
        }
        (true, params) if params.ttl.is_some() => {
            "pass either \"ttl\" or \"standing\", not both: a standing join token is valid until you revoke it"
        }
        (true, params) if params.replaces.is_some() => {
            "pass either \"replaces\" or \"standing\", not both: a standing join token replaces any member that has been silent \
             for long"
        }
        (true, params) if params.role == Some(MemberRole::Learner) => {
            "pass \"standing\" only for voters: leave \"role\" out, or set it to voter"
        }
        (true | false, _) => return Ok(()),
    };
    Err(Problem::bad_request(refused))
}

/// `GET /v1/cluster/join-tokens`
pub(crate) async fn list_join_tokens<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    request: Request,
) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ListJoinTokens = received.query()?;
    let read = received.read_options(params.consistency)?;
    let found = node.join_tokens(read).await.map_err(of_read)?;
    let tokens = found.value.into_iter().map(|token| dto::JoinToken {
        number: token.number,
        role: token.role,
        replaces: token.replaces,
        standing: token.standing,
        up_to: token.up_to,
        created_at: token.created_at.to_rfc3339(),
        expires_at: token.expires_at.map(WallMillis::to_rfc3339),
        used_by: token.used_by,
        by: token.by,
    });
    answer::json(StatusCode::OK, found.revision, &dto::JoinTokens { tokens: tokens.collect() })
}

/// `DELETE /v1/cluster/join-tokens/{number}`: `204` even if there is no such token, so it is safe to repeat.
pub(crate) async fn revoke_join_token<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    request: Request,
) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let number = number_in_path(&received, "/v1/cluster/join-tokens/", "the join token: expected its number, such as 7")?;
    let call::Empty {} = received.query()?;
    let number = JoinTokenNumber(number);
    let revision = node.revoke_join_token(number, &received.caller(), received.timeout).await.map_err(of_change)?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

/// `GET /v1/cluster/members`
pub(crate) async fn show_members<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let call::Empty {} = received.query()?;
    members(&node, received.timeout).await
}

async fn members<RT: AsyncRuntime>(node: &Node<RT>, timeout: Duration) -> Result<Response, Problem> {
    let MembersView { members, joins, removed, is_joint, from_leader } = node.members(timeout).await;
    let body = dto::Members {
        members: members.into_iter().map(member).collect(),
        joins: joins.into_iter().map(join).collect(),
        removed: removed.into_iter().map(removed_member).collect(),
        joint: is_joint,
        from_leader,
    };
    answer::json(StatusCode::OK, node.revision(), &body)
}

/// `PATCH /v1/cluster/members/{id}`
pub(crate) async fn set_member<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let id = member_id(&received)?;
    let params: call::SetMember = received.params(body)?;
    let start = RT::Instant::now();
    let key = received.key()?;
    let by = received.caller();
    let is_set = params.url.is_some() || params.peer.is_some() || params.priority.is_some() || params.zone.is_some();
    let request = match params.voter {
        None if !is_set => return Err(Problem::bad_request("pass at least one of url, peer, priority, zone and voter")),
        None => MemberRequest::Set {
            node: id,
            key: None,
            url: params.url.map(call::NodeUrl::into_string),
            peer: params.peer.map(call::PeerAddress::into_string),
            force: params.force,
            priority: params.priority.and_then(|priority| u8::try_from(priority.get()).ok()),
            zone: params.zone.map(call::Zone::into_string),
            by,
        },
        Some(_) if is_set || params.force => {
            return Err(Problem::bad_request(
                "pass \"voter\" alone: change the addresses, the priority or the zone in another call",
            ));
        }
        Some(true) => MemberRequest::Promote { node: id, key: None, by },
        Some(false) => MemberRequest::Demote { node: id, key: None, by },
    };
    node.change_member(key, request, received.timeout).await.map_err(of_change)?;
    members(&node, received.timeout.saturating_sub(start.elapsed())).await
}

/// `DELETE /v1/cluster/members/{id}`: `204` even if it was removed before, so it is safe to repeat.
pub(crate) async fn remove_member<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let request = MemberRequest::Remove { node: member_id(&received)?, by: received.caller() };
    let call::Empty {} = received.query()?;
    node.change_member(None, request, received.timeout).await.map_err(of_change)?;
    Ok(answer::empty(StatusCode::NO_CONTENT, node.revision()))
}

/// `GET /v1/cluster/settings`
pub(crate) async fn show_settings<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ShowSettings = received.query()?;
    settings(&node, received.read_options(params.consistency)?).await
}

async fn settings<RT: AsyncRuntime>(node: &Node<RT>, read: ReadOptions) -> Result<Response, Problem> {
    let found = node.settings(read).await.map_err(of_read)?;
    let (timing, cluster_version): (Timing, ClusterVersion) = found.value;
    answer::json(StatusCode::OK, found.revision, &dto::Settings { timing, cluster_version })
}

/// `PATCH /v1/cluster/settings`
pub(crate) async fn set_settings<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let params: call::SetSettings = received.params(body)?;
    let timing = params.timing.ok_or_else(|| Problem::bad_request("pass at least one setting: timing"))?;
    let (force, timeout) = (params.force, received.timeout);
    let call = SetTimingCall { key: received.key()?, timing, force, by: received.caller(), timeout };
    node.set_timing(call).await.map_err(of_change)?;
    // This node has applied the change.
    settings(&node, ReadOptions { freshness: Freshness::Local, timeout: received.timeout }).await
}

/// `GET /v1/cluster/timing`
pub(crate) async fn show_timing<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let call::Empty {} = received.query()?;
    let TimingView { timing, fits, members, from_leader } = node.timing();
    let members = members.into_iter().map(|MemberRoundTrips { id, voter, mean, p50, p99 }| dto::MemberTiming {
        id,
        voter,
        round_trip: mean.map(duration::format),
        round_trip_p50: p50.map(duration::format),
        round_trip_p99: p99.map(duration::format),
    });
    let body = dto::ClusterTiming { timing, fits, members: members.collect(), from_leader };
    answer::json(StatusCode::OK, node.revision(), &body)
}

fn member_id(received: &Received) -> Result<NodeId, Problem> {
    number_in_path(received, "/v1/cluster/members/", "the member: expected its id, such as 2")
}

/// The number in the path behind this prefix: 1 or more.
fn number_in_path(received: &Received, prefix: &str, expected: &'static str) -> Result<u64, Problem> {
    let text = received.path_after(prefix)?;
    digits(&text).filter(|number| *number > 0).ok_or_else(|| Problem::bad_request(expected))
}

fn member(row: MemberRow) -> dto::MemberEntry {
    let role = match (row.leader, row.voter) {
        (true, _) => "leader",
        (false, true) => "follower",
        (false, false) => "learner",
    };
    dto::MemberEntry {
        id: row.id,
        url: row.url,
        peer: row.peer,
        role: role.to_owned(),
        priority: row.priority,
        zone: row.zone,
        lag: row.lag,
        silent_for: row.silent_ms.map(|millis| duration::format(Duration::from_millis(millis))),
        removal: row.removal,
    }
}

fn join(row: JoinRow) -> dto::Join {
    let phase = match row.phase {
        JoinPhase::Pending => dto::JoinPhase::Pending,
        JoinPhase::CatchingUp => dto::JoinPhase::CatchingUp,
        JoinPhase::Promoting => dto::JoinPhase::Promoting,
    };
    dto::Join {
        id: row.id,
        url: row.url,
        peer: row.peer,
        role: row.role,
        replaces: row.replaces,
        phase,
        lag: row.lag,
        waits_for: row.waits_for,
        requested_at: row.requested_at.to_rfc3339(),
    }
}

fn removed_member(row: RemovedRow) -> dto::RemovedMember {
    dto::RemovedMember { id: row.id, revision: row.revision, by: row.by, at: row.at.to_rfc3339() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(leader: bool, voter: bool) -> MemberRow {
        MemberRow {
            id: 2,
            url: "http://n2:7171".to_owned(),
            peer: "n2:7271".to_owned(),
            voter,
            leader,
            priority: 50,
            zone: None,
            lag: Some(0),
            silent_ms: Some(1_200),
            removal: None,
        }
    }

    #[test]
    fn a_member_is_shown_with_its_role() {
        for (leader, voter, role) in [(true, true, "leader"), (false, true, "follower"), (false, false, "learner")] {
            assert_eq!(member(row(leader, voter)).role, role);
        }
        let json = serde_json::to_value(member(row(false, true))).unwrap();
        assert_eq!((&json["silent_for"], json.get("zone"), json.get("removal")), (&"1200ms".into(), None, None));
    }

    #[test]
    fn the_options_of_a_join_token_exclude_each_other() {
        let read = |json: &str| serde_json::from_str::<call::CreateJoinToken>(json).unwrap();
        for fine in [
            "{}",
            r#"{"role":"learner","replaces":2,"ttl":"1m"}"#,
            r#"{"standing":true,"up_to":5}"#,
            r#"{"standing":true,"role":"voter"}"#,
        ] {
            assert!(check_token(&read(fine)).is_ok(), "{fine}");
        }
        for wrong in [
            r#"{"up_to":5}"#,
            r#"{"standing":true,"ttl":"1h"}"#,
            r#"{"standing":true,"replaces":2}"#,
            r#"{"standing":true,"role":"learner"}"#,
        ] {
            assert!(check_token(&read(wrong)).is_err(), "{wrong}");
        }
    }
}
