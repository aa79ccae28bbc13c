//! The rights that a command needs, for the node that decides. `apply` never evaluates them.

use crate::{
    State,
    command::Command,
    read::GrantStatus,
    request::Acquire,
    write::{Condition, Operation, SessionKey, Transact},
};
use fairhold_access::{Need, Verb};
use fairhold_types::{Mode, Path};

impl Acquire {
    /// The rights that it needs: each of its locks, in the mode of the request.
    #[must_use]
    pub fn needs(&self) -> Vec<Need<'_>> {
        let verb = |mode| if mode == Mode::Shared { Verb::Share } else { Verb::Acquire };
        self.wants.iter().map(|want| Need::on_lock(verb(want.mode), &want.lock).with_priority(self.priority)).collect()
    }
}

impl Command {
    /// Whether its needs depend on the state: on the locks of a grant, or on the parents that do not exist.
    #[must_use]
    pub fn needs_depend_on_state(&self) -> bool {
        let Command::Transact(transact) = self else { return matches!(self, Command::Upgrade { .. }) };
        let mut operations = transact.then.iter().chain(transact.otherwise.iter().flatten());
        operations.any(|operation| match operation {
            Operation::Put { parents, .. } | Operation::Create { parents, .. } | Operation::CreateSequential { parents, .. } => {
                *parents
            }
            Operation::Set { .. } | Operation::Delete { .. } | Operation::Check { .. } => false,
        })
    }
}

