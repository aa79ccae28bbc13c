//! Tests of `find`.

use super::*;

fn found(text: &str) -> Vec<String> {
    let syntax = syn::parse_file(text).unwrap();
    in_text(Path::new("crates/x/src/a.rs"), Path::new("a.rs"), text, &syntax).into_iter().map(|mutant| mutant.identity).collect()
}

#[test]
fn each_kind_of_change_is_found() {
    assert_eq!(
        found("fn f(a: u64, b: u64) -> bool { g(); if a < b && !h(a.min(7)) { return true; } a == b }"),
        [
            "a.rs f: returns `true`",
            "a.rs f: returns `false`",
            "a.rs f: without `g();`",
            "a.rs f: `a < b && !h(a.min(7))` becomes `a < b || !h(a.min(7))`",
            "a.rs f: `a < b` becomes `a <= b`",
            "a.rs f: `!h(a.min(7))` becomes `h(a.min(7))`",
            "a.rs f: `a.min(7)` becomes `a.max(7)`",
            "a.rs f: `7` becomes `8`",
            "a.rs f: without `return true;`",
            "a.rs f: `true` becomes `false`",
            "a.rs f: `a == b` becomes `a != b`",
        ]
    );
}

#[test]
fn a_condition_that_binds_a_name_is_changed_in_its_other_parts_only() {
    assert_eq!(
        found("impl A { fn f(&self) { if self.is_open() && let Some(a) = g() && a > 1 { h(a) } } }"),
        [
            "a.rs A::f: does nothing",
            "a.rs A::f: `self.is_open()` becomes `!self.is_open()`",
            "a.rs A::f: `a > 1` becomes `a >= 1`",
            "a.rs A::f: `1` becomes `2`",
        ]
    );
}

#[test]
fn constants_and_test_code_are_not_changed() {
    let text = "
        const A: u64 = 1 + 2;
        const fn b() -> u64 { 3 }
        #[cfg(test)]
        mod tests { fn c() -> u64 { 4 } }
        #[test]
        fn d() { e(); }
        impl fmt::Debug for F { fn fmt(&self) { g(); } }
        fn h(i: [u8; 5]) -> J { match i { [6, ..] => k::<7>([l; 8]), _ => assert!(9 < 10) } }
    ";
    assert_eq!(found(text), Vec::<String>::new());
}

#[test]
fn the_same_change_twice_in_a_function_has_two_descriptions() {
    assert_eq!(found("fn f() -> A { g(1, 1) }"), ["a.rs f: `1` becomes `2`", "a.rs f: `1` becomes `2` (2)"]);
}

#[test]
fn a_long_change_is_described_in_one_short_line() {
    let long = format!("{}\n  {}", "a".repeat(100), "b".repeat(100));
    assert_eq!(shorten(&long), format!("{}…{}", "a".repeat(70), "b".repeat(70)));
}
