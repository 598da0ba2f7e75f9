//! A terminal's screen, as far as the live display needs one. What it does not know it refuses: the display may use
//! only what every terminal can do.

#[derive(Debug)]
pub(crate) struct Emulator {
    columns: usize,
    /// The screen, top first; all as wide as `columns`.
    lines: Vec<Vec<char>>,
    /// What has left the screen at its top.
    history: Vec<String>,
    row: usize,
    column: usize,
    /// The last column was written: the next character begins a new line.
    wraps: bool,
    pub(crate) cursor_hidden: bool,
    /// An escape sequence, or a character, that has not come whole yet.
    rest: Vec<u8>,
}

impl Emulator {
    pub(crate) fn new(columns: usize, rows: usize) -> Emulator {
        Emulator {
            columns,
            lines: vec![vec![' '; columns]; rows],
            history: Vec::new(),
            row: 0,
            column: 0,
            wraps: false,
            cursor_hidden: false,
            rest: Vec::new(),
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.rest);
        let text = match std::str::from_utf8(&all) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&all[..error.valid_up_to()]).expect("valid up to there"),
        };
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            if c == '\u{1b}' {
                let Some(end) = text[at..].find(|c: char| c.is_ascii_alphabetic()) else { break };
                self.escape(&text[at + 1..=at + end]);
                at += end + 1;
                continue;
            }
            self.character(c);
            at += c.len_utf8();
        }
        self.rest = all[at..].to_vec();
    }

    /// As most terminals do it: rows are cut, not wrapped anew; what does not fit below leaves at the top.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize) {
        while self.lines.len() > rows {
            if self.row + 1 < self.lines.len() {
                self.lines.pop();
            } else {
                self.scroll();
                self.lines.pop();
                self.row -= 1;
            }
        }
        self.columns = columns;
        self.lines.resize(rows, Vec::new());
        for line in &mut self.lines {
            line.resize(columns, ' ');
        }
        self.column = self.column.min(columns - 1);
        self.wraps = false;
    }

    /// Everything that was ever shown, without trailing blanks.
    pub(crate) fn text(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.history.iter().cloned().chain(self.lines.iter().map(|line| trimmed(line))).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    /// Where the cursor is: the line, of those that [`text`](Emulator::text) gives, and the column.
    pub(crate) fn cursor(&self) -> (usize, usize) {
        (self.history.len() + self.row, self.column)
    }

    fn character(&mut self, c: char) {
        match c {
            '\r' => (self.column, self.wraps) = (0, false),
            '\n' => self.down(),
            '\u{8}' => self.column = self.column.saturating_sub(1),
            c => {
                assert!(!c.is_control(), "a terminal was sent {c:?}");
                if self.wraps {
                    self.column = 0;
                    self.wraps = false;
                    self.down();
                }
                self.lines[self.row][self.column] = c;
                if self.column + 1 < self.columns {
                    self.column += 1;
                } else {
                    self.wraps = true;
                }
            }
        }
    }

    fn escape(&mut self, sequence: &str) {
        let (parameters, last) = sequence.split_at(sequence.len() - 1);
        let parameters = parameters.strip_prefix('[').unwrap_or_else(|| panic!("not understood: ESC {sequence}"));
        match (parameters, last) {
            (_, "m") | ("?2026", "h" | "l") => {}
            ("?25", set) => self.cursor_hidden = set == "l",
            (count, "A") => self.row = self.row.saturating_sub(count.parse().expect("a count")),
            ("", "K") => self.lines[self.row][self.column..].fill(' '),
            ("", "J") => {
                self.lines[self.row][self.column..].fill(' ');
                self.lines[self.row + 1..].iter_mut().for_each(|line| line.fill(' '));
            }
            _ => panic!("not understood: ESC {sequence}"),
        }
    }

    fn down(&mut self) {
        if self.row + 1 < self.lines.len() {
            self.row += 1;
        } else {
            self.scroll();
        }
    }

    fn scroll(&mut self) {
        let top = self.lines.remove(0);
        self.history.push(trimmed(&top));
        self.lines.push(vec![' '; self.columns]);
    }
}

fn trimmed(line: &[char]) -> String {
    line.iter().collect::<String>().trim_end().to_owned()
}
