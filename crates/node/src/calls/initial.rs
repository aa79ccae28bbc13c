//! What is there when a watch begins: read from a copy of the state, page by page, in the time that a reader is given.

use crate::{
    api::CallError,
    feed::{change::Subject, watch_filter::WatchFilter},
    node::Node,
};
use fairhold_state::{
    State,
    owned::OwnedKey,
    record::{Contender, NodeRole},
};
use fairhold_types::{FencingToken, GrantNumber, LockName, Path, SessionNumber, dto::GrantState, limits::INITIAL_WITHIN};
use openraft_rt::AsyncRuntime;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// Nodes, sessions or grants that are looked at for one page.
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
    /// A holder or waiter of a lock.
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

/// A holder or waiter of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThereContender {
    /// The lock.
    pub lock: LockName,
    /// The grant.
    pub number: GrantNumber,
    /// Whether it holds, waits or cools.
    pub standing: GrantState,
    /// Its token while it holds the lock.
    pub token: Option<FencingToken>,
    /// Its session.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: String,
}

/// What is still to be told of it.
pub(crate) struct Initial {
    /// Taken away from a reader that is too slow: an old state costs more, the more has changed since.
    state: Arc<Mutex<Option<State>>>,
    left: VecDeque<InitialPart>,
    _reading: oneshot::Sender<()>,
}

/// A scope, and the last that was looked at in it.
enum InitialPart {
    Tree {
        scope: WatchFilter,
        from: Path,
        after: Option<Path>,
    },
    Sessions {
        scope: WatchFilter,
        after: SessionNumber,
    },
    /// The grants of one session, but for those that another scope tells of.
    Grants {
        session: SessionNumber,
        after: Option<OwnedKey>,
        others: Vec<WatchFilter>,
    },
}

impl Initial {
    pub(crate) fn new<RT: AsyncRuntime>(node: &Node<RT>, state: State, scopes: Vec<WatchFilter>) -> Initial {
        let (reading, mut read) = oneshot::channel();
        let state = Arc::new(Mutex::new(Some(state)));
        let (lent, stop) = (Arc::clone(&state), node.0.stop.clone());
        node.0.tasks.spawn::<RT>(async move {
            tokio::select! {
                biased;
                _ = &mut read => {}
                () = stop.requested() => {}
                () = RT::sleep(INITIAL_WITHIN) => drop(lent.lock().take()),
            }
        });
        Initial { state, left: scopes.iter().flat_map(|scope| InitialPart::of(scope, &scopes)).collect(), _reading: reading }
    }

    /// The next page, which may be empty; `None` at the end.
    pub(crate) fn page(&mut self) -> Result<Option<Vec<There>>, CallError> {
        let Some(part) = self.left.front_mut() else { return Ok(None) };
        let state = self.state.lock();
        let state = state.as_ref().ok_or(CallError::WatcherTooSlow)?;
        let (page, more) = part.page(state);
        if !more {
            self.left.pop_front();
        }
        Ok(Some(page))
    }
}

impl InitialPart {
    fn of(scope: &WatchFilter, all: &[WatchFilter]) -> Vec<InitialPart> {
        let scope = scope.clone();
        let from = match &scope {
            WatchFilter::Node(path) | WatchFilter::Children(path) | WatchFilter::Subtree(path) => path.clone(),
            WatchFilter::Lock(lock) | WatchFilter::LocksBelow(lock) | WatchFilter::Leader(lock) => lock.path(),
            WatchFilter::Locks => Path::root().child("locks"),
            WatchFilter::Session(session) => {
                let (session, after) = (*session, SessionNumber(session.0.saturating_sub(1)));
                let others = all.iter().filter(|other| **other != scope).cloned().collect();
                return vec![InitialPart::Sessions { scope, after }, InitialPart::Grants { session, after: None, others }];
            }
            WatchFilter::Sessions => return vec![InitialPart::Sessions { scope, after: SessionNumber(0) }],
        };
        vec![InitialPart::Tree { scope, from, after: None }]
    }

