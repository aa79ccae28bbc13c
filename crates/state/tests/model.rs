//! Random commands against the machine and against a naive model of it: any difference is a mistake in one of them.
//!
//! Every run is a seed; a failure prints the seed and the commands up to it. `FAIRHOLD_SEED=7 cargo test -p
//! fairhold-state --test model many_short` runs only that one, and `FAIRHOLD_SEED=1000..2000` these.

#[path = "model/naive.rs"]
mod naive;
#[path = "model/naive_membership.rs"]
mod naive_membership;
#[path = "model/naive_tree.rs"]
mod naive_tree;
#[path = "model/random.rs"]
mod random;
#[path = "model/situations.rs"]
mod situations;

use fairhold_state::{
    State,
    command::{Applied, Command, Event, Rejection},
    history_page::HistoryQuery,
    read::GrantStatus,
    record::{Contender, NodeKind, NodeRole, SessionRecord},
    restored::NewCluster,
};
use fairhold_types::{
    ClusterId, EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, Path, Revision, limits::PAGE_MAX, time::WallMillis,
};
use naive::{
    Mistake, Naive, PastHold,
    shown::{LockNode, SessionFacts},
};
use naive_membership::facts_of;
use naive_tree::Plain;
use random::{Commands, Profile};
use situations::{OF_MEMBERS, SITUATIONS, Scene};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Interval between expensive checks.
const SNAPSHOT_EVERY: usize = 50;
/// Ended grants do not change, so a mistake can be found later.
const HISTORY_EVERY: usize = 20;

type Checked = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

/// The machine, a replica that gets the same commands, and the model.
struct Run {
    seed: u64,
    state: State,
    replica: State,
    naive: Naive,
    ids: Vec<GrantId>,
    last_tokens: BTreeMap<LockName, FencingToken>,
    /// The holders and their grants before this step.
    held_before: BTreeSet<(LockName, GrantNumber)>,
    /// Every id that was ever held or queued, and every lock that was ever forgotten.
    lived: BTreeSet<GrantId>,
    forgotten: BTreeSet<LockName>,
    trace: Vec<String>,
    /// How often each kind of outcome, rejection and event occurred, and each situation.
    seen: Kinds,
}

type Kinds = BTreeMap<String, usize>;

