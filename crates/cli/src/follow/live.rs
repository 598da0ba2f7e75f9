//! On a terminal: the job with its steps as a tree that moves, the log above it.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use api::job::StepKind;
use api::{Job, LogLine, Step, StepState, Stream};
use owo_colors::OwoColorize;

use super::join::{Joined, Joiner};
use super::screen::{Screen, Size};
use super::text::tame;
use super::track::Track;
use super::tree::{self, Moment, Share, cut};
use super::view::{View, has_one_log};
use crate::style::step_mark;
use crate::times::now;

/// The part of a line of the log that names its step.
const PREFIX_WIDTH_MAX: usize = 20;

/// The number of an item, `[999]`, behind the name of its step.
const ITEM_WIDTH: usize = 5;

/// A display that did not move for so long was stopped, as by Ctrl-Z, and its shell had the terminal meanwhile.
const STOPPED_AFTER: Duration = Duration::from_secs(2);

pub(crate) struct Live {
    screen: Screen,
    /// What the tree was last drawn from; lines of the log come without it.
    rows: Vec<String>,
    joiners: HashMap<String, Joiner>,
    /// The longest name, if the job has several steps: then each line tells whose it is.
    prefix: Option<usize>,
    began: Instant,
    drawn: Instant,
    share: Share,
}

impl Live {
    pub(crate) fn new(job: &Job, share: Share) -> Live {
        let longest = job.steps.iter().map(name_width).max().unwrap_or(0);
        Live {
            screen: Screen::default(),
            rows: Vec::new(),
            joiners: HashMap::new(),
            prefix: (!has_one_log(job)).then_some(longest.min(PREFIX_WIDTH_MAX)),
            began: Instant::now(),
            drawn: Instant::now(),
            share,
        }
    }

    fn moment(&self) -> Moment {
        let ticks = self.began.elapsed().as_millis() / super::TICK.as_millis();
        Moment { now: now(), size: Size::now(), tick: usize::try_from(ticks).unwrap_or(0) }
    }

    fn draw(&mut self, track: &Track) -> io::Result<()> {
        if self.drawn.elapsed() > STOPPED_AFTER {
            self.screen.leave();
        }
        let moment = self.moment();
        self.rows = tree::live(track, moment, self.share);
        let drawn = self.screen.draw(&[], self.rows.clone(), moment.size);
        self.drawn = Instant::now();
        drawn
    }

    /// Puts lines above the tree, which stays as it was: it moves by its own ticks.
    fn print(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let size = Size::now();
        // A tree for a wider terminal waits for its tick.
        let rows = if self.screen.fits(size) { self.rows.clone() } else { Vec::new() };
        self.screen.draw(lines, rows, size)
    }

    fn show(&mut self, step: &str, lines: &[Joined]) -> io::Result<()> {
        let prefix = self.prefix.map(|width| {
            let width = width.min((Size::now().columns / 4).max(4));
            format!("{:>width$} {} ", cut(step, width).dimmed(), "|".dimmed())
        });
        let prefix = prefix.unwrap_or_default();
        let text = |line: &Joined| {
            let text = tame(&String::from_utf8_lossy(&line.bytes));
            match line.stream {
                Stream::Server => format!("{prefix}{}", text.dimmed()),
                Stream::Stdout | Stream::Stderr => format!("{prefix}{text}"),
            }
        };
        self.print(&lines.iter().map(text).collect::<Vec<String>>())
    }
}

/// What a step's name takes in front of a line; what it becomes later has longer ones.
fn name_width(step: &Step) -> usize {
    let of_items = if step.kind == StepKind::FanOut { ITEM_WIDTH } else { 0 };
    step.name.chars().count() + of_items
}

impl View for Live {
    fn begin(&mut self, track: &Track) -> io::Result<()> {
        self.draw(track)
    }

    /// The tree moves with the next tick; only what may have no row there is told.
    fn step_changed(&mut self, track: &Track, index: usize) -> io::Result<()> {
        let step = &track.steps[index];
        let is_bad = matches!(step.state, StepState::Failed | StepState::Cancelled);
        if !is_bad || tree::shows_all(track, Size::now(), self.share) {
            return Ok(());
        }
        let reason = tame(&step.reason);
        self.print(&[format!("{} {}: {reason}", step_mark(step.state).red(), step.name)])
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
        self.print(&[format!("{} {}", "bowline:".yellow(), tame(text))])
    }

    fn end(&mut self, track: &Track) -> io::Result<()> {
        let moment = self.moment();
        self.screen.draw(&[], tree::last(track, moment), moment.size)
    }

    fn is_live(&self) -> bool {
        true
    }

    fn tick(&mut self, track: &Track) -> io::Result<()> {
        self.draw(track)
    }
}
