//! Watch events as text: an applied event and the line that a client reads have the same text.

use fairhold_state::command::Event;
use fairhold_types::{LockName, duration};
use std::time::Duration;

/// The compared fields of a line, in order. Texts for people are not compared.
const FIELDS: [&str; 7] = ["number", "token", "version", "reason", "delay", "ttl", "state"];

/// The filter of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Watched {
    /// Everything.
    All,
    /// One node.
    Node(String),
    /// A node and its direct children.
    Children(String),
    /// A node and its descendants.
    Below(String),
    /// One lock.
    Lock(String),
    /// Every lock.
    Locks,
    /// Every session.
    Sessions,
}

impl Watched {
    /// The query of the request.
    pub(crate) fn query(&self) -> String {
        match self {
            Watched::All => String::new(),
            Watched::Node(path) => format!("path={path}&"),
            Watched::Children(path) => format!("path={path}&children&"),
            Watched::Below(path) => format!("path={path}&recursive&"),
            Watched::Lock(lock) => format!("lock={lock}&"),
            Watched::Locks => "locks&".to_owned(),
            Watched::Sessions => "sessions&".to_owned(),
        }
    }

    /// Whether the filter matches the subject.
    pub(crate) fn covers(&self, subject: &Subject) -> bool {
        let below = |above: &str, path: &str| path == above || path.starts_with(&format!("{}/", above.trim_end_matches('/')));
        match (self, subject) {
            (Watched::All, _) | (Watched::Locks, Subject::Lock(_)) | (Watched::Sessions, Subject::Session(_)) => true,
            (Watched::Node(path), Subject::Node(other)) => path == other,
            (Watched::Children(path), Subject::Node(other)) => {
                let parent = other.rsplit_once('/').map(|(parent, _)| if parent.is_empty() { "/" } else { parent });
                path == other || parent == Some(path)
            }
            (Watched::Below(path), Subject::Node(other)) => below(path, other),
            (Watched::Lock(lock), Subject::Lock(other)) => lock == other,
            (Watched::Node(_) | Watched::Children(_) | Watched::Below(_), Subject::Lock(_) | Subject::Session(_))
            | (Watched::Lock(_) | Watched::Locks, Subject::Node(_) | Subject::Session(_))
            | (Watched::Sessions, Subject::Node(_) | Subject::Lock(_)) => false,
        }
    }
}

/// The subject of a line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Node(String),
    Lock(String),
    Session(u64),
}

/// A line of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimLine {
    pub(crate) subject: Subject,
    pub(crate) text: String,
}

impl SimLine {
    fn new(subject: Subject, kind: &str, fields: &[(&str, String)]) -> SimLine {
        let named = match &subject {
            Subject::Node(path) => format!("path={path}"),
            Subject::Lock(lock) => format!("lock={lock}"),
            Subject::Session(number) => format!("session={number}"),
        };
        let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        SimLine { subject, text: format!("{kind} {named}{fields}") }
    }

    /// The line of an event; `None` if watches do not show the event.
    pub(crate) fn of(event: &Event) -> Option<SimLine> {
        let span = |millis: u64| duration::format(Duration::from_millis(millis));
        let number = |grant: &fairhold_types::GrantNumber| ("number", grant.0.to_string());
        Some(match event {
            Event::SessionOpened { session, timeout_ms } => {
                SimLine::new(Subject::Session(session.0), "opened", &[("ttl", span(*timeout_ms))])
            }
            Event::SessionRetimed { session, timeout_ms } => {
                SimLine::new(Subject::Session(session.0), "changed", &[("ttl", span(*timeout_ms))])
            }
            Event::SessionClosed { session } => {
                SimLine::new(Subject::Session(session.0), "ended", &[("reason", "closed".to_owned())])
            }
            Event::SessionExpired { session } => {
                SimLine::new(Subject::Session(session.0), "ended", &[("reason", "expired".to_owned())])
            }
            Event::Queued { lock, grant } => SimLine::new(Subject::Lock(lock.to_string()), "queued", &[number(grant)]),
            Event::Granted { lock, grant, token } => {
                SimLine::new(Subject::Lock(lock.to_string()), "granted", &[number(grant), ("token", token.to_string())])
            }
            Event::Ended { lock, grant, session: _, reason } => {
                SimLine::new(Subject::Lock(lock.to_string()), "ended", &[number(grant), ("reason", reason.to_string())])
            }
            Event::Cooling { lock, grant, delay_ms } => {
                SimLine::new(Subject::Lock(lock.to_string()), "cooling", &[number(grant), ("delay", span(*delay_ms))])
            }
            Event::Cooled { lock, grant } => SimLine::new(Subject::Lock(lock.to_string()), "cooled", &[number(grant)]),
            Event::Broken { lock, by: _, reason } => {
                SimLine::new(Subject::Lock(lock.to_string()), "broken", &[("reason", reason.clone())])
            }
            Event::LockSet { lock, by: _ } => SimLine::new(Subject::Lock(lock.to_string()), "set", &[]),
            Event::Revoked { lock, grant, by: _, reason } => {
                SimLine::new(Subject::Lock(lock.to_string()), "revoke", &[number(grant), ("reason", reason.clone())])
            }
            Event::LockForgotten { lock } => SimLine::new(Subject::Lock(lock.to_string()), "forgotten", &[]),
            Event::NodeCreated { path } => SimLine::new(Subject::Node(path.to_string()), "created", &[]),
            Event::NodeChanged { path, version } => {
                SimLine::new(Subject::Node(path.to_string()), "changed", &[("version", version.to_string())])
            }
            Event::NodeDeleted { path, version: _ } => SimLine::new(Subject::Node(path.to_string()), "deleted", &[]),
            Event::Downgraded { lock, grant } => SimLine::new(Subject::Lock(lock.to_string()), "downgraded", &[number(grant)]),
            Event::Proclaimed { lock, grant, token, version, .. } => {
                let fields = [number(grant), ("token", token.to_string()), ("version", version.to_string())];
                SimLine::new(Subject::Lock(lock.to_string()), "proclaimed", &fields)
            }
            Event::Vacated { lock, grant } => SimLine::new(Subject::Lock(lock.to_string()), "vacated", &[number(grant)]),
            // Only a watch of the cluster shows it.
            Event::Cluster(_)
            | Event::Attached { .. }
            | Event::Holds { .. }
            | Event::ChildrenChanged { .. }
            | Event::Upgrading { .. }
            | Event::UpgradeEnded { .. } => return None,
        })
    }

