//! The state's budget: its count equals a full count of the state, commands that create something are refused beyond
//! it, and commands that free something always pass.

#[path = "model/random.rs"]
mod random;

use fairhold_access::{
    Principal, Tenant, TenantNumber,
    token::{AccessTokenNumber, TokenHash},
};
use fairhold_state::{
    State,
    command::{
        AccessChange, AccessGuard, AccessRequester, Acquire, ActOrigin, AdmitNode, Applied, Break, ChangeAccess, Claimant,
        Command, CreateJoinToken, HeldGrant, IfBusy, Lifetime, Meta, NoteAct, NotedAct, NotedEnd, OpenSession, Operation,
        Outcome, Owner, Proclaim, Rejection, RequestRemoval, Revoke, SetLock, SetMember, Sweepable, Transact, Want, WriteKey,
    },
    read::GrantStatus,
    weight::{HISTORY_BYTES, REMEMBERED_BYTES, RESULT_BYTES},
};
use fairhold_types::{
    ClusterId, ClusterVersion, EndReason, GrantId, Incarnation, JoinTokenNumber, LockName, MemberRole, Mode, Path, Revision,
    SessionId, Timing, limits::RESULTS_KEPT_BYTES, time::WallMillis,
};
use random::{Commands, Profile};

const AT: WallMillis = WallMillis(1_000);
const OPEN: SessionId = SessionId(1);

fn lock(name: &str) -> LockName {
    LockName::parse(name).expect("a name")
}

fn path(text: &str) -> Path {
    Path::parse(text).expect("a path")
}

fn id(number: u128) -> GrantId {
    GrantId::from_ulid(number)
}

fn key(number: u128) -> WriteKey {
    WriteKey { key: id(number), fingerprint: [1; 16] }
}

fn is_full(applied: &Applied) -> bool {
    matches!(applied.answer.result, Err(Rejection::StateFull { .. }))
}

fn acquire(name: &str, grant: u128, mode: Mode) -> Acquire {
    Acquire {
        grant: id(grant),
        id_given: true,
        wants: vec![Want { lock: lock(name), mode }],
        claimant: Claimant::Session(OPEN),
        if_busy: IfBusy::Queue,
        limit: None,
        permits: 1,
        priority: 0,
        owner: Owner { text: format!("owner-{grant}"), given: true },
        meta: Meta::new(),
        lock_delay_ms: 0,
        reentrant: false,
        max_hold_ms: None,
        value: None,
        at: AT,
    }
}

fn open(session: u128) -> Command {
    let meta = Meta::new();
    Command::OpenSession(OpenSession {
        key: Some(id(900 + session)),
        id: SessionId(session),
        timeout_ms: 15_000,
        name: String::new(),
        meta,
        at: AT,
    })
}

fn write(key: Option<WriteKey>, then: Vec<Operation>) -> Command {
    Command::Transact(Transact { key, conditions: Vec::new(), then, otherwise: None, at: AT })
}

fn put(at: &str, bytes: usize) -> Operation {
    Operation::Put { path: path(at), value: vec![7; bytes].into(), parents: true, lifetime: Lifetime::Persistent }
}

fn delete(at: &str) -> Operation {
    Operation::Delete { path: path(at), version: None, recursive: true }
}

fn done(state: &mut State, command: Command) -> Outcome {
    let applied = state.apply(&command);
    state.check().expect("it is sound");
    applied.answer.result.expect("it is done")
}

/// A state in which every command has something to do, at about revision 40.
fn populated() -> State {
    let mut state = State::with_piece_steps(64);
    done(&mut state, Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) });
    done_to_access(&mut state);
    for session in [1, 2, 3, 4] {
        done(&mut state, open(session));
    }
    for (name, grant) in [("held", 11), ("held", 12), ("broken", 13), ("upgraded", 15), ("downgraded", 16), ("asked", 17)] {
        let mode = if name == "upgraded" { Mode::Shared } else { Mode::Exclusive };
        done(&mut state, Command::Acquire(acquire(name, grant, mode)));
    }
    done(&mut state, Command::Acquire(acquire("upgraded", 18, Mode::Shared)));
    done(&mut state, Command::Acquire(Acquire { max_hold_ms: Some(1_000), ..acquire("bounded", 19, Mode::Exclusive) }));
    done(&mut state, Command::Acquire(Acquire { value: Some(vec![1]), ..acquire("led", 20, Mode::Exclusive) }));
    let alone = Claimant::Anonymous { timeout_ms: 1_000 };
    done(&mut state, Command::Acquire(Acquire { claimant: alone, ..acquire("alone", 21, Mode::Exclusive) }));
    let cools = Acquire { max_hold_ms: Some(1_000), lock_delay_ms: 1_000, ..acquire("cools", 22, Mode::Exclusive) };
    let Outcome::Held(HeldGrant { number, token, .. }) = done(&mut state, Command::Acquire(cools)) else { panic!("it is free") };
    done(&mut state, Command::EndHolds { holds: vec![(number, token)], at: AT });
    for number in 0..40 {
        done(&mut state, Command::Acquire(acquire(&format!("many/{number}"), 100 + number, Mode::Exclusive)));
    }
    done(&mut state, Command::Acquire(acquire("idle", 23, Mode::Exclusive)));
    done(&mut state, Command::Release { grant: id(23), session: None, at: AT });
    let swept =
        Operation::Put { path: path("/swept"), value: vec![7; 9].into(), parents: false, lifetime: Lifetime::Ttl { ttl_ms: 1 } };
    done(&mut state, write(None, vec![put("/data", 1_000), put("/more/below", 10), swept]));
    done(&mut state, write(Some(key(800)), vec![put("/written", 10)]));
    done(&mut state, Command::CreateJoinToken(join_token()));
    done(&mut state, Command::CreateJoinToken(join_token()));
    done(&mut state, Command::AdmitNode(admit(1)));
    let by = "an administrator".to_owned();
    done(&mut state, Command::RequestRemoval(RequestRemoval { node: 2, ids_through: 3, by, at: AT, other_voters: vec![1, 3] }));
    state
}

