//! The timing profile of the cluster: its settings, the round trips that it must suit, and the shortest `ttl`.

use crate::{
    api::{At, CallError, MemberRoundTrips, ReadOptions, SetTimingCall, TimingView},
    calls::write_key::write_key,
    clock::wall_now,
    looks,
    node::Node,
};
use fairhold_access::{Need, Verb};
use fairhold_health::round_trips;
use fairhold_raft::error::{NotProposed, ReadError};
use fairhold_state::command::Command;
use fairhold_types::{ClusterVersion, Timing};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

impl<RT: AsyncRuntime> Node<RT> {
    /// The timing profile and the cluster's version.
    pub async fn settings(&self, read: ReadOptions) -> Result<At<(Timing, ClusterVersion)>, CallError> {
        self.read(read, |state| (state.membership().timing(), state.cluster_version())).await
    }

    /// Sets the timing profile, unless it is too fast for the round trips. With a key, it happens once.
    pub async fn set_timing(&self, call: SetTimingCall) -> Result<(), CallError> {
        let SetTimingCall { key, timing, force, by, timeout } = call;
        let deadline = RT::Instant::now() + timeout;
        self.check_membership_version(deadline).await?;
        let key = write_key(key, &("timing", timing, force))?;
        // The round trips may have changed since a request was done, and its repetition succeeds all the same.
        let is_new = key.is_none_or(|key| matches!(self.0.replica.read(|state| state.was_written(key)), Ok(false)));
        if is_new && !force {
            self.require_right(&Need::unnamed(Verb::Operate))?;
            check_round_trip(timing, self.longest_round_trip(deadline).await?)?;
        }
        let command = Command::SetTiming { key, timing, by: by.clone(), at: wall_now() };
        let answer = self.propose_until(command, deadline).await?;
        answer.result?;
        tracing::info!(%timing, revision = answer.revision.0, by, "an administrator set the timing profile");
        Ok(self.0.replica.wait_for_revision(answer.revision, deadline).await?)
    }

    /// Sets the timing profile with which this node was started, if this node leads and the cluster still has the default
    /// one. Call this only while nobody can have set one.
    pub async fn set_first_timing(&self, timing: Timing, timeout: Duration) -> Result<(), CallError> {
        if !self.is_leader() {
            return Ok(());
        }
        let deadline = RT::Instant::now() + timeout;
        self.check_membership_version(deadline).await?;
        if self.0.replica.timing() != Timing::default() {
            return Ok(());
        }
        let command = Command::SetTiming { key: None, timing, by: "formation".to_owned(), at: wall_now() };
        self.0.replica.propose(command, deadline).await?.result?;
        tracing::info!(%timing, "the cluster has the timing profile of its nodes");
        Ok(())
    }

    /// The longest round trip to a voter that the timing profile must suit, as the leader has measured it; `None` if it
    /// does not know one yet.
    async fn longest_round_trip(&self, deadline: RT::Instant) -> Result<Option<Duration>, CallError> {
        if self.is_leader() {
            return Ok(longest(&self.timing().members));
        }
        let no_leader = || CallError::from(ReadError::from(NotProposed::NoLeader));
        let leader = self.0.replica.status().leader.ok_or_else(no_leader)?;
        let answer = looks::ask(&self.0.replica, leader, deadline).await.ok_or_else(no_leader)?;
        Ok(answer.report.round_trip_ms.map(Duration::from_millis))
    }

    /// The timing profile, and the round trips to the members as this node knows them: only a leader does.
    #[must_use]
    pub fn timing(&self) -> TimingView {
        let timing = self.0.replica.timing();
        let members = self.0.replica.status().members.into_iter().map(|member| MemberRoundTrips {
            id: member.id,
            voter: member.voter,
            mean: member.round_trip,
            p50: member.round_trip_p50,
            p99: member.round_trip_p99,
        });
        let members: Vec<MemberRoundTrips> = members.collect();
        TimingView { timing, fits: fitting(&members), members, from_leader: self.is_leader() }
    }

