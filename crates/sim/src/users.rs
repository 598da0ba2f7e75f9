//! Those who use the servers: they submit jobs and repeat what was not answered, and they act at bad moments.

use std::sync::Arc;
use std::time::Duration;

use engine::definition::Definition;
use engine::{Event as JobEvent, JobId, StepIx, WorkerId};
use serde::{Deserialize, Serialize};
use server::ledger::{
    AgainError, Command, EventError, FleetAnswer, FleetError, FleetOrder, Forsake, IdempotencyKey, RecoverOrder,
    Settled, Submit, SubmitError, Submitted, TriggerError, TriggerOrder,
};
use server::tasks;
use store::read::StaleAttempt;
use store::rows::{DefinitionRow, TriggerRow};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::check::Checks;
use crate::dice::Dice;
use crate::workload::{self, CallPlan, JobPlan, PEOPLE, SUBMITTER};
use crate::world::{Event, World};

mod again;
mod calls;
mod restored;

use calls::Answer;

/// People look in so often.
const REVIEW_EVERY: Duration = Duration::from_secs(15);

/// Where servers leave it to people to give up what is silent, somebody does so often.
const RECOVER_EVERY: Duration = Duration::from_secs(45);

/// How often they say no.
const REJECTED: f64 = 0.05;

/// What was missed in the last of the faults is made up for by then.
const UNSCHEDULED_AFTER: Duration = Duration::from_secs(30);

/// Whom a full group has refused comes again after this.
const ROOM_EXPECTED_IN: Duration = Duration::from_secs(20);

/// Whom nobody answers tries again after this.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Whoever submits in this world has one token.
const TOKEN: Uuid = Uuid::from_u128(0x70_6b65);

pub(crate) struct Users {
    pub plans: Vec<JobPlan>,
    /// The job of each plan, once a server has said so.
    pub jobs: Vec<Option<JobId>>,
    dice: Dice,
    /// Which inputs jobs are to have that are run once more.
    inputs: Dice,
    /// What became of each delivery to those that are called from outside.
    calls: Vec<Vec<Option<Answer>>>,
    /// What whoever calls repeats.
    deliveries: Dice,
    /// Who of several people acts.
    people: Dice,
    /// What people find out after a restore.
    doubts: Dice,
    /// Somebody does, since an operator has said that there was one.
    minds_doubts: bool,
    /// Whether they look in by themselves; in a script they do what it says.
    pub reviewing: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum UserEvent {
    Submit(usize),
    /// Somebody looks whether anything waits for people.
    Review,
    /// Whatever only a person can move is moved from now on.
    Peace,
    Tend,
    /// What has been silent for too long is given up.
    Recover,
    /// Somebody looks into what is held because the database was restored.
    MindDoubts,
    /// One of the tasks that start by themselves is let rest, or woken.
    Rest(usize, bool),
    /// So does one of those that are called from outside.
    RestOfCalls(usize, bool),
    /// Somebody outside calls for a job, for the first time or again.
    Call(usize, usize),
    /// What starts by itself is taken away, so that there is an end.
    Unschedule,
}

/// What an operator does to whatever is there at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    Cancel {
        force: bool,
    },
    Approve,
    /// Two people at once, at two servers if there are two.
    ApproveTwice,
    Reject,
    ResolveRecovering,
    /// A step of a job that is over: by what is there, or by what came too late.
    ResolveFailed,
    Retry {
        from_failed: bool,
    },
    Drain,
    Undrain,
    Remove,
    Pause,
    Resume,
    Recover,
}

impl Act {
    pub fn name(self) -> &'static str {
        match self {
            Act::Cancel { .. } => "cancel",
            Act::Approve => "approve",
            Act::ApproveTwice => "approve-twice",
            Act::Reject => "reject",
            Act::ResolveRecovering => "resolve",
            Act::ResolveFailed => "resolve-failed",
            Act::Retry { .. } => "retry",
            Act::Drain => "drain",
            Act::Undrain => "undrain",
            Act::Remove => "remove",
            Act::Pause => "pause",
            Act::Resume => "resume",
            Act::Recover => "recover",
        }
    }
}

