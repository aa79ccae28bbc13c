//! Work in pieces: the final result is the same as if it were done at once, and every state in between is correct.
//!
//! Two machines get the same random commands. One has room for a whole command; the other leaves nearly everything to
//! later pieces.

#[path = "model/random.rs"]
mod random;

use fairhold_state::{
    State,
    command::{Acquire, Break, Claimant, Command, Condition, Meta, OpenSession, Rejection, SessionKey, Want, WriteKey},
    read::GrantStatus,
    record::Contender,
};
use fairhold_types::{
    FencingToken, GrantId, GrantNumber, LockName, Mode, Path, Revision, SessionId, SessionNumber, limits::NODES_REMOVED_MAX,
    time::WallMillis,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use random::{Commands, Profile};
use std::collections::BTreeSet;

const LOCKS: [&str; 4] = ["a", "a/b", "a/b/c", "d"];

type Checked = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

fn profile(seed: u64) -> Profile {
    match seed % 7 {
        0 => Profile::Mixed,
        1 => Profile::Readers,
        2 => Profile::Tree,
        3 => Profile::Several,
        4 => Profile::Priority,
        5 => Profile::Administration,
        _ => Profile::Semaphore,
    }
}

fn locks() -> Vec<LockName> {
    LOCKS.iter().map(|name| LockName::parse(name).expect("a fixed name")).collect()
}

/// Translates a command for a machine with other revisions, and so with other numbers and tokens.
struct Translation<'a> {
    from: &'a State,
    to: &'a State,
}

impl Translation<'_> {
    fn session(&self, number: SessionNumber) -> SessionNumber {
        let of_grant = || {
            let grant = self.from.contenders_of(number).next()?.grant;
            match self.to.grant(&grant) {
                GrantStatus::Live(contender) => Some(contender.session),
                GrantStatus::Ended(_) | GrantStatus::Unknown => None,
            }
        };
        let session = self.from.session(number);
        let named =
            session.and_then(|session| session.id).and_then(|id| self.to.session_by_id(&id)).map(|session| session.number);
        named.or_else(of_grant).unwrap_or_default()
    }

    fn contender(&self, number: GrantNumber) -> GrantNumber {
        let Some(grant) = self.from.contender(number).map(|contender| contender.grant) else { return GrantNumber(0) };
        let standing = locks()
            .into_iter()
            .flat_map(|lock| self.to.queue(&lock).into_iter().map(|entry| entry.contender.clone()).collect::<Vec<_>>());
        standing.into_iter().find(|contender| contender.grant == grant).map_or(GrantNumber(0), |contender| contender.number)
    }

    /// Readers that were granted together share one token here, but in pieces each has its own: so the grant counts if
    /// the command names one.
    fn token(&self, lock: &LockName, token: FencingToken, grant: Option<GrantId>) -> FencingToken {
        let holders = self.from.lock(lock).holders.into_iter();
        let mut right = holders.filter(|holder| self.from.token_of(holder) == Some(token));
        let holder = right.find(|holder| grant.is_none_or(|grant| holder.ids().any(|id| id == grant)));
        let same = holder.and_then(|holder| self.to.contender(self.contender(holder.number)));
        same.and_then(|same| self.to.token_of(same)).unwrap_or(FencingToken(u64::MAX))
    }

    /// `None` if it concerns ages, which differ.
    fn command(&self, command: &Command) -> Option<Command> {
        let mut command = command.clone();
        match &mut command {
            Command::Forget { .. } | Command::ForgetHistory { .. } => return None,
            Command::ExpireSession { session, .. } | Command::EndSession { session, .. } => *session = self.session(*session),
            Command::EndCooling { grants, .. } => grants.iter_mut().for_each(|grant| *grant = self.contender(*grant)),
            Command::EndHolds { holds, .. } => holds.iter_mut().for_each(|(grant, token)| {
                let right = self.from.contender(*grant).and_then(|contender| contender.token()) == Some(*token);
                *grant = self.contender(*grant);
                let same = self.to.contender(*grant).and_then(|contender| contender.token());
                *token = same.filter(|_| right).unwrap_or(FencingToken(u64::MAX));
            }),
            Command::ForgetLocks { locks } => locks.iter_mut().for_each(|(lock, since)| {
                let right = self.from.idle_since(lock) == Some(*since);
                *since = self.to.idle_since(lock).filter(|_| right).unwrap_or(Revision(u64::MAX));
            }),
            Command::Sweep { nodes, .. } => nodes.iter_mut().for_each(|node| {
                let right = self.from.sweepable_at(&node.path) == Some(node.since);
                node.since = self.to.sweepable_at(&node.path).filter(|_| right).unwrap_or(Revision(u64::MAX));
            }),
            Command::Transact(transact) => transact.conditions.iter_mut().for_each(|condition| match condition {
                Condition::Fence { lock, token, grant } => *token = self.token(lock, *token, *grant),
                Condition::Session { session: SessionKey::Number(number) } => *number = self.session(*number),
                Condition::Session { .. } | Condition::Version { .. } | Condition::Exists { .. } => {}
            }),
            Command::Break(Break { lock, token, .. }) => *token = token.map(|token| self.token(lock, token, None)),
            Command::FormCluster { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::FormClusterAt { .. }
            | Command::OpenSession(_)
            | Command::CloseSession { .. }
            | Command::Acquire(_)
            | Command::Withdraw { .. }
            | Command::Abandon { .. }
            | Command::Release { .. }
            | Command::SetGrantTimeout { .. }
            | Command::Downgrade { .. }
            | Command::Upgrade { .. }
            | Command::EndUpgrade { .. }
            | Command::Proclaim(_)
            | Command::SetLock(_)
            | Command::Revoke(_)
            | Command::ContinuePendingWork { .. }
            | Command::RecordKey { .. }
            | Command::RecordCapacity { .. }
            | Command::CreateJoinToken(_)
            | Command::RevokeJoinToken { .. }
            | Command::AdmitNode(_)
            | Command::SettleJoin { .. }
            | Command::RequestRemoval(_)
            | Command::RecordRemoval { .. }
            | Command::SetMember(_)
            | Command::SetTiming { .. }
            | Command::Guarded(_)
            | Command::Attributed(_)
            | Command::NoteAct(_)
            | Command::ForTenant(_)
            | Command::ChangeAccess(_)
            | Command::ExpireTokens { .. } => {}
        }
        Some(command)
    }
}

