//! A request takes effect once, however late a second copy arrives: if its client has reverted the change since, it
//! stays reverted.

use super::invariant::Invariant;
use crate::facts::{Applied, Conversion, Fact};
use fairhold_state::command::Event;
use fairhold_types::{LockName, Revision};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The requests for one kind of change to one target.
#[derive(Default)]
struct Asked {
    /// The keys of the requests without a known outcome.
    open: BTreeSet<String>,
    /// How many requests were sent, and how often one took effect.
    count: u64,
    acted: u64,
}

/// A lock's last limit, maximum number of waiters, and maximum hold time.
type Settings = (Option<u32>, Option<u64>, Option<u64>);

#[derive(Default)]
pub(crate) struct Echoes {
    /// By target.
    asked: Vec<(String, Conversion, Asked)>,
    settings: BTreeMap<LockName, Settings>,
    /// The revision at which the key of each administrator's request appeared as the reason for each lock.
    /// The end of a session may come in pieces.
    reasons: BTreeMap<(String, LockName), Revision>,
    /// The released ids.
    released: BTreeSet<String>,
}

impl Echoes {
    /// Checks a change that took effect: it must have been requested, without a known outcome so far.
    fn check_effect(&mut self, target: &str, change: Conversion) -> Result<(), String> {
        let asked = self.asked_for(target, change);
        if asked.open.is_empty() || asked.acted >= asked.count {
            return Err(format!("{change:?} of {target}: it was not requested, or was done already"));
        }
        asked.acted += 1;
        Ok(())
    }

    fn asked_for(&mut self, target: &str, change: Conversion) -> &mut Asked {
        let known = self.asked.iter().position(|(of, kind, _)| of == target && *kind == change);
        let known = known.unwrap_or_else(|| {
            self.asked.push((target.to_owned(), change, Asked::default()));
            self.asked.len() - 1
        });
        &mut self.asked[known].2
    }

    /// The settings of a lock changed.
    fn set(&mut self, lock: &LockName, now: Settings) -> Result<(), String> {
        let before = self.settings.insert(lock.clone(), now).unwrap_or_default();
        let limit = now.0.filter(|_| now.0 != before.0);
        let most = now.1.filter(|_| now.1 != before.1);
        // Removing a bound that did not exist is also a change: it creates the lock.
        let held = (limit.is_none() && most.is_none()).then_some(now.2.unwrap_or(0));
        self.check_effect(lock.as_str(), Conversion::Limited(limit, most, held))
    }

