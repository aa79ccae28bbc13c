//! ZooKeeper's rules of the tree, as a table: `zookeeper/rules.txt` says where each was measured and what it is.
//!
//! A row is exact: a stat that it does not name must not change on any node, and no other event may come.

#![cfg(test)]

use fairhold_state::{
    State,
    command::{Applied, Command, Event, Lifetime, Meta, OpenSession, Operation, Rejection, Sweepable, Transact},
    record::Znode,
    value::Value,
};
use fairhold_types::{Path, SessionId, SessionNumber, time::WallMillis};
use std::{collections::BTreeMap, fmt::Write};

const RULES: &str = include_str!("zookeeper/rules.txt");
/// With fewer rules than this, the table was not read.
const RULES_MIN: usize = 60;

#[derive(Default)]
struct World {
    state: State,
    sessions: BTreeMap<String, SessionNumber>,
    commands: u64,
}

fn session_id(name: &str) -> SessionId {
    SessionId(name.strip_prefix('s').and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no session: {name}")))
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn operation(text: &str) -> Operation {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (value, parents) = (Value::from(&b"1"[..]), false);
    let lifetime =
        |rest: &[&str]| rest.first().map_or(Lifetime::Persistent, |name| Lifetime::Ephemeral { session: session_id(name) });
    let version = |rest: &[&str]| rest.first().map(|version| version.strip_prefix('v').unwrap().parse().unwrap());
    let create = |at: &str, lifetime| Operation::Create { path: path(at), value: value.clone(), parents, lifetime };
    match words.as_slice() {
        ["create", at, rest @ ..] => create(at, lifetime(rest)),
        ["container", at] => create(at, Lifetime::Container),
        ["ttl", at] => create(at, Lifetime::Ttl { ttl_ms: 1_000 }),
        ["seq", at, prefix, rest @ ..] => {
            let prefix = if *prefix == "-" { "" } else { prefix }.to_owned();
            Operation::CreateSequential { parent: path(at), prefix, value, parents, lifetime: lifetime(rest) }
        }
        ["set", at, rest @ ..] => Operation::Set { path: path(at), value: b"333"[..].into(), version: version(rest) },
        ["delete", at, rest @ ..] => Operation::Delete { path: path(at), version: version(rest), recursive: false },
        ["deleteall", at] => Operation::Delete { path: path(at), version: None, recursive: true },
        ["check", at, rest @ ..] => Operation::Check { path: path(at), version: version(rest) },
        _ => panic!("no such operation: {text}"),
    }
}

impl World {
    fn at(&self) -> WallMillis {
        WallMillis(self.commands * 1_000)
    }

    fn run(&mut self, text: &str) -> Applied {
        self.commands += 1;
        let at = self.at();
        let command = match text.split_once(' ').unwrap_or((text, "")) {
            ("open", name) => Command::OpenSession(OpenSession {
                key: None,
                id: session_id(name),
                timeout_ms: 1_000,
                name: name.to_owned(),
                meta: Meta::new(),
                at,
            }),
            ("close", name) => Command::CloseSession { session: session_id(name), at },
            ("expire", name) => Command::ExpireSession { session: self.sessions[name], at },
            ("sweep", at_path) => {
                let path = path(at_path);
                // Uses the node's current state, whatever it is.
                let since = self.state.node(&path).map(Znode::changed_at).unwrap_or_default();
                Command::Sweep { nodes: vec![Sweepable { path, since }], at }
            }
            ("multi", operations) => {
                let then = operations.split(", ").map(operation).collect();
                Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at })
            }
            _ => Command::Transact(Transact {
                key: None,
                conditions: Vec::new(),
                then: vec![operation(text)],
                otherwise: None,
                at,
            }),
        };
        let applied = self.state.apply(&command);
        self.state.check().unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        if let ("open", name) = text.split_once(' ').unwrap_or_default() {
            self.sessions.insert(name.to_owned(), SessionNumber(applied.answer.revision.0));
        }
        applied
    }

    fn nodes(&self) -> BTreeMap<Path, Znode> {
        let root = (Path::root(), self.state.node(&Path::root()).unwrap().clone());
        let below = self.state.descendants(&Path::root(), None).map(|(path, node)| (path.clone(), node.clone()));
        below.chain([root]).collect()
    }

    fn difference(&self, before: &BTreeMap<Path, Znode>) -> String {
        let after = self.nodes();
        let mut changes = Vec::new();
        for (path, node) in &after {
            let (new, fields) = match before.get(path) {
                Some(old) => (false, self.fields(old, node)),
                None => (true, self.fields(&self.fresh(), node)),
            };
            if new {
                // The numbers of a new node are shown if they are not those of every new node.
                changes
                    .push(format!("+{path}{}", fields.replace("version+", "version=").replace("num_children+", "num_children=")));
            } else if !fields.is_empty() {
                changes.push(format!("{path}{fields}"));
            }
        }
        changes.extend(before.keys().filter(|path| !after.contains_key(*path)).map(|path| format!("-{path}")));
        if changes.is_empty() { "nothing".to_owned() } else { changes.join("; ") }
    }

    /// The stat that every new node has.
    fn fresh(&self) -> Znode {
        let (now, at) = (self.state.revision(), self.at());
        Znode {
            czxid: now,
            mzxid: now,
            pzxid: now,
            ctime: at,
            mtime: at,
            version: 0,
            aversion: 0,
            creates: 0,
            num_children: 0,
            ephemeral_owner: SessionNumber(0),
            kind: fairhold_state::record::NodeKind::Persistent.into(),
            value: Value::from(&b"1"[..]),
            role: fairhold_state::record::NodeRole::Data,
            acl: None,
        }
    }

    fn fields(&self, old: &Znode, node: &Znode) -> String {
        let mut text = String::new();
        let (now, at) = (self.state.revision(), self.at());
        for (name, old, new) in
            [("czxid", old.czxid, node.czxid), ("mzxid", old.mzxid, node.mzxid), ("pzxid", old.pzxid, node.pzxid)]
        {
            if old != new {
                assert_eq!(new, now, "{name} is neither the old value nor the revision of the change");
                write!(text, " {name}=now").unwrap();
            }
        }
        for (name, old, new) in [("ctime", old.ctime, node.ctime), ("mtime", old.mtime, node.mtime)] {
            if old != new {
                assert_eq!(new, at, "{name} is neither the old value nor the time of the change");
                write!(text, " {name}=now").unwrap();
            }
        }
        let counts = [
            ("version", i64::from(old.version), i64::from(node.version)),
            ("cversion", i64::from(old.cversion()), i64::from(node.cversion())),
            ("aversion", i64::from(old.aversion), i64::from(node.aversion)),
            ("data_length", length(old), length(node)),
            ("num_children", i64::from(old.num_children), i64::from(node.num_children)),
        ];
        for (name, old, new) in counts.into_iter().filter(|(_, old, new)| old != new) {
            write!(text, " {name}{:+}", new - old).unwrap();
        }
        if old.ephemeral_owner != node.ephemeral_owner {
            let name =
                self.sessions.iter().find(|(_, number)| **number == node.ephemeral_owner).map_or("nobody", |(name, _)| name);
            write!(text, " owner={name}").unwrap();
        }
        text
    }
}

