//! What a job needs to know of other tasks when it is submitted: the texts of all that its steps begin, near and far.

use std::collections::BTreeMap;
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

/// The texts of all tasks that `definition` begins, by name.
pub(super) fn closure(
    definition: &Definition,
    find: &dyn Fn(&str) -> Option<Arc<Listing>>,
) -> Result<BTreeMap<String, String>, KinError> {
    let mut texts = BTreeMap::new();
    descend(definition, find, &mut vec![definition.name.to_string()], &mut texts)?;
    Ok(texts)
}

fn descend(
    definition: &Definition,
    find: &dyn Fn(&str) -> Option<Arc<Listing>>,
    path: &mut Vec<String>,
    texts: &mut BTreeMap<String, String>,
) -> Result<(), KinError> {
    for name in kin::begins(definition) {
        let task = good(&definition.name, name, find)?;
        path.push(name.to_owned());
        // The outermost one is no level below another. A circle is too deep as well.
        if path.len() > DEPTH_MAX + 1 {
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            return Err(KinError::TooDeep(kin::path(&names)));
        }
        descend(&task.task.definition, find, path, texts)?;
        path.pop();
        texts.insert(name.to_owned(), task.row.source.clone());
    }
    Ok(())
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
