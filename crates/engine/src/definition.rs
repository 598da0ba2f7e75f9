//! What a job is to do: the task's graph and policies, checked, immutable, shared by all jobs of one text.
//!
//! `spec` builds it from a task file; the ledger hands it to the engine with every job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use planted::Bug;
use serde_json::Value;

use crate::graph::{self, GraphError};
use crate::ids::StepIx;
use crate::retry::RetryPolicy;
use crate::state::End;

/// More would make one job a database of its own: steps of the file and items of fan-outs together.
pub const STEPS_MAX: usize = 20_000;

/// The most items of one fan-out.
pub const ITEMS_MAX: usize = 10_000;

/// How deep jobs begin jobs: a task that starts tasks that start tasks, and so on, is so many levels at most.
pub const DEPTH_MAX: usize = 8;

/// Whose files one step may find in its folder, each item of a fan-out for itself: they travel in one message.
pub const FETCHED_MAX: usize = 2_000;

/// How many jobs one fan-out has under way at once: each is made in the transaction that gives it its turn.
pub const CHILDREN_AT_ONCE: u32 = 100;

/// The most secrets that one step is given.
pub const STEP_SECRETS_MAX: usize = 32;

/// A task as the engine needs it.
#[derive(Debug)]
pub struct Definition {
    pub name: Arc<str>,
    /// Cancelled when over.
    pub timeout: Option<Duration>,
    /// Failed as `expired` if nothing has started by then.
    pub expires: Option<Duration>,
    /// One that takes longer is worth a notice; nothing else changes by it.
    pub expect: Option<Duration>,
    pub priority: i32,
    /// How many jobs of its group run at once; none: any number.
    pub concurrency: Option<Concurrency>,
    /// What follows on its end, or on a notice.
    pub hooks: Vec<Hook>,
    steps: Vec<StepDef>,
    by_name: BTreeMap<Arc<str>, StepIx>,
    dependents: Vec<Vec<StepIx>>,
}

/// What a [`Definition`] is made from.
#[derive(Debug, Clone)]
pub struct DefinitionParts {
    pub name: Arc<str>,
    pub timeout: Option<Duration>,
    pub expires: Option<Duration>,
    pub expect: Option<Duration>,
    pub priority: i32,
    pub concurrency: Option<Concurrency>,
    pub hooks: Vec<Hook>,
    pub steps: Vec<StepDef>,
}

/// A group of jobs of which only so many run at once. Jobs of different tasks may be in one group; each goes by its own
/// task's limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concurrency {
    /// The group's name as it is written; a template over the job's input, maybe.
    pub group: Arc<str>,
    pub templated: bool,
    pub limit: u32,
    pub when_full: WhenFull,
}

/// What becomes of a job whose group has no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits for its turn.
    Queue,
    /// It is not taken at all.
    Reject,
    /// The oldest job of the group is cancelled, and this one waits for its end.
    CancelOldest,
}

impl WhenFull {
    /// The word of the task file.
    pub fn word(self) -> &'static str {
        match self {
            WhenFull::Queue => "queue",
            WhenFull::Reject => "reject",
            WhenFull::CancelOldest => "cancel_oldest",
        }
    }
}

impl Definition {
    pub fn new(parts: DefinitionParts) -> Result<Definition, GraphError> {
        let dependents = graph::dependents(&parts.steps)?;
        let mut by_name = BTreeMap::new();
        for (index, step) in parts.steps.iter().enumerate() {
            if by_name.insert(step.name.clone(), StepIx::of(index)).is_some() {
                return Err(GraphError::DuplicateName { name: step.name.clone() });
            }
        }
        let DefinitionParts { name, timeout, expires, expect, priority, concurrency, hooks, steps } = parts;
        Ok(Definition { name, timeout, expires, expect, priority, concurrency, hooks, steps, by_name, dependents })
    }

    pub fn steps(&self) -> &[StepDef] {
        &self.steps
    }

    pub fn step(&self, ix: StepIx) -> &StepDef {
        &self.steps[ix.get()]
    }

