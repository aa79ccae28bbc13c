//! A plain HTTP client for single requests to one node.

use std::time::Duration;

/// A client that ignores the proxies in the environment.
pub(crate) fn http_client(timeout: Duration) -> reqwest::Client {
    let built = reqwest::Client::builder().no_proxy().timeout(timeout).connect_timeout(timeout).build();
    // Without TLS and proxies, building cannot fail. The default client works too, with longer timeouts.
    built.unwrap_or_default()
}
