//! Authentication and authorization of a request, before its call runs.
//!
//! - Who is it? `identity` reads the credential.
//! - What does it need? `table` has a rule for each route. A change is decided with the command that it becomes, and a watch
//!   with what it selects: there the rule only asks for a valid credential, and the node does the rest.
//!
//! While rights are not enforced, nothing is refused here, and administrators' calls ask for the administrators' token.

mod identity;
mod table;

use crate::{
    door::table::{CALLS, RouteRule},
    edge::authenticator::Authenticator,
    edge::error::of_read,
    edge::problem::Problem,
    edge::request::HttpPeer,
};
use axum::extract::Request;
use fairhold_access::Verb;
use fairhold_node::{
    Node,
    access::{AccessTrail, Caller, CredentialFault},
};
use fairhold_types::Code;
use http::{HeaderMap, HeaderValue, Method};
use openraft_rt::AsyncRuntime;
use std::sync::Arc;

/// A handle of the node for the caller of an admitted request.
pub(crate) struct Admitted<RT: AsyncRuntime> {
    pub(crate) node: Node<RT>,
    /// Whether its rights were decided. Otherwise the rule of administrators' calls holds.
    pub(crate) is_decided: bool,
}

/// Why a request is not admitted.
pub(crate) struct NotAdmitted<RT: AsyncRuntime> {
    pub(crate) problem: Problem,
    /// A handle of the node for the caller, if its rights do not cover the request.
    pub(crate) denied: Option<Node<RT>>,
}

impl<RT: AsyncRuntime> From<Problem> for NotAdmitted<RT> {
    fn from(problem: Problem) -> Self {
        NotAdmitted { problem, denied: None }
    }
}

/// What the door knows of a call by its route and method.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallRule {
    /// What it needs.
    of_route: RouteRule,
    may_be_act: bool,
    is_counted: bool,
}

impl CallRule {
    /// Looks up a call. The routes do that once for each of their calls, so that a request need not.
    pub(crate) fn of(route: &str, method: &Method) -> CallRule {
        CallRule {
            of_route: rule_of(route, method),
            may_be_act: table::may_be_act(route, method),
            is_counted: is_counted(route, method),
        }
    }

    /// Whether a request counts against the rate of its tenant, admitted or denied.
    pub(crate) fn is_counted(self) -> bool {
        self.is_counted
    }
}

/// Admits a request with this rule and this id, or refuses it. A request that matches no route has no rule. The trail gets
/// the caller and the decisions.
pub(crate) fn admit<RT: AsyncRuntime>(
    node: &Node<RT>,
    authenticator: &Authenticator,
    rule: Option<CallRule>,
    request: &Request,
    (id, trail): (&HeaderValue, Option<Arc<AccessTrail>>),
) -> Result<Admitted<RT>, NotAdmitted<RT>> {
    let access = node.access();
    let attributed = |caller: Caller| {
        let peer = request.extensions().get::<HttpPeer>();
        let caller = from_network(caller, peer);
        if rule.is_some_and(|rule| rule.may_be_act) { from_source(caller, peer, id) } else { caller }
    };
    if !access.is_on() {
        let caller = identity::unenforced(authenticator, request, &access, node.wall_now()).with_trail(trail);
        let caller = attributed(caller);
        return Ok(Admitted { node: node.for_caller(caller), is_decided: false });
    }
    if rule.is_some_and(|rule| rule.of_route.is_open(request)) {
        return Ok(Admitted { node: node.clone(), is_decided: true });
    }
    let caller = identity::identify(authenticator, request, &access, node.wall_now())?.with_trail(trail);
    let needs = rule.map_or_else(|| Ok(Vec::new()), |rule| rule.of_route.needs(request))?;
    let node = node.for_caller_under(attributed(caller.needing(needs)), access);
    match node.check_caller().map_err(of_read) {
        Ok(()) => Ok(Admitted { node, is_decided: true }),
        Err(problem) => {
            let is_denied = problem.code() == Code::Denied;
            Err(NotAdmitted { problem, denied: is_denied.then_some(node) })
        }
    }
}

/// The caller of a request, with the network of its address: a caller without a credential has no other identity.
fn from_network(caller: Caller, peer: Option<&HttpPeer>) -> Caller {
    match peer {
        Some(peer) => caller.with_network(peer.network),
        None => caller,
    }
}

/// The caller of a request with this id, with its address: the audit of administrative acts has both.
fn from_source(caller: Caller, peer: Option<&HttpPeer>, id: &HeaderValue) -> Caller {
    let address = peer.map_or("", |peer| &*peer.address);
    caller.with_source(address, id.to_str().unwrap_or_default())
}

/// Whether the requests of a call count against the rates of their tenants. What renews or ends something never does, and a
/// batch counts as its calls.
fn is_counted(route: &str, method: &Method) -> bool {
    const UNCOUNTED: &[(&str, &str)] = &[
        ("/v1/grants/{id}/renew", "POST"),
        ("/v1/grants/{id}", "DELETE"),
        ("/v1/sessions/keepalive", "POST"),
        ("/v1/sessions/{id}/keepalive", "POST"),
        ("/v1/sessions/{id}", "DELETE"),
        ("/v1/batch", "POST"),
    ];
    !UNCOUNTED.contains(&(route, method.as_str()))
}

/// Whether newer access data may lift this refusal: this node may not have heard of a right, of the token that the caller
/// shows, or of a user that is enabled again.
pub(crate) fn may_be_outdated(refused: &Problem, headers: &HeaderMap) -> bool {
    let of_data = [CredentialFault::Unknown, CredentialFault::Revoked].map(CredentialFault::as_str);
    let is_of_data = || refused.credential().is_some_and(|fault| of_data.contains(&fault));
    refused.code() == Code::Denied || (refused.code() == Code::Unauthenticated && identity::shows_token(headers) && is_of_data())
}

/// The rule of a call. HEAD has that of GET. A call without a rule, which no route has, is for administrators.
fn rule_of(route: &str, method: &Method) -> RouteRule {
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    let found = CALLS.iter().find(|(path, of, _)| *path == route && *of == method);
    found.map_or(RouteRule::Cluster(Verb::Admin), |(_, _, rule)| *rule)
}
