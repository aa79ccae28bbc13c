//! The vocabulary: ids, names, paths, limits, error codes and the JSON bodies of the API.
//!
//! Everything that two crates must agree on is here; no rule is. A value of one of these types is already checked:
//! `LockName::parse` is the only way to make a `LockName`, so no code checks it again.

pub mod address;
pub mod batch;
pub mod call;
pub mod cluster_version;
pub mod code;
pub mod dto;
pub mod duration;
pub mod election;
pub mod failpoint;
pub mod hold;
pub mod id;
pub mod limits;
pub mod membership;
pub mod memory_plan;
pub mod path;
pub mod pattern;
pub mod planted;
pub mod problem;
#[cfg(feature = "schema")]
mod schema;
pub mod text;
pub mod time;
pub mod trace_context;
pub mod txn;
pub mod watch;

pub use cluster_version::{ClusterVersion, SupportedVersions};
pub use code::Code;
pub use id::{
    ClusterId, FencingToken, GrantId, GrantNumber, Incarnation, NodeId, ParseIdError, Revision, SessionId, SessionNumber,
};
pub use membership::{JoinTokenNumber, MemberRole, Timing};
pub use path::{LockName, ParsePathError, Path, is_contender_name};

/// How a grant shares its lock with others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Alone, or with at most `limit` permits in total if the lock has a limit above 1.
    #[default]
    Exclusive,
    /// Together with other shared grants.
    Shared,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
        })
    }
}

/// How a grant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum EndReason {
    /// Its owner released it.
    Released,
    /// Its session expired without a keepalive, or the grant reached its maximum hold time.
    Expired,
    /// An administrator broke it.
    Broken,
    /// Its owner left the queue, or disconnected while waiting.
    Withdrawn,
}

/// How a holding ended: with its grant, or because the same grant changed its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum HoldingEnd {
    /// Its owner released it.
    Released,
    /// Its session expired without a keepalive, or the grant reached its maximum hold time.
    Expired,
    /// An administrator broke it.
    Broken,
    /// Its owner disconnected.
    Withdrawn,
    /// It was shared and became exclusive, with a new token.
    Upgraded,
    /// It was exclusive and became shared, with the same token.
    Downgraded,
}

impl From<EndReason> for HoldingEnd {
    fn from(reason: EndReason) -> HoldingEnd {
        match reason {
            EndReason::Released => HoldingEnd::Released,
            EndReason::Expired => HoldingEnd::Expired,
            EndReason::Broken => HoldingEnd::Broken,
            EndReason::Withdrawn => HoldingEnd::Withdrawn,
        }
    }
}

impl std::fmt::Display for HoldingEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HoldingEnd::Released => "released",
            HoldingEnd::Expired => "expired",
            HoldingEnd::Broken => "broken",
            HoldingEnd::Withdrawn => "withdrawn",
            HoldingEnd::Upgraded => "upgraded",
            HoldingEnd::Downgraded => "downgraded",
        })
    }
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EndReason::Released => "released",
            EndReason::Expired => "expired",
            EndReason::Broken => "broken",
            EndReason::Withdrawn => "withdrawn",
        })
    }
}
