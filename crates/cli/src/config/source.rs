//! Where a value comes from, if not from the file.

use std::env;

/// The source of a value that a flag or an environment variable gives. Both count before the file.
pub(crate) fn outside_the_file(name: &str, typed: &[String]) -> Option<String> {
    let flag = format!("--{name}");
    if typed.iter().any(|word| *word == flag || word.starts_with(&format!("{flag}="))) {
        return Some(format!("flag {flag}"));
    }
    let variable = format!("FAIRHOLD_{}", name.replace('-', "_").to_uppercase());
    env::var_os(&variable).map(|_| format!("environment {variable}"))
}