fn length(node: &Znode) -> i64 {
    i64::try_from(node.value.len()).unwrap()
}

fn variant(rejection: &Rejection, alone: bool) -> String {
    if let Rejection::Step { index, reason, .. } = rejection {
        let reason = variant(reason, true);
        return if alone { reason } else { format!("then[{index}] {reason}") };
    }
    format!("{rejection:?}").split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn event_text(applied: &Applied, alone: bool) -> String {
    if let Err(rejection) = &applied.answer.result {
        return format!("error {}", variant(rejection, alone));
    }
    let shown = applied.events.iter().filter_map(|event| match event {
        Event::NodeCreated { path } => Some(format!("created {path}")),
        Event::NodeChanged { path, .. } => Some(format!("changed {path}")),
        Event::NodeDeleted { path, .. } => Some(format!("deleted {path}")),
        Event::ChildrenChanged { path, .. } => Some(format!("children {path}")),
        Event::SessionOpened { .. }
        | Event::SessionRetimed { .. }
        | Event::SessionClosed { .. }
        | Event::SessionExpired { .. }
        | Event::Queued { .. }
        | Event::Attached { .. }
        | Event::Granted { .. }
        | Event::Ended { .. }
        | Event::Cooling { .. }
        | Event::Cooled { .. }
        | Event::LockForgotten { .. }
        | Event::Downgraded { .. }
        | Event::Upgrading { .. }
        | Event::Holds { .. }
        | Event::LockSet { .. }
        | Event::Revoked { .. }
        | Event::UpgradeEnded { .. }
        | Event::Proclaimed { .. }
        | Event::Vacated { .. }
        | Event::Cluster(_)
        | Event::Broken { .. } => None,
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

/// Executes a row, and returns the changes and the events.
fn outcome(before: &str, done: &str) -> (String, String) {
    let mut world = World::default();
    for step in before.split("; ").filter(|step| !step.is_empty()) {
        let (step, refused) = step.strip_prefix("refused ").map_or((step, false), |step| (step, true));
        let applied = world.run(step);
        assert_eq!(applied.answer.result.is_err(), refused, "{step}: {applied:?}");
    }
    let nodes = world.nodes();
    let applied = world.run(done);
    (world.difference(&nodes), event_text(&applied, !done.starts_with("multi")))
}

fn rows() -> Vec<[&'static str; 5]> {
    let lines = RULES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        <[&str; 5]>::try_from(cells).unwrap_or_else(|cells| panic!("{} cells: {line}", cells.len()))
    };
    lines.map(row).collect()
}

#[test]
fn the_tree_keeps_every_rule_of_the_table() {
    let rows = rows();
    assert!(rows.len() >= RULES_MIN, "{} rules", rows.len());
    let mut broken = String::new();
    for [source, before, done, changes, events] in &rows {
        let (found, shown) = outcome(before, done);
        if (found.as_str(), shown.as_str()) != (*changes, *events) {
            writeln!(broken, "{source} | {before} | {done}\n  expected {changes} | {events}\n  found    {found} | {shown}")
                .unwrap();
        }
    }
    assert!(broken.is_empty(), "\n{broken}");
}

#[test]
fn a_row_with_missing_or_extra_changes_is_found() {
    let (changes, events) = outcome("create /a", "set /a");
    assert_ne!(changes, "/a mzxid=now version+1 data_length+2", "mtime moves too");
    assert_ne!(events, "changed /a, children /", "a set is no event of the parent");
}
