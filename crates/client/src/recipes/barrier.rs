//! Barriers: one that somebody raises and lowers, and one at which so many begin and end together.

use super::tree::{self, Of, Where};
use crate::{client::Client, error::Error, hold::session::Session};

/// Tasks that arrive wait while it is up.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let barrier = client.barrier("migration");
/// barrier.raise().await?;
/// // … and everywhere else:
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

    /// Raises it; says whether it was down. It stays up when this program ends.
    ///
    /// # Errors
    /// Those of a write.
    pub async fn raise(&self) -> Result<bool, Error> {
        Ok(tree::write(&self.client, &self.path, Vec::new(), Where::Absent, None).await?.is_some())
    }

    /// Lowers it, and lets all go on who wait; says whether it was up.
    ///
    /// # Errors
    /// Those of a write.
    pub async fn lower(&self) -> Result<bool, Error> {
        tree::remove(&self.client, &self.path, None).await
    }

    /// Waits while it is up.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where nobody answers for the client's time.
    pub async fn wait(&self) -> Result<(), Error> {
        tree::until(&self.client, &self.path, Of::Value, |look| Ok(look.value()?.is_none().then_some(()))).await
    }
}

/// So many begin together, and end together. A name is for one round: a further round takes another name.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let inside = client.double_barrier("round-7", 5).enter().await?; //   waits until five are there
/// compute().await;
/// inside.leave().await?; //                                              waits until all have left, or ended
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
    /// Those of a write and of a session; [`Error::Unavailable`] where nobody answers for the client's time.
    pub async fn enter(&self) -> Result<Inside, Error> {
        let session = self.client.session().name(format!("double barrier {}", self.path)).await?;
        let (members, ready) = (format!("{}/members", self.path), format!("{}/ready", self.path));
        let mine = format!("{members}/{}", session.number());
        tree::write(&self.client, &mine, Vec::new(), Where::Any, Some(&session)).await?;
        let inside = Inside { client: self.client.clone(), path: members.clone(), session };
        let enough = async {
            tree::until(&self.client, &members, Of::Children, |look| Ok((look.names()?.len() >= self.size).then_some(())))
                .await?;
            // A party that looks later may find fewer, because some have left or died: so a node records that it began.
            tree::write(&self.client, &ready, Vec::new(), Where::Absent, None).await.map(|_| ())
        };
        let begun = tree::until(&self.client, &ready, Of::Value, |look| Ok(look.value()?.map(|_| ())));
        tokio::select! {
            biased;
            done = enough => done?,
            done = begun => done?,
        }
        Ok(inside)
    }
}

impl Inside {
    /// Leaves, and waits until all have left or died.
    ///
    /// # Errors
    /// Those of a write; [`Error::Unavailable`] where nobody answers for the client's time.
    pub async fn leave(self) -> Result<(), Error> {
        let mine = format!("{}/{}", self.path, self.session.number());
        tree::remove(&self.client, &mine, None).await?;
        tree::until(&self.client, &self.path, Of::Children, |look| Ok(look.names()?.is_empty().then_some(()))).await
    }
}
