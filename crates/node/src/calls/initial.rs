//! The initial state of a watch: read page by page from a copy of the state, within a time limit for the reader.

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

/// Nodes, sessions or grants that are read for one page.
const PAGE: usize = 256;

/// An item of the initial state of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitialItem {
    /// A node of the tree.
    Node {
        /// Its path.
        path: Path,
        /// Its version.
        version: i32,
    },
    /// A contender of a lock.
    Contender(InitialContender),
    /// A session.
    Session {
        /// Its public number.
        number: SessionNumber,
        /// Its timeout.
        timeout: Duration,
        /// Its name.
        name: String,
    },
}

/// A contender of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialContender {
    /// The lock.
    pub lock: LockName,
    /// The public number of its grant.
    pub number: GrantNumber,
    /// Whether it holds, waits or cools.
    pub state: GrantState,
    /// Its token while it holds the lock.
    pub token: Option<FencingToken>,
    /// The public number of its session.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: String,
}

/// The remaining pages.
pub(crate) struct InitialPages {
    /// Dropped if the reader is too slow: an old state costs more memory, the more has changed since.
    state: Arc<Mutex<Option<State>>>,
    left: VecDeque<InitialPart>,
    _open: oneshot::Sender<()>,
}

/// A filter, with the last item that was read for it.
enum InitialPart {
    Tree {
        filter: WatchFilter,
        from: Path,
        after: Option<Path>,
    },
    Sessions {
        filter: WatchFilter,
        after: SessionNumber,
    },
    /// The grants of one session, except those that another filter selects.
    Grants {
        session: SessionNumber,
        after: Option<OwnedKey>,
        others: Vec<WatchFilter>,
    },
}

impl InitialPages {
    pub(crate) fn new<RT: AsyncRuntime>(node: &Node<RT>, state: State, filters: Vec<WatchFilter>) -> InitialPages {
        let (open, mut closed) = oneshot::channel();
        let state = Arc::new(Mutex::new(Some(state)));
        let expiring = Arc::clone(&state);
        let stop = node.0.stop.clone();
        node.0.tasks.spawn::<RT>(async move {
            tokio::select! {
                biased;
                _ = &mut closed => {}
                () = stop.requested() => {}
                () = RT::sleep(INITIAL_WITHIN) => drop(expiring.lock().take()),
            }
        });
        InitialPages { state, left: filters.iter().flat_map(|filter| InitialPart::of(filter, &filters)).collect(), _open: open }
    }

