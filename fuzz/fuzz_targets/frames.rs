//! The libFuzzer target of `fairhold_fuzz::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fairhold_fuzz::frames::run(bytes));
