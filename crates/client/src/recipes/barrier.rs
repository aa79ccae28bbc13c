//! Barriers: one that a program raises and lowers, and a double barrier for a fixed number of parties.

use super::tree::{self, Of, WriteIf};
use crate::{client::Client, error::Error, hold::session::Session};

/// A barrier: tasks wait while it is up.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let barrier = client.barrier("migration");
/// barrier.raise().await?;
/// // … in every other program:
/// barrier.wait().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    pub(super) fn new(client: Client, name: &str) -> Barrier {
        Barrier { client, path: format!("/barriers/{name}/up") }
    }

    /// Raises it. Returns whether it was down. It stays up when this program ends.
    ///
    /// # Errors
    /// The errors of a write.
    pub async fn raise(&self) -> Result<bool, Error> {
        Ok(tree::write(&self.client, &self.path, Vec::new(), WriteIf::Absent, None).await?.is_some())
    }

    /// Lowers it, so that all waiters continue. Returns whether it was up.
    ///
    /// # Errors
    /// The errors of a write.
    pub async fn lower(&self) -> Result<bool, Error> {
        tree::remove(&self.client, &self.path, None).await
    }

    /// Waits while it is up.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no node answers for the client's timeout.
    pub async fn wait(&self) -> Result<(), Error> {
        tree::until(&self.client, &self.path, Of::Value, |view| Ok(view.value()?.is_none().then_some(()))).await
    }
}

/// A double barrier: a fixed number of parties start together and end together. A name is for one round: use another
/// name for the next round.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let inside = client.double_barrier("round-7", 5).enter().await?; //   waits until five have entered
/// compute().await;
/// inside.leave().await?; //                                              waits until all have left or died
/// # Ok(())
/// # }
/// # async fn compute() {}
/// ```
#[derive(Debug, Clone)]
pub struct DoubleBarrier {
    client: Client,
    path: String,
    size: usize,
}

/// A party inside the barrier. Dropped, it leaves without waiting for the others.
#[derive(Debug)]
#[must_use = "dropping this leaves at once"]
pub struct Inside {
    client: Client,
    path: String,
    session: Session,
}

impl DoubleBarrier {
    pub(super) fn new(client: Client, name: &str, size: usize) -> DoubleBarrier {
        DoubleBarrier { client, path: format!("/double-barriers/{name}"), size }
    }

    /// Enters, and waits until this many parties have entered. A party that dies while it waits does not count.
    ///
    /// # Errors
    /// The errors of a write and of a session; [`Error::Unavailable`] if no node answers for the client's timeout.
    pub async fn enter(&self) -> Result<Inside, Error> {
        let session = self.client.session().name(format!("double barrier {}", self.path)).await?;
        let members = format!("{}/members", self.path);
        let ready = format!("{}/ready", self.path);
        let mine = format!("{members}/{}", session.number());
        tree::write(&self.client, &mine, Vec::new(), WriteIf::Any, Some(&session)).await?;
        let inside = Inside { client: self.client.clone(), path: members.clone(), session };
        let enough = async {
            tree::until(&self.client, &members, Of::Children, |view| Ok((view.names()?.len() >= self.size).then_some(())))
                .await?;
            // A party that reads later may find fewer members, because some have left or died. So a node records the
            // start.
            tree::write(&self.client, &ready, Vec::new(), WriteIf::Absent, None).await.map(|_| ())
        };
        let started = tree::until(&self.client, &ready, Of::Value, |view| Ok(view.value()?.map(|_| ())));
        tokio::select! {
            biased;
            done = enough => done?,
            done = started => done?,
        }
        Ok(inside)
    }
}

impl Inside {
    /// Leaves, and waits until all have left or died.
    ///
    /// # Errors
    /// The errors of a write; [`Error::Unavailable`] if no node answers for the client's timeout.
    pub async fn leave(self) -> Result<(), Error> {
        let mine = format!("{}/{}", self.path, self.session.number());
        tree::remove(&self.client, &mine, None).await?;
        tree::until(&self.client, &self.path, Of::Children, |view| Ok(view.names()?.is_empty().then_some(()))).await
    }
}
