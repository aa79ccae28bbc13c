//! A command with its origin: which principal asks for it, from where.

use crate::{
    nesting::{Layer, within},
    rejection::Rejection,
};
use fairhold_access::Principal;
use fairhold_types::{
    limits::{OWNER_BYTES_MAX, REQUEST_ID_BYTES_MAX},
    text::first_not_plain,
};
use serde::{Deserialize, Deserializer, Serialize};

/// Where a command comes from, as the node that received the request knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActOrigin {
    /// The principal that asks for it.
    pub principal: Principal,
    /// Its network address; empty if the node itself asks.
    pub address: String,
    /// The id of the request; empty if the node itself asks.
    pub request: String,
}

/// A command with its origin. It may be within a guard. No guard and no other origin is within it, in memory or in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributed<C> {
    origin: ActOrigin,
    #[serde(deserialize_with = "without_layers", bound(deserialize = "C: Deserialize<'de>"))]
    command: Box<C>,
}

impl ActOrigin {
    /// The node's own handle, without a request.
    #[must_use]
    pub fn of_node() -> ActOrigin {
        ActOrigin { principal: Principal::anonymous(), address: String::new(), request: String::new() }
    }

    /// The bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        self.principal.as_str().len() + self.address.len() + self.request.len()
    }

    /// Refuses an origin that exceeds the limits.
    pub(crate) fn validate(&self) -> Result<(), Rejection> {
        for (text, max) in [(&self.address, OWNER_BYTES_MAX), (&self.request, REQUEST_ID_BYTES_MAX)] {
            if text.len() > max || first_not_plain(text).is_some() {
                return Err(Rejection::Unsupported { what: "an origin with such a text".to_owned() });
            }
        }
        Ok(())
    }
}

impl<C> Attributed<C> {
    /// The command has neither a guard nor an origin.
    pub(super) fn new(origin: ActOrigin, command: C) -> Attributed<C> {
        Attributed { origin, command: Box::new(command) }
    }

    /// The origin.
    #[must_use]
    pub fn origin(&self) -> &ActOrigin {
        &self.origin
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &C {
        &self.command
    }

    /// Both parts.
    pub(super) fn into_parts(self) -> (ActOrigin, C) {
        (self.origin, *self.command)
    }
}

fn without_layers<'de, D: Deserializer<'de>, C: Deserialize<'de>>(deserializer: D) -> Result<Box<C>, D::Error> {
    within(Layer::Origin, deserializer)
}
