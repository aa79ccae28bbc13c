//! Runs programs of the machine, and reports their errors.

use std::process::Command;

/// Runs a program. Returns its standard output, or why it failed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(format!("{program} {}: {why}", arguments.join(" ")))
    }
}

/// The same with the arguments in one text, separated by spaces.
pub(crate) fn run_line(line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    match words.split_first() {
        Some((program, arguments)) => run(program, arguments),
        None => Err("an empty command".to_owned()),
    }
}

/// Whether a process with that id exists.
pub(crate) fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/stat")).exists()
}
