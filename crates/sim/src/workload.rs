//! Random tasks: graphs with everything that a task file can say, and programs whose behaviour is written on their command
//! line, so that a runner reads it there and the model here.

mod calls;
mod cancelled;
mod cleanups;
mod deeper;
mod fans;
mod files;
mod gates;
mod groups;
mod hooks;
mod inputs;
mod notices;
mod retries;
mod schedules;
mod submitters;

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::dice::Dice;
use crate::millis;
use crate::secrets::{KEY, RARE};
use crate::setup::Setup;

pub use calls::CallPlan;
pub use cleanups::CleanPlan;
pub(crate) use fans::lists_of;
pub use fans::{Axes, FanPlan};
pub(crate) use files::APART;
pub use gates::GatePlan;
pub(crate) use gates::{PEOPLE, SUBMITTER};
pub use groups::{GroupPlan, WhenFull};
pub use hooks::{HookPlan, HookWork, On};
pub use retries::RetryPlan;
pub(crate) use schedules::book;
pub use schedules::{Rest, SchedulePlan};

/// One job that is to be submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobPlan {
    #[serde(with = "millis")]
    pub at: Duration,
    pub name: String,
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub expires: Option<Duration>,
    pub priority: i32,
    pub steps: Vec<StepPlan>,
    /// A notice is due when it takes longer.
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub expect: Option<Duration>,
    /// What follows on its end, in the order of occasions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupPlan>,
    /// Who submits it, where it is not the one who submits most.
    #[serde(default, deserialize_with = "submitters::person", skip_serializing_if = "Option::is_none")]
    pub by: Option<Word>,
    /// What is submitted with it as `n`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<i64>,
    /// Its group's name is worked out from its input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub templated: bool,
    /// What its first step that works says holds for all that say nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub defaults: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepPlan {
    pub name: String,
    pub needs: Vec<NeedPlan>,
    pub condition: Condition,
    pub kind: Kind,
    /// Who and what holds it back, where it is not one person's yes to an `approve` step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GatePlan>,
    /// It is done once for each of these, which do what they say and not what the step does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan: Option<FanPlan>,
    /// A job of its own does it, or each of the many that it becomes, and not its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<ChildPlan>>,
    /// A step whose output that job is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hands_on: Option<usize>,
    #[serde(deserialize_with = "word")]
    pub effects: Word,
    pub stop: bool,
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub expect: Option<Duration>,
    pub retry: Option<RetryPlan>,
    pub allow_failure: bool,
    #[serde(default, deserialize_with = "tag", skip_serializing_if = "Option::is_none")]
    pub tag: Option<Word>,
    pub waits_for_worker: bool,
    /// How long it waits for a worker with its tags, where it does not wait for ever.
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub patience: Option<Duration>,
    /// How long it waits for a person.
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub hold_expires: Option<Duration>,
    /// A step whose output is put into its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows: Option<usize>,
    /// It leaves files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub files: bool,
    /// And does so however it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Nobody minds if there are none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// A step whose files it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetches: Option<usize>,
    /// In a folder of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    /// What asks it to end, where that is not TERM.
    #[serde(default, deserialize_with = "tag", skip_serializing_if = "Option::is_none")]
    pub signal: Option<Word>,
    #[serde(with = "millis")]
    pub grace: Duration,
    /// What is executed after it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<CleanPlan>,
    /// The secret that it is given.
    #[serde(default, deserialize_with = "tag", skip_serializing_if = "Option::is_none")]
    pub secret: Option<Word>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Work(Behaviour),
    Approve,
}

/// A job that a step begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildPlan {
    pub job: JobPlan,
    /// What it is given, where it is not one of many: those are given their numbers.
    pub given: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NeedPlan {
    pub step: usize,
    #[serde(deserialize_with = "words")]
    pub on: Vec<Word>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    Success,
    Failure,
    Always,
    Cancelled,
    /// Whether the output `n` of a step is above a number.
    OutputAbove {
        step: usize,
        number: i64,
    },
    /// Whether a step that it waits for has ended so.
    StateIs {
        step: usize,
        #[serde(deserialize_with = "word")]
        state: Word,
    },
    /// Whether the job's input `n` is above a number; without one it is not.
    InputAbove {
        number: i64,
    },
}

