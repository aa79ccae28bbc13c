//! How much a trial does: a short form for every run of the tests, a long one on request (`./fairhold trial NAME`).

use std::sync::LazyLock;

static LONG: LazyLock<bool> = LazyLock::new(|| std::env::var_os("FAIRHOLD_TRIAL").is_some_and(|form| form == "long"));

/// The size of a trial: `short` in every run of the tests, `long` where somebody asked for the long form.
pub(crate) fn size<T>(short: T, long: T) -> T {
    if *LONG { long } else { short }
}