    fn reason(&mut self, reason: &str, lock: &LockName, revision: Revision) -> Result<(), String> {
        if is_of_taken_access(reason) {
            return Ok(());
        }
        match self.reasons.insert((reason.to_owned(), lock.clone()), revision) {
            Some(before) if before != revision => {
                Err(format!("an administrator's request {reason:?} took effect on {lock} at revisions {before} and {revision}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_released(&self, id: &str) -> Result<(), String> {
        if self.released.contains(id) { Err(format!("grant {id} was released, but is in a lock again")) } else { Ok(()) }
    }

    fn check_arrival(&self, event: &Event, applied: &Applied<'_>) -> Result<(), String> {
        let (Event::Queued { grant, .. } | Event::Granted { grant, .. }) = event else { return Ok(()) };
        let id = applied.state.contender(*grant).map(|contender| contender.grant.to_string());
        id.map_or(Ok(()), |id| self.check_released(&id))
    }

    fn happened(&mut self, event: &Event, applied: &Applied<'_>) -> Result<(), String> {
        match event {
            Event::Downgraded { grant, .. } => self.check_effect(&format!("#{grant}"), Conversion::Downgraded),
            Event::Upgrading { grant, .. } => self.check_effect(&format!("#{grant}"), Conversion::Upgraded),
            Event::SessionRetimed { session, timeout_ms } => {
                let Some(contender) = applied.state.contenders_of(*session).next() else { return Ok(()) };
                self.check_effect(&format!("#{}", contender.number), Conversion::Retimed(Duration::from_millis(*timeout_ms)))
            }
            Event::LockSet { lock, .. } => {
                let view = applied.state.lock(lock);
                self.set(lock, (view.limit, view.max_waiters, view.max_hold_ms))
            }
            // The first contender sets the limit, even if an administrator set another setting before.
            Event::Queued { lock, .. } if self.settings.get(lock).is_none_or(|(limit, ..)| limit.is_none()) => {
                self.settings.entry(lock.clone()).or_default().0 = applied.state.lock(lock).limit;
                self.check_arrival(event, applied)
            }
            Event::Broken { lock, reason, .. } | Event::Revoked { lock, reason, .. } => {
                self.reason(reason, lock, applied.revision)
            }
            Event::Queued { .. } | Event::Granted { .. } => self.check_arrival(event, applied),
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
            | Event::Holds { .. }
            | Event::Cluster(_) => Ok(()),
        }
    }
}

/// Whether a user lost its access, and its sessions with it. This reason is the same for each request, and one request
/// may end several sessions that use the same lock, each at a revision of its own.
fn is_of_taken_access(reason: &str) -> bool {
    reason.starts_with("the access of ") && reason.ends_with(" was taken away")
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

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        if let Fact::Changing { target, key, change } = fact {
            let asked = self.asked_for(target, *change);
            asked.count += 1;
            asked.open.insert(key.clone());
        }
        if let Fact::Settled { key } = fact {
            self.asked.iter_mut().for_each(|(_, _, asked)| drop(asked.open.take(key)));
        }
        if let Fact::Released { id } = fact {
            self.released.insert(id.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changing(key: &str) -> Fact {
        Fact::Changing { target: "#3".to_owned(), key: key.to_owned(), change: Conversion::Downgraded }
    }

    #[test]
    fn an_unrequested_change_a_repeated_change_and_a_change_after_its_answer_are_found() {
        let mut echoes = Echoes::default();
        assert!(echoes.check_effect("#3", Conversion::Downgraded).is_err());
        echoes.observe(&changing("a")).unwrap();
        assert!(
            echoes.check_effect("#3", Conversion::Upgraded).is_err()
                && echoes.check_effect("#4", Conversion::Downgraded).is_err()
        );
        assert!(echoes.check_effect("#3", Conversion::Downgraded).is_ok());
        assert!(echoes.check_effect("#3", Conversion::Downgraded).is_err());
        echoes.observe(&changing("b")).unwrap();
        for key in ["a", "b"] {
            echoes.observe(&Fact::Settled { key: key.to_owned() }).unwrap();
        }
        assert!(echoes.check_effect("#3", Conversion::Downgraded).is_err(), "it was answered already, and had changed nothing");
    }

    #[test]
    fn a_setting_that_reverts_is_found() {
        let (lock, mut echoes) = (LockName::parse("pool").unwrap(), Echoes::default());
        let limited = |key: &str, limit| {
            let change = Conversion::Limited(Some(limit), None, None);
            Fact::Changing { target: "pool".to_owned(), key: key.to_owned(), change }
        };
        echoes.observe(&limited("a", 2)).unwrap();
        assert!(echoes.set(&lock, (Some(2), None, None)).is_ok());
        echoes.observe(&Fact::Settled { key: "a".to_owned() }).unwrap();
        echoes.observe(&limited("b", 4)).unwrap();
        assert!(echoes.set(&lock, (Some(4), None, None)).is_ok());
        assert!(echoes.set(&lock, (Some(2), None, None)).is_err());
    }

    #[test]
    fn an_administrators_request_that_takes_effect_twice_is_found() {
        let mut echoes = Echoes::default();
        let [one, other] = ["door-1", "door-2"].map(|name| LockName::parse(name).unwrap());
        let mut told = |lock: &LockName, revision| echoes.reason("wedged", lock, Revision(revision)).is_ok();
        assert!(told(&one, 4) && told(&one, 4) && told(&other, 5));
        assert!(!told(&one, 5));
        let mut taken = |revision| echoes.reason("the access of user2 was taken away", &one, Revision(revision)).is_ok();
        assert!(taken(6) && taken(7));
    }

    #[test]
    fn a_released_id_that_is_back_in_a_lock_is_found() {
        let mut echoes = Echoes::default();
        assert!(echoes.check_released("x").is_ok());
        echoes.observe(&Fact::Released { id: "x".to_owned() }).unwrap();
        assert!(echoes.check_released("x").is_err());
    }
}
