//! The names that events and answers reveal. A client knows them, and can use each where it does not belong.
//!
//! A client can name a contender's node as a lock, a forgotten lock as an election, an old token as a fence, or an
//! ended session as one to end. So no command takes its names from a fixed list alone.

use fairhold_state::{
    State,
    command::{Applied, Event, Outcome, Rejection},
};
use fairhold_types::{FencingToken, GrantNumber, LockName, Path, SessionNumber};
use rand::{RngExt, rngs::SmallRng};

/// How many of each kind are remembered.
const KNOWN_MAX: usize = 64;
/// No path longer than this gets a child; otherwise names would grow forever.
const LONG: usize = 40;

/// The names revealed lately, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    paths: Vec<Path>,
    grants: Vec<GrantNumber>,
    sessions: Vec<SessionNumber>,
    tokens: Vec<FencingToken>,
    owners: Vec<String>,
}

fn note<T: PartialEq>(all: &mut Vec<T>, new: T) {
    if all.contains(&new) {
        return;
    }
    if all.len() >= KNOWN_MAX {
        all.remove(0);
    }
    all.push(new);
}

fn pick<T: Clone>(from: &[T], rng: &mut SmallRng) -> Option<T> {
    if from.is_empty() { None } else { Some(from[rng.random_range(0..from.len())].clone()) }
}

impl KnownNames {
    /// Records all names in an answer and in the events of a change; `state` is the one after it.
    pub(crate) fn learn(&mut self, state: &State, applied: &Applied) {
        applied.events.iter().for_each(|event| self.learn_event(state, event));
        match &applied.answer.result {
            Ok(Outcome::Held(held)) => {
                note(&mut self.grants, held.number);
                note(&mut self.tokens, held.token);
                note(&mut self.sessions, held.session);
            }
            Ok(Outcome::Queued(queued)) => {
                note(&mut self.grants, queued.number);
                note(&mut self.sessions, queued.session);
            }
            Err(Rejection::LockHeld { holder, .. }) => {
                note(&mut self.grants, holder.number);
                note(&mut self.owners, holder.owner.clone());
                holder.token.into_iter().for_each(|token| note(&mut self.tokens, token));
            }
            Err(Rejection::StaleToken { current: Some(token) }) => note(&mut self.tokens, *token),
            Err(Rejection::WouldDeadlock { cycle }) => {
                for blocked in cycle {
                    note(&mut self.sessions, blocked.session);
                    note(&mut self.owners, blocked.owner.clone());
                }
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn learn_event(&mut self, state: &State, event: &Event) {
        match event {
            Event::SessionOpened { session, .. }
            | Event::SessionRetimed { session, .. }
            | Event::SessionClosed { session }
            | Event::SessionExpired { session } => note(&mut self.sessions, *session),
            Event::Granted { lock, grant, token } | Event::Proclaimed { lock, grant, token, .. } => {
                note(&mut self.tokens, *token);
                self.learn_grant(state, lock, *grant);
            }
            Event::Ended { lock, grant, session, .. } => {
                note(&mut self.sessions, *session);
                self.learn_grant(state, lock, *grant);
            }
            Event::Queued { lock, grant }
            | Event::Attached { lock, grant, .. }
            | Event::Cooling { lock, grant, .. }
            | Event::Cooled { lock, grant }
            | Event::Downgraded { lock, grant }
            | Event::Upgrading { lock, grant }
            | Event::UpgradeEnded { lock, grant }
            | Event::Vacated { lock, grant }
            | Event::Holds { lock, grant, .. }
            | Event::Revoked { lock, grant, .. } => self.learn_grant(state, lock, *grant),
            Event::Broken { lock, .. } | Event::LockForgotten { lock } | Event::LockSet { lock, .. } => {
                note(&mut self.paths, lock.path());
            }
            Event::NodeCreated { path }
            | Event::NodeChanged { path, .. }
            | Event::NodeDeleted { path, .. }
            | Event::ChildrenChanged { path, .. } => note(&mut self.paths, path.clone()),
            Event::Cluster(_) => {}
        }
    }

    /// The lock, and the contenders' nodes below it, as a list of its children shows them.
    fn learn_grant(&mut self, state: &State, lock: &LockName, grant: GrantNumber) {
        note(&mut self.grants, grant);
        note(&mut self.paths, lock.path());
        state.children(&lock.path(), None).take(4).for_each(|(path, _)| note(&mut self.paths, path.clone()));
    }

    /// A known path, its parent, or a child of it.
    pub(crate) fn path(&self, rng: &mut SmallRng) -> Option<Path> {
        let path = pick(&self.paths, rng)?;
        Some(match rng.random_range(0..4) {
            0 => path.parent().unwrap_or(path),
            1 if path.as_str().len() < LONG => path.child(["x", "n-0000000000", "1-lock-0000000000"][rng.random_range(0..3)]),
            _ => path,
        })
    }

    /// A lock of such a path: often one with a contender's name.
    pub(crate) fn lock(&self, rng: &mut SmallRng) -> Option<LockName> {
        self.path(rng)?.lock_name()
    }

    pub(crate) fn grant(&self, rng: &mut SmallRng) -> Option<GrantNumber> {
        pick(&self.grants, rng)
    }

    pub(crate) fn session(&self, rng: &mut SmallRng) -> Option<SessionNumber> {
        pick(&self.sessions, rng)
    }

    pub(crate) fn token(&self, rng: &mut SmallRng) -> Option<FencingToken> {
        pick(&self.tokens, rng)
    }

    pub(crate) fn owner(&self, rng: &mut SmallRng) -> Option<String> {
        pick(&self.owners, rng)
    }
}
