//! The commands of scripts. Names are in `names.rs`; paths are written without their first slash, and `anon` stands for a
//! claimant without a session.
//!
//! ```text
//! form                                       names the cluster
//! open s1 [timeout=10s] [key=k] [name=..] [meta=..]      close s1      expire s1|a
//! acquire LOCK s1|anon [id=a] [mode=shared] [limit=] [permits=] [priority=] [owner=|from=] [lock_delay=] [ttl=] [meta=]
//! [refuse] [and=LOCK,LOCK:shared] [by=server]
//!         [reentrant] [max_hold=5s] [value=]
//! withdraw a attempt=1     abandon a attempt=1     release a [session=s1]     retime a timeout=5s [key=k]     cool LOCK a
//! forget through=7         forget-lock LOCK since=7         forget-history through=7
//! show history LOCK [at=5s] [revision=7] [limit=2]         show statistics [LOCK]
//! put|create|set PATH VALUE    seq PARENT PREFIX VALUE    delete|check PATH      each with flags behind it:
//!         [parents] [s1|container|10s] [v3] [all]       lifetime, version, recursively
//! transact put=PATH@VALUE[@FLAG] create=… seq=… set=… delete=… check=…   all with [fence=LOCK@TOKEN[@a]] [version=PATH@N]
//!         [absent=PATH] [exists=PATH] [alive=s1] [else=PATH@VALUE] [key=k] [request=..]
//! proclaim ELECTION a [value=..] [key=k]     show election NAME
//! sweep PATH@SINCE …       show children|below PATH [after]     show owned s1     show sweepable
//! downgrade a [key=k]     upgrade a [refuse] [key=k]     end-upgrade a [attempt=1]     record-key k
//! allow LOCK [limit=] [max_waiters=] [max_hold=5s] [key=k]     revoke LOCK [reason=] [key=k]     end-hold a token=7
//! pieces STEPS                               starts over with pieces of work of this many steps
//! continue                                   does the next piece        finish      does all remaining pieces
//! create-token [by=] and others               all of `members.rs`       show members
//! role NAME RULE and others                   all of `access.rs`        show access
//! note lead|snapshot|finalize|promote|demote|address N [unfinished|now] [key=k]     show audit
//! any of them with [origin=ci]                the command with its origin, for the audit
//! tenant NAME and others                      all of `tenants.rs`       show tenants
//! fence LOCK TOKEN [a]     show lock|queue|session|grant|node NAME     show memory|cooling|idle     snapshot
//! flood LOCK s1 id=a from=1 to=9             acquires with a1 … a9; prints the last
//! cycle LOCK s1 id=a from=1 to=9             acquires and releases each; prints the last
//! ```

use crate::{
    access, audit, members,
    names::{Names, grant_id, session_id},
    printer, show, tenants, writes,
};
use fairhold_access::TenantNumber;
use fairhold_state::{
    State,
    command::{
        AccessGuard, Acquire, ActOrigin, Applied, Break, Claimant, Command, HeldGrant, IfBusy, Meta, OpenSession, Outcome, Owner,
        Proclaim, Queued, Revoke, SetLock, Want, WriteKey,
    },
    listing::{LockFilter, LockQuery, LockSort},
};
use fairhold_types::{ClusterId, ClusterVersion, FencingToken, LockName, Mode, Path, Revision, duration, time::WallMillis};
use goldenscript::{ArgumentConsumer, Context};
use std::error::Error;

pub(crate) type Fallible<T> = Result<T, Box<dyn Error>>;

/// A state, and the meaning of the names in its script.
#[derive(Debug)]
pub(crate) struct Machine {
    state: State,
    names: Names,
    /// How many commands were given: the wall clock of scripts, and the source of ids if a command names none.
    steps: u64,
    /// The prefix of the command.
    guard: Option<(AccessGuard, Option<TenantNumber>)>,
    /// Where the command comes from, as `origin=` says.
    origin: Option<ActOrigin>,
}

