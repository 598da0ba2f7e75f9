//! Notices and who is to hear of them, besides the hooks of a job's own task: the server's log, its figures, and what its
//! configuration says follows on each. All of it is written with what it is about, under ids that follow from that.

use std::sync::Arc;

use engine::definition::{ChildBody, ChildTask, Definition, Hook, HookWork, Inputs, Occasion};
use engine::eval::{Evaluator as _, Noticed, Outcome, Scope, StepView};
use engine::event::Birth;
use engine::{Changes, Job, JobId, JobState, Notice, NoticeKind, StateName, StepIx, Time};
use planted::Bug;
use serde_json::{Map, Value};
use store::Store;
use store::rows::TriggerRow;

use super::core::Core;
use super::letters::Story;
use super::round::Round;
use super::schedules::submitted_by;
use crate::schedule::{Entry, plan};
use crate::tasks::KnownTask;

/// The numbers of a task's own hooks are below this: no task has so many.
const OF_SERVER: usize = 512;

impl<S: Store> Core<S> {
    /// What the server itself lets follow on the notices of a job.
    pub(super) fn order_notices(&mut self, id: JobId, changes: &Changes, round: &mut Round) {
        for notice in &changes.notices {
            round.notices.push((id, notice.clone()));
            if notice.kept_quiet || planted::is(Bug::ServerTellsNobody) {
                continue;
            }
            let about = notice.step.as_ref().map(|(ix, _)| *ix);
            for (number, work) in self.config.notices.clone().iter().enumerate() {
                let Some(job) = self.cache.get(id).map(|cached| &cached.job) else { continue };
                let hook_id = id.notice(notice.kind, about, OF_SERVER + number);
                match work {
                    HookWork::Tell(to) => {
                        Story::of_job(job, Occasion::Notice, Some(notice)).send(hook_id, id, to, round);
                    }
                    // Nothing begins on what itself follows on something: it could go on for ever.
                    HookWork::Task(_) if job.hook_of.is_some() => {}
                    HookWork::Task(body) => {
                        let scene = Scene::of_job(job, notice);
                        self.begin_of_server(hook_id, body, &scene, round);
                    }
                }
            }
        }
    }

    /// Times of a trigger passed without a job. Returns what stands or falls with the trigger's row: the id that all
    /// that follows is tied to.
    pub(super) fn miss(&mut self, row: &TriggerRow, planned: Time, text: &str, round: &mut Round) -> JobId {
        self.metrics.notices.inc();
        tracing::warn!(trigger = row.id, task = row.task, text, "a schedule did not run");
        let base = plan::missed_id(&row.id, planned);
        let (kind, text) = (NoticeKind::ScheduleMissed, text.to_owned());
        let notice = Notice { kind, at: round.now, step: None, text, kept_quiet: false };
        let story = Story::of_trigger(row, planned, &notice);
        let book = self.schedules.book();
        if let Some(entry) = book.as_ref().and_then(|book| book.get(&row.id)) {
            let definition = Some(entry.body.clone());
            let scene = Scene { definition, ..Scene::of_trigger(row, base, &notice) };
            for (number, hook) in entry.body.hooks.iter().enumerate() {
                let id = base.notice(kind, None, number);
                match &hook.work {
                    _ if hook.on != Occasion::Notice => {}
                    HookWork::Tell(to) => story.send(id, base, to, round),
                    HookWork::Task(body) => self.begin_of_task(id, (hook, body), entry, &scene, round),
                }
            }
        }
        let scene = Scene::of_trigger(row, base, &notice);
        for (number, work) in self.config.notices.clone().iter().enumerate() {
            let id = base.notice(kind, None, OF_SERVER + number);
            match work {
                HookWork::Tell(to) => story.send(id, base, to, round),
                HookWork::Task(body) => self.begin_of_server(id, body, &scene, round),
            }
        }
        base
    }

    /// A job that the task of a trigger wants; its texts came with the task, unless that cannot be run.
    fn begin_of_task(
        &mut self,
        id: JobId,
        (hook, body): (&Hook, &ChildBody),
        entry: &Entry,
        scene: &Scene<'_>,
        round: &mut Round,
    ) {
        let Some(task) = body.bound.clone() else {
            return self.begin_known(id, (body, &hook.uses), entry.notice_task(&body.task), scene, round);
        };
        let made = scene.fill(self, &body.with, &hook.uses).and_then(|given| {
            let input = task.inputs.bind(given)?;
            Ok((task, input))
        });
        entry.rows.iter().for_each(|row| round.add_definition(row));
        self.begin_noticed(id, &body.task, made, scene, round);
    }

