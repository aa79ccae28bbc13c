//! The cluster and its servers, and the sessions of all clients: to look at, and what administrators do.

use crate::{
    client::Client,
    error::Error,
    views::read_options::{ReadOptions, freshness},
    wire::{
        call::{Call, CallKind},
        endpoints::Endpoint,
        http::Attempted,
        reply::Reply,
        url::{PAGE, encode, page},
    },
};
use fairhold_types::{Code, NodeId, SessionNumber, dto};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::json;

/// The cluster.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let cluster = client.cluster();
/// println!("{:?} leads term {}", cluster.status().await?.leader, cluster.status().await?.term);
/// let ready = cluster.readiness("http://n2:7171").await?; //  of one server, as of each that is named by its URL
/// cluster.hand_over(2).await?; //                             administrators: another one is to lead,
/// cluster.take_snapshot("http://n2:7171").await?; //          a snapshot now,
/// client.sessions().end(41, "its host is gone").await?; //    and the end of a session by its number
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Cluster {
    client: Client,
}

/// The sessions of all clients, as everybody may see them. To open one: [`Client::session`].
#[derive(Debug, Clone)]
pub struct Sessions {
    client: Client,
    reading: ReadOptions,
}

impl Client {
    /// The cluster and its servers.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        Cluster { client: self.clone() }
    }

    /// The sessions of all clients.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        Sessions { client: self.clone(), reading: ReadOptions::default() }
    }
}

impl Cluster {
    /// Members, roles, term, leader and revision, as the server sees it that answers; also without a quorum.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where no server answered in the client's time.
    pub async fn status(&self) -> Result<dto::Cluster, Error> {
        self.client.send(&Call::new(Method::GET, "/v1/cluster".to_owned())).await?.json()
    }

    /// The same of one server, with a digest of its whole state where that is wanted: two servers at one revision have the same.
    ///
    /// # Errors
    /// [`Error::Invalid`] where that is no URL of a server; [`Error::Unavailable`] where it does not answer.
    pub async fn status_of(&self, url: &str, digest: bool) -> Result<dto::Cluster, Error> {
        self.of(url, if digest { "/v1/cluster?digest" } else { "/v1/cluster" }).await
    }

    /// That a server can serve, with its machine as it sees it.
    ///
    /// # Errors
    /// [`Error::Invalid`] where that is no URL of a server; [`Error::Unavailable`] where it cannot serve, or does not answer.
    pub async fn readiness(&self, url: &str) -> Result<dto::Readiness, Error> {
        self.of(url, "/readyz?verbose").await
    }

    /// Whether the process of a server runs.
    ///
    /// # Errors
    /// As [`status_of`](Cluster::status_of).
    pub async fn is_alive(&self, url: &str) -> Result<bool, Error> {
        Ok(matches!(self.at(url, &get("/livez")).await?, Attempted::Answered(reply) if reply.status.is_success()))
    }

    /// The program of a server.
    ///
    /// # Errors
    /// As [`status_of`](Cluster::status_of).
    pub async fn version(&self, url: &str) -> Result<dto::Version, Error> {
        self.of(url, "/version").await
    }

