//! The HTTP/JSON API: routes, parameters, and the one mapping from error to status.
//!
//! - `router`: which path is which call; `envelope`: what every answer has; `admin`: who may do what is for administrators.
//! - `params`, `headers`, `request`: from text to the node's own types, once; `paging`: where the next page is.
//! - `locks`, `grants`, `sessions`, `nodes`, `txn`, `cluster`: the calls; `lifetime`: what is said of a new node.
//! - `error`: from the node's errors to problems; `answer`: from its values to JSON.
//! - `cluster_header`: how clients tell a node of their cluster from anything else that answers.
//! - `origin`: what a web page may call.
//! - `delivery`: what is done where an answer was lost. `hold`: the answer that lasts as long as its grant.
//! - `watch`, `frames`, `stream`: streams, which last as long as the client reads them.
//! - `waiting`: what is answered in the place of a node that cannot start yet.
//! - `metrics`: the metrics of the API, and `/metrics`, which shows those of the whole node.
//! - `workbench`: what benchmarks measure of the hot routes.
//! - `listener`: sockets; `shares`: what all of them share, and none may take alone; `room`: the memory that one may pin;
//!   `places`: whose turn it is to connect. The rest runs under a simulator too.

mod admin;
mod advice;
mod answer;
mod asked;
mod batch;
mod cluster;
mod cluster_header;
mod delivery;
mod elections;
mod envelope;
mod error;
mod frames;
mod front_page;
mod grants;
mod headers;
mod history;
mod hold;
mod lifetime;
mod listener;
mod locks;
mod metered;
mod metrics;
mod names;
mod nodes;
mod openapi;
mod origin;
mod paging;
mod params;
mod places;
mod problem;
mod rejection;
mod request;
mod room;
mod router;
mod routes;
mod server_info;
mod sessions;
mod shares;
mod stream;
mod txn;
mod waiting;
mod watch;
pub mod workbench;

pub use admin::Admin;
pub use cluster_header::ClusterHeader;
pub use delivery::Undelivered;
pub use listener::{Limits, Listener};
pub use metrics::{Exposition, HttpMetrics};
pub use origin::Hosts;
pub use request::PeerAddress;
pub use router::{router, status_router};
pub use server_info::ServerInfo;
pub use waiting::waiting_router;
