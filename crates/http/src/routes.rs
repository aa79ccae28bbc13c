//! The table of routes: axum's router, and a list of its paths. A test compares the list with the API description.

use axum::{Router, handler::Handler, routing};
use http::Method;

/// The methods of one path.
pub(crate) struct Methods<S> {
    router: routing::MethodRouter<S>,
    methods: Vec<Method>,
}

/// All paths with their methods.
pub(crate) struct Routes<S> {
    router: Router<S>,
    list: Vec<(&'static str, Vec<Method>)>,
}

macro_rules! methods {
    (first: $($first:ident $first_method:ident),*; further: $($name:ident $method:ident),*) => {
        $(
            /// Routes a path with this method.
            pub(crate) fn $first<H: Handler<T, S>, T: 'static, S: Clone + Send + Sync + 'static>(handler: H) -> Methods<S> {
                Methods { router: routing::$first(handler), methods: vec![Method::$first_method] }
            }
        )*

        impl<S: Clone + Send + Sync + 'static> Methods<S> {
            $(
                /// Adds this method to the same path.
                pub(crate) fn $name<H: Handler<T, S>, T: 'static>(mut self, handler: H) -> Self {
                    self.methods.push(Method::$method);
                    Methods { router: self.router.$name(handler), methods: self.methods }
                }
            )*
        }
    };
}

methods!(first: get GET, post POST, delete DELETE; further: get GET, put PUT, patch PATCH, delete DELETE);

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(crate) fn new() -> Self {
        Routes { router: Router::new(), list: Vec::new() }
    }

    /// Adds a path.
    pub(crate) fn route(mut self, path: &'static str, methods: Methods<S>) -> Self {
        self.list.push((path, methods.methods));
        Routes { router: self.router.route(path, methods.router), list: self.list }
    }

    pub(crate) fn into_router(self) -> Router<S> {
        self.router
    }

    /// Every path with its methods.
    #[cfg(test)]
    pub(crate) fn list(&self) -> &[(&'static str, Vec<Method>)] {
        &self.list
    }
}
