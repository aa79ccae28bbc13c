//! The size of a trial: a short form for every test run, a long form on request (`./fairhold trial NAME`).

use std::sync::LazyLock;

static LONG: LazyLock<bool> = LazyLock::new(|| std::env::var_os("FAIRHOLD_TRIAL").is_some_and(|form| form == "long"));

/// The size of a trial: `short` in every test run, `long` if the long form was requested.
pub(crate) fn size<T>(short: T, long: T) -> T {
    if *LONG { long } else { short }
}
