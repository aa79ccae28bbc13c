//! What a call does, as far as the audit log must know.

use fairhold_types::SessionId;
use http::Method;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// It says whether the server is well, or describes the API. It names nothing.
    Health,
    /// It reads.
    Read,
    /// It changes something.
    Change,
    /// It keeps something as it is: a renewal or a keepalive. No audit log may stop it.
    KeepAlive,
    /// It gives something up: a release, a withdrawal, the end of one's own session. No audit log may stop it.
    Release,
    /// Many calls. Each is judged alone.
    Batch,
}

impl CallKind {
    /// What the call of this route does.
    pub(crate) fn of(route: Option<&str>, method: &Method, path: &str) -> CallKind {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        match (route, is_read) {
            (Some("/livez" | "/readyz" | "/metrics" | "/version" | "/openapi.json"), _) => CallKind::Health,
            // An unknown path changes nothing.
            (None, _) | (Some(_), true) => CallKind::Read,
            (Some("/v1/access/check"), false) => CallKind::Read,
            (Some("/v1/batch"), false) => CallKind::Batch,
            (Some("/v1/sessions/keepalive" | "/v1/sessions/{id}/keepalive" | "/v1/grants/{id}/renew"), false) => {
                CallKind::KeepAlive
            }
            (Some("/v1/grants/{id}" | "/v1/grants/{id}/downgrade"), false) => CallKind::Release,
            (Some("/v1/sessions/{id}"), false) if is_own_session(path) => CallKind::Release,
            (Some(_), false) => CallKind::Change,
        }
    }

    /// Whether a required audit log may refuse the call as a whole.
    pub(super) fn may_be_refused(self) -> bool {
        match self {
            CallKind::Read | CallKind::Change => true,
            CallKind::Health | CallKind::KeepAlive | CallKind::Release | CallKind::Batch => false,
        }
    }
}

/// Whether the session in the path is named by its secret id, which its owner has, and not by its number.
fn is_own_session(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|id| id.parse::<SessionId>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_keep_or_give_up_something_are_never_refused() {
        let id = "0123456789abcdef0123456789abcdef";
        let kind = |route, method, path: &str| CallKind::of(Some(route), &method, path);
        for (route, method, path, expected) in [
            ("/v1/locks/{name}", Method::POST, "/v1/locks/a", CallKind::Change),
            ("/v1/locks/{name}", Method::HEAD, "/v1/locks/a", CallKind::Read),
            ("/v1/locks/{name}/holders", Method::DELETE, "/v1/locks/a/holders", CallKind::Change),
            ("/v1/grants/{id}/renew", Method::POST, "/v1/grants/x/renew", CallKind::KeepAlive),
            ("/v1/grants/{id}/upgrade", Method::POST, "/v1/grants/x/upgrade", CallKind::Change),
            ("/v1/grants/{id}", Method::DELETE, "/v1/grants/x", CallKind::Release),
            ("/v1/grants/{id}", Method::GET, "/v1/grants/x", CallKind::Read),
            ("/v1/sessions/{id}", Method::DELETE, &format!("/v1/sessions/{id}"), CallKind::Release),
            ("/v1/sessions/{id}", Method::DELETE, "/v1/sessions/7", CallKind::Change),
            ("/v1/sessions/keepalive", Method::POST, "/v1/sessions/keepalive", CallKind::KeepAlive),
            ("/v1/access/check", Method::POST, "/v1/access/check", CallKind::Read),
            ("/v1/batch", Method::POST, "/v1/batch", CallKind::Batch),
            ("/readyz", Method::GET, "/readyz", CallKind::Health),
        ] {
            assert_eq!(kind(route, method.clone(), path), expected, "{method} {path}");
            let is_exempt = matches!(expected, CallKind::KeepAlive | CallKind::Release | CallKind::Health | CallKind::Batch);
            assert_eq!(expected.may_be_refused(), !is_exempt, "{method} {path}");
        }
        assert_eq!(CallKind::of(None, &Method::POST, "/nothing"), CallKind::Read);
    }
}
