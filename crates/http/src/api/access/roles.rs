//! The calls on roles and their bindings.

use super::make;
use crate::{edge::answer, edge::error::of_read, edge::headers, edge::problem::Problem, edge::request::Received};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_access::{RoleName, Rule, Subject, principal::USER_ATTRIBUTE, role};
use fairhold_node::Node;
use fairhold_state::{
    access::{AccessData, RoleRecord},
    command::AccessChange,
};
use fairhold_types::{Code, Revision, call, dto};
use http::{HeaderMap, StatusCode, header};
use openraft_rt::AsyncRuntime;

const ROLES: &str = "/v1/access/roles/";
const BINDINGS: &str = "/v1/access/bindings/";

/// `GET /v1/access/roles`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::ReadAccess = received.query()?;
    let found = node.read_access(received.read_options(params.consistency)?).await.map_err(of_read)?;
    let built_in = role::BUILT_IN.into_iter().filter_map(built_in);
    let own = found.value.roles().map(|(name, role)| entry(name, role));
    answer::json(StatusCode::OK, found.revision, &dto::RoleList { roles: built_in.chain(own).collect() })
}

/// `GET /v1/access/roles/{name}`
pub(crate) async fn show<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::ReadAccess = received.query()?;
    let name = role_in(&received)?;
    let found = node.read_access(received.read_options(params.consistency)?).await.map_err(of_read)?;
    answer_role(&found.value, &name, found.revision)
}

/// `PUT /v1/access/roles/{name}`
pub(crate) async fn put<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_list::<RT>(request).await?;
    received.require_admin()?;
    let params: call::PutRole = received.params(body)?;
    let role = role_in(&received)?;
    let rules = rules(params.rules.into_vec(), |attribute| received.is_attribute(attribute))?;
    let expected = expected(received.headers(), "role")?;
    let revision = make(&node, &received, AccessChange::PutRole { role: role.clone(), rules, expected }).await?;
    // The answer is the node's own view: the change may have taken the caller's own rights.
    answer_role(&node.access(), &role, revision)
}

/// `DELETE /v1/access/roles/{name}`: `204` even if there is no such role, so it is safe to repeat.
pub(crate) async fn delete<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::DeleteRole = received.query()?;
    let expected = expected(received.headers(), "role")?;
    let change = AccessChange::DeleteRole { role: role_in(&received)?, force: params.force, expected };
    let revision = make(&node, &received, change).await?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

/// `GET /v1/access/bindings`
pub(crate) async fn list_bindings<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::ReadAccess = received.query()?;
    let found = node.read_access(received.read_options(params.consistency)?).await.map_err(of_read)?;
    let bindings = found.value.bindings().map(|(role, subject, binding)| dto::BindingEntry {
        role: role.to_string(),
        subject: subject.to_string(),
        by: binding.by.to_string(),
        at: binding.at.to_rfc3339(),
    });
    answer::json(StatusCode::OK, found.revision, &dto::BindingList { bindings: bindings.collect() })
}

/// `PUT /v1/access/bindings/{role}/{subject}`
pub(crate) async fn bind<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    change_binding(&node, request, |role, subject| AccessChange::Bind { role, subject }).await
}

/// `DELETE /v1/access/bindings/{role}/{subject}`: `204` even if it is not bound, so it is safe to repeat.
pub(crate) async fn unbind<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    change_binding(&node, request, |role, subject| AccessChange::Unbind { role, subject }).await
}

async fn change_binding<RT: AsyncRuntime>(
    node: &Node<RT>,
    request: Request,
    change: impl FnOnce(RoleName, Subject) -> AccessChange,
) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let call::Empty {} = received.query()?;
    let path = received.path_after(BINDINGS)?;
    let (role, subject) = path.split_once('/').unwrap_or((&path, ""));
    let role = role_name(role)?;
    let subject = Subject::parse(subject).map_err(|error| Problem::bad_request(format!("the subject: {error}")))?;
    let revision = make(node, &received, change(role, subject)).await?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

fn role_in(received: &Received) -> Result<RoleName, Problem> {
    role_name(&received.path_after(ROLES)?)
}

fn role_name(text: &str) -> Result<RoleName, Problem> {
    RoleName::parse(text).map_err(|error| Problem::bad_request(format!("the role: {error}")))
}

