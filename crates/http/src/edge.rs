//! Between HTTP and the node: reads requests, turns errors into problems, and adds the parts that every answer has.

pub(crate) mod admin;
pub(crate) mod advice;
pub(crate) mod answer;
pub(crate) mod api_service;
pub(crate) mod authenticator;
pub(crate) mod body;
pub(crate) mod cluster_header;
pub(crate) mod delivery;
pub(crate) mod error;
pub(crate) mod frames;
pub(crate) mod headers;
pub(crate) mod json_fault;
pub(crate) mod memory_quota;
pub(crate) mod metrics;
pub(crate) mod middleware;
pub(crate) mod names;
pub(crate) mod origin;
pub(crate) mod paging;
pub(crate) mod params;
pub(crate) mod problem;
pub(crate) mod quota;
pub(crate) mod rejection;
pub(crate) mod request;
pub(crate) mod request_kind;
pub(crate) mod server_info;
pub(crate) mod stream;