/// The variant's name; for a refused step, that of its reason.
fn kind(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    let text = text.split_once("reason: ").filter(|_| text.starts_with("Step")).map_or(text.as_str(), |(_, reason)| reason);
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

impl Run {
    fn new(seed: u64, mistake: Option<Mistake>) -> Run {
        Run {
            seed,
            state: State::new(),
            replica: State::new(),
            naive: Naive::new(mistake),
            ids: Vec::new(),
            last_tokens: BTreeMap::new(),
            held_before: BTreeSet::new(),
            lived: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            trace: Vec::new(),
            seen: Kinds::new(),
        }
    }

    /// Runs `steps` commands, or returns what went wrong, with everything that led to it.
    fn run(mut self, profile: Profile, steps: usize) -> Result<Kinds, String> {
        let mut commands = Commands::new(self.seed, profile);
        // A long memory makes a check slow.
        let check_every = if profile == Profile::Calm { 20 } else { 1 };
        for step in 0..steps {
            let command = commands.next(&self.state);
            self.trace.push(serde_json::to_string(&command).expect("a command can be printed"));
            let before = self.state.clone();
            let stepped = self.step(step, &command, check_every).map(|applied| {
                self.note_situations(&before, &command, &applied);
                commands.learn(&self.state, &applied);
            });
            stepped.map_err(|what| {
                format!("seed {} ({profile:?}), step {step}: {what}\n{}\n{}", self.seed, self.standing(), self.trace.join("\n"))
            })?;
        }
        Ok(self.seen)
    }

    /// Applies a command, and checks everything visible in the state after it.
    fn step(&mut self, step: usize, command: &Command, check_every: usize) -> Result<Applied, String> {
        if let Command::Acquire(acquire) = command {
            self.ids.push(acquire.grant);
        }
        let before = self.state.clone();
        let applied = catch_unwind(AssertUnwindSafe(|| self.state.apply(command)));
        let applied = applied.map_err(|panic| format!("it panicked: {:?}", panic.downcast_ref::<String>()))?;
        ensure(self.replica.apply(command) == applied, || "two machines answer differently".to_owned())?;
        if let Err(Rejection::StateFull { .. }) = applied.answer.result {
            self.check_refusal(before, command)?;
        } else {
            self.compare(&before, command, &applied)?;
        }
        if self.state.bytes_max().is_some() {
            self.naive.shorten_history(self.state.census().history);
        }
        self.compare_state()?;
        self.check_grants(&applied)?;
        if step.is_multiple_of(check_every) {
            self.state.check()?;
            self.compare_ids()?;
        }
        if step.is_multiple_of(HISTORY_EVERY) {
            self.compare_history()?;
        }
        if step.is_multiple_of(SNAPSHOT_EVERY) {
            self.restore_from_snapshot()?;
        }
        Ok(applied)
    }

    /// Applies the command to the model, and compares the answers.
    fn compare(&mut self, before: &State, command: &Command, applied: &Applied) -> Checked {
        let (result, facts) = self.naive.apply(command);
        if let (Err(Rejection::WouldDeadlock { cycle }), Err(Rejection::WouldDeadlock { .. })) = (&applied.answer.result, &result)
        {
            // A second reader that requests an upgrade is refused before any actor is let run.
            let right = result == applied.answer.result || self.naive.is_cycle(command, cycle);
            return ensure(right, || format!("{cycle:?} is no cycle"));
        }
        ensure(applied.answer.result == result, || format!("{:?} and not {result:?}", applied.answer.result))?;
        let changed = u64::from(applied.answer.revision != before.revision());
        let refused = result.is_err();
        let right = applied.answer.revision.0 == before.revision().0 + changed && !(refused && changed == 1);
        ensure(right, || "a wrong revision".to_owned())?;
        self.compare_facts(applied, facts)
    }

    /// The model has no budget, so it has not executed a command that was refused for lack of room. With room, the same
    /// command must make the state larger.
    fn check_refusal(&self, before: State, command: &Command) -> Checked {
        ensure(self.state == before, || "a refused command changed something".to_owned())?;
        let (used, most) = (before.bytes(), before.bytes_max().unwrap_or(u64::MAX));
        let mut roomy = before;
        (1..3).for_each(|node| drop(roomy.apply(&Command::RecordCapacity { node, bytes: u64::MAX })));
        let allowed = roomy.apply(command);
        let grows = roomy.bytes() > used || matches!(command, Command::Revoke(_));
        let (bytes, result) = (roomy.bytes(), allowed.answer.result);
        ensure(result.is_ok() && grows && bytes > most / 2, || {
            format!("refused with {used} of {most} bytes: {bytes}, {result:?}")
        })
    }

    /// The contenders of each lock, readable, for the message of a failure.
    fn standing(&self) -> String {
        let mut lines = String::new();
        for name in self.naive.lock_names() {
            let view = self.state.lock(&name);
            writeln!(lines, "{name}: limit {:?}", view.limit).expect("writing to a string succeeds");
            for entry in self.state.queue(&name) {
                let one = entry.contender;
                let waits_for = entry.waits_for.map(|other| other.number.0);
                let (number, session, owner) = (one.number, one.session, &one.owner);
                let (mode, token, permits) = (one.mode, one.granted_at, one.permits);
                let (upgrading, cooling, others) = (one.upgrading, one.cooling, &one.others);
                writeln!(
                    lines,
                    "  #{number} of {session} {owner:?} {mode} granted {token:?}, permits {permits}, upgrading {upgrading}, \
                     cooling {cooling}, waits for {waits_for:?}, others {others:?}"
                )
                .expect("writing to a string succeeds");
            }
        }
        lines
    }

    fn note_situations(&mut self, before: &State, command: &Command, applied: &Applied) {
        let kinds = applied.events.iter().map(kind);
        let outcome = applied.answer.result.as_ref().map_or_else(kind, kind);
        for kind in kinds.chain([outcome]) {
            *self.seen.entry(kind).or_default() += 1;
        }
        let (lived, forgotten) = (&self.lived, &self.forgotten);
        let scene = Scene { before, command, applied, after: &self.state, lived, forgotten };
        for (name, _) in SITUATIONS.iter().chain(&OF_MEMBERS).filter(|(_, is_it)| is_it(&scene)) {
            *self.seen.entry((*name).to_owned()).or_default() += 1;
        }
        if let (Command::Acquire(acquire), Ok(_)) = (command, &applied.answer.result) {
            self.lived.insert(acquire.grant);
        }
        let forgotten = applied
            .events
            .iter()
            .filter_map(|event| if let Event::LockForgotten { lock } = event { Some(lock.clone()) } else { None });
        self.forgotten.extend(forgotten);
    }

    /// Compares the facts: those of nodes in the same order, the others in any order.
    fn compare_facts(&self, applied: &Applied, mut facts: Vec<Event>) -> Checked {
        let of_nodes = |event: &Event| {
            matches!(
                event,
                Event::NodeCreated { .. } | Event::NodeChanged { .. } | Event::NodeDeleted { .. } | Event::ChildrenChanged { .. }
            )
        };
        let (nodes, mut events): (Vec<Event>, Vec<Event>) = applied.events.iter().cloned().partition(of_nodes);
        ensure(nodes == self.naive.tree.events, || format!("events {nodes:?} and not {:?}", self.naive.tree.events))?;
        events.sort_by_key(|event| format!("{event:?}"));
        facts.sort_by_key(|event| format!("{event:?}"));
        ensure(events == facts, || format!("events {events:?} and not {facts:?}"))
    }

    fn compare_state(&self) -> Checked {
        let (state, naive) = (&self.state, &self.naive);
        ensure(state.revision().0 == naive.revision, || format!("revision {} and not {}", state.revision(), naive.revision))?;
        let names = naive.lock_names();
        names.iter().try_for_each(|name| self.compare_lock(name))?;
        let mut idle: Vec<_> = state.idle_locks().collect();
        idle.sort();
        ensure(idle == naive.idle(), || format!("idle {idle:?} and not {:?}", naive.idle()))?;
        let nodes: Vec<LockNode> = state
            .descendants(&Path::locks(), None)
            .map(|(path, node)| {
                let creates = u64::from(node.creates);
                (path.clone(), node.version, creates, node.ephemeral_owner.0, node.value.to_vec())
            })
            .collect();
        let mut nodes = nodes;
        nodes.sort();
        ensure(nodes == naive.lock_nodes(), || format!("the nodes of locks are {nodes:?} and not {:?}", naive.lock_nodes()))?;
        let sessions: Vec<SessionFacts> = state.sessions().map(session_facts).collect();
        let expected = naive.session_facts();
        ensure(sessions == expected, || format!("the sessions are {sessions:?} and not {expected:?}"))?;
        let (totals, expected) = (state.totals(), naive.totals());
        ensure(totals == expected, || format!("the totals are {totals:?} and not {expected:?}"))?;
        let (members, expected) = (facts_of(state.membership()), naive.members.facts());
        ensure(members == expected, || format!("the members are {members:?}\nand not\n{expected:?}"))?;
        self.compare_tree()
    }

    /// Compares all visible facts of a lock and of its contenders.
    fn compare_lock(&self, name: &LockName) -> Checked {
        let (state, naive) = (&self.state, &self.naive);
        let (queue, expected) = (state.queue(name), naive.line(name));
        let numbers = |of: &[&naive::Entry]| of.iter().map(|entry| entry.number).collect::<Vec<_>>();
        let found: Vec<u64> = queue.iter().map(|entry| entry.contender.number.0).collect();
        ensure(found == numbers(&expected), || format!("{name} has {found:?} and not {:?}", numbers(&expected)))?;
        for ((index, queued), entry) in queue.iter().enumerate().zip(expected) {
            let (contender, expected) = (queued.contender, naive.contender(entry));
            let keys = serde_json::to_value(&contender.keys).map_err(|error| error.to_string())?;
            let expected_keys = Naive::keys_of(entry);
            ensure(keys == expected_keys, || format!("#{} has the keys {keys} and not {expected_keys}", entry.number))?;
            let expected = Contender { keys: contender.keys.clone(), ..expected };
            ensure(*contender == expected, || format!("{contender:?}\nand not\n{expected:?}"))?;
            let waits_for = queued.waits_for.map(|other| other.number.0);
            let expected = naive.waits_for(entry);
            ensure(waits_for == expected, || format!("#{} waits for {waits_for:?} and not {expected:?}", entry.number))?;
            let alone = state.waits_for(name, contender.number).map(|other| other.number.0);
            ensure(alone == expected, || format!("#{} alone waits for {alone:?} and not {expected:?}", entry.number))?;
            let position = state.position(name, contender.number);
            let place = index as u64 + 1;
            let well = queued.position == place && position == entry.granted.is_none().then_some(place);
            ensure(well, || format!("#{} of {name} has a wrong place", contender.number))?;
        }
        let settings = match state.node(&name.path()).map(|node| &node.role) {
            Some(NodeRole::Lock(settings)) => Some(&**settings),
            Some(NodeRole::Data | NodeRole::Contender(_)) | None => None,
        };
        let expected = naive.settings(name);
        ensure(settings == expected.as_ref(), || format!("{name} keeps {settings:?} and not {expected:?}"))?;
        let (view, limit) = (state.lock(name), naive.limit(name));
        ensure(view.limit == limit, || format!("{name} has the limit {:?} and not {limit:?}", view.limit))?;
        let (found, expected) = (state.statistics(name), naive.numbers_of(name));
        ensure(found == expected, || format!("the numbers of {name} are {found:?} and not {expected:?}"))?;
        let leading =
            state.election(name).map(|now| (now.contender.number.0, now.token.0, now.version, now.since.0, now.value.to_vec()));
        let expected = naive.leading(name);
        ensure(leading == expected, || format!("{name} is led by {leading:?} and not {expected:?}"))
    }

    /// The newest of each lock's history, in order.
    fn compare_history(&self) -> Checked {
        let names = self.naive.lock_names().into_iter().chain(self.naive.history.iter().map(|holding| holding.lock.clone()));
        for lock in names.collect::<BTreeSet<_>>() {
            let page = self.state.history(&HistoryQuery { lock: lock.clone(), when: None, after: None, limit: PAGE_MAX });
            let (items, more) = (page.items, page.next.is_some());
            let past = items.into_iter().filter_map(|entry| Some((entry.holding, entry.ending?)));
            let found: Vec<PastHold> = past
                .map(|(holding, ending)| PastHold {
                    lock: holding.lock,
                    number: holding.number.0,
                    session: holding.session.0,
                    owner: holding.owner,
                    mode: holding.mode,
                    permits: holding.permits,
                    queued: holding.queued_at,
                    token: holding.token.0,
                    from: holding.from.at,
                    ended: ending.to.revision.0,
                    to: ending.to.at,
                    how: ending.how,
                    by: ending.by,
                    reason: ending.reason,
                })
                .collect();
            let mut expected = self.naive.history_of(&lock);
            // Holders are on the page too, and leave less room.
            expected.truncate(if more { found.len() } else { usize::MAX });
            ensure(found == expected, || format!("the history of {lock} is {found:?} and not {expected:?}"))?;
        }
        Ok(())
    }

    fn compare_tree(&self) -> Checked {
        let (state, tree) = (&self.state, &self.naive.tree);
        let below = std::iter::once(Path::root()).chain(state.descendants(&Path::root(), None).map(|(path, _)| path.clone()));
        let known: BTreeSet<Path> = tree.nodes.iter().map(|node| node.path.clone()).collect();
        let found: BTreeSet<Path> = below.filter(|path| !path.is_under_locks() || path.as_str() == "/locks").collect();
        ensure(found == known, || format!("the nodes are {found:?} and not {known:?}"))?;
        for expected in tree.nodes.iter().filter(|node| node.path.as_str() != "/locks") {
            let node = state.node(&expected.path).ok_or("it was found before")?;
            let kind = match node.kind.get() {
                NodeKind::Persistent => "persistent".to_owned(),
                NodeKind::Ephemeral => "ephemeral".to_owned(),
                NodeKind::Container => "container".to_owned(),
                NodeKind::Ttl { ttl_ms } => ttl_ms.to_string(),
            };
            let plain = Plain {
                path: expected.path.clone(),
                czxid: node.czxid.0,
                mzxid: node.mzxid.0,
                pzxid: node.pzxid.0,
                ctime: node.ctime.0,
                mtime: node.mtime.0,
                version: node.version,
                cversion: node.cversion(),
                creates: u64::from(node.creates),
                owner: node.ephemeral_owner.0,
                kind,
                value: node.value.to_vec(),
            };
            ensure(plain == *expected, || format!("{plain:?} and not {expected:?}"))?;
            let children: Vec<&Path> = state.children(&expected.path, None).map(|(path, _)| path).collect();
            let mut known: Vec<&Path> = tree.children(&expected.path).into_iter().map(|node| &node.path).collect();
            known.sort();
            let count = usize::try_from(node.num_children).map_err(|error| error.to_string())?;
            ensure(children == known && count == known.len(), || format!("children {children:?} and not {known:?}"))?;
        }
        Ok(())
    }

    /// Compares the status of every id ever used, or at least of the last ones.
    fn compare_ids(&self) -> Checked {
        for id in self.ids.iter().rev().take(40) {
            let status = match self.state.grant(id) {
                GrantStatus::Live(contender) => Some(Err(contender.number.0)),
                GrantStatus::Ended(reason) => Some(Ok(reason)),
                GrantStatus::Unknown => None,
            };
            let entries = self.naive.entries.iter().find(|entry| entry.ids().contains(id) && !entry.cooling);
            let expected: Option<Result<EndReason, u64>> =
                entries.map(|entry| Err(entry.number)).or_else(|| self.naive.ended(id).map(Ok));
            ensure(status == expected, || format!("an id is {status:?} and not {expected:?}"))?;
            let (note, expected) = (self.state.break_note(id), self.naive.note(id));
            ensure(note == expected, || format!("a grant was broken for {note:?} and not {expected:?}"))?;
        }
        Ok(())
    }

    /// What must hold of every grant of this step, whatever the model says.
    fn check_grants(&mut self, applied: &Applied) -> Checked {
        for event in &applied.events {
            let Event::Granted { lock, grant, token } = event else { continue };
            let revision = applied.answer.revision;
            ensure(token.0 == revision.0, || format!("#{grant} has token {token} at revision {revision}"))?;
            let holder = self.state.contender_in(lock, *grant).ok_or_else(|| format!("#{grant} was granted and is gone"))?;
            let last = self.last_tokens.insert(lock.clone(), *token);
            let alone = holder.mode == Mode::Exclusive && self.naive.limit(lock).unwrap_or(1) == 1;
            let grows = if alone { last < Some(*token) } else { last <= Some(*token) };
            ensure(grows, || format!("the token of {lock} went from {last:?} to {token}"))?;
            let place = |standing: i32, number: u64| (-i64::from(standing), number);
            // An upgraded grant held it already: it was never behind the waiters.
            let upgraded = !applied.events.iter().any(|event| matches!(event, Event::Queued { grant: new, .. } if new == grant))
                && self.held_before.contains(&(lock.clone(), *grant));
            if upgraded {
                continue;
            }
            for waiting in self.state.queue(lock).iter().filter(|entry| entry.contender.granted_at.is_none()) {
                let (waiting, granted) = (waiting.contender, place(holder.effective_priority, grant.0));
                let behind = place(waiting.effective_priority, waiting.number.0) > granted;
                ensure(behind, || format!("#{grant} was granted before #{}, which was ahead of it", waiting.number))?;
            }
        }
        self.held_before.clear();
        for name in self.naive.lock_names() {
            let holders = self.state.lock(&name).holders;
            self.held_before.extend(holders.iter().map(|holder| (name.clone(), holder.number)));
            let limit = self.state.lock(&name).limit.unwrap_or(1);
            let holders = self.naive.holders(&name);
            ensure(self.naive.holders_are_legal(&name, limit), || {
                format!("{name} is held by too many: limit {limit}, {holders:?}")
            })?;
            let first = self.naive.waiting(&name).first().copied().filter(|first| first.together.len() == 1);
            let closed = holders.iter().any(|holder| holder.upgrading);
            let stuck = !closed && first.is_some_and(|first| Naive::legal(&[holders, vec![first]].concat(), limit));
            ensure(!stuck, || format!("the first waiter for {name} could hold it"))?;
        }
        Ok(())
    }

    fn restore_from_snapshot(&mut self) -> Checked {
        let blocks: Vec<Vec<u8>> = self.state.snapshot_blocks().collect();
        let again = State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice)).map_err(|error| error.to_string())?;
        ensure(again == self.state, || "a snapshot changed the state".to_owned())?;
        ensure(again.digest() == self.replica.digest(), || "two machines differ".to_owned())?;
        let backup = self.state.for_backup(WallMillis(u64::MAX));
        backup.check_for_backup().map_err(|error| format!("the state of a backup: {error}"))?;
        let revision = Revision(backup.revision().0 + 1);
        let new = NewCluster { cluster: ClusterId(9), revision, at: WallMillis(1), revoke_tokens: true };
        let restored = backup.restored(&new);
        restored.check_for_backup().map_err(|error| format!("a restored state: {error}"))?;
        // The machine continues from the restored state, its replica from the old one.
        self.state = again;
        Ok(())
    }
}

