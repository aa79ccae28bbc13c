//! An HTTP client for single requests to one server, without retries. It follows no redirects: the answer of another
//! server would be taken for that of this one.

use crate::remote::{ConnectArgs, Failure, TlsArgs};
use reqwest::{
    Certificate, Client, ClientBuilder, Identity, Response, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
    redirect::Policy,
};
use std::{error::Error, fs, path::Path, time::Duration};

/// The longest answer of a node to a probe. Those of the largest clusters are much shorter.
pub(crate) const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A client for servers without TLS, which ignores the proxies in the environment.
pub(crate) fn http_client(timeout: Duration) -> Client {
    // The authorities of the operating system take a while to read, and some containers have none.
    let built = builder(timeout).tls_certs_only([]).build();
    // Without certificates and proxies, building cannot fail. The default client works too, with longer timeouts.
    built.unwrap_or_default()
}

/// A client for the server at this URL, without a token or a certificate. With TLS it trusts the authorities of the operating
/// system.
pub(crate) fn client_of_server(url: &Url, timeout: Duration) -> Result<Client, String> {
    let builder = builder(timeout);
    let builder = if url.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
    let failed = |error| format!("{}: install the certificate authorities of the operating system", cause(&error));
    builder.build().map_err(failed)
}

/// A client for the nodes of a command, which may have TLS.
pub(crate) fn probe_client(connect: &ConnectArgs, timeout: Duration) -> Result<Client, Failure> {
    client_for(&connect.endpoint, timeout, &connect.tls, connect.auth_token()?)
}

/// A client for these nodes, which may have TLS. It shows them the token.
pub(crate) fn client_for(urls: &[String], timeout: Duration, tls: &TlsArgs, token: Option<String>) -> Result<Client, Failure> {
    let is_secure = |url: &String| url.trim().starts_with("https:");
    // A node that names another one must not move the token to plain text.
    let all_secure = !urls.is_empty() && urls.iter().all(is_secure);
    let mut builder = builder(timeout).default_headers(authorization(token)).https_only(all_secure);
    if let Some(path) = &tls.cacert {
        let authorities =
            Certificate::from_pem_bundle(&read("cacert", path)?).map_err(|error| unusable("cacert", path, &error))?;
        builder = builder.tls_certs_only(authorities);
    } else if !urls.iter().any(is_secure) {
        builder = builder.tls_certs_only([]);
    }
    if let Some((cert, key)) = tls.pair()? {
        let pem = [read("cert", cert)?, read("key", key)?].join(&b'\n');
        builder = builder.identity(Identity::from_pem(&pem).map_err(|error| unusable("cert", cert, &error))?);
    }
    let failed =
        |error| Failure::Usage(format!("{}: if this machine knows no certificate authority, pass --cacert", cause(&error)));
    builder.build().map_err(failed)
}

/// The header with a token. A token that no header can contain is left out: the nodes then say that one is missing.
fn authorization(token: Option<String>) -> HeaderMap {
    let header = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
    let sensitive = header.map(|mut header| {
        header.set_sensitive(true);
        (AUTHORIZATION, header)
    });
    sensitive.into_iter().collect()
}

fn builder(timeout: Duration) -> ClientBuilder {
    Client::builder().no_proxy().redirect(Policy::none()).timeout(timeout).connect_timeout(timeout)
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::Usage(format!("--{flag} {}: {error}", path.display())))
}

fn unusable(flag: &str, path: &Path, error: &reqwest::Error) -> Failure {
    Failure::Usage(format!("--{flag} {}: {}", path.display(), cause(error)))
}

/// The body of an answer, or why there is none. What answers may be no node, and may send without end.
pub(crate) async fn body_of(mut answer: Response, bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| cause(&error))? {
        if body.len() + chunk.len() > bytes_max {
            return Err("its answer is too long for a fairhold node".to_owned());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
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
    let text = innermost.to_string();
    fairhold_client::tls_advice(&text).map_or(text, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with TLS may name another one, also an attacker's.
    #[tokio::test]
    async fn a_token_for_nodes_with_tls_is_never_sent_in_plain_text() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let named = format!("http://{}/v1/cluster", listener.local_addr().unwrap());
        let ask = async |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|url| (*url).to_owned()).collect();
            let limit = Duration::from_millis(500);
            let client = client_for(&given, limit, &TlsArgs::default(), Some("s3cret".to_owned())).unwrap();
            client.get(&named).send().await.unwrap_err()
        };
        assert!(ask(&["https://a:1", "https://b:1"]).await.is_builder());
        // The node accepts, and does not answer.
        assert!(ask(&["https://a:1", "http://b:1"]).await.is_timeout());
    }
}
