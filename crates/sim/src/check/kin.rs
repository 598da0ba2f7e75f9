//! Promise: a step and the job that does it stand and fall together. The job is there as soon as its step waits for it, and
//! never two of them at once; its end and what follows for its step are one commit. It is given what its step says, and called
//! off with it: in the same commit, or, where it could not be read then, soon after. Who waits for nothing but jobs that wait for a
//! person is held with them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{JobId, StepIx};

use super::ears::Ears;
use super::plans::Plans;
use super::rows::{JobSeen, Place, Rows};
use super::{Accepted, Findings};
use crate::model::SETTLED_OUTPUT;
use crate::workload::Kind;

const CHECKER: &str = "kin";

/// A job that was called off and could not be told is told so much later: a look and a half.
const TOLD_WITHIN: Duration = Duration::from_secs(45);

/// Jobs whose step was told to end, and which were not.
#[derive(Debug, Default)]
pub(crate) struct Kin {
    /// Since when, by what was listened to.
    untold: BTreeMap<JobId, Duration>,
}

impl Kin {
    /// `rows` are those after the batch.
    pub(super) fn committed(&mut self, ears: &Ears, rows: &Rows, accepted: &Accepted<'_>, found: &mut Findings) {
        for row in accepted.steps().filter(|row| row.state == "cancelling") {
            let begun = rows.children(Place { job: row.job, step: row.ix });
            for (id, _) in begun.iter().filter(|(_, job)| is_untold(job)) {
                self.untold.entry(*id).or_insert(ears.listened());
            }
        }
        let waits =
            |job: &JobSeen| job.parent.and_then(|parent| rows.step(parent)).is_some_and(|it| it.state == "cancelling");
        self.untold.retain(|id, _| rows.job(*id).is_some_and(|job| is_untold(job) && waits(job)));
        let late = self.untold.iter().find(|(_, since)| ears.listened() - **since > TOLD_WITHIN);
        if let Some((id, _)) = late {
            found.add(CHECKER, format!("the step of job {id} was told to end, and the job was not"));
        }
    }

    /// The marks of so much hearing are lost.
    pub(super) fn was_deaf(&mut self, ears: &Ears) {
        self.untold.values_mut().for_each(|since| *since = ears.listened());
    }
}

fn is_untold(job: &JobSeen) -> bool {
    !job.is_final && job.cancelled_at.is_none()
}

/// What was there before a batch.
pub(super) struct Before {
    /// Jobs that were not there.
    new: Vec<JobId>,
    /// Jobs that were open, and end with this batch.
    ended: Vec<JobId>,
}

pub(super) fn before(rows: &Rows, accepted: &Accepted<'_>) -> Before {
    let begun = || accepted.jobs().filter(|row| row.parent.is_some());
    let was_open = |id: JobId| rows.job(id).is_none_or(|job| !job.is_final);
    Before {
        new: begun().filter(|row| rows.job(row.id).is_none()).map(|row| row.id).collect(),
        ended: begun().filter(|row| row.check_at.is_none() && was_open(row.id)).map(|row| row.id).collect(),
    }
}

/// `rows` are those after the batch.
pub(super) fn committed(rows: &Rows, plans: &Plans, before: &Before, accepted: &Accepted<'_>, found: &mut Findings) {
    for id in &before.new {
        if let Some((job, parent)) = of(rows, *id) {
            begun(*id, job, parent, (rows, plans), accepted, found);
        }
    }
    for id in &before.ended {
        let Some((job, parent)) = of(rows, *id) else { continue };
        let waits = rows.step(parent).is_some_and(|step| matches!(step.state, "running" | "cancelling"));
        let newest = rows.children(parent).last().is_some_and(|(newest, _)| newest == id);
        if waits && newest {
            let told = format!("{} ended as {}, and step {} of {}", id, job.state, parent.step.0, parent.job);
            found.add(CHECKER, format!("job {told} still waits for it"));
        }
    }
    let touched = accepted.jobs().flat_map(|row| [Some(row.id), row.parent.map(|parent| parent.job)]);
    for id in touched.flatten().collect::<BTreeSet<JobId>>() {
        if let Some(wrong) = rows.job(id).and_then(|job| wrongly_held(id, job, rows)) {
            found.add(CHECKER, format!("job {id} is {}, and {wrong}", rows.job(id).map_or("gone", |job| job.state)));
        }
    }
}

