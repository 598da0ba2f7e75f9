//! Conditions and templates: arbitrary expressions over arbitrary inputs and outputs.
#![no_main]

#[path = "../../crates/spec/tests/corpus/template.rs"]
mod template;

libfuzzer_sys::fuzz_target!(|data: &[u8]| template::drive(data));
