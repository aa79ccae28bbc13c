//! Cuts the power repeatedly: at the leader, and at all nodes at once.

use super::{ClientGroup, Ended, Setting, rhythm, sum::Sum};
use crate::{nemesis::Fault, run::NotRun, workload::Workload};

/// Cuts of one part: few enough that the history of all its operations stays small.
const CUTS: usize = 50;
const CLIENTS: u64 = 3;

pub(super) fn run(setting: &Setting, cuts: usize) -> Result<Ended, NotRun> {
    let workloads = vec![Workload::Registers, Workload::Watches, Workload::FencedMutex, Workload::FairOrder, Workload::Semaphore];
    let group = ClientGroup { nodes: 3, workloads, clients: CLIENTS, sleepers: 0 };
    let kinds = [Fault::PowerLoss, Fault::PowerLossAll];
    let done = |sum: &Sum, kind: &Fault| sum.alone.get(kind).map_or(0, |cover| cover.times);
    let (mut sum, mut written, mut read) = (Sum::default(), 0, 0);
    // A cut that was not possible at its time is made later.
    for part in 1..=2 * cuts.div_ceil(CUTS) {
        let left = cuts.saturating_sub(kinds.iter().map(|kind| done(&sum, kind)).sum());
        if left == 0 || kinds.iter().any(|kind| sum.cannot_do(*kind)) {
            break;
        }
        let rounds = (0..left.min(CUTS)).map(|cut| vec![kinds[cut % kinds.len()]]).collect();
        let made = sum.make(&setting.part(&format!("cuts-{part}"), &group, rounds, rhythm(100, 400)))?;
        if let Some(made) = made {
            written += made.history.ops.iter().filter(|op| op.is_ok() && op.call.writes_for_good()).count();
            read += made.history.found.len();
        }
    }
    let (one, all) = (done(&sum, &kinds[0]), done(&sum, &kinds[1]));
    if one + all < cuts {
        sum.add_missing(format!("the power was cut {} times, but {cuts} were requested", one + all));
    }
    let own = format!(
        "the power was cut {one} times at the leader, and {all} times at all nodes at once\n\
         {written} writes of nodes were acknowledged; when all was over {read} nodes were read (`durability`, `registers`)"
    );
    let command = format!("fairhold-jepsen power --cuts {cuts} --seed {}", setting.seed);
    Ok(sum.end(&command, &format!("{own}\n")))
}
