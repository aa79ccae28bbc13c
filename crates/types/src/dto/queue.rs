//! A page of a lock's queue, and its entries.

use super::{Contender, GrantState, Meta, Want};
use crate::{FencingToken, GrantNumber, LockName, Mode, SessionNumber};
use serde::{Deserialize, Serialize};

/// An entry of a queue, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct QueueItem {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Held, queued or cooling.
    pub state: GrantState,
    /// Its position: the number of grants ahead, including holders, plus 1.
    pub position: u64,
    /// Its token while it holds the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// Exclusive or shared.
    pub mode: Mode,
    /// The number of permits.
    pub permits: u32,
    /// Its owner, for people to read.
    pub owner: String,
    /// When it was granted, or when it queued if it still waits.
    pub since: String,
    /// When it queued.
    pub queued_at: String,
    /// How long it has held the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_for: Option<String>,
    /// The grant that it waits for; left out if you may not see its lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Contender>,
    /// For people: an estimate of how long it will still wait, if each grant ahead holds for as long as recent holders
    /// did, and shared grants hold one after the other. What the holder has held so far is taken off. Left out if nobody has
    /// held the lock before, or if the holder has held it for more than a second and more than twice the usual time; in a
    /// semaphore, if all holders have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// If the grant has several locks, the first 16 of them, in the order of its request, without those that you may
    /// not see; left out if fewer than two remain. Only in the queue of a lock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<Want>,
    /// Key-value pairs, for people.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// A page of a lock's queue, in order, holders first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Queue {
    /// The lock's name.
    pub lock: LockName,
    /// The grants in it.
    pub items: Vec<QueueItem>,
    /// The number of holders.
    #[serde(default)]
    pub holder_count: u64,
    /// The number of waiters.
    #[serde(default)]
    pub queue_length: u64,
    /// The number of grants in the whole queue: holders and waiters.
    #[serde(default)]
    pub total: u64,
    /// How long recent holders have usually held the lock: the `usual_hold` of the list of locks. Left out if nobody has held
    /// it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_hold: Option<String>,
    /// Where the next page begins; `null` on the last one.
    #[serde(default)]
    pub next_cursor: Option<String>,
}
