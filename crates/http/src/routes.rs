//! The table of routes: the call of each path and method. A test compares it with the API description.
//!
//! The calls are axum's handlers. axum's own router would clone each layer and box its future for every request.

use crate::{
    door::CallRule,
    edge::metrics::{HttpMetrics, RouteMetrics},
};
use axum::{extract::Request, handler::Handler, response::Response};
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method};
use std::sync::Arc;

/// Makes the future of a call.
type Call<S> = Box<dyn Fn(Request, S) -> BoxFuture<'static, Response> + Send + Sync>;

/// The methods of one path.
pub(crate) struct Methods<S>(Vec<(Method, Call<S>)>);

/// A path with its methods.
pub(crate) struct Route<S> {
    /// The path, with a placeholder for each variable part: `/v1/locks/{name}`.
    pub(crate) template: &'static str,
    pub(crate) metrics: Arc<RouteMetrics>,
    calls: Vec<RoutedCall<S>>,
}

/// A method of a path.
struct RoutedCall<S> {
    method: Method,
    call: Call<S>,
    /// What the door knows of it. It is looked up once, because every request needs it.
    rule: CallRule,
}

/// All paths with their methods.
pub(crate) struct Routes<S> {
    /// Finds the index of a route.
    paths: matchit::Router<usize>,
    list: Vec<Route<S>>,
    metrics: HttpMetrics,
}

macro_rules! methods {
    (first: $($first:ident $first_method:ident),*; further: $($name:ident $method:ident),*) => {
        $(
            /// Routes a path with this method.
            pub(crate) fn $first<H, T: 'static, S: 'static>(handler: H) -> Methods<S>
            where
                H: Handler<T, S, Future = BoxFuture<'static, Response>>,
            {
                Methods(Vec::new()).with(Method::$first_method, handler)
            }
        )*

        impl<S: 'static> Methods<S> {
            $(
                /// Adds this method to the same path.
                pub(crate) fn $name<H, T: 'static>(self, handler: H) -> Self
                where
                    H: Handler<T, S, Future = BoxFuture<'static, Response>>,
                {
                    self.with(Method::$method, handler)
                }
            )*
        }
    };
}

methods!(first: get GET, post POST, put PUT, delete DELETE; further: get GET, put PUT, patch PATCH, delete DELETE);

impl<S: 'static> Methods<S> {
    fn with<H, T: 'static>(mut self, method: Method, handler: H) -> Self
    where
        H: Handler<T, S, Future = BoxFuture<'static, Response>>,
    {
        assert!(self.0.iter().all(|(of, _)| *of != method), "{method} is given twice");
        self.0.push((method, Box::new(move |request, state| handler.clone().call(request, state))));
        self
    }
}

impl<S> Route<S> {
    /// The call of a method. HEAD has that of GET.
    pub(crate) fn call(&self, method: &Method) -> Option<&Call<S>> {
        self.routed(method).map(|routed| &routed.call)
    }

    /// What the door knows of the call of a method.
    pub(crate) fn rule(&self, method: &Method) -> CallRule {
        self.routed(method).map_or_else(|| CallRule::of(self.template, method), |routed| routed.rule)
    }

    fn routed(&self, method: &Method) -> Option<&RoutedCall<S>> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        self.calls.iter().find(|routed| routed.method == *method)
    }

    /// The value of the header `Allow`.
    pub(crate) fn allowed(&self) -> Option<HeaderValue> {
        let names = self.methods().map(|method| if *method == Method::GET { "GET,HEAD" } else { method.as_str() });
        HeaderValue::try_from(names.collect::<Vec<_>>().join(",")).ok()
    }

    /// Its methods.
    pub(crate) fn methods(&self) -> impl Iterator<Item = &Method> {
        self.calls.iter().map(|routed| &routed.method)
    }
}

impl<S> Routes<S> {
    pub(crate) fn new(metrics: HttpMetrics) -> Self {
        Routes { paths: matchit::Router::new(), list: Vec::new(), metrics }
    }

    /// Adds a path.
    pub(crate) fn route(mut self, template: &'static str, methods: Methods<S>) -> Self {
        let added = self.paths.insert(template, self.list.len());
        assert!(added.is_ok(), "the path {template}: {added:?}");
        let calls =
            methods.0.into_iter().map(|(method, call)| RoutedCall { rule: CallRule::of(template, &method), method, call });
        self.list.push(Route { template, metrics: self.metrics.route(Some(template)), calls: calls.collect() });
        self
    }

    /// The route of a path.
    pub(crate) fn find(&self, path: &str) -> Option<&Route<S>> {
        self.paths.at(path).ok().and_then(|found| self.list.get(*found.value))
    }

    /// Every route.
    #[cfg(test)]
    pub(crate) fn list(&self) -> &[Route<S>] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn call() {}

    #[test]
    fn a_request_leads_to_the_call_of_its_path_and_method() {
        let routes =
            Routes::<()>::new(HttpMetrics::default()).route("/a/{name}", post(call).get(call)).route("/a/{name}/b", delete(call));
        let has = |path, method| routes.find(path).map(|route| (route.template, route.call(&method).is_some()));
        assert_eq!(has("/a/x%2Fy", Method::POST), Some(("/a/{name}", true)));
        assert_eq!(has("/a/x", Method::HEAD), Some(("/a/{name}", true)), "HEAD is answered like GET");
        assert_eq!(has("/a/x", Method::DELETE), Some(("/a/{name}", false)));
        assert_eq!(has("/a/x/b", Method::HEAD), Some(("/a/{name}/b", false)));
        assert_eq!(
            [has("/a/", Method::GET), has("/a", Method::GET), has("/a/x/", Method::GET), has("*", Method::GET)],
            [None; 4]
        );
        let allowed = |path| routes.find(path).and_then(Route::allowed).unwrap();
        assert_eq!((allowed("/a/x"), allowed("/a/x/b")), ("POST,GET,HEAD".parse().unwrap(), "DELETE".parse().unwrap()));
    }

    #[test]
    fn the_door_knows_each_method_also_one_without_a_call() {
        let routes = Routes::<()>::new(HttpMetrics::default()).route("/v1/grants/{id}", get(call).delete(call));
        let route = routes.find("/v1/grants/1").unwrap();
        let is_counted = |method| route.rule(&method).is_counted();
        assert_eq!([Method::GET, Method::HEAD, Method::DELETE, Method::POST].map(is_counted), [true, true, false, true]);
    }
}
