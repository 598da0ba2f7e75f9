//! Concurrency groups: who waits and who may have a slot follows from the jobs' rows, and two who admit at once are told apart.

use std::collections::BTreeSet;

use engine::{Event, JobId, Time};

use super::Fixture;
use super::scene::{FIRST, Life, after, attempt_id, commit, grouped, job_id, report};
use crate::read::{LineView, SlotView};
use crate::{Admission, Batch, Reader, Store};

const LONG_AGO: Time = Time(0);

fn admit() -> Event {
    Event::Admit { reason: "there is room".to_owned() }
}

fn admission(group: &str, expected: Option<JobId>, jobs: &[u64], after: &[u64]) -> Admission {
    let ids = |numbers: &[u64]| numbers.iter().map(|n| job_id(*n)).collect();
    Admission { group: group.to_owned(), expected, jobs: ids(jobs), after: ids(after) }
}

/// Who has a slot, and when those who are over ended.
fn slots(reader: &dyn Reader, group: &str, ended_after: Time) -> Vec<(JobId, Option<Time>)> {
    let found = reader.slots(group, ended_after).expect("a look");
    found.into_iter().map(|SlotView { job, ended_at, .. }| (job, ended_at)).collect()
}

fn line(reader: &dyn Reader, group: &str) -> Vec<JobId> {
    reader.line(group, 10).expect("a look").into_iter().map(|LineView { job, .. }| job).collect()
}

pub fn who_waits_stands_in_line_by_priority_and_age(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    for (n, priority) in [(1, 0), (2, 0), (3, 7), (4, -1)] {
        Life::submit(&mut *store, n, &grouped("release", priority));
    }
    Life::submit(&mut *store, 5, &grouped("other", 0));
    fixture.crash(store);
    let store = fixture.open();
    let reader = store.reader();
    assert_eq!(line(&*reader, "release"), [3, 1, 2, 4].map(job_id));
    assert_eq!(
        reader.line("release", 1).expect("a look"),
        [LineView { job: job_id(3), priority: 7, created_at: after(3) }]
    );
    assert_eq!(line(&*reader, "nobody"), []);
    assert_eq!(reader.lines("", 10).expect("a look"), ["other", "release"]);
    assert_eq!(reader.lines("other", 10).expect("a look"), ["release"]);
    assert_eq!(reader.lines("", 1).expect("a look"), ["other"]);
    assert_eq!(reader.groups("", 10).expect("a look"), ["other", "release"]);
    assert_eq!(slots(&*reader, "release", LONG_AGO), []);
}

pub fn an_admitted_job_has_a_slot_until_it_is_over(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    let mut life = Life::submit(&mut *store, 1, &grouped("release", 0));
    life.apply(&mut *store, &admit());
    let reader = store.reader();
    assert_eq!(slots(&*reader, "release", LONG_AGO), [(job_id(1), None)]);
    assert_eq!((line(&*reader, "release"), reader.lines("", 9).expect("a look")), (Vec::new(), Vec::new()));
    assert_eq!(reader.groups("", 9).expect("a look"), ["release"]);
    life.apply(&mut *store, &Event::Cancel { by: "ada".to_owned(), force: false });
    assert_eq!(slots(&*reader, "release", LONG_AGO), [], "it is over, and nothing of it runs");
    let mut called_off = Life::submit(&mut *store, 2, &grouped("release", 0));
    called_off.apply(&mut *store, &Event::Cancel { by: "ada".to_owned(), force: false });
    assert_eq!((line(&*reader, "release"), slots(&*reader, "release", LONG_AGO)), (Vec::new(), Vec::new()));
    assert_eq!(reader.groups("", 9).expect("a look"), Vec::<String>::new());
}

/// A job whose attempt was given up, and the same with a report that came late.
pub fn what_may_still_run_keeps_its_place(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    let mut life = Life::submit(&mut *store, 1, &grouped("release", 0));
    life.apply(&mut *store, &admit());
    let ticket = life.start(&mut *store, FIRST, 1, 1);
    life.apply(&mut *store, &Event::WorkerRemoved { ticket, by: "ada".to_owned() });
    let reader = store.reader();
    let ended_at = life.job.header.ended_at.expect("it is over");
    assert_eq!(slots(&*reader, "release", LONG_AGO), [(job_id(1), Some(ended_at))]);
    assert_eq!(slots(&*reader, "release", ended_at), [], "it ended too long ago");
    assert_eq!(reader.stray_slots(LONG_AGO).expect("a look"), [("release".to_owned(), job_id(1))]);
    assert_eq!(reader.stray_slots(ended_at).expect("a look"), []);
    let given_up: Vec<_> = reader.unconfirmed(job_id(1)).expect("a look").into_iter().map(|a| a.id).collect();
    assert_eq!(given_up, [attempt_id(1)]);
    commit(&mut *store, &Batch { confirmed: vec![(ticket.attempt, ticket.fence)], ..Batch::default() });
    assert_eq!(reader.unconfirmed(job_id(1)).expect("a look"), []);

    let mut well = Life::submit(&mut *store, 2, &grouped("release", 0));
    well.apply(&mut *store, &admit());
    let ticket = well.start(&mut *store, FIRST, 2, 1);
    assert_eq!(reader.unconfirmed(job_id(2)).expect("a look"), [], "it runs, and was not given up");
    well.apply(&mut *store, &Event::Ended { ticket, report: report(0) });
    assert_eq!(slots(&*reader, "release", ended_at), []);
}