/// A role, a binding and a token, and an administrator.
fn done_to_access(state: &mut State) {
    let tenant = put_tenant("kept", 1);
    for change in [put_role("kept", 1), bind("kept", "user:ci"), bind("admin", "user:ann"), create_token(1), tenant] {
        done(state, change_access(change, None));
    }
}

fn change_access(change: AccessChange, key: Option<WriteKey>) -> Command {
    let requester = AccessRequester { principal: Principal::file_admin(), client: "c".repeat(200) };
    Command::ChangeAccess(ChangeAccess { key, change, requester, at: AT })
}

fn put_role(name: &str, rules: usize) -> AccessChange {
    let rule = |number: usize| format!("acquire locks:{number}/**").parse().expect("a rule");
    AccessChange::PutRole { role: name.parse().expect("a name"), rules: (0..rules).map(rule).collect(), expected: None }
}

fn bind(role: &str, subject: &str) -> AccessChange {
    AccessChange::Bind { role: role.parse().expect("a name"), subject: subject.parse().expect("a subject") }
}

fn put_tenant(name: &str, prefixes: usize) -> AccessChange {
    let prefix = |number: usize| format!("locks:{name}/{number}/**").parse().expect("a prefix");
    let tenant = Tenant { prefixes: (0..prefixes).map(prefix).collect(), ..Tenant::default() };
    AccessChange::PutTenant { name: name.parse().expect("a name"), tenant: Box::new(tenant), expected: None }
}

fn create_token(secret: u8) -> AccessChange {
    let user = "ci".parse().expect("a name");
    AccessChange::CreateToken { hash: TokenHash([secret; 32]), user, expires_at: Some(WallMillis(AT.0 + 1)) }
}

fn join_token() -> CreateJoinToken {
    CreateJoinToken {
        key: None,
        secret_hash: [7; 32],
        role: MemberRole::Voter,
        replaces: None,
        standing: false,
        up_to: None,
        expires_at: Some(WallMillis(AT.0 + 1)),
        by: "an administrator".to_owned(),
        at: AT,
    }
}

fn admit(token: u64) -> AdmitNode {
    AdmitNode {
        token: JoinTokenNumber(token),
        secret_hash: [7; 32],
        incarnation: Incarnation(u128::from(token)),
        url: "http://10.0.0.4:7171".to_owned(),
        address: "10.0.0.4:7271".to_owned(),
        replaces: None,
        ids_through: 3,
        at: AT,
    }
}

/// The expected result of a command at a full state: first if the whole budget is used, then if its last part is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Room,
    NoRoom,
}

