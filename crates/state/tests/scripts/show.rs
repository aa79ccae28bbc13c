//! The answers to reads of the state: `show lock|queue|session|grant|node|children|below|owned|…`, `fence`.

use crate::names::{Names, grant_id};
use fairhold_state::{
    State,
    history_page::{HistoryQuery, When},
    listing::LockQuery,
    read::GrantStatus,
    record::{Contender, NodeKind, NodeRole},
};
use fairhold_types::{LockName, Path, Revision, duration, time::WallMillis};
use goldenscript::ArgumentConsumer;
use std::error::Error;

type Printed = Result<String, Box<dyn Error>>;

fn list(lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}

/// A holder or waiter of a lock.
fn contender(names: &Names, state: &State, contender: &Contender) -> String {
    let state = match (contender.cooling, contender.granted_at) {
        (true, _) => "cools".to_owned(),
        _ if state.is_dead(contender) => "has ended".to_owned(),
        (false, Some(revision)) => format!("holds token={revision}"),
        (false, None) => "waits".to_owned(),
    };
    let permits = if contender.permits == 1 { String::new() } else { format!(" permits={}", contender.permits) };
    let priority = if contender.priority == 0 { String::new() } else { format!(" priority={}", contender.priority) };
    let bound =
        contender.hold_ms.filter(|_| !contender.cooling).map(|hold_ms| format!(" for {hold_ms}ms at most")).unwrap_or_default();
    let session = names.of_session(contender.session);
    format!("#{} of {session} {} {state}{bound}{permits}{priority}", contender.number, contender.mode)
}

pub(crate) fn lock(names: &Names, state: &State, name: &LockName) -> String {
    let view = state.lock(name);
    let number = |number: Option<u64>| number.map_or_else(|| "none".to_owned(), |number| number.to_string());
    let head = format!(
        "{name}: limit {}, last token {}, {} waiting",
        number(view.limit.map(u64::from)),
        number(view.last_token.map(|token| token.0)),
        view.waiting
    );
    list(std::iter::once(head).chain(view.holders.into_iter().map(|holder| format!("  {}", contender(names, state, holder)))))
}

pub(crate) fn queue(names: &Names, state: &State, name: &LockName) -> String {
    list(state.queue(name).iter().map(|entry| {
        let behind = entry.waits_for.map(|other| format!(" for #{}", other.number)).unwrap_or_default();
        format!("{}. {}{behind}", entry.position, contender(names, state, entry.contender))
    }))
}

pub(crate) fn session(names: &Names, state: &State, name: &str) -> Printed {
    let number = names.session(name).ok_or_else(|| format!("there never was a session {name}"))?;
    let Some(session) = state.session(number) else {
        return Ok(format!("{name} has ended"));
    };
    let grants: Vec<String> = state.contenders_of(number).map(|contender| format!("#{}", contender.number)).collect();
    let floor = if session.ended.floor().is_some() { ", has a floor" } else { "" };
    let (timeout, ended) = (session.timeout_ms, session.ended.len());
    Ok(format!("{name}: {timeout}ms, owns [{}], remembers {ended}{floor}", grants.join(" ")))
}

pub(crate) fn grant(names: &Names, state: &State, id: &str) -> Printed {
    Ok(match state.grant(&grant_id(id)?) {
        GrantStatus::Live(live) => contender(names, state, live),
        GrantStatus::Ended(reason) => {
            let note = state.break_note(&grant_id(id)?).map(|note| format!(", because: {note}")).unwrap_or_default();
            format!("ended: {reason}{note}")
        }
        GrantStatus::Unknown => "unknown".to_owned(),
    })
}

pub(crate) fn node(names: &Names, state: &State, path: &Path) -> String {
    let Some(node) = state.node(path) else {
        return format!("{path}: no node");
    };
    let kind = match node.kind.get() {
        NodeKind::Persistent => "persistent".to_owned(),
        NodeKind::Container => "container".to_owned(),
        NodeKind::Ttl { ttl_ms } => format!("ttl {ttl_ms}ms"),
        NodeKind::Ephemeral if node.ephemeral_owner.0 == 0 => "ephemeral of nobody".to_owned(),
        NodeKind::Ephemeral => format!("ephemeral of {}", names.of_session(node.ephemeral_owner)),
    };
    let role = match &node.role {
        NodeRole::Data => format!("value {:?}", String::from_utf8_lossy(&node.value)),
        NodeRole::Lock(_) => "a lock".to_owned(),
        NodeRole::Contender(contender) => format!("contender #{}", contender.number),
    };
    format!(
        "{path}: {kind}, {role}, czxid={} mzxid={} pzxid={} version={} cversion={} children={}",
        node.czxid,
        node.mzxid,
        node.pzxid,
        node.version,
        node.cversion(),
        node.num_children
    )
}

pub(crate) fn memory(state: &State) -> String {
    match state.remembered_span() {
        Some((oldest, newest)) => format!("remembered without a session: since @{oldest}, last @{newest}"),
        None => "nothing is remembered without a session".to_owned(),
    }
}

