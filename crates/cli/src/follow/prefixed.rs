//! Several steps, no terminal: plain lines `step | text`, no colour.

use std::collections::HashMap;
use std::io::{self, Write};

use api::{LogLine, StepState, Stream};

use super::join::{Joined, Joiner};
use super::track::Track;
use super::view::View;
use crate::print::say;
use crate::times::{now, short};

pub(crate) struct Prefixed {
    joiners: HashMap<String, Joiner>,
    all_on_stderr: bool,
    /// Where the steps are in the beginning is told, too.
    tells_begin: bool,
}

impl Prefixed {
    /// Lines of stdout to stdout, lines of stderr to stderr.
    pub(crate) fn by_stream() -> Prefixed {
        Prefixed { joiners: HashMap::new(), all_on_stderr: false, tells_begin: false }
    }

    pub(crate) fn on_stderr() -> Prefixed {
        Prefixed { joiners: HashMap::new(), all_on_stderr: true, tells_begin: false }
    }

    /// Who wants nothing but the steps hears of those that were on their way, or over, before.
    pub(crate) fn telling_begin(self, tells_begin: bool) -> Prefixed {
        Prefixed { tells_begin, ..self }
    }

    fn show(&self, step: &str, lines: &[Joined]) -> io::Result<()> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        for line in lines {
            let to_stdout = line.stream == Stream::Stdout && !self.all_on_stderr;
            write_prefixed(if to_stdout { &mut out } else { &mut err }, step, &line.bytes);
        }
        io::stdout().write_all(&out)?;
        io::stdout().flush()?;
        let _ = io::stderr().write_all(&err);
        Ok(())
    }
}

impl View for Prefixed {
    fn begin(&mut self, track: &Track) -> io::Result<()> {
        // A step that is the first to be done by another job was begun with this one, and one that is over and did not go well
        // may be why the job ends as it does: nobody hears of either later.
        let told = |index: &usize| {
            let step = &track.steps[*index];
            let went_wrong = step.state.is_final() && step.state != StepState::Success;
            self.tells_begin || went_wrong || step.child().is_some()
        };
        let told: Vec<usize> = (0..track.steps.len()).filter(told).collect();
        told.into_iter().try_for_each(|index| self.step_changed(track, index))
    }

    fn step_changed(&mut self, track: &Track, index: usize) -> io::Result<()> {
        let step = &track.steps[index];
        let text = match step.state {
            StepState::Running if step.attempt > 1 => format!("running, attempt {}", step.attempt),
            StepState::Running if let Some(child) = step.child() => {
                format!("running as job {child}; see it with `bowline attach {child}`")
            }
            StepState::Running => "running".to_owned(),
            StepState::Success => match step.took() {
                Some(took) => format!("success in {}", short(took)),
                None => "success".to_owned(),
            },
            StepState::Pending | StepState::Queued => return Ok(()),
            other if step.reason.is_empty() => other.to_string(),
            other => format!("{other}: {}", step.reason),
        };
        say(&format!("{}: {text}", step.name));
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
        say(&format!("bowline: {text}"));
        Ok(())
    }

    fn end(&mut self, _track: &Track) -> io::Result<()> {
        Ok(())
    }
}

/// `step | text`, always on a line of its own.
pub(crate) fn write_prefixed(to: &mut Vec<u8>, step: &str, text: &[u8]) {
    to.extend_from_slice(step.as_bytes());
    to.extend_from_slice(b" | ");
    to.extend_from_slice(text);
    to.push(b'\n');
}
