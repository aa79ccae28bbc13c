//! Commands that cause trouble for a lock's contenders: a limit below the permits held, a change of mode next to other
//! holders, the end of a grant that waits for its upgrade.

use super::{Commands, LOCKS};
use fairhold_state::{
    State,
    command::{Command, IfBusy, Revoke, SetLock, Want},
    read::LockView,
    record::Contender,
};
use fairhold_types::{GrantId, LockName, Mode, time::WallMillis};
use rand::RngExt;

/// A held lock, and the random choices for it.
struct HeldLock<'a> {
    lock: LockName,
    view: LockView<'a>,
    limit: u32,
    permits: u32,
    /// One of its holders.
    other: GrantId,
    /// Selects one of these commands.
    choice: u32,
    /// A bound for its hold, or none.
    bound: Option<u64>,
    at: WallMillis,
}

impl HeldLock<'_> {
    fn set(&self, limit: Option<u32>, max_hold_ms: Option<u64>) -> Command {
        let (lock, by) = (self.lock.clone(), "an administrator".to_owned());
        Command::SetLock(SetLock { key: None, lock, limit, max_waiters: None, max_hold_ms, by, at: self.at })
    }
}

fn permits(view: &LockView<'_>) -> u32 {
    view.holders.iter().map(|holder| holder.permits).sum()
}

/// Whether more is held than the limit, a grant waits for its upgrade, or several holders share.
fn is_awkward(view: &LockView<'_>) -> bool {
    let over = permits(view) > view.limit.unwrap_or(1) && view.holders.iter().all(|one| one.mode == Mode::Exclusive);
    over || view.holders.iter().any(|holder| holder.upgrading || (holder.mode == Mode::Shared && view.holders.len() > 1))
}

impl Commands {
    pub(super) fn provoke(&mut self, state: &State) -> Option<Command> {
        let locks = LOCKS.map(|name| LockName::parse(name).expect("a fixed name"));
        let held: Vec<LockName> = locks.into_iter().filter(|lock| !state.lock(lock).holders.is_empty()).collect();
        let awkward: Vec<LockName> = held.iter().filter(|lock| is_awkward(&state.lock(lock))).cloned().collect();
        let lock = self.pick(&awkward).filter(|_| !self.one_in(3)).or_else(|| self.pick(&held))?;
        let view = state.lock(&lock);
        let grants: Vec<GrantId> = view.holders.iter().map(|holder| holder.grant).collect();
        let other = self.pick(&grants)?;
        if self.one_in(12) {
            return self.set_a_contender(state, &lock);
        }
        let (limit, permits) = (view.limit.unwrap_or(1), permits(&view));
        let bound = Some(if self.one_in(2) { 0 } else { self.rng.random_range(1..4) * 1_000 });
        let (choice, at) = (self.rng.random_range(0..8), self.at());
        let spot = HeldLock { lock, view, limit, permits, other, choice, bound, at };
        if let Some(upgrading) = spot.view.holders.iter().find(|holder| holder.upgrading) {
            return Some(self.next_to_an_upgrade(state, &spot, upgrading));
        }
        if choice == 7 {
            let (key, by, reason) = (self.change_key(state), String::new(), self.reason());
            return Some(Command::Revoke(Revoke { key, lock: spot.lock, by, reason, at }));
        }
        if spot.view.holders.iter().all(|holder| holder.mode == Mode::Shared) {
            return Some(self.next_to_readers(state, &spot));
        }
        self.next_to_exclusive_holders(state, &spot)
    }

    /// Changes the settings of a contender's node as if it were a lock.
    fn set_a_contender(&mut self, state: &State, lock: &LockName) -> Option<Command> {
        let contenders = state.children(&lock.path(), None).filter_map(|(path, _)| path.lock_name());
        let lock = self.pick(&contenders.collect::<Vec<_>>())?;
        let (limit, max_waiters, max_hold_ms, by) = (Some(2), None, None, String::new());
        Some(Command::SetLock(SetLock { key: None, lock, limit, max_waiters, max_hold_ms, by, at: self.at() }))
    }

    fn next_to_an_upgrade(&mut self, state: &State, spot: &HeldLock<'_>, upgrading: &Contender) -> Command {
        let at = spot.at;
        let gives_up = Command::EndUpgrade { grant: upgrading.grant, attempt: upgrading.upgrade_attempt, at };
        let next = state.queue(&spot.lock).into_iter().map(|entry| entry.contender).find(|one| one.granted_at.is_none());
        if next.is_some_and(|next| next.mode == Mode::Shared) && self.one_in(2) {
            return gives_up;
        }
        match spot.choice {
            0 => Command::ExpireSession { session: upgrading.session, at },
            1 => self.break_of(spot.lock.clone()),
            2 => gives_up,
            3 => spot.set(None, spot.bound),
            4 => Command::Upgrade { grant: spot.other, if_busy: IfBusy::Queue, key: self.change_key(state), at },
            5 | 6 => {
                let mut reader = self.fresh_acquire(state);
                reader.wants = vec![Want { lock: spot.lock.clone(), mode: Mode::Shared }];
                (reader.limit, reader.permits, reader.priority, reader.value) = (None, 1, 3, None);
                Command::Acquire(reader)
            }
            _ => {
                let others = spot.view.holders.iter().filter(|holder| !holder.upgrading).map(|holder| holder.grant);
                let grant = self.pick(&others.collect::<Vec<_>>()).unwrap_or(spot.other);
                Command::Release { grant, session: None, at }
            }
        }
    }

    fn next_to_readers(&mut self, state: &State, spot: &HeldLock<'_>) -> Command {
        match spot.choice {
            0..=4 if spot.view.holders.len() > 1 || self.one_in(3) => {
                let key = self.change_key(state);
                Command::Upgrade { grant: spot.other, if_busy: IfBusy::Queue, key, at: spot.at }
            }
            6 => spot.set(Some(spot.limit + 1), None),
            _ => spot.set(None, spot.bound),
        }
    }

    fn next_to_exclusive_holders(&mut self, state: &State, spot: &HeldLock<'_>) -> Option<Command> {
        let limit = spot.limit;
        if spot.permits > limit && spot.choice < 4 {
            return Some(match spot.choice {
                0 => spot.set(Some(spot.permits), None),
                _ if limit > 1 => spot.set(Some(limit - 1), None),
                _ => Command::Downgrade { grant: spot.other, key: self.change_key(state), at: spot.at },
            });
        }
        match spot.choice {
            0..4 if limit > 1 => {
                let lower = if self.one_in(6) { 1 } else { limit - 1 };
                Some(spot.set(Some(lower), None))
            }
            0..3 | 6 if spot.view.waiting > 0 || spot.view.holders.len() > 1 => {
                Some(spot.set(Some(limit + self.rng.random_range(1..4)), None))
            }
            3 | 4 if limit == 1 => Some(Command::Downgrade { grant: spot.other, key: self.change_key(state), at: spot.at }),
            5 => Some(spot.set(None, spot.bound)),
            _ => None,
        }
    }
}