/// What a step's program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    #[serde(with = "millis")]
    pub takes: Duration,
    /// Spread over its time.
    pub lines: u64,
    /// How it ends, unless somebody ends it before: the code of its first executions, and of the others. Below zero: by
    /// the signal of that number.
    pub first_code: i32,
    pub later_code: i32,
    /// How many executions end with the first code.
    pub first_times: u32,
    /// It does not end when it is asked to, only when it is killed.
    pub stubborn: bool,
    /// It leaves a process in its group that outlives it.
    pub stray: bool,
    /// What it writes to its output as `n`.
    pub output: i64,
}

impl Behaviour {
    pub fn code(&self, execution: u32) -> i32 {
        if execution <= self.first_times { self.first_code } else { self.later_code }
    }

    pub fn argv(&self) -> Vec<String> {
        let Behaviour { takes, lines, first_code, later_code, first_times, stubborn, stray, output } = self;
        vec![
            "work".to_owned(),
            takes.as_millis().to_string(),
            lines.to_string(),
            first_code.to_string(),
            later_code.to_string(),
            first_times.to_string(),
            u8::from(*stubborn).to_string(),
            u8::from(*stray).to_string(),
            output.to_string(),
        ]
    }

    /// Reads what [`Behaviour::argv`] wrote.
    pub fn parse(argv: &[String]) -> Option<Behaviour> {
        let number = |at: usize| argv.get(at)?.parse::<i64>().ok();
        Some(Behaviour {
            takes: Duration::from_millis(u64::try_from(number(1)?).ok()?),
            lines: u64::try_from(number(2)?).ok()?,
            first_code: i32::try_from(number(3)?).ok()?,
            later_code: i32::try_from(number(4)?).ok()?,
            first_times: u32::try_from(number(5)?).ok()?,
            stubborn: number(6)? != 0,
            stray: number(7)? != 0,
            output: number(8)?,
        })
    }

    fn roll(dice: &mut Dice) -> Behaviour {
        let fails = dice.chance(0.15);
        let recovers = dice.chance(0.5);
        Behaviour {
            takes: millis::whole(dice.skewed(Duration::from_millis(5), Duration::from_secs(600))),
            lines: if dice.chance(0.7) { dice.between(0, 12) } else { dice.between(0, 120) },
            first_code: if fails { *dice.pick(&[1, 2, 75, -9, -11]).unwrap_or(&1) } else { 0 },
            later_code: if fails && !recovers { 1 } else { 0 },
            first_times: dice.between(1, 2) as u32,
            stubborn: dice.chance(0.1),
            stray: dice.chance(0.1),
            output: dice.between(0, 9) as i64,
        }
    }
}

