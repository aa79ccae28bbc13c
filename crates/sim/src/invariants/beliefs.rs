//! Two clients never both believe, each by its own clock and from its own renewals, that they hold a lock which excludes the
//! other. It holds only where clocks run at their true rate; where they do not, the fence protects.

use super::{Invariant, bounds::ended_by_a_bound};
use crate::{
    host::TRUE_RATE,
    oracle::{Applied, Fact, Physics},
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

pub(crate) struct Beliefs {
    judge: bool,
    beliefs: BTreeMap<LockName, Vec<Belief>>,
    tokens: BTreeMap<(LockName, GrantNumber), FencingToken>,
    /// When a break or `max_hold` ended a grant. The holder cannot know of it in advance.
    cut: BTreeMap<(LockName, FencingToken), Duration>,
}

impl Beliefs {
    pub(crate) fn new(physics: Physics) -> Beliefs {
        Beliefs { judge: physics.rate_max == TRUE_RATE, beliefs: BTreeMap::new(), tokens: BTreeMap::new(), cut: BTreeMap::new() }
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

    fn told(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Believed { lock, mode, token, from, until } = fact else { return Ok(()) };
        if !self.judge {
            return Ok(());
        }
        let beliefs = self.beliefs.entry(lock.clone()).or_default();
        let excludes = |other: &&Belief| *mode == Mode::Exclusive || other.mode == Mode::Exclusive;
        let ends =
            |token: FencingToken, until: Duration| self.cut.get(&(lock.clone(), token)).map_or(until, |cut| until.min(*cut));
        let until = &ends(*token, *until);
        let overlaps = |other: &&Belief| other.token != *token && other.from < *until && *from < ends(other.token, other.until);
        let clash = beliefs.iter().filter(excludes).find(overlaps);
        let clash = clash.map(|other| {
            format!(
                "{lock}: with token {token} from {from:?} to {until:?}, and with token {} from {:?} to {:?}",
                other.token, other.from, other.until
            )
        });
        beliefs.push(Belief { mode: *mode, token: *token, from: *from, until: *until });
        clash.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_believers_at_the_same_time_are_found() {
        let second = Duration::from_secs(1);
        let believed = |token, from: u32, until: u32, mode| Fact::Believed {
            lock: LockName::parse("a").unwrap(),
            mode,
            token: FencingToken(token),
            from: second * from,
            until: second * until,
        };
        let mut beliefs = Beliefs::new(Physics { rate_max: TRUE_RATE });
        assert!(beliefs.told(&believed(1, 0, 5, Mode::Exclusive)).is_ok());
        assert!(beliefs.told(&believed(2, 5, 8, Mode::Shared)).is_ok());
        assert!(beliefs.told(&believed(3, 6, 7, Mode::Shared)).is_ok());
        assert!(beliefs.told(&believed(4, 7, 9, Mode::Exclusive)).is_err());
    }

    #[test]
    fn a_grant_that_an_administrator_took_away_excludes_nobody_after_that() {
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
            beliefs.told(&believed(1, 0, 5)).and_then(|()| beliefs.told(&believed(2, 3, 8)))
        };
        assert!(believes(3).is_ok() && believes(4).is_err());
    }
}
