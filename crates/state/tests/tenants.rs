//! Random changes of the tree, of grants and of tenants, against a count by a walk. Every run is a seed. `State::check`
//! compares the running counts with those of a snapshot.

#![cfg(test)]

use fairhold_access::{Principal, Quota, QuotaKind, Tenant, TenantName, TenantNumber};
use fairhold_state::{
    State,
    access::TenantRecord,
    command::{
        AccessChange, AccessGuard, AccessRequester, Acquire, ChangeAccess, Claimant, Command, IfBusy, Lifetime, Meta,
        OpenSession, Operation, Owner, Rejection, SetLock, Transact, Want,
    },
    record::NodeRole,
    tenant_uses::TenantUse,
};
use fairhold_types::{ClusterId, ClusterVersion, GrantId, LockName, Mode, Path, SessionId, time::WallMillis};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::collections::{BTreeMap, BTreeSet};

const TENANTS: [&str; 3] = ["red", "blue", "green"];
const PREFIXES: [&str; 8] =
    ["nodes:a/**", "nodes:a/b/**", "nodes:b/**", "nodes:**", "locks:a/**", "locks:b/**", "locks:**", "nodes:c/d/**"];
const PATHS: [&str; 10] = ["/a", "/a/b", "/a/b/c", "/a/x", "/b", "/b/y", "/c/d/e", "/a-b", "/locks-a", "/z"];
const LOCKS: [&str; 5] = ["a", "a/b", "b/x", "c", "a-b"];
const AT: WallMillis = WallMillis(1);

/// A mistake that the count by a walk makes on request, so that the comparison is known to find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    PrefixesMatchByLetters,
    LocksAreNoNodes,
    TheTopIsLeftOut,
    QuotasAreNotRefused,
}

/// What a tenant uses, by a walk over the whole tree.
fn walk(state: &State, tenant: &Tenant, mistake: Option<Mistake>) -> TenantUse {
    let mut used = TenantUse::default();
    let root = Path::root();
    for (path, node) in state.descendants(&root, None) {
        let below = |base: &Path| match mistake {
            Some(Mistake::PrefixesMatchByLetters) => path.as_str().starts_with(base.as_str()),
            Some(Mistake::TheTopIsLeftOut) => path.as_str().starts_with(&base.prefix_below()),
            Some(Mistake::LocksAreNoNodes | Mistake::QuotasAreNotRefused) | None => {
                path == base || path.as_str().starts_with(&base.prefix_below())
            }
        };
        let same_kind = |base: &Path| base.is_under_locks() == path.is_under_locks();
        let is_own = |base: &Path| *path != Path::locks() && same_kind(base) && below(base);
        if !tenant.prefixes.iter().any(|prefix| is_own(prefix.base())) {
            continue;
        }
        used.bytes += node.value.len() as u64;
        match node.role {
            NodeRole::Contender(_) => used.contenders += 1,
            NodeRole::Lock(_) if mistake == Some(Mistake::LocksAreNoNodes) => {}
            NodeRole::Lock(_) | NodeRole::Data => used.nodes += 1,
        }
    }
    used
}

struct Run {
    rng: SmallRng,
    mistake: Option<Mistake>,
    state: State,
    made: u128,
    sessions: Vec<SessionId>,
    seen: BTreeMap<&'static str, usize>,
}

