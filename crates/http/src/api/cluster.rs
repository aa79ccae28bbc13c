//! The calls about the cluster and about this server.

use crate::{
    edge::answer,
    edge::error::{of_change, of_read},
    edge::params,
    edge::problem::{Problem, RETRY_AFTER_SECONDS},
    edge::request::Received,
    edge::server_info::ServerInfo,
};
use axum::{
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
};
use fairhold_node::{Node, api::MemberFacts};
use fairhold_raft::{MemberProgram, MemberStatus, Role, UpgradeStatus, defect::Defect};
use fairhold_types::{Code, NodeId, call, dto, duration, limits::MEMBER_PRIORITY_DEFAULT};
use http::{StatusCode, header};
use openraft_rt::{AsyncRuntime, Instant};
use std::{collections::BTreeMap, time::Duration};

const PROGRAM: &str = "fairhold";

/// `GET /v1/cluster`
pub(crate) async fn cluster<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    info: ServerInfo,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let params: call::ShowCluster = params::parse(query.as_deref(), &[])?.params;
    let digest = match params.digest {
        true => Some(node.digest().await.map_err(of_read)?),
        false => None,
    };
    // Read before the members: a client that finds another number later reads them again.
    let members_index = node.members_index();
    let body = dto::Cluster {
        digest_revision: digest.as_ref().map(|digest| digest.revision),
        digest: digest.map(|digest| digest.value),
        ..body(&node, info)
    };
    Ok(answer::with_members(answer::json(StatusCode::OK, body.revision, &body)?, members_index))
}

/// The cluster as this node sees it.
pub(crate) fn body<RT: AsyncRuntime>(node: &Node<RT>, info: ServerInfo) -> dto::Cluster {
    let view = node.cluster();
    let raft = view.raft;
    let leader_url = raft.leader.and_then(|leader| raft.members.iter().find(|member| member.id == leader));
    dto::Cluster {
        cluster: raft.cluster.map(|cluster| cluster.to_hex()),
        id: view.id,
        role: role(raft.role).to_owned(),
        term: raft.term,
        leader: raft.leader,
        leader_url: leader_url.map(|member| member.member.url.clone()),
        version: info.version.into(),
        cluster_version: view.cluster_version,
        revision: view.revision,
        last_log_index: raft.last_log_index,
        applied_index: raft.applied,
        snapshot_index: raft.snapshot,
        state_bytes: view.state_bytes,
        state_bytes_max: view.state_bytes_max,
        audit: view.audit_head.map(|head| dto::AuditChainHead { seq: head.seq, hash: head.hash.to_string() }),
        grants: view.grants,
        wakeups: view.wakeups,
        defects: view.defects.into_iter().map(defect).collect(),
        digest_revision: None,
        digest: None,
        insecure: (info.insecure)(),
        members: raft.members.into_iter().map(|status| member(status, raft.leader, &view.facts)).collect(),
    }
}

fn defect(defect: Defect) -> dto::Defect {
    dto::Defect {
        log_index: defect.index,
        left_out: defect.is_skipped(),
        kind: defect.kind,
        fingerprint: format!("{:016x}", defect.fingerprint),
        message: defect.message,
        version: defect.version,
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Learner => "learner",
        Role::Stopped => "stopped",
    }
}

fn member(status: MemberStatus, leader: Option<NodeId>, facts: &BTreeMap<NodeId, MemberFacts>) -> dto::Member {
    let facts = facts.get(&status.id);
    let role = match (leader == Some(status.id), status.voter) {
        (true, _) => "leader",
        (false, true) => "follower",
        (false, false) => "learner",
    };
    dto::Member {
        id: status.id,
        url: status.member.url,
        peer: status.member.address,
        role: role.to_owned(),
        match_index: status.matched,
        lag: status.lag,
        silent_for: status.silent.map(duration::format),
        round_trip: status.round_trip.map(duration::format),
        lost_entries: status.lost_entries,
        state_bytes_max: facts.and_then(|facts| facts.capacity),
        priority: facts.map(|facts| facts.placement.priority).filter(|priority| *priority != MEMBER_PRIORITY_DEFAULT),
        zone: facts.and_then(|facts| facts.placement.zone.clone()),
        reachable: None,
        figures: None,
    }
}

/// `POST /v1/cluster/leader`
pub(crate) async fn hand_over<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let params: call::HandOver = received.params(body)?;
    let to = params.to.get();
    let key = received.key()?;
    node.hand_over(to, key, received.timeout).await.map_err(of_change)?;
    let view = node.cluster();
    // If this request is a repeat, another node may lead by now.
    let leader = view.raft.leader.unwrap_or(to);
    answer::json(StatusCode::OK, view.revision, &dto::Leader { leader, leader_url: node.leader_url(), term: view.raft.term })
}

