//! Finalizes an upgrade without an operator, if the configuration says so: when every member has supported the next
//! version for long enough without a break.
//!
//! Only the leader counts, by its own clock. A new leader starts again, because it does not know what the members ran
//! before: too late is safe, and too early ends the way back.

use crate::{
    base::upgrade_status::{MemberProgram, UpgradeStatus},
    core::{Core, leadership_in},
    leadership::upgrade::{self, RaiseReason},
    queues::Queues,
};
use fairhold_types::{ClusterVersion, NodeId};
use openraft::{AsyncRuntime, Instant};
use std::{sync::Arc, time::Duration};

/// Pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// A member that has been silent for longer does not count as one that supports the next version: it may come back with
/// the older program.
const SILENT_MAX: Duration = Duration::from_secs(10);
/// Time limit for the command.
const FINALIZE_LIMIT: Duration = Duration::from_secs(10);

/// Runs until Raft stops. `after` is how long every member must have supported the next version.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>, queues: Queues, after: Duration) {
    while let Some(leadership) = core.until(leadership_in).await {
        let mut countdown = Countdown::new(after);
        while core.leadership() == Some(leadership) {
            let supported = supported_by_all(&upgrade::own_status(&core), core.id);
            if let Some(to) = countdown.due(supported, RT::Instant::now()) {
                finalize(&core, &queues, to, after).await;
            }
            tokio::select! {
                biased;
                () = core.stopped() => return,
                () = RT::sleep(LOOK_PAUSE) => {}
            }
        }
    }
}

async fn finalize<RT: AsyncRuntime>(core: &Core<RT>, queues: &Queues, to: ClusterVersion, after: Duration) {
    let deadline = RT::Instant::now() + FINALIZE_LIMIT;
    if let Err(error) = upgrade::raise(core, queues, to, RaiseReason::Supported(after), deadline).await {
        // The next look tries again.
        tracing::debug!(version = %to, "the upgrade to cluster version {to} is not finalized yet: {error}");
    }
}

/// The next version, if every member that the leader has heard from lately supports it, and there is no other member.
fn supported_by_all(status: &UpgradeStatus, leader: NodeId) -> Option<ClusterVersion> {
    let next = status.next?;
    let supports = |member: &MemberProgram| {
        let is_heard = member.id == leader || member.silent.is_some_and(|silent| silent <= SILENT_MAX);
        is_heard && member.program.as_ref().is_some_and(|program| program.supports.includes(next))
    };
    status.members.iter().all(supports).then_some(next)
}

/// Since when all members have supported the next version, under one leadership.
struct Countdown<I> {
    after: Duration,
    since: Option<(ClusterVersion, I)>,
}

impl<I: Instant> Countdown<I> {
    fn new(after: Duration) -> Countdown<I> {
        Countdown { after, since: None }
    }

    /// The version to finalize now, given the one that all members support now.
    fn due(&mut self, supported: Option<ClusterVersion>, now: I) -> Option<ClusterVersion> {
        let Some(version) = supported else {
            self.since = None;
            return None;
        };
        let since = match self.since {
            Some((same, since)) if same == version => since,
            Some(_) | None => now,
        };
        self.since = Some((version, since));
        (since + self.after <= now).then_some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::program::Program;
    use fairhold_types::SupportedVersions;
    use openraft_rt_tokio::TokioRuntime;

    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    const TWO: ClusterVersion = ClusterVersion(2);
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn all_members_must_support_the_version_for_the_whole_time() {
        let mut countdown = Countdown::new(MINUTE);
        let start = <Moment as Instant>::now();
        let mut due = |supported, secs| countdown.due(supported, start + Duration::from_secs(secs));
        assert_eq!([due(None, 0), due(Some(TWO), 10), due(Some(TWO), 69)], [None; 3]);
        assert_eq!([due(None, 69), due(Some(TWO), 70), due(Some(TWO), 129)], [None; 3], "a break: count again");
        assert_eq!(due(Some(TWO), 130), Some(TWO));
        assert_eq!(due(Some(TWO), 131), Some(TWO), "the first attempt may have failed");
        assert_eq!([due(Some(ClusterVersion(3)), 132), due(Some(ClusterVersion(3)), 191)], [None; 2]);
        assert_eq!(due(Some(ClusterVersion(3)), 192), Some(ClusterVersion(3)));
    }

    #[test]
    fn a_member_that_is_silent_unknown_or_older_does_not_support_the_version() {
        let program = |supports| Some(Program { version: Some("0.2.0".to_owned()), supports });
        let newer = || program(SupportedVersions(ClusterVersion(1), TWO));
        let silent = |secs| Some(Duration::from_secs(secs));
        let supported = |program, silent| {
            let leader = MemberProgram { id: 1, program: newer(), silent: None };
            let members = vec![leader, MemberProgram { id: 2, program, silent }];
            supported_by_all(&UpgradeStatus { version: ClusterVersion(1), next: Some(TWO), members, blockers: vec![] }, 1)
        };
        assert_eq!([supported(newer(), silent(0)), supported(newer(), silent(10))], [Some(TWO); 2]);
        assert_eq!([supported(newer(), silent(11)), supported(newer(), None)], [None; 2]);
        assert_eq!([supported(None, silent(0)), supported(program(SupportedVersions::UNTOLD), silent(0))], [None; 2]);
        let finished = UpgradeStatus { version: TWO, next: None, members: vec![], blockers: vec![] };
        assert_eq!(supported_by_all(&finished, 1), None);
    }
}
