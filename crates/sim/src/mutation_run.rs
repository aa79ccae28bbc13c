//! Plants each bug in turn, and reports the first seed that finds it. An oracle that finds no bug proves nothing.

use crate::{plan::ScenarioPlan, scenario};
use fairhold_types::planted::{self, Bug};
use std::io::{self, Write};

/// Looks for the bug of that name, or for all bugs, with these seeds. Returns whether each was found.
pub(crate) fn run(wanted: &str, seeds: (u64, u64), out: &mut impl Write) -> io::Result<bool> {
    let bugs: Vec<Bug> = Bug::ALL.into_iter().filter(|bug| wanted == "all" || wanted == format!("{bug:?}")).collect();
    let mut found = 0;
    for bug in &bugs {
        planted::plant(Some(*bug));
        let finds =
            |seed| scenario::run(&ScenarioPlan::of(seed), false).violations.into_iter().next().map(|violation| (seed, violation));
        let first = (seeds.0..seeds.1).find_map(finds);
        planted::plant(None);
        match first {
            Some((seed, violation)) => {
                found += 1;
                writeln!(out, "bug {bug:?} found by seed {seed}: {}", violation.chars().take(160).collect::<String>())?;
            }
            None => writeln!(out, "bug {bug:?} NOT FOUND by seeds {}..{}", seeds.0, seeds.1)?,
        }
        out.flush()?;
    }
    writeln!(out, "planted bugs found {found} of {}", bugs.len())?;
    Ok(found == bugs.len() && found > 0)
}
