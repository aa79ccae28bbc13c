//! A value that all parts of a replica can read, and wait for changes of.

use crate::base::types::Types;
use openraft::{
    AsyncRuntime, OptionalSend, OptionalSync,
    alias::{WatchReceiverOf, WatchSenderOf},
    async_runtime::watch::{WatchReceiver, WatchSender},
    type_config::TypeConfigExt,
};
use parking_lot::Mutex;

/// A value that all parts of a replica can read, and wait for changes of.
pub(crate) struct Watched<RT: AsyncRuntime, T: OptionalSend + OptionalSync> {
    // A sender need not be `Sync`.
    sender: Mutex<WatchSenderOf<Types<RT>, T>>,
    receiver: WatchReceiverOf<Types<RT>, T>,
}

impl<RT: AsyncRuntime, T: Copy + PartialEq + OptionalSend + OptionalSync + 'static> Watched<RT, T> {
    pub(crate) fn new(value: T) -> Self {
        let (sender, receiver) = Types::<RT>::watch_channel(value);
        Watched { sender: Mutex::new(sender), receiver }
    }

    /// The current value.
    pub(crate) fn get(&self) -> T {
        *self.receiver.borrow_watched()
    }

    /// Sets the value. Receivers report it only if it differs.
    pub(crate) fn set(&self, value: T) {
        let sender = self.sender.lock();
        sender.send_if_different(value);
    }

    /// A receiver that reports changes.
    pub(crate) fn watch(&self) -> WatchReceiverOf<Types<RT>, T> {
        self.receiver.clone()
    }
}
