//! What a scripted world is made of and what is done to it.

use std::time::Duration;

use engine::StepIx;
use worker::agent::StopLevel;

use crate::faults::{self, Fault, FaultKind};
use crate::setup::HostSetup;
use crate::workload::{
    Behaviour, ChildPlan, FanPlan, GroupPlan, HookPlan, HookWork, JobPlan, Kind, On, Rest, StepPlan, WhenFull,
};

use super::moment::Moment;

/// When the job is submitted: long enough after the servers' start that they may give verdicts.
const SUBMITTED_AT: Duration = Duration::from_secs(150);

/// How long the step's program takes by itself: longer than any window or lease here.
const TAKES: Duration = Duration::from_secs(600);
const LINES: u64 = 120;

/// The step goes to the worker with most free slots: that is the first one.
const SLOTS: u32 = 8;
const OTHERS_SLOTS: u32 = 4;

/// One job of one step unless said otherwise, on one host and one server.
#[derive(Debug, Clone)]
pub struct Script {
    /// The text of a server-config.yaml.
    pub config: String,
    pub servers: usize,
    pub hosts: Vec<HostSetup>,
    pub job: JobPlan,
    /// A job of the same concurrency group that was submitted before, and has the group's slot.
    pub(super) holder: Option<JobPlan>,
    /// The job is not submitted: its task starts by itself, and its first run is the one that is watched.
    pub(super) schedule: Option<Schedule>,
    /// Nobody submits the job: a call of its task's webhook trigger makes it, by [`Order::Call`].
    pub(super) called: bool,
    /// The item of the first step that is watched; none: the step itself.
    pub(super) watched: Option<u32>,
    pub(super) scenes: Vec<Scene>,
}

/// When the task starts by itself: every ten minutes, the first time [`Script::DUE_AT`] after the world's beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    pub once: bool,
    pub rest: Option<Rest>,
}

/// Minutes between two runs.
pub(super) const EVERY_MINUTES: u64 = 10;

/// A time, and what happens then.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub when: When,
    pub does: Vec<Do>,
    /// Times are counted from here on, and said with this name.
    pub mark: Option<&'static str>,
    /// Somebody asks why the job is where it is.
    pub asks: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Moment(Moment),
    /// So long after the scene before.
    After(Duration),
}

#[derive(Debug, Clone, Copy)]
pub enum Do {
    Fault(FaultKind),
    /// From now on it waits for this.
    FaultOn(faults::Moment, FaultKind),
    /// To the server that the first host is connected to.
    AtItsServer(fn(usize) -> FaultKind),
    Order(Order),
    /// Somebody stops the worker process, and does not start it again.
    Stop {
        host: usize,
        level: StopLevel,
    },
    /// Nobody starts this host's worker again when it leaves.
    Unsupervised {
        host: usize,
    },
    StartWorker {
        host: usize,
    },
    /// The servers' folder of artifacts takes no more.
    FillDepot,
    /// Nobody outside takes a word from now on.
    RefuseWords,
}

/// What a person asks a server for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The task's webhook trigger is called; always the same call.
    Call,
    /// `bowline retry`, with `--from-failed` or without.
    Retry {
        from_failed: bool,
    },
    Cancel {
        force: bool,
    },
    /// The job that has the slot of the concurrency group.
    CancelHolder {
        force: bool,
    },
    Approve,
    /// Somebody else than who submitted the job.
    ApproveBy(&'static str),
    Reject,
    Drain {
        host: usize,
    },
    Remove {
        host: usize,
    },
    Pause,
    Resume,
    Resolve(Settle),
    /// `bowline recover fail`.
    GiveUpSilent,
    /// `bowline db restored`.
    SayRestored,
}

/// How a person settles the first step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    Succeeded,
    Failed,
    Rerun { confirm_dead: bool },
    AcceptLate,
}

impl Script {
    /// When a task that starts by itself is due for the first time.
    pub const DUE_AT: Duration = Duration::from_secs(400);

