//! A watcher gets every event once and in order, up to where it was told that all was; and first, where it asked so,
//! exactly what was there.

use super::Invariant;
use crate::{
    oracle::{Applied, Fact},
    tidings::{Line, Subject, Watched},
};
use fairhold_state::command::Event;
use fairhold_types::{Revision, duration};
use std::{collections::BTreeMap, time::Duration};

#[derive(Default)]
pub(crate) struct Watches {
    events: BTreeMap<Revision, Vec<Event>>,
}

impl Watches {
    /// What has to be told of everything after a revision.
    fn after(&self, revision: Revision, watched: &Watched) -> impl Iterator<Item = (Revision, String)> {
        self.events.range(revision.next()..).flat_map(|(at, events)| {
            let lines = events.iter().filter_map(Line::of).filter(|line| watched.covers(&line.subject));
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
        let mut wanted = BTreeMap::from([((Subject::Node("/".to_owned()), 0), "initial path=/ version=0".to_owned())]);
        for event in self.events.range(..=revision).flat_map(|(_, events)| events) {
            follow(&mut wanted, event);
        }
        let mut wanted: Vec<String> =
            wanted.into_iter().filter(|((subject, _), _)| watched.covers(subject)).map(|(_, text)| text).collect();
        let mut there = there.to_vec();
        wanted.sort_unstable();
        there.sort_unstable();
        if wanted != there {
            return Err(format!("{watched:?} at revision {revision}: {there:?} was told, and {wanted:?} is there"));
        }
        Ok(())
    }
}

/// Keeps what is there, by what it is and, in a lock, by its number.
fn follow(there: &mut BTreeMap<(Subject, u64), String>, event: &Event) {
    let Some(Line { subject, .. }) = Line::of(event) else { return };
    let (key, text) = match event {
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
        | Event::Vacated { .. } => return,
    };
    match text {
        Some(text) => drop(there.insert((subject, key), text)),
        None => drop(there.remove(&(subject, key))),
    }
}

impl Invariant for Watches {
    fn name(&self) -> &'static str {
        "a watch tells everything once"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if applied.first {
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
        Watches { events: events.into_iter().map(|(at, event)| (Revision(at), vec![event])).collect() }
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
}
