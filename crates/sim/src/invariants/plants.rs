//! Shows each invariant a correct history, and then a violation.

use super::{all, invariant::Invariant};
use crate::{
    access_user::{AccessUser, UserRight, decisions_by},
    facts::{Applied, Fact, Physics},
    host::TRUE_RATE,
    watch_events::Watched,
};
use fairhold_access::{BearerToken, Principal, Quota, RoleName, Rule, Subject, Tenant, TenantName, TenantPrefix};
use fairhold_state::{
    State,
    access::{AccessGuard, PrincipalKey},
    command::{
        AccessChange, AccessRequester, Acquire, ActOrigin, ChangeAccess, Claimant, Command, Event, IfBusy, Lifetime, Meta,
        OpenSession, Operation, Outcome, Owner, SetLock, Transact, Want,
    },
};
use fairhold_types::{
    ClusterId, ClusterVersion, FencingToken, GrantId, GrantNumber, Incarnation, LockName, Mode, NodeId, Path, Revision,
    SessionId, SessionNumber, Timing, time::WallMillis,
};
use std::{collections::BTreeSet, time::Duration};

const AT: WallMillis = WallMillis(1_000);
const SECOND: Duration = Duration::from_secs(1);
/// A value that fills a block of a snapshot.
const BLOCK: usize = 600 * 1024;

type Judged = Result<(), String>;

/// An invariant, and the state whose changes it checks.
struct Stage {
    state: State,
    invariant: Box<dyn Invariant>,
    /// When the next change is applied.
    at: Duration,
}

impl Stage {
    /// Applies a command, and shows the change to the invariant.
    fn apply(&mut self, command: Command) -> Judged {
        let events = self.state.apply(&command).events;
        self.show(&events)
    }

    /// Applies a command that must not violate the invariant.
    fn right(&mut self, command: Command) {
        self.apply(command).unwrap();
    }

    /// Shows these events with the current state.
    fn show(&mut self, events: &[Event]) -> Judged {
        let state = self.state.clone();
        self.show_as(1, true, &state, state.revision(), events)
    }

    fn show_as(&mut self, node: NodeId, first: bool, state: &State, revision: Revision, events: &[Event]) -> Judged {
        self.invariant.applied(&Applied { node, at: self.at, first, state, revision, events, whole: true })
    }

    /// Acquires or queues for a lock, with an id made from this number. Returns the number of the grant.
    fn acquire(&mut self, id: u128, change: impl FnOnce(&mut Acquire)) -> GrantNumber {
        let mut acquire = acquire(id);
        change(&mut acquire);
        let applied = self.state.apply(&Command::Acquire(acquire));
        self.show(&applied.events).unwrap();
        let outcome = applied.answer.result.unwrap();
        if let Outcome::Held(held) = &outcome {
            return held.number;
        }
        let Outcome::Queued(queued) = outcome else { panic!("{outcome:?}") };
        queued.number
    }
}

fn lock() -> LockName {
    LockName::parse("a").unwrap()
}

fn id(number: u128) -> GrantId {
    GrantId::from_ulid(number << 64)
}

fn acquire(number: u128) -> Acquire {
    Acquire {
        grant: id(number),
        id_given: true,
        wants: vec![Want { lock: lock(), mode: Mode::Exclusive }],
        claimant: Claimant::Anonymous { timeout_ms: 2_000 },
        if_busy: IfBusy::Queue,
        limit: None,
        permits: 1,
        priority: 0,
        owner: Owner { text: format!("o{number}"), given: true },
        meta: Meta::new(),
        lock_delay_ms: 0,
        reentrant: false,
        max_hold_ms: None,
        value: None,
        at: AT,
    }
}

fn release(number: u128) -> Command {
    Command::Release { grant: id(number), session: None, at: AT }
}

fn open_session() -> Command {
    let (name, meta) = (String::new(), Meta::new());
    Command::OpenSession(OpenSession { key: None, id: SessionId(1), timeout_ms: 3_000, name, meta, at: AT })
}

fn create(path: &str, bytes: usize, lifetime: Lifetime) -> Command {
    let (path, value) = (Path::parse(path).unwrap(), vec![b'x'; bytes].into());
    let then = vec![Operation::Create { path, value, parents: false, lifetime }];
    Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: AT })
}

fn granted(grant: GrantNumber, token: u64) -> Event {
    Event::Granted { lock: lock(), grant, token: FencingToken(token) }
}

