//! Sessions, without async code.

use super::{Own, Taking};
use crate::{Acquire, Error};
use std::{ops::Deref, sync::Arc};

/// A session; as [`crate::Session`].
#[derive(Debug, Clone)]
pub struct Session {
    session: crate::Session,
    runtime: Arc<Own>,
}

impl Deref for Session {
    type Target = crate::Session;

    /// For what owns an ephemeral node: `nodes.put(path, value).with(|put| put.ephemeral(&session))`.
    fn deref(&self) -> &crate::Session {
        &self.session
    }
}

impl Session {
    pub(super) fn new(session: crate::Session, runtime: Arc<Own>) -> Session {
        Session { session, runtime }
    }

    fn taking(&self, acquire: Acquire) -> Taking {
        Taking { acquire, runtime: Arc::clone(&self.runtime) }
    }

    /// As [`crate::Session::lock`].
    pub fn lock(&self, name: &str) -> Taking {
        self.taking(self.session.lock(name))
    }

    /// As [`crate::Session::read_lock`].
    pub fn read_lock(&self, name: &str) -> Taking {
        self.taking(self.session.read_lock(name))
    }

    /// As [`crate::Session::write_lock`].
    pub fn write_lock(&self, name: &str) -> Taking {
        self.taking(self.session.write_lock(name))
    }

    /// As [`crate::Session::semaphore`].
    pub fn semaphore(&self, name: &str, limit: u32) -> Taking {
        self.taking(self.session.semaphore(name, limit))
    }

    /// As [`crate::Session::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(self) -> Result<(), Error> {
        self.runtime.block_on(self.session.close())?
    }
}
