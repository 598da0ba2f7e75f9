//! Plays a script in a world.

use std::time::Duration;

use engine::{Event as JobEvent, JobId, StepIx, WorkerId};
use server::ledger::{Again, Command, FleetOrder, Forsake, How, RecoverOrder, ResolveOrder, RetryOrder};
use server::run::core_config;
use spec::config::server::ServerConfig;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::dice::Dice;
use crate::faults::{Fault, FaultEvent};
use crate::hosts::HostEvent;
use crate::setup::{Backing, Setup};
use crate::story::Story;
use crate::users::Reply;
use crate::workload::{JobPlan, SUBMITTER, SchedulePlan};
use crate::world::{Event, World};

use super::call::{self, Text};
use super::moment::Moment;
use super::recorder::Recorder;
use super::script::{Do, EVERY_MINUTES, Order, Scene, Schedule, Script, Settle, When};
use super::seen::Seen;

/// Whatever a script waits for comes within this.
const PATIENCE: Duration = Duration::from_secs(26 * 3600);

/// After all is over: for what comes late.
const TAIL: Duration = Duration::from_secs(90);

/// Nobody submits at the same time after a server's start.
const SUBMIT_WITHIN: Duration = Duration::from_secs(10);

/// Whoever has the slot of the job's concurrency group was submitted so long before it.
const HOLDER_BEFORE: Duration = Duration::from_secs(100);

/// When those would submit it who have not been told that an order makes it: after the end of the world.
const NOT_BY_THEMSELVES: Duration = Duration::from_secs(30 * 24 * 3600);

/// What `bowline recover fail` calls silent.
const SILENT_FOR: Duration = Duration::from_secs(300);

/// A step that runs has run for so long, at least and at most, when a scene begins.
const INTO_THE_RUN: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(50));

/// What the script waits for never came.
#[derive(Debug, Error)]
#[error("{what} never came")]
pub struct Stuck {
    pub what: String,
}

/// Plays it with the chances of this seed. The job's first step, or an item of it, is the one that is watched.
pub fn play(script: &Script, seed: u64, story: Story) -> Result<Seen, Stuck> {
    let mut stage = Stage::new(script, seed, story);
    for scene in &script.scenes {
        stage.scene(scene)?;
    }
    stage.wait_for("the end of everything", |recorder, world| recorder.all_is_over(world))?;
    stage.pass(TAIL);
    stage.world.count_struck_commits();
    let fired: u64 = stage.world.fired.values().sum();
    if fired < script.faults() {
        return Err(Stuck { what: "the effect of some fault".to_owned() });
    }
    Ok(stage.recorder.finish(&stage.world))
}

struct Stage {
    world: World,
    recorder: Recorder,
    dice: Dice,
    /// The job's task, where an order makes the job.
    text: Option<Text>,
}

impl Schedule {
    fn of(self, job: &JobPlan) -> SchedulePlan {
        let (job, jitter) = (job.clone(), Duration::ZERO);
        SchedulePlan { job, minutes: EVERY_MINUTES, once: self.once, jitter, rest: self.rest }
    }
}

impl Stage {
    fn new(script: &Script, seed: u64, story: Story) -> Stage {
        let (config, problems) = spec::config::server::parse(&script.config, "script", Vec::new());
        let config: ServerConfig = config.unwrap_or_else(|| panic!("the script's config is bad: {problems:?}"));
        let faults = script.planned_faults();
        // What one server has is a file of its own; only plain tables can be shared, or lose what they had.
        let plain = script.servers > 1 || faults.iter().any(|fault| fault.kind.forgets());
        let setup = Setup {
            backing: if plain { Backing::Memory } else { Backing::Sqlite },
            servers: script.servers,
            hosts: script.hosts.clone(),
            core: core_config(&config),
            schedules: script.schedule.map(|schedule| schedule.of(&script.job)).into_iter().collect(),
            ..Setup::of(seed)
        };
        let mut dice = Dice::new(seed, "script");
        let mut job = script.job.clone();
        job.at += dice.duration(Duration::ZERO, SUBMIT_WITHIN);
        let text = script.called.then(|| Text::of(&job));
        if text.is_some() {
            job.at = NOT_BY_THEMSELVES;
        }
        let holder = script.holder.clone().map(|holder| JobPlan { at: job.at - HOLDER_BEFORE, ..holder });
        let submitted = script.schedule.is_none().then_some(job);
        let jobs: Vec<JobPlan> = submitted.into_iter().chain(holder).collect();
        let mut world = World::with(seed, setup, jobs, Vec::new(), story);
        world.check(|checks| checks.expect(&faults));
        world.users.reviewing = false;
        Stage { world, recorder: Recorder::new(script), dice, text }
    }

