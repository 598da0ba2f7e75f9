//! Real files, written as a runner writes them.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use protocol::attempt::Ticket;
use protocol::folder::{LOG_FOLDER, segment_name};
use protocol::link::{LOG_WINDOW_BYTES, LogHeader, MissingCause, decode_log};
use protocol::log::{BlockEncoder, Blocks, LineEnd, Span, Stream};
use uuid::Uuid;

use super::cursor::{Cursor, bounds};
use super::shipper::{Logs, Piece, Shipper};
use crate::state::Places;

/// A state folder with attempts whose logs the test writes.
struct Files {
    root: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Files { root: tempfile::tempdir().expect("a temporary folder") }
    }

    fn places(&self) -> Places {
        Places {
            attempts: self.root.path().to_owned(),
            kept: self.root.path().join("kept"),
            aside: self.root.path().join("aside"),
        }
    }

    fn reader(&self, id: u64, after_seq: u64) -> Reader {
        Reader { places: self.places(), ticket: ticket(id), next_seq: after_seq + 1, cursor: Cursor::default() }
    }

    fn attempt(&self, id: u64) -> PathBuf {
        self.places().attempt(ticket(id))
    }

    /// One block with these lines at the end of a segment.
    fn write(&self, id: u64, segment: u64, lines: std::ops::RangeInclusive<u64>, width: usize) {
        self.append(id, segment, &block(lines, width));
    }

    fn append(&self, id: u64, segment: u64, bytes: &[u8]) {
        let folder = self.attempt(id).join(LOG_FOLDER);
        fs::create_dir_all(&folder).expect("writable");
        let path = folder.join(segment_name(segment));
        let mut file = OpenOptions::new().append(true).create(true).open(path).expect("writable");
        file.write_all(bytes).expect("writable");
    }
}

fn ticket(id: u64) -> Ticket {
    Ticket { attempt: Uuid::from_u128(u128::from(id)), fence: id }
}

fn block(lines: std::ops::RangeInclusive<u64>, width: usize) -> Vec<u8> {
    let mut encoder = BlockEncoder::new(*lines.start());
    for line in lines {
        encoder.push(0, Stream::Stdout, LineEnd::Newline, format!("{line:0width$}").as_bytes());
    }
    encoder.seal().expect("there are lines").to_vec()
}

/// All spans that can be read now.
fn read_all(reader: &mut Reader) -> Vec<(u64, u64)> {
    let mut buffer = Vec::new();
    let mut spans = Vec::new();
    while let Some(piece) = reader.read(&mut buffer) {
        assert_eq!(protocol::log::span(&piece.blocks), Ok(Some(piece.span)), "the blocks are what the span says");
        spans.push((piece.span.first_seq, piece.span.last_seq));
    }
    spans
}

/// Reads one log by itself.
struct Reader {
    places: Places,
    ticket: Ticket,
    next_seq: u64,
    cursor: Cursor,
}

impl Reader {
    fn read(&mut self, buffer: &mut Vec<u8>) -> Option<Piece> {
        let piece = self.places.read(self.ticket, self.next_seq, &mut self.cursor, buffer).expect("readable")?;
        self.next_seq = piece.span.last_seq + 1;
        Some(piece)
    }
}

#[test]
fn a_growing_log_is_read_as_it_grows_across_segments() {
    let logs = Files::new();
    let mut reader = logs.reader(1, 0);
    assert_eq!(read_all(&mut reader), [], "no folder yet");
    logs.write(1, 1, 1..=2, 4);
    logs.write(1, 1, 3..=3, 4);
    assert_eq!(read_all(&mut reader), [(1, 3)]);
    let block = block(4..=5, 4);
    logs.append(1, 1, &block[..20]);
    assert_eq!(read_all(&mut reader), [], "half a block is not there yet");
    logs.append(1, 1, &block[20..]);
    logs.write(1, 2, 6..=6, 4);
    assert_eq!(read_all(&mut reader), [(4, 5), (6, 6)]);
}

