//! The leader's disk is slow, or hangs; and one slow follower alternates with none.

use super::{
    ClientGroup, Ended, Setting,
    measure::{Measured, range},
    rhythm,
    sum::Sum,
};
use crate::{
    history::{History, Op},
    nemesis::{Fault, NO_FAULT},
    run::NotRun,
    workload::Workload,
};
use std::fmt::Write;

const CLIENTS: u64 = 8;
/// How many times more turns are taken if tails are compared.
const TURNS: usize = 5;
/// The maximum by which a slow follower may change the p99 of an acquire, in percent.
const CHANGE_MAX: u64 = 20;

pub(super) fn run(setting: &Setting, times: usize, seconds: u64) -> Result<Ended, NotRun> {
    let group = ClientGroup { nodes: 3, workloads: vec![Workload::OwnLock], clients: CLIENTS, sleepers: 0 };
    let mut sum = Sum::default();
    let mut own = String::new();
    let turns = |faults: &[Fault], times: usize| -> Vec<Vec<Fault>> {
        (0..times).flat_map(|_| std::iter::once(vec![]).chain(faults.iter().map(|fault| vec![*fault]))).collect()
    };
    let rounds = turns(&[Fault::SlowSync, Fault::HungDisk], times);
    if let Some(made) = sum.make(&setting.part("leader", &group, rounds, rhythm(seconds * 1_000, 2_000)))? {
        for name in [NO_FAULT, Fault::SlowSync.name(), Fault::HungDisk.name()] {
            row(&made.history, name, &mut own);
        }
    }
    own.push('\n');
    let rounds = turns(&[Fault::SlowFollowerSync], times * TURNS);
    if let Some(made) = sum.make(&setting.part("follower", &group, rounds, rhythm(3_000, 500)))? {
        let (none, slow) = (NO_FAULT, Fault::SlowFollowerSync.name());
        row(&made.history, none, &mut own);
        row(&made.history, slow, &mut own);
        let (before, after) = (Measured::of(&made.history, none), Measured::of(&made.history, slow));
        let (before, after) = (before.acquire(99), after.acquire(99));
        writeln!(own, "p99 of acquire with a slow follower: {} % of that without one", after * 100 / before.max(1))
            .expect("writing to a String cannot fail");
        if after * 100 > before * (100 + CHANGE_MAX) {
            // A busy machine has the same effect.
            sum.add_missing(format!("one slow follower changes the p99 of an acquire from {before} to {after} us"));
        }
    }
    Ok(sum.end(&format!("fairhold-jepsen disks --times {times} --seconds {seconds} --seed {}", setting.seed), &own))
}

fn row(history: &History, name: &str, out: &mut String) {
    let measured = Measured::of(history, name);
    let elsewhere = Measured::of_ops(history, name, |op| !at_sick_node(history, op));
    writeln!(
        out,
        "{name}: {} times, {} operations, {} ok, {} unknown; acquire p50 {} us, p99 {} us (at the other nodes {} and {} us); \
         longest gap {}; another leads after {} ({} of {} times); clients received {}",
        measured.times,
        measured.sent,
        measured.succeeded,
        measured.unknown,
        measured.acquire(50),
        measured.acquire(99),
        elsewhere.acquire(50),
        elsewhere.acquire(99),
        range(&measured.gaps),
        range(&measured.next_leader),
        measured.next_leader.len(),
        measured.times,
        measured.frequent_errors(),
    )
    .expect("writing to a String cannot fail");
}

/// Whether an operation was sent to a node with a fault at that time.
fn at_sick_node(history: &History, op: &Op) -> bool {
    let node = format!("node {}", op.node);
    history.faults.iter().any(|span| span.detail == node && (span.start..=span.end).contains(&op.start))
}
