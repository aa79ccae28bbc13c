//! The cluster, its servers, and the sessions of all clients, with the operations of administrators.

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
use fairhold_types::{ClusterVersion, Code, NodeId, SessionNumber, dto};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::json;

/// The cluster.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let cluster = client.cluster();
/// println!("{:?} leads term {}", cluster.status().await?.leader, cluster.status().await?.term);
/// let ready = cluster.readiness("http://n2:7171").await?; //  of one server
/// cluster.hand_over(2).await?; //                             administrators: make another voter the leader,
/// cluster.take_snapshot("http://n2:7171").await?; //          take a snapshot now,
/// if let Some(next) = cluster.upgrade().await?.next {
///     cluster.finalize_upgrade(next).await?; //               finalize an upgrade of all nodes,
/// }
/// client.sessions().end(41, "its host is gone").await?; //    end a session by its number,
/// cluster.remove_member(2).await?; //                         and remove a member
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(super) client: Client,
}

/// The sessions of all clients. To open one, see [`Client::session`].
#[derive(Debug, Clone)]
pub struct Sessions {
    client: Client,
    options: ReadOptions,
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
        Sessions { client: self.clone(), options: ReadOptions::default() }
    }
}

impl Cluster {
    /// Reads members, roles, term, leader and revision, as the answering server sees them. It also works without a
    /// quorum.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no server answered within the client's timeout.
    pub async fn status(&self) -> Result<dto::Cluster, Error> {
        self.client.send(&Call::new(Method::GET, "/v1/cluster".to_owned())).await?.json()
    }

    /// The same from one server, optionally with a digest of its whole state: two servers at the same revision have the
    /// same digest.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `url` is not the URL of a server; [`Error::Unavailable`] if the server does not answer.
    pub async fn status_of(&self, url: &str, digest: bool) -> Result<dto::Cluster, Error> {
        self.of(url, if digest { "/v1/cluster?digest" } else { "/v1/cluster" }).await
    }

    /// Reads the alarms that one server raises now. Each server tells only what it knows itself: ask all of them. It also
    /// works without a quorum.
    ///
    /// # Errors
    /// The errors of [`status_of`](Cluster::status_of).
    pub async fn alarms(&self, url: &str) -> Result<dto::Alarms, Error> {
        self.of(url, "/v1/cluster/alarms").await
    }

    /// Reads the readiness report of one server, with its view of its machine.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `url` is not the URL of a server; [`Error::Unavailable`] if the server is not ready or
    /// does not answer.
    pub async fn readiness(&self, url: &str) -> Result<dto::Readiness, Error> {
        self.of(url, "/readyz?verbose").await
    }

    /// Whether a server's process runs.
    ///
    /// # Errors
    /// The errors of [`status_of`](Cluster::status_of).
    pub async fn is_alive(&self, url: &str) -> Result<bool, Error> {
        Ok(matches!(self.at(url, &get("/livez")).await?, Attempted::Answered(reply) if reply.status.is_success()))
    }

    /// The version of a server's program.
    ///
    /// # Errors
    /// The errors of [`status_of`](Cluster::status_of).
    pub async fn version(&self, url: &str) -> Result<dto::Version, Error> {
        self.of(url, "/version").await
    }

