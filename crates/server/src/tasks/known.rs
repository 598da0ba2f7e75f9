//! A task's text, parsed once, with everything that a submit needs.

use std::sync::Arc;

use spec::Diagnostic;
use spec::task::Task;
use store::rows::DefinitionRow;

use crate::settings::DefinitionSettings;

use super::bound::{self, Bound};

/// How strictly a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reading {
    /// By all rules.
    New,
    /// It was accepted once, perhaps by an older version: rules that came later are warnings.
    Accepted,
}

#[derive(Debug)]
pub struct KnownTask {
    pub task: Task,
    pub reading: Reading,
    /// What the jobs of this task refer to.
    pub row: DefinitionRow,
    /// What the jobs that they begin refer to; known where they were looked for.
    pub children: Vec<DefinitionRow>,
    /// What is odd about it, though it is no error.
    pub warnings: Vec<Diagnostic>,
}

impl KnownTask {
    /// Reads a text; if it has errors, all its problems.
    pub(super) fn read(
        source: &str,
        file: &str,
        settings: &DefinitionSettings,
        reading: Reading,
    ) -> Result<Arc<KnownTask>, Vec<Diagnostic>> {
        let (task, diagnostics) = match reading {
            Reading::New => spec::task::parse(source, file, &settings.options()),
            Reading::Accepted => spec::task::parse_stored(source, file, &settings.options()),
        };
        let Some(mut task) = task else { return Err(diagnostics) };
        let Bound { definition, children } = match bound::bind(&task.definition, settings) {
            Ok(bound) => bound,
            // Those that it begins were good when they were found.
            Err(problem) => {
                tracing::error!(task = %task.definition.name, problem, "a task cannot be bound to those that it begins");
                return Err(diagnostics);
            }
        };
        task.definition = definition;
        let settings = settings.to_json();
        let row = DefinitionRow { hash: hash(source, &settings), source: source.to_owned(), settings };
        let children = children.into_iter().map(|(row, _)| row).collect();
        Ok(Arc::new(KnownTask { task, reading, row, children, warnings: diagnostics }))
    }

    pub fn name(&self) -> &str {
        &self.task.definition.name
    }

    /// Everything in it behaves already.
    pub fn is_supported(&self) -> bool {
        self.task.not_supported.is_empty()
    }
}

/// Names a definition: the same text under the same settings is the same definition.
pub(super) fn hash(source: &str, settings: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    // The length keeps text that moves from one to the other from looking the same.
    hasher.update(&(source.len() as u64).to_le_bytes());
    hasher.update(source.as_bytes());
    hasher.update(settings.as_bytes());
    *hasher.finalize().as_bytes()
}
