//! A command with its guard: by which access data it was decided, and for which principal.

use fairhold_access::PrincipalKey;
use fairhold_types::Revision;
use serde::{Deserialize, Deserializer, Serialize};
use std::cell::Cell;

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

/// Reads a command that has no guard. Bytes with guards within guards would need a deep stack, so the second one is
/// refused before it is read.
fn without_guard<'de, D: Deserializer<'de>, C: Deserialize<'de>>(deserializer: D) -> Result<Box<C>, D::Error> {
    thread_local! {
        static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
    }
    /// Resets the mark even if reading panics.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            IS_WITHIN.set(false);
        }
    }
    if IS_WITHIN.replace(true) {
        return Err(serde::de::Error::custom("a guard is within another guard"));
    }
    let _reset = Reset;
    C::deserialize(deserializer).map(Box::new)
}
