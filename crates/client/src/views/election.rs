//! Elections: the list of them, candidates, proclaimed values, and observers.
//!
//! If its node fails, an observer continues at another one. It resumes after the last revision that it saw, so it sees
//! every leader and every proclaimed value once, in order, or [`ElectionEvent::Missed`] if the cluster no longer keeps some of
//! them.

use crate::{
    acquire::builder::Acquire,
    client::Client,
    error::{Error, Lost},
    hold::guard::Held,
    views::read_options::{Listing, ReadOptions, freshness},
    wire::{
        backoff::Backoff,
        call::Call,
        endpoints::{Endpoint, Prefer},
        http::Opened,
        stream_lines::StreamLines,
        url::encode,
    },
};
use fairhold_types::{
    Code, FencingToken, LockName, Revision, dto,
    election::{Election, Leader, ListedElection},
    limits::BOOKMARK_EVERY,
};
use futures_util::future::BoxFuture;
use reqwest::Method;
use serde::Deserialize;
use std::collections::VecDeque;
use tokio::time::sleep;

const LIST: &str = "/v1/elections";

/// A change of an election, as an observer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionEvent {
    /// This candidate leads: a new leader, or the leader at the start of the observation.
    Elected(Leader),
    /// The leader proclaimed another value.
    Proclaimed(Leader),
    /// There is no leader.
    Vacant,
    /// The observer was disconnected for so long that it may have missed leaders or values. The current state comes
    /// next.
    Missed,
}

/// Observes the leaders of an election. Dropping it ends the observation.
#[derive(Debug)]
pub struct Observer {
    client: Client,
    election: LockName,
    untried: VecDeque<Endpoint>,
    backoff: Backoff,
    lines: Option<StreamLines>,
    /// Continue with this revision. `None`: start with the current state.
    from: Option<Revision>,
    /// Token and version of the last leader that was returned.
    last_seen: Option<(FencingToken, i32)>,
    missed: bool,
}

/// The elections of the cluster.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// for election in client.elections().list().prefix("orders/").await? {
///     println!("{}: {:?}, {} wait", election.election, election.value, election.waiting);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Elections {
    client: Client,
    options: ReadOptions,
}

freshness!(Elections);

impl Elections {
    /// Lists the elections that have a leader or candidates, or had some recently: set a prefix, then `.await` it.
    pub fn list(&self) -> ListElections {
        ListElections(Listing::new(&self.client, self.options, LIST))
    }
}

/// A listing of elections: `.await` it to read all of them.
#[derive(Debug, Clone)]
#[must_use = "elections are listed when this is awaited"]
pub struct ListElections(Listing);

impl ListElections {
    /// Only elections whose names start with this prefix.
    pub fn prefix(self, prefix: &str) -> ListElections {
        ListElections(self.0.with("prefix", prefix))
    }

    /// Reads one page of at most `limit` elections (1 to 1,000). `cursor` continues after an earlier page.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no answer came within the client's timeout; [`Error::Refused`] if the prefix is too long, or
    /// the limit or the cursor is not valid.
    pub async fn page(self, limit: usize, cursor: Option<&str>) -> Result<dto::Page<ListedElection>, Error> {
        self.0.page(limit, cursor).await
    }
}

impl IntoFuture for ListElections {
    type Output = Result<Vec<ListedElection>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.0.all()
    }
}

#[derive(Debug, Deserialize)]
struct ElectionLine {
    revision: Revision,
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    leader: Option<Leader>,
}

impl Client {
    /// Becomes a candidate in an election. The guard means that you lead, and observers see this value. Dropping the
    /// guard resigns.
    pub fn elect(&self, name: &str, value: impl Into<String>) -> Acquire {
        self.lock(name).candidate(value.into())
    }

    /// The elections of the cluster: lists them with their leaders.
    #[must_use]
    pub fn elections(&self) -> Elections {
        Elections { client: self.clone(), options: ReadOptions::default() }
    }

