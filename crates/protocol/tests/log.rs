//! The log layout: what goes in comes out, and damage is told apart from a tail that is still being written.

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::log::{
    BLOCK_BYTES_MAX, BlockEncoder, Blocks, LINE_BYTES_MAX, Line, LineEnd, LogError, Stream, span, trim_to,
};

#[derive(Debug, Clone, PartialEq)]
struct Record {
    time_us: i64,
    stream: Stream,
    end: LineEnd,
    bytes: Vec<u8>,
}

fn record() -> impl Strategy<Value = Record> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    let end = prop_oneof![Just(LineEnd::Newline), Just(LineEnd::Continued), Just(LineEnd::Unterminated)];
    (any::<i64>(), stream, end, vec(any::<u8>(), 0..80)).prop_map(|(time_us, stream, end, bytes)| Record {
        time_us,
        stream,
        end,
        bytes,
    })
}

/// Several blocks with a few records each, none empty.
fn log() -> impl Strategy<Value = Vec<Vec<Record>>> {
    vec(vec(record(), 1..6), 1..5)
}

fn encode(first_seq: u64, blocks: &[Vec<Record>]) -> Vec<u8> {
    let mut encoder = BlockEncoder::new(first_seq);
    let mut bytes = Vec::new();
    for block in blocks {
        for record in block {
            encoder.push(record.time_us, record.stream, record.end, &record.bytes);
        }
        bytes.extend_from_slice(encoder.seal().expect("not empty"));
        encoder.start();
    }
    bytes
}

fn decode(bytes: &[u8]) -> Result<Vec<(u64, Record)>, LogError> {
    let mut records = Vec::new();
    for block in Blocks::new(bytes) {
        records.extend(block?.lines().map(|line| (line.seq, owned(&line))));
    }
    Ok(records)
}

fn owned(line: &Line<'_>) -> Record {
    Record { time_us: line.time_us, stream: line.stream, end: line.end, bytes: line.bytes.to_vec() }
}

fn numbered(first_seq: u64, blocks: &[Vec<Record>]) -> Vec<(u64, Record)> {
    (first_seq..).zip(blocks.iter().flatten().cloned()).collect()
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(first_seq in 1..u64::MAX / 2, blocks in log()) {
        let bytes = encode(first_seq, &blocks);
        let expected = numbered(first_seq, &blocks);
        let span = span(&bytes).expect("good").expect("not empty");
        prop_assert_eq!((span.first_seq, span.last_seq), (first_seq, expected.last().expect("some").0));
        prop_assert_eq!(span.count() as usize, expected.len());
        prop_assert_eq!(decode(&bytes).expect("good"), expected);
    }

    #[test]
    fn a_cut_tail_is_incomplete_and_the_rest_is_good(blocks in log(), cut in any::<prop::sample::Index>()) {
        let bytes = encode(1, &blocks);
        let cut = cut.index(bytes.len());
        let mut reader = Blocks::new(&bytes[..cut]);
        let mut good = 0;
        let mut error = None;
        for block in reader.by_ref() {
            match block {
                Ok(block) => good += block.bytes().len(),
                Err(found) => error = Some(found),
            }
        }
        prop_assert_eq!(reader.offset(), good);
        prop_assert_eq!(error, (good < cut).then_some(LogError::Incomplete { at: good }));
    }

    #[test]
    fn a_flipped_bit_never_changes_a_line(blocks in log(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = encode(1, &blocks);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let damaged = matches!(decode(&bytes), Err(LogError::Damaged { .. }));
        prop_assert!(damaged);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..2000), magic in any::<bool>()) {
        let mut bytes = bytes;
        if magic && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(b"BWL1");
        }
        let _ = decode(&bytes);
        let _ = span(&bytes);
        let _ = trim_to(&bytes, 7);
    }

    #[test]
    fn trimming_drops_exactly_the_lines_up_to_the_number(blocks in log(), after in 0..40u64) {
        let bytes = encode(5, &blocks);
        let expected: Vec<_> = numbered(5, &blocks).into_iter().filter(|(seq, _)| *seq > after).collect();
        let trimmed = trim_to(&bytes, after).expect("good");
        prop_assert_eq!(decode(&trimmed).expect("good"), expected);
    }
}

#[test]
fn a_gap_between_blocks_is_named() {
    let record = Record { time_us: 1, stream: Stream::Stdout, end: LineEnd::Newline, bytes: b"x".to_vec() };
    let mut bytes = encode(1, &[vec![record.clone(), record.clone()]]);
    let at = bytes.len();
    bytes.extend(encode(4, &[vec![record]]));
    assert_eq!(span(&bytes), Err(LogError::Gap { at, expected: 3, found: 4 }));
    assert_eq!(decode(&bytes).expect("each block is good").len(), 3);
}

#[test]
fn the_largest_line_fits_an_empty_block_and_a_full_block_is_refused() {
    let mut encoder = BlockEncoder::new(1);
    let line = vec![b'x'; LINE_BYTES_MAX];
    while encoder.has_room(line.len()) {
        encoder.push(0, Stream::Stderr, LineEnd::Continued, &line);
    }
    assert_eq!(encoder.lines(), 3);
    let bytes = encoder.seal().expect("not empty");
    assert!(bytes.len() <= BLOCK_BYTES_MAX);
    assert_eq!(decode(bytes).expect("good").len(), 3);
}

#[test]
fn an_empty_buffer_holds_nothing() {
    assert_eq!(span(&[]), Ok(None));
    assert!(trim_to(&[], 3).expect("good").is_empty());
    assert!(BlockEncoder::new(1).seal().is_none());
}
