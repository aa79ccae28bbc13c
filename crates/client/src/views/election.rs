//! Elections: standing, proclaiming, and seeing who leads.
//!
//! An observer goes on over nodes that die: it comes back with the revision after the last that it was told, so that it sees
//! every leader and every proclaimed value once, in order, or [`Seen::Missed`] where a cluster no longer keeps some of them.

use crate::{
    acquire::builder::Acquire,
    client::Client,
    error::{Error, Lost},
    hold::guard::Held,
    wire::{
        backoff::Backoff,
        call::Call,
        endpoints::{Endpoint, Prefer},
        http::{Opened, StreamLines},
        url::encode,
    },
};
use fairhold_types::{
    Code, FencingToken, LockName, Revision,
    election::{Election, Leader},
    limits::BOOKMARK_EVERY,
};
use reqwest::Method;
use serde::Deserialize;
use std::collections::VecDeque;
use tokio::time::sleep;

/// What one who observes an election sees.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seen {
    /// This one leads: a new leader, or the one that led when the observation began.
    Elected(Leader),
    /// The leader proclaims another value.
    Proclaimed(Leader),
    /// Nobody leads.
    Vacant,
    /// The observer was away for so long that leaders or values may have come and gone unseen. How it stands now comes next.
    Missed,
}

/// Sees who leads an election, for as long as it is asked. Dropping it ends that.
#[derive(Debug)]
pub struct Observer {
    client: Client,
    election: LockName,
    order: VecDeque<Endpoint>,
    backoff: Backoff,
    lines: Option<StreamLines>,
    /// Go on with this revision; none: begin with how it stands.
    from: Option<Revision>,
    /// Token and version of the leader that was told last.
    told: Option<(FencingToken, i32)>,
    missed: bool,
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
    /// Stands for an election: the guard leads, and is known by this value. Dropping the guard resigns.
    pub fn elect(&self, name: &str, value: impl Into<String>) -> Acquire {
        self.lock(name).candidate(value.into())
    }

    /// Who leads an election now.
    ///
    /// # Errors
    /// [`Error::Invalid`] where that is no name; [`Error::Unavailable`] where no answer came in the client's time;
    /// [`Error::Refused`] with `kind_mismatch` where the name is a lock's.
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
    /// [`Error::Invalid`] where that is no name.
    pub fn observe(&self, name: &str) -> Result<Observer, Error> {
        Ok(Observer {
            client: self.clone(),
            election: election(name)?,
            order: VecDeque::new(),
            backoff: Backoff::new(),
            lines: None,
            from: None,
            told: None,
            missed: false,
        })
    }
}

impl Held {
    /// Has the leader known by another value: all who observe are told once.
    ///
    /// # Errors
    /// [`Error::Lost`] where it leads no more; [`Error::OutcomeUnknown`] where no answer came in the client's time.
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
    /// Begins with what happened at this revision, instead of how it stands now; what no node keeps any more is [`Seen::Missed`].
    #[must_use]
    pub fn from(self, revision: Revision) -> Observer {
        Observer { from: Some(revision), ..self }
    }

    /// What is seen next. It waits for it, over nodes that die and clusters that are out of reach; it may be dropped and asked
    /// again.
    ///
    /// # Errors
    /// [`Error::Refused`] where the cluster says no, with `kind_mismatch` where the name is a lock's.
    pub async fn next(&mut self) -> Result<Seen, Error> {
        loop {
            if std::mem::take(&mut self.missed) {
                return Ok(Seen::Missed);
            }
            let Some(lines) = &mut self.lines else {
                self.open().await?;
                continue;
            };
            // A bookmark comes at least so often; what is silent for twice that is not there any more.
            let line = match lines.next(2 * BOOKMARK_EVERY).await {
                Ok(line) => line,
                Err(why) => {
                    tracing::debug!(why, "the observation goes on elsewhere");
                    self.lines = None;
                    continue;
                }
            };
            match serde_json::from_slice(&line) {
                Ok(line) => {
                    if let Some(seen) = self.take(line) {
                        return Ok(seen);
                    }
                }
                Err(error) => tracing::warn!(%error, "a line of an election is not valid and is ignored"),
            }
        }
    }