    /// The current leader of an election.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is not valid; [`Error::Unavailable`] if no answer came within the client's
    /// timeout; [`Error::Refused`] with `kind_mismatch` if the name belongs to a lock.
    pub async fn leader(&self, name: &str) -> Result<Option<Leader>, Error> {
        let reply = self.send(&Call::new(Method::GET, url(&election(name)?))).await?;
        if reply.problem().code == Some(Code::NoLeader) {
            return Ok(None);
        }
        reply.json::<Election>().map(|found| Some(found.into()))
    }

    /// Observes an election.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is not valid.
    pub fn observe(&self, name: &str) -> Result<Observer, Error> {
        Ok(Observer {
            client: self.clone(),
            election: election(name)?,
            untried: VecDeque::new(),
            backoff: Backoff::new(),
            lines: None,
            from: None,
            last_seen: None,
            missed: false,
        })
    }
}

impl Held {
    /// Proclaims another value for this leader. Every observer sees it once.
    ///
    /// # Errors
    /// [`Error::Lost`] if this grant no longer leads; [`Error::OutcomeUnknown`] if no answer came within the client's
    /// timeout.
    pub async fn proclaim(&self, value: impl Into<String>) -> Result<(), Error> {
        self.token()?;
        let client = self.client();
        let body = serde_json::json!({ "grant": self.id().to_string(), "value": value.into() });
        let call = Call::new(Method::PUT, url(self.lock())).key(client.inner().ids.make()).json(&body);
        let reply = client.send(&call).await?;
        if reply.problem().code == Some(Code::NotLeader) {
            self.end(Lost::Fenced);
            return Err(Error::Lost(Lost::Fenced));
        }
        reply.done()
    }
}

impl Observer {
    /// Starts with the events of this revision instead of the current state. If no node still keeps them, the first
    /// observation is [`ElectionEvent::Missed`].
    #[must_use]
    pub fn from(self, revision: Revision) -> Observer {
        Observer { from: Some(revision), ..self }
    }

    /// Waits for the next observation. If a node fails or the cluster is unreachable, it retries. Dropping the future
    /// loses nothing: call this again.
    ///
    /// # Errors
    /// [`Error::Refused`] if the cluster refuses, with `kind_mismatch` if the name belongs to a lock.
    pub async fn next(&mut self) -> Result<ElectionEvent, Error> {
        loop {
            if std::mem::take(&mut self.missed) {
                return Ok(ElectionEvent::Missed);
            }
            let Some(lines) = &mut self.lines else {
                self.open().await?;
                continue;
            };
            // The server sends a bookmark at least this often. A stream that is silent for twice as long is dead.
            let line = match lines.next(2 * BOOKMARK_EVERY).await {
                Ok(line) => line,
                Err(why) => {
                    tracing::debug!(why, "an observation broke and continues at another node");
                    self.lines = None;
                    continue;
                }
            };
            match serde_json::from_slice(&line) {
                Ok(line) => {
                    if let Some(seen) = self.apply(line) {
                        return Ok(seen);
                    }
                }
                Err(error) => tracing::warn!(%error, "ignored an invalid line of an observation"),
            }
        }
    }

    /// Applies a line. Returns an observation if the line adds one to the earlier ones.
    fn apply(&mut self, line: ElectionLine) -> Option<ElectionEvent> {
        match line.kind.as_str() {
            "leader" | "elected" | "proclaimed" | "vacant" | "bookmark" => self.from = Some(line.revision.next()),
            // Continue at the next node.
            "goaway" | "error" => {
                self.lines = None;
                return None;
            }
            // An unknown line from a newer server.
            _ => return None,
        }
        match (line.kind.as_str(), line.leader) {
            ("vacant", _) => {
                self.last_seen = None;
                Some(ElectionEvent::Vacant)
            }
            ("leader" | "elected" | "proclaimed", Some(leader)) => {
                let before = self.last_seen.replace((leader.token, leader.version));
                match before {
                    Some(before) if before == (leader.token, leader.version) => None,
                    Some((token, _)) if token == leader.token => Some(ElectionEvent::Proclaimed(leader)),
                    Some(_) | None => Some(ElectionEvent::Elected(leader)),
                }
            }
            _ => None,
        }
    }

