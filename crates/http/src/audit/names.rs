//! The name in the path of a request. Whatever is no valid name is left out: it may be a secret, or hostile.

use crate::edge::params;
use fairhold_access::{Need, RoleName, TenantName, UserName, binding::Subject};
use fairhold_types::{LockName, Path};

/// The index of the name or id in a path that is split at its slashes: `/v1/locks/{x}`.
const NAME_SEGMENT: usize = 3;

/// What the path of this route names, in the form of a rule if it has one: `locks:orders/42`, `roles:deployers`.
pub(crate) fn in_path(route: &str, path: &str) -> Option<String> {
    let segment = |index: usize| params::decode(path.split('/').nth(index).unwrap_or_default()).ok();
    let number = |index: usize| segment(index)?.parse::<u64>().ok();
    let mut levels = route.split('/').skip(2);
    match (levels.next()?, levels.next()) {
        ("locks" | "elections", Some("{name}")) => {
            let name = LockName::parse(&segment(NAME_SEGMENT)?).ok()?;
            Some(format!("locks:{name}"))
        }
        ("nodes", Some(_)) => {
            let text = params::decode(path.strip_prefix("/v1/nodes")?).ok()?;
            Some(Need::read(&Path::parse(&text).ok()?).on())
        }
        ("sessions", Some("{id}")) => Some(format!("sessions:{}", number(NAME_SEGMENT)?)),
        ("cluster", Some("members")) => Some(format!("members:{}", number(NAME_SEGMENT + 1)?)),
        ("cluster", Some("join-tokens")) => Some(format!("join-tokens:{}", number(NAME_SEGMENT + 1)?)),
        ("access", Some("tokens")) => Some(format!("tokens:{}", number(NAME_SEGMENT + 1)?)),
        ("access", Some("roles")) => Some(format!("roles:{}", RoleName::parse(&segment(NAME_SEGMENT + 1)?).ok()?)),
        ("access", Some("users")) => Some(format!("users:{}", UserName::parse(&segment(NAME_SEGMENT + 1)?).ok()?)),
        ("access", Some("tenants")) => Some(format!("tenants:{}", TenantName::parse(&segment(NAME_SEGMENT + 1)?).ok()?)),
        ("access", Some("bindings")) => {
            let role = RoleName::parse(&segment(NAME_SEGMENT + 1)?).ok()?;
            let subject = Subject::parse(&segment(NAME_SEGMENT + 2)?).ok()?;
            Some(format!("bindings:{role}/{subject}"))
        }
        (_, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_in_a_path_is_written_as_in_a_rule() {
        for (route, path, name) in [
            ("/v1/locks/{name}", "/v1/locks/orders%2F42", "locks:orders/42"),
            ("/v1/locks/{name}/queue", "/v1/locks/a/queue", "locks:a"),
            ("/v1/elections/{name}", "/v1/elections/leader", "locks:leader"),
            ("/v1/nodes/{*path}", "/v1/nodes/app/x%79", "nodes:app/xy"),
            ("/v1/nodes/{*path}", "/v1/nodes/locks/a", "locks:a"),
            ("/v1/nodes/", "/v1/nodes/", "nodes:/"),
            ("/v1/sessions/{id}", "/v1/sessions/7", "sessions:7"),
            ("/v1/cluster/members/{id}", "/v1/cluster/members/3", "members:3"),
            ("/v1/access/tokens/{number}", "/v1/access/tokens/12", "tokens:12"),
            ("/v1/access/roles/{name}", "/v1/access/roles/deployers", "roles:deployers"),
            ("/v1/access/tenants/{name}", "/v1/access/tenants/web", "tenants:web"),
            ("/v1/access/bindings/{role}/{subject}", "/v1/access/bindings/deployers/user:ci", "bindings:deployers/user:ci"),
        ] {
            assert_eq!(in_path(route, path).as_deref(), Some(name), "{path}");
        }
    }

    #[test]
    fn what_is_no_valid_name_is_left_out() {
        let long = format!("/v1/locks/{}", "x".repeat(64 * 1024));
        for (route, path) in [
            ("/v1/locks", "/v1/locks"),
            ("/v1/locks/{name}", long.as_str()),
            ("/v1/locks/{name}", "/v1/locks/a%0Ab"),
            ("/v1/locks/{name}", "/v1/locks/%ff"),
            ("/v1/nodes/{*path}", "/v1/nodes/a/../b"),
            ("/v1/grants/{id}", "/v1/grants/01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            ("/v1/sessions/{id}", "/v1/sessions/0123456789abcdef0123456789abcdef"),
            ("/v1/access/tokens/{number}", "/v1/access/tokens/fht_secret"),
            ("/v1/access/roles/{name}", "/v1/access/roles/A%20B"),
            ("/", "/"),
            ("/version", "/version"),
        ] {
            assert_eq!(in_path(route, path), None, "{path}");
        }
    }
}
