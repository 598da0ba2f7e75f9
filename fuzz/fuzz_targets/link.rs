//! The link: arbitrary frames through the decoders, and all of them in a row through the server's end.
#![no_main]

#[path = "../../crates/protocol/tests/corpus/frames.rs"]
mod frames;
#[path = "../../crates/protocol/tests/corpus/link.rs"]
mod link;
#[path = "../../crates/server/src/link/machine.rs"]
mod machine;
#[path = "../../crates/server/tests/corpus/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    link::drive(data);
    session::drive(frames::frames(data));
});