    async fn open(&mut self) -> Result<(), Error> {
        let inner = self.client.inner();
        if self.untried.is_empty() {
            self.client.discover();
            self.untried = inner.calls.endpoints.order(Prefer::Any).into();
        }
        let Some(endpoint) = self.untried.pop_front() else { return Ok(()) };
        let from = self.from.map_or_else(String::new, |from| format!("?from={from}"));
        let call = Call::new(Method::GET, format!("{}{from}", url(&self.election)));
        let call = call.header("accept", "application/x-ndjson".to_owned());
        let retry_after = match inner.calls.open_at(&endpoint, &call, inner.timeout).await {
            Opened::Stream { lines, revision: _ } => {
                self.backoff = Backoff::new();
                self.untried.clear();
                self.lines = Some(lines);
                return Ok(());
            }
            Opened::Refused(reply) if reply.problem().code == Some(Code::Compacted) => {
                self.from = None;
                self.missed = true;
                return Ok(());
            }
            Opened::Refused(reply) => return Err(Error::refused(reply.status.as_u16(), reply.problem())),
            Opened::Failed { retry_after } => retry_after,
        };
        if self.untried.is_empty() {
            sleep(self.backoff.next(retry_after)).await;
        }
        Ok(())
    }
}

fn election(name: &str) -> Result<LockName, Error> {
    LockName::parse(name).map_err(|error| Error::Invalid(format!("the election's name: {error}")))
}

fn url(election: &LockName) -> String {
    format!("{LIST}/{}", encode(election.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observer() -> Observer {
        let client = Client::builder().endpoint("http://127.0.0.1:9").build().unwrap();
        client.observe("primary").unwrap()
    }

    fn observe(observer: &mut Observer, lines: &str) -> Vec<ElectionEvent> {
        lines.lines().filter_map(|line| observer.apply(serde_json::from_str(line).unwrap())).collect()
    }

    fn leader_line(kind: &str, revision: u64, token: u64, version: i32) -> String {
        let rest = format!(r#""token":{token},"value":"v","version":{version},"number":1,"session":1,"owner":"o""#);
        format!("{{\"revision\":{revision},\"type\":\"{kind}\",{rest}}}\n")
    }

    #[tokio::test]
    async fn a_leader_repeated_after_a_reconnect_is_reported_once() {
        let mut observer = observer();
        let seen = observe(&mut observer, &(leader_line("leader", 9, 7, 0) + &leader_line("proclaimed", 10, 7, 1)));
        assert!(matches!(&seen[..], [ElectionEvent::Elected(_), ElectionEvent::Proclaimed(_)]), "{seen:?}");
        assert_eq!(observer.from, Some(Revision(11)));
        observer.from = None;
        assert_eq!(observe(&mut observer, &leader_line("leader", 20, 7, 1)), [], "it is the same leader");
        let seen = observe(&mut observer, &(leader_line("elected", 21, 21, 0) + "{\"revision\":22,\"type\":\"vacant\"}\n"));
        assert!(matches!(&seen[..], [ElectionEvent::Elected(_), ElectionEvent::Vacant]), "{seen:?}");
    }

    #[tokio::test]
    async fn an_observer_ignores_unknown_lines_and_leaves_a_server_that_shuts_down() {
        let mut observer = observer();
        let lines = "{\"revision\":3,\"type\":\"from_a_newer_version\"}\n{\"revision\":4,\"type\":\"vacant\"}\n";
        assert_eq!(observe(&mut observer, lines), [ElectionEvent::Vacant]);
        assert_eq!(observe(&mut observer, "{\"revision\":9,\"type\":\"goaway\"}\n"), []);
        assert_eq!(observer.from, Some(Revision(5)), "it continues after the last line before `goaway`");
    }
}
