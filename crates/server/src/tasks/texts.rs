//! Texts that were submitted as they are: programs submit the same one over and over, so it is parsed once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use spec::Diagnostic;

use crate::settings::DefinitionSettings;

use super::known::{self, KnownTask, Reading};

/// Together, in bytes of text; a parsed task takes several times that.
const BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Texts {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    tasks: HashMap<([u8; 32], Reading), Arc<KnownTask>>,
    bytes: usize,
}

impl Texts {
    pub(super) fn get(&self, source: &str, settings: &DefinitionSettings, reading: Reading) -> Option<Arc<KnownTask>> {
        self.lock().tasks.get(&(known::hash(source, &settings.to_json()), reading)).cloned()
    }

    pub(super) fn read(
        &self,
        source: &str,
        file: &str,
        settings: &DefinitionSettings,
        reading: Reading,
    ) -> Result<Arc<KnownTask>, Vec<Diagnostic>> {
        if let Some(task) = self.get(source, settings, reading) {
            return Ok(task);
        }
        let task = KnownTask::read(source, file, settings, reading)?;
        let mut kept = self.lock();
        if kept.bytes + source.len() > BYTES_MAX {
            *kept = Kept::default();
        }
        if kept.tasks.insert((task.row.hash, reading), task.clone()).is_none() {
            kept.bytes += source.len();
        }
        Ok(task)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        // A panic while it was held cannot have left more than a wrong count.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
