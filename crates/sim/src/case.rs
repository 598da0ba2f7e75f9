//! A case: everything that makes a world, written down. A seed is one ([`Case::of`]); a kept file is one too, and stays the
//! same world when the generators have changed. `main`, the tests and the shrinking run cases.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::check::Finding;
use crate::faults::{self, Fault, FaultKind};
use crate::setup::{self, ConfigPlan, HostSetup, RetentionPlan, Scale, Setup};
use crate::story::Story;
use crate::users::Act;
use crate::workload::{CallPlan, JobPlan, SchedulePlan};
use crate::world::{Verdict, World};

/// So many faults of a kind that was asked for: often enough, and far enough from each other.
const FAULTS_WITH: usize = 4;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Where what chance is left comes from: the network's jitter, who is picked.
    pub seed: u64,
    /// In one sentence: what was wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    pub servers: usize,
    pub hosts: Vec<HostSetup>,
    pub jobs: Vec<JobPlan>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<SchedulePlan>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallPlan>,
    /// Everything is kept, if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionPlan>,
    /// After how long in the queue a step is noticed; never, if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_secs: Option<u64>,
    /// The servers' own configuration lets words follow on notices.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tells: bool,
    /// The defaults, if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigPlan>,
    pub faults: Vec<Fault>,
}

#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    #[error("it is not a case: {0}")]
    Text(#[from] serde_json::Error),
}

impl Case {
    /// What this seed stands for.
    pub fn of(seed: u64) -> Case {
        Case::scaled(seed, Scale::default())
    }

    /// The same in another size.
    pub fn scaled(seed: u64, scale: Scale) -> Case {
        let setup = Setup::scaled(seed, scale);
        let jobs = JobPlan::roll_all(seed, &setup);
        let faults = faults::roll(seed, &setup);
        let schedules = SchedulePlan::roll_all(seed);
        let calls = CallPlan::roll_all(seed, &setup);
        let retention = RetentionPlan::roll(seed);
        let queue_secs = setup::roll_queue_secs(seed);
        let tells = setup::roll_tells(seed);
        let config = ConfigPlan::roll(seed);
        let (what, servers, hosts) = (String::new(), setup.servers, setup.hosts);
        Case { seed, what, servers, hosts, jobs, schedules, calls, retention, queue_secs, tells, config, faults }
            .with_holders()
    }

    /// Whoever cuts off those who have a slot wants somebody to have one.
    fn with_holders(mut self) -> Case {
        if self.faults.iter().any(|fault| matches!(fault.kind, FaultKind::CutHolder { .. })) {
            JobPlan::ensure_groups(&mut self.jobs, self.seed);
        }
        let approves = |kind: FaultKind| matches!(kind, FaultKind::CutHolder { act: Act::Approve, patient: true, .. });
        if self.faults.iter().any(|fault| approves(fault.kind)) {
            JobPlan::let_groups_ask(&mut self.jobs, self.seed);
        }
        self
    }

    /// The same with some faults of this kind.
    pub fn with(seed: u64, scale: Scale, kind: Option<&str>) -> Case {
        let mut case = Case::scaled(seed, scale);
        if let Some(kind) = kind {
            let setup = Setup::scaled(seed, scale);
            case.faults.extend(faults::roll_only(seed, &setup, &[kind], FAULTS_WITH));
            case.faults.sort_by_key(|fault| fault.at);
        }
        case.with_holders()
    }

