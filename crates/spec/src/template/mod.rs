//! `{{ … }}` in texts and the expressions of `if`: what they may say, what they refer to, how they are evaluated.
//!
//! The language is minijinja's expressions and nothing else: no statements, no comments, no loops, so shell words
//! such as `${#list}` stay what they are, and no expression grows beyond what it was given. `check` walks the syntax
//! tree when a file is read; `environment` holds the filters and tests, and with `budget` bounds the evaluation.

pub(crate) mod budget;
pub(crate) mod check;
pub(crate) mod environment;
pub(crate) mod place;

use std::sync::OnceLock;

use minijinja::machinery::{self, ast::Stmt};
use minijinja::syntax::SyntaxConfig;

/// Whether a text has anything to fill in.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{")
}

/// The expression of a text that is one `{{ … }}` and nothing else: its value keeps its type, and need not become text.
pub(crate) fn sole_expression(text: &str) -> Option<&str> {
    let text = text.trim();
    let Ok(Stmt::Template(template)) = machinery::parse(text, "template", syntax().clone()) else { return None };
    let [Stmt::EmitExpr(_)] = template.children.as_slice() else { return None };
    let inner = text.strip_prefix("{{")?.strip_suffix("}}")?;
    Some(inner.strip_prefix('-').unwrap_or(inner).trim_end_matches('-').trim())
}

/// Only `{{ … }}` is special. The other markers cannot be turned off, but no text that we read holds a NUL.
pub(crate) fn syntax() -> &'static SyntaxConfig {
    static SYNTAX: OnceLock<SyntaxConfig> = OnceLock::new();
    SYNTAX.get_or_init(|| {
        SyntaxConfig::builder()
            .block_delimiters("\0{%", "%}\0")
            .comment_delimiters("\0{#", "#}\0")
            .keep_trailing_newline(true)
            .build()
            .expect("the delimiters differ")
    })
}