/// Each command, in a form that adds something if possible.
fn commands(state: &State) -> Vec<(&'static str, Command, Expected, Expected)> {
    use Expected::{NoRoom, Room};
    let (by, reason) = (|| "an administrator".to_owned(), || "r".repeat(200));
    let at = AT;
    let holds = state.bounded_holds().next().map(|held| (held.number, held.token().expect("it holds"))).expect("one is bounded");
    let idle = (lock("idle"), state.idle_since(&lock("idle")).expect("the lock is idle"));
    let swept = Sweepable { since: state.sweepable_at(&path("/swept")).expect("it may go"), path: path("/swept") };
    let (cools, session) =
        (state.cooling().next().expect("one cools").number, state.session_by_id(&SessionId(3)).expect("it is open").number);
    let break_lock = |name: &str, number| {
        Command::Break(Break { key: key(number), lock: lock(name), token: None, by: by(), reason: reason(), at })
    };
    let proclaim = Proclaim { key: key(501), election: lock("led"), grant: id(20), value: vec![2].into(), at };
    let set = SetLock { key: None, lock: lock("new"), limit: Some(3), max_waiters: None, max_hold_ms: None, by: by(), at };
    let revoke = Revoke { key: Some(key(502)), lock: lock("asked"), by: by(), reason: reason(), at };
    let reentrant = Acquire {
        reentrant: true,
        owner: Owner { text: "owner-11".to_owned(), given: true },
        ..acquire("held", 41, Mode::Exclusive)
    };
    let (upgrade, refuse) = (Some(key(503)), IfBusy::Queue);
    vec![
        ("FormCluster", Command::FormCluster { cluster: ClusterId(8) }, Room, Room),
        ("OpenSession", open(5), NoRoom, NoRoom),
        ("CloseSession", Command::CloseSession { session: OPEN, at }, Room, Room),
        ("ExpireSession", Command::ExpireSession { session, at }, Room, Room),
        ("EndSession", Command::EndSession { session, by: by(), reason: reason(), at }, Room, Room),
        ("Acquire", Command::Acquire(acquire("new", 30, Mode::Exclusive)), NoRoom, NoRoom),
        ("Acquire: it waits", Command::Acquire(acquire("held", 31, Mode::Exclusive)), NoRoom, NoRoom),
        ("Acquire: a further hold", Command::Acquire(reentrant), NoRoom, NoRoom),
        ("Acquire: again", Command::Acquire(acquire("held", 11, Mode::Exclusive)), Room, Room),
        ("Withdraw", Command::Withdraw { grant: id(12), attempt: 9, at }, Room, Room),
        ("Abandon", Command::Abandon { grant: id(11), attempt: 9, at }, Room, Room),
        ("Release", Command::Release { grant: id(11), session: None, at }, Room, Room),
        ("Release: unknown", Command::Release { grant: id(50), session: None, at }, NoRoom, Room),
        ("Release: unknown, of a session", Command::Release { grant: id(50), session: Some(OPEN), at }, NoRoom, Room),
        ("SetGrantTimeout", Command::SetGrantTimeout { grant: id(21), timeout_ms: 2_000, key: None, at }, Room, Room),
        (
            "SetGrantTimeout: a key",
            Command::SetGrantTimeout { grant: id(21), timeout_ms: 2_000, key: Some(key(504)), at },
            NoRoom,
            Room,
        ),
        ("EndCooling", Command::EndCooling { grants: vec![cools], at }, Room, Room),
        ("Forget", Command::Forget { through: Revision(u64::MAX) }, Room, Room),
        ("ForgetLocks", Command::ForgetLocks { locks: vec![idle] }, Room, Room),
        ("ForgetHistory", Command::ForgetHistory { through: Revision(u64::MAX) }, Room, Room),
        ("Break", break_lock("broken", 510), Room, Room),
        ("Break: nobody", break_lock("nobody", 511), NoRoom, Room),
        ("Sweep", Command::Sweep { nodes: vec![swept], at }, Room, Room),
        ("Downgrade", Command::Downgrade { grant: id(16), key: None, at }, Room, Room),
        ("Downgrade: a key", Command::Downgrade { grant: id(16), key: Some(key(512)), at }, NoRoom, Room),
        ("Upgrade", Command::Upgrade { grant: id(15), if_busy: refuse, key: upgrade, at }, NoRoom, Room),
        ("EndUpgrade", Command::EndUpgrade { grant: id(15), attempt: 9, at }, Room, Room),
        ("EndHolds", Command::EndHolds { holds: vec![holds], at }, Room, Room),
        ("Proclaim", Command::Proclaim(proclaim), NoRoom, Room),
        ("SetLock", Command::SetLock(set), NoRoom, NoRoom),
        ("Revoke", Command::Revoke(revoke), NoRoom, Room),
        ("ContinuePendingWork", Command::ContinuePendingWork { at }, Room, Room),
        ("RecordKey", Command::RecordKey { key: key(513), at }, NoRoom, Room),
        ("RecordCapacity", Command::RecordCapacity { node: 2, bytes: 1 }, Room, Room),
        ("FormClusterAt", Command::FormClusterAt { cluster: ClusterId(8), version: ClusterVersion(2) }, Room, Room),
        ("RaiseClusterVersion", Command::RaiseClusterVersion { to: ClusterVersion(3) }, Room, Room),
    ]
    .into_iter()
    .chain(transactions())
    .chain(commands_about_members())
    .chain(commands_about_access())
    .collect()
}

fn transactions() -> Vec<(&'static str, Command, Expected, Expected)> {
    use Expected::{NoRoom, Room};
    vec![
        ("Transact: a new node", write(None, vec![put("/new", 1)]), NoRoom, NoRoom),
        ("Transact: a larger value", write(None, vec![put("/data", 1_001)]), NoRoom, NoRoom),
        ("Transact: a value as large", write(None, vec![put("/data", 1_000)]), Room, Room),
        ("Transact: a value as large, a key", write(Some(key(505)), vec![put("/data", 1_000)]), NoRoom, Room),
        ("Transact: a smaller value", write(Some(key(506)), vec![put("/data", 100)]), Room, Room),
        ("Transact: less than before", write(Some(key(507)), vec![delete("/data"), put("/new", 100)]), Room, Room),
        ("Transact: more than before", write(Some(key(508)), vec![delete("/data"), put("/new", 2_000)]), NoRoom, NoRoom),
        ("Transact: removed", write(Some(key(509)), vec![delete("/more/below")]), Room, Room),
        ("Transact: again", write(Some(key(800)), vec![put("/written", 10)]), Room, Room),
    ]
}

