//! What each call needs. A test compares the table with the routes.

use crate::edge::{accept::accepts_html, names::lock_name, params, problem::Problem};
use axum::extract::Request;
use fairhold_access::{Need, Verb};
use fairhold_types::{Path, SessionId};
use http::{Method, Uri};

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteRule {
    /// Nothing, not even a credential.
    Open,
    /// Nothing, unless the answer has details of the server: then `status`.
    OpenInBrief,
    /// `status`, unless a browser asks: then the answer is only a redirect.
    OpenToBrowsers,
    /// Any valid credential: the call tells about its caller, or the id in it is a right of its own.
    Credential,
    /// Any valid credential here. The node decides, and needs one or more of these verbs: by the command that the request
    /// becomes, by what it watches, or by leaving out of a list what the caller may not see.
    Decided(&'static [Verb]),
    /// This verb on the lock in the path.
    Lock(Verb),
    /// To read the node in the path.
    Node,
    /// This verb of the cluster.
    Cluster(Verb),
    /// `admin` of the cluster, by a token of the administrators' file. The call itself looks at the token.
    FileAdmin,
    /// This verb if the session in the path is named by its number, and any valid credential if by its secret id.
    NumberedSession(Verb),
}

/// What taking a lock needs: `share` is enough in shared mode.
const TAKE: &[Verb] = &[Verb::Acquire, Verb::Share];

/// The rule of each path and method.
pub(super) const CALLS: &[(&str, &str, RouteRule)] = &[
    ("/v1/locks", "POST", RouteRule::Decided(TAKE)),
    ("/v1/locks", "GET", RouteRule::Decided(&[Verb::Inspect])),
    ("/v1/locks/{name}", "POST", RouteRule::Decided(TAKE)),
    ("/v1/locks/{name}", "GET", RouteRule::Lock(Verb::Inspect)),
    ("/v1/locks/{name}", "PATCH", RouteRule::Lock(Verb::Set)),
    ("/v1/locks/{name}/queue", "GET", RouteRule::Lock(Verb::Inspect)),
    ("/v1/locks/{name}/history", "GET", RouteRule::Lock(Verb::Inspect)),
    ("/v1/history", "GET", RouteRule::Decided(&[Verb::Inspect])),
    ("/v1/locks/{name}/fence", "GET", RouteRule::Lock(Verb::Fence)),
    ("/v1/locks/{name}/holders", "DELETE", RouteRule::Lock(Verb::Break)),
    ("/v1/locks/{name}/holders/revoke", "POST", RouteRule::Lock(Verb::Revoke)),
    ("/v1/elections", "GET", RouteRule::Decided(&[Verb::Inspect])),
    ("/v1/elections/{name}", "POST", RouteRule::Decided(&[Verb::Acquire])),
    ("/v1/elections/{name}", "GET", RouteRule::Lock(Verb::Inspect)),
    ("/v1/elections/{name}", "PUT", RouteRule::Lock(Verb::Acquire)),
    ("/v1/grants", "GET", RouteRule::Decided(&[Verb::Inspect])),
    ("/v1/grants/{id}", "GET", RouteRule::Credential),
    ("/v1/grants/{id}", "DELETE", RouteRule::Credential),
    ("/v1/grants/{id}/renew", "POST", RouteRule::Credential),
    ("/v1/grants/{id}/downgrade", "POST", RouteRule::Credential),
    ("/v1/grants/{id}/upgrade", "POST", RouteRule::Decided(&[Verb::Acquire])),
    ("/v1/batch", "POST", RouteRule::Decided(TAKE)),
    ("/v1/sessions", "POST", RouteRule::Credential),
    ("/v1/sessions", "GET", RouteRule::Cluster(Verb::Status)),
    ("/v1/sessions/keepalive", "POST", RouteRule::Credential),
    ("/v1/sessions/{id}/keepalive", "POST", RouteRule::Credential),
    ("/v1/sessions/{id}", "GET", RouteRule::NumberedSession(Verb::Status)),
    ("/v1/sessions/{id}", "DELETE", RouteRule::NumberedSession(Verb::End)),
    ("/v1/nodes/", "POST", RouteRule::Decided(&[Verb::Write])),
    ("/v1/nodes/", "GET", RouteRule::Node),
    ("/v1/nodes/", "PUT", RouteRule::Decided(&[Verb::Write])),
    ("/v1/nodes/", "DELETE", RouteRule::Decided(&[Verb::Write])),
    ("/v1/nodes/{*path}", "POST", RouteRule::Decided(&[Verb::Write])),
    ("/v1/nodes/{*path}", "GET", RouteRule::Node),
    ("/v1/nodes/{*path}", "PUT", RouteRule::Decided(&[Verb::Write])),
    ("/v1/nodes/{*path}", "DELETE", RouteRule::Decided(&[Verb::Write])),
    ("/v1/txn", "POST", RouteRule::Decided(&[Verb::Read, Verb::Write, Verb::Inspect, Verb::Fence, Verb::Status])),
    ("/v1/watch", "GET", RouteRule::Decided(&[Verb::Read, Verb::Inspect, Verb::Status])),
    ("/v1/events", "GET", RouteRule::Decided(&[Verb::Read, Verb::Inspect, Verb::Status])),
    ("/v1/overview", "GET", RouteRule::Cluster(Verb::Status)),
    ("/v1/overview/series", "GET", RouteRule::Cluster(Verb::Status)),
    ("/v1/waits", "GET", RouteRule::Decided(&[Verb::Inspect])),
    ("/v1/cluster", "GET", RouteRule::Cluster(Verb::Status)),
    ("/v1/cluster/alarms", "GET", RouteRule::Cluster(Verb::Status)),
    ("/v1/cluster/leader", "POST", RouteRule::Cluster(Verb::Operate)),
    ("/v1/cluster/snapshot", "POST", RouteRule::Cluster(Verb::Operate)),
    ("/v1/cluster/backup", "GET", RouteRule::Cluster(Verb::Backup)),
    ("/v1/cluster/upgrade", "GET", RouteRule::Cluster(Verb::Status)),
    ("/v1/cluster/upgrade/finalize", "POST", RouteRule::Cluster(Verb::Operate)),
    ("/v1/cluster/join-tokens", "POST", RouteRule::Cluster(Verb::Operate)),
    ("/v1/cluster/join-tokens", "GET", RouteRule::Cluster(Verb::Operate)),
    ("/v1/cluster/join-tokens/{number}", "DELETE", RouteRule::Cluster(Verb::Operate)),
    ("/v1/cluster/members", "GET", RouteRule::Cluster(Verb::Status)),
    ("/v1/cluster/members/{id}", "DELETE", RouteRule::Cluster(Verb::Operate)),
    ("/v1/cluster/members/{id}", "PATCH", RouteRule::Cluster(Verb::Operate)),
    ("/v1/cluster/settings", "GET", RouteRule::Cluster(Verb::Status)),
    ("/v1/cluster/settings", "PATCH", RouteRule::Cluster(Verb::Operate)),
    ("/v1/cluster/timing", "GET", RouteRule::Cluster(Verb::Status)),
    ("/v1/access", "GET", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/enable", "POST", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/disable", "POST", RouteRule::FileAdmin),
    ("/v1/access/whoami", "GET", RouteRule::Credential),
    ("/v1/access/check", "POST", RouteRule::Credential),
    ("/v1/access/roles", "GET", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/roles/{name}", "GET", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/roles/{name}", "PUT", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/roles/{name}", "DELETE", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/bindings", "GET", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/bindings/{role}/{subject}", "PUT", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/bindings/{role}/{subject}", "DELETE", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/users", "GET", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/users/{name}", "PUT", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/tokens", "POST", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/tokens", "GET", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/tokens/{number}", "DELETE", RouteRule::Cluster(Verb::Admin)),
    ("/v1/audit", "GET", RouteRule::Cluster(Verb::Audit)),
    ("/v1/access/tenants", "GET", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/tenants/{name}", "GET", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/tenants/{name}", "PUT", RouteRule::Cluster(Verb::Admin)),
    ("/v1/access/tenants/{name}", "DELETE", RouteRule::Cluster(Verb::Admin)),
    ("/ui", "GET", RouteRule::Open),
    ("/ui/", "GET", RouteRule::Open),
    ("/ui/{*path}", "GET", RouteRule::Open),
    ("/", "GET", RouteRule::OpenToBrowsers),
    ("/version", "GET", RouteRule::Open),
    ("/openapi.json", "GET", RouteRule::Open),
    ("/livez", "GET", RouteRule::Open),
    ("/readyz", "GET", RouteRule::OpenInBrief),
    ("/metrics", "GET", RouteRule::Open),
];

/// Whether the call of this route may be an administrative act.
pub(super) fn may_be_act(route: &str, method: &Method) -> bool {
    let of_cluster = || route.starts_with("/v1/access/") || route.starts_with("/v1/cluster/");
    match *method {
        Method::GET | Method::HEAD => false,
        Method::PATCH => true,
        Method::DELETE => of_cluster() || matches!(route, "/v1/locks/{name}/holders" | "/v1/sessions/{id}"),
        Method::POST => of_cluster() || route == "/v1/locks/{name}/holders/revoke",
        _ => of_cluster(),
    }
}

/// The index of the name or id in a path that is split at its slashes: `/v1/locks/{x}`.
const NAME_SEGMENT: usize = 3;

impl RouteRule {
    /// Whether the request needs no credential.
    pub(super) fn is_open(self, request: &Request) -> bool {
        match self {
            RouteRule::Open => true,
            RouteRule::OpenInBrief => request.uri().query().unwrap_or_default().is_empty(),
            RouteRule::OpenToBrowsers => accepts_html(request.headers()),
            RouteRule::Credential
            | RouteRule::Decided(_)
            | RouteRule::Lock(_)
            | RouteRule::Node
            | RouteRule::Cluster(_)
            | RouteRule::FileAdmin
            | RouteRule::NumberedSession(_) => false,
        }
    }

    /// The rights that the request needs by its path. A path without a valid name is refused.
    pub(super) fn needs(self, request: &Request) -> Result<Vec<Need<'static>>, Problem> {
        let uri = request.uri();
        Ok(match self {
            RouteRule::Open | RouteRule::Credential | RouteRule::Decided(_) => Vec::new(),
            RouteRule::OpenInBrief | RouteRule::OpenToBrowsers => vec![Need::unnamed(Verb::Status)],
            RouteRule::Lock(verb) => vec![Need::on_lock(verb, &lock_name(&name_in(uri)?)?).into_owned()],
            RouteRule::Node => vec![Need::read(&node_in(uri)?).into_owned()],
            RouteRule::Cluster(verb) => vec![Need::unnamed(verb)],
            RouteRule::FileAdmin => vec![Need::unnamed(Verb::Admin)],
            RouteRule::NumberedSession(verb) => {
                let is_id = name_in(uri)?.parse::<SessionId>().is_ok();
                if is_id { Vec::new() } else { vec![Need::unnamed(verb)] }
            }
        })
    }
}

fn name_in(uri: &Uri) -> Result<std::borrow::Cow<'_, str>, Problem> {
    params::decode(uri.path().split('/').nth(NAME_SEGMENT).unwrap_or_default())
}

