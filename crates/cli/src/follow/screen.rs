//! The part of the terminal that moves: a few rows under the log, drawn over and over in their place.
//!
//! The cursor is never hidden and rests at the start of the line below the rows. So whatever ends this process, be it
//! a kill, leaves the terminal in order, and an echoed `^C` stands where the next frame wipes it away.
//!
//! A frame is one write: nobody sees half of one. Rows that did not change are not sent again.
//!
//! Some terminals wrap what they show anew when they become narrower, others cut it, and none tells. So as many rows
//! are drawn over as were drawn: then a few may stay above as they were, but no line of the log is ever lost.

use std::fmt::Write as _;
use std::io::{self, Write as _};

/// What a terminal that does not tell is taken for.
const SIZE_UNKNOWN: Size = Size { columns: 80, rows: 24 };

/// Begin and end of a frame, for terminals that then show it as a whole; others ignore it.
const FRAME_BEGIN: &str = "\u{1b}[?2026h";
const FRAME_END: &str = "\u{1b}[?2026l";

const CLEAR_BELOW: &str = "\u{1b}[J";
const CLEAR_TO_RIGHT: &str = "\u{1b}[K";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// Asked anew for every frame: people change it at any time.
    pub(crate) fn now() -> Size {
        match rustix::termios::tcgetwinsize(io::stderr()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { columns: usize::from(size.ws_col), rows: usize::from(size.ws_row) }
            }
            Ok(_) | Err(_) => SIZE_UNKNOWN,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Screen {
    /// The rows as they were last drawn.
    shown: Vec<String>,
    /// How large the terminal was then.
    size: Option<Size>,
}

impl Screen {
    /// Puts lines above the rows, for good, and draws the rows. Each row must be narrower than the terminal.
    pub(crate) fn draw(&mut self, log: &[String], rows: Vec<String>, size: Size) -> io::Result<()> {
        if let Some(frame) = self.frame(log, rows, size) {
            let mut out = io::stderr().lock();
            out.write_all(frame.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }

    /// Whether the terminal is as it was at the last frame.
    pub(crate) fn fits(&self, size: Size) -> bool {
        self.size.is_none_or(|before| before == size)
    }

    /// What was drawn is somewhere above now: others wrote to the terminal, as a shell does when we were stopped.
    pub(crate) fn leave(&mut self) {
        self.shown.clear();
    }

    /// The bytes that make the new picture of the old one; none if there is nothing to change.
    fn frame(&mut self, log: &[String], rows: Vec<String>, size: Size) -> Option<String> {
        let resized = self.size.replace(size).is_some_and(|before| before != size);
        if log.is_empty() && !resized && rows == self.shown {
            return None;
        }
        let mut frame = FRAME_BEGIN.to_owned();
        frame.push('\r');
        // What has left the screen at its top cannot be drawn over any more.
        let up = self.shown.len().min(size.rows - 1);
        climb(&mut frame, up);
        let afresh = !log.is_empty() || resized || up < self.shown.len();
        if afresh {
            // Line by line: some terminals keep what is cleared at once from the top of the screen on.
            frame.push_str(&format!("{CLEAR_TO_RIGHT}\r\n").repeat(up));
            frame.push_str(CLEAR_TO_RIGHT);
            climb(&mut frame, up);
        }
        for line in log {
            frame.push_str(line);
            frame.push_str("\r\n");
        }
        for (index, row) in rows.iter().enumerate() {
            if afresh || self.shown.get(index) != Some(row) {
                frame.push_str(row);
                frame.push_str(CLEAR_TO_RIGHT);
            }
            frame.push_str("\r\n");
        }
        frame.push_str(CLEAR_BELOW);
        frame.push_str(FRAME_END);
        self.shown = rows;
        Some(frame)
    }
}

fn climb(frame: &mut String, rows: usize) {
    if rows > 0 {
        let _ = write!(frame, "\u{1b}[{rows}A");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { columns: 20, rows: 5 };

    fn rows(rows: &[&str]) -> Vec<String> {
        rows.iter().map(|&row| row.to_owned()).collect()
    }

    fn frame(screen: &mut Screen, log: &[&str], new: &[&str], size: Size) -> Option<String> {
        let frame = screen.frame(&rows(log), rows(new), size)?;
        let inner = frame.strip_prefix(FRAME_BEGIN).and_then(|f| f.strip_suffix(FRAME_END)).expect("a whole frame");
        Some(inner.replace('\u{1b}', "^"))
    }

    #[test]
    fn only_what_changed_is_sent() {
        let mut screen = Screen::default();
        assert_eq!(frame(&mut screen, &[], &["a", "b"], SIZE).as_deref(), Some("\ra^[K\r\nb^[K\r\n^[J"));
        assert_eq!(frame(&mut screen, &[], &["a", "b"], SIZE), None);
        assert_eq!(frame(&mut screen, &[], &["a", "c"], SIZE).as_deref(), Some("\r^[2A\r\nc^[K\r\n^[J"));
        assert_eq!(frame(&mut screen, &[], &["a"], SIZE).as_deref(), Some("\r^[2A\r\n^[J"));
    }

    #[test]
    fn a_log_line_goes_above_and_all_rows_follow() {
        let mut screen = Screen::default();
        frame(&mut screen, &[], &["a", "b"], SIZE);
        let told = frame(&mut screen, &["line"], &["a", "b"], SIZE);
        assert_eq!(told.as_deref(), Some("\r^[2A^[K\r\n^[K\r\n^[K^[2Aline\r\na^[K\r\nb^[K\r\n^[J"));
    }

    #[test]
    fn a_resize_draws_all_again_and_climbs_no_higher_than_the_screen() {
        let mut screen = Screen::default();
        frame(&mut screen, &[], &["a", "b", "c"], SIZE);
        let narrow = Size { columns: 10, rows: 3 };
        assert_eq!(frame(&mut screen, &[], &["a"], narrow).as_deref(), Some("\r^[2A^[K\r\n^[K\r\n^[K^[2Aa^[K\r\n^[J"));
        screen.leave();
        assert_eq!(frame(&mut screen, &[], &["a"], narrow).as_deref(), Some("\ra^[K\r\n^[J"));
    }
}
