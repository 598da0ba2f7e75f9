//! Task files: arbitrary text through the reader, and what is good through a whole job.
#![no_main]

#[path = "../../crates/spec/tests/corpus/task.rs"]
mod task;

libfuzzer_sys::fuzz_target!(|data: &[u8]| task::drive(data));
