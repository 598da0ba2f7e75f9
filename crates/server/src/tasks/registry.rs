//! The server's tasks, shared by the API and the watcher of the task folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use engine::Time;
use engine::definition::Definition;
use spec::Diagnostic;
use spec::task::kin;
use store::rows::TaskRow;

use crate::schedule::Book;
use crate::settings::DefinitionSettings;

use super::closure::{Kin, KinError, closure, texts};
use super::diagnostics::to_api;
use super::folder::Folder;
use super::index::{Index, Listing};
use super::known::{KnownTask, Reading};
use super::texts::Texts;

pub struct TaskRegistry {
    settings: DefinitionSettings,
    texts: Texts,
    /// Tasks that the server's own configuration names.
    notice_tasks: Vec<String>,
    sources: Mutex<Sources>,
    index: RwLock<Arc<Index>>,
    book: RwLock<Arc<Book>>,
}

struct Sources {
    folder: Folder,
    pushed: BTreeMap<String, Listing>,
}

impl TaskRegistry {
    /// With the tasks of this folder, as it is now, and those that were pushed before.
    pub fn new(settings: DefinitionSettings, folder: Option<PathBuf>, pushed: &[TaskRow], now: Time) -> TaskRegistry {
        TaskRegistry::with_notices(settings, folder, pushed, now, Vec::new())
    }

    /// The same where these tasks follow on notices.
    pub fn with_notices(
        settings: DefinitionSettings,
        folder: Option<PathBuf>,
        pushed: &[TaskRow],
        now: Time,
        notice_tasks: Vec<String>,
    ) -> TaskRegistry {
        let pushed = pushed.iter().map(|row| (row.name.clone(), pushed_listing(row, &settings))).collect();
        let registry = TaskRegistry {
            settings,
            texts: Texts::default(),
            notice_tasks,
            sources: Mutex::new(Sources { folder: Folder::new(folder), pushed }),
            index: RwLock::default(),
            book: RwLock::default(),
        };
        registry.with_sources(|sources, settings| sources.folder.refresh(settings, now) || !sources.pushed.is_empty());
        registry
    }

    /// Reads the task folder again, as far as it changed. Returns whether it did.
    pub fn refresh(&self, now: Time) -> bool {
        self.with_sources(|sources, settings| sources.folder.refresh(settings, now))
    }

    pub fn get(&self, name: &str) -> Option<Arc<Listing>> {
        self.index().get(name).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Listing>> {
        self.index().all().to_vec()
    }

    /// The tasks that the server's own configuration lets follow on notices.
    pub fn notice_tasks(&self) -> &[String] {
        &self.notice_tasks
    }

    /// What starts jobs of these tasks by itself.
    pub fn book(&self) -> Arc<Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings that hold where a submit says nothing else.
    pub fn settings(&self) -> &DefinitionSettings {
        &self.settings
    }

    /// A text that was read before, if it is still remembered.
    pub fn known_text(&self, source: &str, settings: &DefinitionSettings, reading: Reading) -> Option<Arc<KnownTask>> {
        self.texts.get(source, settings, reading)
    }

    /// Reads a text, and remembers it.
    pub fn read_text(
        &self,
        source: &str,
        file: &str,
        settings: &DefinitionSettings,
        reading: Reading,
    ) -> Result<Arc<KnownTask>, Vec<Diagnostic>> {
        self.texts.read(source, file, settings, reading)
    }

    /// All tasks that this one begins, or that follow on it, near and far.
    pub fn kin_of(&self, definition: &Definition) -> Result<Kin, KinError> {
        let index = self.index();
        closure(definition, &|name| index.get(name).cloned())
    }

    /// The task with all that its steps begin and that follows on it, as they are now, where it is run as its text says.
    pub fn with_kin(&self, task: &Arc<KnownTask>) -> Result<Arc<KnownTask>, KinError> {
        if kin::is_alone(&task.task.definition) {
            return Ok(task.clone());
        }
        let mut settings = self.settings.clone();
        settings.tasks = texts(&self.kin_of(&task.task.definition)?);
        self.read_text(&task.row.source, task.name(), &settings, task.reading)
            .map_err(|_| KinError::NotGood { by: task.name().to_owned(), task: task.name().to_owned() })
    }

    /// The circle in which tasks would begin each other if this one had this definition.
    pub fn circle_with(&self, definition: &Definition) -> Option<String> {
        self.index().circle_with(definition)
    }

    /// The file of the task folder that has this name; a pushed task of the same name would not be seen.
    pub fn file_of(&self, name: &str) -> Option<String> {
        let listing = self.get(name)?;
        listing.file.clone().filter(|_| listing.good.is_some())
    }

    /// Takes over a pushed task once it is stored.
    pub fn push(&self, row: &TaskRow) {
        self.with_sources(|sources, settings| {
            sources.pushed.insert(row.name.clone(), pushed_listing(row, settings));
            true
        });
    }

    /// When each pushed task was, by name.
    pub fn stamps(&self) -> Vec<(String, Time)> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.pushed.iter().map(|(name, listing)| (name.clone(), listing.updated_at)).collect()
    }

    /// Takes over what was pushed to any server, as far as it is not known.
    pub fn take_pushed(&self, rows: &[TaskRow]) -> bool {
        self.with_sources(|sources, settings| {
            let fresh =
                |row: &&TaskRow| sources.pushed.get(&row.name).is_none_or(|known| known.updated_at != row.pushed_at);
            let fresh: Vec<_> =
                rows.iter().filter(fresh).map(|row| (row.name.clone(), pushed_listing(row, settings))).collect();
            let changed = !fresh.is_empty();
            sources.pushed.extend(fresh);
            changed
        })
    }