    /// A line that a client read; `None` if it has no subject.
    pub(crate) fn read(json: &serde_json::Value) -> Option<SimLine> {
        let text = |field: &str| json.get(field).and_then(serde_json::Value::as_str);
        let subject = match (text("path"), text("lock"), json.get("session")) {
            (Some(path), _, _) => Subject::Node(path.to_owned()),
            (None, Some(lock), _) => Subject::Lock(lock.to_owned()),
            (None, None, Some(session)) => Subject::Session(session.as_u64()?),
            (None, None, None) => return None,
        };
        let value = |name: &&'static str| {
            let value = json.get(*name)?;
            Some((*name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        };
        let fields: Vec<_> = FIELDS.iter().filter_map(value).collect();
        Some(SimLine::new(subject, text("type")?, &fields))
    }
}

/// The lock of an event.
pub(crate) fn lock_of(event: &Event) -> Option<&LockName> {
    match event {
        Event::Queued { lock, .. }
        | Event::Attached { lock, .. }
        | Event::Granted { lock, .. }
        | Event::Ended { lock, .. }
        | Event::Cooling { lock, .. }
        | Event::Cooled { lock, .. }
        | Event::Broken { lock, .. }
        | Event::LockForgotten { lock }
        | Event::Downgraded { lock, .. }
        | Event::Upgrading { lock, .. }
        | Event::UpgradeEnded { lock, .. }
        | Event::Proclaimed { lock, .. }
        | Event::Vacated { lock, .. }
        | Event::Holds { lock, .. }
        | Event::LockSet { lock, .. }
        | Event::Revoked { lock, .. } => Some(lock),
        Event::SessionOpened { .. }
        | Event::SessionRetimed { .. }
        | Event::SessionClosed { .. }
        | Event::SessionExpired { .. }
        | Event::NodeCreated { .. }
        | Event::NodeChanged { .. }
        | Event::NodeDeleted { .. }
        | Event::ChildrenChanged { .. }
        | Event::Cluster(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{FencingToken, GrantNumber};

    #[test]
    fn a_line_and_its_event_have_the_same_text() {
        let lock = LockName::parse("door").unwrap();
        let event = Event::Granted { lock, grant: GrantNumber(4), token: FencingToken(7) };
        let text = r#"{"revision":7,"type":"granted","lock":"door","number":4,"token":7,"session":3,"owner":"me"}"#;
        let read = SimLine::read(&serde_json::from_str(text).unwrap());
        assert_eq!(read, SimLine::of(&event));
        assert_eq!(read.unwrap().text, "granted lock=door number=4 token=7");
        assert_eq!(SimLine::read(&serde_json::json!({"revision": 7, "type": "bookmark"})), None);
    }

    #[test]
    fn each_filter_covers_its_subjects_only() {
        let node = |path: &str| Subject::Node(path.to_owned());
        let path = |path: &str| path.to_owned();
        assert!(Watched::Children(path("/")).covers(&node("/a")) && Watched::Below(path("/")).covers(&node("/a/b")));
        assert!(!Watched::Children(path("/")).covers(&node("/a/b")) && !Watched::Below(path("/a")).covers(&node("/ab")));
        assert!(Watched::Children(path("/a")).covers(&node("/a/b")) && Watched::Children(path("/a")).covers(&node("/a")));
        assert!(!Watched::Locks.covers(&node("/a")) && Watched::All.covers(&Subject::Session(1)));
    }
}
