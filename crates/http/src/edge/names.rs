//! Names of locks, as requests give them.

use crate::edge::problem::Problem;
use fairhold_types::LockName;

/// Parses a lock's name.
pub(crate) fn lock_name(text: &str) -> Result<LockName, Problem> {
    let name = LockName::parse(text).map_err(|error| Problem::bad_request(format!("the lock's name: {error}")))?;
    refuse_reserved(&name)?;
    Ok(name)
}

/// Refuses a name that the server uses for contenders.
pub(crate) fn refuse_reserved(name: &LockName) -> Result<(), Problem> {
    if name.is_reserved() {
        return Err(Problem::bad_request(
            "the lock's name: levels like 2-lock-0000000000 are reserved for the server: choose another name",
        ));
    }
    Ok(())
}
