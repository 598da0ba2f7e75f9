//! What a step prints is what the log holds, however it prints it.

use std::fs;

use protocol::attempt::EndResult;
use protocol::folder::{LOG_FOLDER, Tally};
use protocol::log::{LINE_BYTES_MAX, LineEnd, Stream};

use crate::harness::Plan;

#[test]
fn both_streams_are_kept_with_numbers_and_times() {
    let (end, attempt) = Plan::script("echo out; echo err >&2; echo; printf last").run();
    assert_eq!(attempt.stdout(), "out\n\nlast");
    assert_eq!(attempt.raw(Stream::Stderr), b"err\n");
    let records = attempt.records();
    assert!(records.iter().map(|record| record.seq).eq(1..=4));
    assert!(records.is_sorted_by_key(|record| record.time_us));
    assert!(records[0].time_us > 1_700_000_000_000_000);
    assert_eq!(end.log_last_seq, 4);
    // Two pipes have no common order: what was written last to one may be read before what is in the other.
    let last = records.iter().rfind(|record| record.stream == Stream::Stdout);
    assert_eq!(last.expect("some").end, LineEnd::Unterminated);
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let (_, attempt) = Plan::script(r"printf '\377\376\0nul\r10%%\r99%%\r\n\xc3'").run();
    assert_eq!(attempt.raw(Stream::Stdout), b"\xff\xfe\0nul\r10%\r99%\r\n\xc3");
}

#[test]
fn a_giant_line_is_split_and_marked() {
    let (end, attempt) = Plan::script("head -c 50000000 /dev/zero | tr '\\0' x; echo; echo after").run();
    let records = attempt.records();
    let giant = 50_000_000_usize.div_ceil(LINE_BYTES_MAX);
    assert_eq!(records.len(), giant + 1);
    assert_eq!(end.log_last_seq, giant as u64 + 1);
    for record in &records[..giant - 1] {
        assert_eq!((record.end, record.bytes.len()), (LineEnd::Continued, LINE_BYTES_MAX));
    }
    assert_eq!(records[giant - 1].end, LineEnd::Newline);
    assert_eq!(attempt.raw(Stream::Stdout).len(), 50_000_001 + "after\n".len());
}

#[test]
fn a_line_of_just_the_limit_is_whole() {
    let text = format!("head -c {LINE_BYTES_MAX} /dev/zero | tr '\\0' x; echo; echo b");
    let (_, attempt) = Plan::script(&text).run();
    let ends: Vec<_> = attempt.records().iter().map(|record| (record.end, record.bytes.len())).collect();
    assert_eq!(ends, [(LineEnd::Newline, LINE_BYTES_MAX), (LineEnd::Newline, 1)]);
}

#[test]
fn two_hundred_megabytes_cost_no_memory_and_no_line() {
    // The worker does not read its socket meanwhile: it must not be in the way.
    let mut attempt = Plan::script("seq -f %099.0f 1 2000000").start();
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Exited { code: 0 });
    let peak = peak_memory_kib(attempt.runner.id());
    assert!(peak < 16 * 1024, "the runner needed {peak} KiB");
    attempt.finish();
    assert_eq!(end.log_last_seq, 2_000_000);
    let records = attempt.records();
    assert!(records.iter().map(|record| record.seq).eq(1..=2_000_000));
    assert!(records.iter().all(|record| record.bytes == format!("{:099}", record.seq).into_bytes()));
}

#[test]
fn an_unfinished_line_is_shown_after_a_while_and_joined_later() {
    let mut plan = Plan::script("printf 'password: '; read -r word < $gate; echo $word");
    let gate = plan.fifo("gate");
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    assert_eq!(attempt.stdout(), "password: ");
    fs::write(gate, "sesame\n").expect("gate");
    attempt.ended();
    assert_eq!(attempt.stdout(), "password: sesame\n");
    let ends: Vec<_> = attempt.records().iter().map(|record| record.end).collect();
    assert_eq!(ends, [LineEnd::Continued, LineEnd::Newline]);
}

#[test]
fn the_oldest_lines_go_when_the_spool_is_full_and_are_counted() {
    let mut plan = Plan::script("seq 1 2000000");
    plan.spec.local.log_lines_max = 200_000;
    let (end, attempt) = plan.run();
    assert_eq!(end.log_last_seq, 2_000_000);
    let records = attempt.records();
    let first = records[0].seq;
    assert!(records.iter().map(|record| record.seq).eq(first..=2_000_000));
    assert!(records.len() <= 200_000 && records.len() > 100_000, "{} lines are left", records.len());
    assert_eq!(tally(&attempt.folder).dropped_lines, first - 1);
}

#[test]
fn the_spool_keeps_its_limit_of_bytes_too() {
    let mut plan = Plan::script("seq 1 2000000");
    plan.spec.local.log_bytes_max = 4 << 20;
    let (_, attempt) = plan.run();
    let sizes = fs::read_dir(attempt.folder.join(LOG_FOLDER)).expect("log folder");
    let bytes: u64 = sizes.map(|entry| entry.expect("entry").metadata().expect("metadata").len()).sum();
    assert!(bytes > 3 << 20 && bytes <= (4 << 20) + 256 * 1024, "{bytes} bytes are left");
}

fn tally(folder: &std::path::Path) -> Tally {
    runner::folder_io::read_record(folder).expect("readable").tally.expect("written")
}

fn peak_memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the runner waits for its `bye`");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("number")
}