impl Run {
    fn new(seed: u64, mistake: Option<Mistake>, mut state: State) -> Run {
        state.apply(&Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) });
        Run { rng: SmallRng::seed_from_u64(seed), mistake, state, made: 0, sessions: Vec::new(), seen: BTreeMap::new() }
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.random_range(0..of.len())].clone()
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.rng.random_range(0..count) == 0
    }

    fn limit(&mut self, most: u64) -> Option<u64> {
        self.one_in(2).then(|| self.rng.random_range(0..most))
    }

    fn change(&mut self) -> AccessChange {
        let name: TenantName = self.pick(&TENANTS).parse().unwrap();
        if self.one_in(5) {
            return AccessChange::DeleteTenant { name, expected: None };
        }
        let count = self.rng.random_range(0..3);
        let prefixes = (0..count).map(|_| self.pick(&PREFIXES).parse().unwrap()).collect();
        let subjects = if self.one_in(2) { vec![format!("user:{name}").parse().unwrap()] } else { Vec::new() };
        let quota = Quota {
            nodes: self.limit(12),
            bytes: self.limit(30),
            contenders: self.limit(6),
            waiters: self.limit(3),
            sessions: self.limit(4),
            ..Quota::default()
        };
        AccessChange::PutTenant { name, tenant: Box::new(Tenant { subjects, prefixes, quota }), expected: None }
    }

    fn operation(&mut self) -> Operation {
        let path = Path::parse(self.pick(&PATHS)).unwrap();
        let value = vec![b'x'; self.rng.random_range(0..8)].into();
        let session = if self.sessions.is_empty() { SessionId(1) } else { self.pick(&self.sessions.clone()) };
        match self.rng.random_range(0..10) {
            0..6 => {
                let ephemeral = self.one_in(4);
                let lifetime = if ephemeral { Lifetime::Ephemeral { session } } else { Lifetime::Persistent };
                Operation::Put { path, value, parents: !self.one_in(4), lifetime }
            }
            6 => Operation::Set { path, value, version: None },
            7 => Operation::CreateSequential {
                parent: path,
                prefix: "n".to_owned(),
                value,
                parents: true,
                lifetime: Lifetime::Persistent,
            },
            _ => Operation::Delete { path, version: None, recursive: self.one_in(2) },
        }
    }

    fn id(&mut self) -> u128 {
        self.made += 1;
        1_000 + self.made
    }

    fn acquire(&mut self) -> Command {
        let (first, second) = (self.pick(&LOCKS), self.pick(&LOCKS));
        let names: BTreeSet<&str> = if self.one_in(3) { [first, second].into() } else { [first].into() };
        let wants: Vec<Want> =
            names.iter().map(|name| Want { lock: LockName::parse(name).unwrap(), mode: Mode::Exclusive }).collect();
        let election = wants.len() == 1 && self.one_in(4);
        let value = election.then(|| vec![b'v'; self.rng.random_range(0..6)]);
        let claimant = if self.sessions.is_empty() || self.one_in(2) {
            Claimant::Anonymous { timeout_ms: 1_000 }
        } else {
            Claimant::Session(self.pick(&self.sessions.clone()))
        };
        Command::Acquire(Acquire {
            grant: GrantId::from_ulid(self.id()),
            id_given: true,
            wants,
            claimant,
            if_busy: if self.one_in(5) { IfBusy::Refuse } else { IfBusy::Queue },
            limit: None,
            permits: 1,
            priority: 0,
            owner: Owner { text: "o".to_owned(), given: false },
            meta: Meta::new(),
            lock_delay_ms: 0,
            reentrant: false,
            max_hold_ms: None,
            value,
            at: AT,
        })
    }

    fn open(&mut self) -> Command {
        let id = SessionId(self.id());
        self.sessions.push(id);
        Command::OpenSession(OpenSession { key: None, id, timeout_ms: 1_000, name: String::new(), meta: Meta::new(), at: AT })
    }

    fn command(&mut self) -> Command {
        match self.rng.random_range(0..100) {
            0..12 => {
                let requester = AccessRequester { principal: Principal::file_admin(), client: "curl".to_owned() };
                Command::ChangeAccess(ChangeAccess { key: None, change: self.change(), requester, at: AT })
            }
            12..50 => {
                let count = if self.one_in(3) { 2 } else { 1 };
                let then = (0..count).map(|_| self.operation()).collect();
                Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: AT })
            }
            50..70 => self.acquire(),
            70..80 => {
                let grant = GrantId::from_ulid(self.rng.random_range(1_000..1_001 + self.made));
                Command::Release { grant, session: None, at: AT }
            }
            80..86 => self.open(),
            86..90 => {
                let lock = LockName::parse(self.pick(&LOCKS)).unwrap();
                let by = "curl".to_owned();
                Command::SetLock(SetLock { key: None, lock, limit: None, max_waiters: None, max_hold_ms: Some(0), by, at: AT })
            }
            90..94 => {
                let open: Vec<_> = self.state.sessions().map(|session| session.number).collect();
                let session = if open.is_empty() { return self.open() } else { self.pick(&open) };
                Command::ExpireSession { session, at: AT }
            }
            94..97 => {
                let idle = LOCKS.iter().filter_map(|name| {
                    let lock = LockName::parse(name).ok()?;
                    self.state.idle_since(&lock).map(|since| (lock, since))
                });
                Command::ForgetLocks { locks: idle.collect() }
            }
            _ => Command::ContinuePendingWork { at: AT },
        }
    }

    /// Every third command is that of a principal, which may have a tenant.
    fn guarded(&mut self, command: Command) -> Command {
        if !self.one_in(3) {
            return command;
        }
        let principal = Principal::parse(&format!("user:{}", self.pick(&TENANTS))).unwrap();
        let tenant = self.state.access().tenant_of(&principal).filter(|_| command.opens_session());
        command.guarded(AccessGuard { access: self.state.access().revision(), principal: principal.key() }).for_tenant(tenant)
    }

    fn tenants(&self) -> BTreeMap<TenantNumber, TenantRecord> {
        self.state.access().tenants().map(|(_, record)| (record.number, record.clone())).collect()
    }

    fn step(&mut self) {
        let command = self.command();
        let command = self.guarded(command);
        let (before, tenants) = (self.state.clone(), self.tenants());
        let applied = self.state.apply(&command);
        let refusal = match &applied.answer.result {
            Err(Rejection::Step { reason, .. }) => Some((**reason).clone()),
            Err(rejection) => Some(rejection.clone()),
            Ok(_) => None,
        };
        if let Some(refusal) = refusal {
            assert!(self.state == before, "{command:?} was refused but changed something");
            if let Rejection::QuotaExceeded { tenant, quota, limit, .. } = refusal {
                let record = before.access().tenant(&tenant).expect("it exists");
                assert_eq!(record.tenant.quota.limit(quota), Some(limit));
                *self.seen.entry(quota.as_str()).or_default() += 1;
            }
        }
        self.state.check().unwrap();
        for (number, record) in self.tenants() {
            self.compare(number, &record, tenants.get(&number), &before, &command);
        }
        *self.seen.entry("counting").or_default() += usize::from(self.tenants().keys().any(|one| self.state.is_counting(*one)));
    }

    /// Compares the count of a tenant with a walk. What grew is within the quota.
    fn compare(
        &self,
        number: TenantNumber,
        record: &TenantRecord,
        known: Option<&TenantRecord>,
        before: &State,
        command: &Command,
    ) {
        let (used, walked) = (self.state.use_of_tenant(number), walk(&self.state, &record.tenant, self.mistake));
        let parts = |used: TenantUse| [used.nodes, used.bytes, used.contenders];
        // Names that are not counted yet, or nodes of ended sessions: `check` compares the counts with the tree.
        if self.state.has_pending() {
            return;
        }
        assert_eq!(used, walked, "after {command:?}");
        if known != Some(record) || before.is_counting(number) {
            return;
        }
        let access = self.state.access();
        let (now, then) = (access.sessions_of_tenant(number), before.access().sessions_of_tenant(number));
        let kinds = [QuotaKind::Nodes, QuotaKind::Bytes, QuotaKind::Contenders];
        let grown = kinds.into_iter().zip(parts(used).into_iter().zip(parts(before.use_of_tenant(number))));
        for (kind, (now, then)) in grown.chain([(QuotaKind::Sessions, (now, then))]) {
            let limit = record.tenant.quota.limit(kind).filter(|_| self.mistake != Some(Mistake::QuotasAreNotRefused));
            let limit = if self.mistake == Some(Mistake::QuotasAreNotRefused) { Some(0) } else { limit };
            assert!(now <= then || limit.is_none_or(|limit| now <= limit), "{kind}: {now} after {then} by {command:?}");
        }
    }

    fn restore(&mut self) {
        let blocks: Vec<Vec<u8>> = self.state.snapshot_blocks().collect();
        let restored = State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice)).unwrap();
        assert!(restored == self.state, "a snapshot restores another state");
        self.state = restored;
    }
}

