//! What a job needs to know of other tasks when it is submitted: the texts of all that its steps begin, near and far, and of
//! all that follows on the end of any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::definition::{DEPTH_MAX, Definition};
use spec::task::kin;

use super::index::Listing;
use super::known::KnownTask;

/// Why a task cannot be started with what it begins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KinError {
    #[error("the task `{by}` begins the task `{task}`, which is not there")]
    Unknown { by: String, task: String },
    #[error("the task `{by}` begins the task `{task}`, which has errors")]
    NotGood { by: String, task: String },
    #[error("the task `{by}` begins the task `{task}`, which cannot be run yet")]
    NotSupported { by: String, task: String },
    #[error("tasks begin each other more than {DEPTH_MAX} levels deep: {0}")]
    TooDeep(String),
}

/// Tasks by name, as they were at one moment.
pub type Kin = BTreeMap<String, Arc<KnownTask>>;

/// All tasks that `definition` begins, and that follow on any of them.
pub(super) fn closure(definition: &Definition, find: &dyn Fn(&str) -> Option<Arc<Listing>>) -> Result<Kin, KinError> {
    let mut search = Search { find, path: vec![definition.name.to_string()], found: BTreeMap::new() };
    search.descend(definition)?;
    search.follow(definition)?;
    Ok(search.found.into_iter().map(|(name, found)| (name, found.task)).collect())
}

/// As they are stored with the job.
pub fn texts(kin: &Kin) -> BTreeMap<String, String> {
    kin.iter().map(|(name, task)| (name.clone(), task.row.source.clone())).collect()
}

struct Search<'a> {
    find: &'a dyn Fn(&str) -> Option<Arc<Listing>>,
    /// From the outermost one to where it looks.
    path: Vec<String>,
    found: BTreeMap<String, Found>,
}

struct Found {
    task: Arc<KnownTask>,
    /// How many levels there are below it.
    levels: usize,
}

impl Search<'_> {
    /// How many levels this one has below it.
    fn descend(&mut self, definition: &Definition) -> Result<usize, KinError> {
        let begins: BTreeSet<&str> = kin::begins(definition).collect();
        let mut levels = 0;
        for name in begins {
            self.path.push(name.to_owned());
            levels = levels.max(1 + self.levels_of(name, definition)?);
            self.path.pop();
        }
        Ok(levels)
    }

    /// What follows on the end of any of them; nothing follows on that in turn.
    fn follow(&mut self, outermost: &Definition) -> Result<(), KinError> {
        let begun: Vec<Arc<KnownTask>> = self.found.values().map(|found| found.task.clone()).collect();
        let own = begun.iter().map(|task| &*task.task.definition).chain([outermost]);
        for definition in own {
            for name in kin::follows(definition) {
                self.path = vec![definition.name.to_string(), name.to_owned()];
                self.levels_of(name, definition)?;
            }
        }
        Ok(())
    }

    fn levels_of(&mut self, name: &str, by: &Definition) -> Result<usize, KinError> {
        let known = self.found.get(name).map(|found| found.levels);
        // The outermost one is no level below another. A circle is too deep as well.
        if self.path.len() + known.unwrap_or(0) > DEPTH_MAX + 1 {
            let names: Vec<&str> = self.path.iter().map(String::as_str).collect();
            return Err(KinError::TooDeep(kin::path(&names)));
        }
        if let Some(levels) = known {
            return Ok(levels);
        }
        let task = good(&by.name, name, self.find)?;
        let levels = self.descend(&task.task.definition)?;
        self.found.insert(name.to_owned(), Found { task, levels });
        Ok(levels)
    }
}

fn good(by: &str, task: &str, find: &dyn Fn(&str) -> Option<Arc<Listing>>) -> Result<Arc<KnownTask>, KinError> {
    let (by, task) = (by.to_owned(), task.to_owned());
    match find(&task) {
        None => Err(KinError::Unknown { by, task }),
        Some(listing) => match &listing.good {
            None => Err(KinError::NotGood { by, task }),
            Some(known) if !known.is_supported() => Err(KinError::NotSupported { by, task }),
            Some(known) => Ok(known.clone()),
        },
    }
}
