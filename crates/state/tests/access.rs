//! Random changes of access data and guarded commands, against a naive model: lists that are searched from end to end, and
//! a list of everything that was ever narrowed. Every run is a seed.

#![cfg(test)]

use fairhold_access::{
    Attributes, Need, Principal, RoleName, Subject, UserName, Verb,
    rule::Rule,
    token::{AccessTokenNumber, TokenHash},
};
use fairhold_state::{
    State,
    command::{
        AccessChange, AccessFault, AccessGuard, AccessRequester, Acquire, Answer, ChangeAccess, Claimant, Command, IfBusy, Meta,
        OpenSession, Outcome, Owner, Rejection, Want, WriteKey,
    },
};
use fairhold_types::{ClusterId, ClusterVersion, GrantId, LockName, Mode, Revision, SessionId, SessionNumber, time::WallMillis};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::collections::{BTreeMap, BTreeSet};

const USERS: [&str; 4] = ["ann", "bob", "ci", "dan"];
const ROLES: [&str; 3] = ["deployers", "security", "readers"];
const RULES: [&str; 4] = ["acquire locks:a/**", "share locks:a/*", "admin cluster", "acquire,inspect locks:{user}/**"];
const FOUNDED: Revision = Revision(1);

/// What a narrowing concerns: one user, or everyone.
type Narrowing = (Revision, Option<String>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Naive {
    on: bool,
    roles: BTreeMap<String, (Vec<Rule>, Revision)>,
    bindings: BTreeSet<(String, String)>,
    disabled: BTreeSet<String>,
    /// Number, hash, user and whether it expires.
    tokens: Vec<(u64, TokenHash, String, bool)>,
    created: u64,
    narrowed: Vec<Narrowing>,
    changed: Revision,
    /// Session and opener.
    openers: BTreeSet<(SessionNumber, String)>,
    keys: BTreeMap<GrantId, [u8; 16]>,
}

/// A mistake that the model makes on request, so that the comparison is known to find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    WideningNarrows,
    ATokenConcernsAll,
    TheMarkIsLate,
    DisabledUsersKeepTokens,
    AnyoneMayLockOut,
    VerdictsNeedGuards,
    SessionsStay,
}

type Refusable<T> = Result<T, Rejection>;

fn fault<T>(fault: AccessFault) -> Refusable<T> {
    Err(Rejection::Access(fault))
}

impl Naive {
    fn administers(&self, role: &str) -> bool {
        let has_verb = |(rules, _): &(Vec<Rule>, Revision)| rules.iter().any(|rule| rule.verbs().has(Verb::Admin));
        role == "admin" || self.roles.get(role).is_some_and(has_verb)
    }

    fn has_administrator(&self) -> bool {
        self.bindings.iter().any(|(role, subject)| {
            let user = subject.strip_prefix("user:").filter(|user| !self.disabled.contains(*user));
            self.administers(role) && user.is_some()
        })
    }

    /// The answer of a change of the access data, and what it narrows.
    fn change(&mut self, request: &ChangeAccess, now: Revision, mistake: Option<Mistake>) -> Refusable<(Outcome, bool)> {
        if let Some(key) = request.key
            && let Some(fingerprint) = self.keys.get(&key.key)
        {
            return self.repeated(request, key, *fingerprint);
        }
        let before = self.clone();
        let result = self.first(request, now, mistake);
        let narrower = self.narrowed.len() > before.narrowed.len();
        let by_file = request.requester.principal.is_file() && request.change != AccessChange::Enable;
        if narrower && self.on && !by_file && !self.has_administrator() && mistake != Some(Mistake::AnyoneMayLockOut) {
            *self = before;
            return fault(AccessFault::WouldLockOut);
        }
        let Ok((outcome, changed)) = result else {
            *self = before;
            return result;
        };
        self.keys.extend(request.key.map(|key| (key.key, key.fingerprint)));
        let outcome = if outcome == Outcome::Nothing && request.key.is_some() { Outcome::Done } else { outcome };
        Ok((outcome, changed || request.key.is_some()))
    }