/// Members must be changed even if the state is full. Only the keys of requests need room.
fn commands_about_members() -> Vec<(&'static str, Command, Expected, Expected)> {
    use Expected::{NoRoom, Room};
    let (by, at) = (|| "an administrator".to_owned(), AT);
    let create = |key| Command::CreateJoinToken(CreateJoinToken { key, ..join_token() });
    let set = |key| {
        let (priority, zone, address_set) = (Some(90), Some("z".repeat(64)), true);
        Command::SetMember(SetMember { key, node: 3, priority, zone, address_set, by: by(), at })
    };
    let timing = |key| Command::SetTiming { key, timing: Timing::Wan, by: by(), at };
    let removal = RequestRemoval { node: 3, ids_through: 3, by: by(), at, other_voters: vec![1, 2] };
    vec![
        ("CreateJoinToken", create(None), Room, Room),
        ("CreateJoinToken: a key", create(Some(key(514))), NoRoom, Room),
        ("RevokeJoinToken", Command::RevokeJoinToken { number: JoinTokenNumber(2), at }, Room, Room),
        ("AdmitNode", Command::AdmitNode(admit(2)), Room, Room),
        ("SettleJoin", Command::SettleJoin { node: 4, at }, Room, Room),
        ("RequestRemoval", Command::RequestRemoval(removal), Room, Room),
        ("RecordRemoval", Command::RecordRemoval { node: 2, incarnation: None, ids_through: 3, at }, Room, Room),
        ("SetMember", set(None), Room, Room),
        ("SetMember: a key", set(Some(key(515))), NoRoom, Room),
        ("SetTiming", timing(None), Room, Room),
        ("SetTiming: a key", timing(Some(key(516))), NoRoom, Room),
    ]
}

/// Rights can be taken away even if the state is full.
fn commands_about_access() -> Vec<(&'static str, Command, Expected, Expected)> {
    use Expected::{NoRoom, Room};
    let (ci, key) = (|| "ci".parse().expect("a name"), Some(key(517)));
    let subject = || "user:ci".parse().expect("a subject");
    let unbind = || AccessChange::Unbind { role: "kept".parse().expect("a name"), subject: subject() };
    let no_role = AccessChange::DeleteRole { role: "kept".parse().expect("a name"), force: true, expected: None };
    let disable = AccessChange::SetUser { user: ci(), disabled: true, end_sessions: true };
    let revoke = AccessChange::RevokeToken { number: AccessTokenNumber(1), end_sessions: true };
    let key_of_note = self::key(518);
    let note = |key| Command::NoteAct(NoteAct { key, act: NotedAct::TakeSnapshot { node: 1 }, end: NotedEnd::Done, at: AT });
    let no_tenant = AccessChange::DeleteTenant { name: "kept".parse().expect("a name"), expected: None };
    let guarded = |command: Command| {
        let guard = AccessGuard { access: Revision(u64::MAX), principal: Principal::file_admin().key() };
        command.guarded(guard)
    };
    vec![
        ("ChangeAccess: a new role", change_access(put_role("new", 3), None), NoRoom, NoRoom),
        ("ChangeAccess: a larger role", change_access(put_role("kept", 9), None), NoRoom, NoRoom),
        ("ChangeAccess: a new binding", change_access(bind("admin", "user:bob"), None), NoRoom, NoRoom),
        ("ChangeAccess: a new token", change_access(create_token(2), None), NoRoom, NoRoom),
        ("ChangeAccess: no binding, a key", change_access(unbind(), key), Room, Room),
        ("ChangeAccess: no role", change_access(no_role, None), Room, Room),
        ("ChangeAccess: a disabled user", change_access(disable, None), Room, Room),
        ("ChangeAccess: a revoked token", change_access(revoke, None), Room, Room),
        ("ChangeAccess: on", change_access(AccessChange::Enable, None), Room, Room),
        ("ChangeAccess: off", change_access(AccessChange::Disable, None), Room, Room),
        ("ExpireTokens", Command::ExpireTokens { tokens: vec![AccessTokenNumber(1)], at: AT }, Room, Room),
        ("ChangeAccess: a new tenant", change_access(put_tenant("new", 3), None), NoRoom, NoRoom),
        ("ChangeAccess: no tenant", change_access(no_tenant, None), Room, Room),
        ("ForTenant: a session", guarded(open(7)).for_tenant(Some(TenantNumber(1))), NoRoom, NoRoom),
        ("Guarded: a session", guarded(open(6)), NoRoom, NoRoom),
        ("Attributed: off", change_access(AccessChange::Disable, None).attributed(ActOrigin::of_node()), Room, Room),
        ("NoteAct: a key", note(Some(key_of_note)), Room, Room),
        ("Guarded: removed", guarded(write(None, vec![delete("/more/below")])), Room, Room),
    ]
}