    /// All that a server measures, in the text format of Prometheus.
    ///
    /// # Errors
    /// As [`status_of`](Cluster::status_of).
    pub async fn metrics(&self, url: &str) -> Result<String, Error> {
        let reply = definite(self.at(url, &get("/metrics")).await?)?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// The description of a server's API (OpenAPI).
    ///
    /// # Errors
    /// As [`status_of`](Cluster::status_of).
    pub async fn description(&self, url: &str) -> Result<serde_json::Value, Error> {
        self.of(url, "/openapi.json").await
    }

    /// For administrators: hands the leadership to this voter, and waits until it leads.
    ///
    /// # Errors
    /// [`Error::Refused`] where it cannot lead, leads already (`already_leader`) or is behind (`not_caught_up`), or where the
    /// [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators'.
    pub async fn hand_over(&self, to: NodeId) -> Result<dto::Leader, Error> {
        let call = Call::new(Method::POST, "/v1/cluster/leader".to_owned()).key(self.client.inner().ids.make());
        self.client.send(&call.json(&json!({ "to": to }))).await?.json()
    }

    /// For administrators: has a server take a snapshot of its state now, and waits until it is stored.
    ///
    /// # Errors
    /// As [`status_of`](Cluster::status_of); [`Error::Refused`] as [`hand_over`](Cluster::hand_over).
    pub async fn take_snapshot(&self, url: &str) -> Result<dto::SnapshotTaken, Error> {
        let call = Call::new(Method::POST, "/v1/cluster/snapshot".to_owned()).key(self.client.inner().ids.make());
        definite(self.at(url, &call).await?)?.json()
    }

    async fn of<T: DeserializeOwned>(&self, url: &str, path: &str) -> Result<T, Error> {
        definite(self.at(url, &get(path)).await?)?.json()
    }

    async fn at(&self, url: &str, call: &Call) -> Result<Attempted, Error> {
        let inner = self.client.inner();
        let call = Call { kind: CallKind::Server, ..call.clone() };
        Ok(inner.calls.try_at(&Endpoint::parse(url)?, &call, inner.timeout).await)
    }
}

fn get(path: &str) -> Call {
    Call::new(Method::GET, path.to_owned())
}

fn definite(tried: Attempted) -> Result<Reply, Error> {
    match tried {
        Attempted::Answered(reply) => reply.done().map(|()| reply),
        Attempted::Nothing { why, .. } | Attempted::Unknown { why, .. } => Err(Error::Unavailable { last: why }),
    }
}

freshness!(Sessions);

impl Sessions {
    /// All of them, by number, each with the first of what it owns.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where no answer came in the client's time.
    pub async fn list(&self) -> Result<Vec<dto::Session>, Error> {
        self.client.pages("/v1/sessions", self.reading).await
    }

    /// One of them, with all that it owns. Nothing where none has this number, or it has ended. What it owns is read page after
    /// page where there is very much of it.
    ///
    /// # Errors
    /// As [`list`](Sessions::list).
    pub async fn get(&self, number: SessionNumber) -> Result<Option<dto::Session>, Error> {
        let Some(mut session) = self.get_page(number, PAGE, None).await? else { return Ok(None) };
        while let Some(cursor) = session.next_cursor.take() {
            let Some(more) = self.get_page(number, PAGE, Some(&cursor)).await? else { return Ok(None) };
            session.grants.extend(more.grants);
            session.ephemeral_nodes.extend(more.ephemeral_nodes);
            session.next_cursor = more.next_cursor;
        }
        Ok(Some(session))
    }

    /// The same with one page of at most so many of its grants, and of its nodes, 1 to 1,000, beginning where an earlier one
    /// ended.
    ///
    /// # Errors
    /// As [`list`](Sessions::list).
    pub async fn get_page(
        &self,
        number: SessionNumber,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Option<dto::Session>, Error> {
        let path = page(&format!("/v1/sessions/{number}"), limit, cursor);
        let reply = self.client.send(&self.reading.of(get(&path))).await?;
        match reply.problem().code {
            Some(Code::SessionNotFound) => Ok(None),
            _ => reply.json().map(Some),
        }
    }

    /// For administrators: ends a session, with all that it owns, in one step.
    ///
    /// # Errors
    /// [`Error::Lost`] where none has this number, or it had ended before; [`Error::Refused`] where the
    /// [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators'; [`Error::OutcomeUnknown`] where no answer
    /// came in the client's time.
    pub async fn end(&self, number: u64, reason: &str) -> Result<(), Error> {
        let call = Call::new(Method::DELETE, format!("/v1/sessions/{number}?reason={}", encode(reason)));
        let reply = self.client.send(&call).await?;
        match reply.problem().code {
            // The call has no key: it is its own first try that the second one finds done.
            Some(Code::SessionNotFound) if reply.may_be_done => Ok(()),
            _ => reply.done(),
        }
    }
}
