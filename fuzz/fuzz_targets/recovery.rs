//! The libFuzzer target of `fairhold_fuzz::recovery`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fairhold_fuzz::recovery::run(bytes));