pub fn two_who_admit_at_once_are_in_conflict(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    let definition = grouped("release", 0);
    let [mut first, mut second] = [1, 2].map(|n| Life::submit(&mut *store, n, &definition));
    let reader = store.reader();
    assert_eq!(reader.last_admitted("release").expect("a look"), None);

    let (changes, mut batch) = first.change(&admit());
    batch.admissions.push(admission("release", None, &[1], &[]));
    let committed = commit(&mut *store, &batch);
    assert!(committed.conflicts.is_empty() && committed.groups_moved.is_empty());
    first.job.absorb(&changes);
    assert_eq!(reader.last_admitted("release").expect("a look"), Some(job_id(1)));

    let (_, mut batch) = second.change(&admit());
    batch.admissions.push(admission("release", None, &[2], &[]));
    let committed = commit(&mut *store, &batch);
    assert_eq!(committed.groups_moved, BTreeSet::from(["release".to_owned()]));
    assert_eq!(committed.conflicts, BTreeSet::from([job_id(2)]));
    assert_eq!(
        (line(&*reader, "release"), slots(&*reader, "release", LONG_AGO)),
        (vec![job_id(2)], vec![(job_id(1), None)])
    );

    let (changes, mut batch) = second.change(&admit());
    batch.admissions.push(admission("release", Some(job_id(1)), &[2], &[]));
    assert!(commit(&mut *store, &batch).groups_moved.is_empty(), "by what is there now");
    assert_eq!(reader.last_admitted("release").expect("a look"), Some(job_id(2)));
    second.job.absorb(&changes);
    second.assert_stored(&mut *store);
}

pub fn an_admission_falls_with_what_made_room_for_it(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    let definition = grouped("release", 0);
    let [mut holder, mut waiting] = [1, 2].map(|n| Life::submit(&mut *store, n, &definition));
    holder.apply(&mut *store, &admit());
    // Another server starts it meanwhile.
    let mut stale = holder.clone();
    holder.start(&mut *store, FIRST, 1, 1);

    let (_, mut batch) = stale.change(&Event::Cancel { by: "ada".to_owned(), force: false });
    let (_, admitted) = waiting.change(&admit());
    batch.jobs.extend(admitted.jobs);
    batch.steps.extend(admitted.steps);
    batch.events.extend(admitted.events);
    batch.admissions.push(admission("release", None, &[2], &[1]));
    let committed = commit(&mut *store, &batch);
    assert_eq!(committed.conflicts, BTreeSet::from([job_id(1), job_id(2)]));
    assert_eq!(committed.groups_moved, BTreeSet::from(["release".to_owned()]));
    let reader = store.reader();
    assert_eq!(
        (line(&*reader, "release"), slots(&*reader, "release", LONG_AGO)),
        (vec![job_id(2)], vec![(job_id(1), None)])
    );
    assert_eq!(reader.last_admitted("release").expect("a look"), None);
}

pub fn an_idle_group_is_forgotten(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    for (n, group, at) in [(1, "busy", 100), (2, "idle", 100), (3, "young", 500), (4, "almost", 200)] {
        let mut life = Life::submit(&mut *store, n, &grouped(group, 0));
        let (changes, mut batch) = life.change(&admit());
        batch.now = after(at);
        batch.admissions.push(admission(group, None, &[n], &[]));
        commit(&mut *store, &batch);
        life.job.absorb(&changes);
        if n != 1 {
            life.apply(&mut *store, &Event::Cancel { by: "ada".to_owned(), force: false });
        }
    }
    let last = |store: &dyn Store| {
        ["busy", "idle", "young", "almost"].map(|group| store.reader().last_admitted(group).expect("a look").is_some())
    };
    assert_eq!(store.prune_groups(after(400), 1, None).expect("a write"), 1);
    assert_eq!(last(&*store), [true, false, true, true], "the one that is idle for longest goes first");
    assert_eq!(store.prune_groups(after(400), 10, None).expect("a write"), 1);
    assert_eq!(last(&*store), [true, false, true, false]);
}