/// A new command does not compile until it has a name here, and does not pass until it has a row above.
fn name(command: &Command) -> &'static str {
    match command {
        Command::FormCluster { .. } => "FormCluster",
        Command::OpenSession(_) => "OpenSession",
        Command::CloseSession { .. } => "CloseSession",
        Command::ExpireSession { .. } => "ExpireSession",
        Command::EndSession { .. } => "EndSession",
        Command::Acquire(_) => "Acquire",
        Command::Withdraw { .. } => "Withdraw",
        Command::Abandon { .. } => "Abandon",
        Command::Release { .. } => "Release",
        Command::SetGrantTimeout { .. } => "SetGrantTimeout",
        Command::EndCooling { .. } => "EndCooling",
        Command::Forget { .. } => "Forget",
        Command::ForgetLocks { .. } => "ForgetLocks",
        Command::ForgetHistory { .. } => "ForgetHistory",
        Command::Transact(_) => "Transact",
        Command::Break(_) => "Break",
        Command::Sweep { .. } => "Sweep",
        Command::Downgrade { .. } => "Downgrade",
        Command::Upgrade { .. } => "Upgrade",
        Command::EndUpgrade { .. } => "EndUpgrade",
        Command::EndHolds { .. } => "EndHolds",
        Command::Proclaim(_) => "Proclaim",
        Command::SetLock(_) => "SetLock",
        Command::Revoke(_) => "Revoke",
        Command::ContinuePendingWork { .. } => "ContinuePendingWork",
        Command::RecordKey { .. } => "RecordKey",
        Command::RecordCapacity { .. } => "RecordCapacity",
        Command::RaiseClusterVersion { .. } => "RaiseClusterVersion",
        Command::FormClusterAt { .. } => "FormClusterAt",
        Command::CreateJoinToken(_) => "CreateJoinToken",
        Command::RevokeJoinToken { .. } => "RevokeJoinToken",
        Command::AdmitNode(_) => "AdmitNode",
        Command::SettleJoin { .. } => "SettleJoin",
        Command::RequestRemoval(_) => "RequestRemoval",
        Command::RecordRemoval { .. } => "RecordRemoval",
        Command::SetMember(_) => "SetMember",
        Command::SetTiming { .. } => "SetTiming",
        Command::Guarded(_) => "Guarded",
        Command::ForTenant(_) => "ForTenant",
        Command::ChangeAccess(_) => "ChangeAccess",
        Command::Attributed(_) => "Attributed",
        Command::NoteAct(_) => "NoteAct",
        Command::ExpireTokens { .. } => "ExpireTokens",
    }
}

/// How many commands `name` knows.
const COMMANDS: usize = 43;

#[test]
fn a_full_state_refuses_commands_that_create_and_accepts_those_that_free() {
    let populated = populated();
    let used = populated.bytes();
    let mut seen = std::collections::BTreeSet::new();
    for (what, command, when_full, in_the_last_part) in commands(&populated) {
        assert!(what.starts_with(name(&command)), "{what} is a {}", name(&command));
        seen.insert(name(&command));
        // Everything is used; more than everything, because a node with less room joined; or only the last part is
        // free.
        for (max, expected) in [(used, when_full), (used / 2, when_full), (used / 95 * 100 + 99, in_the_last_part)] {
            let mut state = populated.clone();
            done(&mut state, Command::RecordCapacity { node: 1, bytes: max });
            let before = state.clone();
            let applied = state.apply(&command);
            state.check().unwrap();
            assert_eq!(is_full(&applied), expected == Expected::NoRoom, "{what} at {used} of {max}: {:?}", applied.answer.result);
            if is_full(&applied) {
                assert!(state == before && applied.events.is_empty(), "{what} was refused but changed something");
                assert_eq!(applied.answer.result, Err(Rejection::StateFull { used, max }));
            } else {
                assert!(applied.answer.result.is_ok(), "{what}: {:?}", applied.answer.result);
            }
            // Without a budget, and with a far larger one, it is executed.
            for max in [None, Some(u64::MAX), Some(used * 100)] {
                let mut roomy = populated.clone();
                max.into_iter().for_each(|bytes| drop(roomy.apply(&Command::RecordCapacity { node: 1, bytes })));
                assert!(roomy.apply(&command).answer.result.is_ok(), "{what} with {max:?}");
            }
        }
    }
    assert_eq!(seen.len(), COMMANDS, "only these have a row: {seen:?}");
}

#[test]
fn values_cannot_use_up_the_budget_of_locks() {
    let mut state = populated();
    let max = 4_000_000;
    done(&mut state, Command::RecordCapacity { node: 1, bytes: max });
    let fill = |number: u64| write(None, vec![put(&format!("/fill-{number}"), 10_000)]);
    let filled = (0..1_000).take_while(|number| !is_full(&state.apply(&fill(*number)))).count();
    assert!(filled > 200 && state.bytes() <= max / 100 * 75, "{filled} values, {} of {max} bytes", state.bytes());
    assert!(is_full(&state.apply(&write(None, vec![put("/data", 20_000)]))), "a value that grows is refused too");
    done(&mut state, open(7));
    for number in 0..50 {
        done(&mut state, Command::Acquire(acquire(&format!("lock-{number}"), 10_000 + number, Mode::Exclusive)));
    }
    // Locks do not fill the part for keys.
    let mut acquired = (50..).map(|number| acquire(&format!("lock-{number}"), 10_000 + number, Mode::Exclusive));
    while !is_full(&state.apply(&Command::Acquire(acquired.next().unwrap()))) {}
    assert!(state.bytes() > max / 100 * 90 && state.bytes() <= max / 100 * 95, "{} of {max} bytes", state.bytes());
    done(&mut state, write(Some(key(900)), vec![put("/data", 1_000)]));
    state.check().unwrap();
}

