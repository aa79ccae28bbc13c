//! Answers for a server that has opened its port but cannot run as a node yet. They say that it is alive but not ready,
//! and why.

use crate::{
    edge::answer,
    edge::api_service::ApiService,
    edge::cluster_header::ClusterHeader,
    edge::headers,
    edge::params,
    edge::problem::{Problem, RETRY_AFTER_SECONDS},
};
use axum::{
    Router,
    extract::RawQuery,
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::get,
};
use fairhold_types::{Code, Revision, call, dto};
use http::{StatusCode, header};
use std::sync::Arc;

/// Answers in place of a node. The reason is for people: what the server waits for, and what they can do. `cluster` is
/// the node's cluster, if it is known already.
pub fn waiting_router(reason: &str, cluster: ClusterHeader) -> ApiService {
    let reason: Arc<str> = reason.into();
    let (of_ready, of_all) = (Arc::clone(&reason), reason);
    let router = Router::new()
        .route("/livez", get(crate::api::cluster::live))
        .route("/readyz", get(move |RawQuery(query): RawQuery| async move { ready(&of_ready, query.as_deref()) }))
        .fallback(move || async move { not_yet(&of_all) })
        .layer(map_response(move |response: Response| {
            let named = with_cluster(response, &cluster);
            async move { named }
        }));
    router.into()
}

fn with_cluster(mut response: Response, cluster: &ClusterHeader) -> Response {
    if let Some(cluster) = cluster.value() {
        response.headers_mut().insert(headers::CLUSTER, cluster.clone());
    }
    response
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

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{body::Body, extract::Request};
    use fairhold_types::ClusterId;

    #[tokio::test]
    async fn every_answer_names_the_cluster_once_it_is_known() {
        for (cluster, named) in [(Some(ClusterId(0xabc)), Some("00000000000000000000000000000abc")), (None, None)] {
            let waiting = waiting_router("the disk is full", ClusterHeader::known(cluster));
            for (path, status) in [("/livez", 200), ("/readyz", 503), ("/readyz?verbose", 503), ("/v1/locks/a", 503)] {
                let request = Request::builder().uri(path).body(Body::empty()).unwrap();
                let answer = waiting.call(request).await;
                assert_eq!(answer.status().as_u16(), status, "{path}");
                let header = answer.headers().get(headers::CLUSTER).map(|value| value.to_str().unwrap());
                assert_eq!(header, named, "{path}");
            }
        }
    }
}
