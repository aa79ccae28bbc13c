//! A plain HTTP client for the nodes of this machine.

use std::time::Duration;

/// A client that asks the nodes of this machine, whatever proxy the environment names.
pub(crate) fn http_client(timeout: Duration) -> reqwest::Client {
    let built = reqwest::Client::builder().no_proxy().timeout(timeout).connect_timeout(timeout).build();
    // Without TLS and proxies nothing in it can fail; the plain client has the same answers, later.
    built.unwrap_or_default()
}
