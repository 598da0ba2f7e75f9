//! The triggers of all tasks as they are now. Made from the tasks whenever those change, and handed to the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::definition::{Definition, HookWork, Occasion};
use serde_json::{Map, Value};
use spec::task::Trigger;
use store::rows::DefinitionRow;

use crate::tasks::{self, Extent, KnownTask, Listing, TaskRegistry};

use super::text::{Missed, Schedule, Webhook};

#[derive(Debug, Default)]
pub struct Book {
    entries: BTreeMap<String, Entry>,
    /// Ids of webhooks' triggers by the names that they are called by.
    hooks: BTreeMap<String, String>,
    /// Tasks that the server's own configuration lets follow on notices, or why they cannot.
    notice_tasks: NoticeTasks,
    tasks: BTreeMap<String, Standing>,
}

/// How a task is, by what the newest version of it says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Good,
    /// The newest version has errors, and an older one is in use.
    Outdated(String),
    /// It cannot be run.
    Broken(String),
}

#[derive(Debug)]
pub struct Entry {
    pub task: String,
    pub work: Work,
    /// What it says, as its row has it.
    pub definition: String,
    /// The task as its jobs have it; alone, where what it begins is not there.
    pub body: Arc<Definition>,
    /// The texts of what it begins.
    pub rows: Vec<DefinitionRow>,
    /// Why it makes no job, as far as its task says.
    pub problem: Option<String>,
    /// What follows on its notices, each by itself, where the body is alone: people are told most of all when a task is broken.
    notice_tasks: Arc<NoticeTasks>,
}

/// Tasks by name, with all that they begin, or why they cannot be run.
type NoticeTasks = BTreeMap<String, Result<Arc<KnownTask>, String>>;

#[derive(Debug)]
pub enum Work {
    Cron { schedule: Schedule, ready: Result<Ready, String> },
    Webhook(Webhook),
}

/// A job that only has to be made.
#[derive(Debug, Clone)]
pub struct Ready {
    pub task: Arc<KnownTask>,
    pub input: Value,
}

impl Entry {
    pub fn kind(&self) -> &'static str {
        match self.work {
            Work::Cron { .. } => "cron",
            Work::Webhook(_) => "webhook",
        }
    }

    /// What follows on its notices, where the body does not have it.
    pub fn notice_task(&self, name: &str) -> Result<Arc<KnownTask>, String> {
        self.notice_tasks.get(name).cloned().unwrap_or_else(|| Err(NO_SUCH_TASK.to_owned()))
    }
}

const NO_SUCH_TASK: &str = "there is no such task";

impl Book {
    /// Of all tasks that can be run.
    pub fn of(tasks: &TaskRegistry) -> Book {
        let mut book = Book::default();
        for listing in tasks.all() {
            book.note(&listing);
            if let Some(known) = listing.good.as_ref().filter(|known| !known.task.triggers.is_empty()) {
                let whole = tasks.with_kin(known).map_err(|error| error.to_string());
                let notice_tasks = whole.as_ref().map_or_else(|_| noticed(tasks, known), |_| NoticeTasks::new());
                let good = whole.clone().and_then(|whole| could_end_well(tasks, whole));
                book.add(known, whole.as_deref().unwrap_or(known), &good, &Arc::new(notice_tasks));
            }
        }
        for name in tasks.notice_tasks() {
            book.notice_tasks.insert(name.clone(), by_itself(tasks, name));
        }
        book
    }

    /// Of several that claim a name, one that can be run has it.
    fn note(&mut self, listing: &Listing) {
        let error = listing.diagnostics.iter().find(|found| found.severity == api::Severity::Error);
        let standing = match (listing.good.is_some(), error) {
            (true, Some(error)) if listing.is_usable() => Standing::Outdated(format!(
                "its task has errors, and the last good version is in use: {}",
                place(error)
            )),
            (false, Some(error)) => Standing::Broken(format!("its task has errors: {}", place(error))),
            (false, None) => Standing::Broken("its task cannot be run".to_owned()),
            // Also one that needs what is not there yet: its triggers say so.
            (true, _) => Standing::Good,
        };
        if listing.good.is_some() {
            self.tasks.insert(listing.name.clone(), standing);
        } else {
            self.tasks.entry(listing.name.clone()).or_insert(standing);
        }
    }