impl JobPlan {
    /// The jobs that this seed wants.
    pub fn roll_all(seed: u64, setup: &Setup) -> Vec<JobPlan> {
        let mut dice = Dice::new(seed, "jobs");
        // The last ones have some time before the faults stop.
        let within = setup.length.mul_f64(0.9);
        let mut jobs: Vec<JobPlan> = (0..setup.jobs).map(|number| JobPlan::roll(number, within, &mut dice)).collect();
        // Some come together with another.
        for number in 1..jobs.len() {
            if dice.chance(0.15) {
                jobs[number].at = jobs[number - 1].at;
            }
        }
        // Dice of their own: what is rolled besides stays what it is.
        let mut dice = Dice::new(seed, "fans");
        jobs.iter_mut().flat_map(|job| &mut job.steps).for_each(|step| step.roll_fan(&mut dice));
        let mut dice = Dice::new(seed, "children");
        jobs.iter_mut().for_each(|job| job.roll_children(&mut dice, 1));
        let mut dice = Dice::new(seed, "gates");
        jobs.iter_mut().flat_map(|job| &mut job.steps).for_each(|step| step.roll_gate(&mut dice));
        let mut dice = Dice::new(seed, "hooks");
        jobs.iter_mut().for_each(|job| job.roll_hooks(&mut dice, 1));
        let mut dice = Dice::new(seed, "cleanups");
        jobs.iter_mut().flat_map(|job| &mut job.steps).for_each(|step| step.roll_clean(&mut dice));
        let mut dice = Dice::new(seed, "secrets");
        jobs.iter_mut().for_each(|job| job.roll_secrets(&mut dice));
        JobPlan::roll_groups(&mut jobs, &mut Dice::new(seed, "groups"));
        JobPlan::roll_when_full(&mut jobs, &mut Dice::new(seed, "full groups"));
        let mut dice = Dice::new(seed, "notices");
        // Most worlds expect nothing.
        if dice.chance(0.3) {
            jobs.iter_mut().for_each(|job| job.roll_notices(&mut dice));
        }
        let mut dice = Dice::new(seed, "noticed");
        jobs.iter_mut().for_each(|job| job.roll_noticed(&mut dice));
        let mut dice = Dice::new(seed, "files");
        jobs.iter_mut().for_each(|job| job.roll_files(&mut dice));
        let mut dice = Dice::new(seed, "files in any case");
        jobs.iter_mut().for_each(|job| job.roll_always(&mut dice));
        let mut dice = Dice::new(seed, "cancelled");
        jobs.iter_mut().for_each(|job| job.roll_cancelled(&mut dice));
        let mut dice = Dice::new(seed, "lists");
        jobs.iter_mut().for_each(|job| job.roll_lists(&mut dice));
        let mut dice = Dice::new(seed, "delays");
        jobs.iter_mut().for_each(|job| job.roll_delays(&mut dice));
        let mut dice = Dice::new(seed, "mails");
        jobs.iter_mut().for_each(|job| job.roll_mails(&mut dice));
        JobPlan::roll_groups_of_children(&mut jobs, &mut Dice::new(seed, "groups of children"));
        JobPlan::roll_submitters(&mut jobs, &mut Dice::new(seed, "submitters"));
        JobPlan::roll_deeper(&mut jobs, &mut Dice::new(seed, "deeper"));
        JobPlan::roll_inputs(&mut jobs, &mut Dice::new(seed, "inputs of jobs"));
        jobs
    }

    /// Lets other jobs do some of the steps; and others some of those, at most so many levels below.
    fn roll_children(&mut self, dice: &mut Dice, levels: u32) {
        for step in &mut self.steps {
            step.roll_child(&self.name, dice, levels);
        }
    }

    /// Some steps are given a secret, and some of those one that is not always to be had.
    fn roll_secrets(&mut self, dice: &mut Dice) {
        for step in &mut self.steps {
            if let Some(child) = &mut step.child {
                child.job.roll_secrets(dice);
            } else if matches!(step.kind, Kind::Work(_)) && dice.chance(0.12) {
                step.secret = Some(if dice.chance(0.25) { RARE } else { KEY });
            }
        }
    }

    /// This job and all that its steps begin, or that follows on its end, near and far.
    pub(crate) fn with_children(&self) -> Vec<&JobPlan> {
        let mut all = vec![self];
        let begun = self.steps.iter().filter_map(|step| step.child.as_ref()).map(|child| &child.job);
        all.extend(begun.chain(self.following()).flat_map(JobPlan::with_children));
        all
    }

    pub fn roll(number: usize, within: Duration, dice: &mut Dice) -> JobPlan {
        let steps = if dice.chance(0.04) { roll_burst(dice) } else { roll_graph(dice) };
        JobPlan {
            at: millis::whole(Duration::from_secs(1) + dice.duration(Duration::ZERO, within)),
            timeout: dice.chance(0.05).then(|| roll_time(30, 900, dice)),
            expires: dice.chance(0.05).then(|| roll_time(5, 300, dice)),
            priority: dice.between(0, 4) as i32 - 2,
            ..JobPlan::plain(&format!("job-{number}"), steps)
        }
    }

    /// One that does these steps and asks for nothing.
    pub(crate) fn plain(name: &str, steps: Vec<StepPlan>) -> JobPlan {
        JobPlan {
            at: Duration::ZERO,
            name: name.to_owned(),
            timeout: None,
            expires: None,
            priority: 0,
            steps,
            expect: None,
            hooks: Vec::new(),
            group: None,
            by: None,
            input: None,
            templated: false,
            defaults: false,
        }
    }

