//! A job and its steps as rows of text: the picture that the live display draws. Pure.
//!
//! Names are ASCII and marks are one column wide, so characters are columns here.

use std::time::Duration;

use api::{JobState, StepState, Timestamp};

use super::screen::Size;
use super::track::{Track, TrackedStep};
use crate::style::{Tone, coloured, job_tone, step_mark, step_tone};
use crate::times::{between, short, waiting_until};

/// More rows than this would push the log off the screen.
const ROWS_MAX: usize = 16;

/// At the end nothing follows, so all steps are told, but not a flood of them.
const END_ROWS_MAX: usize = 100;

/// Longer names are cut in the middle.
const NAME_WIDTH_MAX: usize = 32;

/// The longest word for a state.
const STATE_WIDTH: usize = 10;

/// What moves beside a running step.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// When a picture is of, and how large it may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    pub(crate) size: Size,
    /// Counts up; turns the spinners.
    pub(crate) tick: usize,
}

/// How much of the screen a picture may take while the job is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// So much that the log has room too.
    BesidesLog,
    /// All of it: no log is shown.
    Whole,
}

impl Share {
    /// With the head.
    fn rows(self, size: Size) -> usize {
        let most = match self {
            Share::BesidesLog => (size.rows / 2).min(ROWS_MAX),
            Share::Whole => size.rows,
        };
        // The cursor rests in a row of its own.
        most.min(size.rows.saturating_sub(1)).max(1)
    }
}

/// While the job is on its way.
pub(crate) fn live(track: &Track, moment: Moment, share: Share) -> Vec<String> {
    picture(track, moment, share.rows(moment.size) - 1)
}

/// When it is over.
pub(crate) fn last(track: &Track, moment: Moment) -> Vec<String> {
    picture(track, moment, END_ROWS_MAX)
}

/// Whether there is a row for every step while the job is on its way.
pub(crate) fn shows_all(track: &Track, size: Size, share: Share) -> bool {
    track.steps.len() < share.rows(size)
}

/// Cuts in the middle: names that belong together often begin alike, and differ at their ends.
pub(crate) fn cut(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head = width.saturating_sub(1) - tail;
    let begin: String = name.chars().take(head).collect();
    let end: String = name.chars().skip(length - tail).collect();
    format!("{begin}…{end}")
}

/// The head and at most `room` rows under it.
fn picture(track: &Track, moment: Moment, room: usize) -> Vec<String> {
    let chosen = chosen(track, room);
    let hidden = track.steps.len() - chosen.len();
    let longest = chosen.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    let width = longest.min(NAME_WIDTH_MAX).min((moment.size.columns / 3).max(4));
    let mut rows = vec![head(track, moment)];
    for (index, step) in chosen.iter().enumerate() {
        let is_last = index + 1 == chosen.len() && (hidden == 0 || chosen.len() == room);
        let branch = if is_last { "└─ " } else { "├─ " };
        rows.push(row(step, branch, width, moment));
    }
    if hidden > 0 && chosen.len() < room {
        rows.push(Row::new(moment).add(Tone::Quiet, &format!("└─ {}", tally(track, &chosen))).done());
    }
    rows
}

/// The steps that say most, in the job's order. If not all fit, one row is left for the count of the others; but a
/// single row rather shows a step.
fn chosen(track: &Track, room: usize) -> Vec<&TrackedStep> {
    if track.steps.len() <= room {
        let mut all: Vec<&TrackedStep> = track.steps.iter().collect();
        all.sort_by_key(|step| step.place);
        return all;
    }
    let mut order: Vec<&TrackedStep> = track.steps.iter().collect();
    order.sort_by_key(|step| (rank(step.state), step.place));
    order.truncate(if room > 1 { room - 1 } else { room });
    order.sort_by_key(|step| step.place);
    order
}

fn rank(state: StepState) -> u8 {
    match state {
        StepState::Running | StepState::Recovering | StepState::Cancelling | StepState::Held => 0,
        StepState::Failed | StepState::Cancelled => 1,
        StepState::Waiting => 2,
        StepState::Queued => 3,
        StepState::Pending => 4,
        StepState::Skipped => 5,
        StepState::Success => 6,
    }
}

