//! The service that answers a listener's requests: the API of a node, or of a server that cannot run as a node yet.

use axum::{Router, extract::Request, response::Response};
use futures_util::{FutureExt, future::BoxFuture};
use std::{fmt, sync::Arc};
use tower::ServiceExt;

/// Answers requests. A clone shares the function.
#[derive(Clone)]
pub struct ApiService(Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>);

impl ApiService {
    pub(crate) fn new(answer: impl Fn(Request) -> BoxFuture<'static, Response> + Send + Sync + 'static) -> ApiService {
        ApiService(Arc::new(answer))
    }

    /// Answers a request. Dropping the future means that the client disconnected.
    pub fn call(&self, request: Request) -> BoxFuture<'static, Response> {
        (self.0)(request)
    }
}

impl From<Router> for ApiService {
    fn from(router: Router) -> ApiService {
        let answer = move |request| router.clone().oneshot(request).map(|answer| answer.unwrap_or_else(|never| match never {}));
        ApiService::new(move |request| answer(request).boxed())
    }
}

impl fmt::Debug for ApiService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiService")
    }
}
