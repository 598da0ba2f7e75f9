//! Promise: what follows on a job's end follows, whoever dies in between, and follows once: one job for each hook, one word for
//! each webhook, which arrives under one key and with the same text however often it is sent. Nothing follows on a hook.
//!
//! They are looked for under the ids that follow from the job and the hook's number, and counted whatever their ids are: what is made
//! twice may have two. What follows on a job that recovered does so where a step of that job has lost touch with its worker or
//! lost it, as its history says, and not where none has.

use std::collections::BTreeMap;

use engine::JobId;
use store::Reader;
use uuid::Uuid;

use super::Findings;
use super::finals::Finals;
use super::notices::Notices;
use super::plans::Plans;
use super::rows::{JobSeen, Rows};
use crate::workload::{HookPlan, HookWork, JobPlan, On};

const CHECKER: &str = "hook";

#[derive(Debug, Default)]
pub(crate) struct Post {
    /// What arrived, by its key.
    arrived: BTreeMap<Uuid, String>,
    /// Ends were lost, and what followed on them with them; but not what had arrived.
    forgot: bool,
}

impl Post {
    pub(super) fn arrived(&mut self, id: Uuid, text: &str, found: &mut Findings) {
        let before = self.arrived.entry(id).or_insert_with(|| text.to_owned());
        // A job that ends once more, since its end was lost, ends at another time.
        if before != text && !self.forgot {
            found.add(CHECKER, format!("under the key {id} came {before}, and then {text}"));
        }
    }

    /// Whether it came.
    pub(super) fn has(&self, id: Uuid) -> bool {
        self.arrived.contains_key(&id)
    }

    pub(super) fn forgot(&mut self) {
        self.forgot = true;
    }

    pub(super) fn at_the_end(
        &self,
        rows: &Rows,
        plans: &Plans,
        (reader, deleted): (&dyn Reader, &dyn Fn(JobId) -> bool),
        found: &mut Findings,
    ) {
        for (id, job) in rows.jobs.iter().filter(|(id, job)| job.is_final && !deleted(**id)) {
            if let Some(plan) = plans.job(rows, *id) {
                self.job_at_the_end(*id, job, plan, (rows, reader), found);
            }
        }
    }

    fn job_at_the_end(
        &self,
        id: JobId,
        job: &JobSeen,
        plan: &JobPlan,
        (rows, reader): (&Rows, &dyn Reader),
        found: &mut Findings,
    ) {
        for (number, hook) in plan.hooks.iter().enumerate() {
            let hook_id = id.hook(number);
            let wanted = follows(hook, job);
            let (there, what) = match &hook.work {
                HookWork::Job(_) => (rows.job(hook_id).is_some(), "a job"),
                HookWork::Word | HookWork::Mail => {
                    let delivered = reader.outbox(hook_id.0).ok().flatten().map(|row| row.delivered_at.is_some());
                    let arrived = self.arrived.contains_key(&hook_id.0);
                    if delivered == Some(true) && !arrived {
                        found.add(CHECKER, format!("{hook_id} of {id} is on record as delivered, and never arrived"));
                    }
                    (arrived && (delivered.is_some() || !self.forgot), "a word")
                }
            };
            if wanted.is_some_and(|wanted| wanted != there) {
                let said = if there { "followed" } else { "did not follow" };
                let on = format!("{:?} of {id} ({}), which is {}", hook.on, plan.name, job.state);
                found.add(CHECKER, format!("{what} {said} on {on}"));
            }
        }
    }
}

/// Whether something follows on this end of the job; none where it follows on something else.
fn follows(hook: &HookPlan, job: &JobSeen) -> Option<bool> {
    match hook.on {
        On::Notice => None,
        _ if job.hook_of.is_some() => Some(false),
        On::Recovered => Some(job.state == "success" && job.recovered),
        on => on.follows(job.state, job.error_code),
    }
}

/// Whether more or less followed on each job than its plan says, under whatever ids.
pub(super) fn count(rows: &Rows, plans: &Plans, (finals, notices): (&Finals, &Notices), found: &mut Findings) {
    let mut begun: BTreeMap<(JobId, &str), usize> = BTreeMap::new();
    for job in rows.jobs.values().filter(|job| !job.continues) {
        if let Some(of) = job.hook_of {
            *begun.entry((of, &job.task)).or_default() += 1;
        }
    }
    let words = finals.words();
    for (id, job) in rows.jobs.iter().filter(|(_, job)| job.is_final) {
        let Some(plan) = plans.job(rows, *id) else { continue };
        let noticed = notices.count(*id);
        let due = |hook: &HookPlan| match (follows(hook, job), job.hook_of) {
            (Some(follows), _) => Some(usize::from(follows)),
            (None, Some(_)) => Some(0),
            (None, None) => noticed,
        };
        let mut wrong = |what: &str, there: usize, due: usize| {
            let name = &plan.name;
            found.add(CHECKER, format!("{there} {what} followed on {id} ({name}), and {due} were to"));
        };
        for hook in &plan.hooks {
            let HookWork::Job(follower) = &hook.work else { continue };
            let there = begun.get(&(*id, follower.name.as_str())).copied().unwrap_or_default();
            if let Some(due) = due(hook).filter(|due| *due != there) {
                wrong(&format!("jobs of {}", follower.name), there, due);
            }
        }
        for (on, word) in OCCASIONS {
            let told = plan.hooks.iter().filter(|hook| hook.on == on && !matches!(hook.work, HookWork::Job(_)));
            let due: Option<usize> = told.map(due).sum();
            let of_server = if on == On::Notice { noticed.map(|number| number * notices.of_server()) } else { Some(0) };
            let there = words.get(&(*id, word)).copied().unwrap_or_default();
            if let (Some(due), Some(of_server)) = (due, of_server)
                && due + of_server != there
            {
                wrong(&format!("words of {word}"), there, due + of_server);
            }
        }
    }
}

/// As letters name them.
const OCCASIONS: [(On, &str); 5] = [
    (On::Success, "on_success"),
    (On::Error, "on_error"),
    (On::Cancel, "on_cancel"),
    (On::Recovered, "on_recovered"),
    (On::Notice, "on_notice"),
];
