//! What is there when a watch begins: read from a copy of the state, page by page, in the time that a reader is given.

use crate::{api::CallError, change::Subject, node::Node, scope::Scope};
use fairhold_state::{
    State,
    record::{Contender, Role},
};
use fairhold_types::{FencingToken, GrantNumber, LockName, Path, SessionNumber, dto::Standing, limits::INITIAL_WITHIN};
use openraft_rt::AsyncRuntime;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// Nodes or sessions that are looked at for one page.
const PAGE: usize = 256;

/// Something that was there when a watch began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum There {
    /// A node of the tree.
    Node {
        /// The node.
        path: Path,
        /// Its version.
        version: i32,
    },
    /// One who stands in a lock.
    Contender(ThereContender),
    /// A session.
    Session {
        /// Its number.
        number: SessionNumber,
        /// Its timeout.
        timeout: Duration,
        /// Its name.
        name: String,
    },
}

/// One who stands in a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThereContender {
    /// The lock.
    pub lock: LockName,
    /// The grant.
    pub number: GrantNumber,
    /// Whether it holds, waits or cools.
    pub standing: Standing,
    /// Its token, while it holds.
    pub token: Option<FencingToken>,
    /// Its session.
    pub session: SessionNumber,
    /// Who owns it, for people.
    pub owner: String,
}

/// What is still to be told of it.
pub(crate) struct Initial {
    /// Taken away from a reader that is too slow: an old state costs more, the more has changed since.
    state: Arc<Mutex<Option<State>>>,
    left: VecDeque<Part>,
    _reading: oneshot::Sender<()>,
}

/// A scope, and the last that was looked at in it.
enum Part {
    Tree {
        scope: Scope,
        from: Path,
        after: Option<Path>,
    },
    /// With the grants of one session, but for those that another scope tells of.
    Sessions {
        scope: Scope,
        after: SessionNumber,
        others: Vec<Scope>,
    },
}

impl Initial {
    pub(crate) fn new<RT: AsyncRuntime>(node: &Node<RT>, state: State, scopes: Vec<Scope>) -> Initial {
        let (reading, mut read) = oneshot::channel();
        let state = Arc::new(Mutex::new(Some(state)));
        let (lent, stop) = (Arc::clone(&state), node.0.stop.clone());
        node.0.tasks.spawn::<RT>(async move {
            tokio::select! {
                biased;
                _ = &mut read => {}
                () = stop.asked() => {}
                () = RT::sleep(INITIAL_WITHIN) => drop(lent.lock().unwrap_or_else(PoisonError::into_inner).take()),
            }
        });
        Initial { state, left: scopes.iter().map(|scope| Part::new(scope, &scopes)).collect(), _reading: reading }
    }

    /// The next page, which may be empty; `None` at the end.
    pub(crate) fn page(&mut self) -> Result<Option<Vec<There>>, CallError> {
        let Some(part) = self.left.front_mut() else { return Ok(None) };
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = state.as_ref().ok_or(CallError::WatcherTooSlow)?;
        let (page, more) = part.page(state);
        if !more {
            self.left.pop_front();
        }
        Ok(Some(page))
    }
}

impl Part {
    fn new(scope: &Scope, all: &[Scope]) -> Part {
        let scope = scope.clone();
        let from = match &scope {
            Scope::Node(path) | Scope::Children(path) | Scope::Subtree(path) => path.clone(),
            Scope::Lock(lock) | Scope::LocksBelow(lock) | Scope::Leader(lock) => lock.path(),
            Scope::Locks => Path::root().child("locks"),
            Scope::Session(number) => {
                let after = SessionNumber(number.0.saturating_sub(1));
                let others = all.iter().filter(|other| **other != scope).cloned().collect();
                return Part::Sessions { scope, after, others };
            }
            Scope::Sessions => return Part::Sessions { scope, after: SessionNumber(0), others: Vec::new() },
        };
        Part::Tree { scope, from, after: None }
    }

    /// Its next page, and whether there is more.
    fn page(&mut self, state: &State) -> (Vec<There>, bool) {
        match self {
            Part::Tree { scope, from, after } => {
                let (mut page, mut seen) = (Vec::new(), 0);
                let begin = after.clone();
                let beginning = |path: &Path| path.as_str().starts_with(from.as_str());
                let nodes = state.nodes_after(begin.as_ref(), from).take_while(|(path, _)| beginning(path));
                for (path, node) in nodes.take(PAGE) {
                    seen += 1;
                    *after = Some(path.clone());
                    let there = match &node.role {
                        Role::Data if scope.covers(Subject::Node(path)) && !path.is_under_locks() => {
                            There::Node { path: path.clone(), version: node.version }
                        }
                        Role::Contender(contender) if scope.covers(Subject::Lock(&contender.lock)) => {
                            There::Contender(ThereContender::of(contender))
                        }
                        Role::Data | Role::Contender(_) | Role::Lock(_) => continue,
                    };
                    page.push(there);
                }
                (page, seen == PAGE && !matches!(scope, Scope::Node(_)))
            }
            Part::Sessions { scope, after, others } => {
                let (mut page, mut seen) = (Vec::new(), 0);
                for session in state.sessions_after(*after).take(PAGE) {
                    seen += 1;
                    *after = session.number;
                    if scope.covers(Subject::Session(session.number)) {
                        let timeout = Duration::from_millis(session.timeout_ms);
                        page.push(There::Session { number: session.number, timeout, name: session.name.to_string() });
                        page.extend(grants_of(state, scope, others));
                    }
                }
                (page, seen == PAGE && matches!(scope, Scope::Sessions))
            }
        }
    }
}

/// The grants of a session, where that one alone is watched.
fn grants_of<'a>(state: &'a State, scope: &Scope, others: &'a [Scope]) -> impl Iterator<Item = There> + 'a {
    let session = if let Scope::Session(session) = scope { Some(*session) } else { None };
    let grants = session.into_iter().flat_map(|session| state.contenders_of(session));
    let elsewhere = |lock: &LockName| others.iter().any(move |other| other.covers(Subject::Lock(lock)));
    grants.filter(move |grant| !elsewhere(&grant.lock)).map(|grant| There::Contender(ThereContender::of(grant)))
}

impl ThereContender {
    fn of(contender: &Contender) -> ThereContender {
        let token = contender.token();
        let standing = match (contender.cooling, token) {
            (true, _) => Standing::Cooling,
            (false, Some(_)) => Standing::Held,
            (false, None) => Standing::Queued,
        };
        ThereContender {
            lock: contender.lock.clone(),
            number: contender.number,
            standing,
            token,
            session: contender.session,
            owner: contender.owner.text.clone(),
        }
    }
}
