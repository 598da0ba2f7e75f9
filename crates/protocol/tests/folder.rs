//! Records and control messages of an attempt's folder.

use std::collections::BTreeMap;

use protocol::attempt::{End, EndResult, StopMode, StopReason};
use protocol::folder::*;

fn end() -> End {
    End {
        result: EndResult::Exited { code: 3 },
        stopped: Some(StopReason::Timeout),
        log_last_seq: 17,
        output: BTreeMap::from([("sha".to_owned(), serde_json::json!("abc"))]),
        output_error: None,
        duration_ms: 12,
        cpu_ms: 4,
        memory_bytes_max: 4096,
        cleanup: None,
        artifacts: None,
    }
}

fn record(end: &End) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_BYTES];
    let frame = encode_exit(end);
    bytes.resize(RECORD_BYTES.max(EXIT_OFFSET + frame.len()), 0);
    bytes[EXIT_OFFSET..EXIT_OFFSET + frame.len()].copy_from_slice(&frame);
    bytes
}

#[test]
fn an_exit_record_is_read_back() {
    assert_eq!(decode_exit(&record(&end())).expect("good"), Some(end()));
}

#[test]
fn a_record_that_was_not_written_is_not_torn() {
    assert!(decode_exit(&[]).expect("good").is_none());
    let mut bytes = vec![0; RECORD_BYTES];
    bytes[..40].copy_from_slice(&Tally { pid: 7, ..Tally::default() }.encode());
    assert!(decode_exit(&bytes).expect("good").is_none());
}

#[test]
fn every_torn_record_is_told_apart() {
    let whole = record(&end());
    let used = EXIT_OFFSET + encode_exit(&end()).len();
    for at in EXIT_OFFSET..used {
        let mut torn = whole.clone();
        torn[at..].fill(0);
        let verdict = decode_exit(&torn);
        let nothing_written = at == EXIT_OFFSET;
        assert_eq!(matches!(verdict, Ok(None)), nothing_written, "cut at {at}");
        assert_eq!(matches!(verdict, Err(ExitError::Torn)), !nothing_written, "cut at {at}");
    }
    let mut headless = whole;
    headless[EXIT_OFFSET..EXIT_OFFSET + 12].fill(0);
    assert!(matches!(decode_exit(&headless), Err(ExitError::Torn)));
}

#[test]
fn outputs_that_are_too_large_become_an_error_and_the_rest_is_kept() {
    let mut big = end();
    big.output.insert("blob".to_owned(), serde_json::json!("x".repeat(OUTPUT_BYTES_MAX)));
    let bound = bound_end(big);
    assert!(bound.output.is_empty());
    assert!(bound.output_error.as_deref().expect("said why").contains("more than 262144"));
    assert_eq!(bound.result, EndResult::Exited { code: 3 });
}

#[test]
fn an_end_without_output_always_fits_the_preallocated_space() {
    let mut worst = end();
    worst.result = EndResult::SpawnFailed { message: "\u{1}".repeat(100_000) };
    worst.output_error = Some("\u{1}é".repeat(100_000));
    worst.log_last_seq = u64::MAX;
    let frame = encode_exit(&without_output(bound_end(worst.clone()), worst.output_error.as_deref().expect("set")));
    assert!(frame.len() > RECORD_BYTES, "the reason given here is itself too long");
    let frame = encode_exit(&bound_end(without_output(worst, "the disk is full")));
    assert!(EXIT_OFFSET + frame.len() <= RECORD_BYTES);
    let mut both = end();
    both.result = EndResult::SpawnFailed { message: "\u{1}".repeat(100_000) };
    both.output.clear();
    both.output_error = Some("\u{1}".repeat(100_000));
    assert!(EXIT_OFFSET + encode_exit(&bound_end(both)).len() <= RECORD_BYTES);
}

#[test]
fn a_tally_is_read_back_and_a_damaged_one_is_not() {
    let tally = Tally { pid: 1, start_time: 2, dropped_lines: 3, lost_lines: 4 };
    let bytes = tally.encode();
    assert!(bytes.len() <= EXIT_OFFSET);
    assert_eq!(Tally::decode(&bytes), Some(tally));
    for at in 0..36 {
        let mut damaged = bytes;
        damaged[at] ^= 1;
        assert_eq!(Tally::decode(&damaged), None, "byte {at}");
    }
    assert_eq!(Tally::decode(&[0; 64]), None);
}

#[test]
fn segment_names() {
    assert_eq!(segment_name(1), "000001.seg");
    assert_eq!(segment_number(&segment_name(12_345_678)), Some(12_345_678));
    for name in ["1.seg", "000000.seg", "000001.tmp", "+00001.seg", "000001", ""] {
        assert_eq!(segment_number(name), None, "{name}");
    }
}

#[test]
fn messages_are_tagged_json_and_unknown_ones_are_let_through() {
    let stop = ToRunner::Stop { mode: StopMode::Graceful, reason: StopReason::Cancelled };
    let json = serde_json::to_string(&stop).expect("json");
    assert_eq!(json, r#"{"type":"stop","mode":"graceful","reason":"cancelled"}"#);
    assert_eq!(serde_json::from_str::<ToRunner>(&json).expect("known"), stop);
    let newer = r#"{"type":"tune","keys":[1,2],"more":{"a":1}}"#;
    assert_eq!(serde_json::from_str::<ToRunner>(newer).expect("ignored"), ToRunner::Unknown);
    assert_eq!(serde_json::from_str::<FromRunner>(r#"{"type":"hum","n":1}"#).expect("ignored"), FromRunner::Unknown);
}

#[test]
fn a_claim_that_nobody_understands_counts_as_intent() {
    assert_eq!(Claim::from_word(b"void"), Claim::Void);
    assert_eq!(Claim::from_word(b"intent"), Claim::Intent);
    assert_eq!(Claim::from_word(b""), Claim::Intent);
}