/// An answer that somebody waits for.
pub(crate) enum Reply {
    Submit(usize, oneshot::Receiver<Result<Submitted, SubmitError>>),
    Call((usize, usize), oneshot::Receiver<Result<Submitted, SubmitError>>),
    Event(oneshot::Receiver<Result<(), EventError>>),
    Again(oneshot::Receiver<Result<Settled, AgainError>>),
    Recover(oneshot::Receiver<Result<Vec<StaleAttempt>, EventError>>),
    Fleet(oneshot::Receiver<Result<FleetAnswer, FleetError>>),
    Trigger(oneshot::Receiver<Result<TriggerRow, TriggerError>>),
}

impl Users {
    pub(crate) fn new(seed: u64, plans: Vec<JobPlan>, calls: &[CallPlan]) -> Users {
        Users {
            jobs: vec![None; plans.len()],
            plans,
            dice: Dice::new(seed, "users"),
            calls: calls.iter().map(|call| vec![None; call.at_ms.len()]).collect(),
            deliveries: Dice::new(seed, "deliveries"),
            inputs: Dice::new(seed, "inputs"),
            people: Dice::new(seed, "people"),
            doubts: Dice::new(seed, "doubts"),
            minds_doubts: false,
            reviewing: true,
        }
    }

    pub(crate) fn submitted(&self) -> usize {
        self.jobs.iter().flatten().count()
    }
}

impl World {
    pub(crate) fn plan_users(&mut self) {
        for plan in 0..self.users.plans.len() {
            let at = self.users.plans[plan].at;
            self.agenda.at(at, Event::User(UserEvent::Submit(plan)));
        }
        for (number, rest) in self.setup.schedules.iter().enumerate().filter_map(|(n, plan)| Some((n, plan.rest?))) {
            self.agenda.at(rest.from, Event::User(UserEvent::Rest(number, true)));
            self.agenda.at(rest.until, Event::User(UserEvent::Rest(number, false)));
        }
        self.plan_calls();
        if self.setup.leaves_silence_to_people() {
            self.agenda.at(RECOVER_EVERY, Event::User(UserEvent::Recover));
        }
        let all = self.users.plans.iter().flat_map(JobPlan::with_children);
        if all.flat_map(|plan| &plan.steps).any(|step| step.gate.is_some()) {
            self.agenda.at(REVIEW_EVERY, Event::User(UserEvent::Review));
        }
    }

    pub(crate) fn user_event(&mut self, event: UserEvent) {
        match event {
            UserEvent::Submit(plan) => self.submit(plan),
            UserEvent::Review if !self.users.reviewing => {}
            UserEvent::Review => {
                self.look_at_gates();
                self.agenda.after(REVIEW_EVERY, Event::User(UserEvent::Review));
            }
            UserEvent::Peace => {
                let servers = self.servers.len();
                self.fleet_everywhere(&FleetOrder::Resume, servers);
                for host in 0..self.hosts.len() {
                    let worker = WorkerId(self.hosts[host].worker);
                    self.fleet_everywhere(&FleetOrder::Drain { worker, on: false }, servers);
                }
                self.user_event(UserEvent::Tend);
                if !self.setup.schedules.is_empty() {
                    self.agenda.after(UNSCHEDULED_AFTER, Event::User(UserEvent::Unschedule));
                }
            }
            UserEvent::Recover if !self.users.reviewing => {}
            UserEvent::Recover => {
                self.give_up_the_silent();
                self.agenda.after(RECOVER_EVERY, Event::User(UserEvent::Recover));
            }
            UserEvent::MindDoubts if !self.users.reviewing => {}
            UserEvent::MindDoubts => self.mind_doubts(),
            UserEvent::Rest(number, on) => self.let_rest(self.setup.schedules[number].trigger(), on, event),
            UserEvent::Call(number, delivery) => self.call(number, delivery),
            UserEvent::RestOfCalls(number, on) => self.let_rest(self.setup.calls[number].trigger(), on, event),
            UserEvent::Unschedule => {
                self.tell(|| "ann deletes the tasks that start by themselves".to_owned());
                self.book = workload::book(&[], &self.setup.calls);
                self.check(Checks::unscheduled);
                for server in 0..self.servers.len() {
                    self.tell_triggers(server);
                }
            }
            UserEvent::Tend => {
                let _held = self.act(Act::Approve);
                self.open_gates();
                self.check(Checks::look_around);
                self.agenda.after(Duration::from_secs(20), Event::User(UserEvent::Tend));
            }
        }
    }

