//! Named places where a test can make the product fail at exactly that step: with an error, a crash, or a delay.
//!
//! A product build has none: without the feature `failpoints` the macro `failpoint!` is `Ok(())`, and none of this module is
//! compiled. With the feature, a process reads its failures from the environment once, at its start:
//!
//! ```text
//! FAIRHOLD_FAILPOINTS='storage.file.rename=crash;raft.append.answer=delay:200ms;storage.log.write=error@3'
//! ```
//!
//! `@3` means only the third time; without it, every time. The simulator installs its own judge instead, which decides by machine
//! and time. `docs/internals/failpoints.md` lists all failpoints.

mod point;

pub use point::{Point, Reached};

/// The expansion of `failpoint!` in a product build.
#[inline]
pub const fn off() -> std::io::Result<()> {
    Ok(())
}

/// A failpoint: `failpoint!(RaftApplyBegin, RT)?` in a task, where a delay uses the runtime's clock, and
/// `failpoint!(StorageLogWrite)?` elsewhere. It is `Err` for a failure, and does not return for a crash.
#[cfg(not(feature = "failpoints"))]
#[macro_export]
macro_rules! failpoint {
    ($point:ident) => {
        $crate::failpoint::off()
    };
    ($point:ident, $runtime:ty) => {
        $crate::failpoint::off()
    };
}

/// A failpoint: `failpoint!(RaftApplyBegin, RT)?` in a task, where a delay uses the runtime's clock, and
/// `failpoint!(StorageLogWrite)?` elsewhere. It is `Err` for a failure, and does not return for a crash.
#[cfg(feature = "failpoints")]
#[macro_export]
macro_rules! failpoint {
    ($point:ident) => {
        $crate::failpoint::hit($crate::failpoint::Point::$point)
    };
    ($point:ident, $runtime:ty) => {
        match $crate::failpoint::reach($crate::failpoint::Point::$point, false) {
            $crate::failpoint::Reached::Nothing => Ok(()),
            $crate::failpoint::Reached::Error => Err($crate::failpoint::error($crate::failpoint::Point::$point)),
            $crate::failpoint::Reached::Delay(delay) => {
                <$runtime>::sleep(delay).await;
                Ok(())
            }
        }
    };
}

#[cfg(feature = "failpoints")]
mod armed;
#[cfg(feature = "failpoints")]
pub use armed::{Action, Armed, Judge, error, hit, parse, reach, set_judge};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PAGE: &str = include_str!("../../../docs/internals/failpoints.md");

    #[test]
    fn the_page_of_failpoints_is_complete() {
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let rows: Vec<&str> = rows.collect();
        let names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(rows, names);
    }

    #[test]
    fn names_are_unique_and_say_where_they_are() {
        let names: BTreeSet<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), Point::ALL.len());
        for name in names {
            let parts: Vec<&str> = name.split('.').collect();
            assert!(parts.len() == 3 && ["storage", "raft", "node"].contains(&parts[0]), "{name}");
        }
    }

    #[test]
    fn a_product_build_has_no_failpoints() {
        if !cfg!(feature = "failpoints") {
            assert!(failpoint!(StorageLogWrite).is_ok());
        }
    }
}
