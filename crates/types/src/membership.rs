//! The vocabulary of changing members: roles, join tokens, timing profiles.

use crate::duration;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};

/// The public number of a join token: 1 for the first one of the cluster, then one more for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct JoinTokenNumber(pub u64);

impl fmt::Display for JoinTokenNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The role that a node joins with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemberRole {
    /// It votes, once it has caught up.
    #[default]
    Voter,
    /// It receives the log and serves local reads and watches, but does not vote.
    Learner,
}

impl fmt::Display for MemberRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemberRole::Voter => "voter",
            MemberRole::Learner => "learner",
        })
    }
}

/// How far apart the voters are: it sets the heartbeat and the election timeouts, and so how fast a dead leader is replaced.
///
/// A leader counts a heartbeat as lost if no answer arrives within the interval, so the interval must exceed the round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// One data centre: round trips up to 10 ms.
    #[default]
    Lan,
    /// One city: round trips up to 30 ms.
    Metro,
    /// One continent: round trips up to 150 ms.
    Wan,
    /// The world: round trips up to 300 ms.
    Global,
}

impl Timing {
    /// Every profile, the fastest first.
    pub const ALL: [Timing; 4] = [Timing::Lan, Timing::Metro, Timing::Wan, Timing::Global];

    /// Its name, as in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Timing::Lan => "lan",
            Timing::Metro => "metro",
            Timing::Wan => "wan",
            Timing::Global => "global",
        }
    }

    /// The longest round trip between voters that it suits.
    #[must_use]
    pub fn round_trip_max(self) -> Duration {
        Duration::from_millis(match self {
            Timing::Lan => 10,
            Timing::Metro => 30,
            Timing::Wan => 150,
            Timing::Global => 300,
        })
    }

    /// The interval of the leader's heartbeats.
    #[must_use]
    pub fn heartbeat(self) -> Duration {
        Duration::from_millis(match self {
            Timing::Lan => 50,
            Timing::Metro => 100,
            Timing::Wan => 400,
            Timing::Global => 800,
        })
    }

    /// The two election timeouts. The longer one is also the leader's lease.
    #[must_use]
    pub fn election_timeouts(self) -> (Duration, Duration) {
        let (shorter, longer) = match self {
            Timing::Lan => (150, 300),
            Timing::Metro => (400, 800),
            Timing::Wan => (1_500, 3_000),
            Timing::Global => (3_000, 6_000),
        };
        (Duration::from_millis(shorter), Duration::from_millis(longer))
    }

    /// The shortest `ttl` of a session or grant: it must outlast the election of a new leader.
    #[must_use]
    pub fn ttl_min(self) -> Duration {
        Duration::from_secs(match self {
            Timing::Lan => 1,
            Timing::Metro => 2,
            Timing::Wan => 6,
            Timing::Global => 12,
        })
    }

    /// The fastest profile for this round trip; `None` if none suits it.
    #[must_use]
    pub fn for_round_trip(round_trip: Duration) -> Option<Timing> {
        Timing::ALL.into_iter().find(|timing| round_trip <= timing.round_trip_max())
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no timing profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a timing profile: use lan, metro, wan or global")]
pub struct ParseTimingError(String);

impl FromStr for Timing {
    type Err = ParseTimingError;

    fn from_str(text: &str) -> Result<Timing, ParseTimingError> {
        Timing::ALL.into_iter().find(|timing| timing.as_str() == text).ok_or_else(|| ParseTimingError(text.to_owned()))
    }
}

/// For error messages: the profile with its shortest `ttl`.
#[must_use]
pub fn ttl_too_short(timing: Timing, ttl: Duration) -> String {
    let (ttl, min) = (duration::format(ttl), duration::format(timing.ttl_min()));
    format!("{ttl} is too short: with the timing profile {timing}, the minimum is {min}")
}

/// For error messages: the profile, a longer round trip, and the profile that suits it best.
#[must_use]
pub fn timing_too_fast(timing: Timing, round_trip: Duration, suits: Timing) -> String {
    let (max, round_trip) = (duration::format(timing.round_trip_max()), duration::format(round_trip));
    format!(
        "the timing profile {timing} is for round trips up to {max}, and a voter needs up to {round_trip}: leaders would change \
         again and again. Set {suits}, or pass force"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_leaves_room_for_its_round_trip_and_a_ttl_for_an_election() {
        for timing in Timing::ALL {
            let (shorter, longer) = timing.election_timeouts();
            assert!(timing.round_trip_max() < timing.heartbeat(), "{timing}");
            assert!(timing.heartbeat() * 3 <= shorter && shorter * 2 == longer, "{timing}");
            assert!(timing.ttl_min() >= longer * 2, "{timing}");
            assert_eq!(timing.as_str().parse(), Ok(timing));
            assert_eq!(serde_json::to_string(&timing).unwrap(), format!("\"{timing}\""));
        }
        assert!("LAN".parse::<Timing>().is_err());
    }

    #[test]
    fn the_fastest_profile_that_suits_a_round_trip_is_chosen() {
        let of = |ms| Timing::for_round_trip(Duration::from_millis(ms));
        assert_eq!([0, 10, 11, 150, 151, 300, 301].map(of), {
            use Timing::{Global, Lan, Metro, Wan};
            [Some(Lan), Some(Lan), Some(Metro), Some(Wan), Some(Global), Some(Global), None]
        });
    }
}
