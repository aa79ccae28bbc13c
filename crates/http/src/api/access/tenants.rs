//! The calls on tenants.

use super::{make, roles::expected};
use crate::{edge::answer, edge::error::of_read, edge::problem::Problem, edge::request::Received};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_access::{
    Quota, QuotaKind, Subject, Tenant, TenantName, TenantPrefix,
    limits::{TENANT_PREFIXES_MAX, TENANT_SUBJECTS_MAX},
};
use fairhold_node::{Node, api::TenantView};
use fairhold_state::command::AccessChange;
use fairhold_types::{Code, Revision, call, dto, limits};
use http::{StatusCode, header};
use openraft_rt::AsyncRuntime;
use std::fmt::Display;

const TENANTS: &str = "/v1/access/tenants/";

/// The parameters of the API have the limits of what they become.
const _: () = assert!(limits::TENANT_PREFIXES_MAX == TENANT_PREFIXES_MAX && limits::TENANT_SUBJECTS_MAX == TENANT_SUBJECTS_MAX);

/// `GET /v1/access/tenants`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::ReadAccess = received.query()?;
    let found = node.tenants(received.read_options(params.consistency)?).await.map_err(of_read)?;
    let tenants = found.value.iter().map(entry).collect();
    answer::json(StatusCode::OK, found.revision, &dto::TenantList { tenants })
}

/// `GET /v1/access/tenants/{name}`
pub(crate) async fn show<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::ReadAccess = received.query()?;
    let name = tenant_in(&received)?;
    let found = node.show_tenant(&name, received.read_options(params.consistency)?).await.map_err(of_read)?;
    answer_tenant(found.value.as_ref(), found.revision)
}

/// `PUT /v1/access/tenants/{name}`
pub(crate) async fn put<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_list::<RT>(request).await?;
    received.require_admin()?;
    let params: call::PutTenant = received.params(body)?;
    let name = tenant_in(&received)?;
    let expected = expected(received.headers(), "tenant")?;
    let tenant = tenant(params)?;
    let revision =
        make(&node, &received, AccessChange::PutTenant { name: name.clone(), tenant: Box::new(tenant), expected }).await?;
    // The answer is the node's own view: the change may have taken the caller's own rights.
    answer_tenant(node.tenant_now(&name).as_ref(), revision)
}

/// `DELETE /v1/access/tenants/{name}`: `204` even if there is no such tenant, so it is safe to repeat.
pub(crate) async fn delete<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let call::Empty {} = received.query()?;
    let expected = expected(received.headers(), "tenant")?;
    let revision = make(&node, &received, AccessChange::DeleteTenant { name: tenant_in(&received)?, expected }).await?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

fn tenant_in(received: &Received) -> Result<TenantName, Problem> {
    TenantName::parse(&received.path_after(TENANTS)?).map_err(|error| Problem::bad_request(format!("the tenant: {error}")))
}

/// The tenant that a request describes. A refusal names the entry of the list.
fn tenant(params: call::PutTenant) -> Result<Tenant, Problem> {
    let subjects = params.subjects.map(call::BoundedList::into_vec).unwrap_or_default();
    let subjects = each("subjects", subjects.iter().map(call::PrincipalText::as_str), Subject::parse)?;
    if let Some(subject) = subjects.iter().find(|subject| subject.as_str().starts_with("file:")) {
        return Err(Problem::bad_request(format!("{subject}: administrators by a file belong to no tenant")));
    }
    let prefixes = params.prefixes.map(call::BoundedList::into_vec).unwrap_or_default();
    let prefixes = each("prefixes", prefixes.iter().map(call::PrefixText::as_str), TenantPrefix::parse)?;
    let number = |number: Option<call::Number>| number.map(call::Number::get);
    let quota = Quota {
        nodes: number(params.nodes),
        bytes: number(params.bytes),
        contenders: number(params.contenders),
        waiters: number(params.waiters),
        sessions: number(params.sessions),
        tokens: number(params.tokens),
        requests_per_second: params.requests_per_second.map(call::RequestRate::get),
        burst: params.burst.map(call::RequestRate::get),
        waits: params.waits.map(call::OpenCount::get),
        watches: params.watches.map(call::OpenCount::get),
    };
    if quota.burst.is_some() && quota.requests_per_second.is_none() {
        return Err(Problem::bad_request("burst needs requests_per_second"));
    }
    Ok(Tenant { subjects, prefixes, quota })
}

/// Parses each entry of a list.
fn each<'a, T, E: Display>(
    list: &str,
    texts: impl Iterator<Item = &'a str>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, Problem> {
    let one = |(index, text): (usize, &'a str)| {
        parse(text).map_err(|error| Problem::bad_request(format!("entry {} of {list}: {error}", index + 1)))
    };
    texts.enumerate().map(one).collect()
}

fn answer_tenant(view: Option<&TenantView>, revision: Revision) -> Result<Response, Problem> {
    let view = view.ok_or_else(|| Problem::new(Code::NotFound, "there is no tenant of this name"))?;
    let mut response = answer::json(StatusCode::OK, revision, &entry(view))?;
    response.headers_mut().insert(header::ETAG, answer::header_value(format!("\"{}\"", view.record.revision))?);
    Ok(response)
}

fn entry(view: &TenantView) -> dto::TenantEntry {
    let TenantView { name, record, .. } = view;
    let Tenant { subjects, prefixes, quota } = &record.tenant;
    let of = |kind: QuotaKind| dto::QuotaEntry { limit: quota.limit(kind), used: view.used(kind) };
    dto::TenantEntry {
        name: name.to_string(),
        subjects: subjects.iter().map(ToString::to_string).collect(),
        prefixes: prefixes.iter().map(ToString::to_string).collect(),
        quotas: dto::TenantQuotas {
            nodes: of(QuotaKind::Nodes),
            bytes: of(QuotaKind::Bytes),
            contenders: of(QuotaKind::Contenders),
            waiters: of(QuotaKind::Waiters),
            sessions: of(QuotaKind::Sessions),
            tokens: of(QuotaKind::Tokens),
            requests_per_second: of(QuotaKind::Requests),
            burst: dto::QuotaEntry { limit: quota.burst.map(u64::from), used: None },
            waits: of(QuotaKind::Waits),
            watches: of(QuotaKind::Watches),
        },
        counting: view.counting,
        revision: record.revision,
        by: record.by.to_string(),
        at: record.at.to_rfc3339(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(body: &serde_json::Value) -> String {
        let problem = tenant(serde_json::from_value(body.clone()).unwrap()).unwrap_err();
        fairhold_types::problem::Problem::from(problem).detail.into_owned()
    }

    #[test]
    fn a_refusal_names_the_entry() {
        for (body, place) in [
            (serde_json::json!({ "subjects": ["user:ci", "ci"] }), "entry 2 of subjects: "),
            (serde_json::json!({ "prefixes": ["locks:a/*/**"] }), "entry 1 of prefixes: "),
            (serde_json::json!({ "prefixes": ["nodes:locks/a/**"] }), "entry 1 of prefixes: "),
            (serde_json::json!({ "subjects": ["file:admin"] }), "file:admin: "),
            (serde_json::json!({ "burst": 7 }), "burst needs "),
        ] {
            let detail = detail(&body);
            assert!(detail.starts_with(place), "{body}: {detail}");
        }
        let good =
            serde_json::json!({ "subjects": ["user:*"], "prefixes": ["locks:a/**"], "requests_per_second": 5, "burst": 7 });
        assert!(tenant(serde_json::from_value(good).unwrap()).is_ok());
    }
}
