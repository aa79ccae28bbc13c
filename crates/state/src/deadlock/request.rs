//! A request that may have to wait.

use crate::{actor::Actor, command::Want, service_rank::ServiceRank};
use fairhold_types::{GrantNumber, LockName, SessionNumber};

#[derive(Debug)]
pub(crate) struct WaitRequest<'a> {
    pub(crate) actor: Actor<'a>,
    pub(crate) session: SessionNumber,
    pub(crate) owner: &'a str,
    pub(crate) number: GrantNumber,
    pub(crate) kind: WaitKind<'a>,
}

/// What the request would wait for.
#[derive(Debug)]
pub(crate) enum WaitKind<'a> {
    /// A new contender in each queue. `granted`: all locks are free, and only the contenders behind it would wait.
    Queue { wants: Vec<(&'a Want, ServiceRank)>, permits: u32, granted: bool },
    /// To become the only holder of a shared lock.
    Upgrade(&'a LockName),
}
