//! Tips for mistakes on the command line that clap reports without saying what to do.

use clap::{
    Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{error::Error as _, num::ParseIntError};

/// The same error with a tip, if there is one.
pub(crate) fn with_tip(mut error: Error) -> Error {
    if let Some(tip) = tip(&error) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

fn tip(error: &Error) -> Option<&'static str> {
    let arguments = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.as_slice(),
        Some(_) | None => &[],
    };
    if error.source().is_some_and(|source| source.is::<ParseIntError>()) {
        Some("write a whole number, without a unit")
    } else if error.kind() == ErrorKind::MissingRequiredArgument && arguments.iter().any(|name| name.starts_with("<CMD>")) {
        Some("write the command after --, as in: fairhold lock NAME -- echo hello")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::Parser as _;

    #[test]
    fn a_tip_says_how_to_write_a_number_and_where_the_command_goes() {
        let complaint = |line: &str| {
            let error = Args::try_parse_from(line.split(' ')).unwrap_err();
            with_tip(error).to_string()
        };
        for line in [
            "fairhold serve --state-bytes-max 1MB",
            "fairhold serve --id x",
            "fairhold serve --connections-max many",
            "fairhold locks fence deploy abc",
            "fairhold lock deploy --limit two -- true",
        ] {
            assert!(complaint(line).contains("tip: write a whole number, without a unit"), "{line}: {}", complaint(line));
        }
        for line in ["fairhold lock deploy echo hi", "fairhold lock deploy --", "fairhold elect primary --value v"] {
            assert!(complaint(line).contains("tip: write the command after --"), "{line}: {}", complaint(line));
        }
        assert!(!complaint("fairhold locks show").contains("tip:"));
    }
}
