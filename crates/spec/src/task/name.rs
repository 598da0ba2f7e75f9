//! Names of tasks, steps, inputs, tags and variables.

use crate::diagnostic::{Code, Finding, Sink};
use crate::source::Span;
use crate::yaml::brief;

/// Names stand in tables, paths and messages.
const NAME_CHARS_MAX: usize = 100;
/// The log of the job's own events is found under this step name.
const RESERVED_STEP: &str = "_server";

/// `[A-Za-z_][A-Za-z0-9_-]*`, and dots for tasks.
pub(super) fn task(name: &str, span: Span, sink: &mut Sink) -> bool {
    check("task", name, |c| c.is_ascii_alphanumeric() || "_-.".contains(c), span, sink)
}

/// As of a task, of which it often has the name.
pub(super) fn webhook(name: &str, span: Span, sink: &mut Sink) -> bool {
    check("webhook", name, |c| c.is_ascii_alphanumeric() || "_-.".contains(c), span, sink)
}

pub(super) fn step(name: &str, span: Span, sink: &mut Sink) -> bool {
    if name == RESERVED_STEP {
        sink.add(Finding::error(
            Code::BadName,
            span,
            format!("the step name `{name}` is taken by the server's own log"),
        ));
        return false;
    }
    check("step", name, |c| c.is_ascii_alphanumeric() || "_-".contains(c), span, sink)
}

pub(super) fn input(name: &str, span: Span, sink: &mut Sink) -> bool {
    check("input", name, |c| c.is_ascii_alphanumeric() || "_-".contains(c), span, sink)
}

/// An environment variable's name. Ours are not to be overwritten.
pub(super) fn variable(name: &str, span: Span, sink: &mut Sink) -> bool {
    if name.starts_with("BOWLINE_") {
        let message = format!("the variable `{}` is Bowline's own", brief(name));
        sink.add(
            Finding::error(Code::BadName, span, message).hint("names that begin with BOWLINE_ are set for each step"),
        );
        return false;
    }
    check("variable", name, is_of_variable, span, sink)
}

/// The server signs with it what names no secret of its own. It is nobody else's.
pub const SERVER_KEY: &str = "WEBHOOK_KEY";

/// A secret that a step is given, in a variable of that name.
pub(super) fn step_secret(name: &str, span: Span, sink: &mut Sink) -> bool {
    if name == SERVER_KEY {
        let message = format!("the secret `{name}` is the server's own, and no step gets it");
        sink.add(Finding::error(Code::BadName, span, message));
        return false;
    }
    variable(name, span, sink)
}

/// Whether a secret can have this name.
pub fn is_secret_name(name: &str) -> bool {
    is_name(name, is_of_variable)
}

/// A secret's name is part of a variable's and of a file's.
pub(super) fn secret(name: &str, span: Span, sink: &mut Sink) -> bool {
    check("secret", name, is_of_variable, span, sink)
}

/// The same where it was not asked for from the beginning.
pub(super) fn hook_secret(name: &str, span: Span, sink: &mut Sink) {
    if !is_secret_name(name) {
        sink.add(bad("secret", name, span).later_rule());
    }
}

/// Tags may begin with a digit and hold a few more signs, as in `gpu:a100` or `zone=eu-1`.
pub fn is_tag(tag: &str) -> bool {
    let fits = tag.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/=".contains(c));
    fits && !tag.is_empty() && tag.len() <= NAME_CHARS_MAX
}

fn is_of_variable(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_name(name: &str, allowed: impl Fn(char) -> bool) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && name.chars().all(allowed) && name.len() <= NAME_CHARS_MAX
}

fn check(what: &str, name: &str, allowed: impl Fn(char) -> bool, span: Span, sink: &mut Sink) -> bool {
    let good = is_name(name, allowed);
    if !good {
        sink.add(bad(what, name, span));
    }
    good
}

fn bad(what: &str, name: &str, span: Span) -> Finding {
    let (message, hint) = if name.len() > NAME_CHARS_MAX {
        (format!("this {what} name is longer than {NAME_CHARS_MAX} characters"), None)
    } else {
        let hint = match what {
            "variable" | "secret" => "names begin with a letter or `_` and go on with letters, digits and `_`",
            "task" | "webhook" => "names begin with a letter or `_` and go on with letters, digits, `_`, `-` and `.`",
            _ => "names begin with a letter or `_` and go on with letters, digits, `_` and `-`",
        };
        (format!("`{}` is no {what} name", brief(name)), Some(hint.to_owned()))
    };
    Finding::error(Code::BadName, span, message).hint_if(hint)
}