    pub fn find(&self, name: &str) -> Option<StepIx> {
        self.by_name.get(name).copied()
    }

    /// The steps that need this one.
    pub fn dependents(&self, ix: StepIx) -> &[StepIx] {
        &self.dependents[ix.get()]
    }
}

/// What follows on a job's end, or on a notice.
#[derive(Debug, Clone)]
pub struct Hook {
    pub on: Occasion,
    pub work: HookWork,
    /// The steps whose state or output its templates read.
    pub uses: Vec<StepIx>,
}

/// How a job must have ended for a hook to follow; or that there is something to notice while it has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    Success,
    /// It failed, or its own timeout cancelled it, which is nobody's wish.
    Error,
    /// Somebody wanted it cancelled.
    Cancel,
    /// It succeeded although it lost touch with a worker on the way.
    Recovered,
    /// Something takes longer than it should, or did not happen.
    Notice,
}

impl Occasion {
    /// Hooks are numbered in this order: a new one comes last.
    pub const ALL: [Occasion; 5] =
        [Occasion::Success, Occasion::Error, Occasion::Cancel, Occasion::Recovered, Occasion::Notice];

    /// The key of the task file.
    pub fn word(self) -> &'static str {
        match self {
            Occasion::Success => "on_success",
            Occasion::Error => "on_error",
            Occasion::Cancel => "on_cancel",
            Occasion::Recovered => "on_recovered",
            Occasion::Notice => "on_notice",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum HookWork {
    /// A job of its own, for which nobody waits.
    Task(Arc<ChildBody>),
    /// Somebody outside is told.
    Tell(Outside),
}

/// Who is told, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outside {
    Webhook(Arc<Webhook>),
    Mail(Arc<Mail>),
}

impl Outside {
    /// The address, for people.
    pub fn address(&self) -> String {
        match self {
            Outside::Webhook(webhook) => webhook.url.clone(),
            Outside::Mail(mail) => format!("mailto:{}", mail.to.join(",")),
        }
    }
}

/// To whom a mail goes; the addresses were checked when the task was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub to: Vec<String>,
}

/// Where a word is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    /// The name of the secret that signs it; the installation's own key where there is none.
    pub secret: Option<String>,
}

/// One node of the graph.
#[derive(Debug, Clone)]
pub struct StepDef {
    pub name: Arc<str>,
    pub needs: Vec<Need>,
    pub condition: Condition,
    /// The steps whose state or output the condition or a template reads; each is an ancestor by `needs`.
    pub uses: Vec<StepIx>,
    pub work: Work,
    /// It is done once for each item of a list.
    pub fan_out: Option<FanOut>,
    /// All the tags that a worker must have, the kind's own (`script`) included; sorted, without repeats.
    pub tags: Vec<Arc<str>>,
    pub effects: Effects,
    pub on_disconnect: OnDisconnect,
    pub timeout: Option<Duration>,
    /// An attempt that takes longer is worth a notice; nothing else changes by it.
    pub expect: Option<Duration>,
    pub retry: RetryPolicy,
    pub unmatched: Patience,
    /// Its failure does not fail the job, and counts as success for those that need it.
    pub allow_failure: bool,
    pub stop: StopPolicy,
    /// The names of the secrets that it is given when it starts. Nothing here ever holds their values.
    pub secrets: Vec<Arc<str>>,
    /// What must be granted before it runs.
    pub protection: Protection,
    /// Earlier steps whose artifacts it finds in its folder; each is an ancestor by `needs`.
    pub fetch: Vec<Fetch>,
}

/// The artifacts of an earlier step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    pub step: StepIx,
    /// A folder below the step's own; none: that itself.
    pub to: Option<Arc<str>>,
}

/// Which files a step leaves for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepRule {
    /// Globs, relative to the folder that the step starts in.
    pub paths: Vec<String>,
    pub when: KeepWhen,
    /// A glob that means no file is nothing to speak of.
    pub optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepWhen {
    /// The step ended well.
    Success,
    /// However it ended, if it began at all.
    Always,
}