/// A job is held where nothing of it moves but by a person's word.
fn wrongly_held(id: JobId, job: &JobSeen, rows: &Rows) -> Option<&'static str> {
    if job.is_final || job.state == "cancelling" || job.in_line {
        return None;
    }
    let mut open = job.steps.iter().filter(|(_, step)| !step.is_final).peekable();
    open.peek()?;
    let has_items = |name: &str| job.steps.values().any(|step| step.item_of() == Some(name));
    let moves = open.any(|(ix, step)| match step.state {
        "queued" | "waiting" | "cancelling" | "recovering" => true,
        "running" if has_items(&step.name) => false,
        "running" => {
            let child = rows.children(Place { job: id, step: *ix }).last().map(|(_, job)| job.state);
            child != Some("held")
        }
        _ => false,
    });
    match (job.state == "held", moves) {
        (true, true) => Some("something of it moves by itself"),
        (false, false) => Some("only a person can move it on"),
        (true, false) | (false, true) => None,
    }
}

fn of(rows: &Rows, id: JobId) -> Option<(&JobSeen, Place)> {
    let job = rows.job(id)?;
    Some((job, job.parent?))
}

fn begun(
    id: JobId,
    job: &JobSeen,
    parent: Place,
    (rows, plans): (&Rows, &Plans),
    accepted: &Accepted<'_>,
    found: &mut Findings,
) {
    let name = || format!("job {id} of step {} of {}", parent.step.0, parent.job);
    if !accepted.steps().any(|row| row.job == parent.job && row.ix == parent.step) {
        found.add(CHECKER, format!("{} was begun, and its step was not told in the same commit", name()));
    }
    let others = rows.children(parent);
    if let Some((other, _)) = others.iter().find(|(other, seen)| *other != id && !seen.is_final) {
        found.add(CHECKER, format!("{} was begun, and {other} is not over", name()));
    }
    let Some(plan) = plans.step(rows, parent) else { return };
    let most = plan.executions_max() as usize;
    if others.len() > most {
        found.add(CHECKER, format!("{} is the {}th, and {most} are allowed", name(), others.len()));
    }
    let Some(child) = &plan.child else {
        return found.add(CHECKER, format!("{} was begun, and no job was asked for", name()));
    };
    let number = rows.step(parent).and_then(|step| step.item_number());
    let numbers = match (number, plan.hands_on) {
        (None, Some(giver)) => handed_on(parent.job, giver, (rows, plans)),
        (number, _) => vec![number.unwrap_or(child.given)],
    };
    let wanted: Vec<String> = numbers.iter().map(|number| format!("{{\"n\":{number}}}")).collect();
    if !wanted.contains(&job.input) || job.task != child.job.name {
        let wanted = wanted.join(" or ");
        found.add(CHECKER, format!("{} is {} with {}, and not {wanted}", name(), job.task, job.input));
    }
}

/// What a step that ended may have given as its output: its program, or a person who settled it; and nothing in all other cases.
fn handed_on(job: JobId, giver: usize, (rows, plans): (&Rows, &Plans)) -> Vec<i64> {
    let place = Place { job, step: StepIx::of(giver) };
    let ended_well = rows.step(place).is_some_and(|step| step.state == "success");
    let Some(plan) = plans.step(rows, place).filter(|_| ended_well) else { return vec![0] };
    match plan.kind {
        Kind::Work(behaviour) if plan.fan.is_none() && plan.child.is_none() => vec![behaviour.output, SETTLED_OUTPUT],
        Kind::Work(_) | Kind::Approve => vec![0, SETTLED_OUTPUT],
    }
}
