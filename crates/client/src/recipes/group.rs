//! Groups: which programs are alive, each with a value that the others can read.

use super::tree::{self, Of, Where};
use crate::{
    client::Client,
    error::{Error, Lost},
    hold::session::Session,
};

/// A group.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let workers = client.group("workers");
/// let me = workers.join("http://10.0.0.7:8080").await?; //   as long as this is kept, and this program lives
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

/// One of a group, as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupMember {
    /// Its name: the number of its session.
    pub name: String,
    /// Its value.
    pub value: Vec<u8>,
}

/// This program's place in a group. Dropped, it leaves; when the program dies, it leaves when its session has expired.
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

    /// Joins with a value, and a session for it alone.
    ///
    /// # Errors
    /// Those of a session and of a write.
    pub async fn join(&self, value: impl Into<Vec<u8>>) -> Result<Membership, Error> {
        let session = self.client.session().name(format!("group {}", self.path)).await?;
        self.join_by(session, value).await
    }

    /// Joins by a session that there is already; it leaves when that ends.
    ///
    /// # Errors
    /// Those of a write.
    pub async fn join_by(&self, session: Session, value: impl Into<Vec<u8>>) -> Result<Membership, Error> {
        let path = format!("{}/{}", self.path, session.number());
        tree::write(&self.client, &path, value.into(), Where::Any, Some(&session)).await?;
        Ok(Membership { client: self.client.clone(), path, session })
    }

    /// The members by name, in the order in which they joined.
    ///
    /// # Errors
    /// Those of a read.
    pub async fn members(&self) -> Result<Vec<GroupMember>, Error> {
        let names = tree::look(&self.client, &self.path, Of::Children).await?.names()?;
        self.values(names).await
    }

    /// Waits until those who are in it are as they should be, and says who they are. It looks again when somebody comes or goes;
    /// another value alone wakes it not.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where nobody answers for the client's time.
    pub async fn until(&self, mut are_so: impl FnMut(&[String]) -> bool) -> Result<Vec<GroupMember>, Error> {
        let names = tree::until(&self.client, &self.path, Of::Children, |look| {
            let names = look.names()?;
            Ok(are_so(&names).then_some(names))
        });
        self.values(names.await?).await
    }

    async fn values(&self, mut names: Vec<String>) -> Result<Vec<GroupMember>, Error> {
        names.sort_by_key(|name| name.parse::<u64>().unwrap_or(u64::MAX));
        let mut members = Vec::new();
        for name in names {
            // A member that has left meanwhile is no longer listed.
            let value = tree::look(&self.client, &format!("{}/{name}", self.path), Of::Value).await?.value()?;
            members.extend(value.map(|(value, _)| GroupMember { name, value }));
        }
        Ok(members)
    }
}

impl Membership {
    /// Its name, as the others see it.
    #[must_use]
    pub fn name(&self) -> String {
        self.session.number().to_string()
    }

    /// Has the others see another value.
    ///
    /// # Errors
    /// Those of a write; [`Error::Lost`] where its session has ended, and with it the membership.
    pub async fn set(&self, value: impl Into<Vec<u8>>) -> Result<(), Error> {
        // Where its session has ended the node is gone, and must not come back without one.
        let written = tree::write(&self.client, &self.path, value.into(), Where::Present, None).await?;
        written.map(|_| ()).ok_or(Error::Lost(Lost::Expired))
    }

    /// Leaves, and waits until the cluster has said so.
    ///
    /// # Errors
    /// Those of a write.
    pub async fn leave(self) -> Result<(), Error> {
        tree::remove(&self.client, &self.path, None).await.map(|_| ())
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // A session that others share goes on, and its node with it: so the node is removed by itself, in the background.
        let (client, path) = (self.client.clone(), self.path.clone());
        let removing = async move { drop(tree::remove(&client, &path, None).await) };
        drop(self.client.inner().background.spawn(removing));
    }
}
