//! The requests of the API: one type for each call's parameters.
//!
//! The client fills and writes them, the server reads them from a query or a JSON body, and the API's description is made of
//! them: their doc comments are its descriptions. A new option needs one field here, and the code that obeys it.

mod access;
mod acquire;
mod address;
mod audit;
mod batch;
mod bounded;
mod bounds;
mod cluster;
mod election;
mod events;
mod grant_list;
mod hold;
mod lock;
mod membership;
mod node;
mod overview;
mod read;
#[cfg(feature = "schema")]
mod schema;
mod session;
mod tenant;
mod watch;

pub use access::{
    AccessTokenTtl, CheckAccess, CreateAccessToken, DeleteRole, ListAccessTokens, PrincipalText, PutRole, ReadAccess,
    RevokeAccessToken, RuleText, SetUser,
};
pub use acquire::{Acquire, AcquireMany, BatchAcquire, HoldMode, Stand};
pub use address::{NodeUrl, ParseAddressError, PeerAddress, split_url};
pub use audit::{ActVerb, ReadAudit};
pub use batch::{BatchCall, BatchCalls, BatchRelease, BatchRenew};
pub use bounded::{
    BoundedCount, BoundedDuration, BoundedInteger, BoundedList, BoundedText, INTEGER_MAX, ListItem, LockList, MetaPairs,
    OutOfBounds, PlainText, SignedInteger,
};
pub use bounds::{
    ElectionValue, Empty, EventCursor, GrantsCursor, HistoriesCursor, HistoryCursor, JoinTokenTtl, LockCursor, LockDelay,
    LockNamePart, LockPrefix, MaxHold, MaxHoldSetting, MaxWaiters, MemberPriority, MomentText, NodeTtl, Number, OwnedCursor,
    OwnerName, PageLimit, PermitLimit, Permits, PositiveNumber, Priority, QueueAround, QueueCursor, Reason, SeriesCursor, Ttl,
    VersionNumber, VoterCount, Wait, Zone,
};
pub use cluster::{FinalizeUpgrade, HandOver, Ready, ShowCluster, TakeBackup};
pub use election::{GetLeader, ListElections, Proclaim};
pub use events::{EventType, ListEvents};
pub use grant_list::{GrantFilter, GrantOrder, ListGrants};
pub use hold::{GetGrant, Release, Renew, Upgrade};
pub use lock::{
    BreakLock, CheckFence, History, ListHistories, ListLocks, LockFilter, LockOrder, RevokeLock, SetLock, ShowLock, ShowQueue,
};
pub use membership::{CreateJoinToken, ListJoinTokens, SetMember, SetSettings, ShowSettings};
pub use node::{CreateNode, DeleteNode, GetNode, PutNode};
pub use overview::{SeriesStep, ShowOverview, ShowOverviewSeries, ShowWaits};
pub use read::Consistency;
pub use session::{CloseSession, KeepAliveMany, ListSessions, OpenSession, ShowSession};
pub use tenant::{OpenCount, PrefixText, PutTenant, RequestRate};
pub use watch::Watch;