fn session_facts(session: &SessionRecord) -> SessionFacts {
    let ended = session.ended.ids().filter_map(|id| Some((*id, session.ended.get(id)?))).collect();
    let (name, meta) = (session.name.to_string(), session.meta.clone());
    let (id, key, floor) = (session.id, session.key, session.ended.floor());
    (session.number.0, id, key, session.timeout_ms, name, meta, session.opened_at, ended, floor)
}

fn profile(seed: u64) -> Profile {
    match seed % 9 {
        0 => Profile::Mixed,
        1 => Profile::Readers,
        2 => Profile::Tree,
        3 => Profile::Several,
        4 => Profile::Priority,
        5 | 7 => Profile::Administration,
        6 => Profile::Full,
        _ => Profile::Semaphore,
    }
}

/// Whether the long form is requested: `FAIRHOLD_TRIAL=long`.
fn is_long() -> bool {
    std::env::var_os("FAIRHOLD_TRIAL").is_some_and(|form| form == "long")
}

/// The seeds that `FAIRHOLD_SEED` names: one, such as 7, or all from 7 to 99, as 7..100.
fn requested_seeds() -> Option<std::ops::Range<u64>> {
    let requested = std::env::var("FAIRHOLD_SEED").ok()?;
    let number = |text: &str| text.parse::<u64>().expect("FAIRHOLD_SEED is a number, or two with .. between them");
    Some(
        requested
            .split_once("..")
            .map_or_else(|| number(&requested)..number(&requested) + 1, |(from, to)| number(from)..number(to)),
    )
}