    /// Some server that a user can reach.
    pub(crate) fn a_server(&mut self) -> Option<usize> {
        let up: Vec<usize> = (0..self.servers.len()).filter(|at| self.servers[*at].process.is_some()).collect();
        self.users.dice.pick(&up).copied()
    }

    fn submit(&mut self, plan: usize) {
        if self.users.jobs[plan].is_some() {
            return;
        }
        let Some(server) = self.a_server() else { return self.submit_later(plan) };
        let job = &self.users.plans[plan];
        let (definition, row, children) = self.definition_of(job, job.text());
        let hash = row.hash;
        // As whoever takes a submit binds it: what was not given is there, and null.
        let input = serde_json::json!({ "n": job.input });
        let submit = Submit {
            definition,
            row,
            children,
            input,
            submitted_by: self.users.plans[plan].submitter().to_owned(),
            idempotency: Some(IdempotencyKey { token: TOKEN, key: plan.to_string(), request_hash: hash }),
            trigger: None,
        };
        let (reply, answer) = oneshot::channel();
        self.ask(server, Command::Submit(Box::new(submit), reply), Reply::Submit(plan, answer));
    }

    /// Where no server is there, somebody tries again.
    fn let_rest(&mut self, id: String, on: bool, again: UserEvent) {
        let Some(server) = self.a_server() else {
            return self.agenda.after(TRY_AGAIN, Event::User(again));
        };
        let order = if on { TriggerOrder::Pause { id, by: ann() } } else { TriggerOrder::Resume { id } };
        self.tell(|| format!("ann orders {order:?}"));
        let (reply, answer) = oneshot::channel();
        self.ask(server, Command::Trigger(order, reply), Reply::Trigger(answer));
    }

    /// What the plan is as a task, with those that its steps begin.
    fn definition_of(&self, plan: &JobPlan, text: String) -> (Arc<Definition>, DefinitionRow, Vec<DefinitionRow>) {
        let mut settings = plan.settings();
        let others = plan.with_children().split_off(1);
        settings.tasks = others.into_iter().map(|child| (child.name.clone(), child.text())).collect();
        let hash = *blake3::hash(text.as_bytes()).as_bytes();
        let row = DefinitionRow { hash, source: text, settings: settings.to_json() };
        let definition = match self.definitions.get(&row) {
            Ok(definition) => definition,
            Err(problem) => panic!("the world made a bad task: {problem}\n{}", row.source),
        };
        let children = match settings.tasks.is_empty() {
            true => Vec::new(),
            false => tasks::bind(&definition, &settings).expect("it was bound before").children,
        };
        (definition, row, children.into_iter().map(|(row, _)| row).collect())
    }

    fn submit_later(&mut self, plan: usize) {
        let pause = self.users.dice.duration(Duration::from_millis(500), Duration::from_secs(5));
        self.agenda.after(pause, Event::User(UserEvent::Submit(plan)));
    }

    pub(crate) fn ask(&mut self, server: usize, command: Command, reply: Reply) {
        if let Some(process) = &mut self.servers[server].process {
            process.replies.push(reply);
            self.command(server, command);
        }
    }

