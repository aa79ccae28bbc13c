//! Groups: the live programs, each with a value that the others can read.

use super::tree::{self, Of, WriteIf};
use crate::{
    client::Client,
    error::{Error, Lost},
    hold::session::Session,
};

/// A group of live programs.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let workers = client.group("workers");
/// let me = workers.join("http://10.0.0.7:8080").await?; //   until this is dropped, or this program dies
/// let all = workers.until(|members| members.len() >= 3).await?;
/// # drop((me, all));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Group {
    client: Client,
    path: String,
}

/// A member of a group, as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupMember {
    /// The name: the number of its session.
    pub name: String,
    /// The value.
    pub value: Vec<u8>,
}

/// This program's membership in a group. Dropping it leaves the group. If the program dies, it leaves when its session
/// expires.
#[derive(Debug)]
#[must_use = "dropping this leaves the group at once"]
pub struct Membership {
    client: Client,
    path: String,
    session: Session,
}

impl Group {
    pub(super) fn new(client: Client, name: &str) -> Group {
        Group { client, path: format!("/groups/{name}") }
    }

    /// Joins with a value and a separate session.
    ///
    /// # Errors
    /// The errors of a session and of a write.
    pub async fn join(&self, value: impl Into<Vec<u8>>) -> Result<Membership, Error> {
        let session = self.client.session().name(format!("group {}", self.path)).await?;
        self.join_by(session, value).await
    }

    /// Joins with an existing session, and leaves when that session ends.
    ///
    /// # Errors
    /// The errors of a write.
    pub async fn join_by(&self, session: Session, value: impl Into<Vec<u8>>) -> Result<Membership, Error> {
        let path = format!("{}/{}", self.path, session.number());
        tree::write(&self.client, &path, value.into(), WriteIf::Any, Some(&session)).await?;
        Ok(Membership { client: self.client.clone(), path, session })
    }

    /// Reads the members, in the order in which they joined.
    ///
    /// # Errors
    /// The errors of a read.
    pub async fn members(&self) -> Result<Vec<GroupMember>, Error> {
        let names = tree::read(&self.client, &self.path, Of::Children).await?.names()?;
        self.values(names).await
    }

    /// Waits until the names of the members satisfy the condition, and returns the members. It checks again when a
    /// member joins or leaves, but not when a value changes.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no node answers for the client's timeout.
    pub async fn until(&self, mut condition: impl FnMut(&[String]) -> bool) -> Result<Vec<GroupMember>, Error> {
        let names = tree::until(&self.client, &self.path, Of::Children, |view| {
            let names = view.names()?;
            Ok(condition(&names).then_some(names))
        });
        self.values(names.await?).await
    }

    async fn values(&self, mut names: Vec<String>) -> Result<Vec<GroupMember>, Error> {
        names.sort_by_key(|name| name.parse::<u64>().unwrap_or(u64::MAX));
        let mut members = Vec::new();
        for name in names {
            // A member that has left meanwhile is no longer listed.
            let value = tree::read(&self.client, &format!("{}/{name}", self.path), Of::Value).await?.value()?;
            members.extend(value.map(|(value, _)| GroupMember { name, value }));
        }
        Ok(members)
    }
}

impl Membership {
    /// The name, as the others see it.
    #[must_use]
    pub fn name(&self) -> String {
        self.session.number().to_string()
    }

    /// Changes the value that the others see.
    ///
    /// # Errors
    /// The errors of a write; [`Error::Lost`] if the session, and so the membership, has ended.
    pub async fn set(&self, value: impl Into<Vec<u8>>) -> Result<(), Error> {
        // If the session has ended, the node is gone and must not come back without a session.
        let written = tree::write(&self.client, &self.path, value.into(), WriteIf::Present, None).await?;
        written.map(|_| ()).ok_or(Error::Lost(Lost::Expired))
    }

    /// Leaves, and waits for the cluster's confirmation.
    ///
    /// # Errors
    /// The errors of a write.
    pub async fn leave(self) -> Result<(), Error> {
        tree::remove(&self.client, &self.path, None).await.map(|_| ())
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // A shared session continues, and keeps its nodes. So the background removes the node.
        let client = self.client.clone();
        let path = self.path.clone();
        let removing = async move { drop(tree::remove(&client, &path, None).await) };
        drop(self.client.inner().background.spawn(removing));
    }
}
