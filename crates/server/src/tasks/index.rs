//! All tasks at one moment, by name.

use std::collections::HashMap;
use std::sync::Arc;

use engine::Time;

use super::diagnostics;
use super::known::KnownTask;

/// One task as the server knows it, good or not.
#[derive(Debug, Clone)]
pub struct Listing {
    pub name: String,
    /// In the task folder; none for a pushed task.
    pub file: Option<String>,
    pub updated_at: Time,
    /// The last good version.
    pub good: Option<Arc<KnownTask>>,
    /// Of the newest version.
    pub diagnostics: Vec<api::Diagnostic>,
}

impl Listing {
    pub fn is_usable(&self) -> bool {
        self.good.as_ref().is_some_and(|task| task.is_supported())
    }
}

#[derive(Debug, Default)]
pub(super) struct Index {
    by_name: HashMap<String, Arc<Listing>>,
    all: Vec<Arc<Listing>>,
}

impl Index {
    /// Who comes first has the name: good files in the order of their paths, then pushed tasks, then files that were
    /// never good and are only called after themselves.
    pub(super) fn build(files: impl Iterator<Item = Listing>, pushed: impl Iterator<Item = Listing>) -> Index {
        let mut index = Index::default();
        let (good, never_good): (Vec<Listing>, Vec<Listing>) = files.partition(|file| file.good.is_some());
        for mut listing in good {
            if let Some(taken) = index.by_name.get(&listing.name) {
                let problem = already_defined(&listing, taken);
                listing.diagnostics.push(problem);
                listing.good = None;
            }
            index.add(listing);
        }
        for listing in pushed {
            // One that a file hides shows again when the file goes.
            if !index.by_name.contains_key(&listing.name) {
                index.add(listing);
            }
        }
        for listing in never_good {
            index.add(listing);
        }
        index.all.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
        index
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<Listing>> {
        self.by_name.get(name)
    }

    pub(super) fn all(&self) -> &[Arc<Listing>] {
        &self.all
    }

    fn add(&mut self, listing: Listing) {
        let listing = Arc::new(listing);
        self.by_name.entry(listing.name.clone()).or_insert_with(|| listing.clone());
        self.all.push(listing);
    }
}

fn already_defined(listing: &Listing, taken: &Listing) -> api::Diagnostic {
    let holder = taken.file.as_deref().unwrap_or("the server");
    let file = listing.file.as_deref().unwrap_or_default();
    let message = format!("the task `{}` is already defined in {holder}", listing.name);
    diagnostics::of_file(file, "duplicate_task", message, "rename one of the two")
}
