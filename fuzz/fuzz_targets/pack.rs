//! Artifacts: arbitrary manifests and packs through the reader, and what is good into a folder that nothing may leave.
#![no_main]

#[path = "../../crates/pack/tests/corpus/pack.rs"]
mod pack_input;

libfuzzer_sys::fuzz_target!(|data: &[u8]| pack_input::drive(data));
