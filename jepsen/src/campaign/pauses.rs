//! Holders pause for longer than their lease, and write afterwards: the external resource must refuse them.

use super::{ClientGroup, Ended, Setting, rhythm, sum::Sum};
use crate::{
    history::{Call, History},
    nemesis::Fault,
    run::NotRun,
    workload::Workload,
};
use std::collections::HashMap;

/// How many of a thousand holders pause.
const SLEEPERS: u32 = 300;
/// The number of clients for ten locks.
const CLIENTS: u64 = 30;
const PARTS_MAX: usize = 12;

/// What holders did after a pause longer than their lease.
#[derive(Debug, Clone, Copy, Default)]
struct Late {
    pauses: usize,
    refused: usize,
    /// No newer holder had written since.
    still_newest: usize,
    /// A newer holder had written: this must not happen.
    stale: usize,
    unfenced_lost: u64,
    /// Writes in the cluster with an old token.
    in_cluster: usize,
    in_cluster_refused: usize,
}

pub(super) fn run(setting: &Setting, pauses: usize) -> Result<Ended, NotRun> {
    let group = ClientGroup { nodes: 3, workloads: vec![Workload::FencedMutex], clients: CLIENTS, sleepers: SLEEPERS };
    let faults = [Fault::KillLeader, Fault::CutLeader, Fault::PauseLeader, Fault::OneWayOut];
    let (mut sum, mut late) = (Sum::default(), Late::default());
    for part in 1..=PARTS_MAX {
        if late.pauses >= pauses {
            break;
        }
        let rounds = faults.iter().flat_map(|fault| [vec![], vec![*fault]]).collect();
        if let Some(made) = sum.make(&setting.part(&format!("pauses-{part}"), &group, rounds, rhythm(4_000, 500)))? {
            count(&made.history, &mut late);
        }
    }
    if late.pauses < pauses {
        sum.add_missing(format!("there were {} pauses, but {pauses} were requested", late.pauses));
    }
    if late.unfenced_lost == 0 {
        sum.add_missing(
            "nothing was lost without a comparison of tokens, so nothing shows that there was something to lose".to_owned(),
        );
    }
    if late.stale > 0 {
        sum.add_violation(format!("{} writes with an old token were accepted", late.stale));
    }
    let own = format!(
        "{} writes after a pause of 2,600 ms with a lease of 2,000 ms: {} refused for an old token, {} let in because nobody had \
         come since, {} let in with an old token\n\
         the same writes where no token is compared: {} were lost\n\
         {} such writes to the cluster's own nodes: {} refused\n",
        late.pauses, late.refused, late.still_newest, late.stale, late.unfenced_lost, late.in_cluster, late.in_cluster_refused,
    );
    Ok(sum.end(&format!("fairhold-jepsen pauses --pauses {pauses} --seed {}", setting.seed), &own))
}

fn count(history: &History, late: &mut Late) {
    let mut newest: HashMap<&str, u64> = HashMap::new();
    for write in &history.resource {
        let known = newest.entry(&write.key).or_default();
        if !write.believed {
            late.pauses += 1;
            match (write.accepted, write.token < *known) {
                (true, true) => late.stale += 1,
                (true, false) => late.still_newest += 1,
                (false, _) => late.refused += 1,
            }
        }
        *known = (*known).max(write.token);
    }
    late.unfenced_lost += history.lost_without_fence;
    let mut good_until: HashMap<usize, u64> = HashMap::new();
    for op in &history.ops {
        let Some(grant) = op.grant else { continue };
        if matches!(op.call, Call::Acquire | Call::Renew) && op.is_ok() {
            good_until.insert(grant, op.start + op.ttl.unwrap_or(0));
        } else if op.call == Call::FencedWrite && good_until.get(&grant).is_some_and(|until| op.start >= *until) {
            late.in_cluster += 1;
            late.in_cluster_refused += usize::from(op.error.as_deref().is_some_and(|error| error.starts_with("412")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::Planted;

    #[test]
    fn a_late_write_is_refused_or_the_newest_or_wrong() {
        let planted = Planted::new().resource(5, 0, 1, true, true).resource(5, 1, 2, true, false).resource(8, 2, 3, true, true);
        let history = planted.resource(5, 3, 4, false, false).resource(5, 3, 4, true, false).done();
        let mut late = Late::default();
        count(&history, &mut late);
        assert_eq!((late.pauses, late.still_newest, late.refused, late.stale), (3, 1, 1, 1));
    }
}
