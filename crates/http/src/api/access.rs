//! The calls on access rights. `roles`, `users`, `tokens` and `tenants` have those on their objects.

pub(crate) mod roles;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod users;

use crate::{
    edge::answer,
    edge::error::{of_change, of_read},
    edge::problem::Problem,
    edge::request::Received,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_access::{
    Need, Pattern, Principal, UserName, Verb,
    limits::{RULE_BYTES_MAX, RULES_PER_ROLE_MAX},
    verb::ResourceKind,
};
use fairhold_node::{
    Node,
    access::{Caller, Credential},
    api::{ChangeAccessCall, ReadOptions},
};
use fairhold_state::{access::AccessData, command::AccessChange};
use fairhold_types::{
    LockName, Path, Revision, call, dto,
    limits::{ACCESS_RULE_BYTES_MAX, ACCESS_RULES_MAX},
    time::WallMillis,
};
use http::StatusCode;
use openraft_rt::AsyncRuntime;

/// The parameters of the API have the limits of what they become.
const _: () = assert!(ACCESS_RULE_BYTES_MAX == RULE_BYTES_MAX && ACCESS_RULES_MAX == RULES_PER_ROLE_MAX);

/// `GET /v1/access`
pub(crate) async fn status<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::ReadAccess = received.query()?;
    answer_status(&node, received.read_options(params.consistency)?).await
}

async fn answer_status<RT: AsyncRuntime>(node: &Node<RT>, read: ReadOptions) -> Result<Response, Problem> {
    let found = node.read_access(read).await.map_err(of_read)?;
    let access = found.value;
    let body = dto::AccessStatus {
        mode: if access.is_on() { "on" } else { "off" }.to_owned(),
        revision: access.revision(),
        narrowed_at: access.narrowed_at(),
        roles: access.roles().count() as u64,
        bindings: access.bindings().count() as u64,
        tokens: access.token_count() as u64,
        disabled_users: access.disabled_users().count() as u64,
        tenants: access.tenants().count() as u64,
    };
    answer::json(StatusCode::OK, found.revision, &body)
}

/// `POST /v1/access/enable`
pub(crate) async fn enable<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    switch(&node, request, AccessChange::Enable).await
}

/// `POST /v1/access/disable`
pub(crate) async fn disable<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    switch(&node, request, AccessChange::Disable).await
}

async fn switch<RT: AsyncRuntime>(node: &Node<RT>, request: Request, change: AccessChange) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let call::Empty {} = received.params(body)?;
    make(node, &received, change).await?;
    // The answer is the node's own view: the caller may need another credential by now.
    let access = node.access();
    let mode = if access.is_on() { "on" } else { "off" };
    let body = dto::AccessMode { mode: mode.to_owned(), revision: access.revision() };
    answer::json(StatusCode::OK, node.revision(), &body)
}

/// Makes a change of the access data.
async fn make<RT: AsyncRuntime>(node: &Node<RT>, received: &Received, change: AccessChange) -> Result<Revision, Problem> {
    let call = ChangeAccessCall { key: received.key()?, change, client: received.caller(), timeout: received.timeout };
    node.change_access(call).await.map_err(of_change)
}

/// `GET /v1/access/whoami`
pub(crate) async fn whoami<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let call::Empty {} = received.query()?;
    let (access, rights) = (node.access(), node.own_rights());
    let (kind, ends) = match node.caller().map(Caller::credential) {
        Some(Credential::File) => ("file", None),
        Some(Credential::Token(number)) => ("token", access.token(*number).and_then(|token| token.expires_at)),
        Some(Credential::Certificate { not_after, .. }) => ("certificate", Some(*not_after)),
        Some(Credential::Jwt { expires_at }) => ("jwt", Some(*expires_at)),
        Some(Credential::Nothing | Credential::Unread) | None => ("none", None),
    };
    let body = dto::WhoAmI {
        principal: principal_of(&node).to_string(),
        kind: kind.to_owned(),
        ends: ends.map(WallMillis::to_rfc3339),
        roles: rights.roles().iter().map(ToString::to_string).collect(),
        tenant: node.tenant().map(|(name, _)| name.to_string()),
    };
    answer::json(StatusCode::OK, node.revision(), &body)
}

fn principal_of<RT: AsyncRuntime>(node: &Node<RT>) -> Principal {
    node.caller().map_or_else(Principal::anonymous, |caller| caller.principal().clone())
}

