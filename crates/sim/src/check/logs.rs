//! Promise: the server's log is the runner's log, whole, once and in order, or it says in its place exactly what is missing.
//! When all is quiet every log is whole, whatever its host went through, as long as the folder that it is written in is
//! still there.

use std::collections::{BTreeMap, BTreeSet};

use engine::{AttemptId, JobId};
use protocol::attempt::Ticket;
use protocol::log::Blocks;
use store::read::{LogMarkView, LogState};
use store::retention::removed_word;
use store::{Reader, StoreError};

use super::Findings;
use super::lives::Lives;
use super::rows::{AttemptSeen, Rows};

const CHECKER: &str = "log";

/// More than any log of a simulation has.
const BYTES_MAX: usize = 1 << 24;
const MARKS_MAX: usize = 10_000;

/// What the steps' programs printed, as their runners numbered it.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    printed: BTreeMap<AttemptId, Vec<Line>>,
    /// Logs of which lines were committed and are gone.
    forgotten: BTreeSet<AttemptId>,
    /// Those whose folders were put back to a time before.
    older: BTreeSet<AttemptId>,
}

#[derive(Debug)]
struct Line {
    text: String,
    /// The disk took it, and was not put back to a time before.
    written: bool,
}

/// What the server has of one attempt.
struct Stored {
    state: LogState,
    lines: Vec<(u64, String)>,
    marks: Vec<LogMarkView>,
}

impl Logs {
    /// The runner gave this line its number, from 1 on.
    pub(crate) fn printed(&mut self, ticket: Ticket, text: String, written: bool) {
        self.printed.entry(AttemptId(ticket.attempt)).or_default().push(Line { text, written });
    }

    /// The disk knows nothing of the lines after `kept` any more.
    pub(crate) fn rolled_back(&mut self, ticket: Ticket, kept: u64) {
        self.older.insert(AttemptId(ticket.attempt));
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        let printed = self.printed.get_mut(&AttemptId(ticket.attempt));
        printed.into_iter().flatten().skip(kept).for_each(|line| line.written = false);
    }

    /// Lines of these were committed, and are gone.
    pub(super) fn forget(&mut self, logs: &[AttemptId]) {
        self.forgotten.extend(logs);
    }

    /// Whether there is anything to send: what went with a disk is not.
    pub(crate) fn has_lines(&self, attempt: AttemptId) -> bool {
        self.printed.get(&attempt).is_some_and(|lines| lines.iter().any(|line| line.written))
    }

    /// All is quiet, and what workers had to send was sent. `folders`: attempts that are still on some disk.
    pub(crate) fn at_the_end(
        &self,
        rows: &Rows,
        lives: &Lives,
        reader: &dyn Reader,
        (folders, deleted): (&BTreeSet<AttemptId>, &dyn Fn(JobId) -> bool),
        found: &mut Findings,
    ) {
        let is_there = |attempt: &AttemptSeen| attempt.is_over() && !deleted(attempt.place.job);
        for (id, attempt) in rows.attempts.iter().filter(|(_, attempt)| is_there(attempt)) {
            let printed = self.printed.get(id).map(Vec::as_slice).unwrap_or_default();
            let wrong = match Stored::read(*id, reader) {
                // What was removed is said.
                Ok(stored) if stored.is_removed() => None,
                Ok(stored) => {
                    // What the server had whole its worker has put away, and sends no more: a lost end of it stays lost.
                    let cut_short = self.forgotten.contains(id) && lives.is_put_away(*id);
                    let left = if cut_short { stored.up_to_its_end(printed) } else { printed };
                    // Who lets go of an attempt has sent all of it, unless it is on an older disk; whatever else became of its folder, nobody can.
                    let sent = lives.is_put_away(*id) && !self.forgotten.contains(id) && !self.older.contains(id);
                    let folder_lost = !folders.contains(id) && !sent;
                    stored.differs((printed, left), attempt, folder_lost)
                }
                Err(error) => Some(format!("cannot be read: {error}")),
            };
            if let Some(wrong) = wrong {
                let place = attempt.place;
                let name = format!("attempt {} of step {} of {} ({id})", attempt.number, place.step.0, place.job);
                found.add(CHECKER, format!("the log of {name}, {} lines, {wrong}", printed.len()));
            }
        }
    }
}

