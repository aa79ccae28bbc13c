//! A plain HTTP client for single requests to one node.

use std::{error::Error, time::Duration};

/// A client that ignores the proxies in the environment.
pub(crate) fn http_client(timeout: Duration) -> reqwest::Client {
    let built = reqwest::Client::builder().no_proxy().timeout(timeout).connect_timeout(timeout).build();
    // Without TLS and proxies, building cannot fail. The default client works too, with longer timeouts.
    built.unwrap_or_default()
}

/// The innermost cause of an error, which is what a person needs.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