    fn repeated(&self, request: &ChangeAccess, key: WriteKey, fingerprint: [u8; 16]) -> Refusable<(Outcome, bool)> {
        if fingerprint != key.fingerprint {
            return Err(Rejection::IdempotencyMismatch { field: "request".to_owned() });
        }
        let AccessChange::CreateToken { hash, .. } = &request.change else { return Ok((Outcome::Nothing, false)) };
        let Some((number, ..)) = self.tokens.iter().find(|(_, known, ..)| known == hash) else {
            return fault(AccessFault::AlreadyIssued);
        };
        Ok((Outcome::AccessTokenCreated { number: AccessTokenNumber(*number), repeated: true }, false))
    }

    fn first(&mut self, request: &ChangeAccess, now: Revision, mistake: Option<Mistake>) -> Refusable<(Outcome, bool)> {
        let narrowed = self.narrowed.len();
        let changed = match &request.change {
            AccessChange::PutRole { role, rules, expected } => {
                self.require_role(role, *expected)?;
                let replaced = self.roles.get(role.as_str()).map(|(rules, _)| rules.clone());
                let same = replaced.as_ref() == Some(rules);
                if !same {
                    self.roles.insert(role.to_string(), (rules.clone(), now));
                    self.narrow_if(replaced.is_some(), now, None);
                }
                !same
            }
            AccessChange::DeleteRole { role, force, expected } => {
                self.require_role(role, *expected)?;
                let bound = self.bindings.iter().filter(|(bound, _)| bound == role.as_str()).count();
                let exists = self.roles.contains_key(role.as_str());
                if exists && bound > 0 && !force {
                    return fault(AccessFault::RoleInUse { bindings: bound as u64 });
                }
                self.bindings.retain(|(bound, _)| bound != role.as_str());
                self.roles.remove(role.as_str());
                self.narrow_if(exists, now, None)
            }
            AccessChange::Bind { role, subject } => {
                if role.as_str() != "admin" && !self.roles.contains_key(role.as_str()) {
                    return fault(AccessFault::NoRole);
                }
                self.bindings.insert((role.to_string(), subject.to_string()))
            }
            AccessChange::Unbind { role, subject } => {
                let removed = self.bindings.remove(&(role.to_string(), subject.to_string()));
                self.narrow_if(removed, now, None)
            }
            AccessChange::SetUser { user, disabled, end_sessions } => {
                return Ok(self.set_user(user, (*disabled, *end_sessions), now, mistake));
            }
            AccessChange::CreateToken { hash, user, expires_at } => {
                return self.create_token(*hash, user, (expires_at.is_some(), now), mistake);
            }
            AccessChange::RevokeToken { number, end_sessions } => {
                return self.revoke_token(*number, *end_sessions, now, mistake);
            }
            // `tests/tenants.rs` has a model of its own.
            AccessChange::PutTenant { .. } | AccessChange::DeleteTenant { .. } => {
                unreachable!("these histories have no tenants: {:?}", request.change)
            }
            AccessChange::Enable => {
                let was_off = !std::mem::replace(&mut self.on, true);
                self.narrow_if(was_off, now, None)
            }
            AccessChange::Disable if !request.requester.principal.is_file() => return fault(AccessFault::NeedsFile),
            AccessChange::Disable => {
                let was_on = std::mem::replace(&mut self.on, false);
                self.narrow_if(was_on, now, None)
            }
        };
        if changed {
            self.changed = now;
            let wider = self.narrowed.len() == narrowed;
            self.narrow_if(wider && mistake == Some(Mistake::WideningNarrows), now, None);
        }
        Ok((if changed { Outcome::Done } else { Outcome::Nothing }, changed))
    }

    fn set_user(
        &mut self,
        user: &UserName,
        (disabled, end_sessions): (bool, bool),
        now: Revision,
        mistake: Option<Mistake>,
    ) -> (Outcome, bool) {
        let user = user.to_string();
        let differs = self.disabled.contains(&user) != disabled;
        if disabled {
            self.disabled.insert(user.clone());
            self.narrow_if(differs, now, Some(&user));
            if mistake != Some(Mistake::DisabledUsersKeepTokens) {
                self.tokens.retain(|(.., of, _)| *of != user);
            }
        } else {
            self.disabled.remove(&user);
        }
        let changed = differs;
        let ended = end_sessions && self.end_sessions(&user, mistake);
        if changed {
            self.changed = now;
        }
        (if changed || ended { Outcome::Done } else { Outcome::Nothing }, changed || ended)
    }