/// `40 more: 30 pending, 10 success`.
fn tally(track: &Track, chosen: &[&TrackedStep]) -> String {
    let shown = |state| chosen.iter().filter(|step| step.state == state).count();
    let counts = StepState::ALL.iter().map(|&state| (state, track.count(|s| s == state) - shown(state)));
    let told: Vec<String> = counts.filter(|(_, n)| *n > 0).map(|(state, n)| format!("{n} {state}")).collect();
    format!("{} more: {}", track.steps.len() - chosen.len(), told.join(", "))
}

fn head(track: &Track, moment: Moment) -> String {
    let done = track.count(StepState::is_final);
    let (mark, took) = match track.state {
        state if state.is_final() => {
            let end = track.ended_at.unwrap_or(moment.now);
            (state.word().to_owned(), short(between(track.created_at, end)))
        }
        JobState::Running | JobState::Pending => (spinner(moment), running_for(track.created_at, moment)),
        state => (format!("{} {state}", spinner(moment)), running_for(track.created_at, moment)),
    };
    Row::new(moment)
        .add(Tone::Strong, &cut(&track.task, NAME_WIDTH_MAX))
        .add(job_tone(track.state), &format!(" {mark}"))
        .add(Tone::Plain, &format!(" {done}/{}", track.steps.len()))
        .add(Tone::Quiet, &format!(" {took}  {}", track.id))
        .done()
}

fn row(step: &TrackedStep, branch: &str, width: usize, moment: Moment) -> String {
    let mark = match step.state {
        StepState::Running => spinner(moment),
        other => step_mark(other).to_string(),
    };
    let took = match (step.took(), step.started_at) {
        (Some(took), _) => short(took),
        (None, Some(start)) if is_on_a_worker(step.state) => running_for(start, moment),
        (None, Some(_) | None) => String::new(),
    };
    let attempt = if step.attempt > 1 { format!("  attempt {}", step.attempt) } else { String::new() };
    let reason = match step.state {
        StepState::Failed | StepState::Cancelled if !step.reason.is_empty() => format!("  {}", narrow(&step.reason)),
        _ => step.child().map(|child| format!("  job {child}")).unwrap_or_default(),
    };
    let state = match step.waiting_until() {
        Some(until) => waiting_until(until, moment.now),
        None => step.state.word().to_owned(),
    };
    Row::new(moment)
        .add(Tone::Quiet, branch)
        .add(Tone::Plain, &format!("{:width$} ", cut(&step.name, width)))
        .add(step_tone(step.state), &format!("{mark} {state:STATE_WIDTH$}"))
        .add(Tone::Quiet, &format!(" {took:>5}{attempt}{reason}"))
        .done()
}

fn is_on_a_worker(state: StepState) -> bool {
    matches!(state, StepState::Running | StepState::Recovering | StepState::Cancelling)
}

/// Every character one column wide: a row that wraps would spoil the picture. Scripts beyond Latin are told in full
/// under the picture, with the job's error.
fn narrow(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() {
                ' '
            } else if c < '\u{300}' {
                c
            } else {
                '?'
            }
        })
        .collect()
}

fn spinner(moment: Moment) -> String {
    SPINNER[moment.tick % SPINNER.len()].to_string()
}

/// Tenths, not thousandths: digits that change with every frame tell nothing.
fn running_for(start: Timestamp, moment: Moment) -> String {
    let time = between(start, moment.now);
    if time < Duration::from_secs(1) { format!("0.{}s", time.subsec_millis() / 100) } else { short(time) }
}

/// A row that grows until the terminal's edge. The last column stays free: a character there would be on the brink of
/// the next line.
struct Row {
    text: String,
    left: usize,
}

impl Row {
    fn new(moment: Moment) -> Row {
        Row { text: String::new(), left: moment.size.columns.saturating_sub(1) }
    }

