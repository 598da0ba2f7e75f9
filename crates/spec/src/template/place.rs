//! Where in the file a piece of a value stands. Quotes, escapes and indentation lie between the two.

use std::ops::Range;

use crate::source::{Source, Span};
use crate::yaml::{Node, Style, Value};

/// The place of `range` of the node's text; the whole value where the file writes it otherwise.
pub(crate) fn within(node: &Node, source: &Source, range: &Range<usize>) -> Span {
    exactly(node, source, range).unwrap_or(node.span)
}

fn exactly(node: &Node, source: &Source, range: &Range<usize>) -> Option<Span> {
    let Value::Scalar { text, style } = &node.value else { return None };
    let start = match style {
        Style::Plain => node.span.start as usize + range.start,
        Style::Quoted => node.span.start as usize + 1 + range.start,
        Style::Literal | Style::Folded => in_block(node, source, text, range.start)?,
    };
    // Only what reads the same in the file is pointed at.
    let piece = text.get(range.clone())?.lines().next().unwrap_or_default();
    let end = start + piece.len();
    (source.text.get(start..end)? == piece).then(|| Span::new(node.span.source, start, end))
}

/// A block's lines are the file's lines without their indentation.
fn in_block(node: &Node, source: &Source, text: &str, at: usize) -> Option<usize> {
    let before = text.get(..at)?;
    let line_number = before.matches('\n').count();
    let line_start = before.rfind('\n').map_or(0, |b| b + 1);
    let line = text[line_start..].lines().next()?;
    let in_file = source.line_range(source.line_of(node.span.start) + line_number)?;
    let indented = &source.text[in_file.clone()];
    let indentation = indented.strip_suffix(line)?.len();
    Some(in_file.start + indentation + (at - line_start))
}