    /// Takes the answers that this server has given.
    pub(crate) fn collect_replies(&mut self, server: usize) {
        let Some(process) = &mut self.servers[server].process else { return };
        let waiting = std::mem::take(&mut process.replies);
        let mut open = Vec::new();
        for reply in waiting {
            match reply {
                Reply::Submit(plan, mut answer) => match answer.try_recv() {
                    Ok(Ok(submitted)) => self.acknowledged(plan, &submitted),
                    Ok(Err(error)) => {
                        self.tell(|| format!("submit of job {plan} was refused: {error}"));
                        self.submit_refused(plan, &error);
                    }
                    Err(oneshot::error::TryRecvError::Empty) => open.push(Reply::Submit(plan, answer)),
                    Err(oneshot::error::TryRecvError::Closed) => self.submit_later(plan),
                },
                Reply::Call(call, mut answer) => match answer.try_recv() {
                    Ok(told) => self.call_answered(call, told),
                    Err(oneshot::error::TryRecvError::Empty) => open.push(Reply::Call(call, answer)),
                    Err(oneshot::error::TryRecvError::Closed) => self.call_later(call),
                },
                Reply::Event(mut answer) => keep(&answer.try_recv(), || open.push(Reply::Event(answer))),
                Reply::Again(mut answer) => keep(&answer.try_recv(), || open.push(Reply::Again(answer))),
                Reply::Recover(mut answer) => keep(&answer.try_recv(), || open.push(Reply::Recover(answer))),
                Reply::Fleet(mut answer) => keep(&answer.try_recv(), || open.push(Reply::Fleet(answer))),
                Reply::Trigger(mut answer) => keep(&answer.try_recv(), || open.push(Reply::Trigger(answer))),
            }
        }
        if let Some(process) = &mut self.servers[server].process {
            process.replies.extend(open);
        }
    }

    fn submit_refused(&mut self, plan: usize, error: &SubmitError) {
        if matches!(error, SubmitError::GroupFull(_)) {
            self.check(|checks| checks.turned_away(plan));
            self.agenda.after(ROOM_EXPECTED_IN, Event::User(UserEvent::Submit(plan)));
        } else {
            self.submit_later(plan);
        }
    }

    fn acknowledged(&mut self, plan: usize, submitted: &Submitted) {
        let job = submitted.job;
        self.tell(|| format!("ann hears that her job {plan} is {job}"));
        let earlier = self.users.jobs[plan].replace(job);
        self.check(|checks| checks.submitted(plan, job, earlier));
    }

    /// The server died before it answered. Whoever submits repeats it, with the same key.
    pub(crate) fn unanswered(&mut self, reply: &Reply) {
        match reply {
            Reply::Submit(plan, _) => self.submit_later(*plan),
            Reply::Call(call, _) => self.call_later(*call),
            Reply::Event(_) | Reply::Again(_) | Reply::Recover(_) | Reply::Fleet(_) | Reply::Trigger(_) => {}
        }
    }

    /// False if there was nothing to do it to.
    pub(crate) fn act(&mut self, act: Act) -> bool {
        let Some(server) = self.a_server() else { return false };
        match act {
            Act::Cancel { force } => self.cancel(server, force),
            Act::Approve => self.review(&[server], true),
            Act::ApproveTwice => {
                let other = self.a_server().unwrap_or(server);
                self.review(&[server, other], true)
            }
            Act::Reject => self.review(&[server], false),
            Act::ResolveRecovering => self.resolve_open(server),
            Act::ResolveFailed => self.resolve_over(server),
            Act::Retry { from_failed } => self.retry(server, from_failed),
            Act::Drain | Act::Undrain => {
                let worker = self.a_worker();
                self.fleet(server, FleetOrder::Drain { worker, on: act == Act::Drain })
            }
            Act::Remove => match self.a_spare_worker() {
                Some(worker) => self.fleet(server, FleetOrder::Remove { worker, by: ann() }),
                None => false,
            },
            Act::Pause => self.fleet(server, FleetOrder::Pause { by: ann() }),
            Act::Resume => self.fleet(server, FleetOrder::Resume),
            Act::Recover => {
                let what = if self.users.dice.chance(0.5) { Forsake::Claimed } else { Forsake::Running };
                let older_than = *self.users.dice.pick(&[30, 120, 300]).unwrap_or(&300);
                self.recover(server, what, Duration::from_secs(older_than));
                true
            }
        }
    }

    fn recover(&mut self, server: usize, what: Forsake, older_than: Duration) {
        let order = RecoverOrder { what: Some(what), older_than, by: ann() };
        self.tell(|| format!("ann orders {order:?}"));
        let (reply, answer) = oneshot::channel();
        self.ask(server, Command::Recover(order, reply), Reply::Recover(answer));
    }

