//! The addresses of the cluster: those from the program, those that the cluster reports, and the probable leader.
//!
//! Every member may be replaced while a client runs, so it reads the members again and again. It uses an unknown leader
//! at once: the leader that is about to be replaced names its successor, and may be the only node left that it knows.

use crate::{
    error::Error,
    wire::{clock::Moment, discovery::DiscoverySchedule},
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
use tokio::{sync::Notify, task::AbortHandle};

/// The most addresses that the client keeps.
const ENDPOINTS_MAX: usize = 64;
/// How long an address that failed comes after the others.
const SUSPECT_FOR: Duration = Duration::from_secs(3);
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
    discovery: DiscoverySchedule,
}

impl EndpointState {
    /// Adds an address that the cluster reports, if there is room.
    fn learn(&mut self, endpoint: Endpoint) {
        if self.known.len() < ENDPOINTS_MAX && !self.known.iter().any(|known| known.endpoint == endpoint) {
            self.known.push(KnownEndpoint::new(endpoint, false));
        }
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
    /// The task that reads the members. It ends with the client.
    reader: OnceLock<AbortHandle>,
    /// Wakes that task if the next read is due earlier than before.
    hastened: Arc<Notify>,
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
        let state = EndpointState { known, leader: None, discovery: DiscoverySchedule::new(Moment::now()) };
        let (state, reader, hastened) = (Mutex::new(state), OnceLock::new(), Arc::default());
        Ok(Endpoints { state, discover, tls_only, turn, reader, hastened })
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
        let now = Moment::now();
        if let Some(known) = state.known.iter_mut().find(|known| known.endpoint == *endpoint) {
            known.failed_at = None;
            known.answered_at = Some(now);
        }
        let Some(leader) = leader.map(|url| url.trim_end_matches('/')) else { return };
        let find =
            |state: &EndpointState| state.known.iter().map(|known| &known.endpoint).find(|known| &*known.0 == leader).cloned();
        state.leader = find(&state);
        if state.leader.is_none() && self.discover {
            if let Some(new) = Endpoint::parse(leader).ok().filter(|new| self.may_learn(new)) {
                state.learn(new);
                state.leader = find(&state);
            }
            let hastened = state.discovery.failed(now);
            self.wake_reader(hastened);
        }
    }

    /// Notes the number of the members that an answer names: another one after each change.
    pub(crate) fn heard_of_members(&self, number: u64) {
        let hastened = self.state().discovery.heard(number, Moment::now());
        self.wake_reader(hastened);
    }

    /// Notes an attempt without an answer.
    pub(crate) fn failed(&self, endpoint: &Endpoint) {
        let mut state = self.state();
        let now = Moment::now();
        if let Some(known) = state.known.iter_mut().find(|known| known.endpoint == *endpoint) {
            known.failed_at = Some(now);
        }
        if state.leader.as_ref() == Some(endpoint) {
            state.leader = None;
        }
        let hastened = state.discovery.failed(now);
        self.wake_reader(hastened);
    }

    /// Notes that a read of the members told nothing.
    pub(crate) fn not_discovered(&self) {
        let hastened = self.state().discovery.failed(Moment::now());
        self.wake_reader(hastened);
    }

    fn wake_reader(&self, hastened: bool) {
        if hastened {
            self.hastened.notify_one();
        }
    }

    /// Begins a read of the members, if it is due; the caller must then read them. Otherwise, says in how long it is due.
    pub(crate) fn begin_discovery(&self) -> Result<(), Duration> {
        let mut state = self.state();
        let now = Moment::now();
        match state.discovery.due_in(now) {
            due_in if due_in.is_zero() => {
                state.discovery.begin(now);
                Ok(())
            }
            due_in => Err(due_in),
        }
    }

    /// Starts the task that reads the members, if this client reads them and the task does not run yet. If it runs, it
    /// looks whether a read is due: its timer stands still while the machine is suspended.
    pub(crate) fn start_reader(&self, start: impl FnOnce() -> AbortHandle) {
        if self.discover {
            self.reader.get_or_init(start);
            let is_due = self.state().discovery.due_in(Moment::now()).is_zero();
            self.wake_reader(is_due);
        }
    }

    /// Notified if the next read of the members is due earlier than before.
    pub(crate) fn hastened(&self) -> Arc<Notify> {
        Arc::clone(&self.hastened)
    }

    /// Whether the client may use an address that the cluster reports.
    fn may_learn(&self, endpoint: &Endpoint) -> bool {
        endpoint.has_tls() || !self.tls_only
    }

    /// Notes the members that the cluster reports. The addresses from the program always stay.
    pub(crate) fn discovered(&self, urls: &[String]) {
        let parsed = urls.iter().filter_map(|url| Endpoint::parse(url).ok());
        let named: Vec<Endpoint> = parsed.filter(|endpoint| self.may_learn(endpoint)).collect();
        let mut state = self.state();
        let now = Moment::now();
        let answers = |known: &KnownEndpoint| known.answered_at.is_some_and(|at| now < at.plus(ANSWERED_LATELY));
        state.known.retain(|known| known.given || named.contains(&known.endpoint) || answers(known));
        named.into_iter().for_each(|endpoint| state.learn(endpoint));
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
        assert!(all.begin_discovery().is_ok() && all.begin_discovery().is_err());
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
    fn the_members_are_read_sooner_after_a_failure_an_unknown_leader_or_another_number_of_the_members() {
        type Sign = fn(&Endpoints, &Endpoint);
        let a = Endpoint::parse("http://a:1").unwrap();
        let signs: [(&str, bool, Sign); 5] = [
            ("a failure", true, |all, a| all.failed(a)),
            ("an unknown leader", true, |all, a| all.answered(a, Some("http://d:1"))),
            ("a known leader", false, |all, a| all.answered(a, Some("http://a:1"))),
            ("another number", true, |all, _| all.heard_of_members(2)),
            ("the same number", false, |all, _| all.heard_of_members(1)),
        ];
        for (sign, is_sooner, note) in signs {
            let all = endpoints(&["http://a:1"]);
            assert!(all.begin_discovery().is_ok());
            all.heard_of_members(1);
            let before = all.begin_discovery().unwrap_err();
            note(&all, &a);
            let after = all.begin_discovery().unwrap_err();
            assert_eq!(after < before / 2, is_sooner, "{sign}: {before:?}, {after:?}");
        }
    }

    #[test]
    fn an_unknown_leader_is_used_at_once_unless_the_client_may_not() {
        let answer = |given: &[&str], discover: bool, leader: &str| {
            let given: Vec<Endpoint> = given.iter().map(|url| Endpoint::parse(url).unwrap()).collect();
            let (first, all) = (given[0].clone(), Endpoints::new(given, discover).unwrap());
            all.answered(&first, Some(leader));
            names(all.order(Prefer::Leader))
        };
        assert_eq!(answer(&["http://a:1", "http://b:1"], true, "http://d:1/")[0], "http://d:1");
        assert_eq!(answer(&["http://a:1"], false, "http://d:1"), ["http://a:1"], "the program turned it off");
        assert_eq!(answer(&["https://a:1"], true, "http://d:1"), ["https://a:1"], "it would get the token without TLS");
        assert_eq!(answer(&["http://a:1"], true, "nonsense"), ["http://a:1"]);
    }
}
