//! The HTTP/JSON API: routes, parameters, and the one mapping from error to status.
//!
//! - `router`, `routes`: map each path to its call.
//! - `api`: the calls, one file for each area. `api::hold` answers for as long as its grant lasts. `api::watch` streams
//!   for as long as the client reads. `api::waiting` answers in place of a node that cannot start yet.
//! - `edge`: the edge of the API. `edge::params` and `edge::request` read a request once, into its type from
//!   `fairhold_types::call`. `edge::error` maps the node's errors to problems, and `edge::answer` its values to JSON.
//!   `edge::middleware` wraps every answer. `edge::quota` and `edge::memory_quota` bound the memory that one client may
//!   pin.
//! - `door`: authentication and authorization, before a call runs.
//! - `audit`: the audit log of requests.
//! - `server`: the sockets. The rest of the crate also runs under a simulator.
//! - `openapi`: the description of the API.
//! - `workbench`: the hot routes, for benchmarks.

mod api;
mod audit;
mod door;
mod edge;
mod openapi;
mod router;
mod routes;
mod server;
pub mod workbench;

pub use api::ui::Dashboard;
pub use api::waiting::waiting_router;
pub use audit::Audit;
pub use audit::log::{AuditBatch, AuditLog};
pub use audit::scope::AuditScope;
pub use edge::admin::Admin;
pub use edge::api_service::ApiService;
pub use edge::authenticator::Authenticator;
pub use edge::cluster_header::ClusterHeader;
pub use edge::delivery::Undelivered;
pub use edge::metrics::{Exposition, HttpMetrics};
pub use edge::origin::Hosts;
pub use edge::request::HttpPeer;
pub use edge::server_info::ServerInfo;
pub use edge::slow_requests::SlowRequests;
pub use router::{router, status_router};
pub use server::connection_limits::ConnectionLimits;
pub use server::listener::{Limits, Listener};
