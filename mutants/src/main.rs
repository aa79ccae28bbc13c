//! Small wrong changes to the product, one at a time: the tests should notice each of them.
//!
//! All changes of a crate ("mutants") are compiled into one copy, and the environment variable `FAIRHOLD_MUTANT`
//! switches one of them on. So a crate is compiled once, not once per mutant. `docs/internals/testing.md` says how to
//! use it.
//!
//! - `find`: the possible changes of a source file. `plant`: the copy with the changes. `compile`: its tests, without
//!   the changes that do not compile.
//! - `judge`: which tests notice a mutant. `survivors`: the mutants that no test notices, with reasons.

mod compile;
mod find;
mod judge;
mod plan;
mod plant;
mod survivors;

use clap::Parser;
use find::Mutant;
use judge::MutantVerdict;
use plan::Plan;
use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};
use survivors::Survivors;

/// Makes small wrong changes to the product, one at a time, and reports the changes that no test notices.
#[derive(Debug, Parser)]
#[command(name = "fairhold-mutants")]
struct MutantsArgs {
    /// The crates to change, without `fairhold-`
    #[arg(default_values_t = plan::names())]
    crates: Vec<String>,
    /// The number of mutants per crate, chosen by the hash of their description; 0: all
    #[arg(long, default_value_t = 100)]
    sample: usize,
    /// Only mutants with this text in their description
    #[arg(long, default_value = "")]
    only: String,
    /// The number of mutants that run in parallel
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// List the mutants, and run nothing
    #[arg(long)]
    list: bool,
    /// The checkout
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// The target folder of the checkout: compiled artifacts of other crates are copied from there
    #[arg(long, env = "CARGO_TARGET_DIR", default_value = "target")]
    target: PathBuf,
}

fn main() -> ExitCode {
    match run(&MutantsArgs::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            say(&format!("fairhold-mutants: {why}"));
            ExitCode::from(2)
        }
    }
}

/// Prints a line. Ignores a closed standard output.
fn say(line: &str) {
    writeln!(io::stdout(), "{line}").ok();
}

/// Returns whether all survivors are known, and all known survivors survive.
fn run(args: &MutantsArgs) -> Result<bool, String> {
    let root = fs::canonicalize(&args.root).map_err(|error| format!("{}: {error}", args.root.display()))?;
    let target = fs::canonicalize(&args.target).map_err(|error| format!("{}: {error}", args.target.display()))?;
    let mut is_fine = true;
    for name in &args.crates {
        let plan = plan::of(name).ok_or_else(|| format!("unknown crate: {name}. Known: {}", plan::names().join(", ")))?;
        let mutants = chosen(&root, plan, args)?;
        if args.list {
            mutants.iter().for_each(|mutant| say(&mutant.identity));
        } else {
            is_fine &= run_crate(&root, &target, plan, mutants, args)?;
        }
    }
    Ok(is_fine)
}

/// The mutants of a crate in this run, in source order.
fn chosen(root: &Path, plan: &Plan, args: &MutantsArgs) -> Result<Vec<Mutant>, String> {
    let mut mutants = find::in_crate(root, plan)?;
    mutants.retain(|mutant| mutant.identity.contains(&args.only));
    if args.sample > 0 && args.sample < mutants.len() {
        // By hash, so that the choice stays nearly the same when the source changes elsewhere.
        mutants.sort_by_cached_key(Mutant::hash);
        mutants.truncate(args.sample);
        mutants.sort_by(|one, other| one.order().cmp(&other.order()));
    }
    Ok(mutants)
}

fn run_crate(root: &Path, target: &Path, plan: &Plan, mutants: Vec<Mutant>, args: &MutantsArgs) -> Result<bool, String> {
    let known = Survivors::read(&root.join("mutants/survivors").join(format!("{}.txt", plan.name)))?;
    say(&format!("{}: {} mutants are planted; the tests are compiled", plan.name, mutants.len()));
    let compiled = compile::tests(root, target, plan, &mutants)?;
    let alive: Vec<usize> = (0..mutants.len()).filter(|number| !compiled.refused.contains(number)).collect();
    say(&format!("{}: {} mutants do not compile and are left out", plan.name, compiled.refused.len()));
    let verdicts = judge::all(&compiled, plan, &alive, args.jobs, |number, verdict| {
        say(&match verdict {
            MutantVerdict::Killed(by) => format!("killed: {} — by {by}", mutants[number].identity),
            MutantVerdict::Survived => format!("SURVIVED: {}", mutants[number].identity),
        });
    })?;
    let survived: Vec<&str> = verdicts
        .iter()
        .filter(|(_, verdict)| *verdict == MutantVerdict::Survived)
        .map(|(number, _)| &*mutants[*number].identity)
        .collect();
    let killed: Vec<&str> = verdicts
        .iter()
        .filter(|(_, verdict)| *verdict != MutantVerdict::Survived)
        .map(|(number, _)| &*mutants[*number].identity)
        .collect();
    let percent = 100 * killed.len() / verdicts.len().max(1);
    let complaints = known.complaints(&survived, &killed);
    say(&format!(
        "{}: {} mutants ran: {} killed ({percent} %), {} survived, of which {} are known",
        plan.name,
        verdicts.len(),
        killed.len(),
        survived.len(),
        survived.iter().filter(|identity| known.has(identity)).count()
    ));
    complaints.iter().for_each(|complaint| say(complaint));
    Ok(complaints.is_empty())
}