impl StepDef {
    /// Whether files are stored after it has been stopped.
    pub fn always_leaves_files(&self) -> bool {
        match &self.work {
            Work::Run(body) => body.artifacts.as_ref().is_some_and(|rule| rule.when == KeepWhen::Always),
            Work::Approve | Work::Child(_) => false,
        }
    }

    /// How long its cleanup may take; none if it has no cleanup.
    pub fn cleanup(&self) -> Option<Duration> {
        match &self.work {
            Work::Run(body) => body.cleanup.as_ref().map(|_| self.stop.cleanup),
            Work::Approve | Work::Child(_) => None,
        }
    }
}

/// What a step can ask of its worker beside tags. Workers of earlier versions lack it, and would leave it out without a
/// word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    Artifacts,
    Cleanup,
    Secrets,
}

impl Ability {
    pub const ALL: [Ability; 3] = [Ability::Artifacts, Ability::Cleanup, Ability::Secrets];

    /// How it stands among tags. No tag can have such a name.
    pub fn mark(self) -> &'static str {
        match self {
            Ability::Artifacts => "(artifacts)",
            Ability::Cleanup => "(cleanup)",
            Ability::Secrets => "(secrets)",
        }
    }

    /// After "can", for people.
    fn words(self) -> &'static str {
        match self {
            Ability::Artifacts => "store and fetch artifacts",
            Ability::Cleanup => "clean up after a step",
            Ability::Secrets => "be handed secrets",
        }
    }

    /// Tags in one list, and what stands for an ability, in words, in another.
    pub fn parted<'a>(wanted: impl IntoIterator<Item = &'a str>) -> (Vec<&'a str>, Vec<&'static str>) {
        let (mut tags, mut can) = (Vec::new(), Vec::new());
        for word in wanted {
            match Ability::ALL.into_iter().find(|ability| ability.mark() == word) {
                Some(ability) => can.push(ability.words()),
                None => tags.push(word),
            }
        }
        (tags, can)
    }

    /// All that a worker must have: `[script]`, or `[script] that can be handed secrets`.
    pub fn told<'a>(wanted: impl IntoIterator<Item = &'a str>) -> String {
        let (tags, can) = Ability::parted(wanted);
        let tags = tags.join(", ");
        if can.is_empty() { format!("[{tags}]") } else { format!("[{tags}] that can {}", can.join(" and ")) }
    }
}

impl StepDef {
    /// All that its worker must have: its tags, and what its other wishes ask for.
    pub fn wanted(&self) -> Vec<Arc<str>> {
        let besides = Ability::ALL.into_iter().filter(|ability| self.asks_for(*ability));
        self.tags.iter().cloned().chain(besides.map(|ability| Arc::from(ability.mark()))).collect()
    }

    fn asks_for(&self, ability: Ability) -> bool {
        let Work::Run(body) = &self.work else { return false };
        match ability {
            Ability::Artifacts => body.artifacts.is_some() || !self.fetch.is_empty(),
            Ability::Cleanup => body.cleanup.is_some(),
            Ability::Secrets => !self.secrets.is_empty(),
        }
    }
}

/// How a step becomes many.
#[derive(Debug, Clone)]
pub struct FanOut {
    pub items: Items,
    /// How many are under way at once; none: all.
    pub max_parallel: Option<u32>,
    /// The first failure calls off the others.
    pub fail_fast: bool,
}

/// What a fan-out goes over.
#[derive(Debug, Clone)]
pub enum Items {
    /// A template that gives a list.
    Text(Arc<str>),
    /// Values as they are written; texts in them may be templates.
    List(Arc<Vec<Value>>),
    /// Every combination of the axes' values, as objects; the last axis turns fastest.
    Matrix(Arc<Vec<(String, Vec<Value>)>>),
}

/// An edge: this step waits for `step` to be final, and is satisfied if its state is among `on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    pub step: StepIx,
    pub on: Ends,
}

/// A set of final states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub success: bool,
    pub failed: bool,
    pub cancelled: bool,
    pub skipped: bool,
}

