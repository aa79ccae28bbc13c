//! Which cluster this client belongs to, when it last answered, and why it refuses requests for now.
//!
//! Not every server that answers at an address is a node of the cluster. It can be the login page of a network, the
//! default page of a load balancer, a server that took over an address, or another Fairhold cluster. Every answer of a
//! node names its cluster. The client keeps the first id that it sees, or the one from its program, and treats any
//! other answer as no answer: it tries another node.

use crate::{
    problem::ProblemBody,
    wire::{clock::Moment, endpoints::Endpoint},
};
use fairhold_types::{ClusterId, Code};
use parking_lot::Mutex;
use reqwest::header::HeaderMap;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Names the cluster in every answer of its nodes and in every request to them.
pub(crate) const CLUSTER: &str = "fairhold-cluster";
/// Is in every answer of a Fairhold server, even before its cluster has formed.
const REQUEST_ID: &str = "fairhold-request-id";
/// Foreign servers that the client remembers, so that it logs each of them once.
const FOREIGN_MAX: usize = 64;

/// What a client knows about its cluster. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<IdentityInner>);

#[derive(Debug)]
struct IdentityInner {
    cluster: OnceLock<ClusterId>,
    foreign: Mutex<Vec<Endpoint>>,
    last_contact: Mutex<LastContact>,
}

#[derive(Debug)]
struct LastContact {
    at: Moment,
    failure: Option<String>,
    other_cluster: Option<ClusterId>,
    refusal: Option<LastRefusal>,
}

/// When the cluster last answered, what went wrong since, and why it refuses changes for now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contact {
    /// The time since a node last answered, whatever it said. If none has answered yet, the time since the client was
    /// created.
    pub silent_for: Duration,
    /// Why the newest attempt failed, if one has failed since the last answer. The reason may be on this machine, such
    /// as missing file descriptors.
    pub failure: Option<String>,
    /// The cluster of a node that answered although it belongs to another one, if no node of this cluster has answered
    /// since. If this cluster was restored, that is its new id: a new client finds it.
    pub other_cluster: Option<ClusterId>,
    /// Why a node refused the newest call that changes something, such as an acquire or a renewal, if none has succeeded
    /// since. The client tries such a call again until the caller's time is up. If the node refused the credential
    /// ([`Code::Unauthenticated`]), it tries only renewals again. Reads do not count: some succeed without a majority.
    pub refusal: Option<LastRefusal>,
}

/// Why a node refused a call that may succeed later, unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastRefusal {
    /// The stable code, if this version knows it.
    pub code: Option<Code>,
    /// What the node said, for people.
    pub detail: String,
}

impl From<ProblemBody> for LastRefusal {
    fn from(problem: ProblemBody) -> LastRefusal {
        LastRefusal { code: problem.code, detail: problem.detail }
    }
}

impl Identity {
    /// Accepts only the cluster with this id, or else the first one that answers.
    pub(crate) fn new(cluster: Option<ClusterId>) -> Identity {
        let known = OnceLock::new();
        if let Some(cluster) = cluster {
            known.get_or_init(|| cluster);
        }
        let last_contact = LastContact { at: Moment::now(), failure: None, other_cluster: None, refusal: None };
        Identity(Arc::new(IdentityInner { cluster: known, foreign: Mutex::default(), last_contact: Mutex::new(last_contact) }))
    }

    /// The cluster's id, once it is known.
    pub(crate) fn cluster(&self) -> Option<ClusterId> {
        self.0.cluster.get().copied()
    }

    /// Checks that a node of this cluster answered. Otherwise, returns why the answer does not count.
    pub(crate) fn check(&self, endpoint: &Endpoint, headers: &HeaderMap) -> Result<(), String> {
        let named = named(headers).ok_or_else(|| "its answer does not name its cluster".to_owned());
        let checked = named.and_then(|named| {
            let known = *self.0.cluster.get_or_init(|| named);
            if known == named {
                return Ok(());
            }
            self.0.last_contact.lock().other_cluster = Some(named);
            Err(format!(
                "it belongs to the cluster {named}, and this client to {known}; if the cluster was restored, start this program \
                 again"
            ))
        });
        match checked {
            Ok(()) => {
                self.answered();
                Ok(())
            }
            Err(why) => {
                let why = format!("{endpoint} is not a node of this cluster: {why}");
                self.failed(&why);
                self.log_once(endpoint, &why);
                Err(why)
            }
        }
    }

