//! Compiles the tests of the changed copy, and drops the mutants that do not compile.

use crate::{
    find::Mutant,
    plan::Plan,
    plant::{self, Planted},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// An error may hide another one, so several attempts may be needed.
const ATTEMPTS_MAX: usize = 30;

/// A test program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Package and target.
    pub(crate) name: String,
    /// The program.
    pub(crate) path: PathBuf,
    /// The working folder of its tests: the folder of its package.
    pub(crate) folder: PathBuf,
}

/// Test programs that contain mutants.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The programs.
    pub(crate) programs: Vec<Program>,
    /// The mutants that do not compile.
    pub(crate) refused: BTreeSet<usize>,
}

/// Compiles the tests that judge the mutants of a crate.
///
/// # Errors
/// The copy does not compile, and no mutant is the cause.
pub(crate) fn tests(root: &Path, target: &Path, plan: &Plan, mutants: &[Mutant]) -> Result<Compiled, String> {
    let folder = target.join("mutants");
    let (copy, own_target) = (folder.join("checkout"), folder.join("target"));
    take_compiled(target, &own_target)?;
    let mut refused = BTreeSet::new();
    for _ in 0..ATTEMPTS_MAX {
        let left: Vec<(usize, &Mutant)> = mutants.iter().enumerate().filter(|(number, _)| !refused.contains(number)).collect();
        let planted = plant::copy(root, &copy, plan, &left)?;
        let (programs, errors) = build(&copy, &own_target, plan)?;
        if errors.is_empty() {
            return Ok(Compiled { programs, refused });
        }
        for error in errors {
            let guilty = error.guilty(&planted);
            if guilty.is_empty() {
                return Err(format!("the copy in {} does not compile:\n{}", copy.display(), error.rendered));
            }
            refused.extend(guilty);
        }
    }
    Err(format!("after {ATTEMPTS_MAX} attempts there are still mutants that do not compile"))
}

/// Copies the compiled artifacts of other crates, above all RocksDB. The copy compiles into its own folder.
fn take_compiled(target: &Path, own: &Path) -> Result<(), String> {
    if own.exists() {
        return Ok(());
    }
    let script = r#"for part in build deps .fingerprint; do
        from=$1/release/$part into=$2.new/release/$part
        [ -d "$from" ] || continue
        mkdir -p "$into" || exit
        find "$from" -mindepth 1 -maxdepth 1 -not -name '*fairhold*' -exec cp -a --reflink=auto -t "$into" {} + || exit
    done && mv "$2.new" "$2""#;
    let status = Command::new("sh").args(["-c", script, "sh"]).arg(target).arg(own).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("copying {} failed: {status}", target.display())),
        Err(error) => Err(format!("sh: {error}")),
    }
}

/// An error of the compiler.
#[derive(Debug)]
struct CompileError {
    /// Its place: file and bytes.
    spans: Vec<(PathBuf, Range<usize>)>,
    rendered: String,
}

impl CompileError {
    fn read(message: &Value) -> Option<CompileError> {
        if message["level"] != "error" {
            return None;
        }
        let spans = message["spans"].as_array()?.iter().filter_map(|span| {
            let at = |key: &str| usize::try_from(span[key].as_u64()?).ok();
            Some((PathBuf::from(span["file_name"].as_str()?), at("byte_start")?..at("byte_end")?))
        });
        Some(CompileError { spans: spans.collect(), rendered: message["rendered"].as_str().unwrap_or_default().to_owned() })
    }

    /// The mutants that may cause it: those whose own text contains it, otherwise those at its place, otherwise those
    /// in its function.
    fn guilty(&self, planted: &[Planted]) -> Vec<usize> {
        let meets = |of: fn(&Planted) -> &Range<usize>| -> Vec<usize> {
            let is_there = |planted: &&Planted| {
                let range = of(planted);
                self.spans.iter().any(|(file, span)| *file == planted.file && span.start < range.end && range.start < span.end)
            };
            planted.iter().filter(is_there).map(|planted| planted.number).collect()
        };
        let ways: [fn(&Planted) -> &Range<usize>; 3] =
            [|planted| &planted.own, |planted| &planted.place, |planted| &planted.function];
        ways.into_iter().map(meets).find(|guilty| !guilty.is_empty()).unwrap_or_default()
    }
}

fn build(copy: &Path, target: &Path, plan: &Plan) -> Result<(Vec<Program>, Vec<CompileError>), String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--release", "--locked", "--no-run", "--lib", "--tests", "--message-format=json"]);
    // With fairhold-state, other crates have the features of the workspace, so they are not compiled again.
    command.args(["-p", "fairhold-state"]);
    for judge in plan.judges.iter().filter(|judge| **judge != "state") {
        command.args(["-p", &format!("fairhold-{judge}")]);
    }
    command.current_dir(copy).env("CARGO_TARGET_DIR", target).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let (mut programs, mut errors) = (Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        if message["reason"] == "compiler-message" {
            errors.extend(CompileError::read(&message["message"]));
        }
        programs.extend(program(&message, plan));
    }
    // The last error only counts the others.
    errors.retain(|error| !error.spans.is_empty());
    if !output.status.success() && errors.is_empty() {
        return Err(format!(
            "cargo failed without an error that names a place; run it by hand in {}: {command:?}",
            copy.display()
        ));
    }
    Ok((programs, errors))
}

fn program(message: &Value, plan: &Plan) -> Option<Program> {
    let path = PathBuf::from(message["executable"].as_str()?);
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_str()?.to_owned();
    let name = format!("{package}/{}", message["target"]["name"].as_str()?);
    plan.judges.contains(&&*package).then_some(Program { name, path, folder })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_belongs_to_the_innermost_mutant_around_it() {
        let planted = |number, own, place| Planted { number, file: PathBuf::from("a.rs"), own, place, function: 0..100 };
        let all = [planted(0, 10..20, 5..50), planted(1, 30..35, 25..45)];
        let error = |from: u64, to: u64, file: &str| {
            let spans = json!([{ "file_name": file, "byte_start": from, "byte_end": to }]);
            CompileError::read(&json!({ "level": "error", "rendered": "", "spans": spans })).unwrap().guilty(&all)
        };
        assert_eq!(error(12, 13, "a.rs"), [0]);
        assert_eq!(error(32, 33, "a.rs"), [1]);
        assert_eq!(error(6, 8, "a.rs"), [0]);
        assert_eq!(error(60, 70, "a.rs"), [0, 1]);
        assert_eq!(error(12, 13, "b.rs"), Vec::<usize>::new());
    }
}
