//! The libFuzzer target of `fairhold_fuzz::machine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fairhold_fuzz::machine::run(bytes));