    fn scene(&mut self, scene: &Scene) -> Result<(), Stuck> {
        match scene.when {
            When::After(time) => self.pass(time),
            When::Moment(moment) => {
                let come = |recorder: &Recorder, world: &World| {
                    moment.has_come(world, recorder.job.as_ref(), recorder.watched)
                };
                self.wait_for(&format!("{moment:?}"), come)?;
                if matches!(moment, Moment::Execution(_) | Moment::ItemRuns(_) | Moment::ChildRuns | Moment::HolderRuns)
                {
                    let (least, most) = INTO_THE_RUN;
                    let time = self.dice.duration(least, most);
                    self.pass(time);
                }
            }
        }
        if let Some(name) = scene.mark {
            self.recorder.mark(name, &self.world);
        }
        if scene.asks {
            self.recorder.ask(&self.world);
        }
        for what in &scene.does {
            self.does(*what);
        }
        self.recorder.look(&self.world);
        Ok(())
    }

    fn pass(&mut self, time: Duration) {
        let end = self.world.agenda.now() + time;
        while self.world.agenda.next_at().is_some_and(|next| next <= end) {
            self.next();
        }
        self.world.agenda.pass_to(end);
    }

    fn wait_for(&mut self, what: &str, come: impl Fn(&Recorder, &World) -> bool) -> Result<(), Stuck> {
        let end = self.world.agenda.now() + PATIENCE;
        while !come(&self.recorder, &self.world) {
            if self.world.agenda.now() > end {
                return Err(Stuck { what: what.to_owned() });
            }
            self.next();
        }
        Ok(())
    }

    fn next(&mut self) {
        self.world.next();
        self.recorder.look(&self.world);
    }

    fn does(&mut self, what: Do) {
        let world = &mut self.world;
        match what {
            Do::Fault(kind) => {
                let at = world.agenda.now();
                world.fault_event(FaultEvent::Fire(Fault { at, kind, on: None }));
            }
            Do::FaultOn(moment, kind) => {
                let at = world.agenda.now();
                world.fault_event(FaultEvent::Fire(Fault { at, kind, on: Some(moment) }));
            }
            Do::AtItsServer(fault) => {
                let link = world.hosts[0].process.as_ref().map(|process| process.link);
                // Not connected to any, it has nothing to lose there.
                if let Some(server) = link.and_then(|link| world.server_of(link)) {
                    self.does(Do::Fault(fault(server)));
                }
            }
            Do::Order(order) => self.orders(order),
            Do::Stop { host, level } => {
                world.hosts[host].supervised = false;
                world.stop_worker(host, level);
            }
            Do::FillDepot => world.files.full = true,
            Do::RefuseWords => world.refuses_words = true,
            Do::Unsupervised { host } => world.hosts[host].supervised = false,
            Do::StartWorker { host } => {
                world.agenda.after(Duration::ZERO, Event::Host { host, what: HostEvent::StartWorker });
            }
        }
    }