    fn create_token(
        &mut self,
        hash: TokenHash,
        user: &UserName,
        (expires, now): (bool, Revision),
        mistake: Option<Mistake>,
    ) -> Refusable<(Outcome, bool)> {
        if self.tokens.iter().any(|(_, known, ..)| *known == hash) {
            return fault(AccessFault::AlreadyIssued);
        }
        if self.disabled.contains(user.as_str()) {
            return fault(AccessFault::UserDisabled);
        }
        self.created += 1;
        self.tokens.push((self.created, hash, user.to_string(), expires));
        self.changed = now;
        let number = AccessTokenNumber(self.created);
        self.narrow_if(mistake == Some(Mistake::WideningNarrows), now, None);
        Ok((Outcome::AccessTokenCreated { number, repeated: false }, true))
    }

    fn revoke_token(
        &mut self,
        number: AccessTokenNumber,
        end_sessions: bool,
        now: Revision,
        mistake: Option<Mistake>,
    ) -> Refusable<(Outcome, bool)> {
        if number.0 == 0 || number.0 > self.created {
            return fault(AccessFault::NoToken);
        }
        let Some(place) = self.tokens.iter().position(|(known, ..)| *known == number.0) else {
            return if end_sessions { fault(AccessFault::TokenGone) } else { Ok((Outcome::Nothing, false)) };
        };
        let (.., user, _) = self.tokens.remove(place);
        let concerns = if mistake == Some(Mistake::ATokenConcernsAll) { None } else { Some(user.as_str()) };
        self.narrow_if(true, now, concerns);
        self.changed = now;
        if end_sessions {
            self.end_sessions(&user, mistake);
        }
        Ok((Outcome::Done, true))
    }

    fn narrow_if(&mut self, narrower: bool, now: Revision, user: Option<&str>) -> bool {
        if narrower {
            self.narrowed.push((now, user.map(str::to_owned)));
        }
        narrower
    }

    fn require_role(&self, role: &RoleName, expected: Option<Revision>) -> Refusable<()> {
        let current = self.roles.get(role.as_str()).map_or(Revision(0), |(_, revision)| *revision);
        match expected {
            _ if role.as_str() == "admin" => fault(AccessFault::BuiltInRole),
            Some(expected) if expected != current => fault(AccessFault::RoleChanged { current }),
            Some(_) | None => Ok(()),
        }
    }

    fn end_sessions(&mut self, user: &str, mistake: Option<Mistake>) -> bool {
        let before = self.openers.len();
        if mistake != Some(Mistake::SessionsStay) {
            self.openers.retain(|(_, opener)| opener != user);
        }
        self.openers.len() < before
    }

    /// Whether a command that needs a right may take effect.
    fn lets_by(&self, guard: Option<(Revision, &str)>, mistake: Option<Mistake>) -> bool {
        let late = u64::from(mistake == Some(Mistake::TheMarkIsLate));
        let concerns = |of: &Option<String>, user: &str| of.as_deref().is_none_or(|of| of == user);
        !self.on
            || guard
                .is_some_and(|(judged, user)| !self.narrowed.iter().any(|(at, of)| at.0 > judged.0 + late && concerns(of, user)))
    }
}

/// A machine, its replica, the model, and a source of commands.
struct Run {
    rng: SmallRng,
    mistake: Option<Mistake>,
    state: State,
    replica: State,
    naive: Naive,
    made: u128,
    /// Whether the model follows. It never splits work into pieces.
    compares: bool,
    seen: BTreeMap<String, usize>,
}

