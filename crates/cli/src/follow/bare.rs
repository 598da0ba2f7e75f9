//! One step, no terminal: its output as it was written, stdout to stdout, stderr to stderr, and nothing else.

use std::io::{self, Write};

use api::{LogLine, StepState, Stream};

use super::track::Track;
use super::view::View;
use crate::print::say;

pub(crate) struct Bare;

impl View for Bare {
    fn begin(&mut self, track: &Track) -> io::Result<()> {
        (0..track.steps.len()).try_for_each(|index| self.step_changed(track, index))
    }

    /// A step that another job does has no output of its own, so that job is named.
    fn step_changed(&mut self, track: &Track, index: usize) -> io::Result<()> {
        let step = &track.steps[index];
        match step.child().filter(|_| step.state == StepState::Running) {
            Some(child) => self.notice(&format!("job {child} does it; see it with `bowline attach {child}`")),
            None => Ok(()),
        }
    }

    fn lines(&mut self, _step: &str, lines: &[LogLine]) -> io::Result<()> {
        // Collected first: one system call per page, not one per line.
        let (mut out, mut err) = (Vec::new(), Vec::new());
        for line in lines {
            let to = match line.stream {
                Stream::Stdout => &mut out,
                Stream::Stderr | Stream::Server => &mut err,
            };
            to.extend_from_slice(&line.bytes());
            if line.ends_with_newline() {
                to.push(b'\n');
            }
        }
        io::stdout().write_all(&out)?;
        io::stdout().flush()?;
        // What cannot be shown on stderr must not stop what goes to stdout.
        let _ = io::stderr().write_all(&err);
        Ok(())
    }

    fn log_ended(&mut self, _step: &str) -> io::Result<()> {
        Ok(())
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        say(&format!("bowline: {text}"));
        Ok(())
    }

    fn end(&mut self, _track: &Track) -> io::Result<()> {
        Ok(())
    }
}
