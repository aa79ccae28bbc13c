//! Two clients never both believe that they hold a lock exclusively, each by its own clock and its own renewals; and
//! clients never believe that they hold more permits than a semaphore has. This holds only while clocks run at their
//! true rate. Otherwise, the fence protects.

use super::{bounds::ended_by_a_bound, invariant::Invariant};
use crate::{
    facts::{Applied, Fact, Physics},
    host::TRUE_RATE,
};
use fairhold_state::command::Event;
use fairhold_types::{EndReason, FencingToken, GrantNumber, LockName, Mode};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

struct Belief {
    mode: Mode,
    token: FencingToken,
    from: Duration,
    until: Duration,
}

struct Permits {
    token: FencingToken,
    permits: u32,
    from: Duration,
    until: Duration,
}

pub(crate) struct Beliefs {
    judge: bool,
    beliefs: BTreeMap<LockName, Vec<Belief>>,
    permits: BTreeMap<LockName, Vec<Permits>>,
    /// The semaphores whose limit an administrator set. Their clients do not know the limit.
    set: BTreeSet<LockName>,
    tokens: BTreeMap<(LockName, GrantNumber), FencingToken>,
    /// When a break or `max_hold` ended a grant, which its holder cannot know in advance.
    cut: BTreeMap<(LockName, FencingToken), Duration>,
}

impl Beliefs {
    pub(crate) fn new(physics: Physics) -> Beliefs {
        Beliefs {
            judge: physics.rate_max == TRUE_RATE,
            beliefs: BTreeMap::new(),
            permits: BTreeMap::new(),
            set: BTreeSet::new(),
            tokens: BTreeMap::new(),
            cut: BTreeMap::new(),
        }
    }

    /// When a belief ends: earlier than `until` if the grant was ended before.
    fn end(&self, lock: &LockName, token: FencingToken, until: Duration) -> Duration {
        self.cut.get(&(lock.clone(), token)).map_or(until, |cut| until.min(*cut))
    }

    /// Adds a belief in permits. Their sum is highest at a moment at which a belief begins.
    fn believed(&mut self, lock: &LockName, new: Permits, limit: u32) -> Result<(), String> {
        let all = self.permits.entry(lock.clone()).or_default();
        all.push(new);
        if self.set.contains(lock) {
            return Ok(());
        }
        let all = self.permits.get(lock).map(Vec::as_slice).unwrap_or_default();
        let out = |at: Duration| {
            let at_that_time = all.iter().filter(|one| one.from <= at && at < self.end(lock, one.token, one.until));
            at_that_time.map(|one| one.permits).sum::<u32>()
        };
        match all.iter().find(|one| out(one.from) > limit) {
            Some(one) => Err(format!("{lock}: {} permits of {limit} at {:?}", out(one.from), one.from)),
            None => Ok(()),
        }
    }

    fn ended(&mut self, lock: &LockName, grant: GrantNumber, at: Duration) {
        if let Some(token) = self.tokens.get(&(lock.clone(), grant)) {
            self.cut.insert((lock.clone(), *token), at);
        }
    }
}

impl Invariant for Beliefs {
    fn name(&self) -> &'static str {
        "two never believe that they hold"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        let bounded: BTreeSet<GrantNumber> = ended_by_a_bound(applied.events).collect();
        for event in applied.events {
            if let Event::Granted { lock, grant, token } = event {
                self.tokens.insert((lock.clone(), *grant), *token);
            }
            if let Event::LockSet { lock, .. } = event {
                self.set.insert(lock.clone());
            }
            if let Event::Ended { lock, grant, reason: EndReason::Broken, .. } = event {
                self.ended(lock, *grant, applied.at);
            }
            if let Event::Ended { lock, grant, .. } | Event::Cooling { lock, grant, .. } = event
                && bounded.contains(grant)
            {
                self.ended(lock, *grant, applied.at);
            }
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        if !self.judge {
            return Ok(());
        }
        if let Fact::Permits { lock, token, permits, limit, from, until } = fact {
            let new = Permits { token: *token, permits: *permits, from: *from, until: *until };
            return self.believed(lock, new, *limit);
        }
        let Fact::Believed { lock, mode, token, from, until } = fact else { return Ok(()) };
        let until = &self.end(lock, *token, *until);
        let excludes = |other: &&Belief| *mode == Mode::Exclusive || other.mode == Mode::Exclusive;
        let ends = |other: &Belief| self.end(lock, other.token, other.until);
        let overlaps = |other: &&Belief| other.token != *token && other.from < *until && *from < ends(other);
        let clash = self.beliefs.get(lock).into_iter().flatten().filter(excludes).find(overlaps);
        let clash = clash.map(|other| {
            format!(
                "{lock}: with token {token} from {from:?} to {until:?}, and with token {} from {:?} to {:?}",
                other.token, other.from, other.until
            )
        });
        self.beliefs.entry(lock.clone()).or_default().push(Belief { mode: *mode, token: *token, from: *from, until: *until });
        clash.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_beliefs_at_the_same_time_are_found() {
        let second = Duration::from_secs(1);
        let believed = |token, from: u32, until: u32, mode| Fact::Believed {
            lock: LockName::parse("a").unwrap(),
            mode,
            token: FencingToken(token),
            from: second * from,
            until: second * until,
        };
        let mut beliefs = Beliefs::new(Physics { rate_max: TRUE_RATE });
        assert!(beliefs.observe(&believed(1, 0, 5, Mode::Exclusive)).is_ok());
        assert!(beliefs.observe(&believed(2, 5, 8, Mode::Shared)).is_ok());
        assert!(beliefs.observe(&believed(3, 6, 7, Mode::Shared)).is_ok());
        assert!(beliefs.observe(&believed(4, 7, 9, Mode::Exclusive)).is_err());
    }

    #[test]
    fn more_permits_than_the_limit_at_one_time_are_found() {
        let second = Duration::from_secs(1);
        let believed = |token, permits, from: u32, until: u32| {
            let (lock, token) = (LockName::parse("pool").unwrap(), FencingToken(token));
            Fact::Permits { lock, token, permits, limit: 3, from: second * from, until: second * until }
        };
        let mut beliefs = Beliefs::new(Physics { rate_max: TRUE_RATE });
        assert!(beliefs.observe(&believed(1, 2, 0, 5)).is_ok() && beliefs.observe(&believed(2, 1, 1, 9)).is_ok());
        assert!(beliefs.observe(&believed(3, 2, 5, 8)).is_ok(), "the first has ended");
        assert!(beliefs.observe(&believed(4, 1, 6, 7)).is_err());
        beliefs.set.insert(LockName::parse("pool").unwrap());
        assert!(beliefs.observe(&believed(5, 2, 6, 7)).is_ok(), "its clients do not know the limit");
    }

    #[test]
    fn a_broken_grant_excludes_no_other_afterwards() {
        let (lock, second) = (LockName::parse("a").unwrap(), Duration::from_secs(1));
        let believes = |cut: u32| {
            let mut beliefs = Beliefs::new(Physics { rate_max: TRUE_RATE });
            beliefs.tokens.insert((lock.clone(), GrantNumber(1)), FencingToken(1));
            beliefs.ended(&lock, GrantNumber(1), second * cut);
            let believed = |token, from: u32, until: u32| Fact::Believed {
                lock: lock.clone(),
                mode: Mode::Exclusive,
                token: FencingToken(token),
                from: second * from,
                until: second * until,
            };
            beliefs.observe(&believed(1, 0, 5)).and_then(|()| beliefs.observe(&believed(2, 3, 8)))
        };
        assert!(believes(3).is_ok() && believes(4).is_err());
    }
}