impl Run {
    fn new(seed: u64, mistake: Option<Mistake>, mut state: State) -> Run {
        state.apply(&Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) });
        let rng = SmallRng::seed_from_u64(seed);
        Run {
            rng,
            mistake,
            replica: state.clone(),
            state,
            naive: Naive::default(),
            made: 0,
            compares: true,
            seen: BTreeMap::new(),
        }
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.rng.random_range(0..many) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.random_range(0..of.len())]
    }

    fn user(&mut self) -> &'static str {
        self.pick(&USERS)
    }

    fn user_name(&mut self) -> UserName {
        self.user().parse().unwrap()
    }

    fn role(&mut self) -> RoleName {
        let names = ["admin", ROLES[0], ROLES[1], ROLES[2]];
        self.pick(&names).parse().unwrap()
    }

    fn expected(&mut self) -> Option<Revision> {
        let roles: Vec<Revision> = self.naive.roles.values().map(|(_, revision)| *revision).chain([Revision(0)]).collect();
        if self.one_in(4) { Some(self.pick(&roles)) } else { None }
    }

    fn number(&mut self) -> AccessTokenNumber {
        let newest = self.naive.created;
        AccessTokenNumber(self.rng.random_range(newest.saturating_sub(6)..newest + 2))
    }

    fn change(&mut self) -> AccessChange {
        let end_sessions = self.one_in(2);
        match self.rng.random_range(0..100) {
            0..15 => {
                let count = self.rng.random_range(1..3);
                let rules = (0..count).map(|_| self.pick(&RULES).parse().unwrap()).collect();
                AccessChange::PutRole { role: self.role(), rules, expected: self.expected() }
            }
            15..22 => AccessChange::DeleteRole { role: self.role(), force: self.one_in(2), expected: self.expected() },
            22..40 => AccessChange::Bind { role: self.role(), subject: self.subject() },
            40..48 => AccessChange::Unbind { role: self.role(), subject: self.subject() },
            48..60 => AccessChange::SetUser { user: self.user_name(), disabled: self.one_in(2), end_sessions },
            60..77 => {
                let hash = TokenHash([self.rng.random_range(0..40); 32]);
                AccessChange::CreateToken { hash, user: self.user_name(), expires_at: self.one_in(2).then_some(WallMillis(9)) }
            }
            77..87 => AccessChange::RevokeToken { number: self.number(), end_sessions },
            87..96 => AccessChange::Enable,
            _ => AccessChange::Disable,
        }
    }

    fn subject(&mut self) -> Subject {
        let name = if self.one_in(6) { "anonymous".to_owned() } else { format!("user:{}", self.user()) };
        name.parse().unwrap()
    }

    fn key(&mut self) -> Option<WriteKey> {
        let fingerprint = if self.one_in(5) { [6; 16] } else { [5; 16] };
        self.one_in(3).then(|| WriteKey { key: GrantId::from_ulid(self.rng.random_range(0..60)), fingerprint })
    }

    fn id(&mut self) -> u128 {
        self.made += 1;
        1_000 + self.made
    }

    /// A command with its guard, if it has one: by the data of the moment, or by older data.
    fn step(&mut self) {
        let (kind, principal) = (self.rng.random_range(0..100), if self.one_in(3) { None } else { Some(self.user()) });
        let now = self.state.access().revision();
        let judged = if self.one_in(3) { Revision(self.rng.random_range(0..=now.0)) } else { now };
        let who = if self.one_in(2) { "file:admin".to_owned() } else { format!("user:{}", self.user()) };
        let principal = principal.map(str::to_owned);
        let bare = match kind {
            0..45 => {
                let requester = AccessRequester { principal: who.parse().unwrap(), client: "curl".to_owned() };
                Command::ChangeAccess(ChangeAccess { key: self.key(), change: self.change(), requester, at: WallMillis(1) })
            }
            45..65 => {
                let id = SessionId(self.id());
                Command::OpenSession(OpenSession {
                    key: None,
                    id,
                    timeout_ms: 1_000,
                    name: String::new(),
                    meta: Meta::new(),
                    at: WallMillis(1),
                })
            }
            65..80 => self.acquire(),
            80..88 => {
                let open: Vec<SessionNumber> = self.state.sessions().map(|session| session.number).collect();
                let session = if open.is_empty() { SessionNumber(9) } else { self.pick(&open) };
                Command::ExpireSession { session, at: WallMillis(1) }
            }
            88..94 => Command::ExpireTokens { tokens: vec![self.number(), self.number()], at: WallMillis(1) },
            _ => Command::Release {
                grant: GrantId::from_ulid(self.rng.random_range(1_000..1_000 + self.made + 1)),
                session: None,
                at: WallMillis(1),
            },
        };
        let guard = principal.as_deref().map(|user| (judged, user));
        let command = match guard {
            None => bare.clone(),
            Some((access, user)) => {
                let principal = Principal::parse(&format!("user:{user}")).unwrap().key();
                bare.clone().guarded(AccessGuard { access, principal })
            }
        };
        self.compare(&command, &bare, guard);
    }

    fn acquire(&mut self) -> Command {
        let wants =
            vec![Want { lock: LockName::parse(&format!("a/{}", self.rng.random_range(0..6))).unwrap(), mode: Mode::Exclusive }];
        Command::Acquire(Acquire {
            grant: GrantId::from_ulid(self.id()),
            id_given: true,
            wants,
            claimant: Claimant::Anonymous { timeout_ms: 1_000 },
            if_busy: IfBusy::Queue,
            limit: None,
            permits: 1,
            priority: 0,
            owner: Owner { text: "o".to_owned(), given: true },
            meta: Meta::new(),
            lock_delay_ms: 0,
            reentrant: false,
            max_hold_ms: None,
            value: None,
            at: WallMillis(1),
        })
    }

    fn compare(&mut self, command: &Command, bare: &Command, guard: Option<(Revision, &str)>) {
        let before = self.state.clone();
        let applied = self.state.apply(command);
        assert_eq!(self.replica.apply(command), applied);
        if !self.compares {
            self.state.check().unwrap();
            let pieces = usize::from(self.state.has_pending() && self.one_in(2));
            for _ in 0..pieces {
                let piece = Command::ContinuePendingWork { at: WallMillis(1) };
                assert_eq!(self.replica.apply(&piece), self.state.apply(&piece));
                self.state.check().unwrap();
            }
            return;
        }
        let Answer { result, revision } = applied.answer;
        let now = before.revision().next();
        let is_verdict = matches!(bare, Command::ExpireSession { .. } | Command::ExpireTokens { .. });
        let is_release = matches!(bare, Command::Release { .. });
        let needs = !is_release && (!is_verdict || self.mistake == Some(Mistake::VerdictsNeedGuards));
        let expected = if needs && !self.naive.lets_by(guard, self.mistake) {
            Some(Err(Rejection::AccessChanged))
        } else {
            self.run_model(bare, guard, now)
        };
        if let Some(expected) = &expected {
            let (expected, changed) = match expected {
                Ok((outcome, changed)) => (Ok(outcome), *changed),
                Err(rejection) => (Err(rejection), false),
            };
            assert_eq!(result.as_ref(), expected, "{command:?}");
            assert_eq!(revision == now, changed, "{command:?}");
        }
        let name = match &result {
            Err(Rejection::Access(fault)) => format!("{fault:?}"),
            Err(rejection) => format!("{rejection:?}"),
            Ok(_) if matches!(bare, Command::ChangeAccess(_)) => "changed".to_owned(),
            Ok(_) => "done".to_owned(),
        };
        *self.seen.entry(name.split([' ', '(']).next().unwrap().to_owned()).or_default() += 1;
        assert!(result.is_ok() || self.state == before, "{command:?} was refused but changed something");
        self.naive.openers.retain(|(session, _)| self.state.session(*session).is_some() || self.mistake.is_some());
        self.compare_state();
    }

    /// The answer of the model to a command that is let by, unless the other model has it.
    fn run_model(
        &mut self,
        bare: &Command,
        guard: Option<(Revision, &str)>,
        now: Revision,
    ) -> Option<Result<(Outcome, bool), Rejection>> {
        if let Command::ChangeAccess(request) = bare {
            return Some(self.naive.change(request, now, self.mistake));
        }
        if matches!(bare, Command::OpenSession(_) | Command::Acquire(_)) {
            self.naive.openers.extend(guard.map(|(_, user)| (SessionNumber(now.0), user.to_owned())));
        }
        let Command::ExpireTokens { tokens, .. } = bare else { return None };
        let is_over = |number: u64, expires: bool| expires && tokens.contains(&AccessTokenNumber(number));
        let (gone, stay): (Vec<_>, Vec<_>) =
            self.naive.tokens.drain(..).partition(|(number, _, _, expires)| is_over(*number, *expires));
        self.naive.tokens = stay;
        for (.., user, _) in &gone {
            self.naive.narrow_if(true, now, Some(user));
            self.naive.changed = now;
        }
        Some(Ok((Outcome::Judged { objects: tokens.len() as u64 }, !gone.is_empty())))
    }

    fn compare_state(&self) {
        self.state.check().unwrap();
        let access = self.state.access();
        let naive = &self.naive;
        let roles: BTreeMap<String, (Vec<Rule>, Revision)> =
            access.roles().map(|(name, role)| (name.to_string(), (role.rules.clone(), role.revision))).collect();
        assert_eq!((access.is_on(), access.revision(), roles), (naive.on, naive.changed, naive.roles.clone()));
        let bindings: BTreeSet<_> = access.bindings().map(|(role, subject, _)| (role.to_string(), subject.to_string())).collect();
        assert_eq!(bindings, naive.bindings);
        let disabled: BTreeSet<_> = access.disabled_users().map(|(name, _)| name.to_string()).collect();
        assert_eq!(disabled, naive.disabled);
        let tokens = access.tokens_after(AccessTokenNumber(0));
        let tokens: Vec<_> =
            tokens.map(|(number, token)| (number.0, token.hash, token.user.to_string(), token.expires_at.is_some())).collect();
        assert_eq!((tokens, access.tokens_created()), (naive.tokens.clone(), naive.created));
        for user in USERS {
            let principal = Principal::parse(&format!("user:{user}")).unwrap();
            let concerns = |(_, of): &&Narrowing| of.as_deref().is_none_or(|of| of == user);
            let mark = naive.narrowed.iter().filter(concerns).map(|(at, _)| *at).max().unwrap_or_default();
            assert_eq!(access.narrowed_for(principal.key()), mark, "{user}");
            let (role, may) =
                (|role: &str| naive.bindings.contains(&(role.to_owned(), format!("user:{user}"))), Need::unnamed(Verb::Admin));
            let administers = ROLES.iter().chain(&["admin"]).any(|name| role(name) && naive.administers(name));
            let rights = access.rights(&principal, &Attributes::of(&principal, []));
            assert_eq!(rights.decide(&may).is_ok(), administers, "{user}");
        }
        let openers: BTreeSet<_> = self.state.sessions().map(|session| session.number).collect();
        for session in openers {
            let naive = naive.openers.iter().find(|(known, _)| *known == session);
            let naive = naive.map(|(_, user)| Principal::parse(&format!("user:{user}")).unwrap().key());
            assert_eq!(access.opener(session), naive, "session {session}");
        }
        let ended = naive.openers.iter().find(|(session, _)| self.state.session(*session).is_none());
        assert_eq!(ended, None, "the session has ended");
    }

    /// Continues with the state that a snapshot restores.
    fn restore(&mut self) {
        let blocks: Vec<Vec<u8>> = self.state.snapshot_blocks().collect();
        let restored = State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice)).unwrap();
        assert!(restored == self.state && restored.digest() == self.replica.digest(), "a snapshot restores another state");
        self.state = restored;
    }
}