#[test]
fn a_log_is_resumed_at_any_line() {
    let logs = Files::new();
    logs.write(1, 1, 1..=3, 4);
    logs.write(1, 1, 4..=6, 4);
    logs.write(1, 2, 7..=9, 4);
    for after in 0..=9 {
        let spans = read_all(&mut logs.reader(1, after));
        let lines: Vec<u64> = spans.iter().flat_map(|(first, last)| *first..=*last).collect();
        assert_eq!(lines, ((after + 1)..=9).collect::<Vec<_>>(), "after {after}");
    }
}

#[test]
fn missing_lines_split_the_pieces_and_damage_costs_only_its_segment() {
    let logs = Files::new();
    logs.write(1, 3, 10..=11, 4);
    logs.write(1, 3, 15..=16, 4);
    logs.append(1, 3, b"not a block at all, and long enough to be one");
    logs.write(1, 4, 20..=21, 4);
    assert_eq!(read_all(&mut logs.reader(1, 0)), [(10, 11), (15, 16), (20, 21)]);
    assert_eq!(read_all(&mut logs.reader(1, 12)), [(15, 16), (20, 21)]);
    assert_eq!(bounds(&logs.attempt(1)).expect("readable"), Some(Span { first_seq: 10, last_seq: 21 }));
}

#[test]
fn a_segment_deleted_under_the_reader_is_no_obstacle() {
    let logs = Files::new();
    logs.write(1, 1, 1..=2, 4);
    let mut reader = logs.reader(1, 0);
    assert_eq!(read_all(&mut reader), [(1, 2)]);
    logs.write(1, 3, 5..=6, 4);
    fs::remove_file(logs.attempt(1).join(LOG_FOLDER).join(segment_name(1))).expect("it is there");
    assert_eq!(read_all(&mut reader), [(5, 6)]);
}

#[test]
fn bounds_of_nothing() {
    let logs = Files::new();
    assert_eq!(bounds(&logs.attempt(1)).expect("no folder is no error"), None);
    logs.append(1, 1, b"");
    assert_eq!(bounds(&logs.attempt(1)).expect("readable"), None);
    logs.append(1, 1, &block(1..=1, 4)[..9]);
    assert_eq!(bounds(&logs.attempt(1)).expect("readable"), None);
}

fn header(frame: &[u8]) -> LogHeader {
    decode_log(frame).expect("a good frame").0
}

fn said(shipper: &mut Shipper<Cursor>, logs: &Files) -> Vec<(u64, u64, u64, bool)> {
    std::iter::from_fn(|| shipper.next_frame(&mut logs.places()))
        .map(|frame| header(&frame))
        .map(|header| (header.ticket.fence, header.first_seq, header.last_seq, header.complete))
        .collect()
}

#[test]
fn the_last_frame_says_that_the_log_is_complete() {
    let logs = Files::new();
    let mut shipper = Shipper::default();
    shipper.start(ticket(1), 0);
    assert_eq!(said(&mut shipper, &logs), []);
    logs.write(1, 1, 1..=2, 4);
    shipper.grew(ticket(1));
    assert_eq!(said(&mut shipper, &logs), [(1, 1, 2, false)]);
    logs.write(1, 1, 3..=4, 4);
    shipper.ended(ticket(1), Some(4));
    assert_eq!(said(&mut shipper, &logs), [(1, 3, 4, true)]);
    assert!(!shipper.is_watching());
    shipper.look_at_all();
    assert_eq!(said(&mut shipper, &logs), [], "said once");
}

#[test]
fn a_log_that_ends_without_new_lines_is_completed_by_an_empty_frame() {
    let logs = Files::new();
    let mut shipper = Shipper::default();
    shipper.start(ticket(1), 0);
    shipper.ended(ticket(1), Some(0));
    assert_eq!(said(&mut shipper, &logs), [(1, 1, 0, true)], "an empty log");
    logs.write(2, 1, 1..=5, 4);
    shipper.start(ticket(2), 5);
    shipper.ended(ticket(2), Some(5));
    assert_eq!(said(&mut shipper, &logs), [(2, 6, 5, true)], "all acknowledged before");
    logs.write(3, 1, 1..=5, 4);
    shipper.start(ticket(3), 0);
    shipper.ended(ticket(3), Some(7));
    assert_eq!(
        said(&mut shipper, &logs),
        [(3, 1, 5, false), (3, 8, 7, true)],
        "the last lines were lost on a full disk"
    );
    logs.write(4, 1, 1..=5, 4);
    logs.append(4, 1, &block(6..=6, 4)[..20]);
    shipper.start(ticket(4), 2);
    shipper.ended(ticket(4), None);
    assert_eq!(said(&mut shipper, &logs), [(4, 3, 5, false), (4, 6, 5, true)], "the runner died");
}