    /// Its next page, and whether there is more.
    fn page(&mut self, state: &State) -> (Vec<There>, bool) {
        match self {
            InitialPart::Tree { scope, from, after } => {
                let (mut page, mut seen) = (Vec::new(), 0);
                let begin = after.clone();
                let beginning = |path: &Path| path.as_str().starts_with(from.as_str());
                let nodes = state.nodes_after(begin.as_ref(), from).take_while(|(path, _)| beginning(path));
                for (path, node) in nodes.take(PAGE) {
                    seen += 1;
                    *after = Some(path.clone());
                    let there = match &node.role {
                        NodeRole::Data if scope.covers(Subject::Node(path)) && !path.is_under_locks() => {
                            There::Node { path: path.clone(), version: node.version }
                        }
                        NodeRole::Contender(contender) if scope.covers(Subject::Lock(&contender.lock)) => {
                            There::Contender(ThereContender::of(contender))
                        }
                        NodeRole::Data | NodeRole::Contender(_) | NodeRole::Lock(_) => continue,
                    };
                    page.push(there);
                }
                (page, seen == PAGE && !matches!(scope, WatchFilter::Node(_)))
            }
            InitialPart::Sessions { scope, after } => {
                let (mut page, mut seen) = (Vec::new(), 0);
                for session in state.sessions_after(*after).take(PAGE) {
                    seen += 1;
                    *after = session.number;
                    if scope.covers(Subject::Session(session.number)) {
                        let timeout = Duration::from_millis(session.timeout_ms);
                        page.push(There::Session { number: session.number, timeout, name: session.name.to_string() });
                    }
                }
                (page, seen == PAGE && matches!(scope, WatchFilter::Sessions))
            }
            InitialPart::Grants { session, after, others } => {
                let (mut page, mut seen) = (Vec::new(), 0);
                for (key, grant, _) in state.grants_after(*session, *after).take(PAGE) {
                    seen += 1;
                    *after = Some(key);
                    // A grant of several locks is told once, with its first.
                    let is_told = others.iter().any(|other| other.covers(Subject::Lock(&grant.lock)));
                    if key.lock == 0 && !is_told {
                        page.push(There::Contender(ThereContender::of(grant)));
                    }
                }
                (page, seen == PAGE)
            }
        }
    }
}

impl ThereContender {
    fn of(contender: &Contender) -> ThereContender {
        let token = contender.token();
        let standing = match (contender.cooling, token) {
            (true, _) => GrantState::Cooling,
            (false, Some(_)) => GrantState::Held,
            (false, None) => GrantState::Queued,
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

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_state::command::{Acquire, Claimant, Command, IfBusy, Meta, OpenSession, Outcome, Owner, Want};
    use fairhold_types::{GrantId, Mode, SessionId, time::WallMillis};

    const AT: WallMillis = WallMillis(1);
    const ID: SessionId = SessionId(7);

    fn applied(state: &mut State, command: Command) -> Outcome {
        state.apply(command).answer.result.unwrap()
    }

    /// A session that holds so many locks.
    fn holder_of(locks: u32) -> (State, SessionNumber) {
        let mut state = State::new();
        let (name, meta) = (String::new(), Meta::new());
        let open = OpenSession { key: None, id: ID, timeout_ms: 10_000, name, meta, at: AT };
        let Outcome::SessionOpened { number, .. } = applied(&mut state, Command::OpenSession(open)) else { panic!("not opened") };
        for lock in 0..locks {
            let acquire = Acquire {
                grant: GrantId::from_ulid(u128::from(lock) << 64 | 1),
                id_given: true,
                wants: vec![Want { lock: LockName::parse(&format!("l/{lock:06}")).unwrap(), mode: Mode::Exclusive }],
                claimant: Claimant::Session(ID),
                if_busy: IfBusy::Queue,
                limit: None,
                permits: 1,
                priority: 0,
                owner: Owner { text: String::new(), given: false },
                meta: Meta::new(),
                lock_delay_ms: 0,
                reentrant: false,
                max_hold_ms: None,
                value: None,
                at: AT,
            };
            applied(&mut state, Command::Acquire(acquire));
        }
        (state, number)
    }

    /// All that is told, page by page.
    fn told(state: &State, scopes: &[WatchFilter]) -> Vec<There> {
        let mut all = Vec::new();
        for mut part in scopes.iter().flat_map(|scope| InitialPart::of(scope, scopes)) {
            loop {
                let (page, more) = part.page(state);
                assert!(page.len() <= PAGE, "a page of {}", page.len());
                all.extend(page);
                if !more {
                    break;
                }
            }
        }
        all
    }

    #[test]
    fn a_session_with_many_grants_is_told_page_by_page_each_grant_once() {
        for locks in [0, 1, 255, 256, 257, 1_000] {
            let (state, number) = holder_of(locks);
            let all = told(&state, &[WatchFilter::Session(number)]);
            assert!(
                matches!(all.first(), Some(There::Session { number: told, .. }) if *told == number),
                "the session comes first"
            );
            let names: Vec<&str> = all[1..]
                .iter()
                .map(|there| match there {
                    There::Contender(contender) => contender.lock.as_str(),
                    There::Node { .. } | There::Session { .. } => panic!("{there:?}"),
                })
                .collect();
            let expected: Vec<String> = (0..locks).map(|lock| format!("l/{lock:06}")).collect();
            assert_eq!(names, expected);
            let elsewhere = told(&state, &[WatchFilter::Session(number), WatchFilter::LocksBelow(LockName::parse("l").unwrap())]);
            assert_eq!(elsewhere.len(), all.len(), "what another scope tells of is told once");
        }
    }
}
