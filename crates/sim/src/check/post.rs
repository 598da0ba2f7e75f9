//! Promise: what follows on a job's end follows, whoever dies in between, and follows once: one job for each hook, one word for
//! each webhook, which arrives under one key and with the same text however often it is sent. Nothing follows on a hook.

use std::collections::BTreeMap;

use engine::JobId;
use store::Reader;
use uuid::Uuid;

use super::Findings;
use super::plans::Plans;
use super::rows::{JobSeen, Rows};
use crate::workload::{HookWork, JobPlan};

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
            let wanted = match job.hook_of {
                Some(_) => Some(false),
                None => hook.on.follows(job.state, job.error_code),
            };
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