impl Stored {
    fn read(id: AttemptId, reader: &dyn Reader) -> Result<Stored, StoreError> {
        let mut lines = Vec::new();
        for chunk in reader.log_chunks(id, 0, BYTES_MAX)? {
            for block in Blocks::new(&chunk.blocks) {
                let corrupt = |error| StoreError::Refused { message: format!("{error}") };
                for line in block.map_err(corrupt)?.lines() {
                    lines.push((line.seq, String::from_utf8_lossy(line.bytes).into_owned()));
                }
            }
        }
        let marks = reader.log_marks(id, 0, u64::MAX, MARKS_MAX)?;
        Ok(Stored { state: reader.log_state(id)?, lines, marks })
    }

    /// Its time is over, and a word stands in its place.
    fn is_removed(&self) -> bool {
        self.marks.iter().any(|mark| mark.text == removed_word(mark.missing) && mark.missing <= self.state.last_seq)
    }

    /// What was printed as far as the server's lines go, and what it says is missing after them.
    fn up_to_its_end<'a>(&self, printed: &'a [Line]) -> &'a [Line] {
        let last = self.lines.last().map_or(0, |(seq, _)| *seq).max(self.state.last_seq);
        let after = self.marks.iter().filter(|mark| !mark.closing && mark.after_seq >= last);
        let missing = after.map(|mark| mark.missing).sum::<u64>() + self.not_received();
        let last = usize::try_from(last + missing).unwrap_or(usize::MAX);
        &printed[..printed.len().min(last)]
    }

    /// How many lines were missing when the log was closed, where that is known.
    fn not_received(&self) -> u64 {
        let closing = self.marks.iter().rfind(|mark| mark.closing && self.state.closed);
        closing.and_then(|mark| not_received(&mark.text)).unwrap_or(0)
    }

    /// It was closed, and says that nobody knows how many lines were missing.
    fn ends_in_doubt(&self) -> bool {
        let closing = self.marks.iter().rfind(|mark| mark.closing && self.state.closed);
        closing.is_some_and(|mark| not_received(&mark.text).is_none())
    }

    /// `left`: what of the printed lines can be there.
    fn differs(&self, (printed, left): (&[Line], &[Line]), attempt: &AttemptSeen, folder_lost: bool) -> Option<String> {
        if !self.state.complete {
            return Some(format!("is at line {} and not closed long after the end", self.state.last_seq));
        }
        if self.state.closed && !folder_lost {
            let said: Vec<&str> = self.marks.iter().map(|mark| mark.text.as_str()).collect();
            let at = self.state.last_seq;
            return Some(format!("was closed at line {at}, and its worker never sent the rest: {said:?}"));
        }
        self.wrong_line(left)
            .or_else(|| self.wrong_gap(left, attempt, folder_lost))
            // What a mark counted, and its disk had not taken, may be behind all that is left.
            .or_else(|| self.wrong_mark(printed, attempt))
    }

    fn wrong_line(&self, printed: &[Line]) -> Option<String> {
        let mut last = 0;
        for (seq, text) in &self.lines {
            if *seq <= last {
                return Some(format!("has line {seq} after line {last}"));
            }
            last = *seq;
            let true_line = usize::try_from(*seq - 1).ok().and_then(|at| printed.get(at));
            match true_line {
                None => return Some(format!("has a line {seq} that nobody printed: {text}")),
                Some(line) if line.text != *text => {
                    return Some(format!("has `{text}` for line {seq}, `{}`", line.text));
                }
                Some(_) => {}
            }
        }
        None
    }

    /// Lines that are not there must be counted by marks in their place, no more and no fewer.
    fn wrong_gap(&self, printed: &[Line], attempt: &AttemptSeen, folder_lost: bool) -> Option<String> {
        let mut announced: BTreeMap<u64, u64> = BTreeMap::new();
        for mark in self.marks.iter().filter(|mark| !mark.closing) {
            *announced.entry(mark.after_seq).or_default() += mark.missing;
        }
        let mut last = 0;
        for (seq, _) in &self.lines {
            let missing = seq - last - 1;
            let said = announced.remove(&last).unwrap_or(0);
            if missing != said {
                return Some(format!("lacks {missing} lines after line {last}, and says {said}"));
            }
            last = *seq;
        }
        let total = u64::try_from(printed.len()).unwrap_or(u64::MAX);
        let missing = total - last;
        let said = announced.values().sum::<u64>() + self.not_received();
        // A runner that died took the count of what its disk had not taken with it.
        let unwritten = printed.iter().skip(last as usize).all(|line| !line.written);
        // And of what nobody will ever send the server says only that it is not there.
        let unknown = attempt.state != "ended" && (unwritten || self.state.closed && folder_lost);
        (missing != said && !unknown)
            .then(|| format!("ends with line {last} of {total}, and says that {said} are missing"))
    }

    /// What a mark counts it also says in words.
    fn wrong_mark(&self, printed: &[Line], attempt: &AttemptSeen) -> Option<String> {
        let silent = |mark: &&LogMarkView| mark.missing > 0 && !mark.text.contains(&mark.missing.to_string());
        if let Some(mark) = self.marks.iter().find(silent) {
            return Some(format!("counts {} missing lines and says `{}`", mark.missing, mark.text));
        }
        if self.ends_in_doubt() {
            return None;
        }
        let more = |mark: &&LogMarkView| {
            let after = self.lines.iter().filter(|(seq, _)| *seq > mark.after_seq).count() as u64;
            // Lines that waited for a disk with room are counted, and said to be lost when they turn out to be.
            let lost: u64 =
                self.marks.iter().filter(|other| other.after_seq >= mark.after_seq).map(|m| m.missing).sum();
            let unwritten = || printed.iter().skip(mark.after_seq as usize).filter(|line| !line.written).count() as u64;
            // A runner that died took the word of what its disk had not taken with it.
            let untold = if attempt.state == "ended" { 0 } else { unwritten() };
            let not_received = self.not_received();
            replayed(&mark.text).is_some_and(|lines| lines > after + lost + not_received + untold)
        };
        self.marks.iter().find(more).map(|mark| format!("has fewer lines than `{}` after it", mark.text))
    }
}