    /// The step of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&StepPlan> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// The task file.
    pub fn text(&self) -> String {
        let mut text = format!("name: {}\npriority: {}\n", self.name, self.priority);
        text.push_str("input: { n: { type: integer } }\n");
        if let Some(timeout) = self.timeout {
            let _ = writeln!(text, "timeout: {}ms", timeout.as_millis());
        }
        if let Some(expires) = self.expires {
            let _ = writeln!(text, "expires: {}ms", expires.as_millis());
        }
        self.write_group(&mut text);
        self.write_defaults(&mut text);
        if let Some(expect) = self.expect {
            let _ = writeln!(text, "expect: {}ms", expect.as_millis());
        }
        text.push_str("steps:\n");
        for step in &self.steps {
            step.write(self, &mut text);
        }
        self.write_hooks(&mut text);
        text
    }
}

impl StepPlan {
    /// A step that does this and asks for nothing: no needs, no policies, effects `writes`.
    pub(crate) fn plain(name: &str, behaviour: Behaviour) -> StepPlan {
        StepPlan {
            name: name.to_owned(),
            needs: Vec::new(),
            condition: Condition::Success,
            kind: Kind::Work(behaviour),
            gate: None,
            fan: None,
            child: None,
            hands_on: None,
            effects: "writes",
            stop: false,
            timeout: None,
            expect: None,
            retry: None,
            allow_failure: false,
            tag: None,
            waits_for_worker: false,
            patience: None,
            hold_expires: None,
            shows: None,
            files: false,
            always: false,
            optional: false,
            fetches: None,
            apart: false,
            signal: None,
            grace: Duration::from_secs(30),
            clean: None,
            secret: None,
        }
    }

    fn roll(ix: usize, dice: &mut Dice) -> StepPlan {
        let mut needs = Vec::new();
        for step in 0..ix {
            if dice.chance(1.6 / ix as f64) {
                needs.push(NeedPlan { step, on: roll_on(dice) });
            }
        }
        let condition = roll_condition(&needs, dice);
        let shows = dice.pick(&needs).map(|need| need.step).filter(|_| dice.chance(0.3));
        let tag = roll_tag(dice);
        let kind = if dice.chance(0.06) { Kind::Approve } else { Kind::Work(Behaviour::roll(dice)) };
        let retry = dice.chance(0.3).then(|| RetryPlan::roll(dice));
        StepPlan {
            name: format!("s{ix}"),
            needs,
            condition,
            kind,
            gate: None,
            fan: None,
            child: None,
            hands_on: None,
            effects: dice.pick(&["none", "idempotent", "writes", "writes"]).unwrap_or(&"writes"),
            stop: dice.chance(0.25),
            timeout: dice
                .chance(0.15)
                .then(|| millis::whole(dice.skewed(Duration::from_secs(1), Duration::from_secs(400)))),
            expect: None,
            retry,
            allow_failure: dice.chance(0.1),
            tag,
            waits_for_worker: tag != Some(NOWHERE) && dice.chance(0.5),
            patience: dice.chance(0.2).then(|| roll_time(1, 120, dice)),
            hold_expires: dice.chance(0.3).then(|| roll_time(20, 900, dice)),
            shows,
            files: false,
            always: false,
            optional: false,
            fetches: None,
            apart: false,
            signal: None,
            grace: millis::whole(dice.duration(Duration::from_millis(100), Duration::from_secs(30))),
            clean: None,
            secret: None,
        }
    }

    fn roll_child(&mut self, job: &str, dice: &mut Dice, levels: u32) {
        if !matches!(self.kind, Kind::Work(_)) || !dice.chance(0.06) {
            return;
        }
        let count = dice.between(1, 3) as usize;
        let mut steps: Vec<StepPlan> = (0..count).map(|ix| StepPlan::roll(ix, dice)).collect();
        for step in &mut steps {
            if let Kind::Work(behaviour) = &mut step.kind {
                behaviour.takes = behaviour.takes.min(LONGEST_ITEM);
            }
        }
        let mut job = JobPlan {
            timeout: dice.chance(0.1).then(|| roll_time(30, 400, dice)),
            expires: dice.chance(0.1).then(|| roll_time(5, 300, dice)),
            priority: dice.between(0, 4) as i32 - 2,
            ..JobPlan::plain(&format!("{job}-{}", self.name), steps)
        };
        if levels > 0 {
            job.roll_children(dice, levels - 1);
        }
        self.child = Some(Box::new(ChildPlan { job, given: dice.between(0, 9) as i64 }));
    }

