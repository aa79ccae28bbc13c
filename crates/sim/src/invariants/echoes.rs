//! A request takes effect once, however late it arrives again: if its client has undone it since, it stays undone.

use super::invariant::Invariant;
use crate::facts::{Applied, Conversion, Fact};
use fairhold_state::command::Event;
use fairhold_types::{LockName, Revision};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Changes of one kind that were asked for of one thing.
#[derive(Default)]
struct Asked {
    /// Their keys, as far as it is not known what came of them.
    open: BTreeSet<String>,
    /// How many were asked for, and how often one took effect.
    count: u64,
    acted: u64,
}

/// A lock's limit, how many may wait, and how long it may be held, as last set.
type Settings = (Option<u32>, Option<u64>, Option<u64>);

#[derive(Default)]
pub(crate) struct Echoes {
    /// By what it is asked of.
    asked: Vec<(String, Conversion, Asked)>,
    settings: BTreeMap<LockName, Settings>,
    /// At which revision each administrator's reason was told of each lock. No two requests have the same reason; the end of a
    /// session may come in pieces.
    reasons: BTreeMap<(String, LockName), Revision>,
    /// Ids that were given back.
    back: BTreeSet<String>,
}

impl Echoes {
    /// A change took effect: one of those that were asked for and are not known to be done.
    fn acted(&mut self, whose: &str, change: Conversion) -> Result<(), String> {
        let asked = self.asked_for(whose, change);
        if asked.open.is_empty() || asked.acted >= asked.count {
            return Err(format!("{change:?} of {whose}: nobody has asked for it, or it was done already"));
        }
        asked.acted += 1;
        Ok(())
    }

    fn asked_for(&mut self, whose: &str, change: Conversion) -> &mut Asked {
        let known = self.asked.iter().position(|(of, kind, _)| of == whose && *kind == change);
        let known = known.unwrap_or_else(|| {
            self.asked.push((whose.to_owned(), change, Asked::default()));
            self.asked.len() - 1
        });
        &mut self.asked[known].2
    }

    /// A lock has other settings than before.
    fn set(&mut self, lock: &LockName, now: Settings) -> Result<(), String> {
        let before = self.settings.insert(lock.clone(), now).unwrap_or_default();
        let limit = now.0.filter(|_| now.0 != before.0);
        let most = now.1.filter(|_| now.1 != before.1);
        // No bound where there was none is a setting too: the lock is known from then on.
        let held = (limit.is_none() && most.is_none()).then_some(now.2.unwrap_or(0));
        self.acted(lock.as_str(), Conversion::Limited(limit, most, held))
    }