/// Runs all seeds, or those that `FAIRHOLD_SEED` names. In a full run, each of these kinds must occur often.
fn run_all(seeds: std::ops::Range<u64>, steps: usize, profile: impl Fn(u64) -> Profile, kinds: &[&str]) {
    let requested = requested_seeds();
    let mut seen = Kinds::new();
    for seed in requested.clone().unwrap_or(seeds) {
        match Run::new(seed, None).run(profile(seed), steps) {
            Ok(kinds) => kinds.into_iter().for_each(|(kind, count)| *seen.entry(kind).or_default() += count),
            Err(what) => panic!("{what}"),
        }
    }
    let rare = kinds.iter().filter(|kind| seen.get(**kind).copied().unwrap_or_default() < 20);
    let rare: Vec<_> = rare.collect();
    assert!(requested.is_some() || rare.is_empty(), "too rare: {rare:?}, of {seen:?}");
}

#[test]
fn many_short_histories_agree_with_the_model() {
    let outcomes = ["Nothing", "Done", "SessionOpened", "Held", "Queued", "Written", "Broken"];
    let rejections = [
        "NoSession",
        "SessionEnded",
        "NoGrant",
        "LockHeld",
        "GrantEnded",
        "IdempotencyMismatch",
        "LimitMismatch",
        "PermitsOverLimit",
        "SharedWithLimit",
        "SessionOwned",
        "StaleToken",
        "VersionMismatch",
        "NoNode",
        "ReadOnly",
        "Unsupported",
        "NodeExists",
        "OtherKind",
        "NotEmpty",
        "EphemeralParent",
        "NotHeld",
        "WouldDeadlock",
        "QueueFull",
    ];
    let events = [
        "SessionRetimed",
        "SessionClosed",
        "SessionExpired",
        "Attached",
        "Granted",
        "Ended",
        "Cooling",
        "Cooled",
        "LockForgotten",
        "NodeCreated",
        "NodeChanged",
        "NodeDeleted",
        "ChildrenChanged",
        "Downgraded",
        "Upgrading",
        "UpgradeEnded",
        "Holds",
        "LockSet",
        "Revoked",
    ];
    // 272,000 commands, and 800,000 in the long form.
    let situations = SITUATIONS.map(|(name, _)| name);
    let kinds = [&outcomes[..], &rejections, &events, &situations].concat();
    run_all(0..if is_long() { 1_000 } else { 340 }, 800, profile, &kinds);
}

