//! A watcher receives every event once and in order, up to its last bookmark. If it requested the initial state, it
//! first receives exactly that state.

use super::invariant::Invariant;
use crate::{
    facts::{Applied, Fact},
    watch_events::{SimLine, Subject, Watched},
};
use fairhold_state::command::Event;
use fairhold_types::{Revision, SessionNumber, duration};
use std::{collections::BTreeMap, time::Duration};

/// The subject and, in a lock, the number of the grant.
type Key = (Subject, u64);
/// The lines of the initial state, each with the session that owns its subject.
type InitialState = BTreeMap<Key, (String, Option<SessionNumber>)>;

#[derive(Default)]
pub(crate) struct Watches {
    events: BTreeMap<Revision, Vec<Event>>,
    /// The session that owns an ephemeral node, by the revision of its creation.
    owners: BTreeMap<(Revision, Key), SessionNumber>,
}

impl Watches {
    /// The lines that a watch must show after a revision.
    fn after(&self, revision: Revision, watched: &Watched) -> impl Iterator<Item = (Revision, String)> {
        self.events.range(revision.next()..).flat_map(|(at, events)| {
            let lines = events.iter().filter_map(SimLine::of).filter(|line| watched.covers(&line.subject));
            lines.map(|line| (*at, line.text))
        })
    }

    fn check_lines(
        &self,
        watched: &Watched,
        after: Revision,
        lines: &[(Revision, String)],
        through: Revision,
    ) -> Result<(), String> {
        let mut expected = self.after(after, watched);
        for line in lines {
            let next = expected.next();
            if next.as_ref() != Some(line) {
                return Err(format!("{watched:?} after revision {after}: {line:?} was sent, but {next:?} is next"));
            }
        }
        match expected.next() {
            Some((revision, line)) if revision <= through => Err(format!(
                "{watched:?} after revision {after}: the bookmark covers revision {through}, but {line} of revision {revision} \
                 was not sent"
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn check_initial(&self, watched: &Watched, revision: Revision, initial: &[String]) -> Result<(), String> {
        let root = ("initial path=/ version=0".to_owned(), None);
        let mut expected = InitialState::from([((Subject::Node("/".to_owned()), 0), root)]);
        for (at, events) in self.events.range(..=revision) {
            events.iter().for_each(|event| self.follow(&mut expected, *at, event));
        }
        let mut expected: Vec<String> =
            expected.into_iter().filter(|((subject, _), _)| watched.covers(subject)).map(|(_, (text, _))| text).collect();
        let mut initial = initial.to_vec();
        expected.sort_unstable();
        initial.sort_unstable();
        if expected != initial {
            return Err(format!("{watched:?} at revision {revision}: {initial:?} was sent, but {expected:?} exists"));
        }
        Ok(())
    }

    fn follow(&self, initial: &mut InitialState, at: Revision, event: &Event) {
        // The nodes of the session are invisible from now on. If it had many, their events follow in pieces.
        if let Event::SessionClosed { session } | Event::SessionExpired { session } = event {
            initial.retain(|_, (_, owner)| *owner != Some(*session));
        }
        let (Some(SimLine { subject, .. }), Some((number, text))) = (SimLine::of(event), shown(event)) else { return };
        let key = (subject, number);
        let known = initial.get(&key).and_then(|(_, owner)| *owner);
        let owner = self.owners.get(&(at, key.clone())).copied().or(known);
        match text {
            Some(text) => drop(initial.insert(key, (text, owner))),
            None => drop(initial.remove(&key)),
        }
    }

    /// Records the owner of a created node.
    fn record_owner(&mut self, event: &Event, applied: &Applied<'_>) {
        let (state, Some(SimLine { subject, .. })) = (applied.state, SimLine::of(event)) else { return };
        if let Event::NodeCreated { path } = event
            && let Some(node) = state.node(path).filter(|node| node.ephemeral_owner.0 > 0)
        {
            self.owners.insert((applied.revision, (subject, 0)), node.ephemeral_owner);
        }
    }
}

/// The number of the event's grant in its lock, and its line in the initial state. `None`: the event changes neither.
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
        | Event::Vacated { .. }
        | Event::Cluster(_) => return None,
    })
}

impl Invariant for Watches {
    fn name(&self) -> &'static str {
        "a watch tells everything once"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if applied.first {
            applied.events.iter().for_each(|event| self.record_owner(event, applied));
            self.events.insert(applied.revision, applied.events.to_vec());
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        if let Fact::WatchReceived { watched, after, lines, through } = fact {
            return Watches::check_lines(self, watched, *after, lines, *through);
        }
        let Fact::WatchBegan { watched, revision, initial } = fact else { return Ok(()) };
        self.check_initial(watched, *revision, initial)
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
        let check = |lines: &[(Revision, String)], through| {
            Watches::check_lines(&watches, &Watched::Below("/".to_owned()), Revision(0), lines, Revision(through))
        };
        let (first, second, third) =
            (line(1, "created path=/a"), line(2, "created path=/b"), line(3, "changed path=/a version=1"));
        assert!(check(&[first.clone(), second.clone(), third.clone()], 3).is_ok());
        assert!(check(std::slice::from_ref(&first), 1).is_ok());
        assert!(check(std::slice::from_ref(&first), 2).is_err(), "a bookmark before its events");
        assert!(check(&[first.clone(), third], 0).is_err(), "a gap");
        assert!(check(&[first.clone(), first, second], 0).is_err(), "twice");
    }

    #[test]
    fn a_wrong_initial_state_is_found() {
        let watches = watches();
        let check = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().copied().map(str::to_owned).collect();
            watches.check_initial(&Watched::Node("/a".to_owned()), Revision(3), &lines)
        };
        assert!(check(&["initial path=/a version=1"]).is_ok());
        assert!(check(&["initial path=/a version=0"]).is_err() && check(&[]).is_err());
    }

    #[test]
    fn the_nodes_of_a_session_are_gone_from_its_end_on_even_before_their_events() {
        let (mut watches, session) = (watches(), SessionNumber(7));
        watches.events.insert(Revision(4), vec![Event::SessionClosed { session }]);
        watches.owners.insert((Revision(2), (Subject::Node("/b".to_owned()), 0)), session);
        let check = |revision, lines: &[&str]| {
            let lines: Vec<String> = lines.iter().copied().map(str::to_owned).collect();
            watches.check_initial(&Watched::Node("/b".to_owned()), Revision(revision), &lines).is_ok()
        };
        assert!(check(3, &["initial path=/b version=0"]) && check(4, &[]));
        assert!(!check(3, &[]) && !check(4, &["initial path=/b version=0"]));
    }
}
