//! What the decoders make of the frames of one input of the `link` fuzz target.

use std::fmt::Debug;

use protocol::link::{LogHeader, ServerMessage, WorkerMessage, decode_log, decode_text, encode_log, encode_text};
use protocol::log::{Block, BlockEncoder, Blocks, span, trim_to};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frames::{Frame, frames};

pub(crate) fn drive(data: &[u8]) {
    for frame in frames(data) {
        match frame {
            Frame::Text(text) => {
                round_trip::<WorkerMessage>(&text);
                round_trip::<ServerMessage>(&text);
            }
            Frame::Binary(bytes) => binary(&bytes),
        }
    }
}

/// What was understood is said again in words that mean the same.
fn round_trip<M: Serialize + DeserializeOwned + PartialEq + Debug>(frame: &str) {
    if let Ok(messages) = decode_text::<M>(frame) {
        let again = encode_text(&messages);
        assert_eq!(decode_text::<M>(&again).expect("our own frames are readable"), messages);
    }
}

fn binary(frame: &[u8]) {
    let Ok((header, blocks)) = decode_log(frame) else { return };
    let again = encode_log(&header, blocks);
    assert_eq!(decode_log(&again).expect("our own frames are readable"), (header, blocks));
    lines(blocks);
    cuts(&header, blocks);
}

fn lines(buffer: &[u8]) {
    let mut blocks = Blocks::new(buffer);
    while let Some(block) = blocks.next() {
        let Ok(block) = block else {
            assert!(blocks.next().is_none() && span(buffer).is_err(), "damage is final");
            return;
        };
        assert_eq!(block.lines().count() as u64, u64::from(block.count()));
        assert_eq!(encoded(&block), block.bytes(), "a block has one form");
    }
    assert_eq!(blocks.offset(), buffer.len());
}

fn encoded(block: &Block<'_>) -> Vec<u8> {
    let mut encoder = BlockEncoder::new(block.first_seq());
    for line in block.lines() {
        encoder.push(line.time_us, line.stream, line.end, line.bytes);
    }
    encoder.seal().expect("a block has lines").to_vec()
}

/// Cut anywhere, a log holds the lines after the cut and no others.
fn cuts(header: &LogHeader, buffer: &[u8]) {
    let Ok(Some(whole)) = span(buffer) else {
        // Damaged, empty or with gaps: all that is asked for is an answer.
        let _ = trim_to(buffer, header.first_seq);
        return;
    };
    let middle = whole.first_seq + whole.count() / 2;
    for after in [0, whole.first_seq - 1, whole.first_seq, middle, whole.last_seq, header.first_seq, u64::MAX] {
        let kept = trim_to(buffer, after).expect("a whole log can be cut");
        let kept = span(&kept).expect("what was cut is whole");
        let expected = (after < whole.last_seq).then(|| whole.first_seq.max(after + 1));
        assert_eq!(kept.map(|span| span.first_seq), expected);
        assert!(kept.is_none_or(|span| span.last_seq == whole.last_seq));
    }
}