    fn write(&self, job: &JobPlan, text: &mut String) {
        let steps = job.steps.as_slice();
        let _ = writeln!(text, "  {}:", self.name);
        match self.kind {
            Kind::Approve => self.write_approve(text),
            Kind::Work(_) if let Some(child) = &self.child => self.write_child(child, job, text),
            Kind::Work(behaviour) => self.write_work(&behaviour, job, text),
        }
        if !self.needs.is_empty() {
            let needs: Vec<String> = self.needs.iter().map(|need| need.text(steps)).collect();
            let _ = writeln!(text, "    needs: [{}]", needs.join(", "));
        }
        let condition = match self.condition {
            Condition::Success => None,
            Condition::Failure => Some("failure()".to_owned()),
            Condition::Always => Some("always()".to_owned()),
            Condition::Cancelled => Some("cancelled()".to_owned()),
            Condition::OutputAbove { step, number } => {
                Some(format!("success() and (steps.{}.output.n | int) > {number}", steps[step].name))
            }
            Condition::StateIs { step, state } => Some(format!("steps.{}.state == '{state}'", steps[step].name)),
            Condition::InputAbove { number } => Some(format!("(input.n or 0) > {number}")),
        };
        if let Some(condition) = condition {
            let _ = writeln!(text, "    if: \"{condition}\"");
        }
        if self.allow_failure {
            text.push_str("    allow_failure: true\n");
        }
    }

    fn write_child(&self, child: &ChildPlan, job: &JobPlan, text: &mut String) {
        let _ = writeln!(text, "    task: {}", child.job.name);
        match (&self.fan, self.hands_on) {
            (None, None) => {
                let _ = writeln!(text, "    with: {{ n: {} }}", child.given);
            }
            (None, Some(giver)) => {
                let giver = &job.steps[giver].name;
                let _ = writeln!(text, "    with: {{ n: \"{{{{ steps.{giver}.output.n | default(0) }}}}\" }}");
            }
            (Some(fan), _) => {
                let _ = writeln!(text, "    with: {{ n: \"{{{{ item }}}}\" }}");
                self.write_fan(fan, &job.steps, text);
            }
        }
        self.write_limits(job, text);
    }

    fn write_limits(&self, job: &JobPlan, text: &mut String) {
        self.write_environment(job, text);
        if let Some(timeout) = self.timeout {
            let _ = writeln!(text, "    timeout: {}ms", timeout.as_millis());
        }
        if let Some(expect) = self.expect {
            let _ = writeln!(text, "    expect: {}ms", expect.as_millis());
        }
        if let Some(retry) = &self.retry {
            retry.write(text);
        }
    }

    fn write_work(&self, behaviour: &Behaviour, job: &JobPlan, text: &mut String) {
        let (steps, defaults) = (job.steps.as_slice(), job.default_step());
        match &self.fan {
            None => {
                let words: Vec<String> = behaviour.argv().into_iter().chain(self.lists(steps)).collect();
                let _ = writeln!(text, "    run: {}", quoted(&words));
            }
            Some(fan) => {
                let _ = writeln!(text, "    run: {}", quoted(&fan.argv(behaviour)));
                self.write_fan(fan, steps, text);
            }
        }
        if defaults.is_none_or(|said| said.effects != self.effects) {
            let _ = writeln!(text, "    effects: {}", self.effects);
        }
        if defaults.is_none_or(|said| said.stop != self.stop) {
            let _ = writeln!(text, "    on_disconnect: {}", self.on_disconnect());
        }
        self.write_cancel(defaults, text);
        self.write_limits(job, text);
        if let Some(tag) = self.tag {
            let _ = writeln!(text, "    tags: [{tag}]");
        }
        match (self.waits_for_worker, self.patience) {
            (true, _) => text.push_str("    unmatched: wait\n"),
            (false, Some(patience)) => {
                let _ = writeln!(text, "    unmatched: {}ms", patience.as_millis());
            }
            (false, None) => {}
        }
        if let Some(secret) = self.secret {
            let _ = writeln!(text, "    secrets: [{secret}]");
        }
        self.write_files(steps, text);
        if let Some(step) = self.shows {
            let name = &steps[step].name;
            let _ = writeln!(text, "    env: {{ SEEN: \"{{{{ steps.{name}.output.n | default(0) }}}}\" }}");
        }
    }
}

