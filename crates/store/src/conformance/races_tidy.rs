//! Races about what is old: it is taken away once, and never from under somebody who needs it.

use engine::{Event, JobId};

use super::Fixture;
use super::races::{ROUNDS, Servers};
use super::scene::{Life, after, attempt_id, grouped, id, job_id};
use crate::rows::{OutboxMove, OutboxRow, QuarantineRow};
use crate::{Admission, Batch, LogAppend, LogDeadline, StoreError};

fn admit() -> Event {
    Event::Admit { reason: "there is room".to_owned() }
}

/// What is known of an idle group goes while somebody admits a job to it by that: the admission falls, or the group stays.
pub fn who_forgets_a_group_and_who_admits_to_it_wait_for_each_other(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    let definition = grouped("release", 0);
    for n in 1..=ROUNDS {
        let mut last = Life::submit(servers.one(), 2 * n, &definition);
        let known = servers.one().reader().last_admitted("release").expect("a look");
        let (changes, mut batch) = last.change(&admit());
        batch.now = after(10 * n);
        batch.admissions.push(admission(known, last.job.id));
        assert!(servers.one().commit(&batch).expect("a write").groups_moved.is_empty());
        last.job.absorb(&changes);
        last.apply(servers.one(), &Event::Cancel { by: "ada".to_owned(), force: false });
        let next = Life::submit(servers.one(), 2 * n + 1, &definition);
        let (admitting, last) = (next.clone().change(&admit()).1, last.job.id);
        let admitting =
            Batch { now: after(1_000_000), admissions: vec![admission(Some(last), next.job.id)], ..admitting };
        let outcomes = servers.race(|store, who| match who {
            0 => store.prune_groups(after(500_000), 10, None).map(|gone| gone == 0),
            _ => store.commit(&admitting).map(|done| done.groups_moved.is_empty()),
        });
        let [stays, admitted] = outcomes.map(|outcome| outcome.expect("a race is no error"));
        // A job that waits keeps its group: so far nothing is idle.
        assert!(stays && admitted);
        let reader = servers.one().reader();
        assert_eq!(reader.last_admitted("release").expect("a look"), Some(next.job.id));
        let mut next = Life::read(servers.one(), 2 * n + 1, &definition);
        next.apply(servers.one(), &Event::Cancel { by: "ada".to_owned(), force: false });
        // Now it is: of two who forget it one does.
        let forgotten = servers.race(|store, _| store.prune_groups(after(2_000_000), 10, None).expect("no error"));
        assert_eq!(forgotten.iter().sum::<usize>(), 1, "{forgotten:?}");
        assert_eq!(reader.last_admitted("release").expect("a look"), None);
    }
}

fn admission(expected: Option<JobId>, job: JobId) -> Admission {
    Admission { group: "release".to_owned(), expected, jobs: vec![job], after: Vec::new() }
}

/// Words that are over go once, however many take them away; one that is tried again in that moment stays, or was gone before.
pub fn what_belongs_to_no_job_goes_once(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    let before = after(900);
    for n in 1..=ROUNDS {
        let letter = |of: u64| OutboxRow {
            id: id(100 * n + of),
            job: job_id(100),
            kind: "webhook",
            body: String::new(),
            created_at: after(1),
        };
        let moved = |of: u64, expected: u32, next_at| OutboxMove {
            id: id(100 * n + of),
            expected,
            tries: expected + 1,
            next_at,
            delivered_at: None,
            error: None,
        };
        let aside = QuarantineRow { job: None, at: after(1), event: "?".to_owned(), error: "it cannot be".to_owned() };
        let outbox = (0..6).map(letter).collect();
        servers.one().commit(&Batch { outbox, quarantine: vec![aside], ..Batch::default() }).expect("a write");
        let over = (0..6).map(|of| moved(of, 0, None)).collect();
        servers.one().commit(&Batch { outbox_moves: over, ..Batch::default() }).expect("a write");
        let again = Batch { outbox_moves: vec![moved(5, 1, Some(after(950)))], ..Batch::default() };
        let outcomes = servers.race(|store, who| match who {
            0 => store.drop_strays(before, 100, None).map(|strays| strays.words),
            _ => store.commit(&again).map(|done| done.outbox_moved.len() as u64),
        });
        let [dropped, missed] = outcomes.map(|outcome| outcome.expect("a race is no error"));
        let is_there = servers.one().reader().outbox(id(100 * n + 5)).expect("a look").is_some();
        assert_eq!(dropped, 5 + missed, "it was gone, or it was kept");
        assert_eq!(is_there, missed == 0);
        let outbox = (10..16).map(letter).collect();
        let over = (10..16).map(|of| moved(of, 0, None)).collect();
        servers.one().commit(&Batch { outbox, ..Batch::default() }).expect("a write");
        servers.one().commit(&Batch { outbox_moves: over, ..Batch::default() }).expect("a write");
        let dropped = servers.race(|store, _| store.drop_strays(before, 4, None).expect("a race is no error").words);
        let left = servers.one().drop_strays(before, 100, None).expect("a write").words;
        assert_eq!(dropped.iter().sum::<u64>() + left, 6, "{dropped:?}");
    }
}

/// One says when a log is to be closed, and how long it is; the other one says so too, without knowing that, or brings its end.
pub fn who_sets_a_logs_deadline_and_who_ends_it_are_both_heard(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        // There is no row yet that both could lock.
        let deadline = |of: u64, who: u64| LogDeadline {
            attempt: attempt_id(of),
            close_at: after(60 + who),
            end_seq: (who == 0).then_some(3),
        };
        let outcomes = servers.commit(|who| Batch { log_deadlines: vec![deadline(n, who)], ..Batch::default() });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let reader = servers.one().reader();
        assert_eq!(reader.log_state(attempt_id(n)).expect("a read").end_seq, Some(3), "who knows it has said it");
        let due = servers.one().due_logs(after(61), 100).expect("a look");
        assert!(due.iter().any(|log| log.attempt == attempt_id(n)), "{due:?}");

        let attempt = attempt_id(1_000 + n);
        let outcomes: [Result<_, StoreError>; 2] = servers.commit(|who| match who {
            0 => Batch { log_deadlines: vec![deadline(1_000 + n, 0)], ..Batch::default() },
            _ => {
                let end =
                    LogAppend { attempt, first_seq: 1, last_seq: 3, blocks: vec![7; 3], missing: 0, complete: true };
                Batch { logs: vec![end], ..Batch::default() }
            }
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let state = reader.log_state(attempt).expect("a read");
        assert_eq!((state.last_seq, state.complete, state.closed), (3, true, false));
        let due = servers.one().due_logs(after(99), 1_000).expect("a look");
        assert!(due.iter().all(|log| log.attempt != attempt), "what is whole is not waited for");
        // The first one is, until it is whole as well.
        let end = LogAppend {
            attempt: attempt_id(n),
            first_seq: 1,
            last_seq: 3,
            blocks: vec![7; 3],
            missing: 0,
            complete: true,
        };
        servers.one().commit(&Batch { logs: vec![end], ..Batch::default() }).expect("a write");
    }
}
