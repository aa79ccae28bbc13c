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
    let is_about = |name: &str| arguments.iter().any(|argument| argument.starts_with(name));
    if error.source().is_some_and(|source| source.is::<ParseIntError>()) {
        Some("write a whole number".to_owned())
    } else if error.kind() == ErrorKind::MissingRequiredArgument && is_about("<CMD>") {
        Some(with_double_dash(words))
    } else if error.kind() == ErrorKind::MissingRequiredArgument && is_about("<ID>") && is_command(words, &["cluster"]) {
        Some("the number of the member is missing: `fairhold cluster members` shows the numbers".to_owned())
    } else if error.kind() == ErrorKind::UnknownArgument && is_about("--ttl") && is_command(words, &["cluster", "replace"]) {
        Some("its token is valid for an hour; for another time: fairhold cluster invite --replaces N --ttl 10m".to_owned())
    } else if error.kind() == ErrorKind::UnknownArgument
        && arguments.iter().any(|name| is_global(name))
        && words.get(1).is_some_and(|word| word.starts_with('-'))
    {
        Some("write this option after the command, for example: fairhold locks ls -e http://n2:7171".to_owned())
    } else {
        None
    }
}

/// Whether the command line begins with this command.
fn is_command(words: &[String], command: &[&str]) -> bool {
    let given = words.get(1..).unwrap_or_default();
    given.len() >= command.len() && given.iter().zip(command).all(|(word, name)| word == name)
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
    fn an_option_after_a_command_that_lacks_it_is_not_to_be_moved_there() {
        let message = complaint("fairhold doctor -q");
        assert!(message.contains("-q") && !message.contains("after the command"), "{message}");
    }

    #[test]
    fn a_missing_number_of_a_member_says_where_the_numbers_are() {
        for command in ["replace", "remove", "promote", "demote"] {
            let message = complaint(&format!("fairhold cluster {command}"));
            assert!(message.contains("tip: the number of the member is missing: `fairhold cluster members`"), "{message}");
            assert!(message.contains(&format!("Usage: fairhold cluster {command} [OPTIONS] <ID>")), "{message}");
        }
        let message = complaint("fairhold cluster replace 6 --ttl 5s");
        assert!(message.contains("fairhold cluster invite --replaces N --ttl 10m") && !message.contains("-- --ttl"), "{message}");
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