/// `POST /v1/cluster/snapshot`
pub(crate) async fn take_snapshot<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let call::Empty {} = received.params(body)?;
    received.key()?;
    let snapshot_index = node.take_snapshot(received.timeout).await.map_err(of_change)?;
    let view = node.cluster();
    answer::json(StatusCode::OK, view.revision, &dto::SnapshotTaken { id: view.id, snapshot_index })
}

/// `GET /v1/cluster/upgrade`
pub(crate) async fn show_upgrade<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let call::Empty {} = received.query()?;
    upgrade(&node, received.timeout).await
}

/// `POST /v1/cluster/upgrade/finalize`
pub(crate) async fn finalize_upgrade<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    request: Request,
) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let params: call::FinalizeUpgrade = received.params(body)?;
    // A repeated request does nothing, so the key does not matter.
    received.key()?;
    let (to, start) = (params.version(), RT::Instant::now());
    node.finalize_upgrade(to, received.timeout).await.map_err(of_change)?;
    upgrade(&node, received.timeout.saturating_sub(start.elapsed())).await
}

async fn upgrade<RT: AsyncRuntime>(node: &Node<RT>, timeout: Duration) -> Result<Response, Problem> {
    let UpgradeStatus { version, next, members, blockers } = node.upgrade_status(timeout).await;
    let body = dto::ClusterUpgrade {
        cluster_version: version,
        next,
        // Before the cluster has formed, it has no members.
        ready: next.is_some() && blockers.is_empty() && !members.is_empty(),
        members: members.into_iter().map(upgrade_member).collect(),
        blockers,
    };
    answer::json(StatusCode::OK, node.revision(), &body)
}

fn upgrade_member(MemberProgram { id, program, silent }: MemberProgram) -> dto::UpgradeMember {
    let (version, supports) = program.map_or((None, None), |program| (program.version, Some(program.supports)));
    dto::UpgradeMember { id, version, supports, silent_for: silent.map(duration::format) }
}

/// `GET /v1/cluster/alarms`
pub(crate) async fn alarms<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let call::Empty {} = received.query()?;
    answer::json(StatusCode::OK, node.revision(), &node.alarms())
}

/// `GET /livez`: the process runs.
pub(crate) async fn live() -> Response {
    text("ok\n")
}

/// Which details a port shows with `/readyz?verbose`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadyDetails {
    /// All: the port has admitted the caller.
    All,
    /// The port authenticates nobody. So while rights are enforced, it adds to `/readyz` only whether the server is shutting
    /// down, and its revision, because earlier programs cannot read an answer without it.
    OnlyIfUnenforced,
}

/// `GET /readyz`: the server can serve.
pub(crate) async fn ready<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    info: ServerInfo,
    details: ReadyDetails,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let params: call::Ready = params::parse(query.as_deref(), &[])?.params;
    let readiness = node.readiness().await;
    if params.verbose {
        let revision = node.revision();
        let is_detailed = details == ReadyDetails::All || !node.access().is_on();
        // A leader that has lost its majority still takes itself for the leader, and only a node that can serve has a proof.
        let leader = node.leader_url().filter(|_| is_detailed && readiness.is_ok());
        let host = || dto::Host { time: Some(node.wall_now().to_rfc3339()), ..(info.host)() };
        let body = dto::Readiness {
            ready: readiness.is_ok(),
            reason: readiness.err(),
            shutting_down: node.is_shutting_down(),
            leader,
            revision,
            warning: node.warning().filter(|_| is_detailed),
            host: if is_detailed { host() } else { dto::Host::default() },
        };
        if body.ready {
            return answer::json(StatusCode::OK, revision, &body);
        }
        let mut response = answer::json(StatusCode::SERVICE_UNAVAILABLE, revision, &body)?;
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        return Ok(response);
    }
    match readiness {
        Ok(()) => Ok(text("ok\n")),
        Err(reason) => {
            let code = if node.is_shutting_down() { Code::ShuttingDown } else { Code::NoQuorum };
            Err(Problem::new(code, reason))
        }
    }
}

/// `GET /version`
pub(crate) async fn version<RT: AsyncRuntime>(State(node): State<Node<RT>>, info: ServerInfo) -> Result<Response, Problem> {
    let body = dto::Version { name: PROGRAM.into(), version: info.version.into() };
    answer::json(StatusCode::OK, node.revision(), &body)
}

fn text(text: &'static str) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_raft::Program;
    use fairhold_types::SupportedVersions;

    #[test]
    fn a_member_is_shown_with_what_is_known_of_its_program() {
        let supports = SupportedVersions::UNTOLD;
        let older = Some(Program { version: None, supports });
        for (program, silent, version, supports, silent_for) in [
            (None, None, None, None, None),
            (older, Some(Duration::from_millis(1_200)), None, Some(supports), Some("1200ms")),
            (Some(Program::own()), None, Program::own().version, Some(SupportedVersions::OWN), None),
        ] {
            let shown = upgrade_member(MemberProgram { id: 3, program, silent });
            let silent_for = silent_for.map(str::to_owned);
            assert_eq!(shown, dto::UpgradeMember { id: 3, version, supports, silent_for });
        }
    }
}