impl NeedPlan {
    fn text(&self, steps: &[StepPlan]) -> String {
        let name = &steps[self.step].name;
        if self.on == ["success"] { name.clone() } else { format!("{{ step: {name}, on: [{}] }}", self.on.join(", ")) }
    }
}

fn roll_graph(dice: &mut Dice) -> Vec<StepPlan> {
    let count = if dice.chance(0.8) { dice.between(1, 6) } else { dice.between(6, 16) } as usize;
    (0..count).map(|ix| StepPlan::roll(ix, dice)).collect()
}

/// Many steps that do next to nothing, one beside the other: workers prepare more than they have slots for.
fn roll_burst(dice: &mut Dice) -> Vec<StepPlan> {
    let effects = *dice.pick(&["none", "writes"]).unwrap_or(&"none");
    let of_burst = |ix: usize| {
        let mut dice = dice.clone();
        let quick = Behaviour { takes: Duration::from_millis(5 + ix as u64 % 7), ..Behaviour::roll(&mut dice) };
        StepPlan {
            needs: Vec::new(),
            condition: Condition::Success,
            kind: Kind::Work(quick),
            effects,
            shows: None,
            tag: None,
            timeout: None,
            ..StepPlan::roll(ix, &mut dice)
        }
    };
    (0..30).map(of_burst).collect()
}

fn roll_tag(dice: &mut Dice) -> Option<Word> {
    if dice.chance(0.01) {
        return Some(NOWHERE);
    }
    dice.chance(0.3).then(|| *dice.pick(&["gpu", "big"]).unwrap_or(&"gpu"))
}

fn roll_time(least_secs: u64, most_secs: u64, dice: &mut Dice) -> Duration {
    millis::whole(dice.duration(Duration::from_secs(least_secs), Duration::from_secs(most_secs)))
}

fn roll_on(dice: &mut Dice) -> Vec<Word> {
    if dice.chance(0.8) {
        return vec!["success"];
    }
    let mut on: Vec<Word> =
        ["success", "failed", "cancelled", "skipped"].into_iter().filter(|_| dice.chance(0.5)).collect();
    if on.is_empty() {
        on.push("success");
    }
    on
}

fn roll_condition(needs: &[NeedPlan], dice: &mut Dice) -> Condition {
    let need = dice.pick(needs).map(|need| need.step);
    match (need, dice.below(10)) {
        (Some(_), 0) => Condition::Failure,
        (Some(_), 1) => Condition::Always,
        (Some(step), 2) => Condition::OutputAbove { step, number: dice.between(0, 6) as i64 },
        _ => Condition::Success,
    }
}

/// Five of them, one after the other, are over before the world is.
const LONGEST_ITEM: Duration = Duration::from_secs(120);

fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    format!("[{}]", words.join(", "))
}

/// A tag that no worker has.
pub const NOWHERE: Word = "nowhere";

/// A word of task files.
pub type Word = &'static str;

/// Those that plans use; they are few, and known here.
const WORDS: [Word; 20] = [
    "none",
    "idempotent",
    "writes",
    "success",
    "failed",
    "cancelled",
    "skipped",
    "failure",
    "timeout",
    "worker_lost",
    "\"exit:75\"",
    "\"signal:9\"",
    "gpu",
    "big",
    NOWHERE,
    KEY,
    RARE,
    "INT",
    "HUP",
    "USR1",
];

fn known<E: serde::de::Error>(word: &str) -> Result<Word, E> {
    let found = WORDS.iter().find(|known| **known == word);
    found.copied().ok_or_else(|| E::custom(format!("no plan uses the word {word}")))
}

fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
    known(&String::deserialize(deserializer)?)
}

fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Word>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.iter().map(|word| known(word)).collect()
}