    fn with_sources(&self, change: impl FnOnce(&mut Sources, &DefinitionSettings) -> bool) -> bool {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut sources, &self.settings);
        if changed {
            let index = Index::build(sources.folder.listings(), sources.pushed.values().cloned());
            *self.index.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(index);
            // Also what its steps begin is part of a trigger's job: any change may be one of it.
            let book = Book::of(self);
            *self.book.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(book);
        }
        changed
    }

    fn index(&self) -> Arc<Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn pushed_listing(row: &TaskRow, settings: &DefinitionSettings) -> Listing {
    let (name, source) = (&row.name, &row.source);
    // It was good when it was pushed, perhaps to an older build.
    let read: Result<_, Vec<Diagnostic>> = KnownTask::read(source, name, settings, Reading::New).or_else(|found| {
        let accepted = KnownTask::read(source, name, settings, Reading::Accepted)?;
        for problem in found.iter().filter(|problem| problem.is_error()) {
            let (line, problem) = (problem.line(), &problem.message);
            tracing::warn!(
                task = name,
                line,
                problem,
                "a pushed task breaks a newer rule and goes on: repair and push it"
            );
        }
        Ok(accepted)
    });
    let (good, diagnostics) = match read {
        Ok(task) => {
            let diagnostics = task.warnings.iter().chain(&task.task.not_supported).map(to_api).collect();
            (Some(task), diagnostics)
        }
        Err(found) => {
            for problem in found.iter().filter(|problem| problem.is_error()) {
                let (line, problem) = (problem.line(), &problem.message);
                tracing::error!(
                    task = name,
                    line,
                    problem,
                    "a pushed task has errors: no job of it can begin until it is pushed anew"
                );
            }
            (None, found.iter().map(to_api).collect())
        }
    };
    Listing { name: row.name.clone(), file: None, updated_at: row.pushed_at, good, diagnostics }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each with what is wrong between it and others, which can be known when it is listed.
    #[test]
    fn levels_groups_and_webhooks_are_warned_of() {
        let row = |(name, rest): (&str, String)| TaskRow {
            name: name.to_owned(),
            source: format!("name: {name}\n{rest}\n"),
            pushed_at: Time(1),
            pushed_by: "ann".to_owned(),
        };
        let names = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];
        let chain = names.windows(2).map(|pair| (pair[0], format!("steps: {{ a: {{ task: {} }} }}", pair[1])));
        let end = "steps: { a: { run: x } }";
        let group = "concurrency: { group: db, limit: 1 }";
        let hook = "triggers: [ { webhook: ship, secret: S } ]";
        let others = [
            ("t9", end.to_owned()),
            ("outer", format!("{group}\nsteps: {{ a: {{ task: inner }} }}")),
            ("inner", format!("{group}\n{end}")),
            ("east", format!("{end}\n{hook}")),
            ("west", format!("{end}\n{hook}")),
        ];
        let rows: Vec<TaskRow> = chain.chain(others).map(row).collect();
        let tasks = TaskRegistry::new(DefinitionSettings::default(), None, &rows, Time(2));
        let told: Vec<(String, String)> = tasks
            .all()
            .iter()
            .flat_map(|task| task.diagnostics.iter().map(|found| (task.name.clone(), found.code.clone())))
            .collect();
        let told: Vec<(&str, &str)> = told.iter().map(|(name, code)| (name.as_str(), code.as_str())).collect();
        assert_eq!(told, [("outer", "group_deadlock"), ("t0", "limit"), ("west", "conflict")]);
        assert!(tasks.all().iter().all(|task| task.is_usable()), "any of them may be about to change");
    }

    /// What was in use goes on after an upgrade, by itself and with what it begins; whoever submits the same text anew is refused.
    #[test]
    fn a_pushed_task_that_breaks_a_newer_rule_goes_on() {
        let row = |name: &str, steps: &str| TaskRow {
            name: name.to_owned(),
            source: format!("name: {name}\nsteps: {{ {steps} }}\n"),
            pushed_at: Time(1),
            pushed_by: "ann".to_owned(),
        };
        let rows = [
            row("old", "a: { run: x, workdir: ../x }"),
            row("above", "a: { task: old }, b: { run: x, workdir: ../x }"),
            row("bad", "a: { run: x, no_such_key: 1 }"),
        ];
        let tasks = TaskRegistry::new(DefinitionSettings::default(), None, &rows, Time(2));
        let old = tasks.get("old").expect("listed");
        let told = &old.diagnostics[0];
        assert!(old.is_usable() && told.severity == api::Severity::Warning, "{old:?}");
        assert!(told.message.contains("`workdir: ../x` leads out of"), "{told:?}");
        assert!(told.hint.as_deref().is_some_and(|hint| hint.ends_with("and goes on")), "{told:?}");
        let above = tasks.get("above").and_then(|listing| listing.good.clone()).expect("good");
        assert_eq!(tasks.with_kin(&above).expect("with its child").children.len(), 1);
        assert!(
            tasks.read_text(&rows[0].source, "spec", tasks.settings(), Reading::New).is_err(),
            "new texts keep all rules"
        );
        assert!(!tasks.get("bad").expect("listed").is_usable());
    }
}
