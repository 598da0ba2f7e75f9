//! Diagnostics as people see them: the message, `file:line:column`, the line itself, a hint.
//!
//! ```text
//! error[unknown_key]: a step has no key `retires`
//!  --> nightly.yaml:7:5
//!   |
//! 7 |     retires: 3
//!   |     ^^^^^^^
//!   = help: did you mean `retry`?
//! ```

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Place, Severity};

/// A longer line says nothing to a reader; only its place is shown.
const LINE_SHOWN_MAX: usize = 500;

/// All of them, an empty line between each two.
pub fn render(diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let texts: Vec<String> = diagnostics.iter().map(|d| render_one(d, &renderer)).collect();
    texts.join("\n\n")
}

fn render_one(diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&*diagnostic.message).id(diagnostic.code.word());
    let mut group = place(Group::with_title(title), &diagnostic.place, AnnotationKind::Primary, None);
    for (related, label) in &diagnostic.related {
        group = place(group, related, AnnotationKind::Context, Some(label));
    }
    if let Some(hint) = &diagnostic.hint {
        group = group.element(Level::HELP.message(&**hint));
    }
    renderer.render(&[group])
}

/// Shows only the line where the place begins: sources are large, and the renderer walks all that it is given.
fn place<'a>(group: Group<'a>, place: &'a Place, kind: AnnotationKind, label: Option<&'a String>) -> Group<'a> {
    let source = &place.source;
    let (line, column) = source.line_column(place.start);
    let range = source.line_range(line - 1).unwrap_or(0..0);
    if range.len() > LINE_SHOWN_MAX {
        return group.element(Origin::path(&*source.name).line(line).char_column(column));
    }
    let start = (place.start as usize).clamp(range.start, range.end) - range.start;
    let end = (place.end as usize).clamp(range.start, range.end) - range.start;
    let text = &source.text[range];
    let span = whole_characters(text, start, end);
    group.element(Snippet::source(text).line_start(line).path(&*source.name).annotation(kind.span(span).label(label)))
}

fn whole_characters(text: &str, start: usize, end: usize) -> std::ops::Range<usize> {
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    boundary(start)..boundary(end.max(start))
}
