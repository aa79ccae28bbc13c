//! Two clients never both believe, each by its own clock and from its own renewals, that they hold a lock which excludes the
//! other. It holds only where clocks run at their true rate; where they do not, the fence protects.

use super::Invariant;
use crate::{
    host::TRUE_RATE,
    oracle::{Fact, Physics},
};
use fairhold_types::{FencingToken, LockName, Mode};
use std::{collections::BTreeMap, time::Duration};

struct Belief {
    mode: Mode,
    token: FencingToken,
    from: Duration,
    until: Duration,
}

pub(crate) struct Beliefs {
    judge: bool,
    beliefs: BTreeMap<LockName, Vec<Belief>>,
}

impl Beliefs {
    pub(crate) fn new(physics: Physics) -> Beliefs {
        Beliefs { judge: physics.rate_max == TRUE_RATE, beliefs: BTreeMap::new() }
    }
}

impl Invariant for Beliefs {
    fn name(&self) -> &'static str {
        "two never believe that they hold"
    }

    fn told(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Believed { lock, mode, token, from, until } = fact else { return Ok(()) };
        if !self.judge {
            return Ok(());
        }
        let beliefs = self.beliefs.entry(lock.clone()).or_default();
        let excludes = |other: &&Belief| *mode == Mode::Exclusive || other.mode == Mode::Exclusive;
        let overlaps = |other: &&Belief| other.token != *token && other.from < *until && *from < other.until;
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
}