    /// Runs it, up to the event `until`. A panic anywhere in it is a finding.
    pub fn run(&self, story: &Story, until: Option<u64>) -> Verdict {
        quiet_panics();
        let course = || {
            let (hosts, schedules, calls) = (self.hosts.clone(), self.schedules.clone(), self.calls.clone());
            let mut setup = Setup { hosts, schedules, calls, ..Setup::of(self.seed).among(self.servers) };
            if let Some(config) = self.config {
                setup = setup.configured(&config.server());
            }
            if let Some(retention) = self.retention {
                setup.core.retention = retention.rules();
            }
            if self.tells {
                setup.core.notices = setup::told_by_servers();
            }
            setup.core.rules.queue_notice = self.queue_secs.map(Duration::from_secs);
            let world = World::with(self.seed, setup, self.jobs.clone(), self.faults.clone(), story.clone());
            world.run(until).0
        };
        IN_A_WORLD.set(true);
        let verdict = panic::catch_unwind(AssertUnwindSafe(course));
        IN_A_WORLD.set(false);
        verdict.unwrap_or_else(|_| self.panicked(story))
    }

    fn panicked(&self, story: &Story) -> Verdict {
        let what = LAST_PANIC.with_borrow(Clone::clone);
        Verdict {
            seed: self.seed,
            findings: vec![Finding { checker: "panic", what }],
            jobs: self.jobs.len(),
            faults_fired: 0,
            fired: BTreeMap::new(),
            events: story.last_event(),
            simulated: Duration::ZERO,
        }
    }

    pub fn read(path: &Path) -> Result<Case, CaseError> {
        Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
    }

    pub fn write(&self, path: &Path) -> Result<(), CaseError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        Ok(std::fs::write(path, self.text()?)?)
    }

    /// One line for each host, job and fault: a reader sees at once how much there is.
    fn text(&self) -> Result<String, serde_json::Error> {
        let lines =
            |values: Vec<String>| values.iter().map(|value| format!("    {value}")).collect::<Vec<_>>().join(",\n");
        let all = |values: Vec<Result<String, _>>| values.into_iter().collect::<Result<Vec<_>, _>>().map(lines);
        let hosts = all(self.hosts.iter().map(serde_json::to_string).collect())?;
        let jobs = all(self.jobs.iter().map(serde_json::to_string).collect())?;
        let faults = all(self.faults.iter().map(serde_json::to_string).collect())?;
        let list = |name: &str, values: Vec<Result<String, _>>| match values.is_empty() {
            true => Ok(String::new()),
            false => all(values).map(|lines| format!("  \"{name}\": [\n{lines}\n  ],\n")),
        };
        let schedules = list("schedules", self.schedules.iter().map(serde_json::to_string).collect())?;
        let calls = list("calls", self.calls.iter().map(serde_json::to_string).collect())?;
        let retention = match &self.retention {
            None => String::new(),
            Some(retention) => format!("  \"retention\": {},\n", serde_json::to_string(retention)?),
        };
        let queue = self.queue_secs.map(|secs| format!("  \"queue_secs\": {secs},\n")).unwrap_or_default();
        let config = match &self.config {
            None => String::new(),
            Some(config) => format!("  \"config\": {},\n", serde_json::to_string(config)?),
        };
        let tells = if self.tells { "  \"tells\": true,\n" } else { "" };
        let what = serde_json::to_string(&self.what)?;
        Ok(format!(
            "{{\n  \"what\": {what},\n  \"seed\": {},\n  \"servers\": {},\n  \"hosts\": [\n{hosts}\n  ],\n  \"jobs\": [\n{jobs}\n  ],\n{schedules}{calls}{retention}{queue}{tells}{config}  \"faults\": [\n{faults}\n  ]\n}}\n",
            self.seed, self.servers
        ))
    }
}

thread_local! {
    static IN_A_WORLD: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics of a world are findings, and shown as such, with RUST_BACKTRACE=1 where they come from; shrinking would print hundreds.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let trace = Backtrace::capture();
            let is_there = trace.status() == BacktraceStatus::Captured;
            LAST_PANIC.set(if is_there { format!("{info}\n{trace}") } else { info.to_string() });
            if !IN_A_WORLD.get() {
                loud(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_reads_back_what_it_wrote() {
        for seed in 0..50 {
            let case = Case::of(seed);
            let text = case.text().expect("a case is plain data");
            let again: Case = serde_json::from_str(&text).expect("it wrote this itself");
            assert_eq!(case, again);
        }
    }
}