impl goldenscript::Runner for Machine {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, context: &Context) -> Fallible<String> {
        self.steps += 1;
        let prefix = context.prefix.as_deref();
        self.guard = prefix.map(|prefix| access::guard(&self.state, prefix)).transpose()?;
        let mut args = command.consume_args();
        self.origin = args.take_key("origin").map(audit::origin).transpose()?;
        let printed = self.dispatch(&command.name, &mut args)?;
        args.reject_next()?;
        self.check()?;
        Ok(printed)
    }
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine { state: State::new(), names: Names::default(), steps: 0, guard: None, origin: None }
    }

    fn at(&self) -> WallMillis {
        WallMillis(self.steps * 1_000)
    }

    fn dispatch(&mut self, name: &str, args: &mut ArgumentConsumer<'_>) -> Fallible<String> {
        let at = self.at();
        let command = match name {
            "form" => Command::FormCluster { cluster: ClusterId(7) },
            "raise-version" => Command::RaiseClusterVersion { to: ClusterVersion(u16::try_from(number(args, "to")?)?) },
            "open" => return self.open(args),
            "end-hold" | "cool" | "forget" | "forget-lock" | "forget-history" => self.verdict(name, args)?,
            "close" => Command::CloseSession { session: session_id(word(args)?)?, at },
            "expire" => Command::ExpireSession { session: self.session_of(word(args)?)?, at },
            "acquire" => return self.acquire(args),
            "withdraw" => Command::Withdraw { grant: grant_id(word(args)?)?, attempt: number(args, "attempt")?, at },
            "abandon" => Command::Abandon { grant: grant_id(word(args)?)?, attempt: number(args, "attempt")?, at },
            "release" => {
                let session = args.take_key("session").map(session_id).transpose()?;
                Command::Release { grant: grant_id(word(args)?)?, session, at }
            }
            "downgrade" => Command::Downgrade { grant: grant_id(word(args)?)?, key: key(args)?, at },
            "upgrade" => {
                let grant = grant_id(word(args)?)?;
                let if_busy = if args.next_pos() == Some("refuse") { IfBusy::Refuse } else { IfBusy::Queue };
                Command::Upgrade { grant, if_busy, key: key(args)?, at }
            }
            "end-upgrade" => {
                let attempt = args.take_key("attempt").map_or(Ok(u64::MAX), str::parse)?;
                Command::EndUpgrade { grant: grant_id(word(args)?)?, attempt, at }
            }
            "record-key" => Command::RecordKey { key: WriteKey { key: grant_id(word(args)?)?, fingerprint: [0; 16] }, at },
            "pieces" => {
                self.state = State::with_piece_steps(word(args)?.parse()?);
                return Ok("pieces".to_owned());
            }
            "continue" => Command::ContinuePendingWork { at },
            "finish" => return Ok(self.finish(at)),
            "allow" => Command::SetLock(SetLock {
                key: key(args)?,
                lock: LockName::parse(word(args)?)?,
                limit: args.take_key("limit").map(str::parse).transpose()?,
                max_waiters: args.take_key("max_waiters").map(str::parse).transpose()?,
                max_hold_ms: args.take_key("max_hold").map(span_ms).transpose()?,
                by: "admin".to_owned(),
                at,
            }),
            "revoke" => {
                let (lock, reason) = (LockName::parse(word(args)?)?, args.take_key("reason").unwrap_or_default().to_owned());
                Command::Revoke(Revoke { key: key(args)?, lock, by: "admin".to_owned(), reason, at })
            }
            "retime" => {
                let (grant, timeout_ms) = (grant_id(word(args)?)?, millis(args, "timeout", "30s")?);
                Command::SetGrantTimeout { grant, timeout_ms, key: key(args)?, at }
            }
            "break" => self.break_lock(args)?,
            "proclaim" => self.proclaim(args)?,
            "end" => {
                let session = self.session_of(word(args)?)?;
                let reason = args.take_key("reason").unwrap_or_default().to_owned();
                Command::EndSession { session, by: "admin".to_owned(), reason, at }
            }
            "sweep" => writes::sweep(args, at)?,
            name if members::NAMES.contains(&name) => members::read(name, args, at)?,
            name if access::NAMES.contains(&name) => access::read(name, args, at)?,
            "note" => audit::read(args, at)?,
            name if tenants::NAMES.contains(&name) => tenants::read(name, args, at)?,
            name if name == "transact" || writes::OPERATIONS.contains(&name) => writes::read(name, args, at)?,
            "fence" => return self.fence(args),
            "show" => return self.show(args),
            "snapshot" => return self.snapshot(),
            "flood" => return self.repeat(args, false),
            "cycle" => return self.repeat(args, true),
            _ => return Err(format!("no such command: {name}").into()),
        };
        Ok(self.apply(command))
    }

    /// A verdict by the leader's clock.
    fn verdict(&self, name: &str, args: &mut ArgumentConsumer<'_>) -> Fallible<Command> {
        let at = self.at();
        Ok(match name {
            "end-hold" => {
                let id = word(args)?;
                let grant = self.names.grant(id).ok_or_else(|| format!("there never was a grant {id}"))?;
                Command::EndHolds { holds: vec![(grant, FencingToken(number(args, "token")?))], at }
            }
            "cool" => {
                let (_lock, id) = (LockName::parse(word(args)?)?, word(args)?);
                let grant = self.names.grant(id).ok_or_else(|| format!("there never was a grant {id}"))?;
                Command::EndCooling { grants: vec![grant], at }
            }
            "forget" => Command::Forget { through: Revision(number(args, "through")?) },
            "forget-lock" => {
                let lock = LockName::parse(word(args)?)?;
                Command::ForgetLocks { locks: vec![(lock, Revision(number(args, "since")?))] }
            }
            "forget-history" => Command::ForgetHistory { through: Revision(number(args, "through")?) },
            _ => return Err(format!("no such verdict: {name}").into()),
        })
    }

    fn apply(&mut self, command: Command) -> String {
        let before = self.state.revision();
        let applied = self.state.apply(&self.guarded(command));
        printer::applied(&self.names, before, &applied)
    }

    /// The command with its origin, and with the guard that its prefix means.
    fn guarded(&self, command: Command) -> Command {
        let command = match &self.origin {
            Some(origin) => command.attributed(origin.clone()),
            None => command,
        };
        match self.guard {
            Some((guard, tenant)) if command.opens_session() => command.guarded(guard).for_tenant(tenant),
            Some((guard, _)) => command.guarded(guard),
            None => command,
        }
    }

    /// Does all remaining pieces, and prints each.
    fn finish(&mut self, at: WallMillis) -> String {
        let mut lines = Vec::new();
        while self.state.has_pending() {
            lines.push(self.apply(Command::ContinuePendingWork { at }));
        }
        lines.join("\n")
    }

    /// What must hold after every command: the caches are right, and a snapshot restores the same state.
    fn check(&self) -> Fallible<()> {
        self.state.check()?;
        let blocks: Vec<Vec<u8>> = self.state.snapshot_blocks().collect();
        let again = State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice))?;
        again.check()?;
        if again != self.state || again.digest() != self.state.digest() {
            return Err("a snapshot changed the state".into());
        }
        Ok(())
    }

    fn open(&mut self, args: &mut ArgumentConsumer<'_>) -> Fallible<String> {
        let name = word(args)?;
        let open = OpenSession {
            key: args.take_key("key").map(grant_id).transpose()?,
            id: session_id(name)?,
            timeout_ms: millis(args, "timeout", "10s")?,
            name: args.take_key("name").unwrap_or(name).to_owned(),
            meta: meta(args),
            at: self.at(),
        };
        let (before, asked) = (self.state.revision(), open.id);
        let applied = self.state.apply(&self.guarded(Command::OpenSession(open)));
        if let Ok(Outcome::SessionOpened { id, number, .. }) = &applied.answer.result
            && *id == asked
        {
            self.names.note_session(name, *number);
        }
        Ok(printer::applied(&self.names, before, &applied))
    }

    fn acquire(&mut self, args: &mut ArgumentConsumer<'_>) -> Fallible<String> {
        let fresh = format!("z{}", self.steps);
        let id = args.take_key("id").unwrap_or(&fresh);
        let acquire = self.read_acquire(id, args)?;
        let before = self.state.revision();
        let applied = self.state.apply(&self.guarded(Command::Acquire(acquire)));
        self.note_grant(id, &applied);
        Ok(printer::applied(&self.names, before, &applied))
    }

    fn note_grant(&mut self, id: &str, applied: &Applied) {
        if let Ok(Outcome::Held(HeldGrant { number, .. }) | Outcome::Queued(Queued { number, .. })) = &applied.answer.result {
            self.names.note_grant(id, *number);
        }
    }

    fn read_acquire(&self, id: &str, args: &mut ArgumentConsumer<'_>) -> Fallible<Acquire> {
        let mode = match args.take_key("mode") {
            None | Some("exclusive") => Mode::Exclusive,
            Some("shared") => Mode::Shared,
            Some(other) => return Err(format!("no such mode: {other}").into()),
        };
        let want = |name: &str| Ok::<_, Box<dyn Error>>(Want { lock: LockName::parse(name)?, mode });
        let mut wants = vec![want(word(args)?)?];
        let claimant = match word(args)? {
            "anon" => Claimant::Anonymous { timeout_ms: millis(args, "ttl", "30s")? },
            session => Claimant::Session(session_id(session)?),
        };
        for other in args.take_key("and").into_iter().flat_map(|others| others.split(',')) {
            wants.push(match other.split_once(':') {
                Some((name, "shared")) => Want { lock: LockName::parse(name)?, mode: Mode::Shared },
                Some((name, "exclusive")) => Want { lock: LockName::parse(name)?, mode: Mode::Exclusive },
                Some(_) => return Err(format!("no such mode: {other}").into()),
                None => want(other)?,
            });
        }
        let owner = match (args.take_key("owner"), args.take_key("from")) {
            (Some(text), None) => Owner { text: text.to_owned(), given: true },
            (None, from) => Owner { text: from.unwrap_or("somebody").to_owned(), given: false },
            (Some(_), Some(_)) => return Err("an owner is given, or made from where the caller comes from".into()),
        };
        let mut acquire = Acquire {
            grant: grant_id(id)?,
            id_given: args.take_key("by").is_none(),
            wants,
            claimant,
            if_busy: IfBusy::Queue,
            limit: args.take_key("limit").map(str::parse).transpose()?,
            permits: args.take_key("permits").unwrap_or("1").parse()?,
            priority: args.take_key("priority").unwrap_or("0").parse()?,
            owner,
            meta: meta(args),
            lock_delay_ms: millis(args, "lock_delay", "0s")?,
            reentrant: false,
            max_hold_ms: args.take_key("max_hold").map(span_ms).transpose()?,
            value: args.take_key("value").map(|value| value.as_bytes().to_vec()),
            at: self.at(),
        };
        while let Some(flag) = args.next_pos() {
            match flag {
                "refuse" => acquire.if_busy = IfBusy::Refuse,
                "reentrant" => acquire.reentrant = true,
                other => return Err(format!("no such flag: {other}").into()),
            }
        }
        Ok(acquire)
    }

    fn break_lock(&self, args: &mut ArgumentConsumer<'_>) -> Fallible<Command> {
        let lock = LockName::parse(word(args)?)?;
        let key = args.take_key("key").map_or_else(|| format!("k{}", self.steps), str::to_owned);
        let reason = args.take_key("reason").unwrap_or_default().to_owned();
        let token = args.take_key("token").map(str::parse).transpose()?.map(FencingToken);
        let mut fingerprint = [0; 16];
        fingerprint.iter_mut().zip(lock.as_str().bytes()).for_each(|(to, from)| *to = from);
        let key = WriteKey { key: grant_id(&key)?, fingerprint };
        Ok(Command::Break(Break { key, lock, token, by: "admin".to_owned(), reason, at: self.at() }))
    }

    fn proclaim(&self, args: &mut ArgumentConsumer<'_>) -> Fallible<Command> {
        let (election, id) = (LockName::parse(word(args)?)?, word(args)?);
        let key = args.take_key("key").map_or_else(|| format!("k{}", self.steps), str::to_owned);
        let value = args.take_key("value").unwrap_or_default().as_bytes().into();
        let key = WriteKey { key: grant_id(&key)?, fingerprint: [0; 16] };
        Ok(Command::Proclaim(Proclaim { key, election, grant: grant_id(id)?, value, at: self.at() }))
    }

    fn fence(&self, args: &mut ArgumentConsumer<'_>) -> Fallible<String> {
        let (lock, token) = (LockName::parse(word(args)?)?, FencingToken(word(args)?.parse()?));
        let grant = args.next_pos().map(grant_id).transpose()?;
        Ok(match self.state.verify_fence(&lock, token, grant.as_ref()) {
            Ok(()) => "passes".to_owned(),
            Err(rejection) => printer::rejection(&rejection),
        })
    }

    fn show(&self, args: &mut ArgumentConsumer<'_>) -> Fallible<String> {
        let (names, state) = (&self.names, &self.state);
        Ok(match word(args)? {
            "lock" => show::lock(names, state, &LockName::parse(word(args)?)?),
            "queue" => show::queue(names, state, &LockName::parse(word(args)?)?),
            "session" => show::session(names, state, word(args)?)?,
            "grant" => show::grant(names, state, word(args)?)?,
            "node" => show::node(names, state, &path(args.next_pos().unwrap_or_default())?),
            "children" => show::children(state, &path(args.next_pos().unwrap_or_default())?, args.next_pos()),
            "below" => show::below(state, &path(args.next_pos().unwrap_or_default())?, args.next_pos()),
            "owned" => show::owned(names, state, word(args)?)?,
            "sweepable" => show::sweepable(state),
            "memory" => show::memory(state),
            "cooling" => show::cooling(names, state),
            "idle" => show::idle(state),
            "history" => show::history(names, state, args)?,
            "statistics" => show::statistics(state, args.next_pos())?,
            "election" => show::election(state, &LockName::parse(word(args)?)?),
            "locks" => show::locks(state, &locks_query(args)?),
            "members" => members::show(state),
            "access" => access::show(state),
            "audit" => audit::show(state),
            "tenants" => tenants::show(state),
            other => return Err(format!("nothing to show of that kind: {other}").into()),
        })
    }

    /// Restores the state from its own snapshot, and continues with the restored one.
    fn snapshot(&mut self) -> Fallible<String> {
        let blocks: Vec<Vec<u8>> = self.state.snapshot_blocks().collect();
        self.state = State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice))?;
        let (sessions, nodes) = (self.state.session_count(), self.state.node_count());
        Ok(format!("@{} read from a snapshot: {sessions} sessions, {nodes} nodes", self.state.revision()))
    }

    /// Many acquires in one command, each of which must succeed; the state is checked after the last.
    fn repeat(&mut self, args: &mut ArgumentConsumer<'_>, release: bool) -> Fallible<String> {
        let (from, to) = (number(args, "from")?, number(args, "to")?);
        let letter = args.take_key("id").ok_or("id= is missing")?;
        let first = self.read_acquire(letter, args)?;
        let mut last = "none".to_owned();
        for index in from..=to {
            let id = format!("{letter}{index}");
            let mut commands = vec![Command::Acquire(Acquire { grant: grant_id(&id)?, ..first.clone() })];
            if release {
                commands.push(Command::Release { grant: grant_id(&id)?, session: None, at: self.at() });
            }
            for command in commands {
                let before = self.state.revision();
                let applied = self.state.apply(&command);
                self.note_grant(&id, &applied);
                last = printer::applied(&self.names, before, &applied);
                if applied.answer.result.is_err() {
                    return Err(format!("{id}: {last}").into());
                }
            }
        }
        Ok(format!("{} times; the last: {last}", to + 1 - from))
    }

    /// A session by its own name, or by the name of its only grant.
    fn session_of(&self, name: &str) -> Fallible<fairhold_types::SessionNumber> {
        let of_grant = || self.names.grant(name).map(|number| fairhold_types::SessionNumber(number.0));
        self.names.session(name).or_else(of_grant).ok_or_else(|| format!("there never was a session {name}").into())
    }
}