/// A state with an ephemeral node of a session that does not exist. No command leads to it, so it is assembled from the
/// snapshots of two states.
fn unsound() -> State {
    let blocks = |first: [Command; 2]| {
        let (mut state, ephemeral) = (State::new(), Lifetime::Ephemeral { session: SessionId(1) });
        let nodes = [create("/a-block", BLOCK, Lifetime::Persistent), create("/z", 1, ephemeral)];
        first.into_iter().chain(nodes).for_each(|command| drop(state.apply(&command).answer.result.unwrap()));
        state.check().unwrap();
        let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
        assert_eq!(blocks.len(), 2, "the sessions are in the first, and the ephemeral node is in the second");
        blocks
    };
    let form = Command::FormCluster { cluster: ClusterId(1) };
    // The session's number is the revision at which it was opened.
    let (late, early) = (blocks([form.clone(), open_session()]), blocks([open_session(), form]));
    State::from_snapshot_blocks([&late[0], &early[1]].into_iter()).unwrap()
}

fn machine(stage: &mut Stage) -> Judged {
    stage.right(open_session());
    let state = unsound();
    stage.show_as(1, true, &state, state.revision(), &[])
}

fn holders(stage: &mut Stage) -> Judged {
    let [first, second] = [1, 2].map(|id| stage.acquire(id, |acquire| acquire.limit = Some(2)));
    // The invariant does not see the administrator's limit: it sees two grants that hold a lock with a limit of 1.
    let (key, by) = (None, "an administrator".to_owned());
    let set = SetLock { key, lock: lock(), limit: Some(1), max_waiters: None, max_hold_ms: None, by, at: AT };
    stage.state.apply(&Command::SetLock(set)).answer.result.unwrap();
    assert_eq!(stage.state.lock(&lock()).holders.len(), 2);
    let silent = Event::Holds { lock: lock(), grant: first, holds: 1 };
    stage.show(&[silent]).unwrap_err();
    stage.show(&[granted(second, second.0)])
}

fn order(stage: &mut Stage) -> Judged {
    let grants = [1, 2, 3].map(|id| stage.acquire(id, |_| ()));
    stage.show(&[granted(grants[1], 8)]).unwrap();
    stage.show(&[granted(grants[2], 8)])
}

fn tokens(stage: &mut Stage) -> Judged {
    stage.right(open_session());
    let grant = stage.acquire(1, |_| ());
    let state = stage.state.clone();
    stage.show_as(1, true, &state, Revision(grant.0 - 1), &[granted(grant, grant.0 - 1)])
}

fn agreement(stage: &mut Stage) -> Judged {
    let before = stage.state.clone();
    let events = stage.state.apply(&Command::Acquire(acquire(1))).events;
    stage.show(&events).unwrap();
    let state = stage.state.clone();
    stage.show_as(2, false, &state, state.revision(), &events).unwrap();
    stage.show_as(3, false, &state, state.revision(), &events[..1]).unwrap_err();
    stage.show_as(3, false, &before, state.revision(), &events)
}

fn durability(stage: &mut Stage) -> Judged {
    let grant = stage.acquire(1, |_| ());
    let held = |number| Fact::Held { lock: lock(), number, token: FencingToken(grant.0) };
    stage.invariant.observe(&held(grant.0)).unwrap();
    stage.invariant.observe(&held(grant.0 + 1))
}

fn freshness(stage: &mut Stage) -> Judged {
    let answered = |floor| Fact::Answered { what: "GET".to_owned(), floor: Revision(floor), revision: Revision(4) };
    stage.invariant.observe(&answered(4)).unwrap();
    stage.invariant.observe(&answered(5))
}

fn registers(stage: &mut Stage) -> Judged {
    stage.right(create("/x", 1, Lifetime::Persistent));
    let read = |value: &str| {
        let (path, value) = ("/x".to_owned(), value.to_owned());
        Fact::Read { path, version: 0, value, revision: Revision(1) }
    };
    stage.invariant.observe(&read("x")).unwrap();
    stage.invariant.observe(&read("y"))
}

fn fences(stage: &mut Stage) -> Judged {
    let token = FencingToken(stage.acquire(1, |_| ()).0);
    let fenced = |revision| Fact::Fenced { lock: lock(), token, exclusive: true, revision };
    stage.invariant.observe(&fenced(stage.state.revision())).unwrap();
    stage.right(release(1));
    stage.invariant.observe(&fenced(stage.state.revision().next()))
}

