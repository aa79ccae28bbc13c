//! The libFuzzer target of `fairhold_fuzz::codec`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fairhold_fuzz::codec::run(bytes));