/// The number of lines that the last mark of a log speaks of, where it knows it.
fn not_received(text: &str) -> Option<u64> {
    let (before, _) = text.split_once(" log lines were not received")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// The number of lines that a mark of an outage speaks of.
fn replayed(text: &str) -> Option<u64> {
    let (before, _) = text.split_once(" buffered log lines")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use engine::{Fence, JobId, StepIx, Time, WorkerId};
    use uuid::Uuid;

    use super::super::rows::Place;
    use super::*;

    fn attempt(state: &'static str) -> AttemptSeen {
        AttemptSeen {
            place: Place { job: JobId(Uuid::nil()), step: StepIx(0) },
            number: 1,
            fence: Fence(1),
            worker: WorkerId(Uuid::nil()),
            state,
            exit_code: None,
            signal: None,
            settled_as: None,
            error_message: None,
            in_doubt: false,
            cut_for: None,
            over_at: None,
        }
    }

    fn mark(after_seq: u64, missing: u64, text: &str) -> LogMarkView {
        LogMarkView { after_seq, sub: 1, at: Time(0), missing, closing: false, text: text.to_owned() }
    }

    /// What is wrong with a log that holds these lines and marks, of a program that printed `line 1` to `line 4`.
    fn wrong(numbers: &[u64], marks: Vec<LogMarkView>) -> Option<String> {
        let printed = (1..=4).map(|n| Line { text: format!("line {n}"), written: true }).collect::<Vec<Line>>();
        let lines = numbers.iter().map(|n| (*n, format!("line {n}"))).collect();
        let state = LogState { complete: true, ..LogState::default() };
        Stored { state, lines, marks }.differs((&printed, &printed), &attempt("ended"), false)
    }

    #[test]
    fn a_log_is_whole_once_and_in_order() {
        assert_eq!(wrong(&[1, 2, 3, 4], Vec::new()), None);
        for lines in [&[1, 2, 2, 3, 4][..], &[1, 3, 2, 4], &[1, 2, 4], &[1, 2, 3], &[2, 3, 4], &[1, 2, 3, 4, 5], &[]] {
            assert!(wrong(lines, Vec::new()).is_some(), "{lines:?}");
        }
    }

    #[test]
    fn what_is_missing_is_said_exactly() {
        assert_eq!(wrong(&[1, 4], vec![mark(1, 2, "--- 2 log lines lost. ---")]), None);
        assert_eq!(wrong(&[1, 2], vec![mark(2, 2, "--- 2 log lines lost. ---")]), None);
        assert!(wrong(&[1, 4], vec![mark(1, 1, "--- 1 log lines lost. ---")]).is_some(), "one too few");
        assert!(wrong(&[1, 2, 3, 4], vec![mark(2, 1, "--- 1 log lines lost. ---")]).is_some(), "nothing is missing");
        assert!(wrong(&[1, 4], vec![mark(1, 2, "--- some log lines lost. ---")]).is_some(), "without the number");
        let replay = "--- Orchestrator offline for 1s. Replaying 0 buffered events and 3 buffered log lines. ---";
        assert_eq!(wrong(&[1, 2, 3, 4], vec![mark(1, 0, replay)]), None);
        assert!(wrong(&[1, 2, 3, 4], vec![mark(2, 0, replay)]).is_some(), "only two came after it");
    }

    #[test]
    fn lines_that_went_with_an_older_disk_are_nobodys_to_send() {
        let ticket = Ticket { attempt: Uuid::nil(), fence: 1 };
        let wrong = |kept: u64| {
            let mut logs = Logs::default();
            (1..=4).for_each(|n| logs.printed(ticket, format!("line {n}"), true));
            logs.rolled_back(ticket, kept);
            let lines = (1..=2).map(|n| (n, format!("line {n}"))).collect();
            let state = LogState { complete: true, ..LogState::default() };
            let printed = &logs.printed[&AttemptId(ticket.attempt)];
            Stored { state, lines, marks: Vec::new() }.differs((printed, printed), &attempt("lost"), false)
        };
        assert_eq!(wrong(2), None);
        assert!(wrong(3).is_some(), "the third was there to be sent");
    }

    /// The last line was to come once more, since its commit was lost; then a power cut took it, and the rest was put away.
    #[test]
    fn what_was_announced_and_went_with_the_disk_is_nobodys_to_send() {
        let replay = "--- Orchestrator offline for 1s. Replaying 0 buffered events and 1 buffered log lines. ---";
        let wrong = |written| {
            let printed: Vec<Line> =
                (1..=4).map(|n| Line { text: format!("line {n}"), written: n < 4 || written }).collect();
            let lines = (1..=3).map(|n| (n, format!("line {n}"))).collect();
            let state = LogState { complete: true, ..LogState::default() };
            let stored = Stored { state, lines, marks: vec![mark(3, 0, replay)] };
            stored.differs((&printed, stored.up_to_its_end(&printed)), &attempt("lost"), false)
        };
        assert_eq!(wrong(false), None);
        assert!(wrong(true).is_some(), "it was there to be sent");
    }

    #[test]
    fn a_log_that_nobody_closed_or_that_was_closed_too_soon_is_found() {
        let differs = |state, lost| {
            Stored { state, lines: Vec::new(), marks: Vec::new() }.differs((&[], &[]), &attempt("lost"), lost)
        };
        let open = LogState::default();
        let closed = LogState { complete: true, closed: true, ..LogState::default() };
        assert!(differs(open, false).is_some());
        assert!(differs(closed, false).is_some(), "its folder is there, and its worker came back");
        assert_eq!(differs(closed, true), None);
    }

    #[test]
    fn what_was_announced_and_never_came_is_said_at_the_end() {
        let replay = "--- Orchestrator offline for 1s. Replaying 1 buffered events and 4 buffered log lines. ---";
        let wrong = |state, last_words: &str| {
            let printed = (1..=4).map(|n| Line { text: format!("line {n}"), written: true }).collect::<Vec<Line>>();
            let closing = LogMarkView { closing: true, ..mark(0, 0, last_words) };
            let closed = LogState { complete: true, closed: true, ..LogState::default() };
            let stored = Stored { state: closed, lines: Vec::new(), marks: vec![mark(0, 0, replay), closing] };
            stored.differs((&printed, &printed), &attempt(state), true)
        };
        assert_eq!(wrong("ended", "--- 4 log lines were not received: worker lost ---"), None);
        assert!(wrong("ended", "--- 3 log lines were not received: worker lost ---").is_some(), "one too few");
        let in_doubt = "--- an unknown number of log lines were not received: worker lost ---";
        assert_eq!(wrong("lost", in_doubt), None);
        assert!(wrong("ended", in_doubt).is_some(), "its end said how many there are");
    }
}
