//! Which cluster this client belongs to, and when it last answered.
//!
//! Not everything that answers at an address is a node of the cluster: a login page of a network, a load balancer's default page,
//! a server that took over an address, or another Fairhold cluster. Every answer of a node names its cluster. The client keeps
//! the first id that it sees (or the id that its program named) and takes any other answer for silence: another node is asked.

use crate::wire::{clock::Moment, endpoints::Endpoint};
use fairhold_types::ClusterId;
use parking_lot::Mutex;
use reqwest::header::HeaderMap;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Names the cluster in every answer of its nodes, and in every request to them.
pub(crate) const CLUSTER: &str = "fairhold-cluster";
/// Has every answer of a server of this kind, also before its cluster has formed.
const REQUEST_ID: &str = "fairhold-request-id";
/// Strangers that are remembered, so that each is spoken of once.
const STRANGERS_MAX: usize = 64;

/// What a client knows of its cluster. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<IdentityInner>);

#[derive(Debug)]
struct IdentityInner {
    cluster: OnceLock<ClusterId>,
    strangers: Mutex<Vec<Endpoint>>,
    heard: Mutex<LastContact>,
}

#[derive(Debug)]
struct LastContact {
    at: Moment,
    failure: Option<String>,
}

/// When the cluster last answered, and what went wrong since.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contact {
    /// For how long no node has answered, whatever it said; since the client was made, where none has yet.
    pub silent_for: Duration,
    /// What the newest try met that got no answer, where one failed after the newest answer: also what is missing on this
    /// machine, like file descriptors.
    pub failure: Option<String>,
}

impl Identity {
    /// Of the cluster that has this id; or of the first that answers.
    pub(crate) fn new(cluster: Option<ClusterId>) -> Identity {
        let known = OnceLock::new();
        if let Some(cluster) = cluster {
            known.get_or_init(|| cluster);
        }
        let heard = LastContact { at: Moment::now(), failure: None };
        Identity(Arc::new(IdentityInner { cluster: known, strangers: Mutex::default(), heard: Mutex::new(heard) }))
    }

    /// The cluster's id, once it is known.
    pub(crate) fn cluster(&self) -> Option<ClusterId> {
        self.0.cluster.get().copied()
    }

    /// Whether a node of this cluster answered; else why that answer counts as none.
    pub(crate) fn check(&self, endpoint: &Endpoint, headers: &HeaderMap) -> Result<(), String> {
        let named = named(headers).ok_or_else(|| "its answer does not name its cluster".to_owned());
        let checked = named.and_then(|named| {
            let known = *self.0.cluster.get_or_init(|| named);
            if known == named { Ok(()) } else { Err(format!("it is one of the cluster {named}, and this client's is {known}")) }
        });
        match checked {
            Ok(()) => {
                self.heard();
                Ok(())
            }
            Err(why) => {
                let why = format!("{endpoint} is not a node of this cluster: {why}");
                self.failed(&why);
                self.tell_once(endpoint, &why);
                Err(why)
            }
        }
    }

