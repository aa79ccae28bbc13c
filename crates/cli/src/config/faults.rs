//! The reasons why a configuration is invalid, collected, so that one look at it finds all of them.

use super::error::ConfigError;

/// The reasons that were found so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Those of the file itself.
    of_file: Vec<ConfigError>,
    /// Those of the values.
    of_values: Vec<ConfigError>,
}

impl Faults {
    /// With the reasons in the file.
    pub(super) fn of_file(of_file: Vec<ConfigError>) -> Faults {
        Faults { of_file, of_values: Vec::new() }
    }

    /// The value, or a reason more.
    pub(super) fn keep<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.of_values.push(error);
                None
            }
        }
    }

    /// The value, or a reason more and a default with which to look further.
    pub(super) fn or_default<T: Default>(&mut self, result: Result<T, ConfigError>) -> T {
        self.keep(result).unwrap_or_default()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.of_file.is_empty() && self.of_values.is_empty()
    }

    /// What was resolved, if there is no reason against it. A reason that may follow from one in the file is left out.
    pub(super) fn into_result<T>(self, resolved: Option<T>) -> Result<T, ConfigError> {
        let Faults { of_file: mut all, of_values } = self;
        let has_wrong_file = !all.is_empty();
        all.extend(of_values.into_iter().filter(|error| !(has_wrong_file && error.may_follow_from_the_file())));
        let single = if all.len() == 1 { all.pop() } else { None };
        match (single, resolved) {
            (Some(error), _) => Err(error),
            (None, Some(resolved)) if all.is_empty() => Ok(resolved),
            (None, _) => Err(ConfigError::Several(all)),
        }
    }
}