    /// The same for a call to one server by its address. The server may have no cluster yet, and its answer does not
    /// decide which cluster is the client's.
    pub(crate) fn check_server(&self, endpoint: &Endpoint, headers: &HeaderMap) -> Result<(), String> {
        match (named(headers), self.cluster()) {
            (Some(named), Some(known)) if named != known => {
                Err(format!("{endpoint} is a node of the cluster {named}, not of {known}"))
            }
            (None, _) if !headers.contains_key(REQUEST_ID) => Err(format!("{endpoint} is not a server of Fairhold")),
            (Some(_), Some(_)) => {
                self.answered();
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

    fn answered(&self) {
        let mut last = self.0.last_contact.lock();
        last.at = Moment::now();
        last.failure = None;
        last.other_cluster = None;
    }

    /// Notes that a request got no answer.
    pub(crate) fn failed(&self, why: &str) {
        self.0.last_contact.lock().failure = Some(why.to_owned());
    }

    /// Notes why a node refused a call that changes something; `None` after one that succeeded.
    pub(crate) fn refused(&self, refusal: Option<LastRefusal>) {
        self.0.last_contact.lock().refusal = refusal;
    }

    pub(crate) fn contact(&self) -> Contact {
        let last = self.0.last_contact.lock();
        Contact {
            silent_for: last.at.until(Moment::now()),
            failure: last.failure.clone(),
            other_cluster: last.other_cluster,
            refusal: last.refusal.clone(),
        }
    }

    fn log_once(&self, endpoint: &Endpoint, why: &str) {
        let mut foreign = self.0.foreign.lock();
        if foreign.len() < FOREIGN_MAX && !foreign.contains(endpoint) {
            tracing::warn!("{why}; the client ignores its answers");
            foreign.push(endpoint.clone());
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
    fn the_first_cluster_that_answers_is_the_clients_and_no_other_one_counts() {
        let (identity, node) = (Identity::new(None), Endpoint::parse("http://a:1").unwrap());
        for invalid in [headers(&[]), headers(&[(CLUSTER, "staging")]), headers(&[(CLUSTER, &"A".repeat(32))])] {
            let why = identity.check(&node, &invalid).unwrap_err();
            assert!(why.starts_with("http://a:1 is not a node of this cluster"), "{why}");
        }
        assert_eq!(identity.cluster(), None, "an invalid id does not count");
        identity.check(&node, &of(7)).unwrap();
        let why = identity.check(&node, &of(8)).unwrap_err();
        assert!(why.contains(&ClusterId(8).to_hex()) && why.contains(&ClusterId(7).to_hex()), "{why}");
        identity.check(&node, &of(7)).unwrap();
        assert_eq!(identity.cluster(), Some(ClusterId(7)));
        assert_eq!(identity.0.foreign.lock().len(), 1, "each address is logged once");
    }

    #[test]
    fn only_the_cluster_that_the_program_named_counts() {
        let (identity, node) = (Identity::new(Some(ClusterId(7))), Endpoint::parse("http://a:1").unwrap());
        assert!(identity.check(&node, &of(8)).is_err() && identity.check(&node, &of(7)).is_ok());
    }

    #[test]
    fn a_server_called_by_its_address_may_have_no_cluster_and_does_not_decide_the_clients() {
        let (identity, node) = (Identity::new(None), Endpoint::parse("http://a:1").unwrap());
        let unformed = headers(&[(REQUEST_ID, "1-abc-1")]);
        assert!(identity.check_server(&node, &unformed).is_ok() && identity.check_server(&node, &of(8)).is_ok());
        assert_eq!(identity.cluster(), None);
        assert!(identity.check_server(&node, &headers(&[])).is_err());
        identity.check(&node, &of(7)).unwrap();
        assert!(identity.check_server(&node, &of(8)).is_err());
    }

    #[test]
    fn a_failure_is_kept_until_the_next_answer() {
        let (identity, node) = (Identity::new(None), Endpoint::parse("http://a:1").unwrap());
        identity.failed("no descriptor");
        assert_eq!(identity.contact().failure.as_deref(), Some("no descriptor"));
        drop(identity.check(&node, &headers(&[])));
        assert!(identity.contact().failure.is_some(), "a foreign answer does not count");
        identity.check(&node, &of(7)).unwrap();
        assert_eq!(identity.contact().failure, None);
    }

    #[test]
    fn another_cluster_is_known_until_this_one_answers() {
        let (identity, node) = (Identity::new(Some(ClusterId(7))), Endpoint::parse("http://a:1").unwrap());
        let why = identity.check(&node, &of(8)).unwrap_err();
        assert!(why.ends_with("if the cluster was restored, start this program again"), "{why}");
        identity.failed("no descriptor");
        assert_eq!(identity.contact().other_cluster, Some(ClusterId(8)), "another failure does not hide it");
        identity.check(&node, &of(7)).unwrap();
        assert_eq!(identity.contact().other_cluster, None);
    }

    #[test]
    fn a_refusal_is_kept_after_other_answers_until_a_change_succeeds() {
        let (identity, node) = (Identity::new(None), Endpoint::parse("http://a:1").unwrap());
        let refusal = LastRefusal { code: Some(Code::DiskLow), detail: "d".to_owned() };
        identity.refused(Some(refusal.clone()));
        identity.check(&node, &of(7)).unwrap();
        assert_eq!(identity.contact().refusal, Some(refusal));
        identity.refused(None);
        assert_eq!(identity.contact().refusal, None);
    }
}