/// `POST /v1/access/check`
pub(crate) async fn check<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let params: call::CheckAccess = received.params(body)?;
    let own = principal_of(&node);
    let principal = match &params.principal {
        Some(text) => Principal::parse(text.as_str()).map_err(|error| bad("as", &error))?,
        None => own.clone(),
    };
    // Callers may check their own rights.
    let rights = if principal == own {
        node.own_rights()
    } else {
        received.require_admin()?;
        node.require_right(&Need::unnamed(Verb::Admin)).map_err(of_read)?;
        node.rights_of(&principal)
    };
    let decided = |need: &Need<'_>| match rights.decide(need) {
        Ok(permission) => (true, format!("the rule {} of the role {}", permission.rule, permission.role)),
        Err(denied) => (false, denied.because),
    };
    let by_rules = with_need(params.verb.as_str(), params.on.as_str(), decided)?;
    let (allowed, because) = match disabled(&node.access(), &principal) {
        Some(user) => (false, format!("the user {user} is disabled; to enable it: fairhold users enable {user}")),
        None => by_rules,
    };
    answer::json(StatusCode::OK, node.revision(), &dto::AccessCheck { allowed, because })
}

/// The user that the principal is, if the user is disabled.
fn disabled(access: &AccessData, principal: &Principal) -> Option<UserName> {
    let user = UserName::parse(principal.name()).ok()?;
    (Principal::user(&user) == *principal && access.is_disabled(&user)).then_some(user)
}

/// Passes on the need that a verb and a target mean, as in a rule.
fn with_need<T>(verb: &str, on: &str, decide: impl FnOnce(&Need<'_>) -> T) -> Result<T, Problem> {
    let verb = Verb::named(verb).ok_or_else(|| Problem::bad_request("the parameter \"verb\": there is no such verb"))?;
    let (kind, name) = on.split_once(':').map_or((on, None), |(kind, name)| (kind, Some(name)));
    if kind != verb.resource().as_str() || name.is_some() != verb.resource().has_names() {
        let expected = if verb.resource().has_names() { "a name, as in " } else { "" };
        let resource = verb.resource().as_str();
        let example = if verb.resource().has_names() { format!("{resource}:orders/42") } else { resource.to_owned() };
        return Err(Problem::bad_request(format!("the parameter \"on\": {verb} acts on {expected}{example}")));
    }
    let Some(name) = name else { return Ok(decide(&Need::unnamed(verb))) };
    if name.contains('*') {
        let pattern = Pattern::parse(name).map_err(|error| bad("on", &error))?;
        return Ok(decide(&Need::on_every(verb, pattern)));
    }
    if verb.resource() == ResourceKind::Locks {
        let lock = LockName::parse(name).map_err(|error| bad("on", &error))?;
        return Ok(decide(&Need::on_lock(verb, &lock)));
    }
    let path = Path::parse(&format!("/{}", name.trim_start_matches('/'))).map_err(|error| bad("on", &error))?;
    Ok(decide(&if verb == Verb::Write { Need::write(&path) } else { Need::read(&path) }))
}

fn bad(parameter: &str, error: &dyn std::fmt::Display) -> Problem {
    Problem::bad_request(format!("the parameter \"{parameter}\": {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_names_a_right_as_a_rule_does() {
        let need = |verb: &str, on: &str| with_need(verb, on, |need| need.to_string()).ok();
        for (verb, on, wanted) in [
            ("acquire", "locks:orders/42", "acquire on locks:orders/42"),
            ("inspect", "locks:orders/**", "inspect on locks:orders/**"),
            ("read", "nodes:app", "read on nodes:app"),
            ("write", "nodes:/app", "write on nodes:app"),
            ("operate", "cluster", "operate on cluster"),
            ("end", "sessions", "end on sessions"),
        ] {
            assert_eq!(need(verb, on).as_deref(), Some(wanted));
        }
        for (verb, on) in [
            ("take", "locks:a"),
            ("acquire", "locks"),
            ("acquire", "nodes:a"),
            ("acquire", "locks:a//b"),
            ("acquire", "locks:"),
            ("acquire", "locks:**/a"),
            ("status", "cluster:a"),
            ("status", "sessions"),
        ] {
            assert_eq!(need(verb, on), None, "{verb} {on}");
        }
    }
}
