//! Guards: by which access data a command was decided, and whether that is still good.

use crate::{
    State,
    access::{AccessGuard, ForTenant, Guarded},
    command::{Claimant, Command, Rejection},
};
use fairhold_access::TenantNumber;
use fairhold_types::{
    cluster_version::ACCESS_SINCE,
    planted::{self, Bug},
};

impl Command {
    /// The command with a guard. If it has one, the new guard takes its place.
    #[must_use]
    pub fn guarded(self, guard: AccessGuard) -> Command {
        if let Command::Guarded(guarded) = self {
            guarded.command_of().guarded(guard)
        } else if let Command::ForTenant(of) = self {
            of.command_of().guarded(guard)
        } else {
            Command::Guarded(Guarded::new(guard, self))
        }
    }

    /// A command with a guard, with the tenant of its principal. A command without a guard stays as it is.
    #[must_use]
    pub fn for_tenant(self, tenant: Option<TenantNumber>) -> Command {
        match (self, tenant) {
            (Command::Guarded(guarded), Some(tenant)) => Command::ForTenant(ForTenant::new(tenant, guarded)),
            (command, Some(_) | None) => command,
        }
    }

    /// The tenant for which a session counts that it opens.
    #[must_use]
    pub fn tenant(&self) -> Option<TenantNumber> {
        if let Command::ForTenant(of) = self { Some(of.tenant()) } else { None }
    }

    /// Whether it opens a session.
    #[must_use]
    pub fn opens_session(&self) -> bool {
        let command = self.unguarded();
        let is_anonymous = |claimant: &Claimant| matches!(claimant, Claimant::Anonymous { .. });
        let acquires = matches!(command, Command::Acquire(acquire) if is_anonymous(&acquire.claimant));
        acquires || matches!(command, Command::OpenSession(_))
    }

    /// The command without its guard.
    #[must_use]
    pub fn unguarded(&self) -> &Command {
        if let Command::Guarded(guarded) = self {
            guarded.command()
        } else if let Command::ForTenant(of) = self {
            of.command()
        } else {
            self
        }
    }

    /// The same, as a value.
    #[must_use]
    pub fn without_guard(self) -> Command {
        if let Command::Guarded(guarded) = self {
            guarded.command_of()
        } else if let Command::ForTenant(of) = self {
            of.command_of()
        } else {
            self
        }
    }

    /// The command with another one within its guard. A command without a guard stays as it is.
    pub(crate) fn map_guarded(self, change: impl FnOnce(Command) -> Command) -> Command {
        if let Command::Guarded(guarded) = self {
            let guard = guarded.guard();
            change(guarded.command_of()).guarded(guard)
        } else if let Command::ForTenant(of) = self {
            let (guard, tenant) = (of.guard(), of.tenant());
            change(of.command_of()).guarded(guard).for_tenant(Some(tenant))
        } else {
            self
        }
    }

    /// Its guard.
    #[must_use]
    #[inline]
    pub fn guard(&self) -> Option<AccessGuard> {
        if let Command::Guarded(guarded) = self {
            Some(guarded.guard())
        } else if let Command::ForTenant(of) = self {
            Some(of.guard())
        } else {
            None
        }
    }
}

impl State {
    /// Refuses a command that was decided by access data from before a narrowing, and one that needs a decision and has
    /// none. While rights are not enforced, this is one comparison.
    #[inline]
    pub(crate) fn check_guard(&self, command: &Command) -> Result<(), Rejection> {
        let guard = command.guard();
        if guard.is_none() && !self.access.on {
            return Ok(());
        }
        self.check_enforced(guard, command.unguarded())
    }

    fn check_enforced(&self, guard: Option<AccessGuard>, command: &Command) -> Result<(), Rejection> {
        if guard.is_some() {
            self.require_version(ACCESS_SINCE)?;
        }
        // What needs no right is never refused, whatever its guard is.
        if command.needs_guard() { self.require_guard(guard) } else { Ok(()) }
    }

    /// Refuses a request that needs a right if it was decided by access data from before a narrowing, or not at all. It is
    /// for requests that are no commands. While rights are not enforced, it refuses none.
    pub fn require_guard(&self, guard: Option<AccessGuard>) -> Result<(), Rejection> {
        if !self.access.on {
            return Ok(());
        }
        let is_current = |guard: AccessGuard| {
            let mark = self.access.narrowed_for(guard.principal);
            guard.access > mark
                || (guard.access == mark && !planted::has(Bug::MarkRefusesItself))
                || planted::has(Bug::OutdatedGuardPasses)
        };
        let passes = guard.map_or_else(|| planted::has(Bug::MissingGuardPasses), is_current);
        if passes { Ok(()) } else { Err(Rejection::AccessChanged) }
    }
}