    /// By the times after which the servers would do it.
    fn give_up_the_silent(&mut self) {
        let up: Vec<usize> = (0..self.servers.len()).filter(|at| self.servers[*at].process.is_some()).collect();
        let Some(server) = self.users.people.pick(&up).copied() else { return };
        let (claimed, running) = (self.setup.core.sweep.claimed_stale, self.setup.core.sweep.running_stale);
        self.recover(server, Forsake::Claimed, claimed);
        self.recover(server, Forsake::Running, running);
    }

    fn cancel(&mut self, server: usize, force: bool) -> bool {
        let Some(job) = self.an_open_job() else { return false };
        self.tell(|| format!("ann cancels {job}{}", if force { " by force" } else { "" }));
        self.job_event(server, job, JobEvent::Cancel { by: ann(), force });
        true
    }

    fn review(&mut self, servers: &[usize], approve: bool) -> bool {
        let Some((job, step)) = self.a_step_in("held") else { return false };
        let gated = self.checks.lock().expect("no checker panics").has_gate(job, step);
        // Whoever says after a restore that it may run has looked.
        if approve && !self.checks.lock().expect("no checker panics").is_at_rest(job, step) {
            return false;
        }
        for server in servers {
            let someone = if gated { self.users.people.pick(&PEOPLE).copied() } else { None };
            let by = someone.unwrap_or(SUBMITTER);
            match approve {
                true => self.approve(*server, job, step, by),
                false => self.reject(*server, job, step, by),
            }
        }
        true
    }

    fn approve(&mut self, server: usize, job: JobId, step: StepIx, by: &'static str) {
        self.tell(|| format!("{by} approves {job}/#{}", step.0));
        self.check(|checks| checks.approve_asked(job, step, by));
        self.job_event(server, job, JobEvent::Approve { step, by: by.to_owned(), comment: String::new() });
    }

    fn reject(&mut self, server: usize, job: JobId, step: StepIx, by: &'static str) {
        self.tell(|| format!("{by} rejects {job}/#{}", step.0));
        self.check(|checks| checks.reject_asked(job, step));
        self.job_event(server, job, JobEvent::Reject { step, by: by.to_owned(), reason: "no".to_owned() });
    }

    /// One of those who may be wanted says something about one of the steps that wait.
    fn look_at_gates(&mut self) {
        let held = self.held_at_gates();
        let up: Vec<usize> = (0..self.servers.len()).filter(|at| self.servers[*at].process.is_some()).collect();
        let people = &mut self.users.people;
        let chosen = (people.pick(&up).copied(), people.pick(&held).copied(), people.pick(&PEOPLE).copied());
        let (Some(server), Some((job, step)), Some(by)) = chosen else { return };
        match self.users.people.chance(REJECTED) {
            false => self.approve(server, job, step, by),
            true => self.reject(server, job, step, by),
        }
    }

    /// Everybody says yes wherever more than one person's yes may be wanted.
    fn open_gates(&mut self) {
        let up = (0..self.servers.len()).find(|at| self.servers[*at].process.is_some());
        let Some(server) = up else { return };
        for (job, step) in self.held_at_gates() {
            PEOPLE.into_iter().for_each(|by| self.approve(server, job, step, by));
        }
    }

    fn held_at_gates(&self) -> Vec<(JobId, StepIx)> {
        let checks = self.checks.lock().expect("no checker panics");
        let is_asked_for = |job, step| checks.has_gate(job, step) && checks.is_at_rest(job, step);
        checks.steps_in("held").into_iter().filter(|(job, step)| is_asked_for(*job, *step)).collect()
    }

    /// The one that a fault is about, or some worker.
    fn a_worker(&mut self) -> WorkerId {
        let some = self.users.dice.below(self.hosts.len());
        let host = self.scene.map_or(some, |scene| scene.host);
        WorkerId(self.hosts[host].worker)
    }

    /// One that can go for ever: the first two can do everything, and stay.
    fn a_spare_worker(&mut self) -> Option<WorkerId> {
        let spare = self.hosts.len().checked_sub(2).filter(|spare| *spare > 0)?;
        let some = 2 + self.users.dice.below(spare);
        let host = self.scene.map_or(some, |scene| scene.host);
        (host >= 2).then(|| WorkerId(self.hosts[host].worker))
    }

