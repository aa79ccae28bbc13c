//! Requests over HTTP: one attempt at one node, retries over nodes, batches, and what the client knows of the cluster.

pub(crate) mod at;
pub(crate) mod auth_token;
pub(crate) mod background;
pub(crate) mod backoff;
pub(crate) mod batches;
pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod discovery;
pub(crate) mod endpoints;
pub(crate) mod failure_text;
pub(crate) mod http;
pub(crate) mod identity;
pub(crate) mod ids;
pub(crate) mod reply;
pub(crate) mod retry;
pub(crate) mod stream_lines;
pub(crate) mod tls;
pub(crate) mod url;