    pub fn new() -> Script {
        let job = JobPlan { at: SUBMITTED_AT, ..JobPlan::plain("task", vec![plain_step()]) };
        Script {
            config: String::new(),
            servers: 1,
            hosts: vec![plain_host(SLOTS)],
            job,
            holder: None,
            schedule: None,
            called: false,
            watched: None,
            scenes: Vec::new(),
        }
    }

    /// Lines for the server's config file.
    #[must_use]
    pub fn config(mut self, text: &str) -> Script {
        text.clone_into(&mut self.config);
        self
    }

    #[must_use]
    pub fn hosts(mut self, count: usize) -> Script {
        self.hosts.resize(count, plain_host(OTHERS_SLOTS));
        self
    }

    #[must_use]
    pub fn host(mut self, host: usize, change: impl FnOnce(&mut HostSetup)) -> Script {
        change(&mut self.hosts[host]);
        self
    }

    #[must_use]
    pub fn job(mut self, change: impl FnOnce(&mut JobPlan)) -> Script {
        change(&mut self.job);
        self
    }

    #[must_use]
    pub fn step(mut self, change: impl FnOnce(&mut StepPlan)) -> Script {
        change(&mut self.job.steps[0]);
        self
    }

    /// The step is done for so many items, one after the other, each with the step's program; this one is watched.
    #[must_use]
    pub fn items(self, count: usize, watched: u32) -> Script {
        let mut script = self.step(|step| {
            let Kind::Work(behaviour) = step.kind else { return };
            step.fan = Some(FanPlan { max_parallel: Some(1), ..FanPlan::over(vec![behaviour; count]) });
        });
        script.watched = Some(watched);
        script
    }

    /// A job of one step, of the same name and with the same program, does the step.
    #[must_use]
    pub fn child(self) -> Script {
        self.step(|step| {
            let doing = StepPlan { retry: None, ..step.clone() };
            let job = JobPlan::plain("child", vec![doing]);
            step.child = Some(Box::new(ChildPlan { job, given: 0 }));
        })
    }

    /// A job of one step, which takes so long, follows on its end.
    #[must_use]
    pub fn followed_by_job(self, on: On, takes: Duration) -> Script {
        let follows = JobPlan::plain("page", vec![brief_step("page", takes)]);
        self.job(|job| job.hooks.push(HookPlan { on, work: HookWork::Job(Box::new(follows)) }))
    }

    /// The job has another step, which takes so long.
    #[must_use]
    pub fn beside(self, name: &str, takes: Duration, change: impl FnOnce(&mut StepPlan)) -> Script {
        let mut step = brief_step(name, takes);
        change(&mut step);
        self.job(|job| job.steps.push(step))
    }

    /// The job is made by [`Order::Call`], and by nothing else.
    #[must_use]
    pub fn called(mut self) -> Script {
        self.called = true;
        self
    }

    /// Another job of one step has the one slot of the job's concurrency group, long before this one is submitted.
    #[must_use]
    pub fn behind_another(mut self, when_full: WhenFull) -> Script {
        let group = |when_full: WhenFull| Some(GroupPlan { name: "release".to_owned(), limit: 1, when_full });
        let mut holder = JobPlan { name: "first".to_owned(), group: group(WhenFull::Queue), ..self.job.clone() };
        // The processes of this name are those that are watched.
        "ship".clone_into(&mut holder.steps[0].name);
        self.job.group = group(when_full);
        self.holder = Some(holder);
        self
    }

    /// The job's task starts by itself every ten minutes. `once`: whether what was missed is made up for.
    #[must_use]
    pub fn scheduled(mut self, once: bool) -> Script {
        self.schedule = Some(Schedule { once, rest: None });
        self
    }

    /// And somebody pauses its trigger for that time.
    #[must_use]
    pub fn rests(mut self, from: Duration, time: Duration) -> Script {
        if let Some(schedule) = &mut self.schedule {
            schedule.rest = Some(Rest { from, until: from + time });
        }
        self
    }