    fn orders(&mut self, order: Order) {
        let by = SUBMITTER.to_owned();
        let step = StepIx(0);
        match order {
            Order::Call => {
                if let (Some(text), Some(server)) = (&self.text, self.world.a_server()) {
                    call::call(&mut self.world, server, text);
                }
            }
            Order::Retry { from_failed } => self.retry(from_failed, by),
            Order::Cancel { force } => self.tell_job(JobEvent::Cancel { by, force }),
            Order::CancelHolder { force } => {
                let holder = self.world.users.jobs.get(1).copied().flatten();
                self.tell(holder, JobEvent::Cancel { by, force });
            }
            Order::Approve => self.approve(SUBMITTER),
            Order::ApproveBy(who) => self.approve(who),
            Order::Reject => self.tell_job(JobEvent::Reject { step, by, reason: "not today".to_owned() }),
            Order::Drain { host } => {
                let worker = WorkerId(self.world.hosts[host].worker);
                self.tell_fleet(FleetOrder::Drain { worker, on: true });
            }
            Order::Remove { host } => {
                let worker = WorkerId(self.world.hosts[host].worker);
                self.tell_fleet(FleetOrder::Remove { worker, by });
            }
            Order::Pause => self.tell_fleet(FleetOrder::Pause { by }),
            Order::Resume => self.tell_fleet(FleetOrder::Resume),
            Order::Resolve(how) => self.settle(how, by),
            Order::GiveUpSilent => self.give_up_silent(by),
            Order::SayRestored => drop(self.world.say_restored()),
        }
    }

    fn approve(&mut self, by: &'static str) {
        if let Some(job) = self.recorder.job.as_ref().map(|job| job.id) {
            self.world.check(|checks| checks.approve_asked(job, StepIx(0), by));
        }
        self.tell_job(JobEvent::Approve { step: StepIx(0), by: by.to_owned(), comment: String::new() });
    }

    fn tell_job(&mut self, event: JobEvent) {
        let job = self.recorder.job.as_ref().map(|job| job.id);
        self.tell(job, event);
    }

    fn tell(&mut self, job: Option<JobId>, event: JobEvent) {
        if let (Some(server), Some(job)) = (self.world.a_server(), job) {
            self.world.tell(|| format!("ann orders {event:?}"));
            self.world.job_event(server, job, event);
        }
    }

    fn tell_fleet(&mut self, order: FleetOrder) {
        if let Some(server) = self.world.a_server() {
            self.world.fleet(server, order);
        }
    }

    fn give_up_silent(&mut self, by: String) {
        let Some(server) = self.world.a_server() else { return };
        let order = RecoverOrder { what: Some(Forsake::Running), older_than: SILENT_FOR, by };
        let (reply, answer) = oneshot::channel();
        self.world.ask(server, Command::Recover(order, reply), Reply::Recover(answer));
    }

    fn retry(&mut self, from_failed: bool, by: String) {
        let job = self.recorder.job.as_ref().map(|job| job.id);
        let (Some(server), Some(job)) = (self.world.a_server(), job) else { return };
        let order = RetryOrder { job, from_failed, input: None, confirm_dead: false, by };
        self.world.tell(|| format!("ann orders {order:?}"));
        let (reply, answer) = oneshot::channel();
        self.world.ask(server, Command::Again(Box::new(Again::Retry(order)), reply), Reply::Again(answer));
    }

    fn settle(&mut self, how: Settle, by: String) {
        let job = self.recorder.job.as_ref().map(|job| job.id);
        let (Some(server), Some(job)) = (self.world.a_server(), job) else { return };
        let attempts = self.world.database.reader().attempts(job).unwrap_or_default();
        let last = attempts.iter().rfind(|attempt| attempt.ix.0 == 0);
        let late = last.and_then(|attempt| attempt.late_outcome.as_deref());
        let order = ResolveOrder {
            job,
            step: StepIx(0),
            how: match how {
                Settle::Succeeded => How::Succeeded { output: serde_json::json!({}) },
                Settle::Failed => How::Failed { reason: "ann says so".to_owned() },
                Settle::Rerun { .. } => How::Rerun,
                Settle::AcceptLate => How::AcceptLate,
            },
            attempt: last.map(|attempt| attempt.id),
            late_outcome: late.and_then(|late| serde_json::from_str(late).ok()),
            confirm_dead: matches!(how, Settle::Rerun { confirm_dead: true }),
            by,
        };
        self.world.tell(|| format!("ann orders {order:?}"));
        if order.how == How::Rerun {
            self.world.check(|checks| checks.resolve_asked(job, order.step, None));
        }
        let (reply, answer) = oneshot::channel();
        self.world.ask(server, Command::Again(Box::new(Again::Resolve(order)), reply), Reply::Again(answer));
    }
}