fn tag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Word>, D::Error> {
    Option::<String>::deserialize(deserializer)?.map(|word| known(&word)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_is_a_good_task_file() {
        for seed in 0..300 {
            let mut dice = Dice::new(seed, "plan");
            let mut plan = JobPlan::roll(1, Duration::from_secs(3600), &mut dice);
            plan.steps.iter_mut().for_each(|step| step.roll_fan(&mut dice));
            plan.roll_children(&mut dice, 1);
            plan.steps.iter_mut().for_each(|step| step.roll_gate(&mut dice));
            plan.steps.iter_mut().for_each(|step| step.roll_clean(&mut dice));
            plan.roll_secrets(&mut dice);
            plan.roll_files(&mut dice);
            plan.roll_always(&mut dice);
            plan.roll_cancelled(&mut dice);
            plan.roll_lists(&mut dice);
            plan.roll_delays(&mut dice);
            plan.roll_hooks(&mut dice, 1);
            plan.roll_mails(&mut dice);
            plan.deepen_others(&mut dice);
            plan.roll_input(&mut dice);
            let options = plan.settings().options();
            for plan in plan.with_children() {
                let text = plan.text();
                let (task, problems) = spec::task::parse(&text, "plan", &options);
                let task = task.unwrap_or_else(|| panic!("{problems:?}\n{text}"));
                assert!(task.not_supported.is_empty(), "{:?}\n{text}", task.not_supported);
            }
        }
    }

    /// What most worlds lack some have.
    #[test]
    fn nothing_that_a_plan_can_be_is_never_rolled() {
        let jobs: Vec<JobPlan> = (0..60).flat_map(|seed| JobPlan::roll_all(seed, &Setup::of(seed))).collect();
        let all: Vec<&JobPlan> = jobs.iter().flat_map(JobPlan::with_children).collect();
        let steps = || all.iter().flat_map(|job| &job.steps);
        let fans = || steps().filter_map(|step| step.fan.as_ref());
        let retries = || steps().filter_map(|step| step.retry.as_ref());
        let children = || steps().filter_map(|step| step.child.as_ref());
        assert!(steps().any(|step| step.condition == Condition::Cancelled));
        assert!(fans().any(|fan| fan.from.is_some()) && fans().any(|fan| fan.axes.is_some()));
        assert!(retries().any(|retry| !retry.jitter) && retries().any(|retry| retry.max_delay.is_some()));
        assert!(jobs.iter().any(|job| job.submitter() == PEOPLE[1]));
        let begun: Vec<&StepPlan> = children().flat_map(|child| &child.job.steps).collect();
        assert!(begun.iter().any(|step| step.fan.is_some()) && begun.iter().any(|step| step.reviewers() > 1));
        assert!(begun.iter().any(|step| step.clean.is_some()) && begun.iter().any(|step| step.files));
        assert!(begun.iter().any(|step| step.gate.is_some() && step.kind != Kind::Approve));
        assert!(children().any(|child| !child.job.hooks.is_empty()));
        assert!(jobs.iter().any(|job| job.input.is_some()) && jobs.iter().any(|job| job.defaults));
        assert!(jobs.iter().any(|job| job.templated && job.group.is_some()));
        assert!(steps().any(|step| step.hands_on.is_some()) && steps().any(|step| step.signal.is_some()));
        assert!(steps().any(|step| step.apart) && steps().any(|step| step.optional));
        assert!(steps().any(|step| matches!(step.condition, Condition::InputAbove { .. })));
        assert!(steps().any(|step| matches!(step.condition, Condition::StateIs { .. })));
        assert!(children().any(|child| child.job.group.is_some()));
        assert!(all.iter().flat_map(|job| &job.hooks).any(|hook| hook.work == HookWork::Mail));
    }

    #[test]
    fn every_schedule_is_a_good_task_file() {
        for seed in 0..100 {
            let plans = SchedulePlan::roll_some(seed);
            let calls = CallPlan::roll_some(seed, &Setup::of(seed));
            assert_eq!(book(&plans, &calls).iter().count(), plans.len() + calls.len());
            assert!(calls.iter().all(|call| book(&[], &calls).get(&call.trigger()).is_some()), "by its name");
        }
    }

    #[test]
    fn a_behaviour_is_what_its_command_line_says() {
        let mut dice = Dice::new(3, "behaviour");
        for _ in 0..100 {
            let behaviour = Behaviour::roll(&mut dice);
            assert_eq!(Behaviour::parse(&behaviour.argv()).map(|b| b.argv()), Some(behaviour.argv()));
        }
    }
}
