//! Concurrency groups: who waits, who may have a slot, and who was admitted last.

use std::cmp::Reverse;
use std::ops::Bound;

use engine::{JobId, Time};
use store::Batch;
use store::plan::Plan;
use store::read::{LineView, SlotView};
use uuid::Uuid;

use crate::tables::{GroupRow, Tables};

pub(crate) fn write(tables: &mut Tables, batch: &Batch, plan: &Plan<'_>) {
    for admission in batch.admissions.iter().filter(|admission| plan.takes_group(&admission.group)) {
        if let Some(last_admitted) = admission.jobs.last().copied() {
            tables.groups.put(admission.group.clone(), GroupRow { last_admitted, admitted_at: batch.now });
        }
    }
}

pub(crate) fn prune(tables: &mut Tables, before: Time, limit: usize) -> usize {
    let old = tables.groups.iter().filter(|(_, row)| row.admitted_at < before);
    let idle = old.filter(|(name, _)| !is_open(tables, name));
    let mut idle: Vec<(Time, String)> = idle.map(|(name, row)| (row.admitted_at, name.clone())).collect();
    idle.sort_unstable();
    idle.truncate(limit);
    let pruned = idle.len();
    idle.into_iter().for_each(|(_, name)| tables.groups.remove(name));
    pruned
}

pub(crate) fn slots(tables: &Tables, group: &str, ended_after: Time) -> Vec<SlotView> {
    let index = tables.jobs.index();
    let open = index.slots.range((group.to_owned(), FIRST)..).take_while(|(of, _)| of == group).map(|(_, id)| id);
    let later = (group.to_owned(), ended_after, LAST);
    let astray = index.astray.range((Bound::Excluded(later), Bound::Unbounded));
    let astray = astray.take_while(|(of, ..)| of == group).map(|(.., id)| id);
    let view = |id: &JobId| {
        let row = tables.jobs.get(id)?;
        let ended_at = row.ended_at.filter(|_| row.check_at.is_none());
        Some(SlotView { job: *id, created_at: row.created_at, ended_at, cancelling: row.state == "cancelling" })
    };
    let mut found: Vec<SlotView> = open.chain(astray).filter_map(view).collect();
    found.sort_unstable_by_key(|slot| slot.job);
    found
}

pub(crate) fn line(tables: &Tables, group: &str, limit: usize) -> Vec<LineView> {
    let first = (group.to_owned(), Reverse(i32::MAX), Time(i64::MIN), FIRST);
    let waiting = tables.jobs.index().line.range(first..).take_while(|(of, ..)| of == group);
    let view = |(_, Reverse(priority), created_at, job): &(String, Reverse<i32>, Time, JobId)| LineView {
        job: *job,
        priority: *priority,
        created_at: *created_at,
    };
    waiting.take(limit).map(view).collect()
}

pub(crate) fn stray_slots(tables: &Tables, ended_after: Time) -> Vec<(String, JobId)> {
    let astray = tables.jobs.index().astray.iter().filter(|(_, ended_at, _)| *ended_at > ended_after);
    let mut found: Vec<(String, JobId)> = astray.map(|(group, _, job)| (group.clone(), *job)).collect();
    found.sort_unstable();
    found
}

/// The groups that jobs wait for.
pub(crate) fn lines(tables: &Tables, after: &str, limit: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    while names.len() < limit {
        let Some(next) = next_line(tables, names.last().map_or(after, String::as_str)) else { break };
        names.push(next.to_owned());
    }
    names
}

pub(crate) fn groups(tables: &Tables, after: &str, limit: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    while names.len() < limit {
        let last = names.last().map_or(after, String::as_str);
        let mut slots = tables.jobs.index().slots.range((Bound::Excluded((last.to_owned(), LAST)), Bound::Unbounded));
        let running = slots.next().map(|(group, _)| group.as_str());
        let Some(next) = next_line(tables, last).into_iter().chain(running).min() else { break };
        names.push(next.to_owned());
    }
    names
}

fn next_line<'a>(tables: &'a Tables, after: &str) -> Option<&'a str> {
    let last = (after.to_owned(), Reverse(i32::MIN), Time(i64::MAX), LAST);
    let mut later = tables.jobs.index().line.range((Bound::Excluded(last), Bound::Unbounded));
    later.next().map(|(group, ..)| group.as_str())
}

fn is_open(tables: &Tables, group: &str) -> bool {
    let mut slots = tables.jobs.index().slots.range((group.to_owned(), FIRST)..);
    slots.next().is_some_and(|(of, _)| of == group) || !line(tables, group, 1).is_empty()
}

const FIRST: JobId = JobId(Uuid::nil());
const LAST: JobId = JobId(Uuid::max());