#[test]
fn every_end_makes_the_state_smaller() {
    let (mut state, name) = (State::new(), "n".repeat(500));
    done(&mut state, open(1));
    for end in ["release", "break", "close", "end"] {
        let mut state = state.clone();
        for (number, session) in [(1, Claimant::Session(OPEN)), (2, Claimant::Anonymous { timeout_ms: 1_000 })] {
            done(
                &mut state,
                Command::Acquire(Acquire { claimant: session, ..acquire(&format!("{name}{number}"), number, Mode::Exclusive) }),
            );
        }
        let before = state.bytes();
        let (at, by) = (AT, || "b".repeat(256));
        match end {
            "release" => drop([1, 2].map(|grant| done(&mut state, Command::Release { grant: id(grant), session: None, at }))),
            "break" => drop([1, 2].map(|number| {
                let lock = lock(&format!("{name}{number}"));
                done(&mut state, Command::Break(Break { key: key(7), lock, token: None, by: by(), reason: by(), at }))
            })),
            "close" => drop(done(&mut state, Command::CloseSession { session: OPEN, at })),
            _end => {
                let session = state.session_by_id(&OPEN).unwrap().number;
                drop(done(&mut state, Command::EndSession { session, by: by(), reason: by(), at }));
            }
        }
        assert!(state.bytes() < before, "{end}: {} bytes and then {}", before, state.bytes());
    }
}

#[test]
fn the_smallest_capacity_is_the_budget_and_snapshots_keep_it() {
    let mut state = State::new();
    assert_eq!(state.bytes_max(), None);
    for (node, bytes, least) in [(1, 500_000, 500_000), (2, 400_000, 400_000), (3, 600_000, 400_000), (2, 700_000, 500_000)] {
        assert_eq!(done(&mut state, Command::RecordCapacity { node, bytes }), Outcome::Done);
        assert_eq!((state.bytes_max(), state.capacity_of(node)), (Some(least), Some(bytes)));
        assert_eq!(done(&mut state, Command::RecordCapacity { node, bytes }), Outcome::Nothing);
    }
    done(&mut state, write(None, vec![put("/a", 100_000)]));
    let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
    let mut loaded = State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice)).unwrap();
    assert!(loaded == state);
    assert_eq!((loaded.bytes(), loaded.bytes_max()), (state.bytes(), Some(500_000)));
    assert!(is_full(&loaded.apply(&write(None, vec![put("/b", 400_000)]))));
}

/// The log of a cluster whose budget was once larger is applied again at each start.
#[test]
fn a_command_from_before_the_budget_was_lowered_is_still_applied() {
    let log = [
        Command::RecordCapacity { node: 1, bytes: 1_000_000 },
        write(Some(key(1)), vec![put("/a", 500_000)]),
        Command::RecordCapacity { node: 2, bytes: 100_000 },
        write(Some(key(2)), vec![put("/b", 1)]),
        write(Some(key(1)), vec![put("/a", 500_000)]),
        write(Some(key(3)), vec![put("/a", 499_000)]),
        write(Some(key(4)), vec![delete("/a")]),
        write(Some(key(2)), vec![put("/b", 1)]),
    ];
    let (mut first, mut again) = (State::new(), State::new());
    let answers: Vec<bool> = log.iter().map(|command| is_full(&first.apply(command))).collect();
    assert_eq!(answers, [false, false, false, true, false, false, false, false]);
    for command in log {
        again.apply(&command);
    }
    assert!(again == first);
    first.check().unwrap();
}

#[test]
fn a_refused_transaction_is_undone_as_a_whole_and_does_not_stop_the_next_one() {
    let mut state = State::new();
    done(&mut state, Command::RecordCapacity { node: 1, bytes: 50_000 });
    let before = state.clone();
    let many = write(Some(key(1)), (0..10).map(|number| put(&format!("/n/{number}"), 10_000)).collect());
    assert!(is_full(&state.apply(&many)));
    assert!(state == before);
    // The other commands of its log entry behave as if it were not there.
    done(&mut state, write(Some(key(2)), vec![put("/small", 100)]));
    assert!(is_full(&state.apply(&many)), "it was not remembered as done");
    done(&mut state, Command::RecordCapacity { node: 1, bytes: 500_000 });
    assert!(matches!(done(&mut state, many), Outcome::Written { .. }));
}

/// Refusals leave nothing behind, however many there are.
#[test]
fn a_refused_command_is_not_remembered() {
    let mut state = populated();
    let bytes = state.bytes();
    done(&mut state, Command::RecordCapacity { node: 1, bytes });
    for number in 0..1_000 {
        assert!(is_full(&state.apply(&write(Some(key(10_000 + number)), vec![put("/new", 1)]))));
        assert!(is_full(&state.apply(&Command::Acquire(acquire("new", 20_000 + number, Mode::Exclusive)))));
    }
    assert_eq!(state.bytes(), bytes);
}