#[test]
fn a_flood_stays_in_its_window_and_leaves_room_for_others() {
    let logs = Files::new();
    for chunk in 0..100 {
        logs.write(1, 1, chunk * 2 + 1..=chunk * 2 + 2, 60_000);
    }
    logs.write(2, 1, 1..=1, 4);
    let mut shipper = Shipper::default();
    shipper.start(ticket(1), 0);
    shipper.start(ticket(2), 0);
    shipper.grew(ticket(1));
    shipper.grew(ticket(2));
    let mut on_the_way = 0;
    let mut fences = Vec::new();
    let mut last_seq = 0;
    while let Some(frame) = shipper.next_frame(&mut logs.places()) {
        let (header, blocks) = decode_log(&frame).expect("a good frame");
        on_the_way += blocks.len();
        fences.push(header.ticket.fence);
        if header.ticket == ticket(1) {
            last_seq = header.last_seq;
        }
    }
    assert!(on_the_way <= LOG_WINDOW_BYTES, "{on_the_way} bytes are on their way");
    assert_eq!(fences[1], 2, "the small log comes second: {fences:?}");
    let mut lines = last_seq;
    shipper.acknowledged(ticket(2), 1, false);
    while lines < 200 {
        shipper.acknowledged(ticket(1), last_seq, false);
        let frame = shipper.next_frame(&mut logs.places()).expect("an acknowledgement makes room");
        let (header, blocks) = decode_log(&frame).expect("a good frame");
        assert_eq!(header.first_seq, last_seq + 1, "no line is left out or sent twice");
        lines += Blocks::new(blocks).map(|block| u64::from(block.expect("good").count())).sum::<u64>();
        last_seq = header.last_seq;
    }
    assert_eq!((lines, last_seq), (200, 200));
}

#[test]
fn a_stopped_log_gives_its_part_of_the_window_back() {
    let logs = Files::new();
    for id in 1..=8 {
        for chunk in 0..4 {
            logs.write(id, 1, chunk * 2 + 1..=chunk * 2 + 2, 60_000);
        }
    }
    let mut shipper = Shipper::default();
    for id in 1..=8 {
        shipper.start(ticket(id), 0);
        shipper.grew(ticket(id));
        while shipper.next_frame(&mut logs.places()).is_some() {}
        shipper.stop(ticket(id));
    }
    shipper.start(ticket(1), 0);
    shipper.grew(ticket(1));
    assert!(shipper.next_frame(&mut logs.places()).is_some(), "nothing is on its way any more");
}

#[test]
fn what_the_server_did_not_get_is_sent_again() {
    let logs = Files::new();
    let mut shipper = Shipper::default();
    logs.write(1, 1, 1..=2, 4);
    shipper.start(ticket(1), 0);
    shipper.grew(ticket(1));
    assert_eq!(said(&mut shipper, &logs), [(1, 1, 2, false)]);
    logs.write(1, 1, 3..=4, 4);
    shipper.ended(ticket(1), Some(4));
    assert_eq!(said(&mut shipper, &logs), [(1, 3, 4, true)]);
    // The first frame went astray, so the second did not fit either: each is answered with where the server stands.
    shipper.acknowledged(ticket(1), 0, false);
    assert_eq!(said(&mut shipper, &logs), [(1, 1, 4, true)]);
    shipper.acknowledged(ticket(1), 0, false);
    assert_eq!(said(&mut shipper, &logs), [], "the answer to what was sent before the rewind");
    shipper.acknowledged(ticket(1), 4, false);
    assert_eq!(said(&mut shipper, &logs), []);
}