fn run(seed: u64, mistake: Option<Mistake>, steps: usize) -> BTreeMap<String, usize> {
    let mut run = Run::new(seed, mistake, State::new());
    assert_eq!(run.state.revision(), FOUNDED);
    for step in 0..steps {
        run.step();
        if step.is_multiple_of(20) {
            run.restore();
        }
    }
    run.seen
}

#[test]
fn changes_of_access_data_and_guarded_commands_agree_with_the_model() {
    let mut seen = BTreeMap::new();
    for seed in 0..60 {
        run(seed, None, 400).into_iter().for_each(|(name, count)| *seen.entry(name).or_insert(0) += count);
    }
    for name in [
        "done",
        "changed",
        "AccessChanged",
        "WouldLockOut",
        "NeedsFile",
        "BuiltInRole",
        "NoRole",
        "RoleInUse",
        "RoleChanged",
        "AlreadyIssued",
        "NoToken",
        "UserDisabled",
        "IdempotencyMismatch",
    ] {
        assert!(seen.get(name).is_some_and(|count| *count >= 20), "{name} is too rare: {seen:?}");
    }
}

/// With a small bound on the steps of a command, most sessions end in pieces, and other commands come in between.
#[test]
fn sessions_that_end_in_pieces_leave_a_sound_state() {
    let mut pending = 0;
    for seed in 0..40 {
        let mut run = Run::new(seed, None, State::with_piece_steps(8));
        run.compares = false;
        for step in 0..300 {
            run.step();
            pending += usize::from(run.state.pending_count() > 1);
            if step % 20 == 0 {
                run.restore();
            }
        }
    }
    assert!(pending > 100, "only {pending} states had several pieces");
}

