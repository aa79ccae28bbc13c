//! A watcher receives every event once and in order, up to its last bookmark. If it asked for the initial state, it first
//! receives exactly that state.

use super::invariant::Invariant;
use crate::{
    facts::{Applied, Fact},
    tidings::{SimLine, Subject, Watched},
};
use fairhold_state::command::Event;
use fairhold_types::{Revision, SessionNumber, duration};
use std::{collections::BTreeMap, time::Duration};

/// What it is and, in a lock, its number.
type Key = (Subject, u64);
/// What is there, as it is told, and the session that owns it.
type There = BTreeMap<Key, (String, Option<SessionNumber>)>;

#[derive(Default)]
pub(crate) struct Watches {
    events: BTreeMap<Revision, Vec<Event>>,
    /// Which session owns an ephemeral node that came at a revision.
    owners: BTreeMap<(Revision, Key), SessionNumber>,
}

impl Watches {
    /// What has to be told of everything after a revision.
    fn after(&self, revision: Revision, watched: &Watched) -> impl Iterator<Item = (Revision, String)> {
        self.events.range(revision.next()..).flat_map(|(at, events)| {
            let lines = events.iter().filter_map(SimLine::of).filter(|line| watched.covers(&line.subject));
            lines.map(|line| (*at, line.text))
        })
    }