    /// The next page, which may be empty; `None` at the end.
    pub(crate) fn page(&mut self) -> Result<Option<Vec<InitialItem>>, CallError> {
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
    fn of(filter: &WatchFilter, all: &[WatchFilter]) -> Vec<InitialPart> {
        let filter = filter.clone();
        let from = match &filter {
            WatchFilter::Node(path) | WatchFilter::Children(path) | WatchFilter::Subtree(path) => path.clone(),
            WatchFilter::Lock(lock) | WatchFilter::LocksBelow(lock) | WatchFilter::Leader(lock) => lock.path(),
            WatchFilter::Locks => Path::root().child("locks"),
            WatchFilter::Session(session) => {
                let session = *session;
                let after = SessionNumber(session.0.saturating_sub(1));
                let others = all.iter().filter(|other| **other != filter).cloned().collect();
                return vec![InitialPart::Sessions { filter, after }, InitialPart::Grants { session, after: None, others }];
            }
            // Raft's membership is the list of members, and the state has only its changes.
            WatchFilter::Cluster => return Vec::new(),
            WatchFilter::Sessions => return vec![InitialPart::Sessions { filter, after: SessionNumber(0) }],
        };
        vec![InitialPart::Tree { filter, from, after: None }]
    }

    /// Its next page, and whether more pages follow.
    fn page(&mut self, state: &State) -> (Vec<InitialItem>, bool) {
        match self {
            InitialPart::Tree { filter, from, after } => {
                let mut page = Vec::new();
                let mut read = 0;
                let start = after.clone();
                let is_below = |path: &Path| path.as_str().starts_with(from.as_str());
                let nodes = state.nodes_after(start.as_ref(), from).take_while(|(path, _)| is_below(path));
                for (path, node) in nodes.take(PAGE) {
                    read += 1;
                    *after = Some(path.clone());
                    let item = match &node.role {
                        NodeRole::Data if filter.covers(Subject::Node(path)) && !path.is_under_locks() => {
                            InitialItem::Node { path: path.clone(), version: node.version }
                        }
                        NodeRole::Contender(contender) if filter.covers(Subject::Lock(&contender.lock)) => {
                            InitialItem::Contender(InitialContender::of(contender))
                        }
                        NodeRole::Data | NodeRole::Contender(_) | NodeRole::Lock(_) => continue,
                    };
                    page.push(item);
                }
                (page, read == PAGE && !matches!(filter, WatchFilter::Node(_)))
            }
            InitialPart::Sessions { filter, after } => {
                let mut page = Vec::new();
                let mut read = 0;
                for session in state.sessions_after(*after).take(PAGE) {
                    read += 1;
                    *after = session.number;
                    if filter.covers(Subject::Session(session.number)) {
                        let timeout = Duration::from_millis(session.timeout_ms);
                        page.push(InitialItem::Session { number: session.number, timeout, name: session.name.to_string() });
                    }
                }
                (page, read == PAGE && matches!(filter, WatchFilter::Sessions))
            }
            InitialPart::Grants { session, after, others } => {
                let mut page = Vec::new();
                let mut read = 0;
                for (key, grant, _) in state.grants_after(*session, *after).take(PAGE) {
                    read += 1;
                    *after = Some(key);
                    // A grant of several locks is one item, with its first lock.
                    let is_selected_elsewhere = others.iter().any(|other| other.covers(Subject::Lock(&grant.lock)));
                    if key.lock == 0 && !is_selected_elsewhere {
                        page.push(InitialItem::Contender(InitialContender::of(grant)));
                    }
                }
                (page, read == PAGE)
            }
        }
    }
}

impl InitialContender {
    fn of(contender: &Contender) -> InitialContender {
        let token = contender.token();
        let state = match (contender.cooling, token) {
            (true, _) => GrantState::Cooling,
            (false, Some(_)) => GrantState::Held,
            (false, None) => GrantState::Queued,
        };
        InitialContender {
            lock: contender.lock.clone(),
            number: contender.number,
            state,
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
        state.apply(&command).answer.result.unwrap()
    }

    /// A session that holds this many locks.
    fn holder_of(locks: u32) -> (State, SessionNumber) {
        let mut state = State::new();
        let open = OpenSession { key: None, id: ID, timeout_ms: 10_000, name: String::new(), meta: Meta::new(), at: AT };
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

    /// All items, page by page.
    fn items(state: &State, filters: &[WatchFilter]) -> Vec<InitialItem> {
        let mut all = Vec::new();
        for mut part in filters.iter().flat_map(|filter| InitialPart::of(filter, filters)) {
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
    fn each_grant_of_a_session_appears_once_across_pages() {
        for locks in [0, 1, 255, 256, 257, 1_000] {
            let (state, number) = holder_of(locks);
            let all = items(&state, &[WatchFilter::Session(number)]);
            assert!(
                matches!(all.first(), Some(InitialItem::Session { number: first, .. }) if *first == number),
                "the session comes first"
            );
            let names: Vec<&str> = all[1..]
                .iter()
                .map(|item| match item {
                    InitialItem::Contender(contender) => contender.lock.as_str(),
                    InitialItem::Node { .. } | InitialItem::Session { .. } => panic!("{item:?}"),
                })
                .collect();
            let expected: Vec<String> = (0..locks).map(|lock| format!("l/{lock:06}")).collect();
            assert_eq!(names, expected);
            let elsewhere =
                items(&state, &[WatchFilter::Session(number), WatchFilter::LocksBelow(LockName::parse("l").unwrap())]);
            assert_eq!(elsewhere.len(), all.len(), "a grant that two filters select appears once");
        }
    }
}
