//! Access rights at a node: the caller of a request, and how its rights are decided.
//!
//! A handle of the node (`Node::for_caller`) carries the caller. Whatever it proposes, reads or watches is decided for that
//! caller, so no call can forget to ask. A handle without a caller is the node's own.
//!
//! - A change is decided by the command that it becomes (`State::needs_of`), just before it is proposed. The command
//!   carries the revision of the access data. If rights were narrowed in the meantime, the machine refuses it, and this node
//!   decides again.
//! - A change by the leader that is no command carries that revision too, and the leader compares it (`leader_acts`).
//! - A read is decided after the node has made its state as fresh as the read requires.
//! - A caller with a tenant has quotas at this node, too: of requests, waits and watches (`tenant_door`).
//! - A watch is decided again before each item, and a request that waits is decided again after each change of the access
//!   data.

mod cache;
mod caller;
mod caller_request;
mod judge;
mod leader_acts;
mod refusal;
mod request_times;
mod tenant_door;
mod tenant_quota;
mod trail;
mod visible;

pub(crate) use cache::RightsCache;
pub use caller::{Caller, Credential, FileTokens};
pub(crate) use caller_request::CallerRequest;
pub use refusal::{AccessRefusal, CredentialFault};
pub(crate) use tenant_door::{TenantDoor, TenantSlot};
pub use trail::{AccessTrail, NameVerdict, TouchedName, TrailRecord};
pub(crate) use visible::{SeenLocks, Visible};