    /// What a line means to one who knows what was told before.
    fn take(&mut self, line: ElectionLine) -> Option<Seen> {
        match line.kind.as_str() {
            "leader" | "elected" | "proclaimed" | "vacant" | "bookmark" => self.from = Some(line.revision.next()),
            // The next one is asked, from there on.
            "goaway" | "error" => {
                self.lines = None;
                return None;
            }
            // A newer server may have more.
            _ => return None,
        }
        match (line.kind.as_str(), line.leader) {
            ("vacant", _) => {
                self.told = None;
                Some(Seen::Vacant)
            }
            ("leader" | "elected" | "proclaimed", Some(leader)) => {
                let before = self.told.replace((leader.token, leader.version));
                match before {
                    Some(before) if before == (leader.token, leader.version) => None,
                    Some((token, _)) if token == leader.token => Some(Seen::Proclaimed(leader)),
                    Some(_) | None => Some(Seen::Elected(leader)),
                }
            }
            _ => None,
        }
    }

    async fn open(&mut self) -> Result<(), Error> {
        let inner = self.client.inner();
        if self.order.is_empty() {
            self.client.discover();
            self.order = inner.calls.endpoints.order(Prefer::Anybody).into();
        }
        let Some(endpoint) = self.order.pop_front() else { return Ok(()) };
        let from = self.from.map_or_else(String::new, |from| format!("?from={from}"));
        let call = Call::new(Method::GET, format!("{}{from}", url(&self.election)));
        let call = call.header("accept", "application/x-ndjson".to_owned());
        let asked = match inner.calls.open_at(&endpoint, &call, inner.timeout).await {
            Opened::Stream { lines, revision: _ } => {
                self.backoff = Backoff::new();
                self.order.clear();
                self.lines = Some(lines);
                return Ok(());
            }
            Opened::Refused(reply) if reply.problem().code == Some(Code::Compacted) => {
                (self.from, self.missed) = (None, true);
                return Ok(());
            }
            Opened::Refused(reply) => return Err(Error::refused(reply.status.as_u16(), reply.problem())),
            Opened::Failed { retry_after } => retry_after,
        };
        if self.order.is_empty() {
            sleep(self.backoff.next(asked)).await;
        }
        Ok(())
    }
}

fn election(name: &str) -> Result<LockName, Error> {
    LockName::parse(name).map_err(|error| Error::Invalid(format!("the election's name: {error}")))
}

fn url(election: &LockName) -> String {
    format!("/v1/elections/{}", encode(election.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observer() -> Observer {
        let client = Client::builder().endpoint("http://127.0.0.1:9").build().unwrap();
        client.observe("primary").unwrap()
    }

    fn hears(observer: &mut Observer, lines: &str) -> Vec<Seen> {
        lines.lines().filter_map(|line| observer.take(serde_json::from_str(line).unwrap())).collect()
    }

    fn leads(kind: &str, revision: u64, token: u64, version: i32) -> String {
        let rest = format!(r#""token":{token},"value":"v","version":{version},"number":1,"session":1,"owner":"o""#);
        format!("{{\"revision\":{revision},\"type\":\"{kind}\",{rest}}}\n")
    }

    #[tokio::test]
    async fn what_is_told_again_after_a_new_beginning_is_seen_once() {
        let mut observer = observer();
        let seen = hears(&mut observer, &(leads("leader", 9, 7, 0) + &leads("proclaimed", 10, 7, 1)));
        assert!(matches!(&seen[..], [Seen::Elected(_), Seen::Proclaimed(_)]), "{seen:?}");
        assert_eq!(observer.from, Some(Revision(11)));
        observer.from = None;
        assert_eq!(hears(&mut observer, &leads("leader", 20, 7, 1)), [], "it is the same");
        let seen = hears(&mut observer, &(leads("elected", 21, 21, 0) + "{\"revision\":22,\"type\":\"vacant\"}\n"));
        assert!(matches!(&seen[..], [Seen::Elected(_), Seen::Vacant]), "{seen:?}");
    }

    #[tokio::test]
    async fn what_a_newer_server_tells_is_passed_over_and_a_server_that_stops_is_left() {
        let mut observer = observer();
        let lines = "{\"revision\":3,\"type\":\"of_next_year\"}\n{\"revision\":4,\"type\":\"vacant\"}\n";
        assert_eq!(hears(&mut observer, lines), [Seen::Vacant]);
        assert_eq!(hears(&mut observer, "{\"revision\":9,\"type\":\"goaway\"}\n"), []);
        assert_eq!(observer.from, Some(Revision(5)), "what was told before it stopped");
    }
}