#[test]
fn a_dropped_frame_is_sent_again_with_the_next_look_even_if_only_the_end_was_in_it() {
    let logs = Files::new();
    let mut shipper = Shipper::default();
    logs.write(1, 1, 1..=2, 4);
    shipper.start(ticket(1), 0);
    shipper.grew(ticket(1));
    assert_eq!(said(&mut shipper, &logs), [(1, 1, 2, false)]);
    shipper.acknowledged(ticket(1), 2, false);
    shipper.ended(ticket(1), Some(2));
    assert_eq!(said(&mut shipper, &logs), [(1, 3, 2, true)]);
    shipper.acknowledged(ticket(1), 2, true);
    assert_eq!(said(&mut shipper, &logs), [], "there is as little room as a moment ago");
    shipper.look_at_all();
    assert_eq!(said(&mut shipper, &logs), [(1, 3, 2, true)]);
    shipper.acknowledged(ticket(1), 2, false);
    shipper.look_at_all();
    assert_eq!(said(&mut shipper, &logs), []);
}

#[test]
fn an_acknowledgement_before_missing_lines_is_no_reason_to_start_again() {
    let logs = Files::new();
    let mut shipper = Shipper::default();
    logs.write(1, 1, 1..=2, 4);
    logs.write(1, 1, 8..=9, 4);
    shipper.start(ticket(1), 0);
    shipper.grew(ticket(1));
    assert_eq!(said(&mut shipper, &logs), [(1, 1, 2, false), (1, 8, 9, false)]);
    shipper.acknowledged(ticket(1), 2, false);
    assert_eq!(said(&mut shipper, &logs), []);
    shipper.acknowledged(ticket(1), 9, false);
    assert_eq!(said(&mut shipper, &logs), []);
}

/// First line, how many are missing before it, and why.
fn gaps(shipper: &mut Shipper<Cursor>, logs: &Files) -> Vec<(u64, u64, MissingCause)> {
    let headers = std::iter::from_fn(|| shipper.next_frame(&mut logs.places())).map(|frame| header(&frame));
    headers.filter(|header| header.missing > 0).map(|h| (h.first_seq, h.missing, h.cause)).collect()
}

#[test]
fn missing_lines_have_a_cause() {
    let logs = Files::new();
    let mut shipper = Shipper::default();
    // Segments 1 and 2 outgrew the limit.
    logs.write(1, 3, 10..=11, 4);
    // The disk was full for a moment.
    logs.write(1, 3, 15..=16, 4);
    logs.write(1, 4, 20..=20, 4);
    // Something else wrote here.
    logs.append(1, 4, b"not a block at all, and long enough to be one");
    logs.write(1, 5, 23..=24, 4);
    logs.write(1, 9, 30..=30, 4);
    shipper.start(ticket(1), 4);
    shipper.grew(ticket(1));
    let expected = [
        (10, 5, MissingCause::Limit),
        (15, 3, MissingCause::Unwritten),
        (20, 3, MissingCause::Unwritten),
        (23, 2, MissingCause::Damaged),
        (30, 5, MissingCause::Limit),
    ];
    assert_eq!(gaps(&mut shipper, &logs), expected);
}

/// A log on a disk that says no for a while.
struct Flaky {
    refusals: u32,
}

impl Logs for Flaky {
    type Cursor = ();

    fn read(&mut self, _: Ticket, next_seq: u64, (): &mut (), _: &mut Vec<u8>) -> io::Result<Option<Piece>> {
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err(ErrorKind::Other.into());
        }
        let span = Span { first_seq: next_seq, last_seq: 2 };
        let cause = MissingCause::default();
        Ok((next_seq <= 2).then(|| Piece { span, blocks: block(next_seq..=2, 4), cause }))
    }
}

#[test]
fn a_log_that_cannot_be_read_now_is_read_with_the_next_look() {
    let mut logs = Flaky { refusals: 2 };
    let mut shipper = Shipper::default();
    shipper.start(ticket(1), 1);
    shipper.ended(ticket(1), Some(2));
    assert_eq!(shipper.next_frame(&mut logs), None);
    assert_eq!(shipper.next_frame(&mut logs), None, "no turn before the next look");
    assert!(shipper.is_watching());
    shipper.look_at_all();
    assert_eq!(shipper.next_frame(&mut logs), None);
    shipper.look_at_all();
    let header = header(&shipper.next_frame(&mut logs).expect("it can be read again"));
    assert_eq!((header.first_seq, header.last_seq, header.complete), (2, 2, true));
}