    /// Refuses a `ttl` that is too short for the timing profile: it would not outlast the election of a new leader.
    pub(crate) fn check_ttl(&self, ttl_ms: u64) -> Result<(), CallError> {
        let ttl = Duration::from_millis(ttl_ms);
        // No profile needs more, so most requests do not read the state.
        if ttl >= Timing::Global.ttl_min() {
            return Ok(());
        }
        let timing = self.0.replica.timing();
        if ttl < timing.ttl_min() { Err(CallError::TtlTooShort { timing, ttl }) } else { Ok(()) }
    }
}

/// The fastest profile that suits the longest round trip to a voter.
fn fitting(members: &[MemberRoundTrips]) -> Option<Timing> {
    Timing::for_round_trip(longest(members)?)
}

/// The longest round trip to a voter that the profile must suit.
fn longest(members: &[MemberRoundTrips]) -> Option<Duration> {
    let voters = members.iter().filter(|member| member.voter);
    round_trips::longest(voters.map(|member| (member.id, member.p50, member.p99))).map(|(took, _)| took)
}

/// Refuses a profile that is too fast for this round trip. With it, leaders would change again and again, and at worst
/// nothing would be served, not even the way back.
fn check_round_trip(timing: Timing, round_trip: Option<Duration>) -> Result<(), CallError> {
    let Some(round_trip) = round_trip else { return Ok(()) };
    // If no profile suits it, the slowest one comes closest.
    let suits = Timing::for_round_trip(round_trip).unwrap_or(Timing::Global);
    if timing < suits { Err(CallError::TimingTooFast { timing, round_trip, suits }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, voter: bool, p99_ms: Option<u64>) -> MemberRoundTrips {
        let p99 = p99_ms.map(Duration::from_millis);
        MemberRoundTrips { id, voter, mean: p99, p50: p99, p99 }
    }

    #[test]
    fn the_profile_must_suit_the_voter_that_is_farthest_away() {
        let near = [member(1, true, None), member(2, true, Some(9)), member(3, true, Some(4))];
        assert_eq!(fitting(&near), Some(Timing::Lan));
        assert_eq!(fitting(&[member(1, true, None), member(2, true, Some(120))]), Some(Timing::Wan));
        assert_eq!(fitting(&[member(1, true, None), member(2, true, Some(301))]), None, "no profile suits it");
        assert_eq!(fitting(&[member(1, true, None), member(2, true, None)]), None, "no round trip is known");
        let far_learner = [member(1, true, None), member(2, true, Some(9)), member(3, false, Some(200))];
        assert_eq!(fitting(&far_learner), Some(Timing::Lan), "a learner does not vote");
    }

    #[test]
    fn a_few_slow_heartbeats_do_not_count() {
        let [p50, p99] = [2, 60].map(|ms| Some(Duration::from_millis(ms)));
        let slow_at_the_start = MemberRoundTrips { id: 2, voter: true, mean: p50, p50, p99 };
        assert_eq!(fitting(&[member(1, true, None), slow_at_the_start]), Some(Timing::Lan));
    }

    #[test]
    fn a_profile_that_is_too_fast_for_the_round_trips_is_refused() {
        let check = |timing, ms: Option<u64>| match check_round_trip(timing, ms.map(Duration::from_millis)) {
            Ok(()) => None,
            Err(CallError::TimingTooFast { timing: refused, round_trip, suits }) => {
                assert_eq!((refused, round_trip.as_millis()), (timing, u128::from(ms.unwrap())));
                Some(suits)
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!([check(Timing::Lan, Some(10)), check(Timing::Lan, None)], [None; 2], "it fits, or nothing is known");
        assert_eq!(check(Timing::Lan, Some(140)), Some(Timing::Wan));
        assert_eq!(check(Timing::Metro, Some(140)), Some(Timing::Wan), "better than lan, and still too fast");
        assert_eq!([check(Timing::Wan, Some(140)), check(Timing::Global, Some(140))], [None; 2]);
        // No profile suits this. The slowest one is the best that an operator can choose.
        assert_eq!([check(Timing::Wan, Some(400)), check(Timing::Global, Some(400))], [Some(Timing::Global), None]);
        let refused = check_round_trip(Timing::Lan, Some(Duration::from_millis(140))).unwrap_err().to_string();
        let text = "the timing profile lan is for round trips up to 10ms, and a voter needs up to 140ms: leaders would change \
                    again and again. Set wan, or pass force";
        assert_eq!(refused, text);
    }
}
