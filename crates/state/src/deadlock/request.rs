//! A request that may have to wait.

use crate::{actor::Actor, command::Want, place::ServiceRank};
use fairhold_types::{GrantNumber, LockName, SessionNumber};

/// A request that may have to wait.
#[derive(Debug)]
pub(crate) struct WaitRequest<'a> {
    pub(crate) actor: Actor,
    pub(crate) session: SessionNumber,
    pub(crate) owner: &'a str,
    pub(crate) number: GrantNumber,
    pub(crate) wish: WaitKind<'a>,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) enum WaitKind<'a> {
    /// A place in each queue; `granted`: all of them are free, and those behind it are who has to wait for it.
    Join { wants: Vec<(&'a Want, ServiceRank)>, permits: u32, granted: bool },
    /// To be the only one of those who share a lock.
    Upgrade(&'a LockName),
}