    fn told(&self, watched: &Watched, after: Revision, told: &[(Revision, String)], through: Revision) -> Result<(), String> {
        let mut wanted = self.after(after, watched);
        for line in told {
            let next = wanted.next();
            if next.as_ref() != Some(line) {
                return Err(format!("{watched:?} after revision {after}: {line:?} was told where {next:?} comes next"));
            }
        }
        match wanted.next() {
            Some((revision, line)) if revision <= through => Err(format!(
                "{watched:?} after revision {after}: everything up to revision {through} is said to be told, but not {line} of \
                 revision {revision}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn there(&self, watched: &Watched, revision: Revision, there: &[String]) -> Result<(), String> {
        let root = ("initial path=/ version=0".to_owned(), None);
        let mut wanted = There::from([((Subject::Node("/".to_owned()), 0), root)]);
        for (at, events) in self.events.range(..=revision) {
            events.iter().for_each(|event| self.follow(&mut wanted, *at, event));
        }
        let mut wanted: Vec<String> =
            wanted.into_iter().filter(|((subject, _), _)| watched.covers(subject)).map(|(_, (text, _))| text).collect();
        let mut there = there.to_vec();
        wanted.sort_unstable();
        there.sort_unstable();
        if wanted != there {
            return Err(format!("{watched:?} at revision {revision}: {there:?} was told, and {wanted:?} is there"));
        }
        Ok(())
    }

    fn follow(&self, there: &mut There, at: Revision, event: &Event) {
        // From then on nobody sees the nodes of the session. If it had many, their events follow in pieces.
        if let Event::SessionClosed { session } | Event::SessionExpired { session } = event {
            there.retain(|_, (_, owner)| *owner != Some(*session));
        }
        let (Some(SimLine { subject, .. }), Some((number, text))) = (SimLine::of(event), shown(event)) else { return };
        let key = (subject, number);
        let known = there.get(&key).and_then(|(_, owner)| *owner);
        let owner = self.owners.get(&(at, key.clone())).copied().or(known);
        match text {
            Some(text) => drop(there.insert(key, (text, owner))),
            None => drop(there.remove(&key)),
        }
    }

    /// Notes who owns a node that came.
    fn came(&mut self, event: &Event, applied: &Applied<'_>) {
        let (state, Some(SimLine { subject, .. })) = (applied.state, SimLine::of(event)) else { return };
        if let Event::NodeCreated { path } = event
            && let Some(node) = state.node(path).filter(|node| node.ephemeral_owner.0 > 0)
        {
            self.owners.insert((applied.revision, (subject, 0)), node.ephemeral_owner);
        }
    }
}

/// The number of what an event is about, in a lock, and how it is told that it is there. `None`: an event that changes neither.
fn shown(event: &Event) -> Option<(u64, Option<String>)> {
    Some(match event {
        Event::NodeCreated { path } => (0, Some(format!("initial path={path} version=0"))),
        Event::NodeChanged { path, version } => (0, Some(format!("initial path={path} version={version}"))),
        Event::SessionOpened { session, timeout_ms } | Event::SessionRetimed { session, timeout_ms } => {
            let ttl = duration::format(Duration::from_millis(*timeout_ms));
            (0, Some(format!("initial session={} ttl={ttl}", session.0)))
        }
        Event::NodeDeleted { .. } | Event::SessionClosed { .. } | Event::SessionExpired { .. } => (0, None),
        Event::Queued { lock, grant } => (grant.0, Some(format!("initial lock={lock} number={} state=queued", grant.0))),
        Event::Granted { lock, grant, token } => {
            (grant.0, Some(format!("initial lock={lock} number={} token={token} state=held", grant.0)))
        }
        Event::Cooling { lock, grant, .. } => (grant.0, Some(format!("initial lock={lock} number={} state=cooling", grant.0))),
        Event::Ended { grant, .. } | Event::Cooled { grant, .. } => (grant.0, None),
        Event::Broken { .. }
        | Event::LockForgotten { .. }
        | Event::LockSet { .. }
        | Event::Revoked { .. }
        | Event::Holds { .. }
        | Event::Attached { .. }
        | Event::ChildrenChanged { .. }
        | Event::Downgraded { .. }
        | Event::Upgrading { .. }
        | Event::UpgradeEnded { .. }
        | Event::Proclaimed { .. }
        | Event::Vacated { .. } => return None,
    })
}

impl Invariant for Watches {
    fn name(&self) -> &'static str {
        "a watch tells everything once"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if applied.first {
            applied.events.iter().for_each(|event| self.came(event, applied));
            self.events.insert(applied.revision, applied.events.to_vec());
        }
        Ok(())
    }

    fn told(&mut self, fact: &Fact) -> Result<(), String> {
        if let Fact::WatchTold { watched, after, told, through } = fact {
            return Watches::told(self, watched, *after, told, *through);
        }
        let Fact::WatchBegan { watched, revision, there } = fact else { return Ok(()) };
        self.there(watched, *revision, there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::Path;

    fn watches() -> Watches {
        let created = |path: &str| Event::NodeCreated { path: Path::parse(path).unwrap() };
        let changed = |path: &str| Event::NodeChanged { path: Path::parse(path).unwrap(), version: 1 };
        let events = [(1, created("/a")), (2, created("/b")), (3, changed("/a"))];
        let events = events.into_iter().map(|(at, event)| (Revision(at), vec![event])).collect();
        Watches { events, owners: BTreeMap::new() }
    }

    fn line(revision: u64, text: &str) -> (Revision, String) {
        (Revision(revision), text.to_owned())
    }

    #[test]
    fn a_gap_a_repetition_and_a_false_bookmark_are_found() {
        let watches = watches();
        let told = |lines: &[(Revision, String)], through| {
            Watches::told(&watches, &Watched::Below("/".to_owned()), Revision(0), lines, Revision(through))
        };
        let (first, second, third) =
            (line(1, "created path=/a"), line(2, "created path=/b"), line(3, "changed path=/a version=1"));
        assert!(told(&[first.clone(), second.clone(), third.clone()], 3).is_ok());
        assert!(told(std::slice::from_ref(&first), 1).is_ok());
        assert!(told(std::slice::from_ref(&first), 2).is_err(), "a bookmark without what is before it");
        assert!(told(&[first.clone(), third], 0).is_err(), "a gap");
        assert!(told(&[first.clone(), first, second], 0).is_err(), "twice");
    }

    #[test]
    fn another_beginning_than_what_is_there_is_found() {
        let watches = watches();
        let there = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().copied().map(str::to_owned).collect();
            watches.there(&Watched::Node("/a".to_owned()), Revision(3), &lines)
        };
        assert!(there(&["initial path=/a version=1"]).is_ok());
        assert!(there(&["initial path=/a version=0"]).is_err() && there(&[]).is_err());
    }

    #[test]
    fn what_a_session_had_is_not_there_from_its_end_on_also_before_the_events_of_it() {
        let (mut watches, session) = (watches(), SessionNumber(7));
        watches.events.insert(Revision(4), vec![Event::SessionClosed { session }]);
        watches.owners.insert((Revision(2), (Subject::Node("/b".to_owned()), 0)), session);
        let there = |revision, lines: &[&str]| {
            let lines: Vec<String> = lines.iter().copied().map(str::to_owned).collect();
            watches.there(&Watched::Node("/b".to_owned()), Revision(revision), &lines).is_ok()
        };
        assert!(there(3, &["initial path=/b version=0"]) && there(4, &[]));
        assert!(!there(3, &[]) && !there(4, &["initial path=/b version=0"]));
    }
}