#[test]
fn a_large_write_is_remembered_without_its_results_and_is_not_done_twice() {
    let mut state = State::new();
    let create = Operation::CreateSequential {
        parent: path("/queue"),
        prefix: String::new(),
        value: Vec::new().into(),
        parents: true,
        lifetime: Lifetime::Persistent,
    };
    let few = write(Some(key(1)), vec![create.clone(); 10]);
    let first = done(&mut state, few.clone());
    assert_eq!(done(&mut state, few), first);
    let many = write(Some(key(2)), vec![create; 1_000]);
    let before = state.bytes();
    let Outcome::Written { results, at, .. } = done(&mut state, many.clone()) else { panic!("it is written") };
    assert_eq!(results.len(), 1_000);
    let nodes = state.census().nodes;
    assert_eq!(done(&mut state, many), Outcome::WrittenBefore { succeeded: true, at });
    assert_eq!(state.census().nodes, nodes, "it was done twice");
    let remembered = before + 1_000 * 400 + RESULTS_KEPT_BYTES;
    assert!(state.bytes() < remembered, "{} bytes are counted", state.bytes());
}

#[test]
fn the_history_forgets_its_oldest_entries_before_it_fills_the_budget() {
    let mut state = State::new();
    done(&mut state, open(1));
    done(&mut state, Command::RecordCapacity { node: 1, bytes: 400_000 });
    for number in 0..3_000 {
        let taken = state.apply(&Command::Acquire(acquire("busy", 10_000 + number, Mode::Exclusive)));
        assert!(taken.answer.result.is_ok(), "{number}: {:?}", taken.answer.result);
        state.apply(&Command::Release { grant: id(10_000 + number), session: None, at: AT });
        state.check().unwrap();
    }
    assert!((50..100).contains(&state.census().history), "{} are kept", state.census().history);
    assert!(matches!(state.grant(&id(12_999)), GrantStatus::Ended(EndReason::Released)));
}

/// What a transaction that only deletes may leave behind for a short time: its key, which may weigh more than a node.
fn left_by_deletes(command: &Command) -> u64 {
    let Command::Transact(transact) = command else { return 0 };
    let operations = || transact.then.iter().chain(transact.otherwise.iter().flatten());
    let only_deletes = operations().all(|operation| matches!(operation, Operation::Delete { .. }));
    if only_deletes { REMEMBERED_BYTES + RESULT_BYTES * operations().count() as u64 } else { 0 }
}

/// What new entries of the history weigh at most, with short texts. The history has a bound of its own.
fn history_growth(before: &State, after: &State) -> u64 {
    let entries = after.census().history.saturating_sub(before.census().history);
    entries as u64 * (HISTORY_BYTES + 100)
}

/// Random commands while a budget appears, shrinks and grows.
#[test]
fn the_byte_count_equals_a_full_count_and_stays_within_the_budget() {
    let profiles = [
        Profile::Mixed,
        Profile::Readers,
        Profile::Semaphore,
        Profile::Calm,
        Profile::Tree,
        Profile::Several,
        Profile::Priority,
        Profile::Administration,
        Profile::Elections,
        Profile::Full,
        Profile::Membership,
    ];
    let (mut refused, mut taken) = (0, 0);
    for (seed, profile) in (0..6).flat_map(|seed| profiles.map(|profile| (seed, profile))) {
        let (mut state, mut commands) = (State::new(), Commands::new(seed, profile));
        for step in 0..600_u64 {
            let at = || format!("seed {seed} ({profile:?}), step {step}");
            if step % 100 == 99 {
                let bytes = state.bytes() * (8 + (step + seed) % 5) / 10;
                done(&mut state, Command::RecordCapacity { node: seed % 3, bytes });
            }
            let (command, before) = (commands.next(&state), state.clone());
            let applied = state.apply(&command);
            commands.learn(&state, &applied);
            state.check().unwrap_or_else(|error| panic!("{}: {error} after {command:?}", at()));
            if is_full(&applied) {
                refused += 1;
                assert!(state == before && applied.events.is_empty(), "{}: {command:?} changed something", at());
            } else if let Some(max) = state.bytes_max() {
                taken += 1;
                // Commands that end other holders' grants may leave a message for each of them for a moment.
                let allowed = left_by_deletes(&command) + history_growth(&before, &state);
                let grew = state.bytes() > before.bytes() + allowed && state.bytes() > max;
                assert!(!grew, "{}: {command:?} went from {} to {} of {max}", at(), before.bytes(), state.bytes());
            }
            if step % 50 == 0 {
                let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
                assert!(State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice)).unwrap() == state, "{}", at());
            }
        }
    }
    assert!(refused > 2_000 && taken > 10_000, "{refused} were refused and {taken} taken");
}

/// The API gives each delete a key, and a small node costs less than remembering that key.
#[test]
fn a_small_node_can_be_removed_in_a_full_state() {
    let mut state = State::new();
    done(&mut state, write(None, vec![put("/a", 0), put("/b", 0), put("/c", 0)]));
    let bytes = state.bytes() - 1;
    done(&mut state, Command::RecordCapacity { node: 1, bytes });
    assert!(matches!(done(&mut state, write(Some(key(1)), vec![delete("/a")])), Outcome::Written { .. }));
    assert!(matches!(done(&mut state, write(Some(key(2)), vec![delete("/b"), delete("/c")])), Outcome::Written { .. }));
    // A command that only reads, or does nothing, frees nothing: it waits until there is room for its key.
    assert!(is_full(&state.apply(&write(Some(key(3)), Vec::new()))));
    let check = Operation::Check { path: path("/"), version: None };
    assert!(is_full(&state.apply(&write(Some(key(4)), vec![check]))));
    assert!(matches!(state.apply(&write(Some(key(5)), vec![delete("/a")])).answer.result, Err(Rejection::Step { .. })));
}

