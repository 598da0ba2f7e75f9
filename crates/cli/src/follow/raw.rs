//! Log lines on stdout and nothing else: what `bowline logs` prints, followed or not.

use std::collections::HashMap;
use std::io::{self, Write};

use api::LogLine;

use super::join::{Joined, Joiner};
use super::prefixed::write_prefixed;
use super::track::Track;
use super::view::View;
use crate::print::say;
use crate::times::now;

pub(crate) struct Raw {
    joiners: HashMap<String, Joiner>,
    /// Several steps: each line tells whose it is.
    prefixes: bool,
    timestamps: bool,
}

impl Raw {
    pub(crate) fn new(prefixes: bool, timestamps: bool) -> Raw {
        Raw { joiners: HashMap::new(), prefixes, timestamps }
    }

    fn show(&self, step: &str, lines: &[Joined]) -> io::Result<()> {
        let mut out = Vec::new();
        for line in lines {
            self.write(&mut out, step, line);
        }
        io::stdout().write_all(&out)?;
        io::stdout().flush()
    }

    fn write(&self, out: &mut Vec<u8>, step: &str, line: &Joined) {
        let mut text = Vec::with_capacity(line.bytes.len() + 32);
        if self.timestamps {
            text.extend_from_slice(line.time.to_string().as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(&line.bytes);
        if self.prefixes {
            write_prefixed(out, step, &text);
        } else {
            out.append(&mut text);
            if line.newline || self.timestamps {
                out.push(b'\n');
            }
        }
    }
}

impl View for Raw {
    fn begin(&mut self, _track: &Track) -> io::Result<()> {
        Ok(())
    }

    fn step_changed(&mut self, _track: &Track, _index: usize) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use api::{Stream, Timestamp};

    use super::*;

    fn written(raw: &Raw, bytes: &[u8], newline: bool) -> String {
        let line = Joined { stream: Stream::Stdout, time: Timestamp::from_micros(0), bytes: bytes.to_vec(), newline };
        let mut out = Vec::new();
        raw.write(&mut out, "build", &line);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn lines_are_as_written_unless_more_is_wanted() {
        assert_eq!(written(&Raw::new(false, false), b"a\rb", true), "a\rb\n");
        assert_eq!(written(&Raw::new(false, false), b"end", false), "end");
        assert_eq!(written(&Raw::new(true, false), b"x", false), "build | x\n");
        assert_eq!(written(&Raw::new(false, true), b"x", true), "1970-01-01T00:00:00Z x\n");
    }
}
