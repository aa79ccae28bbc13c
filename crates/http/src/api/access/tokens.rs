//! The calls on access tokens.

use super::{make, users::user_name};
use crate::{
    edge::answer,
    edge::error::{of_change, of_read},
    edge::paging,
    edge::params::{digits, expected},
    edge::problem::Problem,
    edge::request::Received,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_access::{BearerToken, TokenHash, token::AccessTokenNumber};
use fairhold_node::{Node, api::CreateAccessTokenCall};
use fairhold_state::command::AccessChange;
use fairhold_types::{call, dto, time::WallMillis};
use http::StatusCode;
use openraft_rt::AsyncRuntime;

/// `POST /v1/access/tokens`
pub(crate) async fn create<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let params: call::CreateAccessToken = received.params(body)?;
    let hash = params.hash.as_ref().map(|hash| {
        let expected = || expected("hash", "the SHA-256 of a token, as 64 hexadecimal digits in lower case");
        TokenHash::from_hex(hash.as_str()).ok_or_else(expected)
    });
    let call = CreateAccessTokenCall {
        key: received.key()?,
        user: user_name(params.user.as_str())?,
        ttl: params.ttl.map(call::AccessTokenTtl::get),
        hash: hash.transpose()?,
        client: received.caller(),
        timeout: received.timeout,
    };
    let created = node.create_access_token(call).await.map_err(of_change)?;
    let body = dto::CreatedAccessToken {
        number: created.value.number.0,
        token: created.value.token.as_ref().map(BearerToken::expose),
        expires_at: created.value.expires_at.map(WallMillis::to_rfc3339),
    };
    answer::json(StatusCode::CREATED, created.revision, &body)
}

/// `GET /v1/access/tokens`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::ListAccessTokens = received.query()?;
    let found = node.read_access(received.read_options(params.consistency)?).await.map_err(of_read)?;
    let after = AccessTokenNumber(params.cursor.map_or(0, call::PositiveNumber::get));
    let limit = paging::limit(params.limit);
    let mut items: Vec<dto::AccessTokenEntry> = found
        .value
        .tokens_after(after)
        .take(limit + 1)
        .map(|(number, token)| dto::AccessTokenEntry {
            number: number.0,
            user: token.user.to_string(),
            by: token.by.to_string(),
            created_at: token.created_at.to_rfc3339(),
            expires_at: token.expires_at.map(WallMillis::to_rfc3339),
        })
        .collect();
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().filter(|_| has_more).map(|last| last.number.to_string());
    let page = dto::Page { items, next_cursor };
    let response = answer::json(StatusCode::OK, found.revision, &page)?;
    paging::link_next(response, received.uri(), page.next_cursor.as_deref())
}

/// `DELETE /v1/access/tokens/{number}`: `204` if it was revoked before too, so it is safe to repeat.
pub(crate) async fn revoke<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let call::RevokeAccessToken { end_sessions } = received.query()?;
    let number = digits(&received.path_after("/v1/access/tokens/")?).filter(|number| *number > 0);
    let number = number.ok_or_else(|| Problem::bad_request("the token: expected its number, such as 7"))?;
    let change = AccessChange::RevokeToken { number: AccessTokenNumber(number), end_sessions };
    let revision = make(&node, &received, change).await?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}
