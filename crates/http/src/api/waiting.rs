//! Answers for a server that has opened its port but cannot run as a node yet. They say that it is alive but not ready,
//! and why.

use crate::{
    edge::answer,
    edge::api_service::ApiService,
    edge::params,
    edge::problem::{Problem, RETRY_AFTER_SECONDS},
};
use axum::{
    Router,
    extract::RawQuery,
    response::{IntoResponse, Response},
    routing::get,
};
use fairhold_types::{Code, Revision, call, dto};
use http::{StatusCode, header};
use std::sync::Arc;

/// Answers in place of a node. The reason is for people: what the server waits for, and what they can do.
pub fn waiting_router(reason: &str) -> ApiService {
    let reason: Arc<str> = reason.into();
    let (of_ready, of_all) = (Arc::clone(&reason), reason);
    let router = Router::new()
        .route("/livez", get(crate::api::cluster::live))
        .route("/readyz", get(move |RawQuery(query): RawQuery| async move { ready(&of_ready, query.as_deref()) }))
        .fallback(move || async move { not_yet(&of_all) });
    router.into()
}

fn ready(reason: &str, query: Option<&str>) -> Result<Response, Problem> {
    let params: call::Ready = params::parse(query, &[])?.params;
    if !params.verbose {
        return Err(not_yet(reason));
    }
    let body = dto::Readiness {
        ready: false,
        reason: Some(reason.to_owned()),
        shutting_down: false,
        leader: None,
        revision: Revision(0),
        warning: None,
        host: dto::Host::default(),
    };
    let mut response = answer::json(StatusCode::SERVICE_UNAVAILABLE, Revision(0), &body)?;
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
    Ok(response.into_response())
}

/// Nothing was done, so the caller may try another node at once.
fn not_yet(reason: &str) -> Problem {
    Problem::new(Code::NoQuorum, reason.to_owned())
}
