//! The addresses of the cluster: those from the program, those that the cluster reports, and the probable leader.
//!
//! Every member may be replaced while a client runs, so it reads the members again and again: every minute, and soon
//! after a node failed or an unknown node leads.

use crate::{
    error::Error,
    wire::{backoff::jitter, clock::Moment},
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::AbortHandle;

/// The most addresses that the client keeps.
const ENDPOINTS_MAX: usize = 64;
/// How long an address that failed comes after the others.
const SUSPECT_FOR: Duration = Duration::from_secs(3);
/// How often the client reads the members of the cluster.
pub(crate) const DISCOVER_EVERY: Duration = Duration::from_secs(60);
/// After a failure, the client reads them once more, unless it has begun to do so more recently than this.
const DISCOVER_PAUSE: Duration = Duration::from_secs(10);
/// An address that answered this recently stays, even if the cluster no longer reports it: a node with an old list of
/// members must not make the client forget the nodes that serve it.
const ANSWERED_LATELY: Duration = Duration::from_secs(60);

/// The base of a node's URLs, without a trailing slash.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint(Arc<str>);

impl Endpoint {
    /// Parses an address: `http://host:port` or `https://host:port`.
    pub(crate) fn parse(text: &str) -> Result<Endpoint, Error> {
        let text = text.trim().trim_end_matches('/');
        let url = reqwest::Url::parse(text).map_err(|error| Error::Invalid(format!("the endpoint {text:?}: {error}")))?;
        let has_more = url.path() != "/" || url.query().is_some() || url.fragment().is_some();
        let names_user = !url.username().is_empty() || url.password().is_some();
        if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() || has_more || names_user {
            return Err(Error::Invalid(format!(
                "the endpoint {text:?}: expected http://HOST:PORT or https://HOST:PORT, without a user or a path"
            )));
        }
        Ok(Endpoint(Arc::from(text)))
    }

    /// Whether the connection uses TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// The URL of a path, which starts with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug)]
struct KnownEndpoint {
    endpoint: Endpoint,
    /// It comes from the program, not from the cluster.
    given: bool,
    failed_at: Option<Moment>,
    answered_at: Option<Moment>,
}

impl KnownEndpoint {
    fn new(endpoint: Endpoint, given: bool) -> KnownEndpoint {
        KnownEndpoint { endpoint, given, failed_at: None, answered_at: None }
    }
}

#[derive(Debug)]
struct EndpointState {
    known: Vec<KnownEndpoint>,
    leader: Option<Endpoint>,
    discover_at: Moment,
    /// When the client last began to read the members.
    discovered_at: Option<Moment>,
}

impl EndpointState {
    /// The members may have changed.
    fn discover_soon(&mut self) {
        let soon = self.discovered_at.map_or(self.discover_at, |begun| begun.plus(DISCOVER_PAUSE));
        self.discover_at = self.discover_at.min(soon);
    }
}

/// Which nodes come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefer {
    /// The leader, which answers without another node.
    Leader,
    /// Any node, in turn: otherwise all waiting requests would wait at the leader.
    Any,
}

/// All addresses.
#[derive(Debug)]
pub(crate) struct Endpoints {
    state: Mutex<EndpointState>,
    discover: bool,
    /// Whether every address from the program has TLS. Then no token goes to a plain one that a node reports.
    tls_only: bool,
    turn: AtomicUsize,
    /// The task that reads the members every minute. It ends with the client.
    reader: OnceLock<AbortHandle>,
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.get() {
            reader.abort();
        }
    }
}

impl Endpoints {
    pub(crate) fn new(given: Vec<Endpoint>, discover: bool) -> Result<Endpoints, Error> {
        if given.is_empty() {
            return Err(Error::Invalid("at least one endpoint is needed, like http://127.0.0.1:7171".to_owned()));
        }
        let turn = AtomicUsize::new(rand::random::<u16>().into());
        let tls_only = given.iter().all(Endpoint::has_tls);
        let known = given.into_iter().take(ENDPOINTS_MAX);
        let known = known.map(|endpoint| KnownEndpoint::new(endpoint, true)).collect();
        let state = EndpointState { known, leader: None, discover_at: Moment::now(), discovered_at: None };
        Ok(Endpoints { state: Mutex::new(state), discover, tls_only, turn, reader: OnceLock::new() })
    }