    fn add(mut self, tone: Tone, text: &str) -> Row {
        let part: String = text.chars().take(self.left).collect();
        self.left -= part.chars().count();
        if !part.is_empty() {
            self.text.push_str(&coloured(tone, &part));
        }
        self
    }

    fn done(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(states: &[&str]) -> Track {
        let step = |(n, state): (usize, &&str)| {
            format!(r#"{{"name":"step-{n}","state":"{state}","attempt":0,"dispatch_attempts":0}}"#)
        };
        let steps: Vec<String> = states.iter().enumerate().map(step).collect();
        let job = format!(
            r#"{{"id":"01930000-0000-7000-8000-0000000000aa","task":"t","state":"running",
                "created_at":"1970-01-01T00:00:00Z","steps":[{}]}}"#,
            steps.join(",")
        );
        Track::new(&serde_json::from_str(&job).expect("a job"))
    }

    fn moment(columns: usize, rows: usize) -> Moment {
        Moment { now: Timestamp::from_micros(2_500_000), size: Size { columns, rows }, tick: 0 }
    }

    /// Without its colours.
    fn plain(rows: Vec<String>) -> Vec<String> {
        let strip = |row: String| anstream::adapter::strip_str(&row).to_string();
        rows.into_iter().map(strip).map(|row| row.trim_end().to_owned()).collect()
    }

    #[test]
    fn a_small_job_is_shown_whole() {
        assert_eq!(
            plain(live(&track(&["success", "running"]), moment(80, 24), Share::BesidesLog)),
            ["t ⠋ 1/2 2.5s  01930000-0000-7000-8000-0000000000aa", "├─ step-0 ✓ success", "└─ step-1 ⠋ running"]
        );
    }

    #[test]
    fn a_step_that_waits_says_until_when() {
        let mut track = track(&["waiting", "waiting"]);
        let until = Timestamp::from_micros(242_500_000);
        track.steps[1].hear_wait(Some(&api::Waiting { until, reason: api::WaitReason::Retry }));
        assert_eq!(
            plain(live(&track, moment(80, 24), Share::Whole))[1..],
            ["├─ step-0 ○ waiting", "└─ step-1 ○ waiting (4m00s)"]
        );
    }

    #[test]
    fn a_large_job_shows_what_moves_and_counts_the_rest() {
        let mut states = vec!["success"; 40];
        states.extend(["failed", "running", "queued"]);
        states.extend(["pending"; 40]);
        let shown = plain(live(&track(&states), moment(80, 12), Share::BesidesLog));
        assert_eq!(shown.len(), 6);
        assert_eq!(
            shown[1..5],
            ["├─ step-40 ✗ failed", "├─ step-41 ⠋ running", "├─ step-42 ○ queued", "├─ step-43 ○ pending"]
        );
        assert_eq!(shown[5], "└─ 79 more: 39 pending, 40 success");
    }

    #[test]
    fn no_row_reaches_the_edge_and_the_picture_is_lower_than_the_screen() {
        let states = vec!["running"; 30];
        for columns in [1, 2, 5, 12, 40, 200] {
            for rows in [1, 2, 3, 10, 50] {
                for share in [Share::BesidesLog, Share::Whole] {
                    let shown = plain(live(&track(&states), moment(columns, rows), share));
                    assert!(shown.len() < rows.max(2), "{columns}x{rows}: {shown:?}");
                    assert!(shown.iter().all(|row| row.chars().count() < columns), "{columns}x{rows}: {shown:?}");
                }
            }
        }
    }

    #[test]
    fn without_a_log_the_picture_takes_the_screen() {
        let states = vec!["running"; 30];
        assert_eq!(live(&track(&states), moment(80, 40), Share::BesidesLog).len(), ROWS_MAX);
        assert_eq!(live(&track(&states), moment(80, 40), Share::Whole).len(), 31);
        assert_eq!(live(&track(&states), moment(80, 20), Share::Whole).len(), 19);
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(cut("build", 5), "build");
        assert_eq!(cut("test-linux-x86", 9), "test…-x86");
        assert_eq!(cut("abc", 1), "…");
    }
}