/// The variant's name; for a refused step, that of its reason.
fn kind(rejection: &Rejection) -> String {
    let text = format!("{rejection:?}");
    let text = text.split_once("reason: ").filter(|_| text.starts_with("Step")).map_or(text.as_str(), |(_, reason)| reason);
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// The contenders of a lock, without anything that depends on revisions.
fn standing(state: &State, lock: &LockName) -> Vec<(GrantId, bool, bool, bool, u64, usize)> {
    let queue = state.queue(lock).into_iter().map(|entry| entry.contender.clone());
    let mut standing: Vec<_> = queue
        .map(|one| {
            let exclusive = one.mode == fairhold_types::Mode::Exclusive;
            (one.grant, one.granted_at.is_some(), one.cooling, exclusive && !one.upgrading, one.attempt, one.holds())
        })
        .collect();
    // Holders are in the order in which they queued, which may differ between locks of one grant.
    let holders = standing.iter().filter(|one| one.1).count();
    standing[..holders].sort();
    standing
}

fn nodes(state: &State) -> Vec<(Path, Vec<u8>, i32, u32)> {
    let nodes = state.descendants(&Path::root(), None).filter(|(path, _)| !path.is_under_locks());
    nodes.map(|(path, node)| (path.clone(), node.value.to_vec(), node.version, node.num_children)).collect()
}

fn compare(whole: &State, pieces: &State, ids: &BTreeSet<GrantId>) -> Checked {
    for lock in locks() {
        let (one, other) = (standing(whole, &lock), standing(pieces, &lock));
        ensure(one == other, || format!("{lock} has {other:?} and not {one:?}"))?;
    }
    ensure(nodes(whole) == nodes(pieces), || format!("the nodes are {:?} and not {:?}", nodes(pieces), nodes(whole)))?;
    for id in ids {
        let status = |state: &State| match state.grant(id) {
            GrantStatus::Live(_) => "live".to_owned(),
            GrantStatus::Ended(reason) => format!("{reason:?} {:?}", state.break_note(id)),
            GrantStatus::Unknown => "unknown".to_owned(),
        };
        let (one, other) = (status(whole), status(pieces));
        ensure(one == other, || format!("an id is {other} and not {one}"))?;
    }
    Ok(())
}

/// Checks a state with pending work.
fn check_pending(state: &State) -> Checked {
    state.check()?;
    for lock in locks() {
        for entry in state.queue(&lock) {
            let contender = entry.contender;
            if !state.is_dead(contender) {
                continue;
            }
            let token = contender.granted_at.map(|revision| FencingToken(revision.0));
            let fenced = token.is_none_or(|token| state.verify_fence(&lock, token, Some(&contender.grant)).is_err());
            ensure(fenced, || format!("the token of #{}, which is dead, passes", contender.number))?;
            let living = |holder: &&Contender| state.token_of(holder) == token;
            let of_another = state.lock(&lock).holders.iter().any(living);
            let fenced = of_another || token.is_none_or(|token| state.verify_fence(&lock, token, None).is_err());
            ensure(fenced, || format!("the token of #{}, which is dead, passes for anybody", contender.number))?;
            let ended = contender.ids().all(|id| matches!(state.grant(&id), GrantStatus::Ended(_)));
            ensure(ended, || format!("#{} is dead and not ended", contender.number))?;
        }
    }
    for (path, node) in state.descendants(&Path::root(), None) {
        let owner = node.ephemeral_owner;
        let owned = owner == SessionNumber(0) || path.is_under_locks() || state.session(owner).is_some();
        ensure(owned, || format!("{path} is visible, but its session has ended"))?;
    }
    Ok(())
}

/// Does all pieces, and returns how many there were.
fn drain(state: &mut State, steps: u64) -> Result<usize, String> {
    let mut left = 10_000;
    while state.has_pending() {
        let applied = state.apply(&Command::ContinuePendingWork { at: WallMillis(0) });
        bounded("ContinuePendingWork", applied.steps, steps)?;
        check_pending(state)?;
        left -= 1;
        ensure(left > 0, || "the pieces never end".to_owned())?;
    }
    Ok(10_000 - left)
}

/// One object beyond the limit: a grant of `LOCKS` locks that ends, and frees waiters.
fn bounded(what: &str, steps: u64, piece_steps: u64) -> Checked {
    let most = piece_steps + 200 + NODES_REMOVED_MAX as u64;
    ensure(steps <= most, || format!("{what} took {steps} steps"))
}

/// Reduces a verdict to one object. The leader names again what did not fit into the first piece, and by then another
/// grant may be upgraded. So a verdict on several may have another result.
fn on_one(mut command: Command) -> Command {
    if let Command::EndHolds { holds, .. } = &mut command {
        holds.truncate(1);
    } else if let Command::EndCooling { grants, .. } = &mut command {
        grants.truncate(1);
    }
    command
}

fn same_in_the_end(seed: u64, steps: usize) -> Result<usize, String> {
    let piece_steps = 1 + seed % 12;
    let (mut whole, mut pieces) = (State::new(), State::with_piece_steps(piece_steps));
    let (mut commands, mut ids) = (Commands::new(seed, profile(seed)), BTreeSet::new());
    let (mut trace, mut in_pieces) = (Vec::new(), 0);
    for step in 0..steps {
        let command = on_one(commands.next(&whole));
        let Some(other) = (Translation { from: &whole, to: &pieces }).command(&command) else { continue };
        trace.push(serde_json::to_string(&command).expect("a command can be printed"));
        if let Command::Acquire(acquire) = &command {
            ids.insert(acquire.grant);
        }
        let at_once = whole.apply(&command);
        let done = || {
            ensure(!whole.has_pending(), || "the whole command should have fitted".to_owned())?;
            let first = pieces.apply(&other);
            bounded("it", first.steps, piece_steps)?;
            let (one, result) =
                (at_once.answer.result.map_err(|error| kind(&error)), first.answer.result.map_err(|error| kind(&error)));
            ensure(one.is_ok() == result.is_ok() && one.as_ref().err() == result.as_ref().err(), || {
                format!("{result:?} and not {one:?}")
            })?;
            check_pending(&pieces)?;
            in_pieces += drain(&mut pieces, piece_steps)?;
            compare(&whole, &pieces, &ids)
        };
        done().map_err(|what| format!("seed {seed} ({:?}), step {step}: {what}\n{}", profile(seed), trace.join("\n")))?;
    }
    Ok(in_pieces)
}

/// Pieces come now and then, between commands of all kinds; a snapshot is taken in the middle.
fn right_in_between(seed: u64, steps: usize) -> Result<usize, String> {
    let piece_steps = 1 + seed % 60;
    let mut state = State::with_piece_steps(piece_steps);
    let mut commands = Commands::new(seed, profile(seed));
    let (mut trace, mut with_pending) = (Vec::new(), 0);
    for step in 0..steps {
        let command = if (step as u64 * 7 + seed).is_multiple_of(2 + seed % 13) {
            Command::ContinuePendingWork { at: WallMillis(0) }
        } else {
            commands.next(&state)
        };
        trace.push(serde_json::to_string(&command).expect("a command can be printed"));
        let applied = state.apply(&command);
        commands.learn(&state, &applied);
        with_pending += usize::from(state.has_pending());
        let checked = || {
            bounded("it", applied.steps, piece_steps)?;
            check_pending(&state)?;
            if step % 50 == 49 {
                let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
                let again = State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice)).map_err(|error| error.to_string())?;
                ensure(again == state, || "a snapshot changed the state".to_owned())?;
                drain(&mut again.clone(), piece_steps)?;
            }
            Ok::<(), String>(())
        };
        checked().map_err(|what| format!("seed {seed} ({:?}), step {step}: {what}\n{}", profile(seed), trace.join("\n")))?;
    }
    Ok(with_pending)
}

