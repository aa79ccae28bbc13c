//! Tips for errors on the command line that clap reports without advice.

use clap::{
    Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{error::Error as _, num::ParseIntError};

/// Internal commands, which users never mean.
const HIDDEN: [&str; 2] = ["lock-supervisor", "lock-exec"];
/// Commands that run a command.
const RUN_A_COMMAND: [&str; 3] = ["lock", "sem", "elect"];

/// Adds a tip to an error, if there is one. `words` is the command line, starting with the program's name.
pub(crate) fn with_tip(mut error: Error, words: &[String]) -> Error {
    remove_hidden(&mut error);
    if let Some(tip) = tip(&error, words) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// Removes hidden commands from clap's suggestions.
fn remove_hidden(error: &mut Error) {
    if let Some(ContextValue::Strings(similar)) = error.remove(ContextKind::SuggestedSubcommand) {
        let shown: Vec<String> = similar.into_iter().filter(|name| !HIDDEN.contains(&name.as_str())).collect();
        if !shown.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
        }
    }
}

fn tip(error: &Error, words: &[String]) -> Option<String> {
    let arguments = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.as_slice(),
        Some(ContextValue::String(name)) => std::slice::from_ref(name),
        Some(_) | None => &[],
    };
    let is_missing = |name: &str| arguments.iter().any(|argument| argument.starts_with(name));
    if error.source().is_some_and(|source| source.is::<ParseIntError>()) {
        Some("write a whole number".to_owned())
    } else if error.kind() == ErrorKind::MissingRequiredArgument && is_missing("<CMD>") {
        Some(with_double_dash(words))
    } else if error.kind() == ErrorKind::UnknownArgument && arguments.iter().any(|name| is_global(name)) {
        Some("write this option after the command, for example: fairhold locks ls -e http://n2:7171".to_owned())
    } else {
        None
    }
}

/// Whether this is an option of every command that calls a cluster, but not of the program itself.
fn is_global(argument: &str) -> bool {
    let name = argument.split(['=', ' ']).next().unwrap_or_default();
    ["-e", "--endpoint", "--timeout", "-o", "--output", "--auth-token-file", "--cluster-id", "-q", "-v"].contains(&name)
}

/// The command line with `--` after the name, if a command can follow there; otherwise an example.
fn with_double_dash(words: &[String]) -> String {
    let general = "write the command after --, for example: fairhold lock NAME -- echo hello".to_owned();
    let Some([command, name, rest @ ..]) = words.get(1..) else { return general };
    let is_plain = |word: &String| !word.starts_with('-');
    if !RUN_A_COMMAND.contains(&command.as_str()) || !is_plain(name) || !rest.first().is_some_and(is_plain) {
        return general;
    }
    format!("write the command after --, for example: fairhold {command} {name} -- {}", rest.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::Parser as _;

    fn complaint(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = Args::try_parse_from(&words).unwrap_err();
        with_tip(error, &words).to_string()
    }

    #[test]
    fn tips_explain_numbers_and_the_place_of_the_command() {
        for line in [
            "fairhold serve --state-bytes-max 1MB",
            "fairhold serve --id x",
            "fairhold serve --connections-max many",
            "fairhold locks fence deploy abc",
            "fairhold lock deploy --limit two -- true",
        ] {
            assert!(complaint(line).contains("tip: write a whole number"), "{line}: {}", complaint(line));
        }
        for line in ["fairhold lock deploy echo hi", "fairhold lock deploy --", "fairhold elect primary --value v"] {
            assert!(complaint(line).contains("tip: write the command after --"), "{line}: {}", complaint(line));
        }
        assert!(!complaint("fairhold locks show").contains("tip:"));
    }

    #[test]
    fn the_tip_is_the_corrected_command_line() {
        let message = complaint("fairhold lock nightly echo hello");
        assert!(message.contains("for example: fairhold lock nightly -- echo hello"), "{message}");
        let message = complaint("fairhold -e http://n2:7171 locks ls");
        assert!(message.contains("tip: write this option after the command"), "{message}");
    }

    #[test]
    fn hidden_commands_are_never_suggested() {
        let message = complaint("fairhold locsk");
        assert!(
            message.contains("'locks'") && !message.contains("lock-supervisor") && !message.contains("lock-exec"),
            "{message}"
        );
        assert!(!complaint("fairhold lock-super").contains("lock-supervisor"));
    }
}