#[test]
fn each_mistake_of_the_model_is_found() {
    for mistake in [
        Mistake::WideningNarrows,
        Mistake::ATokenConcernsAll,
        Mistake::TheMarkIsLate,
        Mistake::DisabledUsersKeepTokens,
        Mistake::AnyoneMayLockOut,
        Mistake::VerdictsNeedGuards,
        Mistake::SessionsStay,
    ] {
        let found = (0..60).any(|seed| std::panic::catch_unwind(|| run(seed, Some(mistake), 400)).is_err());
        assert!(found, "{mistake:?} is not found");
    }
}

/// One principal more than there may be marks replaces all of them by the mark of all. No older command passes.
#[test]
fn very_many_narrowed_principals_cost_one_mark_of_all() {
    let mut state = State::new();
    state.apply(&Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) });
    let change = |change| {
        let requester = AccessRequester { principal: Principal::file_admin(), client: String::new() };
        Command::ChangeAccess(ChangeAccess { key: None, change, requester, at: WallMillis(1) })
    };
    let disable = |number: usize| {
        change(AccessChange::SetUser { user: format!("u{number}").parse().unwrap(), disabled: true, end_sessions: false })
    };
    let most = fairhold_access::limits::MARKS_MAX;
    for number in 0..most {
        state.apply(&disable(number)).answer.result.unwrap();
    }
    assert_eq!(state.access().narrowed_at(), Revision(0));
    state.apply(&disable(0)).answer.result.unwrap();
    assert_eq!(state.access().narrowed_at(), Revision(0), "a known principal needs no room");
    state.apply(&disable(most)).answer.result.unwrap();
    assert_eq!(state.access().narrowed_at(), state.revision());
    state.apply(&disable(most + 1)).answer.result.unwrap();
    state.check().unwrap();
    for number in 0..most + 2 {
        let principal = Principal::parse(&format!("user:u{number}")).unwrap();
        assert!(state.access().narrowed_for(principal.key()) > Revision(most as u64), "u{number}");
    }
}