fn node_in(uri: &Uri) -> Result<Path, Problem> {
    let text = params::decode(uri.path().strip_prefix("/v1/nodes").unwrap_or_default())?;
    let text = if text.is_empty() { "/" } else { &*text };
    Path::parse(text).map_err(|error| Problem::bad_request(format!("the path: {error}")))
}

#[cfg(test)]
mod page_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::ui::Dashboard, edge::metrics::Exposition, edge::server_info::ServerInfo, router::routes};
    use axum::body::Body;
    use openraft_rt_tokio::TokioRuntime;
    use std::collections::BTreeSet;

    #[test]
    fn each_call_has_one_rule() {
        let info = ServerInfo { version: "", host: fairhold_types::dto::Host::default, insecure: Vec::new };
        let routes = routes::<TokioRuntime>(info, Dashboard::BuiltIn, Exposition::default());
        let routed: Vec<(&str, &str)> =
            routes.list().iter().flat_map(|route| route.methods().map(|method| (route.template, method.as_str()))).collect();
        let ruled: Vec<(&str, &str)> = CALLS.iter().map(|(path, method, _)| (*path, *method)).collect();
        let (routed_once, ruled_once): (BTreeSet<_>, BTreeSet<_>) = (routed.iter().collect(), ruled.iter().collect());
        assert_eq!(routed_once.difference(&ruled_once).collect::<Vec<_>>(), [&&("", ""); 0], "calls without a rule");
        assert_eq!(ruled_once.difference(&routed_once).collect::<Vec<_>>(), [&&("", ""); 0], "rules without a call");
        assert_eq!(ruled.len(), ruled_once.len(), "a call has two rules");
    }

    #[test]
    fn every_administrative_call_may_be_an_act_and_no_other() {
        let administers = |rule: RouteRule| match rule {
            RouteRule::Lock(verb) => matches!(verb, Verb::Break | Verb::Revoke | Verb::Set),
            RouteRule::Cluster(verb) => matches!(verb, Verb::Operate | Verb::Admin),
            RouteRule::FileAdmin => true,
            RouteRule::NumberedSession(verb) => verb == Verb::End,
            RouteRule::Open
            | RouteRule::OpenInBrief
            | RouteRule::OpenToBrowsers
            | RouteRule::Credential
            | RouteRule::Decided(_)
            | RouteRule::Node => false,
        };
        for (route, method, rule) in CALLS {
            let wanted = administers(*rule) && *method != "GET";
            // A check of rights is no change.
            let wanted = wanted || (*route, *method) == ("/v1/access/check", "POST");
            assert_eq!(may_be_act(route, &method.parse().unwrap()), wanted, "{method} {route}");
        }
    }

    fn needs(rule: RouteRule, uri: &str) -> Result<Vec<String>, u16> {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let needs = rule.needs(&request).map_err(|problem| fairhold_types::problem::Problem::from(problem).status)?;
        Ok(needs.iter().map(Need::to_string).collect())
    }

    #[test]
    fn the_needs_of_a_call_are_those_of_the_decoded_name_in_its_path() {
        let inspect = RouteRule::Lock(Verb::Inspect);
        let ended = RouteRule::NumberedSession(Verb::End);
        for (rule, uri, wanted) in [
            (inspect, "/v1/locks/orders%2F42", "inspect on locks:orders/42"),
            (inspect, "/v1/locks/orders%2f42/queue?limit=7", "inspect on locks:orders/42"),
            (RouteRule::Node, "/v1/nodes/app/x%79", "read on nodes:app/xy"),
            (RouteRule::Node, "/v1/nodes/", "read on nodes:/"),
            (RouteRule::Node, "/v1/nodes/locks/a/b", "inspect on locks:a/b"),
            (RouteRule::Node, "/v1/nodes/%6Cocks/a", "inspect on locks:a"),
            (RouteRule::Cluster(Verb::Operate), "/v1/cluster/leader", "operate on cluster"),
            (ended, "/v1/sessions/7", "end on sessions"),
            (ended, "/v1/sessions/0123456789ABCDEF0123456789ABCDEF", "end on sessions"),
        ] {
            assert_eq!(needs(rule, uri), Ok(vec![wanted.to_owned()]), "{uri}");
        }
        assert_eq!(needs(ended, "/v1/sessions/0123456789abcdef0123456789abcdef"), Ok(Vec::new()), "an id is a right of its own");
        for (rule, uri) in [
            (inspect, "/v1/locks/a%2F..%2Fb"),
            (inspect, "/v1/locks/%zz"),
            (inspect, "/v1/locks/%2Fa"),
            (RouteRule::Node, "/v1/nodes/a//b"),
            (RouteRule::Node, "/v1/nodes/a/../b"),
        ] {
            assert_eq!(needs(rule, uri), Err(400), "{uri}");
        }
    }

    #[test]
    fn a_browser_is_sent_to_the_dashboard_without_a_credential() {
        let asks = |accept: &str| Request::get("/").header("accept", accept).body(Body::empty()).unwrap();
        assert!(RouteRule::OpenToBrowsers.is_open(&asks("text/html,*/*;q=0.8")));
        assert!(!RouteRule::OpenToBrowsers.is_open(&asks("*/*")));
    }

    #[test]
    fn a_readiness_check_with_details_needs_a_right() {
        let is_open = |uri: &str| RouteRule::OpenInBrief.is_open(&Request::get(uri).body(Body::empty()).unwrap());
        assert!(is_open("/readyz") && is_open("/readyz?"));
        assert!(!is_open("/readyz?verbose") && !is_open("/readyz?verb%6Fse=true"));
    }
}