pub(crate) fn cooling(names: &Names, state: &State) -> String {
    list(
        state
            .cooling()
            .map(|cooling| format!("{} {} for {}ms", cooling.lock, contender(names, state, cooling), cooling.lock_delay_ms)),
    )
}

/// One page of locks after another, until the last.
pub(crate) fn locks(state: &State, query: &LockQuery) -> String {
    let (mut query, mut lines) = (query.clone(), Vec::new());
    loop {
        let page = state.locks_page(&query);
        lines.extend(page.items.iter().map(|lock| {
            format!("{}: {} hold, {} cool, {} wait, limit {}", lock.name, lock.holders, lock.cooling, lock.waiting, lock.limit)
        }));
        let Some(next) = page.next else { break };
        lines.push(format!("-- after {}", next.name));
        query.after = Some(next);
    }
    list(lines.into_iter())
}

pub(crate) fn election(state: &State, name: &LockName) -> String {
    match state.election(name) {
        Some(now) => {
            let value = String::from_utf8_lossy(now.value);
            let (number, token, version, since) = (now.contender.number, now.token, now.version, now.since);
            format!("#{number} leads token={token} value={value} version={version} since @{since}")
        }
        None => format!("nobody leads; it is an election: {:?}", state.is_election(name)),
    }
}

pub(crate) fn idle(state: &State) -> String {
    list(state.idle_locks().map(|(lock, since)| format!("{lock} since @{since}")))
}

fn paths<'a>(paths: impl Iterator<Item = &'a Path>) -> String {
    let paths: Vec<&str> = paths.map(Path::as_str).collect();
    if paths.is_empty() { "none".to_owned() } else { paths.join(" ") }
}

pub(crate) fn children(state: &State, path: &Path, after: Option<&str>) -> String {
    paths(state.children(path, after).map(|(path, _)| path))
}

pub(crate) fn below(state: &State, path: &Path, after: Option<&str>) -> String {
    paths(state.descendants(path, after).map(|(path, _)| path))
}

pub(crate) fn owned(names: &Names, state: &State, name: &str) -> Printed {
    let number = names.session(name).ok_or_else(|| format!("there never was a session {name}"))?;
    Ok(format!("{} of {}", paths(state.ephemerals_after(number, None)), state.ephemeral_count(number)))
}

pub(crate) fn sweepable(state: &State) -> String {
    list(state.sweepable().map(|node| format!("{} since @{}", node.path, node.since)))
}

/// One page of a history after another, until the last.
pub(crate) fn history(names: &Names, state: &State, args: &mut ArgumentConsumer<'_>) -> Printed {
    let lock = LockName::parse(args.next_pos().ok_or("a lock is missing")?)?;
    let at = args.take_key("at").map(duration::parse).transpose()?;
    let at = at.map(|at| u64::try_from(at.as_millis())).transpose()?.map(|at| When::At(WallMillis(at)));
    let revision = args.take_key("revision").map(str::parse).transpose()?.map(|number| When::Revision(Revision(number)));
    let limit = args.take_key("limit").unwrap_or("100").parse()?;
    let (mut query, mut lines) = (HistoryQuery { lock, when: at.or(revision), after: None, limit }, Vec::new());
    loop {
        let page = state.history(&query);
        lines.extend(page.items.iter().map(|entry| {
            let holding = &entry.holding;
            let from = format!("from @{} {}s", holding.from.revision, holding.from.at.0 / 1_000);
            let ending = entry.ending.as_ref().map_or_else(
                || ", holds".to_owned(),
                |ending| {
                    let by = if ending.by.is_empty() { String::new() } else { format!(" by {}: {:?}", ending.by, ending.reason) };
                    format!(" to @{} {}s, {}{by}", ending.to.revision, ending.to.at.0 / 1_000, ending.how)
                },
            );
            let session = names.of_session(holding.session);
            format!("#{} of {session} {} token={} {from}{ending}", holding.number, holding.mode, holding.token)
        }));
        let Some(next) = page.next else { break };
        lines.push(format!("-- after #{}", next.number));
        query.after = Some(next);
    }
    Ok(list(lines.into_iter()))
}

/// The statistics of a lock, or of all.
pub(crate) fn statistics(state: &State, lock: Option<&str>) -> Printed {
    let counted = match lock {
        Some(name) => state.statistics(&LockName::parse(name)?),
        None => Some(state.totals()),
    };
    Ok(counted.map_or_else(
        || "nothing is counted".to_owned(),
        |counted| {
            let spans =
                |spans: &fairhold_state::statistics::HoldHistogram| format!("{} in {}s", spans.total(), spans.sum_ms / 1_000);
            format!(
                "waited {}, held {}, {} hand-overs; released {}, expired {}, broken {}, abandoned {}, gave up {}, \
                 changed mode {}",
                spans(&counted.waited),
                spans(&counted.held),
                counted.hand_overs,
                counted.released,
                counted.expired,
                counted.broken,
                counted.abandoned,
                counted.gave_up,
                counted.changed_mode
            )
        },
    ))
}