fn leases(stage: &mut Stage) -> Judged {
    stage.right(open_session());
    let session = SessionNumber(stage.state.revision().0);
    stage.invariant.observe(&Fact::Renewed { session, sent: stage.at, ttl: SECOND * 3 }).unwrap();
    stage.at += SECOND * 2;
    stage.apply(Command::ExpireSession { session, at: AT })
}

fn beliefs(stage: &mut Stage) -> Judged {
    let first = stage.acquire(1, |_| ());
    stage.right(release(1));
    let second = stage.acquire(2, |_| ());
    let believed = |grant: GrantNumber, from: u32| {
        let (token, mode) = (FencingToken(grant.0), Mode::Exclusive);
        Fact::Believed { lock: lock(), mode, token, from: SECOND * from, until: SECOND * (from + 2) }
    };
    stage.invariant.observe(&believed(first, 0)).unwrap();
    stage.invariant.observe(&believed(second, 1))
}

fn delays(stage: &mut Stage) -> Judged {
    let grant = stage.acquire(1, |acquire| acquire.lock_delay_ms = 2_000);
    let session = stage.state.contender(grant).unwrap().session;
    stage.right(Command::ExpireSession { session, at: AT });
    stage.at += SECOND;
    stage.apply(Command::EndCooling { grants: vec![grant], at: AT })
}

fn watches(stage: &mut Stage) -> Judged {
    stage.right(create("/x", 1, Lifetime::Persistent));
    stage.right(create("/y", 1, Lifetime::Persistent));
    let received = |names: &[(u64, &str)]| {
        let lines = names.iter().map(|(at, name)| (Revision(*at), format!("created path={name}"))).collect();
        Fact::WatchReceived { watched: Watched::Node("/y".to_owned()), after: Revision(0), lines, through: Revision(2) }
    };
    stage.invariant.observe(&received(&[(2, "/y")])).unwrap();
    stage.invariant.observe(&received(&[]))
}

fn elections(stage: &mut Stage) -> Judged {
    let grant = stage.acquire(1, |acquire| acquire.value = Some(b"x".to_vec()));
    let led = |value: &str| Fact::Led { election: lock(), token: FencingToken(grant.0), version: 0, value: value.to_owned() };
    stage.invariant.observe(&led("x")).unwrap();
    stage.invariant.observe(&led("y"))
}

fn bounds(stage: &mut Stage) -> Judged {
    let grant = stage.acquire(1, |acquire| acquire.max_hold_ms = Some(5_000));
    stage.at += SECOND * 4;
    stage.apply(Command::EndHolds { holds: vec![(grant, FencingToken(grant.0))], at: AT })
}

fn echoes(stage: &mut Stage) -> Judged {
    stage.acquire(1, |_| ());
    stage.apply(Command::Downgrade { grant: id(1), key: None, at: AT })
}

fn liveness(stage: &mut Stage) -> Judged {
    stage.at = SECOND * 10;
    let token = FencingToken(stage.acquire(1, |_| ()).0);
    let handed =
        |received| Fact::AcquireAnswered { lock: lock(), token, sent: SECOND, received: SECOND * received, within: SECOND };
    stage.invariant.observe(&handed(11)).unwrap();
    stage.invariant.observe(&handed(12))
}

fn endings(stage: &mut Stage) -> Judged {
    stage.acquire(1, |_| ());
    let held = stage.state.clone();
    stage.right(release(1));
    stage.invariant.finished(&stage.state).unwrap();
    stage.invariant.finished(&held)
}

fn punctual(stage: &mut Stage) -> Judged {
    stage.acquire(1, |acquire| acquire.max_hold_ms = Some(5_000));
    let calm = |at| Fact::Term { term: 1, calm: true, at };
    stage.invariant.observe(&calm(stage.at)).unwrap();
    stage.invariant.observe(&calm(stage.at + SECOND * 5)).unwrap();
    stage.invariant.observe(&calm(stage.at + SECOND * 60))
}