pub(crate) fn path(text: &str) -> Fallible<Path> {
    Ok(Path::parse(&format!("/{text}"))?)
}

pub(crate) fn word<'a>(args: &mut ArgumentConsumer<'a>) -> Fallible<&'a str> {
    args.next_pos().ok_or_else(|| "a word is missing".into())
}

pub(crate) fn number(args: &mut ArgumentConsumer<'_>, key: &str) -> Fallible<u64> {
    Ok(args.take_key(key).ok_or_else(|| format!("{key}= is missing"))?.parse()?)
}

fn millis(args: &mut ArgumentConsumer<'_>, key: &str, default: &str) -> Fallible<u64> {
    Ok(u64::try_from(duration::parse(args.take_key(key).unwrap_or(default))?.as_millis())?)
}

fn span_ms(text: &str) -> Fallible<u64> {
    Ok(u64::try_from(duration::parse(text)?.as_millis())?)
}

/// A key, with a fingerprint of its request if that must differ.
pub(crate) fn key(args: &mut ArgumentConsumer<'_>) -> Fallible<Option<WriteKey>> {
    let Some(key) = args.take_key("key") else { return Ok(None) };
    let fingerprint = [args.take_key("request").map_or(Ok(0), str::parse)?; 16];
    Ok(Some(WriteKey { key: grant_id(key)?, fingerprint }))
}

