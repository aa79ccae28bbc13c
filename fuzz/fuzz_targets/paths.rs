//! The libFuzzer target of `fairhold_fuzz::paths`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fairhold_fuzz::paths::run(bytes));