    fn state(&self) -> MutexGuard<'_, EndpointState> {
        self.state.lock()
    }

    /// Every address once, the best one first.
    pub(crate) fn order(&self, prefer: Prefer) -> Vec<Endpoint> {
        let state = self.state();
        let now = Moment::now();
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % state.known.len();
        let mut order: Vec<&KnownEndpoint> = state.known[first..].iter().chain(&state.known[..first]).collect();
        let suspect = |known: &KnownEndpoint| known.failed_at.is_some_and(|at| now < at.plus(SUSPECT_FOR));
        let leads = |known: &KnownEndpoint| prefer == Prefer::Leader && state.leader.as_ref() == Some(&known.endpoint);
        order.sort_by_key(|known| (suspect(known), !leads(known)));
        order.into_iter().map(|known| known.endpoint.clone()).collect()
    }

    /// Notes an answer, which may name the leader's address.
    pub(crate) fn answered(&self, endpoint: &Endpoint, leader: Option<&str>) {
        let mut state = self.state();
        if let Some(known) = state.known.iter_mut().find(|known| known.endpoint == *endpoint) {
            known.failed_at = None;
            known.answered_at = Some(Moment::now());
        }
        if let Some(leader) = leader.map(|url| url.trim_end_matches('/')) {
            state.leader = state.known.iter().map(|known| &known.endpoint).find(|known| &*known.0 == leader).cloned();
            if state.leader.is_none() {
                state.discover_soon();
            }
        }
    }

    /// Notes an attempt without an answer.
    pub(crate) fn failed(&self, endpoint: &Endpoint) {
        let mut state = self.state();
        if let Some(known) = state.known.iter_mut().find(|known| known.endpoint == *endpoint) {
            known.failed_at = Some(Moment::now());
        }
        if state.leader.as_ref() == Some(endpoint) {
            state.leader = None;
        }
        state.discover_soon();
    }

    /// Whether it is time to read the members of the cluster. A caller that gets `true` must do it.
    pub(crate) fn should_discover(&self) -> bool {
        let mut state = self.state();
        let now = Moment::now();
        let due = self.discover && now >= state.discover_at;
        if due {
            state.discover_at = now.plus(jitter(DISCOVER_EVERY, 0.5));
            state.discovered_at = Some(now);
        }
        due
    }

    /// Starts the task that reads the members every minute, if it does not run yet.
    pub(crate) fn start_reader(&self, start: impl FnOnce() -> AbortHandle) {
        self.reader.get_or_init(start);
    }

    /// Notes the members that the cluster reports. The addresses from the program always stay.
    pub(crate) fn discovered(&self, urls: &[String]) {
        let parsed = urls.iter().filter_map(|url| Endpoint::parse(url).ok());
        let named: Vec<Endpoint> = parsed.filter(|endpoint| endpoint.has_tls() || !self.tls_only).collect();
        let mut state = self.state();
        let now = Moment::now();
        let answers = |known: &KnownEndpoint| known.answered_at.is_some_and(|at| now < at.plus(ANSWERED_LATELY));
        state.known.retain(|known| known.given || named.contains(&known.endpoint) || answers(known));
        for endpoint in named {
            if state.known.len() < ENDPOINTS_MAX && !state.known.iter().any(|known| known.endpoint == endpoint) {
                state.known.push(KnownEndpoint::new(endpoint, false));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(given: &[&str]) -> Endpoints {
        Endpoints::new(given.iter().map(|url| Endpoint::parse(url).unwrap()).collect(), true).unwrap()
    }

    fn names(order: Vec<Endpoint>) -> Vec<String> {
        order.iter().map(Endpoint::to_string).collect()
    }

    #[test]
    fn an_unusable_address_is_refused() {
        for text in [
            "",
            "localhost:7171",
            "https://",
            "http://a:1/path",
            "https://u@a:1",
            "http://",
            "ftp://a",
            "http://a:1#x",
            "http://u:p@a:1",
        ] {
            assert!(matches!(Endpoint::parse(text), Err(Error::Invalid(_))), "{text} was accepted");
        }
        assert_eq!(Endpoint::parse(" http://a:7171/ ").unwrap().url("/livez"), "http://a:7171/livez");
        let secure = Endpoint::parse("https://a:7171/").unwrap();
        assert!(secure.has_tls() && secure.url("/livez") == "https://a:7171/livez");
        assert!(Endpoints::new(Vec::new(), true).is_err());
    }

    #[test]
    fn the_leader_comes_first_and_failed_endpoints_last() {
        let all = endpoints(&["http://a:1", "http://b:1", "http://c:1"]);
        let a = Endpoint::parse("http://a:1").unwrap();
        for _ in 0..3 {
            all.answered(&a, Some("http://b:1/"));
            assert_eq!(names(all.order(Prefer::Leader))[0], "http://b:1");
            all.failed(&a);
            assert_eq!(names(all.order(Prefer::Leader))[2], "http://a:1");
        }
        all.failed(&Endpoint::parse("http://b:1").unwrap());
        assert_eq!(names(all.order(Prefer::Leader))[0], "http://c:1");
    }

    #[test]
    fn waiting_requests_are_spread_over_the_nodes() {
        let all = endpoints(&["http://a:1", "http://b:1", "http://c:1"]);
        let mut firsts: Vec<String> = (0..3).map(|_| names(all.order(Prefer::Any))[0].clone()).collect();
        firsts.sort();
        assert_eq!(firsts, ["http://a:1", "http://b:1", "http://c:1"]);
    }

    #[test]
    fn members_change_and_configured_addresses_stay() {
        let all = endpoints(&["http://a:1"]);
        assert!(all.should_discover() && !all.should_discover());
        all.discovered(&["http://b:1".to_owned(), "nonsense".to_owned(), "http://a:1/".to_owned()]);
        assert_eq!(all.order(Prefer::Any).len(), 2);
        all.discovered(&["http://c:1".to_owned()]);
        let mut now = names(all.order(Prefer::Any));
        now.sort();
        assert_eq!(now, ["http://a:1", "http://c:1"]);
    }

    #[test]
    fn a_client_of_tls_uses_no_plain_address_that_it_learns() {
        let reported = ["http://a:1".to_owned(), "https://b:1".to_owned()];
        for (given, learned) in
            [(&["https://x:1"][..], vec!["https://b:1"]), (&["http://x:1", "https://y:1"], vec!["http://a:1", "https://b:1"])]
        {
            let all = endpoints(given);
            all.discovered(&reported);
            let mut new = names(all.order(Prefer::Any));
            new.retain(|url| !given.contains(&url.as_str()));
            new.sort();
            assert_eq!(new, learned, "{given:?}");
        }
    }

    #[test]
    fn an_address_that_answers_stays_even_if_an_old_list_of_members_lacks_it() {
        let all = endpoints(&["http://a:1"]);
        all.discovered(&["http://d:1".to_owned(), "http://e:1".to_owned()]);
        all.answered(&Endpoint::parse("http://d:1").unwrap(), None);
        all.discovered(&["http://a:1".to_owned()]);
        let mut now = names(all.order(Prefer::Any));
        now.sort();
        assert_eq!(now, ["http://a:1", "http://d:1"]);
    }

    #[test]
    fn the_members_are_read_soon_after_a_failure_or_an_unknown_leader_but_not_at_once() {
        let a = Endpoint::parse("http://a:1").unwrap();
        for failure in [true, false] {
            let all = endpoints(&["http://a:1"]);
            let due_in = || Moment::now().until(all.state().discover_at);
            assert!(all.should_discover() && due_in() > DISCOVER_PAUSE * 2);
            if failure {
                all.failed(&a);
            } else {
                all.answered(&a, Some("http://d:1"));
            }
            assert!(!all.should_discover() && due_in() <= DISCOVER_PAUSE, "{failure}");
        }
        let all = endpoints(&["http://a:1"]);
        assert!(all.should_discover());
        all.answered(&a, Some("http://a:1"));
        assert!(Moment::now().until(all.state().discover_at) > DISCOVER_PAUSE * 2, "nothing has changed");
    }
}
