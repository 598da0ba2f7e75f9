//! All tasks at one moment, by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use engine::Time;
use engine::definition::Definition;
use spec::Severity;
use spec::task::webhooks::{self, Taken};
use spec::task::{Task, calls, kin};

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
    /// What diagnostics call its text.
    fn shown_as(&self) -> &str {
        self.file.as_deref().unwrap_or(&self.name)
    }

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
        index.refuse_circles();
        index.warn_of_others();
        index.all.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
        index
    }

    /// Tasks that begin each other in a circle would never end: none of them can be run.
    fn refuse_circles(&mut self) {
        while let Some(path) =
            kin::circle(&self.good(None)).map(|names| names.into_iter().map(str::to_owned).collect::<Vec<String>>())
        {
            for pair in path.windows(2) {
                self.refuse(&pair[0], &pair[1], &path);
            }
        }
    }

    /// With the place where it begins the next one.
    fn refuse(&mut self, name: &str, next: &str, path: &[String]) {
        let Some(known) = self.by_name.get(name).cloned() else { return };
        let Some(good) = &known.good else { return };
        let mut listing = Listing::clone(&known);
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let problem = kin::circle_diagnostic(&good.task.definition, next, &path, &good.row.source, known.shown_as());
        listing.diagnostics.push(diagnostics::to_api(&problem));
        listing.good = None;
        self.replace(&known, listing);
    }

    /// Tasks that give others what those cannot take, or name some that are not there. It may be the other one that changed,
    /// and is about to change again: what would start a job is refused, and all else goes on.
    fn warn_of_others(&mut self) {
        let tasks: BTreeMap<&str, &Task> =
            self.by_name.iter().filter_map(|(name, known)| Some((name.as_str(), &known.good.as_ref()?.task))).collect();
        let taken = webhooks::taken(&tasks);
        let warned: Vec<(Arc<Listing>, Listing)> =
            self.by_name.values().filter_map(|known| Some((known.clone(), self.warned(known, &taken)?))).collect();
        warned.into_iter().for_each(|(known, listing)| self.replace(&known, listing));
    }

    /// A task with what is wrong between it and others; none if that is nothing.
    fn warned(&self, known: &Listing, taken: &[Taken<'_>]) -> Option<Listing> {
        let good = known.good.as_ref()?;
        let (definition, text, file) = (&*good.task.definition, &good.row.source, known.shown_as());
        let task = |name: &str| Some(&self.by_name.get(name)?.good.as_ref()?.task);
        let mut found = calls::misfits(definition, &|name| Some(&*task(name)?.inputs));
        found.extend(calls::strangers(definition, &|name| self.stranger(name)));
        found.extend(calls::too_deep(definition, &|name| Some(&*task(name)?.definition)));
        let mut problems = calls::diagnostics(found, Severity::Warning, text, file);
        let deadlock = kin::deadlock(definition, &|body| Some(&*task(&body.task)?.definition));
        problems.extend(deadlock.map(|deadlock| deadlock.diagnostic(Severity::Warning, text, file)));
        let taken = taken.iter().filter(|taken| taken.task == known.name);
        problems.extend(taken.map(|taken| taken.diagnostic(text, file)));
        if problems.is_empty() {
            return None;
        }
        let mut listing = Listing::clone(known);
        listing.diagnostics.extend(problems.iter().map(diagnostics::to_api));
        Some(listing)
    }

    /// What is wrong with a task that another one names.
    fn stranger(&self, name: &str) -> Option<calls::Told> {
        let Some(known) = self.by_name.get(name) else {
            let near = spec::nearest(name, self.by_name.keys().map(String::as_str));
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            return Some((format!("there is no task `{name}`: no job can begin until it is there"), hint));
        };
        if known.good.is_some() {
            return None;
        }
        Some((format!("the task `{name}` has errors: no job can begin until they are repaired"), None))
    }

    fn replace(&mut self, known: &Arc<Listing>, by: Listing) {
        let listing = Arc::new(by);
        self.by_name.insert(listing.name.clone(), listing.clone());
        if let Some(place) = self.all.iter_mut().find(|place| Arc::ptr_eq(place, known)) {
            *place = listing;
        }
    }

    /// In words, the circle that there would be with this definition.
    pub(super) fn circle_with(&self, definition: &Definition) -> Option<String> {
        let path = kin::circle(&self.good(Some(definition)))?;
        Some(kin::in_a_circle(&path))
    }

    /// All that can be run, with this one in the place of its name.
    fn good<'a>(&'a self, with: Option<&'a Definition>) -> BTreeMap<&'a str, &'a Definition> {
        let known = self
            .by_name
            .iter()
            .filter_map(|(name, listing)| Some((name.as_str(), &*listing.good.as_ref()?.task.definition)));
        known.chain(with.map(|definition| (&*definition.name, definition))).collect()
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
