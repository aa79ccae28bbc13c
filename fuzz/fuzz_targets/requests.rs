//! The libFuzzer target of `fairhold_fuzz::requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fairhold_fuzz::requests::run(bytes));