    /// A job that the server's own configuration wants, of a task as it is now.
    fn begin_of_server(&mut self, id: JobId, body: &ChildBody, scene: &Scene<'_>, round: &mut Round) {
        let known = self.schedules.book().and_then(|book| book.notice_task(&body.task).cloned());
        let known = known.unwrap_or_else(|| Err("there is no such task".to_owned()));
        self.begin_known(id, (body, &[]), known, scene, round);
    }

    fn begin_known(
        &mut self,
        id: JobId,
        (body, uses): (&ChildBody, &[StepIx]),
        known: Result<Arc<KnownTask>, String>,
        scene: &Scene<'_>,
        round: &mut Round,
    ) {
        let made = known.and_then(|known| {
            let given = scene.fill(self, &body.with, uses)?;
            let input = known.task.bind(given.as_object().cloned().unwrap_or_default());
            let told = |problems: Vec<spec::task::InputProblem>| {
                problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
            };
            known.children.iter().chain([&known.row]).for_each(|row| round.add_definition(row));
            Ok((as_child(&known), input.map_err(told)?))
        });
        self.begin_noticed(id, &body.task, made, scene, round);
    }

    fn begin_noticed(
        &mut self,
        id: JobId,
        task_name: &str,
        made: Result<(Arc<ChildTask>, Value), String>,
        scene: &Scene<'_>,
        round: &mut Round,
    ) {
        let made = made.and_then(|(task, input)| {
            let group = engine::group_of(&task.definition, &input, id, &self.evaluator)?;
            Ok((task, input, group))
        });
        match made {
            Ok((task, input, group)) => {
                let (parent, hook_of, submitted_by) = (None, Some(scene.of), scene.by.as_str().into());
                let birth = Birth { id, parent, hook_of, task, input: Arc::new(input), group, submitted_by };
                self.bear(scene.of, &birth, round);
            }
            Err(problem) => {
                tracing::error!(task = task_name, notice = scene.notice.text, problem, "no job follows on a notice");
            }
        }
    }
}

/// What the texts of a hook may see.
struct Scene<'a> {
    /// The job that it is about; or what stands for the times that passed.
    of: JobId,
    by: String,
    task: String,
    /// Where its steps may be named.
    definition: Option<Arc<Definition>>,
    state: JobState,
    notice: &'a Notice,
}

impl<'a> Scene<'a> {
    fn of_job(job: &Job, notice: &'a Notice) -> Scene<'a> {
        let (by, task) = (job.submitted_by.to_string(), job.definition.name.to_string());
        Scene { of: job.id, by, task, definition: None, state: job.header.state, notice }
    }

    /// Where there is no job.
    fn of_trigger(row: &TriggerRow, of: JobId, notice: &'a Notice) -> Scene<'a> {
        let (by, task) = (submitted_by(&row.id), row.task.clone());
        Scene { of, by, task, definition: None, state: JobState::Pending, notice }
    }

    fn fill<S: Store>(&self, core: &Core<S>, with: &Value, uses: &[StepIx]) -> Result<Value, String> {
        let definition = self.definition.as_deref();
        let view = |ix: StepIx| StepView {
            name: &definition.expect("only the hooks of a task name its steps").step(ix).name,
            state: StateName::Pending,
            output: &Value::Null,
            error_code: None,
        };
        let notice = Noticed { kind: self.notice.kind, text: &self.notice.text, step: self.notice.step_name() };
        core.evaluator.fill(
            with,
            uses,
            &Scope {
                job: self.of,
                task: &self.task,
                input: &Value::Object(Map::new()),
                success: false,
                failure: false,
                cancelled: false,
                steps: &view,
                item: None,
                outcome: Some(Outcome { state: self.state, error: None, step: None }),
                notice: Some(notice),
            },
        )
    }
}

fn as_child(known: &KnownTask) -> Arc<ChildTask> {
    let (definition, hash) = (known.task.definition.clone(), known.row.hash);
    Arc::new(ChildTask { definition, hash, inputs: Box::new(Bound) })
}

/// What is given was bound to the task's inputs before.
#[derive(Debug)]
struct Bound;

impl Inputs for Bound {
    fn bind(&self, given: Value) -> Result<Value, String> {
        Ok(given)
    }
}

/// For the server's own log, after the commit.
pub(super) fn say(job: JobId, notice: &Notice) {
    let (kind, step, text) = (notice.kind.word(), notice.step_name().unwrap_or_default(), &notice.text);
    tracing::warn!(%job, kind, step, text, "a notice");
}
