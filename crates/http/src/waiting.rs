//! What a server answers that has opened its port and cannot be a node yet: that it lives, that it is not ready, and why.

use crate::{
    answer,
    params::{KnownParams, Params},
    problem::{Problem, RETRY_AFTER_SECONDS},
};
use axum::{
    Router,
    extract::RawQuery,
    response::{IntoResponse, Response},
    routing::get,
};
use fairhold_types::{Code, Revision, dto};
use http::{StatusCode, header};
use std::sync::Arc;

const READY: KnownParams = KnownParams { now: &["verbose"], later: &[] };

/// Answers in the place of a node. The reason is for people: what it waits for, and what they can do.
pub fn waiting_router(reason: &str) -> Router {
    let reason: Arc<str> = reason.into();
    let (of_ready, of_all) = (Arc::clone(&reason), reason);
    Router::new()
        .route("/livez", get(crate::cluster::live))
        .route("/readyz", get(move |RawQuery(query): RawQuery| async move { ready(&of_ready, query.as_deref()) }))
        .fallback(move || async move { not_yet(&of_all) })
}

fn ready(reason: &str, query: Option<&str>) -> Result<Response, Problem> {
    if !Params::parse(query, &[], &READY)?.flag("verbose")? {
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

/// Surely nothing was done: another node may be asked at once.
fn not_yet(reason: &str) -> Problem {
    Problem::new(Code::NoQuorum, reason.to_owned())
}
