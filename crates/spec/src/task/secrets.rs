//! `secrets`: what a step is given besides its `env`, by name. The values are the server's, and never in a text.

use std::sync::Arc;

use engine::definition::{STEP_SECRETS_MAX, Work};

use super::name;
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::{Fields, values};
use crate::yaml::brief;

/// Their names, each once.
pub(super) fn read(fields: &mut Fields<'_>, work: &Work, sink: &mut Sink) -> Vec<Arc<str>> {
    let Some(node) = fields.get("secrets") else { return Vec::new() };
    let Some(items) = values::list("secrets", node, sink) else { return Vec::new() };
    if items.len() > STEP_SECRETS_MAX {
        let message = format!("a step may have {STEP_SECRETS_MAX} secrets, these are {}", items.len());
        sink.add(Finding::error(Code::BadValue, node.span, message));
        return Vec::new();
    }
    let mut names: Vec<Arc<str>> = Vec::new();
    for item in items {
        let Some(text) = values::filled_text("secrets", item, sink) else { continue };
        if !name::step_secret(text, item.span, sink) {
            continue;
        }
        if names.iter().any(|known| **known == *text) {
            let message = format!("the secret `{}` is named twice", brief(text));
            sink.add(Finding::error(Code::Conflict, item.span, message));
            continue;
        }
        if let Work::Run(body) = work
            && body.env.contains_key(text)
        {
            let message = format!("`{}` is a secret and a variable of `env` at once", brief(text));
            let hint = "the step gets the secret in a variable of that name; take it out of `env`".to_owned();
            sink.add(Finding::error(Code::Conflict, item.span, message).hint(hint));
            continue;
        }
        names.push(Arc::from(text));
    }
    names
}
