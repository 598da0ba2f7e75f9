//! What happened, in words and in order, for whoever has to understand a finding.

use std::fmt;
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Story {
    told: bool,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    at: Duration,
    event: u64,
    words: String,
}

impl Story {
    pub(crate) fn tell(&mut self) {
        self.told = true;
    }

    pub(crate) fn add(&mut self, at: Duration, event: u64, words: impl FnOnce() -> String) {
        if self.told {
            self.lines.push(Line { at, event, words: words() });
        }
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Line { at, event, words } in &self.lines {
            let (secs, millis) = (at.as_secs(), at.subsec_millis());
            writeln!(f, "{:02}:{:02}:{:02}.{millis:03} {event:>8}  {words}", secs / 3600, secs / 60 % 60, secs % 60)?;
        }
        Ok(())
    }
}