/// Each limit is refused by name, and one below it is not.
#[test]
fn the_limits_of_access_data_hold() {
    use fairhold_access::limits::{RULES_PER_ROLE_MAX, TOKENS_PER_USER_MAX};
    let mut state = State::new();
    state.apply(&Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) });
    let request = |change| {
        let requester = AccessRequester { principal: Principal::file_admin(), client: String::new() };
        Command::ChangeAccess(ChangeAccess { key: None, change, requester, at: WallMillis(1) })
    };
    let token = |secret: u64| {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&secret.to_le_bytes());
        request(AccessChange::CreateToken { hash: TokenHash(hash), user: "ci".parse().unwrap(), expires_at: None })
    };
    for secret in 0..TOKENS_PER_USER_MAX as u64 {
        state.apply(&token(secret)).answer.result.unwrap();
    }
    let refused = state.apply(&token(u64::MAX)).answer.result;
    assert!(matches!(refused, Err(Rejection::Access(AccessFault::Full { max: 1_000, .. }))), "{refused:?}");
    let rules = |count| {
        let rules = vec![RULES[0].parse().unwrap(); count];
        request(AccessChange::PutRole { role: ROLES[0].parse().unwrap(), rules, expected: None }).validate()
    };
    assert!(rules(0).is_err() && rules(RULES_PER_ROLE_MAX + 1).is_err());
    assert!(rules(1).is_ok() && rules(RULES_PER_ROLE_MAX).is_ok());
    let guard = AccessGuard { access: Revision(0), principal: Principal::anonymous().key() };
    let guarded = |command: Command| command.guarded(guard);
    assert!(guarded(Command::RecordCapacity { node: 1, bytes: 0 }).validate().is_err(), "a guard hides nothing");
    assert!(guarded(Command::ExpireTokens { tokens: Vec::new(), at: WallMillis(1) }).is_leader_only());
}
