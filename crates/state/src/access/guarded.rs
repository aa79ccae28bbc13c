//! A command with its guard: by which access data it was decided, and for which principal.

use crate::nesting::{Layer, within};
use fairhold_access::PrincipalKey;
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

fn without_guard<'de, D: Deserializer<'de>, C: Deserialize<'de>>(deserializer: D) -> Result<Box<C>, D::Error> {
    within(Layer::Guard, deserializer)
}