/// Makes it share its locks, and one more lock: there are many readers.
fn share(acquire: &mut Acquire, lock: LockName) {
    if acquire.value.is_some() {
        return;
    }
    if !acquire.reentrant && acquire.wants.iter().all(|want| want.lock != lock) {
        acquire.wants.push(Want { lock, mode: Mode::Shared });
    }
    acquire.wants.iter_mut().for_each(|want| want.mode = Mode::Shared);
    (acquire.limit, acquire.permits) = (None, 1);
}

/// Locks are broken and sessions end faster than the pieces come.
fn many_ends_at_once(seed: u64, steps: usize) -> Result<usize, String> {
    let piece_steps = 4 + seed % 40;
    let mut state = State::with_piece_steps(piece_steps);
    let mut rng = StdRng::seed_from_u64(seed);
    let profiles = [Profile::Several, Profile::Readers, Profile::Mixed, Profile::Semaphore];
    let profile = profiles[rng.random_range(0..profiles.len())];
    let mut commands = Commands::new(seed, profile);
    let (mut trace, mut several) = (Vec::new(), 0);
    for step in 0..steps {
        let at = WallMillis(step as u64);
        let sessions: Vec<SessionNumber> = state.sessions().map(|session| session.number).collect();
        let session = sessions.get(rng.random_range(0..=sessions.len())).copied().unwrap_or_default();
        let lock = locks()[rng.random_range(0..LOCKS.len())].clone();
        let mut command = match rng.random_range(0..60) {
            0..4 => Command::ContinuePendingWork { at },
            4..10 => {
                let key = WriteKey { key: GrantId::from_ulid(u128::MAX - step as u128), fingerprint: [9; 16] };
                Command::Break(Break {
                    key,
                    lock: lock.clone(),
                    token: None,
                    by: "admin".to_owned(),
                    reason: "stuck".to_owned(),
                    at,
                })
            }
            10 => Command::ExpireSession { session, at },
            11 => Command::EndSession { session, by: "admin".to_owned(), reason: "no more".to_owned(), at },
            12..14 => {
                let (id, name) = (SessionId(step as u128 + 1_000), String::new());
                Command::OpenSession(OpenSession { key: None, id, timeout_ms: 1_000, name, meta: Meta::new(), at })
            }
            _ => commands.next(&state),
        };
        if let Command::Acquire(acquire) = &mut command
            && rng.random_bool(0.75)
        {
            if let Some(owner) = state.session(session).and_then(|session| session.id) {
                acquire.claimant = Claimant::Session(owner);
            }
            share(acquire, lock);
        }
        trace.push(serde_json::to_string(&command).expect("a command can be printed"));
        let applied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| state.apply(&command)));
        let checked = || {
            let applied = applied.map_err(|_| "it panicked".to_owned())?;
            bounded("it", applied.steps, piece_steps)?;
            check_pending(&state)
        };
        checked().map_err(|what| format!("seed {seed} ({profile:?}), step {step}: {what}\n{}", trace.join("\n")))?;
        several += usize::from(state.pending_count() > 1);
    }
    drain(&mut state, piece_steps).map_err(|what| format!("seed {seed}, at the end: {what}\n{}", trace.join("\n")))?;
    Ok(several)
}

