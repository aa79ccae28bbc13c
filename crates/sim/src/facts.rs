//! The facts that the oracle receives: applied changes, answers to clients, and the conditions of the scenario.

use crate::tidings::Watched;
use fairhold_state::{State, command::Event};
use fairhold_types::{FencingToken, LockName, Mode, NodeId, Revision, SessionNumber};
use std::time::Duration;

/// A change, as one node applied it.
pub(crate) struct Applied<'a> {
    /// The node.
    pub(crate) node: NodeId,
    /// When, in true time.
    pub(crate) at: Duration,
    /// Whether no other node applied it before.
    pub(crate) first: bool,
    /// The state after it.
    pub(crate) state: &'a State,
    /// Its revision.
    pub(crate) revision: Revision,
    /// What it told.
    pub(crate) events: &'a [Event],
    /// Whether to look at the whole state: after every change while it is small, and after some while it is large.
    pub(crate) whole: bool,
}

/// What a client was told, or may believe from what it was told.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    /// A linearizable answer. `floor` is the highest revision in any answer that had arrived before this was asked.
    Answered { what: String, floor: Revision, revision: Revision },
    /// A write of a value to a node was acknowledged.
    Wrote { path: String, version: i64, value: String, revision: Revision },
    /// A node with this value is asked for, once.
    Sowing { value: String },
    /// A value was read in the state of a revision.
    Read { path: String, version: i64, value: String, revision: Revision },
    /// A grant was acknowledged as held.
    Held { lock: LockName, number: u64, token: FencingToken },
    /// A write that names a token as its fence was acknowledged; `alone`: its holder excluded all others.
    Fenced { lock: LockName, token: FencingToken, alone: bool, revision: Revision },
    /// A renewal that was sent then was acknowledged.
    Renewed { session: SessionNumber, sent: Duration, ttl: Duration },
    /// A client is about to give back all that a session owns, or an administrator is about to end it.
    LettingGo { session: SessionNumber },
    /// A client is about to give a session another timeout: the earlier ones count no more from then on.
    Retiming { session: SessionNumber, sent: Duration, ttl: Duration },
    /// A client is about to ask for a change of something, by a key.
    Changing { whose: String, key: String, change: Conversion },
    /// The request with this key is known to be done.
    Settled { key: String },
    /// A grant was released by its id, or the id was released before any acquire used it.
    GaveBack { id: String },
    /// The leader with a token had proclaimed this, as its version of that number.
    Led { election: LockName, token: FencingToken, version: u64, value: String },
    /// A call without faults around it, with its answer or without.
    Called { what: String, sent: Duration, came: Option<Duration>, within: Duration },
    /// An acquire without faults around it, answered with a grant.
    Handed { lock: LockName, token: FencingToken, sent: Duration, came: Duration, within: Duration },
    /// A leader was seen in a term, at that time. `calm`: there has been no fault for a while.
    Term { term: u64, calm: bool, at: Duration },
    /// The time during which a client could believe, by its own clock, that it held a grant.
    Believed { lock: LockName, mode: Mode, token: FencingToken, from: Duration, until: Duration },
    /// The same of permits of a semaphore that has so many.
    Permits { lock: LockName, token: FencingToken, permits: u32, limit: u32, from: Duration, until: Duration },
    /// A machine was paused for `slept`, until `until`. Its node was the leader before the pause, and after it until `led_until`.
    Slept { until: Duration, slept: Duration, led_until: Duration },
    /// A watch began with this, as what is there at a revision.
    WatchBegan { watched: Watched, revision: Revision, there: Vec<String> },
    /// A watch that began after a revision was told this, and that all up to another revision was told.
    WatchTold { watched: Watched, after: Revision, told: Vec<(Revision, String)>, through: Revision },
}

/// A change of something that exists. Of a lock's settings, only those that are given change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// A grant shared from then on.
    Downgraded,
    /// A grant alone from then on, or waiting for it.
    Upgraded,
    /// Another time to live.
    Retimed(Duration),
    /// How many permits a lock has, how many may wait for it, and for how many milliseconds it may be held.
    Limited(Option<u32>, Option<u64>, Option<u64>),
}

/// Facts about a run that invariants need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Physics {
    /// How fast the fastest clock runs, in thousandths of the true rate.
    pub(crate) rate_max: u64,
}
