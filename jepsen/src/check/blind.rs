//! A checker without input proves nothing. Each workload names its checkers, and how much each must have checked: less
//! than a run of six seconds with a fault gives on a machine with ten times the load.

use super::Check;
use crate::workload::Workload;

/// For checkers that get input from every use of a lock.
const MUCH: usize = 5;
/// For checkers that get input from only some operations.
const SOME: usize = 2;

/// The name of a checker, and how much it must have checked.
type RequiredChecks = (&'static str, usize);

/// For every workload.
const ALL: &[RequiredChecks] = &[("order", MUCH), ("watches", MUCH)];
/// For locks that clients hold with their own lease.
const HOLDS: &[RequiredChecks] = &[("exclusion", MUCH), ("locks, without revisions", MUCH)];
/// For locks with waiters.
const LINE: &[RequiredChecks] = &[("fair order", 1)];
/// For writes under a fence, with the token of a lock.
const FENCED: &[RequiredChecks] = &[("fences", SOME), ("durability", SOME)];

/// For users whose rights change.
const RIGHTS: &[RequiredChecks] = &[("rights", MUCH), ("watchers' rights", 1), ("refusals", MUCH)];

/// How much each checker must have checked, by its name.
fn required_checks(workload: Workload) -> impl Iterator<Item = RequiredChecks> {
    let own: &[&[RequiredChecks]] = match workload {
        Workload::Mutex | Workload::RwLock | Workload::Semaphore | Workload::Election => &[HOLDS, LINE],
        Workload::FairOrder => &[HOLDS, &[("fair order", MUCH)]],
        Workload::TryLock | Workload::OwnLock => &[HOLDS],
        Workload::FencedMutex => &[HOLDS, LINE, FENCED, &[("fencing", MUCH)]],
        Workload::Convert => &[HOLDS, FENCED],
        Workload::Txn => &[HOLDS, &[("transactions", MUCH), ("fences", SOME), ("registers, without revisions", SOME)]],
        Workload::Batch => &[&[("exclusion", MUCH), ("batches", MUCH)]],
        Workload::Administer => &[FENCED, &[("exclusion", MUCH), ("administration", SOME)]],
        Workload::AccessChange => &[HOLDS, FENCED, RIGHTS, &[("registers, without revisions", MUCH)]],
        Workload::SessionExpiry => &[&[("exclusion", SOME), ("leases", 1), ("ends", 1), ("sessions' nodes", 1)]],
        Workload::Registers => &[&[("durability", MUCH), ("registers, without revisions", MUCH)]],
        Workload::Watches => &[&[("durability", MUCH)]],
    };
    ALL.iter().chain(own.iter().copied().flatten()).copied()
}

/// The complaints about checkers that checked too little of a workload, one sentence each.
pub(crate) fn blind(workloads: &[Workload], checks: &[Check]) -> Vec<String> {
    let mut missing = Vec::new();
    for workload in workloads {
        for (name, least) in required_checks(*workload) {
            let seen = checks.iter().find(|check| check.name == name).map_or(0, |check| check.checked_of(*workload));
            if seen < least {
                missing.push(format!(
                    "the checker `{name}` checked {seen} things of {}, but at least {least} are required: run longer \
                     (--seconds), or with more clients (--clients)",
                    workload.name(),
                ));
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{
        all,
        plant::{Planted, op},
    };
    use crate::history::{Call, History};
    use clap::ValueEnum;

    #[test]
    fn a_checker_without_input_is_reported_with_its_workload_and_advice() {
        let missing = blind(&[Workload::SessionExpiry], &all(&History::default()));
        assert_eq!(missing.len(), required_checks(Workload::SessionExpiry).count());
        let leases = missing.iter().find(|lack| lack.contains("`leases`")).unwrap();
        assert!(leases.contains("session-expiry") && leases.contains("--seconds") && leases.contains("--clients"), "{leases}");
    }

    #[test]
    fn checks_of_one_workload_do_not_count_for_another() {
        let write = |number: u64| op(Call::Write, "chaos/registers-0-0").with(|op| op.version = i64::try_from(number).ok());
        let history = (0..10).fold(Planted::new(), |planted, number| planted.op(write(number))).done();
        let names = |workload| {
            let missing = blind(&[workload], &all(&history));
            missing.iter().filter(|lack| lack.contains("`durability`")).count()
        };
        assert_eq!((names(Workload::Registers), names(Workload::Watches)), (0, 1));
    }

    #[test]
    fn every_checker_is_required_by_a_workload_and_every_name_exists() {
        let checks = all(&History::default());
        let wanted: Vec<&str> =
            Workload::value_variants().iter().flat_map(|workload| required_checks(*workload)).map(|(name, _)| name).collect();
        for name in &wanted {
            assert!(checks.iter().any(|check| check.name == *name), "there is no checker {name}");
        }
        for check in &checks {
            assert!(wanted.contains(&check.name), "no workload wants {}", check.name);
        }
    }
}