/// The rules of a role, with attributes that some principals have. A refusal names the rule and the place in it.
fn rules(texts: Vec<call::RuleText>, is_of_provider: impl Fn(&str) -> bool) -> Result<Vec<Rule>, Problem> {
    if texts.is_empty() {
        return Err(Problem::new(Code::BadRule, "a role needs at least one rule"));
    }
    let one = |(index, text): (usize, call::RuleText)| {
        let parsed = Rule::parse_with(text.as_str(), |attribute| attribute == USER_ATTRIBUTE || is_of_provider(attribute));
        parsed.map_err(|error| Problem::new(Code::BadRule, format!("rule {}: {error}", index + 1)))
    };
    texts.into_iter().enumerate().map(one).collect()
}

/// The revision that a role or a tenant must have: 0 if it must not exist.
pub(super) fn expected(given: &HeaderMap, of: &str) -> Result<Option<Revision>, Problem> {
    let bad = || {
        Problem::bad_request(format!("pass If-Match with the ETag of the {of}, or If-None-Match: * if the {of} must not exist"))
    };
    match (headers::text(given, header::IF_MATCH)?, headers::text(given, header::IF_NONE_MATCH)?) {
        (None, None) => Ok(None),
        (None, Some("*")) => Ok(Some(Revision(0))),
        (Some(tag), None) => {
            let revision = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|tag| tag.parse().ok());
            revision.filter(|revision| *revision > 0).map(|revision| Some(Revision(revision))).ok_or_else(bad)
        }
        (Some(_) | None, Some(_)) => Err(bad()),
    }
}

fn answer_role(access: &AccessData, name: &RoleName, revision: Revision) -> Result<Response, Problem> {
    let found = access.role(name).map(|role| entry(name, role)).or_else(|| built_in(name.as_str()));
    let role = found.ok_or_else(|| Problem::new(Code::NotFound, "there is no role of this name"))?;
    let mut response = answer::json(StatusCode::OK, revision, &role)?;
    response.headers_mut().insert(header::ETAG, answer::header_value(format!("\"{}\"", role.revision))?);
    Ok(response)
}

fn entry(name: &RoleName, role: &RoleRecord) -> dto::RoleEntry {
    dto::RoleEntry {
        name: name.to_string(),
        rules: role.rules.iter().map(ToString::to_string).collect(),
        built_in: false,
        revision: role.revision,
        by: Some(role.by.to_string()),
        at: Some(role.at.to_rfc3339()),
    }
}

fn built_in(name: &str) -> Option<dto::RoleEntry> {
    let rules = role::built_in(name)?.iter().map(ToString::to_string).collect();
    Some(dto::RoleEntry { name: name.to_owned(), rules, built_in: true, revision: Revision(0), by: None, at: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_rule_is_named_with_the_place_in_it() {
        let parse = |texts: &[&str]| {
            let texts = texts.iter().map(|text| call::RuleText::try_from((*text).to_owned()).unwrap()).collect();
            rules(texts, |attribute| attribute == "team").map(|rules| rules.len()).map_err(|problem| {
                let problem = fairhold_types::problem::Problem::from(problem);
                (problem.status, problem.detail.into_owned())
            })
        };
        assert_eq!(parse(&["acquire locks:a/**", "read,write nodes:{team}/{user}/**"]), Ok(2));
        for (texts, place) in [
            (&["acquire locks:a", "take locks:a"][..], "rule 2: character 1: "),
            (&["acquire locks:a//b"], "rule 1: character 17: "),
            (&["acquire locks:a/**/b"], "rule 1: character "),
            (&["acquire locks:{namespace}"], "rule 1: character "),
            (&[], "a role needs at least one rule"),
        ] {
            let (status, detail) = parse(texts).unwrap_err();
            assert!(status == 422 && detail.starts_with(place), "{texts:?}: {detail}");
        }
    }

    #[test]
    fn a_condition_is_the_tag_of_a_role_or_that_there_is_none() {
        let of = |name: header::HeaderName, value: &str| {
            expected(&HeaderMap::from_iter([(name, value.parse().unwrap())]), "role").map_err(drop)
        };
        assert_eq!(of(header::IF_MATCH, "\"17\""), Ok(Some(Revision(17))));
        assert_eq!(of(header::IF_NONE_MATCH, "*"), Ok(Some(Revision(0))));
        assert_eq!(expected(&HeaderMap::new(), "role").map_err(drop), Ok(None));
        for wrong in ["17", "*", "\"0\"", "\"x\"", "\"-1\""] {
            assert_eq!(of(header::IF_MATCH, wrong), Err(()), "{wrong}");
        }
    }
}
