//! Every fault, alone and in pairs, under every workload, with three nodes and with five.

use super::{ClientGroup, Ended, Setting, rhythm, sum::Sum};
use crate::{
    nemesis::{Class, FAULTS, Fault},
    report::{COVER_HEAD, cover_row},
    run::NotRun,
    workload::Workload,
};
use clap::ValueEnum;
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};
use std::{
    collections::BTreeSet,
    fmt::{self, Write},
};

/// Rounds of one part: few enough that the history of all its operations stays small.
const ROUNDS: usize = 15;
/// The maximum number of parts, however few operations they had.
const PARTS_MAX: usize = 120;
/// One in this many parts of pairs has five nodes.
const FIVE_NODES_EVERY: usize = 3;

pub(super) fn run(setting: &Setting, operations: usize, clients: u64) -> Result<Ended, NotRun> {
    // Campaigns have no access rights.
    let workloads: Vec<Workload> = Workload::value_variants().iter().copied().filter(|one| !one.needs_rights()).collect();
    let group = |nodes: usize| ClientGroup { nodes, workloads: workloads.clone(), clients, sleepers: crate::SLEEPERS };
    let mut sum = Sum::default();
    for (nodes, alone) in [3, 5].into_iter().flat_map(|nodes| FAULTS.chunks(ROUNDS).map(move |alone| (nodes, alone))) {
        let name = format!("alone-{}", sum.parts_made() + 1);
        let rounds = alone.iter().map(|fault| vec![*fault]).collect();
        sum.make(&setting.part(&name, &group(nodes), rounds, rhythm(3_000, 2_000)))?;
    }
    let mut pairs = pairs(&sum, setting.seed).into_iter();
    for part in 0..PARTS_MAX {
        let mut rounds: Vec<Vec<Fault>> = pairs.by_ref().take(ROUNDS).map(|(one, other)| vec![one, other]).collect();
        // Once an upgrade is finished, there is no way back to the older program.
        rounds.sort_by_key(|round| !round.iter().any(|fault| fault.changes_program()));
        if rounds.is_empty() || (sum.totals.operations >= operations && sum.class_pairs().len() == CLASS_PAIRS) {
            break;
        }
        let nodes = if part % FIVE_NODES_EVERY == FIVE_NODES_EVERY - 1 { 5 } else { 3 };
        let name = format!("pairs-{}", part + 1);
        sum.make(&setting.part(&name, &group(nodes), rounds, rhythm(2_500, 2_000)))?;
    }
    if sum.totals.operations < operations {
        sum.add_missing(format!("{} operations were checked, but {operations} were requested", sum.totals.operations));
    }
    for fault in FAULTS.iter().filter(|fault| !sum.cannot_do(**fault) && !sum.alone.contains_key(*fault)).collect::<Vec<_>>() {
        sum.add_missing(format!("{} never took effect alone", fault.name()));
    }
    let mut own = String::new();
    write(&sum, &mut own).expect("writing to a String cannot fail");
    let command = format!("fairhold-jepsen faults --operations {operations} --clients {clients} --seed {}", setting.seed);
    Ok(sum.end(&command, &own))
}

/// Pairs of different classes, of which there are six.
const CLASS_PAIRS: usize = 15;

/// All pairs of faults of different classes that this machine can do, shuffled.
fn pairs(sum: &Sum, seed: u64) -> Vec<(Fault, Fault)> {
    let able: Vec<Fault> = FAULTS.iter().copied().filter(|fault| !sum.cannot_do(*fault)).collect();
    let all = able.iter().enumerate().flat_map(|(index, one)| able[index + 1..].iter().map(move |other| (*one, *other)));
    let mut pairs: Vec<(Fault, Fault)> = all.filter(|(one, other)| one.class() != other.class()).collect();
    pairs.shuffle(&mut SmallRng::seed_from_u64(seed));
    pairs
}

impl Sum {
    fn class_pairs(&self) -> BTreeSet<(Class, Class)> {
        self.pairs.keys().map(|(a, b)| (a.class().min(b.class()), a.class().max(b.class()))).collect()
    }
}

fn write(sum: &Sum, out: &mut String) -> fmt::Result {
    writeln!(out, "{:<20} {COVER_HEAD}  in pairs", "alone")?;
    for (fault, cover) in &sum.alone {
        let paired: usize = sum.pairs.iter().filter(|((a, b), _)| a == fault || b == fault).map(|(_, times)| times).sum();
        writeln!(out, "{} {paired:>9}", cover_row(cover))?;
    }
    let (kinds, pairs, classes) = (sum.alone.len(), sum.pairs.len(), sum.class_pairs().len());
    writeln!(
        out,
        "\n{kinds} faults alone; {pairs} different pairs of faults, of {classes} of the {CLASS_PAIRS} pairs of classes\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pairs_of_different_classes_occur_once() {
        let pairs = pairs(&Sum::default(), 1);
        let distinct: BTreeSet<_> = pairs.iter().map(|(a, b)| (*a.min(b), *a.max(b))).collect();
        assert_eq!(distinct.len(), pairs.len());
        let classes: BTreeSet<_> = distinct.iter().map(|(a, b)| (a.class(), b.class())).collect();
        assert_eq!(classes.len(), CLASS_PAIRS);
    }
}