fn run(seed: u64, mistake: Option<Mistake>, state: State, steps: usize) -> BTreeMap<&'static str, usize> {
    let mut run = Run::new(seed, mistake, state);
    for step in 0..steps {
        run.step();
        if step.is_multiple_of(10) {
            run.restore();
        }
    }
    run.seen
}

#[test]
fn the_use_of_tenants_agrees_with_a_walk_and_stays_within_the_quotas() {
    let mut seen = BTreeMap::new();
    for seed in 0..60 {
        // In half of the runs, counts and ends come in small pieces.
        let state = if seed % 2 == 0 { State::new() } else { State::with_piece_steps(6) };
        run(seed, None, state, 400).into_iter().for_each(|(name, count)| *seen.entry(name).or_insert(0) += count);
    }
    for name in ["nodes", "bytes", "contenders", "waiters", "sessions", "counting"] {
        assert!(seen.get(name).is_some_and(|count| *count >= 20), "{name} is too rare: {seen:?}");
    }
}

#[test]
fn each_mistake_of_the_walk_is_found() {
    for mistake in
        [Mistake::PrefixesMatchByLetters, Mistake::LocksAreNoNodes, Mistake::TheTopIsLeftOut, Mistake::QuotasAreNotRefused]
    {
        let found = (0..20).any(|seed| std::panic::catch_unwind(|| run(seed, Some(mistake), State::new(), 400)).is_err());
        assert!(found, "{mistake:?} is not found");
    }
}