fn meta(args: &mut ArgumentConsumer<'_>) -> Meta {
    args.take_key("meta").map(|value| ("note".to_owned(), value.to_owned())).into_iter().collect()
}

/// `show locks [PREFIX] [state=…] [sort=…] [limit=…]`
fn locks_query(args: &mut ArgumentConsumer<'_>) -> Fallible<LockQuery> {
    let filter = match args.take_key("state") {
        None => None,
        Some("held") => Some(LockFilter::Held),
        Some("queued") => Some(LockFilter::Queued),
        Some("cooling") => Some(LockFilter::Cooling),
        Some("idle") => Some(LockFilter::Idle),
        Some(other) => return Err(format!("no such state: {other}").into()),
    };
    let sort = match args.take_key("sort") {
        None => LockSort::Name,
        Some("waiters") => LockSort::Waiters,
        Some("longest_wait") => LockSort::LongestWait,
        Some("wait") => LockSort::Wait,
        Some("hold") => LockSort::Hold,
        Some("contention") => LockSort::Contention,
        Some(other) => return Err(format!("no such order: {other}").into()),
    };
    let limit = args.take_key("limit").unwrap_or("100").parse()?;
    let prefix = args.next_pos().unwrap_or_default().to_owned();
    Ok(LockQuery { prefix, filter, sort, limit, ..LockQuery::default() })
}
