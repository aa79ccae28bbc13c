//! The bounds of the API's parameters: the name of each type says what a parameter means, its bounds which values are accepted.

use super::bounded::{BoundedCount, BoundedDuration, BoundedInteger, BoundedText, INTEGER_MAX, PlainText, SignedInteger};
use crate::limits::{
    ELECTION_VALUE_BYTES_MAX, JOIN_TOKEN_TTL_MAX, JOIN_TOKEN_TTL_MIN, LOCK_DELAY_MAX, LOCK_NAME_BYTES_MAX, MAX_HOLD_MAX,
    MAX_HOLD_MIN, MEMBER_PRIORITY_MAX, NODE_TTL_MAX, NODE_TTL_MIN, OWNER_BYTES_MAX, PAGE_MAX, PATH_BYTES_MAX, PERMITS_MAX,
    REASON_BYTES_MAX, SESSION_TIMEOUT_MAX, SESSION_TIMEOUT_MIN, VOTERS_MAX, WAIT_MAX, WAITERS_MAX, ZONE_BYTES_MAX,
};
use std::time::Duration;

/// How long a request may wait.
pub type Wait = BoundedDuration<0, { millis(WAIT_MAX) }>;
/// How long a session lives without a keepalive, or a grant without a renewal.
pub type Ttl = BoundedDuration<{ millis(SESSION_TIMEOUT_MIN) }, { millis(SESSION_TIMEOUT_MAX) }>;
/// How long a lock stays blocked after its holder's session expired.
pub type LockDelay = BoundedDuration<0, { millis(LOCK_DELAY_MAX) }>;
/// The longest time that a grant may be held.
pub type MaxHold = BoundedDuration<{ millis(MAX_HOLD_MIN) }, { millis(MAX_HOLD_MAX) }>;
/// The same as a setting of a lock, where zero means no limit.
pub type MaxHoldSetting = BoundedDuration<0, { millis(MAX_HOLD_MAX) }>;
/// How long a node of the tree lives without a change.
pub type NodeTtl = BoundedDuration<{ millis(NODE_TTL_MIN) }, { millis(NODE_TTL_MAX) }>;
/// How many permits a lock has.
pub type PermitLimit = BoundedCount<1, PERMITS_MAX>;
/// How many permits a grant takes.
pub type Permits = BoundedCount<1, PERMITS_MAX>;
/// How many contenders may wait for a lock.
pub type MaxWaiters = BoundedInteger<0, { WAITERS_MAX as u64 }>;
/// How many entries a page has.
pub type PageLimit = BoundedInteger<1, { PAGE_MAX as u64 }>;
/// A number of the API: a revision, a token, a session's or a grant's number.
pub type Number = BoundedInteger<0, INTEGER_MAX>;
/// A number that is at least 1.
pub type PositiveNumber = BoundedInteger<1, INTEGER_MAX>;
/// A version of the cluster.
pub type VersionNumber = BoundedInteger<1, { u16::MAX as u64 }>;
/// How long a join token is valid.
pub type JoinTokenTtl = BoundedDuration<{ millis(JOIN_TOKEN_TTL_MIN) }, { millis(JOIN_TOKEN_TTL_MAX) }>;
/// A number of voters.
pub type VoterCount = BoundedInteger<1, { VOTERS_MAX as u64 }>;
/// The priority of a member as the leader: voters with a higher one lead if they can.
pub type MemberPriority = BoundedInteger<0, { MEMBER_PRIORITY_MAX as u64 }>;
/// The zone of a member, for people: where it runs.
pub type Zone = PlainText<ZONE_BYTES_MAX>;
/// A waiter's priority.
pub type Priority = SignedInteger<{ i32::MIN }, { i32::MAX }>;
/// The owner of a grant, or the name of a session, for people to read.
pub type OwnerName = PlainText<OWNER_BYTES_MAX>;
/// The reason that an administrator gives.
pub type Reason = PlainText<REASON_BYTES_MAX>;
/// The value of an election's leader.
pub type ElectionValue = BoundedText<ELECTION_VALUE_BYTES_MAX>;

/// The prefix of the names of listed locks.
pub type LockPrefix = BoundedText<LOCK_NAME_BYTES_MAX>;
/// A text that the names of listed locks contain.
pub type LockNamePart = BoundedText<LOCK_NAME_BYTES_MAX>;
/// A cursor among locks: the order's letter, a rank and a name, as two hexadecimal digits for each byte.
pub type LockCursor = BoundedText<{ 2 * (1 + 20 + 1 + LOCK_NAME_BYTES_MAX) }>;
/// A cursor in a queue: a word, a priority and a number.
pub type QueueCursor = BoundedText<{ 7 + 11 + 1 + 20 }>;
/// The grant in the middle of a page of a queue: its number, or a word.
pub type QueueAround = BoundedText<16>;
/// A cursor in a history: two numbers of 64 bits.
pub type HistoryCursor = BoundedText<41>;
/// A cursor in a series: the step, the series of a server, and the number of a row.
pub type SeriesCursor = BoundedText<{ 2 + 1 + 16 + 1 + 15 }>;
/// A cursor among events: two numbers of 64 bits.
pub type EventCursor = BoundedText<41>;
/// A cursor among the histories of locks: two numbers of 64 bits and a name, as two hexadecimal digits for each byte.
pub type HistoriesCursor = BoundedText<{ 2 * (41 + 1 + LOCK_NAME_BYTES_MAX) }>;
/// A cursor among grants: a letter, then two numbers of 64 bits, or a cursor in a queue and a name, as two hexadecimal digits
/// for each byte.
pub type GrantsCursor = BoundedText<{ 2 * (1 + QueueCursor::BYTES_MAX + 1 + LOCK_NAME_BYTES_MAX) }>;
/// A cursor in a session's list: a number, the position of a lock, and a path, as two hexadecimal digits for each byte.
pub type OwnedCursor = BoundedText<{ 2 * (20 + 1 + 20 + 1 + PATH_BYTES_MAX) }>;
/// A revision or a time.
pub type MomentText = BoundedText<64>;

/// A call without parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Empty {}

const fn millis(duration: Duration) -> u64 {
    duration.as_secs() * 1_000 + duration.subsec_millis() as u64
}

/// Whether an option is absent.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