    fn reason(&mut self, reason: &str, lock: &LockName, revision: Revision) -> Result<(), String> {
        match self.reasons.insert((reason.to_owned(), lock.clone()), revision) {
            Some(before) if before != revision => {
                Err(format!("an administrator's order {reason:?} took effect on {lock} at revisions {before} and {revision}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn stands(&self, id: &str) -> Result<(), String> {
        if self.back.contains(id) { Err(format!("grant {id} was given back, and stands in a lock again")) } else { Ok(()) }
    }

    fn comes(&self, event: &Event, applied: &Applied<'_>) -> Result<(), String> {
        let (Event::Queued { grant, .. } | Event::Granted { grant, .. }) = event else { return Ok(()) };
        let id = applied.state.contender(*grant).map(|contender| contender.grant.to_string());
        id.map_or(Ok(()), |id| self.stands(&id))
    }

    fn happened(&mut self, event: &Event, applied: &Applied<'_>) -> Result<(), String> {
        match event {
            Event::Downgraded { grant, .. } => self.acted(&format!("#{grant}"), Conversion::Downgraded),
            Event::Upgrading { grant, .. } => self.acted(&format!("#{grant}"), Conversion::Upgraded),
            Event::SessionRetimed { session, timeout_ms } => {
                let Some(contender) = applied.state.contenders_of(*session).next() else { return Ok(()) };
                self.acted(&format!("#{}", contender.number), Conversion::Retimed(Duration::from_millis(*timeout_ms)))
            }
            Event::LockSet { lock, .. } => {
                let view = applied.state.lock(lock);
                self.set(lock, (view.limit, view.max_waiters, view.max_hold_ms))
            }
            // The first to come sets the limit that it names, also where an administrator has set something else before.
            Event::Queued { lock, .. } if self.settings.get(lock).is_none_or(|(limit, ..)| limit.is_none()) => {
                self.settings.entry(lock.clone()).or_default().0 = applied.state.lock(lock).limit;
                self.comes(event, applied)
            }
            Event::Broken { lock, reason, .. } | Event::Revoked { lock, reason, .. } => {
                self.reason(reason, lock, applied.revision)
            }
            Event::Queued { .. } | Event::Granted { .. } => self.comes(event, applied),
            Event::LockForgotten { lock } => {
                self.settings.remove(lock);
                Ok(())
            }
            Event::SessionOpened { .. }
            | Event::SessionClosed { .. }
            | Event::SessionExpired { .. }
            | Event::Attached { .. }
            | Event::Ended { .. }
            | Event::Cooling { .. }
            | Event::Cooled { .. }
            | Event::NodeCreated { .. }
            | Event::NodeChanged { .. }
            | Event::NodeDeleted { .. }
            | Event::ChildrenChanged { .. }
            | Event::UpgradeEnded { .. }
            | Event::Proclaimed { .. }
            | Event::Vacated { .. }
            | Event::Holds { .. } => Ok(()),
        }
    }
}

impl Invariant for Echoes {
    fn name(&self) -> &'static str {
        "a request acts once"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        applied.events.iter().try_for_each(|event| self.happened(event, applied))
    }

    fn told(&mut self, fact: &Fact) -> Result<(), String> {
        if let Fact::Changing { whose, key, change } = fact {
            let asked = self.asked_for(whose, *change);
            asked.count += 1;
            asked.open.insert(key.clone());
        }
        if let Fact::Settled { key } = fact {
            self.asked.iter_mut().for_each(|(_, _, asked)| drop(asked.open.take(key)));
        }
        if let Fact::GaveBack { id } = fact {
            self.back.insert(id.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changing(key: &str) -> Fact {
        Fact::Changing { whose: "#3".to_owned(), key: key.to_owned(), change: Conversion::Downgraded }
    }

    #[test]
    fn a_change_without_a_request_one_that_is_done_twice_and_one_after_its_answer_are_found() {
        let mut echoes = Echoes::default();
        assert!(echoes.acted("#3", Conversion::Downgraded).is_err());
        echoes.told(&changing("a")).unwrap();
        assert!(echoes.acted("#3", Conversion::Upgraded).is_err() && echoes.acted("#4", Conversion::Downgraded).is_err());
        assert!(echoes.acted("#3", Conversion::Downgraded).is_ok());
        assert!(echoes.acted("#3", Conversion::Downgraded).is_err());
        echoes.told(&changing("b")).unwrap();
        for key in ["a", "b"] {
            echoes.told(&Fact::Settled { key: key.to_owned() }).unwrap();
        }
        assert!(echoes.acted("#3", Conversion::Downgraded).is_err(), "it was answered, as it changed nothing then");
    }

    #[test]
    fn a_setting_that_comes_back_is_found() {
        let (lock, mut echoes) = (LockName::parse("pool").unwrap(), Echoes::default());
        let limited = |key: &str, limit| {
            let change = Conversion::Limited(Some(limit), None, None);
            Fact::Changing { whose: "pool".to_owned(), key: key.to_owned(), change }
        };
        echoes.told(&limited("a", 2)).unwrap();
        assert!(echoes.set(&lock, (Some(2), None, None)).is_ok());
        echoes.told(&Fact::Settled { key: "a".to_owned() }).unwrap();
        echoes.told(&limited("b", 4)).unwrap();
        assert!(echoes.set(&lock, (Some(4), None, None)).is_ok());
        assert!(echoes.set(&lock, (Some(2), None, None)).is_err());
    }

    #[test]
    fn an_order_of_an_administrator_that_takes_effect_twice_is_found() {
        let mut echoes = Echoes::default();
        let [one, other] = ["door-1", "door-2"].map(|name| LockName::parse(name).unwrap());
        let mut told = |lock: &LockName, revision| echoes.reason("wedged", lock, Revision(revision)).is_ok();
        assert!(told(&one, 4) && told(&one, 4) && told(&other, 5));
        assert!(!told(&one, 5));
    }

    #[test]
    fn an_id_that_was_given_back_and_stands_again_is_found() {
        let mut echoes = Echoes::default();
        assert!(echoes.stands("x").is_ok());
        echoes.told(&Fact::GaveBack { id: "x".to_owned() }).unwrap();
        assert!(echoes.stands("x").is_err());
    }
}