    fn fleet_everywhere(&mut self, order: &FleetOrder, servers: usize) {
        for server in 0..servers {
            self.fleet(server, order.clone());
        }
    }

    pub(crate) fn fleet(&mut self, server: usize, order: FleetOrder) -> bool {
        self.tell(|| format!("ann orders {order:?}"));
        let (reply, answer) = oneshot::channel();
        self.ask(server, Command::Fleet(order, reply), Reply::Fleet(answer));
        true
    }

    pub(crate) fn job_event(&mut self, server: usize, job: JobId, event: JobEvent) {
        let (reply, answer) = oneshot::channel();
        self.ask(server, Command::Event { job, event, reply }, Reply::Event(answer));
    }

    /// One that has something on the host that a fault is about, or any.
    fn an_open_job(&mut self) -> Option<JobId> {
        let mut open = self.checks.lock().expect("no checker panics").open_jobs();
        if let Some(scene) = self.scene {
            let folders = self.hosts[scene.host].disk.attempts.values();
            let there: Vec<JobId> = folders.map(|folder| JobId(folder.spec.attempt.job)).collect();
            open.retain(|job| there.contains(job));
        }
        if let Some(holder) = self.holder {
            let checks = self.checks.lock().expect("no checker panics");
            open.retain(|job| *job != holder && checks.shares_group(*job, holder));
        }
        self.users.dice.pick(&open).copied()
    }

    fn a_step_in(&mut self, state: &str) -> Option<(JobId, StepIx)> {
        let mut steps = self.checks.lock().expect("no checker panics").steps_in(state);
        self.keep_to_group(&mut steps);
        self.prefer_the_scene(&mut steps);
        self.users.dice.pick(&steps).copied()
    }

    /// Steps of jobs that have something on the host that a fault is about, if there are any.
    fn prefer_the_scene(&self, steps: &mut Vec<(JobId, StepIx)>) {
        let Some(scene) = self.scene else { return };
        let folders = self.hosts[scene.host].disk.attempts.values();
        let there: Vec<JobId> = folders.map(|folder| JobId(folder.spec.attempt.job)).collect();
        if steps.iter().any(|(job, _)| there.contains(job)) {
            steps.retain(|(job, _)| there.contains(job));
        }
    }

    /// Where an operator acts on a concurrency group, only what is of that.
    fn keep_to_group(&self, steps: &mut Vec<(JobId, StepIx)>) {
        if let Some(holder) = self.holder {
            let checks = self.checks.lock().expect("no checker panics");
            steps.retain(|(job, _)| checks.shares_group(*job, holder));
        }
    }

    /// A job that has a slot of its group, and a host on which something of it is. One that somebody waits behind, if there is
    /// any.
    pub(crate) fn a_holder(&mut self) -> Option<(JobId, usize)> {
        let held = self.checks.lock().expect("no checker panics").held_slots();
        let mut there: Vec<(JobId, usize, bool)> = Vec::new();
        for (host, at) in self.hosts.iter().enumerate() {
            let jobs = at.disk.attempts.values().map(|folder| JobId(folder.spec.attempt.job));
            there.extend(jobs.filter_map(|job| Some((job, host, *held.get(&job)?))));
        }
        if there.iter().any(|(.., awaited)| *awaited) {
            there.retain(|(.., awaited)| *awaited);
        }
        self.users.dice.pick(&there).map(|(job, host, _)| (*job, *host))
    }
}

impl Users {
    /// Every plan has its job, and no job is open.
    pub(crate) fn all_is_over(&self, checks: &Checks) -> bool {
        let answered = self.calls.iter().flatten().all(Option::is_some);
        self.jobs.iter().all(Option::is_some) && answered && !checks.has_open_jobs()
    }
}

/// The operator.
fn ann() -> String {
    SUBMITTER.to_owned()
}

fn keep<T>(answer: &Result<T, oneshot::error::TryRecvError>, wait: impl FnOnce()) {
    if matches!(answer, Err(oneshot::error::TryRecvError::Empty)) {
        wait();
    }
}
