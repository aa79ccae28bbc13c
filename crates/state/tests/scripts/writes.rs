//! The commands of scripts that write the tree: one operation, or conditions and operations together.

use crate::{
    language::{Fallible, path, word},
    names::{grant_id, session_id},
};
use fairhold_state::command::{Command, Condition, Lifetime, Operation, SessionKey, Sweepable, Transact, WriteKey};
use fairhold_types::{FencingToken, LockName, Revision, duration, time::WallMillis};
use goldenscript::{Argument, ArgumentConsumer};

/// The names of commands that are one operation.
pub(crate) const OPERATIONS: [&str; 6] = ["put", "create", "seq", "set", "delete", "check"];

/// `put`, `create` …: the words are the operation's parts. `transact`: each `name=parts` is an operation or a
/// condition.
pub(crate) fn read(name: &str, args: &mut ArgumentConsumer<'_>, at: WallMillis) -> Fallible<Command> {
    let mut transact = Transact { key: None, conditions: Vec::new(), then: Vec::new(), otherwise: None, at };
    let mut flags = Vec::new();
    if OPERATIONS.contains(&name) {
        let mut parts = Vec::new();
        let count = match name {
            "seq" => 3,
            "delete" | "check" => 1,
            _ => 2,
        };
        for _ in 0..count {
            parts.push(word(args)?);
        }
        while let Some(flag) = args.next_pos() {
            flags.push(flag);
        }
        transact.then.push(operation(name, &[parts, flags].concat())?);
    }
    let (mut key, mut request) = (None, name);
    for argument in args.by_ref() {
        let Argument::KeyValue(field, text) = argument else {
            return Err(format!("unexpected: {argument}").into());
        };
        let parts: Vec<&str> = text.split('@').collect();
        match (field.as_str(), parts.as_slice()) {
            ("key", [name]) => key = Some(grant_id(name)?),
            ("request", [text]) => request = text,
            ("else", parts) => transact.otherwise.get_or_insert_default().push(operation("put", parts)?),
            (name, parts) if OPERATIONS.contains(&name) => transact.then.push(operation(name, parts)?),
            (name, parts) => transact.conditions.push(condition(name, parts)?),
        }
    }
    let mut fingerprint = [0; 16];
    fingerprint.iter_mut().zip(request.bytes()).for_each(|(to, from)| *to = from);
    transact.key = key.map(|key| WriteKey { key, fingerprint });
    Ok(Command::Transact(transact))
}

/// `sweep PATH@SINCE …`
pub(crate) fn sweep(args: &mut ArgumentConsumer<'_>, at: WallMillis) -> Fallible<Command> {
    let mut nodes = Vec::new();
    while let Some(text) = args.next_pos() {
        let (node, since) = text.split_once('@').ok_or("PATH@SINCE is expected")?;
        nodes.push(Sweepable { path: path(node)?, since: Revision(since.parse()?) });
    }
    Ok(Command::Sweep { nodes, at })
}

fn condition(name: &str, parts: &[&str]) -> Fallible<Condition> {
    Ok(match (name, parts) {
        ("fence", [lock, token, grant @ ..]) => Condition::Fence {
            lock: LockName::parse(lock)?,
            token: FencingToken(token.parse()?),
            grant: grant.first().map(|grant| grant_id(grant)).transpose()?,
        },
        ("version", [at, version]) => Condition::Version { path: path(at)?, version: Some(version.parse()?) },
        ("absent", [at]) => Condition::Version { path: path(at)?, version: None },
        ("exists", [at]) => Condition::Exists { path: path(at)? },
        ("alive", [session]) => Condition::Session { session: SessionKey::Id(session_id(session)?) },
        _ => return Err(format!("unexpected: {name}={}", parts.join("@")).into()),
    })
}

/// Further parts are flags: `parents`, `all`, `v3`, or a lifetime: `s1`, `container`, `10s`.
fn operation(name: &str, parts: &[&str]) -> Fallible<Operation> {
    let (own, flags) = match (name, parts) {
        ("put" | "create" | "set", [at, value, flags @ ..]) => ([*at, "", *value], flags),
        ("seq", [at, prefix, value, flags @ ..]) => ([*at, *prefix, *value], flags),
        ("delete" | "check", [at, flags @ ..]) => ([*at, "", ""], flags),
        _ => return Err(format!("a part of {name} is missing").into()),
    };
    let [at, prefix, value] = own;
    let (path, prefix, value) = (path(at)?, prefix.to_owned(), value.as_bytes().into());
    let (mut parents, mut recursive, mut version, mut lifetime) = (false, false, None, Lifetime::Persistent);
    for flag in flags {
        match (flag.strip_prefix('v').map(str::parse), flag) {
            (Some(Ok(number)), _) => version = Some(number),
            (_, &"parents") => parents = true,
            (_, &"all") => recursive = true,
            (_, flag) => lifetime = self::lifetime(flag)?,
        }
    }
    Ok(match name {
        "put" => Operation::Put { path, value, parents, lifetime },
        "create" => Operation::Create { path, value, parents, lifetime },
        "seq" => Operation::CreateSequential { parent: path, prefix, value, parents, lifetime },
        "set" => Operation::Set { path, value, version },
        "delete" => Operation::Delete { path, version, recursive },
        _ => Operation::Check { path, version },
    })
}

fn lifetime(text: &str) -> Fallible<Lifetime> {
    Ok(match text {
        "container" => Lifetime::Container,
        session if session.starts_with('s') => Lifetime::Ephemeral { session: session_id(session)? },
        ttl => Lifetime::Ttl { ttl_ms: u64::try_from(duration::parse(ttl)?.as_millis())? },
    })
}