    /// The same for what is asked of one server by its address, which may not have formed a cluster yet, and whose answer decides
    /// nothing about the client's own cluster.
    pub(crate) fn check_server(&self, endpoint: &Endpoint, headers: &HeaderMap) -> Result<(), String> {
        match (named(headers), self.cluster()) {
            (Some(named), Some(known)) if named != known => {
                Err(format!("{endpoint} is a node of the cluster {named}, not of {known}"))
            }
            (None, _) if !headers.contains_key(REQUEST_ID) => Err(format!("{endpoint} is not a server of Fairhold")),
            (Some(_), Some(_)) => {
                self.heard();
                Ok(())
            }
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    /// The same for a call whose answer may also come from a server whose cluster has not formed yet.
    pub(crate) fn check_or_unformed(&self, endpoint: &Endpoint, headers: &HeaderMap) -> Result<(), String> {
        let is_unformed = !headers.contains_key(CLUSTER) && headers.contains_key(REQUEST_ID);
        if is_unformed { Ok(()) } else { self.check(endpoint, headers) }
    }

    fn heard(&self) {
        *self.0.heard.lock() = LastContact { at: Moment::now(), failure: None };
    }

    /// A request got no answer.
    pub(crate) fn failed(&self, why: &str) {
        self.0.heard.lock().failure = Some(why.to_owned());
    }

    pub(crate) fn contact(&self) -> Contact {
        let heard = self.0.heard.lock();
        Contact { silent_for: heard.at.until(Moment::now()), failure: heard.failure.clone() }
    }

    fn tell_once(&self, endpoint: &Endpoint, why: &str) {
        let mut strangers = self.0.strangers.lock();
        if strangers.len() < STRANGERS_MAX && !strangers.contains(endpoint) {
            tracing::warn!("{why}; the client ignores its answers");
            strangers.push(endpoint.clone());
        }
    }
}

fn named(headers: &HeaderMap) -> Option<ClusterId> {
    headers.get(CLUSTER)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn of(cluster: u128) -> HeaderMap {
        headers(&[(CLUSTER, &ClusterId(cluster).to_hex())])
    }

    #[test]
    fn the_first_cluster_that_answers_is_the_clients_and_no_other_counts() {
        let (identity, node) = (Identity::new(None), Endpoint::parse("http://a:1").unwrap());
        for silent in [headers(&[]), headers(&[(CLUSTER, "staging")]), headers(&[(CLUSTER, &"A".repeat(32))])] {
            let why = identity.check(&node, &silent).unwrap_err();
            assert!(why.starts_with("http://a:1 is not a node of this cluster"), "{why}");
        }
        assert_eq!(identity.cluster(), None, "what is no id counts for nothing");
        identity.check(&node, &of(7)).unwrap();
        let why = identity.check(&node, &of(8)).unwrap_err();
        assert!(why.contains(&ClusterId(8).to_hex()) && why.contains(&ClusterId(7).to_hex()), "{why}");
        identity.check(&node, &of(7)).unwrap();
        assert_eq!(identity.cluster(), Some(ClusterId(7)));
        assert_eq!(identity.0.strangers.lock().len(), 1, "one address is spoken of once");
    }

    #[test]
    fn a_cluster_that_the_program_named_is_the_only_one() {
        let (identity, node) = (Identity::new(Some(ClusterId(7))), Endpoint::parse("http://a:1").unwrap());
        assert!(identity.check(&node, &of(8)).is_err() && identity.check(&node, &of(7)).is_ok());
    }

    #[test]
    fn a_server_that_is_asked_by_its_address_may_have_no_cluster_yet_and_decides_nothing() {
        let (identity, node) = (Identity::new(None), Endpoint::parse("http://a:1").unwrap());
        let unformed = headers(&[(REQUEST_ID, "1-abc-1")]);
        assert!(identity.check_server(&node, &unformed).is_ok() && identity.check_server(&node, &of(8)).is_ok());
        assert_eq!(identity.cluster(), None);
        assert!(identity.check_server(&node, &headers(&[])).is_err());
        identity.check(&node, &of(7)).unwrap();
        assert!(identity.check_server(&node, &of(8)).is_err());
    }

    #[test]
    fn an_answer_ends_the_silence_and_a_failure_is_kept_until_the_next_one() {
        let (identity, node) = (Identity::new(None), Endpoint::parse("http://a:1").unwrap());
        identity.failed("no descriptor");
        assert_eq!(identity.contact().failure.as_deref(), Some("no descriptor"));
        drop(identity.check(&node, &headers(&[])));
        assert!(identity.contact().failure.is_some(), "a stranger's answer is none");
        identity.check(&node, &of(7)).unwrap();
        assert_eq!(identity.contact().failure, None);
    }
}
