//! The timing profile of the cluster: its settings, the round trips that it must suit, and the shortest `ttl`.

use crate::{
    api::{At, CallError, MemberRoundTrips, ReadOptions, TimingView},
    calls::write_key::write_key,
    clock::wall_now,
    node::Node,
};
use fairhold_state::command::Command;
use fairhold_types::{ClusterVersion, GrantId, Timing};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

impl<RT: AsyncRuntime> Node<RT> {
    /// The timing profile and the cluster's version.
    pub async fn settings(&self, read: ReadOptions) -> Result<At<(Timing, ClusterVersion)>, CallError> {
        self.read(read, |state| (state.membership().timing(), state.cluster_version())).await
    }

    /// Sets the timing profile. With a key, it happens once.
    pub async fn set_timing(&self, key: Option<GrantId>, timing: Timing, by: String, timeout: Duration) -> Result<(), CallError> {
        let deadline = RT::Instant::now() + timeout;
        self.check_membership_version(deadline).await?;
        let key = write_key(key, &("timing", timing))?;
        let command = Command::SetTiming { key, timing, by: by.clone(), at: wall_now() };
        let answer = self.propose_until(command, deadline).await?;
        answer.result?;
        tracing::info!(%timing, revision = answer.revision.0, by, "an administrator set the timing profile");
        Ok(self.0.replica.wait_for_revision(answer.revision, deadline).await?)
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
    let longest = members.iter().filter(|member| member.voter).filter_map(|member| member.p99).max()?;
    Timing::for_round_trip(longest)
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
}
