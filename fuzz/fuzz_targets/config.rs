#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wavebed_fuzz_targets::config::run(data));