/// The first seed of histories with elections.
const ELECTIONS: u64 = 2_000;

#[test]
fn elections_agree_with_the_model() {
    let kinds = ["NotLeader", "OtherUse", "Unsupported", "Proclaimed", "Vacated", "Granted"];
    // 32,000 commands, and 200,000 in the long form.
    run_all(ELECTIONS..ELECTIONS + if is_long() { 250 } else { 40 }, 800, |_| Profile::Elections, &kinds);
}

/// The first seed of histories about members.
const MEMBERS: u64 = 3_000;

#[test]
fn changes_of_members_agree_with_the_model() {
    let results = ["JoinTokenCreated", "Admitted", "JoinToken", "JoinTokensFull", "JoinsFull", "NoVoterLeft"];
    let kinds = [&results[..], &["IdempotencyMismatch", "Cluster"]].concat();
    let kinds = [&kinds[..], &OF_MEMBERS.map(|(name, _)| name)].concat();
    // 48,000 commands, and 320,000 in the long form.
    run_all(MEMBERS..MEMBERS + if is_long() { 200 } else { 30 }, 1_600, |_| Profile::Membership, &kinds);
}

#[test]
fn a_long_lived_session_forgets_as_the_model_does() {
    run_all(1_000..1_003, 8_000, |_| Profile::Calm, &["Forgotten"]);
}

