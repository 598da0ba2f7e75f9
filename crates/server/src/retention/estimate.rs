//! What a run would take away, without taking anything: beside the writer, for `--dry-run`.

use std::collections::BTreeSet;

use engine::{AttemptId, JobId};
use store::{OldJob, Reader, StoreError};

use super::run::{LOOK_JOBS, LOOK_LOGS, may_go, unseen};
use super::{Cutoffs, Tally, add, plan};

pub fn estimate(reader: &dyn Reader, cutoffs: Cutoffs, in_hand: &dyn Fn(JobId) -> bool) -> Result<Tally, StoreError> {
    let mut tally = Tally::default();
    jobs(reader, cutoffs, in_hand, &mut tally)?;
    logs(reader, cutoffs, &mut tally)?;
    if let Some(before) = cutoffs.jobs {
        let strays = reader.strays(before)?;
        (tally.words, tally.quarantined) = (strays.words, strays.quarantined);
    }
    if let Some(by) = cutoffs.workers {
        // As a rule those that were not seen for long have nothing; whether one does is found when it goes.
        tally.workers = unseen(reader, by)?.len() as u64;
    }
    Ok(tally)
}

fn jobs(
    reader: &dyn Reader,
    cutoffs: Cutoffs,
    in_hand: &dyn Fn(JobId) -> bool,
    tally: &mut Tally,
) -> Result<(), StoreError> {
    let Some(before) = cutoffs.jobs else { return Ok(()) };
    let (mut after, mut family, mut going) = (None, Vec::<OldJob>::new(), BTreeSet::new());
    loop {
        let page = reader.old_jobs(after, JobId::lowest_at(before), LOOK_JOBS)?;
        let is_last = page.len() < LOOK_JOBS;
        after = page.last().map(|job| job.id);
        for job in page.into_iter().map(Some).chain(is_last.then_some(None)) {
            let ends = !family.is_empty()
                && job.as_ref().is_none_or(|job| !family.iter().any(|kin| plan::are_kin(kin.id, job.id)));
            if ends {
                let whole = std::mem::take(&mut family);
                let rules = plan::Rules { before, in_hand, goes_first: &|old| going.contains(&old) };
                let verdict = plan::judge(&whole, &rules);
                if verdict.is_ok() {
                    going.extend(whole.iter().map(|job| job.id));
                }
                weigh(reader, &whole, verdict, tally)?;
            }
            family.extend(job);
        }
        if is_last {
            return Ok(());
        }
    }
}

fn weigh(
    reader: &dyn Reader,
    family: &[OldJob],
    verdict: Result<(), plan::Keep>,
    tally: &mut Tally,
) -> Result<(), StoreError> {
    if let Err(keep) = verdict {
        plan::count(&mut tally.kept, keep, family.len());
        return Ok(());
    }
    for job in family {
        tally.jobs += 1;
        add(tally, reader.weight(job.id)?);
    }
    Ok(())
}

/// Logs of jobs that stay. Those of jobs that go are in their weight.
fn logs(reader: &dyn Reader, cutoffs: Cutoffs, tally: &mut Tally) -> Result<(), StoreError> {
    let Some(before) = cutoffs.logs else { return Ok(()) };
    let goes_with_its_job = |ended| cutoffs.jobs.is_some_and(|jobs| ended < jobs);
    let mut after = None;
    loop {
        let page = reader.old_logs(after, AttemptId::lowest_at(before), LOOK_LOGS)?;
        for log in page.iter().filter(|log| may_go(log, before) && !log.ended_at.is_some_and(goes_with_its_job)) {
            tally.logs += 1;
            tally.log_lines += reader.log_state(log.attempt)?.last_seq;
        }
        after = page.last().map(|log| log.attempt);
        if page.len() < LOOK_LOGS {
            return Ok(());
        }
    }
}