fn seeds() -> std::ops::Range<u64> {
    let long = std::env::var_os("FAIRHOLD_TRIAL").is_some_and(|form| form == "long");
    0..if long { 2_000 } else { 140 }
}

#[test]
fn work_in_pieces_has_the_same_result_as_work_at_once() {
    let mut in_pieces = 0;
    for seed in seeds() {
        match same_in_the_end(seed, 400) {
            Ok(count) => in_pieces += count,
            Err(what) => panic!("{what}"),
        }
    }
    assert!(in_pieces > 2_000, "only {in_pieces} pieces were left to later");
}

#[test]
fn every_state_with_pending_work_is_correct() {
    let mut with_pending = 0;
    for seed in seeds() {
        match right_in_between(seed, 500) {
            Ok(count) => with_pending += count,
            Err(what) => panic!("{what}"),
        }
    }
    assert!(with_pending > 5_000, "only {with_pending} states had something pending");
}

#[test]
fn broken_locks_and_ended_sessions_are_correct_when_they_overlap() {
    let mut several = 0;
    for seed in seeds() {
        match many_ends_at_once(seed, 400) {
            Ok(count) => several += count,
            Err(what) => panic!("{what}"),
        }
    }
    assert!(several > 2_000, "only {several} states had several pieces of work pending");
}
