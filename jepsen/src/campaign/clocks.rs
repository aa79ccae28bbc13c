//! Clocks that run at a wrong rate, at a follower and at the leader, and their effect on leases.

use super::{ClientGroup, Ended, Setting, measure::Measured, rhythm, sum::Sum};
use crate::{
    nemesis::{FAST, Fault, NO_FAULT, SLOW},
    report,
    run::NotRun,
    workload::Workload,
};
use std::fmt::Write;

const CLIENTS: u64 = 4;
const FOLLOWERS: [Fault; 2] = [Fault::SlowFollowerClock, Fault::FastFollowerClock];
const LEADERS: [Fault; 2] = [Fault::SlowClock, Fault::FastClock];

pub(super) fn run(setting: &Setting, times: usize) -> Result<Ended, NotRun> {
    let workloads = vec![Workload::SessionExpiry, Workload::FencedMutex, Workload::OwnLock];
    let group = ClientGroup { nodes: 3, workloads, clients: CLIENTS, sleepers: 100 };
    let each: Vec<Vec<Fault>> =
        std::iter::once(vec![]).chain(FOLLOWERS.iter().chain(&LEADERS).map(|fault| vec![*fault])).collect();
    let rounds: Vec<Vec<Fault>> = each.iter().cycle().take(each.len() * times).cloned().collect();
    let mut sum = Sum::default();
    // Quiet for long enough that no lease was started by a wrong clock.
    let made = sum.make(&setting.part("clocks", &group, rounds, rhythm(8_000, 5_000)))?;
    let command = format!("fairhold-jepsen clocks --times {times} --seed {}", setting.seed);
    let Some(made) = made else { return Ok(sum.end(&command, "")) };
    let mut own = format!(
        "a fast clock runs {FAST} times as fast, a slow one {SLOW} times as slow; what expired lived for so many of its leases \
         after its last acknowledged renewal was sent\n{:<20} {:>5} {:>7} {:>9} {:>12} {:>7} {:>13} {:>8} {:>14}\n",
        "clock", "times", "sent", "ok", "acquire p50", "p99", "other leaders", "expired", "lived",
    );
    for name in std::iter::once(NO_FAULT).chain(FOLLOWERS.iter().chain(&LEADERS).map(|fault| fault.name())) {
        let measured = Measured::of(&made.history, name);
        let own_lock = Measured::of_ops(&made.history, name, |op| op.key.starts_with(Workload::OwnLock.name()));
        let per_mille = |life: Option<&u64>| life.map_or("-".to_owned(), |life| format!("{}.{:03}", life / 1_000, life % 1_000));
        let lived = format!("{} to {}", per_mille(measured.lives.first()), per_mille(measured.lives.last()));
        writeln!(
            own,
            "{name:<20} {:>5} {:>7} {:>9} {:>9} us {:>7} {:>13} {:>8} {lived:>14}",
            measured.times,
            measured.sent,
            measured.succeeded,
            own_lock.acquire(50),
            own_lock.acquire(99),
            measured.changes,
            measured.lives.len(),
        )
        .expect("writing to a String cannot fail");
        let is_follower = FOLLOWERS.iter().any(|fault| fault.name() == name);
        if is_follower && measured.changes > 0 {
            let what = format!("{name}: the leader changed {} times", measured.changes);
            // On a machine that is too slow, the clock is not the cause.
            match Measured::of(&made.history, NO_FAULT).changes {
                0 => sum.add_violation(what),
                quiet => sum.add_missing(format!("{what}, and {quiet} times without a fault")),
            }
        }
        if name == NO_FAULT && measured.lives.is_empty() {
            sum.add_missing("nothing expired without a fault".to_owned());
        }
    }
    writeln!(own, "\n{}", report::resource_line(&made.history)).expect("writing to a String cannot fail");
    Ok(sum.end(&command, &own))
}
