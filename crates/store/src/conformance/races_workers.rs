//! Races about workers: what one server hears of a worker, or is told to do with it, while another one says something else of it.

use engine::{Epoch, Heard};

use super::Fixture;
use super::access::{enrolled, hello};
use super::races::{ROUNDS, Servers};
use super::scene::{FIRST, Life, after, attempt_id, id, plain, worker_id};
use crate::rows::{BeatRole, BeatRow, BreakerRow, FleetChange, LateOutcome, ServerId, WorkerHello, WorkerRow};
use crate::{Batch, Beats, Store};

fn of_worker(store: &mut dyn Store, n: u64) -> WorkerRow {
    store.worker(worker_id(n)).expect("a read").expect("the worker")
}

fn greeting(n: u64, epoch: u64) -> Batch {
    let server = ServerId(id(700 + epoch));
    Batch {
        hellos: vec![WorkerHello { epoch: Epoch(epoch), server, ..hello(n) }],
        now: after(epoch),
        ..Batch::default()
    }
}

/// An operator's word and a hello are both kept, whichever comes first.
pub fn who_drains_or_removes_a_worker_and_who_greets_it_are_both_heard(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    enrolled(servers.one(), 1);
    for n in 1..=ROUNDS {
        let on = n % 2 == 0;
        let outcomes = servers.commit(|who| match who {
            0 => Batch { fleet: vec![FleetChange::Drain { worker: worker_id(1), on }], ..Batch::default() },
            _ => greeting(1, n),
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let row = of_worker(servers.one(), 1);
        assert_eq!((row.draining, row.epoch, row.server), (on, Epoch(n), Some(ServerId(id(700 + n)))));

        let worker = 1 + n;
        enrolled(servers.one(), worker);
        let at = after(900 + n);
        let outcomes = servers.commit(|who| match who {
            0 => Batch { fleet: vec![FleetChange::Remove { worker: worker_id(worker), at }], ..Batch::default() },
            _ => greeting(worker, 1),
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let row = of_worker(servers.one(), worker);
        assert_eq!((row.removed_at, row.epoch), (Some(at), Epoch(1)), "the ledger refuses it, and not the store");
    }
}

/// Both remove it: the first removal stays.
pub fn of_two_who_remove_a_worker_the_first_stays(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        enrolled(servers.one(), n);
        let outcomes = servers.commit(|who| {
            let at = after(100 + who);
            Batch { fleet: vec![FleetChange::Remove { worker: worker_id(n), at }], ..Batch::default() }
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let first = of_worker(servers.one(), n).removed_at;
        assert!([after(100), after(101)].map(Some).contains(&first), "{first:?}");
        let again =
            Batch { fleet: vec![FleetChange::Remove { worker: worker_id(n), at: after(7) }], ..Batch::default() };
        servers.one().commit(&again).expect("a write");
        assert_eq!(of_worker(servers.one(), n).removed_at, first);
    }
}

/// The server that had the link says what became of it while another one has a newer link already: that is what counts.
pub fn an_old_links_last_words_do_not_touch_a_newer_one(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    enrolled(servers.one(), 1);
    servers.one().commit(&greeting(1, 1)).expect("a write");
    for n in 1..=ROUNDS {
        let (worker, old) = (worker_id(1), Epoch(n));
        let outcomes = servers.commit(|who| match who {
            0 => Batch {
                left: vec![(worker, old, Heard(7))],
                unwilling: vec![(worker, old, true)],
                used_epochs: vec![(worker, old)],
                seen: vec![(worker, after(5_000 + n))],
                ..Batch::default()
            },
            _ => greeting(1, n + 1),
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let row = of_worker(servers.one(), 1);
        assert_eq!((row.epoch, row.left_heard, row.unwilling), (Epoch(n + 1), None, false), "the link is there");
        assert_eq!(row.used_epoch, old, "that something was said on the old one stays so");
        assert_eq!(row.server, Some(ServerId(id(700 + n + 1))));
    }
}

/// Evidence of one attempt comes to different servers, and none of it wipes the other.
pub fn two_who_bring_evidence_of_one_attempt_are_both_heard(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let mut life = Life::submit(servers.one(), n, &plain());
        let ticket = life.start(servers.one(), FIRST, n, 1);
        let said = vec![(ticket.attempt, ticket.fence)];
        // It runs, says its worker at one of them, while the other one gives it up.
        let loss = life.clone().change(&engine::Event::Gone {
            ticket,
            epoch: Epoch(1),
            loss: engine::attempt::Loss::RunnerLost,
        });
        let outcomes = servers.race(|store, who| match who {
            0 => store.commit(&Batch { begun: said.clone(), ..Batch::default() }),
            _ => store.commit(&loss.1),
        });
        assert!(outcomes.iter().all(|done| done.as_ref().is_ok_and(|done| done.conflicts.is_empty())), "{outcomes:?}");
        let outcomes = servers.commit(|who| match who {
            0 => Batch { confirmed: said.clone(), begun: said.clone(), ..Batch::default() },
            _ => {
                let late = LateOutcome { attempt: ticket.attempt, outcome: "exited 0".to_owned(), at: after(n) };
                Batch { late_outcomes: vec![late], confirmed: said.clone(), ..Batch::default() }
            }
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let reader = servers.one().reader();
        let glance = reader.attempt(ticket.attempt).expect("a read").expect("the attempt");
        assert!(glance.begun, "whatever became of it");
        let attempt = &reader.attempts(life.job.id).expect("a read")[0];
        assert_eq!((attempt.state.as_str(), attempt.confirmed), ("lost", true));
        assert_eq!(attempt.late_outcome.as_deref(), Some("exited 0"));
    }
}

pub fn of_two_mass_losses_one_is_kept_whole(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let number = u32::try_from(n).expect("few");
        let row = |who: u64| {
            let (tripped_at, lost) = (after(10 * n + who), 10 * number + u32::try_from(who).expect("0 or 1"));
            BreakerRow { tripped_at, lost, connected: lost + 1, ended_at: None }
        };
        let outcomes = servers.commit(|who| Batch { breaker: Some(row(who)), ..Batch::default() });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let kept = servers.one().reader().breaker().expect("a read");
        assert!([row(0), row(1)].map(Some).contains(&kept), "{kept:?}");
        // Both see its end: the first one counts.
        let outcomes = servers.commit(|who| Batch { breaker_ended: Some(after(10 * n + 5 + who)), ..Batch::default() });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let ended = servers.one().reader().breaker().expect("a read").and_then(|row| row.ended_at);
        assert!([after(10 * n + 5), after(10 * n + 6)].map(Some).contains(&ended), "{ended:?}");
    }
}

/// One ends what the other has not told yet: the newer loss is there as it was told, whether that word came before or after.
pub fn who_ends_a_mass_loss_and_who_tells_of_another_are_both_heard(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let row = |time: u64| BreakerRow { tripped_at: after(time), lost: 3, connected: 4, ended_at: None };
        let (older, newer, end) = (row(10 * n), row(10 * n + 1), after(10 * n + 2));
        servers.one().commit(&Batch { breaker: Some(older), ..Batch::default() }).expect("a write");
        let outcomes = servers.commit(|who| match who {
            0 => Batch { breaker_ended: Some(end), ..Batch::default() },
            _ => Batch { breaker: Some(newer), ..Batch::default() },
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let kept = servers.one().reader().breaker().expect("a read").expect("a loss");
        assert_eq!(BreakerRow { ended_at: None, ..kept }, newer);
        assert!([None, Some(end)].contains(&kept.ended_at), "{kept:?}");
    }
}

/// Signs of life of one attempt come to two servers at once: the newest of each sender and role is there.
pub fn two_who_flush_signs_of_life_lose_none(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    let beat = |n: u64, role, first: u64, last: u64| BeatRow {
        attempt: attempt_id(n),
        sender: worker_id(1),
        role,
        hostname: "here".to_owned(),
        pid: 1,
        first_at: after(first),
        last_at: after(last),
        count: 2,
        longest_gap: std::time::Duration::ZERO,
    };
    let flush = |rows| Batch { beats: Beats { rows, silence: std::time::Duration::from_secs(60) }, ..Batch::default() };
    for n in 1..=ROUNDS {
        // In the first round of each attempt there is no row that both could lock.
        for at in [100, 200] {
            let outcomes = servers.commit(|who| {
                let alone = if who == 0 { BeatRole::Runner } else { BeatRole::Claimer };
                let rows =
                    [beat(n, BeatRole::Claimer, at + 10 * who, at + 10 * who + 5), beat(2_000 + n, alone, at, at)];
                // In the other order each.
                flush(if who == 0 { rows.into() } else { rows.into_iter().rev().collect() })
            });
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
            let reader = servers.one().reader();
            let both = reader.beats(attempt_id(n)).expect("a read");
            assert_eq!(both.len(), 1, "{both:?}");
            assert_eq!(both[0].last_at, after(at + 15), "the newest");
            assert!([2, 4].contains(&both[0].count), "of two the older one may count for nothing: {both:?}");
            assert_eq!(reader.beats(attempt_id(2_000 + n)).expect("a read").len(), 2);
        }
    }
}

/// What is old goes while somebody hears of it again: what was heard stays.
pub fn who_prunes_signs_of_life_and_who_flushes_them_wait_for_each_other(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    let beat = |n: u64, at: u64| {
        let (sender, role, hostname) = (worker_id(1), BeatRole::Claimer, "here".to_owned());
        let (first_at, last_at, longest_gap) = (after(at), after(at), std::time::Duration::ZERO);
        let row = BeatRow {
            attempt: attempt_id(n),
            sender,
            role,
            hostname,
            pid: 1,
            first_at,
            last_at,
            count: 1,
            longest_gap,
        };
        Batch { beats: Beats { rows: vec![row], silence: std::time::Duration::from_secs(60) }, ..Batch::default() }
    };
    for n in 1..=ROUNDS {
        for old in [n, 1_000 + n] {
            servers.one().commit(&beat(old, 10)).expect("a write");
        }
        let outcomes = servers.race(|store, who| match who {
            0 => store.prune_beats(after(100), 10, None).map(drop),
            _ => store.commit(&beat(n, 500)).map(drop),
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let reader = servers.one().reader();
        let heard = reader.beats(attempt_id(n)).expect("a read");
        assert_eq!(heard.iter().map(|row| (row.last_at, row.count)).collect::<Vec<_>>(), [(after(500), 1)]);
        assert_eq!(reader.beats(attempt_id(1_000 + n)).expect("a read"), [], "and the other is gone");
        // Two who prune take it away once.
        servers.one().prune_beats(after(600), 10, None).expect("a write");
        for old in 3_000..3_006 {
            servers.one().commit(&beat(old, 10)).expect("a write");
        }
        let pruned = servers.race(|store, _| store.prune_beats(after(100), 3, None).expect("a race is no error"));
        let left = servers.one().prune_beats(after(100), 10, None).expect("a write");
        assert_eq!(pruned.iter().sum::<usize>() + left, 6, "{pruned:?}");
    }
}