    /// A task's triggers; `whole` is the task with all that its steps begin, and `good` the same if it can be run.
    fn add(
        &mut self,
        known: &KnownTask,
        whole: &KnownTask,
        good: &Result<Arc<KnownTask>, String>,
        notice_tasks: &Arc<NoticeTasks>,
    ) {
        let mut crons = 0;
        let (body, rows) = (&whole.task.definition, &whole.children);
        for trigger in &known.task.triggers {
            let (id, work, definition, problem) = match trigger {
                Trigger::Cron { expression, timezone, missed, jitter, with } => {
                    crons += 1;
                    let schedule = Schedule {
                        cron: expression.clone(),
                        timezone: timezone.clone(),
                        missed: match missed {
                            spec::task::Missed::Skip => Missed::Skip,
                            spec::task::Missed::Once => Missed::Once,
                        },
                        jitter_ms: u64::try_from(jitter.as_millis()).unwrap_or(u64::MAX),
                        with: given(with.as_ref()),
                    };
                    let definition = schedule.to_json();
                    let ready = good.clone().and_then(|task| ready(task, schedule.with.clone()));
                    let problem = ready.as_ref().err().cloned();
                    let work = Work::Cron { schedule, ready };
                    // By place: who changes the expression means the same trigger.
                    (format!("{}:cron:{crons}", known.name()), work, definition, problem)
                }
                Trigger::Webhook { name, secret, with } => {
                    let hook = Webhook { name: name.clone(), secret: secret.clone(), with: given(with.as_ref()) };
                    let id = format!("{}:webhook:{name}", known.name());
                    let mut problem = good.as_ref().err().cloned();
                    let first = self.hooks.entry(name.clone()).or_insert_with(|| id.clone());
                    if *first != id {
                        problem = Some(format!("calls to this name are for {first}"));
                        tracing::warn!(
                            webhook = name,
                            starts = first,
                            ignored = id,
                            "two triggers ask for one webhook"
                        );
                    }
                    let definition = hook.to_json();
                    (id, Work::Webhook(hook), definition, problem)
                }
            };
            let (task, body, rows) = (known.name().to_owned(), body.clone(), rows.clone());
            let notice_tasks = notice_tasks.clone();
            self.entries.insert(id, Entry { task, work, definition, body, rows, problem, notice_tasks });
        }
    }

    /// Why a task that a trigger belongs to has no triggers now; none if it is there, and no longer wants this one.
    pub fn missing(&self, task: &str) -> Option<String> {
        match self.tasks.get(task) {
            Some(Standing::Good | Standing::Outdated(_)) => None,
            Some(Standing::Broken(problem)) => Some(problem.clone()),
            None => Some("there is no such task any more".to_owned()),
        }
    }

    /// Whether a task of this name is there, whatever is wrong with it.
    pub fn lists(&self, task: &str) -> bool {
        self.tasks.contains_key(task)
    }

    /// What is wrong with a task that is there, in words.
    pub fn problem(&self, task: &str) -> Option<&str> {
        match self.tasks.get(task)? {
            Standing::Good => None,
            Standing::Outdated(problem) | Standing::Broken(problem) => Some(problem),
        }
    }

    /// A task that follows on notices, if the server was told of it.
    pub fn notice_task(&self, name: &str) -> Option<&Result<Arc<KnownTask>, String>> {
        self.notice_tasks.get(name)
    }

    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(id, entry)| (id.as_str(), entry))
    }

    /// The trigger that calls to this name are for.
    pub fn hook(&self, name: &str) -> Option<(&str, &Entry, &Webhook)> {
        let (id, entry) = self.entries.get_key_value(self.hooks.get(name)?)?;
        match &entry.work {
            Work::Webhook(hook) => Some((id, entry, hook)),
            Work::Cron { .. } => None,
        }
    }
}

fn place(found: &api::Diagnostic) -> String {
    format!("{}:{}: {}", found.file, found.line, found.message)
}

fn given(with: Option<&Value>) -> Map<String, Value> {
    with.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// A task with all that it begins, as it is now.
fn by_itself(tasks: &TaskRegistry, name: &str) -> Result<Arc<KnownTask>, String> {
    let found = tasks.get(name).and_then(|listing| listing.good.clone()).ok_or_else(|| NO_SUCH_TASK.to_owned())?;
    let whole = tasks.with_kin(&found).map_err(|error| error.to_string())?;
    whole.is_supported().then_some(whole).ok_or_else(|| "the task cannot be run yet".to_owned())
}

fn noticed(tasks: &TaskRegistry, known: &KnownTask) -> NoticeTasks {
    let hooks = known.task.definition.hooks.iter().filter(|hook| hook.on == Occasion::Notice);
    let names = hooks.filter_map(|hook| match &hook.work {
        HookWork::Task(body) => Some(body.task.to_string()),
        HookWork::Tell(_) => None,
    });
    names.map(|name| (name.clone(), by_itself(tasks, &name))).collect()
}

/// Not one whose jobs could only fail, each after part of its work.
fn could_end_well(tasks: &TaskRegistry, whole: Arc<KnownTask>) -> Result<Arc<KnownTask>, String> {
    if let Some(first) = whole.task.not_supported.first() {
        return Err(format!("the task cannot be run yet: {}", first.message));
    }
    let kin = tasks.kin_of(&whole.task.definition).map_err(|error| error.to_string())?;
    let misfits = tasks::misfits(&whole, whole.name(), &kin, Extent::Sure);
    match misfits.into_iter().next().or_else(|| tasks::deadlock(&whole, Extent::Sure)) {
        Some(problem) => Err(format!("the task is not good: {}", problem.message)),
        None => Ok(whole),
    }
}

fn ready(task: Arc<KnownTask>, with: Map<String, Value>) -> Result<Ready, String> {
    let told = |problems: Vec<spec::task::InputProblem>| {
        problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
    };
    let input = task.task.bind(with).map_err(told)?;
    Ok(Ready { task, input })
}
