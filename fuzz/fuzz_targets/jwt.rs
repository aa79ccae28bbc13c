//! The libFuzzer target of `fairhold_fuzz::jwt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fairhold_fuzz::jwt::run(bytes));
