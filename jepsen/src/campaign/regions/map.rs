//! Where the machines are: for each timing profile five regions with a voter, a sixth one with a learner, and the round
//! trips between them. They are like those between the regions of cloud providers, and the longest one between voters
//! is the longest that the profile allows.

use crate::net::{Link, Overlay};
use std::{fmt, time::Duration};

/// The voters: one in each of the first regions.
pub(super) const VOTERS: usize = 5;
/// The machine of the learner, in the last region.
pub(super) const LEARNER: usize = VOTERS + 1;
/// How much of its time in a thousandth a packet may gain on its way.
const JITTER_PERMILLE: u64 = 30;

/// A timing profile, as `docs/guides/regions.md` describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Neighbouring regions: round trips up to 30 ms.
    Metro,
    /// One continent: round trips up to 150 ms.
    Wan,
    /// The world: round trips up to 300 ms.
    Global,
}

/// Regions, and the round trips between them in milliseconds: each row has those to the regions before it.
#[derive(Debug)]
struct Map {
    regions: [&'static str; LEARNER],
    round_trips: [&'static [u64]; LEARNER],
}

// The first region has the leader. It is at an end of the longest round trip.
const METRO: Map = Map {
    regions: ["London", "Paris", "Frankfurt", "Milan", "Stockholm", "Vienna"],
    round_trips: [&[], &[9], &[14, 10], &[24, 17, 10], &[30, 28, 20, 29], &[26, 22, 12, 14, 28]],
};
const WAN: Map = Map {
    regions: ["Seoul", "Tokyo", "Hong Kong", "Singapore", "Mumbai", "Jakarta"],
    round_trips: [&[], &[34], &[40, 52], &[76, 70, 36], &[150, 130, 94, 60], &[90, 84, 50, 14, 75]],
};
const GLOBAL: Map = Map {
    regions: ["Sao Paulo", "Virginia", "Ireland", "Tokyo", "Sydney", "Mumbai"],
    round_trips: [&[], &[115], &[178, 68], &[260, 150, 205], &[300, 200, 260, 105], &[300, 190, 122, 130, 150]],
};

impl Profile {
    /// Its name, as in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Profile::Metro => "metro",
            Profile::Wan => "wan",
            Profile::Global => "global",
        }
    }

    /// The longest round trip between voters.
    pub(super) fn round_trip_max(self) -> Duration {
        Duration::from_millis(match self {
            Profile::Metro => 30,
            Profile::Wan => 150,
            Profile::Global => 300,
        })
    }

    /// The shortest `ttl` of a session or grant.
    pub(super) fn ttl(self) -> Duration {
        Duration::from_secs(match self {
            Profile::Metro => 2,
            Profile::Wan => 6,
            Profile::Global => 12,
        })
    }

    /// The leader's lease, which is the longer election timeout.
    pub(super) fn lease(self) -> Duration {
        Duration::from_millis(match self {
            Profile::Metro => 800,
            Profile::Wan => 3_000,
            Profile::Global => 6_000,
        })
    }

    /// How long a leader must last before a later election starts without an additional delay.
    pub(super) fn settles_within(self) -> Duration {
        Duration::from_secs(match self {
            Profile::Metro => 6,
            Profile::Wan => 24,
            Profile::Global => 48,
        })
    }

    /// The longest time without an acknowledged write after the leader's machine vanishes.
    pub(super) fn gap_max(self) -> Duration {
        Duration::from_millis(match self {
            Profile::Metro => 1_800,
            Profile::Wan => 6_500,
            Profile::Global => 13_000,
        })
    }

    fn map(self) -> &'static Map {
        match self {
            Profile::Metro => &METRO,
            Profile::Wan => &WAN,
            Profile::Global => &GLOBAL,
        }
    }

    /// The region of a machine.
    pub(super) fn region(self, machine: usize) -> &'static str {
        self.map().regions[machine - 1]
    }

    /// The round trip between two machines.
    pub(super) fn round_trip(self, a: usize, b: usize) -> Duration {
        let (near, far) = (a.min(b), a.max(b));
        let trips = self.map().round_trips[far - 1];
        Duration::from_millis(trips.get(near - 1).copied().unwrap_or(0))
    }

    /// The round trip from a leader to the nearest majority: that to the second nearest voter.
    pub(super) fn commit(self, leader: usize) -> Duration {
        let mut trips: Vec<Duration> = (1..=VOTERS).map(|voter| self.round_trip(leader, voter)).collect();
        trips.sort_unstable();
        trips[VOTERS / 2]
    }

    /// The delays between all machines. Clients talk only to the machine of their own region, without a delay.
    pub(super) fn delays(self) -> Overlay {
        let machines = 1..=LEARNER;
        let pairs = machines.clone().flat_map(|from| machines.clone().map(move |to| (from, to)));
        let link = |(from, to): (usize, usize)| {
            let one_way = u64::try_from(self.round_trip(from, to).as_micros()).unwrap_or(u64::MAX) / 2;
            let jitter_us = one_way * JITTER_PERMILLE / 1_000;
            (from, to, Link { delay_us: one_way - jitter_us, jitter_us, in_order: true, ..Link::default() })
        };
        Overlay(pairs.filter(|(from, to)| from != to).map(link).collect())
    }

    /// The round trips as a table.
    pub(super) fn write(self, out: &mut String) -> fmt::Result {
        use fmt::Write as _;
        let regions = &self.map().regions;
        writeln!(out, "| round trip in ms | {} |", regions[..VOTERS].join(" | "))?;
        writeln!(out, "|---|{}", "---|".repeat(VOTERS))?;
        for machine in 2..=LEARNER {
            let cell = |to: usize| match self.round_trip(machine, to) {
                _ if to >= machine => String::new(),
                trip => trip.as_millis().to_string(),
            };
            let cells: Vec<String> = (1..=VOTERS).map(cell).collect();
            let role = if machine == LEARNER { " (learner)" } else { "" };
            writeln!(out, "| {}{role} | {} |", self.region(machine), cells.join(" | "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Profile; 3] = [Profile::Metro, Profile::Wan, Profile::Global];

    #[test]
    fn the_longest_round_trip_between_voters_is_the_bound_of_the_profile_and_the_leader_has_it() {
        for profile in ALL {
            let from = |machine| (1..=VOTERS).map(move |other| profile.round_trip(machine, other)).max();
            assert_eq!((1..=VOTERS).map(from).max(), Some(from(1)), "{profile:?}");
            assert_eq!(from(1), Some(profile.round_trip_max()), "{profile:?}");
            let rows = profile.map().round_trips.iter().enumerate();
            assert!(rows.into_iter().all(|(row, trips)| trips.len() == row), "{profile:?}");
        }
    }

    #[test]
    fn a_commit_takes_the_way_to_the_second_nearest_voter_and_back() {
        assert_eq!(Profile::Wan.commit(1), Duration::from_millis(40));
        assert_eq!(Profile::Wan.commit(5), Duration::from_millis(94));
    }

    #[test]
    fn no_packet_takes_longer_than_half_of_the_round_trip() {
        let Overlay(links) = Profile::Global.delays();
        assert_eq!(links.len(), LEARNER * VOTERS);
        for (from, to, link) in links {
            let longest = Duration::from_micros(2 * (link.delay_us + link.jitter_us));
            assert_eq!(longest, Profile::Global.round_trip(from, to));
        }
    }
}
