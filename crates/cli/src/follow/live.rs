//! On a terminal: the job with its steps as a tree that moves, the log above it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::Instant;

use api::{Job, JobState, LogLine, StepState, Stream};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use owo_colors::OwoColorize;

use super::join::{Joined, Joiner};
use super::text::tame;
use super::track::{Track, TrackedStep};
use super::view::View;
use crate::style::{job_state, step_mark, step_state};
use crate::times::{between, now, short};

/// More rows than this would push the log off the screen; then only steps that are on the move are shown.
const ROWS_MAX: usize = 16;

/// What moves beside a running step.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

pub(crate) struct Live {
    screen: MultiProgress,
    head: ProgressBar,
    /// By the step's place in the job.
    rows: BTreeMap<usize, ProgressBar>,
    joiners: HashMap<String, Joiner>,
    /// All steps have a row from the start.
    shows_all: bool,
    prefixes: bool,
    name_width: usize,
    began: Instant,
}

impl Live {
    pub(crate) fn new(job: &Job) -> Live {
        let screen = MultiProgress::new();
        let head = screen.add(row());
        let longest = job.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
        Live {
            screen,
            head,
            rows: BTreeMap::new(),
            joiners: HashMap::new(),
            shows_all: job.steps.len() <= ROWS_MAX,
            prefixes: job.steps.len() > 1,
            name_width: longest.min(40),
            began: Instant::now(),
        }
    }

    fn draw(&mut self, track: &Track) {
        let frame = self.frame();
        self.head.set_message(self.head_text(track));
        self.head.tick();
        let last = self.rows.keys().next_back().copied();
        for (&index, row) in &self.rows {
            let branch = if Some(index) == last { "└─" } else { "├─" };
            row.set_message(format!("{} {}", branch.dimmed(), self.row_text(&track.steps[index], frame)));
            row.tick();
        }
    }

    fn frame(&self) -> char {
        let count = self.began.elapsed().as_millis() / super::TICK.as_millis();
        SPINNER[usize::try_from(count).unwrap_or(0) % SPINNER.len()]
    }

    fn head_text(&self, track: &Track) -> String {
        let done = track.count(StepState::is_final);
        let took = short(between(track.created_at, now()));
        let state = match track.state {
            JobState::Running | JobState::Pending => self.frame().cyan().to_string(),
            other => job_state(other),
        };
        format!("{} {state} {done}/{} {}", track.task.bold(), track.steps.len(), took.dimmed())
    }

    fn row_text(&self, step: &TrackedStep, frame: char) -> String {
        let mark = match step.state {
            StepState::Running => format!("{} {}", frame.cyan(), "running".cyan()),
            other => step_state(other),
        };
        let took = match (step.started_at, step.ended_at) {
            (Some(start), Some(end)) => short(between(start, end)),
            (Some(start), None) => short(between(start, now())),
            (None, _) => String::new(),
        };
        let attempt = if step.attempt > 1 { format!(" attempt {}", step.attempt) } else { String::new() };
        format!("{:width$} {mark}{attempt} {}", step.name, took.dimmed(), width = self.name_width)
    }

    /// Gives the step a row, or takes it away, where not all have one.
    fn arrange(&mut self, track: &Track, index: usize) -> io::Result<()> {
        let step = &track.steps[index];
        let moves = !step.state.is_final() && !matches!(step.state, StepState::Pending | StepState::Queued);
        if moves && !self.rows.contains_key(&index) && self.rows.len() < ROWS_MAX {
            let place = self.rows.range(..index).count() + 1;
            let bar = self.screen.insert(place, row());
            self.rows.insert(index, bar);
        } else if step.state.is_final() {
            if let Some(bar) = self.rows.remove(&index) {
                bar.finish_and_clear();
                self.screen.remove(&bar);
            }
            if matches!(step.state, StepState::Failed | StepState::Cancelled) {
                self.screen.println(format!(
                    "{} {}: {}",
                    step_mark(step.state).red(),
                    step.name,
                    tame(&step.reason)
                ))?;
            }
        }
        Ok(())
    }

    fn show(&self, step: &str, lines: &[Joined]) -> io::Result<()> {
        for line in lines {
            let text = tame(&String::from_utf8_lossy(&line.bytes));
            let text = match line.stream {
                Stream::Server => text.dimmed().to_string(),
                Stream::Stdout | Stream::Stderr => text,
            };
            if self.prefixes {
                self.screen.println(format!(
                    "{:>width$} {} {text}",
                    step.dimmed(),
                    "|".dimmed(),
                    width = self.name_width
                ))?;
            } else {
                self.screen.println(text)?;
            }
        }
        Ok(())
    }
}

impl View for Live {
    fn begin(&mut self, track: &Track) -> io::Result<()> {
        for index in 0..track.steps.len() {
            if self.shows_all {
                let bar = self.screen.add(row());
                self.rows.insert(index, bar);
            } else {
                self.arrange(track, index)?;
            }
        }
        self.draw(track);
        Ok(())
    }

    fn step_changed(&mut self, track: &Track, index: usize) -> io::Result<()> {
        if !self.shows_all {
            self.arrange(track, index)?;
        }
        self.draw(track);
        Ok(())
    }

    fn lines(&mut self, step: &str, lines: &[LogLine]) -> io::Result<()> {
        let joiner = self.joiners.entry(step.to_owned()).or_default();
        let whole: Vec<Joined> = lines.iter().filter_map(|line| joiner.push(line)).collect();
        self.show(step, &whole)
    }

    fn log_ended(&mut self, step: &str) -> io::Result<()> {
        let rest = self.joiners.remove(step).map(|mut joiner| joiner.rest(now())).unwrap_or_default();
        self.show(step, &rest)
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        self.screen.println(format!("{} {text}", "bowline:".yellow()))
    }

    fn end(&mut self, track: &Track) -> io::Result<()> {
        self.draw(track);
        for bar in self.rows.values().chain([&self.head]) {
            bar.abandon();
        }
        Ok(())
    }

    fn is_live(&self) -> bool {
        true
    }

    fn tick(&mut self, track: &Track) {
        self.draw(track);
    }
}

fn row() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}").expect("the template is fixed and good");
    ProgressBar::no_length().with_style(style)
}
