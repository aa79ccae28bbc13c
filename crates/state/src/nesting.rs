//! Commands within commands: a guard may hold an attributed command, and either holds an ordinary one.
//!
//! Bytes with layers within layers would need a deep stack, so a layer in the wrong place is refused before it is read.

use serde::{Deserialize, Deserializer};
use std::cell::Cell;

/// A command that holds another one, from the outside in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    /// No layer.
    Outside,
    /// A guard.
    Guard,
    /// An origin.
    Origin,
}

/// Reads the command within a layer. Its own layers must be further in.
pub(crate) fn within<'de, D: Deserializer<'de>, C: Deserialize<'de>>(layer: Layer, deserializer: D) -> Result<Box<C>, D::Error> {
    thread_local! {
        static WITHIN: Cell<Layer> = const { Cell::new(Layer::Outside) };
    }
    /// Restores the layer even if reading panics.
    struct Restore(Layer);
    impl Drop for Restore {
        fn drop(&mut self) {
            WITHIN.set(self.0);
        }
    }
    let outer = WITHIN.get();
    if outer >= layer {
        return Err(serde::de::Error::custom("a guard or an origin is within another one"));
    }
    WITHIN.set(layer);
    let _restore = Restore(outer);
    C::deserialize(deserializer).map(Box::new)
}