    /// What the step's program does.
    #[must_use]
    pub fn program(self, change: impl FnOnce(&mut Behaviour)) -> Script {
        self.step(|step| {
            if let Kind::Work(behaviour) = &mut step.kind {
                change(behaviour);
            }
        })
    }

    #[must_use]
    pub fn effects(self, effects: &'static str) -> Script {
        self.step(|step| step.effects = effects)
    }

    /// The place of the step that is watched: items come after the steps of the file.
    pub(super) fn watched(&self) -> StepIx {
        let first = self.job.steps.len();
        self.watched.map_or(StepIx(0), |number| StepIx::of(first + number as usize))
    }

    /// The name of the step that is watched.
    pub(super) fn watched_name(&self) -> String {
        let step = &self.job.steps[0].name;
        self.watched.map_or_else(|| step.clone(), |number| format!("{step}[{number}]"))
    }

    /// The next scene begins at this moment.
    #[must_use]
    pub fn at(self, moment: Moment) -> Script {
        self.scene(When::Moment(moment))
    }

    /// The next scene begins so long after the one before.
    #[must_use]
    pub fn after(self, time: Duration) -> Script {
        self.scene(When::After(time))
    }

    #[must_use]
    pub fn fault(self, fault: FaultKind) -> Script {
        self.does(Do::Fault(fault))
    }

    /// A fault that waits for a moment of its own.
    #[must_use]
    pub fn fault_on(self, moment: faults::Moment, fault: FaultKind) -> Script {
        self.does(Do::FaultOn(moment, fault))
    }

    /// A fault of the server that the first host is connected to.
    #[must_use]
    pub fn at_its_server(self, fault: fn(usize) -> FaultKind) -> Script {
        self.does(Do::AtItsServer(fault))
    }

    #[must_use]
    pub fn order(self, order: Order) -> Script {
        self.does(Do::Order(order))
    }

    #[must_use]
    pub fn does(mut self, what: Do) -> Script {
        self.last().does.push(what);
        self
    }

    #[must_use]
    pub fn mark(mut self, name: &'static str) -> Script {
        self.last().mark = Some(name);
        self
    }

    #[must_use]
    pub fn asks_why(mut self) -> Script {
        self.last().asks = true;
        self
    }

    /// How many faults are to hit something.
    pub(super) fn faults(&self) -> u64 {
        let does = self.scenes.iter().flat_map(|scene| &scene.does);
        does.filter(|what| matches!(what, Do::Fault(_) | Do::FaultOn(..) | Do::AtItsServer(_))).count() as u64
    }

    /// Those that are known before the world begins.
    pub(super) fn planned_faults(&self) -> Vec<Fault> {
        let does = self.scenes.iter().flat_map(|scene| &scene.does);
        let kinds = does.filter_map(|what| if let Do::Fault(kind) = what { Some(*kind) } else { None });
        kinds.map(|kind| Fault { at: Duration::ZERO, on: None, kind }).collect()
    }

    fn scene(mut self, when: When) -> Script {
        self.scenes.push(Scene { when, does: Vec::new(), mark: None, asks: false });
        self
    }

    fn last(&mut self) -> &mut Scene {
        self.scenes.last_mut().expect("a script says when before it says what")
    }
}

impl Default for Script {
    fn default() -> Script {
        Script::new()
    }
}

fn plain_host(slots: u32) -> HostSetup {
    HostSetup { tags: vec!["script".to_owned()], slots, no_reconnect: false, ephemeral: false, lacks: Vec::new() }
}

fn brief_step(name: &str, takes: Duration) -> StepPlan {
    let mut step = plain_step();
    name.clone_into(&mut step.name);
    if let Kind::Work(behaviour) = &mut step.kind {
        (behaviour.takes, behaviour.lines) = (takes, 1);
    }
    step
}

pub(super) fn plain_step() -> StepPlan {
    let behaviour = Behaviour {
        takes: TAKES,
        lines: LINES,
        first_code: 0,
        later_code: 0,
        first_times: 1,
        stubborn: false,
        stray: false,
        output: 0,
    };
    StepPlan::plain("build", behaviour)
}