impl State {
    /// The rights that a command needs. It needs all of them. A command whose caller shows an id needs none, and neither
    /// does opening a session: for these, any credential is enough.
    ///
    /// An upgrade names no lock, so its needs are those of the grant in this state. For a grant that this state does not
    /// know, the node that decides must not propose it.
    #[must_use]
    pub fn needs_of<'c>(&self, command: &'c Command) -> Vec<Need<'c>> {
        match command {
            Command::Guarded(guarded) => self.needs_of(guarded.command()),
            Command::Attributed(attributed) => self.needs_of(attributed.command()),
            Command::ForTenant(of) => self.needs_of(of.command()),
            Command::Acquire(acquire) => acquire.needs(),
            Command::Transact(transact) => self.needs_of_transaction(transact),
            Command::Upgrade { grant, .. } => match self.grant(grant) {
                GrantStatus::Live(contender) => {
                    contender.locks().map(|lock| Need::on_lock(Verb::Acquire, lock).into_owned()).collect()
                }
                GrantStatus::Ended(_) | GrantStatus::Unknown => Vec::new(),
            },
            Command::Proclaim(request) => vec![Need::on_lock(Verb::Acquire, &request.election)],
            Command::Break(request) => vec![Need::on_lock(Verb::Break, &request.lock)],
            Command::SetLock(request) => vec![Need::on_lock(Verb::Set, &request.lock)],
            Command::Revoke(request) => vec![Need::on_lock(Verb::Revoke, &request.lock)],
            Command::EndSession { .. } => vec![Need::unnamed(Verb::End)],
            Command::CreateJoinToken(_)
            | Command::RevokeJoinToken { .. }
            | Command::RequestRemoval(_)
            | Command::SetMember(_)
            | Command::SetTiming { .. } => vec![Need::unnamed(Verb::Operate)],
            Command::ChangeAccess(_) => vec![Need::unnamed(Verb::Admin)],
            Command::OpenSession(_)
            | Command::CloseSession { .. }
            | Command::Withdraw { .. }
            | Command::Abandon { .. }
            | Command::Release { .. }
            | Command::SetGrantTimeout { .. }
            | Command::Downgrade { .. }
            | Command::EndUpgrade { .. }
            | Command::ExpireSession { .. }
            | Command::EndCooling { .. }
            | Command::Forget { .. }
            | Command::ForgetLocks { .. }
            | Command::Sweep { .. }
            | Command::ForgetHistory { .. }
            | Command::EndHolds { .. }
            | Command::ContinuePendingWork { .. }
            | Command::ExpireTokens { .. }
            | Command::FormCluster { .. }
            | Command::FormClusterAt { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::RecordKey { .. }
            | Command::RecordCapacity { .. }
            | Command::AdmitNode(_)
            | Command::SettleJoin { .. }
            | Command::RecordRemoval { .. }
            | Command::NoteAct(_) => Vec::new(),
        }
    }

    /// A transaction needs to read what its conditions name, and to write what either branch writes: which branch runs
    /// tells whether the conditions hold.
    fn needs_of_transaction<'c>(&self, transact: &'c Transact) -> Vec<Need<'c>> {
        let mut needs: Vec<Need<'c>> = Vec::new();
        for condition in &transact.conditions {
            match condition {
                Condition::Fence { lock, .. } => needs.push(Need::on_lock(Verb::Fence, lock)),
                Condition::Version { path, .. } | Condition::Exists { path } => needs.push(Need::read(path)),
                // An id is a secret, but a number can be guessed.
                Condition::Session { session: SessionKey::Number(_) } => needs.push(Need::unnamed(Verb::Status)),
                Condition::Session { session: SessionKey::Id(_) } => {}
            }
        }
        for operation in transact.then.iter().chain(transact.otherwise.iter().flatten()) {
            match operation {
                Operation::Put { path, parents, .. } | Operation::Create { path, parents, .. } => {
                    needs.push(Need::write(path));
                    needs.extend(self.needs_of_parents(path.parent(), *parents));
                }
                Operation::CreateSequential { parent, parents, .. } => {
                    needs.push(Need::write_child(parent));
                    needs.extend(self.needs_of_parents(Some(parent.clone()), *parents));
                }
                Operation::Set { path, .. } | Operation::Delete { path, recursive: false, .. } => needs.push(Need::write(path)),
                Operation::Delete { path, recursive: true, .. } => needs.push(Need::write_below(path)),
                Operation::Check { path, .. } => needs.push(Need::read(path)),
            }
        }
        needs
    }

    /// The parents that a write creates, as far as this state knows.
    fn needs_of_parents(&self, first: Option<Path>, creates: bool) -> Vec<Need<'static>> {
        let mut needs = Vec::new();
        let mut next = first.filter(|_| creates);
        while let Some(path) = next {
            if self.node(&path).is_some() {
                break;
            }
            needs.push(Need::write(&path).into_owned());
            next = path.parent();
        }
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{IfBusy, Meta, OpenSession, Want},
        request_for_tests::acquire_in,
        value::Value,
        write::Lifetime,
    };
    use fairhold_types::{FencingToken, GrantId, LockName, SessionId, SessionNumber, time::WallMillis};

    const AT: WallMillis = WallMillis(1_000);
    const SESSION: SessionId = SessionId(7);

    fn needs(state: &State, command: &Command) -> Vec<String> {
        state.needs_of(command).iter().map(Need::to_string).collect()
    }

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    fn acquire(locks: &[(&str, Mode)], priority: i32) -> Command {
        let want = |(name, mode): &(&str, Mode)| Want { lock: LockName::parse(name).unwrap(), mode: *mode };
        let wants = locks.iter().map(want).collect();
        let acquire = acquire_in(SESSION, GrantId::from_ulid(1), &[], Mode::Exclusive);
        Command::Acquire(Acquire { wants, if_busy: IfBusy::Refuse, priority, at: AT, ..acquire })
    }

    fn transaction(conditions: Vec<Condition>, then: Vec<Operation>, otherwise: Option<Vec<Operation>>) -> Command {
        Command::Transact(Transact { key: None, conditions, then, otherwise, at: AT })
    }

    fn put(text: &str, parents: bool) -> Operation {
        Operation::Put { path: path(text), value: Value::from(&b""[..]), parents, lifetime: Lifetime::Persistent }
    }

    #[test]
    fn an_acquire_needs_each_of_its_locks_in_its_mode_and_with_its_priority() {
        let state = State::new();
        let several = acquire(&[("a", Mode::Exclusive), ("b/c", Mode::Shared)], 0);
        assert_eq!(needs(&state, &several), ["acquire on locks:a", "share on locks:b/c"]);
        assert_eq!(needs(&state, &acquire(&[("a", Mode::Exclusive)], 7)), ["acquire,priority<=7 on locks:a"]);
        assert_eq!(needs(&state, &acquire(&[("a", Mode::Exclusive)], -7)), ["acquire on locks:a"]);
    }

    #[test]
    fn an_upgrade_needs_the_locks_of_its_grant() {
        let mut state = State::new();
        let open = OpenSession { key: None, id: SESSION, timeout_ms: 5_000, name: String::new(), meta: Meta::new(), at: AT };
        state.apply(&Command::OpenSession(open));
        let upgrade = Command::Upgrade { grant: GrantId::from_ulid(1), if_busy: IfBusy::Refuse, key: None, at: AT };
        assert_eq!(needs(&state, &upgrade), [""; 0], "nobody knows this grant");
        state.apply(&acquire(&[("a", Mode::Shared)], 0)).answer.result.unwrap();
        assert_eq!(needs(&state, &upgrade), ["acquire on locks:a"]);
    }

    #[test]
    fn a_transaction_needs_what_its_conditions_and_both_branches_name() {
        let mut state = State::new();
        state.apply(&transaction(Vec::new(), vec![put("/app", false)], None)).answer.result.unwrap();
        let conditions = vec![
            Condition::Fence { lock: LockName::parse("deploy").unwrap(), token: FencingToken(1), grant: None },
            Condition::Exists { path: path("/locks/a") },
            Condition::Session { session: SessionKey::Id(SESSION) },
            Condition::Session { session: SessionKey::Number(SessionNumber(7)) },
            Condition::Version { path: path("/app"), version: None },
        ];
        let then = vec![put("/app/x/y/z", true), Operation::Delete { path: path("/old"), version: None, recursive: true }];
        let parent = path("/jobs");
        let value = Value::from(&b""[..]);
        let lifetime = Lifetime::Persistent;
        let sequential = Operation::CreateSequential { parent, prefix: String::new(), value, parents: true, lifetime };
        let otherwise = vec![sequential, Operation::Check { path: path("/app"), version: None }];
        assert_eq!(
            needs(&state, &transaction(conditions, then, Some(otherwise))),
            [
                "fence on locks:deploy",
                "inspect on locks:a",
                "status on cluster",
                "read on nodes:app",
                "write on nodes:app/x/y/z",
                "write on nodes:app/x/y",
                "write on nodes:app/x",
                "write on nodes:old/**",
                "write on nodes:jobs/*",
                "write on nodes:jobs",
                "read on nodes:app",
            ]
        );
    }
}