#[test]
fn each_mistake_of_the_model_is_found() {
    for mistake in [
        Mistake::PriorityIgnored,
        Mistake::ReadersPassWriters,
        Mistake::SmallPassesLarge,
        Mistake::TokenIsTheQueueRevision,
        Mistake::LateAbandonEnds,
        Mistake::WithdrawEndsHolders,
        Mistake::NothingCools,
        Mistake::CoolingTokenPasses,
        Mistake::UnknownReleaseNotRemembered,
        Mistake::SecondReleaseChangesNothing,
        Mistake::ReaderTokenForAnyReader,
        Mistake::LimitForgottenWhenIdle,
        Mistake::ExpiryIsRelease,
        Mistake::BreakSparesCooling,
        Mistake::BreakEndsWaiters,
        Mistake::BreakIsRepeated,
        Mistake::RemovalLeavesPzxid,
        Mistake::SequenceIsTheNumberOfChildren,
        Mistake::SweepTakesWhatChanged,
        Mistake::ParentBeforeChild,
        Mistake::EphemeralsStay,
        Mistake::HistoryHasWaiters,
        Mistake::HistoryEndsWithCooling,
        Mistake::DowngradeTakesAnotherToken,
        Mistake::DowngradeNextToOthers,
        Mistake::UpgradeKeepsTheToken,
        Mistake::ReadersJoinAnUpgrade,
        Mistake::SeveralLocksAreGrantedOneByOne,
        Mistake::PriorityPassesSeveral,
        Mistake::PriorityNeverAges,
        Mistake::DeadlocksAreNotFound,
        Mistake::AnyReleaseEndsAllHolds,
        Mistake::LoweredLimitEndsNobody,
        Mistake::OwnersAreOneActor,
        Mistake::AnUpgradeLeavesNoEntry,
        Mistake::KeysOfChangesForgotten,
        Mistake::ReleaseForgetsTheSession,
        Mistake::AnyAttemptEndsAnUpgrade,
        Mistake::TheLongerBoundCounts,
        Mistake::AnUpgradeKeepsItsBound,
        Mistake::AContendersNameIsALock,
    ] {
        let found = (0..400).any(|seed| Run::new(seed, Some(mistake)).run(profile(seed), 800).is_err());
        assert!(found, "{mistake:?} was not found");
    }
    for mistake in [Mistake::AnyCandidateProclaims, Mistake::VacancyIsNotReported, Mistake::AnElectionMayBeALock] {
        let found = (ELECTIONS..ELECTIONS + 40).any(|seed| Run::new(seed, Some(mistake)).run(Profile::Elections, 800).is_err());
        assert!(found, "{mistake:?} was not found");
    }
    for mistake in [
        Mistake::LowestFreeId,
        Mistake::TokensNeverExpire,
        Mistake::TokensAdmitAnyDirectory,
        Mistake::AMemberIsReplacedTwice,
        Mistake::SettingsOutliveTheMember,
        Mistake::ASettledAddressIsNotSet,
        Mistake::ARemovedNodeJoinsAgain,
        Mistake::ReplacementsAreNotNamed,
        Mistake::EachRequestCreatesAToken,
    ] {
        let found = (MEMBERS..MEMBERS + 30).any(|seed| Run::new(seed, Some(mistake)).run(Profile::Membership, 1_600).is_err());
        assert!(found, "{mistake:?} was not found");
    }
    for mistake in [Mistake::NoFloor, Mistake::ServerIdsAreForgotten] {
        let found = (1_000..1_004).any(|seed| Run::new(seed, Some(mistake)).run(Profile::Calm, 8_000).is_err());
        assert!(found, "{mistake:?} was not found");
    }
}
