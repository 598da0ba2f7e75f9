//! Texts and places in them. Every value that was read knows where it stood, so that every problem can say it.

use std::sync::Arc;

/// A text that people wrote: a file, or the value of an environment variable.
#[derive(Debug)]
pub(crate) struct Source {
    /// What people call it: the file's path as they gave it, or the variable's name.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Variables have no lines worth quoting and need no quotes around their values.
    pub(crate) is_variable: bool,
    line_starts: Vec<u32>,
}

impl Source {
    pub(crate) fn file(name: &str, text: &str) -> Arc<Source> {
        Arc::new(Source::new(name, text, false))
    }

    pub(crate) fn variable(name: &str, text: &str) -> Arc<Source> {
        Arc::new(Source::new(name, text, true))
    }

    fn new(name: &str, text: &str, is_variable: bool) -> Source {
        let after_breaks = text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(at, _)| offset(at + 1));
        let line_starts = std::iter::once(0).chain(after_breaks).collect();
        Source { name: name.to_owned(), text: text.to_owned(), is_variable, line_starts }
    }

    /// Line and column of a byte, both from 1; columns count characters.
    pub(crate) fn line_column(&self, byte: u32) -> (usize, usize) {
        let line = self.line_of(byte);
        let start = self.line_starts[line] as usize;
        let end = self.floor_boundary(byte as usize);
        let before = self.text.get(start..end).unwrap_or_default();
        (line + 1, before.chars().count() + 1)
    }

    /// A line's place in the text by its number from 0, its break left out.
    pub(crate) fn line_range(&self, line: usize) -> Option<std::ops::Range<usize>> {
        let start = *self.line_starts.get(line)? as usize;
        let end = self.line_starts.get(line + 1).map_or(self.text.len(), |&next| next as usize - 1);
        let text = &self.text[start..end];
        Some(start..start + text.strip_suffix('\r').unwrap_or(text).len())
    }

    /// The number, from 0, of the line that holds a byte.
    pub(crate) fn line_of(&self, byte: u32) -> usize {
        self.line_starts.partition_point(|&start| start <= byte).saturating_sub(1)
    }

    fn floor_boundary(&self, byte: usize) -> usize {
        let byte = byte.min(self.text.len());
        (0..=byte).rev().find(|&b| self.text.is_char_boundary(b)).unwrap_or(0)
    }
}

/// Some bytes of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    /// Index into the [`Sources`] at hand.
    pub(crate) source: u16,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(source: u16, start: usize, end: usize) -> Span {
        Span { source, start: offset(start), end: offset(end.max(start)) }
    }
}

/// The file and the variables that one reading is about.
#[derive(Debug)]
pub(crate) struct Sources(Vec<Arc<Source>>);

impl Sources {
    pub(crate) fn of_file(file: Arc<Source>) -> Sources {
        Sources(vec![file])
    }

    /// Takes one more in; none if there are too many to count.
    pub(crate) fn add(&mut self, source: Arc<Source>) -> Option<u16> {
        let index = u16::try_from(self.0.len()).ok()?;
        self.0.push(source);
        Some(index)
    }

    pub(crate) fn get(&self, span: Span) -> &Arc<Source> {
        &self.0[usize::from(span.source)]
    }
}

/// Texts are far smaller than 4 GiB: the loader refuses them long before.
fn offset(byte: usize) -> u32 {
    u32::try_from(byte).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source = Source::file("f", "å: x\r\nbøk: y\n");
        assert_eq!(source.line_column(0), (1, 1));
        assert_eq!(source.line_column(4), (1, 4));
        assert_eq!(source.line_column(7), (2, 1));
        assert_eq!(source.line_column(12), (2, 5));
        assert_eq!(source.line_range(0), Some(0..5));
        assert_eq!(source.line_range(2), Some(15..15));
        assert_eq!(source.line_range(3), None);
    }
}