    /// The metrics of a server, in the text format of Prometheus.
    ///
    /// # Errors
    /// The errors of [`status_of`](Cluster::status_of).
    pub async fn metrics(&self, url: &str) -> Result<String, Error> {
        let reply = definite(self.at(url, &get("/metrics")).await?)?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// The OpenAPI description of a server's API.
    ///
    /// # Errors
    /// The errors of [`status_of`](Cluster::status_of).
    pub async fn description(&self, url: &str) -> Result<serde_json::Value, Error> {
        self.of(url, "/openapi.json").await
    }

    /// For administrators: hands the leadership to this voter and waits until it leads.
    ///
    /// # Errors
    /// [`Error::Refused`] if it cannot lead, leads already (`already_leader`) or is behind (`not_caught_up`), or if the
    /// [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators'.
    pub async fn hand_over(&self, to: NodeId) -> Result<dto::Leader, Error> {
        let call = Call::new(Method::POST, "/v1/cluster/leader".to_owned()).key(self.client.inner().ids.make());
        self.client.send(&call.json(&json!({ "to": to }))).await?.json()
    }

    /// Reads the cluster's version, the next one, and what every member supports, as the leader knows it. It also works
    /// without a quorum.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no server answered within the client's timeout.
    pub async fn upgrade(&self) -> Result<dto::ClusterUpgrade, Error> {
        self.client.send(&get("/v1/cluster/upgrade")).await?.json()
    }

    /// For administrators: raises the cluster's version to the next one. There is no way back: a program that does not
    /// support this version cannot start any more. If the cluster has this version already, nothing changes.
    ///
    /// # Errors
    /// [`Error::Refused`] if a member does not support the version or does not answer (`not_all_upgraded`), if the
    /// version is not the next one (`bad_request`), or if the [`auth_token`](crate::ClientBuilder::auth_token) is not
    /// the administrators'. [`Error::OutcomeUnknown`] or [`Error::Unavailable`] if no answer came within the client's
    /// timeout: then it is safe to repeat the call.
    pub async fn finalize_upgrade(&self, to: ClusterVersion) -> Result<dto::ClusterUpgrade, Error> {
        let call = Call::new(Method::POST, "/v1/cluster/upgrade/finalize".to_owned()).key(self.client.inner().ids.make());
        self.client.send(&call.json(&json!({ "to": to }))).await?.json()
    }

    /// For administrators: makes a server take a snapshot of its state now, and waits until it is stored.
    ///
    /// # Errors
    /// The errors of [`status_of`](Cluster::status_of); [`Error::Refused`] if the
    /// [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators'.
    pub async fn take_snapshot(&self, url: &str) -> Result<dto::SnapshotTaken, Error> {
        let call = Call::new(Method::POST, "/v1/cluster/snapshot".to_owned()).key(self.client.inner().ids.make());
        definite(self.at(url, &call).await?)?.json()
    }

    pub(super) async fn of<T: DeserializeOwned>(&self, url: &str, path: &str) -> Result<T, Error> {
        definite(self.at(url, &get(path)).await?)?.json()
    }

    async fn at(&self, url: &str, call: &Call) -> Result<Attempted, Error> {
        let inner = self.client.inner();
        let call = Call { kind: CallKind::Server, ..call.clone() };
        Ok(inner.calls.try_at(&Endpoint::parse(url)?, &call, inner.timeout).await)
    }
}

pub(super) fn get(path: &str) -> Call {
    Call::new(Method::GET, path.to_owned())
}

fn definite(attempted: Attempted) -> Result<Reply, Error> {
    match attempted {
        Attempted::Answered(reply) => reply.done().map(|()| reply),
        Attempted::Nothing { why, .. } | Attempted::Unknown { why, .. } => Err(Error::Unavailable { last: why }),
    }
}

freshness!(Sessions);

impl Sessions {
    /// Reads all sessions by number, each with the first of the grants and nodes that it owns.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no answer came within the client's timeout.
    pub async fn list(&self) -> Result<Vec<dto::Session>, Error> {
        self.client.pages("/v1/sessions", self.options).await
    }

    /// Reads one session with everything that it owns, page by page if there is very much. `None` if no session has
    /// this number, or it has ended.
    ///
    /// # Errors
    /// The errors of [`list`](Sessions::list).
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

    /// The same for one page of at most `limit` of its grants, and of its nodes (1 to 1,000). `cursor` continues after
    /// an earlier page.
    ///
    /// # Errors
    /// The errors of [`list`](Sessions::list).
    pub async fn get_page(
        &self,
        number: SessionNumber,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Option<dto::Session>, Error> {
        let path = page(&format!("/v1/sessions/{number}"), limit, cursor);
        let reply = self.client.send(&self.options.apply(get(&path))).await?;
        match reply.problem().code {
            Some(Code::SessionNotFound) => Ok(None),
            _ => reply.json().map(Some),
        }
    }

    /// For administrators: ends a session and everything that it owns, in one step.
    ///
    /// # Errors
    /// [`Error::Lost`] if no session has this number, or it had ended before; [`Error::Refused`] if the
    /// [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators'; [`Error::OutcomeUnknown`] if no
    /// answer came within the client's timeout.
    pub async fn end(&self, number: u64, reason: &str) -> Result<(), Error> {
        let call = Call::new(Method::DELETE, format!("/v1/sessions/{number}?reason={}", encode(reason)));
        let reply = self.client.send(&call).await?;
        match reply.problem().code {
            // The call has no key, so a repeated attempt finds the effect of its own first attempt.
            Some(Code::SessionNotFound) if reply.may_be_done => Ok(()),
            _ => reply.done(),
        }
    }
}
