//! One step, no terminal: its output as it was written, stdout to stdout, stderr to stderr, and nothing else.

use std::io::{self, Write};

use api::{LogLine, Stream};

use super::track::Track;
use super::view::View;
use crate::print::say;

pub(crate) struct Bare;

impl View for Bare {
    fn begin(&mut self, _track: &Track) -> io::Result<()> {
        Ok(())
    }

    fn step_changed(&mut self, _track: &Track, _index: usize) -> io::Result<()> {
        Ok(())
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