fn versions(stage: &mut Stage) -> Judged {
    let older = State::new();
    stage.right(Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    stage.right(open_session());
    stage.show_as(2, true, &older, stage.state.revision().next(), &[])
}

fn early_commands(stage: &mut Stage) -> Judged {
    stage.right(Command::FormCluster { cluster: ClusterId(1) });
    stage.apply(Command::SetTiming { key: None, timing: Timing::Wan, by: String::new(), at: AT })
}

fn members(stage: &mut Stage) -> Judged {
    let joined = |incarnation| Fact::Joined { node: 4, incarnation: Incarnation(incarnation) };
    stage.invariant.observe(&joined(40)).unwrap();
    stage.invariant.observe(&joined(50))
}

fn attributed(address: &str, lock: &str) -> Command {
    let lock = LockName::parse(lock).unwrap();
    let (limit, max_waiters, max_hold_ms) = (Some(2), None, None);
    let set = Command::SetLock(SetLock { key: None, lock, limit, max_waiters, max_hold_ms, by: String::new(), at: AT });
    set.attributed(ActOrigin { address: address.to_owned(), ..ActOrigin::of_node() })
}

/// Another node has another entry.
fn another_act(stage: &mut Stage) -> Judged {
    stage.right(Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    let mut other = stage.state.clone();
    stage.right(attributed("10.0.0.1", "a"));
    other.apply(&attributed("10.0.0.2", "a"));
    stage.show_as(2, true, &other, other.revision(), &[])
}

/// Another node has lost its entries.
fn no_act(stage: &mut Stage) -> Judged {
    stage.right(Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    let other = stage.state.clone();
    stage.right(attributed("10.0.0.1", "a"));
    let revision = stage.state.revision();
    stage.show_as(2, true, &other, other.revision(), &[]).unwrap();
    stage.show_as(2, true, &other, revision, &[])
}

const USER: AccessUser = AccessUser::ALL[0];

/// A command with a guard of this principal, by the current access data.
fn guarded(stage: &Stage, principal: PrincipalKey, command: Command) -> Command {
    command.guarded(AccessGuard { access: stage.state.access().revision(), principal })
}

fn change_access(stage: &mut Stage, change: AccessChange) {
    let requester = AccessRequester { principal: Principal::file_admin(), client: String::new() };
    let command = Command::ChangeAccess(ChangeAccess { key: None, change, requester, at: AT });
    stage.right(guarded(stage, Principal::file_admin().key(), command));
}

fn bind(role: &str, subject: &str) -> AccessChange {
    AccessChange::Bind { role: RoleName::parse(role).unwrap(), subject: Subject::parse(subject).unwrap() }
}

/// Rights are enforced, and the first user has all that a user may have, or another one has them.
fn enforce_rights(stage: &mut Stage, bound: &str) {
    stage.right(Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    let rules = UserRight::ALL.map(|right| Rule::parse(&USER.rule(right)).unwrap()).to_vec();
    for change in [
        bind("admin", "user:root1"),
        AccessChange::PutRole { role: RoleName::parse("rights-1").unwrap(), rules, expected: None },
        bind("rights-1", bound),
        AccessChange::CreateToken { hash: BearerToken::from_random([1; 32]).hash(), user: USER.name(), expires_at: None },
        AccessChange::Enable,
    ] {
        change_access(stage, change);
    }
}

fn unbind(stage: &mut Stage) {
    let (role, subject) = (RoleName::parse("rights-1").unwrap(), Subject::exact(&USER.principal()));
    change_access(stage, AccessChange::Unbind { role, subject });
}

fn user_rights(stage: &mut Stage) -> Judged {
    enforce_rights(stage, USER.principal().as_str());
    stage.right(guarded(stage, Principal::file_admin().key(), create("/own-1", 1, Lifetime::Persistent)));
    stage.right(guarded(stage, USER.key(), create("/own-1/n1", 1, Lifetime::Persistent)));
    unbind(stage);
    stage.show(&[Event::NodeCreated { path: Path::parse("/own-1/n2").unwrap() }])
}

fn decisions(stage: &mut Stage) -> Judged {
    enforce_rights(stage, USER.principal().as_str());
    let access = stage.state.access().revision();
    let decided = |decisions| Fact::Decided { node: 2, access, decisions };
    stage.invariant.observe(&decided(decisions_by(stage.state.access()))).unwrap();
    stage.invariant.observe(&decided(vec![false; decisions_by(stage.state.access()).len()]))
}

fn needless_refusal(stage: &mut Stage) -> Judged {
    enforce_rights(stage, USER.principal().as_str());
    let now = stage.state.revision();
    stage.invariant.observe(&Fact::FoundStale { since: Revision(0), until: now }).unwrap();
    stage.invariant.observe(&Fact::FoundStale { since: now, until: now.next() })
}

/// A binding is gone, and the mark stays.
fn a_mark_that_stays(stage: &mut Stage) -> Judged {
    let invariant = fresh("nodes agree");
    let mut other = Stage { state: State::new(), invariant, at: stage.at };
    enforce_rights(&mut other, "user:other1");
    change_access(&mut other, bind("viewer", "user:other1"));
    enforce_rights(stage, USER.principal().as_str());
    stage.show_as(1, true, &other.state, other.state.revision(), &[])
}

fn watchers_rights(stage: &mut Stage) -> Judged {
    let shown = |at| Fact::Shown { user: USER, revision: at, until: at };
    enforce_rights(stage, USER.principal().as_str());
    let given = stage.state.revision();
    unbind(stage);
    let lost = stage.state.revision();
    stage.invariant.observe(&shown(given)).unwrap();
    change_access(stage, bind("rights-1", USER.principal().as_str()));
    let late = Fact::Shown { user: USER, revision: lost, until: stage.state.revision() };
    stage.invariant.observe(&late).unwrap();
    stage.invariant.observe(&shown(lost))
}

/// A tenant with a quota of one node, which exists, and another node.
fn with_tenant(stage: &mut Stage, another: &str) {
    stage.state.apply(&Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    for path in ["/own-1", another] {
        stage.state.apply(&create(path, 1, Lifetime::Persistent)).answer.result.unwrap();
    }
    let prefixes = vec![TenantPrefix::parse("nodes:own-1/**").unwrap()];
    let tenant = Tenant { subjects: Vec::new(), prefixes, quota: Quota { nodes: Some(1), ..Quota::default() } };
    change_access(
        stage,
        AccessChange::PutTenant { name: TenantName::parse("t1").unwrap(), tenant: Box::new(tenant), expected: None },
    );
}

fn quotas(stage: &mut Stage) -> Judged {
    let mut other = Stage { state: State::new(), invariant: fresh("nodes agree"), at: stage.at };
    with_tenant(&mut other, "/own-1/n1");
    with_tenant(stage, "/other");
    stage.show_as(1, true, &other.state, other.state.revision(), &[])
}

type Plant = (&'static str, fn(&mut Stage) -> Judged);

const PLANTS: [Plant; 30] = [
    ("the state is sound", machine),
    ("holders are compatible", holders),
    ("nobody is overtaken", order),
    ("tokens grow", tokens),
    ("nodes agree", agreement),
    ("nothing acknowledged is lost", durability),
    ("answers are fresh", freshness),
    ("a version has one value", registers),
    ("fences hold", fences),
    ("sessions live as long as they were told", leases),
    ("two never believe that they hold", beliefs),
    ("delays last", delays),
    ("a watch tells everything once", watches),
    ("a leader's value is told once", elections),
    ("holds last as long as they may", bounds),
    ("a request acts once", echoes),
    ("without faults, nobody waits", liveness),
    ("every grant ends", endings),
    ("what is over ends soon", punctual),
    ("the cluster's version never falls", versions),
    ("the cluster's version never falls", early_commands),
    ("members change safely", members),
    ("the audit is one chain", another_act),
    ("the audit is one chain", no_act),
    ("users change only what they may", user_rights),
    ("nodes decide alike", decisions),
    ("marks move when something is lost", needless_refusal),
    ("marks move when something is lost", a_mark_that_stays),
    ("watchers see only what they may", watchers_rights),
    ("quotas bound what tenants use", quotas),
];

fn everything() -> Vec<Box<dyn Invariant>> {
    all(Physics { rate_max: TRUE_RATE })
}

fn fresh(name: &str) -> Box<dyn Invariant> {
    everything().into_iter().find(|invariant| invariant.name() == name).unwrap()
}

#[test]
fn each_invariant_holds_until_its_violation_is_planted() {
    for (name, plant) in PLANTS {
        let mut stage = Stage { state: State::new(), invariant: fresh(name), at: SECOND };
        assert!(plant(&mut stage).is_err(), "{name}: the violation is not found");
    }
}

#[test]
fn each_invariant_has_a_plant() {
    let names: BTreeSet<&str> = everything().iter().map(|invariant| invariant.name()).collect();
    assert_eq!(names, PLANTS.map(|(name, _)| name).into_iter().collect());
}