/// A state with one grant of the lock `a`, which has 21 holds, with the ids 10 to 30, and 16 keys of changes.
fn with_many_keys_and_holds(lock_delay_ms: u64) -> State {
    let mut state = State::new();
    done(&mut state, open(1));
    let owner = Owner { text: "o".to_owned(), given: true };
    let first = Acquire { reentrant: true, owner, lock_delay_ms, ..acquire("a", 10, Mode::Exclusive) };
    for hold in 10..31 {
        done(&mut state, Command::Acquire(Acquire { grant: id(hold), ..first.clone() }));
    }
    for number in 0..16 {
        let key = Some(key(2_000 + number));
        done(&mut state, Command::Upgrade { grant: id(10), if_busy: IfBusy::Refuse, key, at: AT });
    }
    state
}

/// Keys of changes, and further holds, are remembered one by one when their grant ends.
#[test]
fn a_grant_with_many_keys_and_holds_leaves_less_behind_than_it_took() {
    for end in ["release", "close", "break", "end"] {
        let mut state = with_many_keys_and_holds(0);
        let before = state.bytes();
        let (at, by, reason) = (AT, || "b".repeat(64), || "r".repeat(256));
        let session = state.session_by_id(&OPEN).unwrap().number;
        let ends: Vec<Command> = match end {
            "release" => (10..31).map(|grant| Command::Release { grant: id(grant), session: None, at }).collect(),
            "close" => vec![Command::CloseSession { session: OPEN, at }],
            "break" => vec![Command::Break(Break { key: key(7), lock: lock("a"), token: None, by: by(), reason: reason(), at })],
            _end => vec![Command::EndSession { session, by: by(), reason: reason(), at }],
        };
        for command in ends {
            done(&mut state, command);
        }
        assert_eq!(state.census().held, 0, "{end}");
        assert!(state.bytes() <= before, "{end}: {before} bytes and then {}", state.bytes());
    }
}

/// A cooling grant counts only as the lock's contender: its id and its keys are then remembered elsewhere.
#[test]
fn a_cooling_grant_leaves_no_more_behind_than_a_past_hold() {
    let mut state = with_many_keys_and_holds(60_000);
    let before = state.bytes();
    let session = state.session_by_id(&OPEN).unwrap().number;
    done(&mut state, Command::ExpireSession { session, at: AT });
    assert_eq!(state.census().cooling, 1);
    assert!(state.bytes() <= before, "{before} bytes and then {}", state.bytes());
}

/// An upgrade and a downgrade add an entry to the history, which has its own bound and blocks no command.
#[test]
fn a_mode_change_without_a_key_works_in_a_full_state() {
    let mut state = State::new();
    done(&mut state, open(1));
    done(&mut state, Command::Acquire(acquire("a", 10, Mode::Shared)));
    done(&mut state, write(None, vec![put("/filler", 100_000)]));
    let bytes = state.bytes();
    done(&mut state, Command::RecordCapacity { node: 1, bytes });
    for _ in 0..3 {
        let upgraded = done(&mut state, Command::Upgrade { grant: id(10), if_busy: IfBusy::Refuse, key: None, at: AT });
        assert!(matches!(upgraded, Outcome::Held(_)), "{upgraded:?}");
        done(&mut state, Command::Downgrade { grant: id(10), key: None, at: AT });
    }
    assert!(is_full(&state.apply(&Command::Upgrade { grant: id(10), if_busy: IfBusy::Refuse, key: Some(key(3)), at: AT })));
}

/// Only the first piece of a command is checked against the budget, so the command itself must be.
#[test]
fn a_revoke_of_many_holders_is_refused_unless_all_of_it_has_room() {
    let mut state = State::with_piece_steps(64);
    done(&mut state, open(1));
    for number in 0..400 {
        done(&mut state, Command::Acquire(acquire("asked", 100 + number, Mode::Shared)));
    }
    let bytes = state.bytes() + 20_000;
    done(&mut state, Command::RecordCapacity { node: 1, bytes });
    let order = |reason: usize, number| {
        Command::Revoke(Revoke {
            key: Some(key(number)),
            lock: lock("asked"),
            by: String::new(),
            reason: "r".repeat(reason),
            at: AT,
        })
    };
    let refused = is_full(&state.apply(&order(256, 1)));
    while state.has_pending() {
        done(&mut state, Command::ContinuePendingWork { at: AT });
    }
    assert!(state.bytes() <= bytes, "{} of {bytes} bytes", state.bytes());
    assert!(refused, "it was started");
    done(&mut state, Command::RecordCapacity { node: 1, bytes: bytes + 200_000 });
    done(&mut state, order(256, 1));
    while state.has_pending() {
        done(&mut state, Command::ContinuePendingWork { at: AT });
    }
    assert_eq!(state.lock(&lock("asked")).holders.iter().filter(|holder| holder.revoked.is_some()).count(), 400);
}
