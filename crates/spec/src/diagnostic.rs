//! What is wrong with a text: collected, all of it, with places and hints. Made by the readers, shown by `render`.

use std::sync::Arc;

use crate::source::{Source, Sources, Span};

/// More than anyone reads at once; the rest is counted.
const DIAGNOSTICS_MAX: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// What kind of problem it is, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Not YAML.
    Syntax,
    /// Larger, deeper or more than we read.
    Limit,
    DuplicateKey,
    UnknownKey,
    MissingKey,
    WrongType,
    BadValue,
    BadName,
    BadTemplate,
    /// A template or condition names what is not there, or not yet there.
    UnknownReference,
    /// `needs` names a step that is not there.
    UnknownStep,
    Cycle,
    /// Keys that do not go together.
    Conflict,
    /// Two settings that must stand in a relation do not.
    BrokenRule,
    UnknownVariable,
    /// The server does not have a secret that is named.
    MissingSecret,
    /// Tasks that begin each other.
    TaskCycle,
    /// It waits for a slot that only those have who wait for it.
    GroupDeadlock,
    /// It may run twice although it must not.
    RiskyRetry,
    NotSupported,
}

impl Code {
    pub fn word(self) -> &'static str {
        match self {
            Code::Syntax => "syntax",
            Code::Limit => "limit",
            Code::DuplicateKey => "duplicate_key",
            Code::UnknownKey => "unknown_key",
            Code::MissingKey => "missing_key",
            Code::WrongType => "wrong_type",
            Code::BadValue => "bad_value",
            Code::BadName => "bad_name",
            Code::BadTemplate => "bad_template",
            Code::UnknownReference => "unknown_reference",
            Code::UnknownStep => "unknown_step",
            Code::Cycle => "cycle",
            Code::Conflict => "conflict",
            Code::BrokenRule => "broken_rule",
            Code::UnknownVariable => "unknown_variable",
            Code::MissingSecret => "missing_secret",
            Code::TaskCycle => "task_cycle",
            Code::GroupDeadlock => "group_deadlock",
            Code::RiskyRetry => "risky_retry",
            Code::NotSupported => "not_supported",
        }
    }
}

/// One problem, complete in itself.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    pub severity: Severity,
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
    pub place: Place,
    /// Other places that explain this one.
    pub related: Vec<(Place, String)>,
}

impl Diagnostic {
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    pub fn file(&self) -> &str {
        &self.place.source.name
    }

    /// From 1.
    pub fn line(&self) -> usize {
        self.place.source.line_column(self.place.start).0
    }

    /// From 1, in characters.
    pub fn column(&self) -> usize {
        self.place.source.line_column(self.place.start).1
    }
}

/// Some bytes of a text, with the text.
#[derive(Debug, Clone)]
pub struct Place {
    pub(crate) source: Arc<Source>,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A problem on its way into the [`Sink`].
#[must_use]
pub(crate) struct Finding {
    severity: Severity,
    code: Code,
    span: Span,
    message: String,
    hint: Option<String>,
    related: Vec<(Span, String)>,
    is_later_rule: bool,
}

impl Finding {
    pub(crate) fn error(code: Code, span: Span, message: impl Into<String>) -> Finding {
        let (message, hint, related) = (message.into(), None, Vec::new());
        Finding { severity: Severity::Error, code, span, message, hint, related, is_later_rule: false }
    }

    pub(crate) fn warning(code: Code, span: Span, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::error(code, span, message) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Finding {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn hint_if(mut self, hint: Option<String>) -> Finding {
        self.hint = hint.or(self.hint);
        self
    }

    /// A rule that there was not from the beginning: texts that were accepted without it are still read.
    pub(crate) fn later_rule(mut self) -> Finding {
        self.is_later_rule = true;
        self
    }

    pub(crate) fn related(mut self, span: Span, label: impl Into<String>) -> Finding {
        self.related.push((span, label.into()));
        self
    }
}

/// Where the readers leave what they find.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) sources: Sources,
    /// The text was accepted once, perhaps by an older version.
    was_accepted: bool,
    errors: Bounded,
    warnings: Bounded,
    not_supported: Bounded,
}

/// The first problems in full, the rest as a number.
#[derive(Debug, Default)]
struct Bounded {
    kept: Vec<Diagnostic>,
    left_out: usize,
}

impl Sink {
    pub(crate) fn new(sources: Sources) -> Sink {
        Sink {
            sources,
            was_accepted: false,
            errors: Bounded::default(),
            warnings: Bounded::default(),
            not_supported: Bounded::default(),
        }
    }

    /// For a text that was accepted before: rules that came later are told, and not held against it.
    pub(crate) fn of_accepted(sources: Sources) -> Sink {
        Sink { was_accepted: true, ..Sink::new(sources) }
    }

    pub(crate) fn add(&mut self, mut finding: Finding) {
        if finding.is_later_rule && self.was_accepted {
            let goes_on = "it was accepted before there was this rule, and goes on";
            finding.severity = Severity::Warning;
            finding.hint = Some(finding.hint.map_or_else(|| goes_on.to_owned(), |hint| format!("{hint}; {goes_on}")));
        }
        let place = |span: Span| Place { source: self.sources.get(span).clone(), start: span.start, end: span.end };
        let diagnostic = Diagnostic {
            severity: finding.severity,
            code: finding.code,
            message: finding.message,
            hint: finding.hint,
            place: place(finding.span),
            related: finding.related.into_iter().map(|(span, label)| (place(span), label)).collect(),
        };
        match (diagnostic.code, diagnostic.severity) {
            (Code::NotSupported, Severity::Warning) => self.not_supported.push(diagnostic),
            (_, Severity::Warning) => self.warnings.push(diagnostic),
            (_, Severity::Error) => self.errors.push(diagnostic),
        }
    }

    /// Notes that something is understood but does not work yet.
    pub(crate) fn not_supported(&mut self, span: Span, what: &str) {
        self.add(Finding::warning(Code::NotSupported, span, format!("{what} is not supported yet")));
    }

    /// Whether a further error would only be counted, so that no hint need be looked for.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.kept.len() >= DIAGNOSTICS_MAX
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.kept.is_empty()
    }

    /// Problems in the order of the text, then what is not supported yet.
    pub(crate) fn finish(self) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
        let mut problems = self.errors.finish();
        problems.extend(self.warnings.finish());
        problems.sort_by_key(|d| (d.place.source.is_variable, d.place.start));
        (problems, self.not_supported.finish())
    }
}

impl Bounded {
    fn push(&mut self, diagnostic: Diagnostic) {
        if self.kept.len() < DIAGNOSTICS_MAX {
            self.kept.push(diagnostic);
        } else {
            self.left_out += 1;
        }
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        self.kept.sort_by_key(|d| (d.place.source.is_variable, d.place.start));
        if self.left_out > 0
            && let Some(last) = self.kept.last_mut()
        {
            let more = format!("{} more like this are not shown", self.left_out);
            last.hint = Some(last.hint.take().map_or(more.clone(), |hint| format!("{hint}; {more}")));
        }
        self.kept
    }
}