impl Ends {
    pub const SUCCESS: Ends = Ends { success: true, failed: false, cancelled: false, skipped: false };

    /// Whether this end is among them; an allowed failure also counts as success.
    pub(crate) fn meet(self, end: End, failure_allowed: bool) -> bool {
        match end {
            End::Success => self.success,
            End::Failed => self.failed || (failure_allowed && self.success),
            End::Cancelled => self.cancelled,
            End::Skipped(_) => self.skipped,
        }
    }
}

/// When a step runs, once its needs are final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `success()`: every need is satisfied.
    Success,
    /// An expression over `success() failure() always() cancelled()`, `input` and `steps`.
    Expression(Arc<str>),
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum Work {
    /// A program on a worker.
    Run(Arc<RunBody>),
    /// A person's word; the server does it.
    Approve,
    /// A child job; the server does it.
    Child(Arc<ChildBody>),
}

/// A job that a step begins, and ends with.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildBody {
    /// The name of its task.
    pub task: Arc<str>,
    /// What it is given, as it is written: an object, in which texts may be templates.
    pub with: Value,
    /// The task as it was when the outermost job was submitted. None where there was none, or nobody has looked for it.
    pub bound: Option<Arc<ChildTask>>,
}

/// A task that steps begin.
#[derive(Debug)]
pub struct ChildTask {
    pub definition: Arc<Definition>,
    /// How its text is named where texts are kept.
    pub hash: [u8; 32],
    pub inputs: Box<dyn Inputs>,
}

/// The same text is the same task.
impl PartialEq for ChildTask {
    fn eq(&self, other: &ChildTask) -> bool {
        self.hash == other.hash
    }
}

/// What a task declares that it wants to be given.
pub trait Inputs: std::fmt::Debug + Send + Sync {
    /// The job's input, or in words what is wrong with it.
    fn bind(&self, given: Value) -> Result<Value, String>;
}

/// A program, its environment and its folder. Templates are filled in when the step is queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunBody {
    pub program: Program,
    /// The task's `env` with the step's own over it.
    pub env: BTreeMap<String, String>,
    pub workdir: Option<String>,
    /// What is executed after a cancel or its timeout has ended it, in the same folder and environment.
    pub cleanup: Option<Program>,
    /// The files that it leaves; none: nothing is kept.
    pub artifacts: Option<KeepRule>,
    /// Some text of it holds a template.
    pub templated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// The shell's argv; the script's file becomes its last argument.
    Script { shell: Vec<String>, text: String },
    /// Executed as it is.
    Command { argv: Vec<String> },
}

/// What a step may do to the world, and so whether it may be repeated after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effects {
    /// Reads only.
    None,
    /// Writes that may be repeated.
    Idempotent,
    /// Never handed over again once it may have started.
    Writes,
}

impl Effects {
    pub fn may_repeat(self) -> bool {
        match self {
            Effects::None | Effects::Idempotent => true,
            Effects::Writes => planted::is(Bug::WritesRepeated),
        }
    }
}

/// What a step does when its worker is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnDisconnect {
    /// Finish, and report late.
    Keep,
    /// End with the lease: never two copies at once.
    Stop,
}

/// How long a step waits for a worker that has its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// The installation's `unmatched_step_timeout_secs`.
    Default,
    For(Duration),
    Forever,
}

/// How a running step is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopPolicy {
    /// A signal's number on Linux.
    pub signal: i32,
    pub grace: Duration,
    /// How long its cleanup may take, if it has one.
    pub cleanup: Duration,
}

/// Rules that hold a step back before it is queued.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protection {
    /// Whose rules they are; none for an `approve` step, which has its own.
    pub environment: Option<Arc<str>>,
    /// What the people who are asked read.
    pub message: Option<Arc<str>>,
    /// A timer first.
    pub wait: Option<Duration>,
    /// Then this many different people.
    pub reviewers: u32,
    /// Who submitted the job is none of them.
    pub four_eyes: bool,
    /// How long they have.
    pub hold_expires: Option<Duration>,
}
