//! What is stored, read as servers read it: for `bowline db check`, which looks at all of it.

use protocol::log::{self, Span};
use store::check::Readers;

use crate::settings::DefinitionSettings;
use crate::tasks;

pub const READERS: Readers = Readers { definition, blocks };

fn definition(source: &str, settings: &str) -> Option<String> {
    let read = || {
        let settings = DefinitionSettings::from_json(settings)?;
        let (task, problems) = spec::task::parse_stored(source, "stored task", &settings.options());
        let first = || problems.iter().find(|problem| problem.is_error()).map(|problem| problem.message.clone());
        let task = task.ok_or_else(|| first().unwrap_or_else(|| "it is no task".to_owned()))?;
        tasks::bind(&task.definition, &settings).map(drop)
    };
    read().err()
}

fn blocks(blocks: &[u8], first_seq: u64, last_seq: u64) -> Option<String> {
    match log::span(blocks) {
        Ok(Some(span)) if span == (Span { first_seq, last_seq }) => None,
        Ok(Some(span)) => Some(format!(
            "it should have lines {first_seq} to {last_seq}, and has {} to {}",
            span.first_seq, span.last_seq
        )),
        Ok(None) => Some(format!("it should have lines {first_seq} to {last_seq}, and has none")),
        Err(error) => Some(error.to_string()),
    }
}
