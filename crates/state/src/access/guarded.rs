//! A command with its guard: by which access data it was decided, and for which principal.

use crate::nesting::{Layer, within};
use fairhold_access::{PrincipalKey, TenantNumber};
use fairhold_types::Revision;
use serde::{Deserialize, Deserializer, Serialize};

/// By which access data a command was decided, and for which principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessGuard {
    /// The revision of the access data (`AccessData::revision`).
    pub access: Revision,
    /// The principal.
    pub principal: PrincipalKey,
}

/// A command with its guard. It is never within another guard, in memory or in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded<C> {
    guard: AccessGuard,
    #[serde(deserialize_with = "without_guard", bound(deserialize = "C: Deserialize<'de>"))]
    command: Box<C>,
}

impl<C> Guarded<C> {
    /// The command has no guard.
    pub(super) fn new(guard: AccessGuard, command: C) -> Guarded<C> {
        Guarded { guard, command: Box::new(command) }
    }

    /// The guard.
    #[must_use]
    pub fn guard(&self) -> AccessGuard {
        self.guard
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &C {
        &self.command
    }

    /// The command itself.
    pub(super) fn command_of(self) -> C {
        *self.command
    }
}

/// A command that opens a session, with its guard and with the tenant of its principal. Only the node that decides knows
/// the principal's name, so it names the tenant, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForTenant<C> {
    tenant: TenantNumber,
    guarded: Guarded<C>,
}

impl<C> ForTenant<C> {
    pub(super) fn new(tenant: TenantNumber, guarded: Guarded<C>) -> ForTenant<C> {
        ForTenant { tenant, guarded }
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> TenantNumber {
        self.tenant
    }

    /// The guard.
    #[must_use]
    pub fn guard(&self) -> AccessGuard {
        self.guarded.guard
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &C {
        &self.guarded.command
    }

    /// The command itself.
    pub(super) fn command_of(self) -> C {
        self.guarded.command_of()
    }
}

/// Reads a command that has no guard. Bytes with guards within guards would need a deep stack, so the second one is
/// refused before it is read.
fn without_guard<'de, D: Deserializer<'de>, C: Deserialize<'de>>(deserializer: D) -> Result<Box<C>, D::Error> {
    within(Layer::Guard, deserializer)
}
