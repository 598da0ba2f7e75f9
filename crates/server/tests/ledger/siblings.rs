//! Several servers on one database: what one's start, pause and death mean for the others, and for the workers.

use std::time::Duration;

use engine::{Event, JobId};
use protocol::attempt::Ticket;
use protocol::link::{Heartbeat, Hello, RefusedCode, VerdictKind, WorkerMessage};
use server::ledger::FleetOrder;
use store::Store;
use uuid::Uuid;

use crate::cluster::{Cluster, running};
use crate::desk::{ONE, hello};

const SECOND: Duration = Duration::from_secs(1);

const HELD: &str = "name: held\nsteps:\n  a: { approve: { message: go on? } }\n";

/// As long as it takes until a server without marks is taken for dead, and a little longer.
const MISSED: Duration = Duration::from_secs(13);

#[test]
fn a_start_beside_a_living_server_changes_nothing() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    cluster.desk(0).start(&mut w);
    let before = cluster.desk(0).reader.hearing().expect("a read").expect("a mark");
    for _ in 0..3 {
        let place = cluster.start();
        cluster.desk(place).check(job, "running: running");
        cluster.pass(SECOND * 5);
        cluster.kill(place);
    }
    cluster.pass(SECOND * 300);
    cluster.desk(0).check(job, "running: running");
    let after = cluster.desk(0).reader.hearing().expect("a read").expect("a mark");
    assert_eq!((after.deaf_us, after.stretch_from), (before.deaf_us, before.stretch_from), "nobody was ever deaf");
    w.none();
}

#[test]
fn a_dead_servers_links_are_lost_once_and_the_window_begins_with_its_last_mark() {
    let mut cluster = Cluster::new(3);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    cluster.desk(0).start(&mut w);
    cluster.kill(0);
    let killed = cluster.now;
    cluster.pass(SECOND * 5);
    cluster.desk(1).check(job, "running: running");
    cluster.pass(MISSED - SECOND * 5);
    cluster.desk(1).check(job, "recovering: recovering");
    let lost = |cluster: &mut Cluster| {
        let events = cluster.desk(1).events(job);
        events.iter().filter(|e| e.to.as_deref() == Some("recovering") && e.kind == "step").count()
    };
    assert_eq!(lost(&mut cluster), 1);
    while cluster.desk(1).seen(job).job == "recovering" {
        cluster.pass(SECOND / 10);
    }
    cluster.desk(1).check(job, "failed: failed");
    let took = cluster.now.since(killed);
    assert!(took > SECOND * 117 && took < SECOND * 121, "its window and a second: {took:?}");
    assert_eq!(lost(&mut cluster), 1);
}

#[test]
fn a_worker_whose_server_died_goes_on_at_another() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    cluster.kill(0);
    // Before anybody has noticed, and after.
    for wait in [SECOND, MISSED] {
        cluster.pass(wait);
        let back = cluster.desk(1).connect(w.worker, "w", "script", 1, vec![running(&spec)]);
        assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Continue);
        cluster.desk(1).check(job, "running: running");
        cluster.desk(1).hang_up(&back);
    }
    let back = cluster.desk(1).connect(w.worker, "w", "script", 1, vec![running(&spec)]);
    cluster.desk(1).ends(&back, spec.ticket, 0);
    cluster.desk(1).check(job, "success: success");
}

#[test]
fn the_end_of_a_link_on_one_server_does_not_hurt_the_newer_one_on_another() {
    let mut cluster = Cluster::new(2);
    let mut old = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut old);
    let new = cluster.desk(1).connect(old.worker, "w", "script", 1, vec![running(&spec)]);
    assert!(new.welcome.epoch > old.welcome.epoch);
    cluster.desk(0).hang_up(&old);
    cluster.desk(1).check(job, "running: running");
    let row = cluster.desk(0).reader.workers().expect("a read").remove(0);
    assert_eq!(row.left_heard, None, "it is there");
    cluster.pass(SECOND * 200);
    cluster.desk(1).check(job, "running: running");
    cluster.desk(1).ends(&new, spec.ticket, 0);
    cluster.desk(1).check(job, "success: success");
}

#[test]
fn a_server_lets_go_of_a_link_that_another_one_has() {
    let mut cluster = Cluster::new(2);
    let mut old = cluster.desk(0).worker("w", "script", 1);
    cluster.desk(1).connect(old.worker, "w", "script", 1, Vec::new());
    cluster.pass(SECOND * 3);
    old.take();
    assert!(old.closed);
    let roster_has_link = |cluster: &mut Cluster, place: usize| {
        cluster.desk(place).core().roster().get(old.worker).expect("known").link.is_some()
    };
    assert!(!roster_has_link(&mut cluster, 0) && roster_has_link(&mut cluster, 1));
    assert!(cluster.desk(0).core().roster().get(old.worker).expect("known").is_connected());
}

#[test]
fn a_server_that_was_frozen_hurts_nobody_when_it_wakes() {
    let mut cluster = Cluster::new(2);
    let mut kept = cluster.desk(0).worker("kept", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut kept);
    cluster.desk(0).heartbeat(&kept);
    cluster.freeze(0);
    cluster.pass(SECOND * 600);
    cluster.desk(1).check(job, "failed: failed");
    let hearing = |cluster: &mut Cluster| cluster.desk(1).reader.hearing().expect("a read").expect("a mark").deaf_us;
    assert_eq!(hearing(&mut cluster), 0);
    let second = cluster.desk(1).submit(ONE);
    let mut other = cluster.desk(1).worker("other", "script", 1);
    cluster.desk(1).start(&mut other);
    cluster.thaw(0);
    cluster.pass(SECOND * 5);
    assert_eq!(hearing(&mut cluster), 0, "the others heard all the time");
    cluster.desk(1).check(second, "running: running");
    kept.take();
    assert!(kept.closed, "its link was taken for lost");
    let back = cluster.desk(0).connect(kept.worker, "kept", "script", 1, vec![running(&spec)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Finish);
}

#[test]
fn a_server_that_is_back_keeps_the_link_of_a_worker_that_came_to_it_at_once() {
    let mut cluster = Cluster::new(3);
    cluster.freeze(0);
    cluster.pass(SECOND * 600);
    // To the others it is dead.
    let moved = cluster.desk(1).submit(HELD);
    cluster.pass(SECOND * 3);
    cluster.thaw(0);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    cluster.desk(0).start(&mut w);
    cluster.desk(0).check(job, "running: running");
    // Two decide on the same job: the slower one looks around, before it is its time to look who is there.
    let cancel = || Event::Cancel { by: "ann".to_owned(), force: false };
    cluster.desk(2).event(moved, cancel()).expect("it can be cancelled");
    cluster.desk(1).event(moved, cancel()).expect_err("it is over");
    cluster.desk(1).check(job, "running: running");
    cluster.pass(SECOND * 5);
    cluster.desk(1).check(job, "running: running");
    w.none();
}

#[test]
fn a_short_freeze_costs_a_servers_own_links_nothing() {
    let mut cluster = Cluster::new(2);
    cluster.desk(0).configure(|_| {});
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    cluster.desk(0).start(&mut w);
    cluster.freeze(0);
    cluster.pass(SECOND * 7);
    cluster.thaw(0);
    cluster.pass(SECOND * 30);
    cluster.desk(0).check(job, "running: running");
    w.none();
    assert!(!w.closed);
}

#[test]
fn a_second_process_waits_until_the_other_server_has_found_out_about_the_first() {
    let mut cluster = Cluster::new(2);
    let first = cluster.desk(0).worker("w", "script", 1);
    let other = |last_epoch| protocol::link::Hello {
        session: Uuid::from_u128(99),
        last_epoch,
        ..hello("w", "script", 1, Vec::new())
    };
    let mut visitor = cluster.desk(1).knock(first.worker, other(first.welcome.epoch));
    cluster.pass(SECOND * 5);
    assert_eq!(visitor.refused(), None, "it waits");
    cluster.desk(0).hang_up(&first);
    cluster.pass(SECOND * 3);
    let second = visitor.welcomed();
    // The first one is back meanwhile, at the server that it came from: the second one answers.
    let mut late = cluster.desk(0).knock(first.worker, hello("w", "script", 1, Vec::new()));
    cluster.pass(SECOND * 60);
    assert_eq!(late.refused().map(|(code, _)| code), Some(RefusedCode::DuplicateIdentity));
    let third = cluster.desk(1).knock(second.worker, other(second.welcome.epoch)).welcomed();
    assert!(third.welcome.epoch > second.welcome.epoch, "its own process may come again at once");
}

#[test]
fn an_orderly_stop_leaves_workers_their_whole_window() {
    let mut desk = crate::desk::Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.pass(SECOND * 600);
    desk.heartbeat(&w);
    desk.core().leave().expect("the database is there");
    desk.down(SECOND * 5);
    desk.check(job, "recovering: recovering");
    desk.pass(SECOND * 115);
    desk.check(job, "recovering: recovering");
    desk.pass(SECOND * 15);
    desk.check(job, "failed: failed");
}

/// It may not judge itself yet: who may is given the time to.
#[test]
fn a_start_beside_a_living_server_puts_no_verdict_off() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 4);
    let jobs = [(); 4].map(|()| {
        let job = cluster.desk(0).submit(ONE);
        cluster.desk(0).start(&mut w);
        job
    });
    cluster.desk(0).hang_up(&w);
    cluster.pass(SECOND * 100);
    cluster.start();
    cluster.start();
    cluster.pass(SECOND * 19);
    jobs.iter().for_each(|job| cluster.desk(0).check(*job, "recovering: recovering"));
    cluster.pass(SECOND * 7);
    jobs.iter().for_each(|job| cluster.desk(0).check(*job, "failed: failed"));
}

/// Each would put it off until it may judge itself. The one that woke last is the first to look.
#[test]
fn where_nobody_may_judge_yet_a_verdict_is_put_off_until_the_first_one_may() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 4);
    let jobs = [(); 4].map(|()| {
        let job = cluster.desk(1).submit(ONE);
        cluster.desk(1).start(&mut w);
        job
    });
    cluster.desk(1).hang_up(&w);
    cluster.pass(SECOND * 60);
    cluster.freeze(0);
    cluster.pass(SECOND * 2);
    let first = cluster.start();
    cluster.pass(SECOND * 38);
    cluster.thaw(0);
    cluster.pass(SECOND * 5);
    cluster.kill(1);
    cluster.pass(SECOND * 40);
    jobs.iter().for_each(|job| cluster.desk(first).check(*job, "recovering: recovering"));
    cluster.pass(SECOND * 15);
    jobs.iter().for_each(|job| cluster.desk(first).check(*job, "failed: failed"));
}

/// The installation was deaf, and one of its servers for longer: what it has to listen for is its own affair.
#[test]
fn one_that_slept_for_longer_puts_no_verdict_off_for_those_who_listen() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 4);
    let jobs = [(); 4].map(|()| {
        let job = cluster.desk(0).submit(ONE);
        cluster.desk(0).start(&mut w);
        job
    });
    cluster.desk(0).hang_up(&w);
    cluster.pass(SECOND * 60);
    cluster.freeze(0);
    let other = cluster.start();
    cluster.pass(SECOND * 50);
    cluster.thaw(0);
    cluster.pass(SECOND * 35);
    jobs.iter().for_each(|job| cluster.desk(other).check(*job, "recovering: recovering"));
    cluster.pass(SECOND * 15);
    jobs.iter().for_each(|job| cluster.desk(other).check(*job, "failed: failed"));
}

/// By the clock that it finds the others have been silent for an hour.
#[test]
fn a_start_with_a_clock_that_was_set_takes_no_living_server_for_dead() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    cluster.desk(0).start(&mut w);
    let _other = crate::desk::Desk::beside(cluster.database.open(), cluster.now + SECOND * 3_600, 9);
    cluster.desk(0).check(job, "running: running");
    cluster.pass(SECOND * 5);
    cluster.desk(0).check(job, "running: running");
    w.none();
    assert!(!w.closed);
}

/// A clock that was set is followed slowly, but one that starts takes it as it is.
#[test]
fn the_installations_time_is_that_of_the_server_that_has_got_furthest() {
    let mut cluster = Cluster::new(1);
    let hour = SECOND * 3_600;
    let heard = |cluster: &mut Cluster| {
        let now = cluster.desk(0).core().now();
        cluster.desk(0).reader.hearing().expect("a read").expect("a mark").clocks(now).heard
    };
    let before = heard(&mut cluster);
    let ahead = cluster.now + hour;
    let _other = crate::desk::Desk::beside(cluster.database.open(), ahead, 9);
    cluster.pass(SECOND * 3);
    assert!(cluster.desk(0).core().now() >= ahead);
    // The hour was not heard by anybody, and counts for nobody's silence.
    assert!(heard(&mut cluster).since(before) < SECOND * 10);
}

#[test]
fn the_logs_of_a_worker_that_another_server_removed_are_closed() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 6);
    let mut start = || {
        cluster.desk(0).submit(ONE);
        cluster.desk(0).start(&mut w).ticket
    };
    let tickets: Vec<Ticket> = (0..6).map(|_| start()).collect();
    cluster.pass(SECOND * 3);
    let order = FleetOrder::Remove { worker: w.worker, by: "ann".to_owned() };
    cluster.desk(1).order(order).expect("it is known there");
    cluster.pass(SECOND);
    cluster.desk(0).hang_up(&w);
    cluster.pass(SECOND * 300);
    for ticket in tickets {
        let log = cluster.desk(0).log_state(ticket);
        assert!(log.complete && log.closed, "each is one server's to close: {log:?}");
    }
}

#[test]
fn who_left_while_a_server_was_frozen_is_not_taken_for_connected() {
    let mut cluster = Cluster::new(2);
    let w = cluster.desk(0).worker("w", "script", 1);
    cluster.pass(SECOND * 3);
    let is_connected =
        |cluster: &mut Cluster| cluster.desk(1).core().roster().get(w.worker).expect("known").is_connected();
    assert!(is_connected(&mut cluster));
    cluster.freeze(1);
    cluster.desk(0).hang_up(&w);
    cluster.pass(SECOND * 600);
    cluster.thaw(1);
    cluster.pass(SECOND * 5);
    assert!(!is_connected(&mut cluster), "its window was over before this server looked");
}

/// It drained when this server last looked, and has come and gone at another one since: it may come back as it is now.
#[test]
fn who_has_drained_in_an_earlier_life_is_waited_for_in_its_window() {
    let mut cluster = Cluster::new(2);
    let w = cluster.desk(0).worker("w", "script", 1);
    let drains = Heartbeat { processed: 0, held: Vec::new(), free: 1, ahead: 0, draining: true, runners: Vec::new() };
    cluster.desk(0).says(&w, vec![WorkerMessage::Heartbeat(drains)]);
    cluster.pass(SECOND * 3);
    cluster.desk(0).hang_up(&w);
    cluster.pass(SECOND * 3);
    let again = cluster.desk(0).connect(w.worker, "w", "script", 1, Vec::new());
    cluster.desk(0).hang_up(&again);
    let jobs: Vec<JobId> = (0..4).map(|_| cluster.desk(1).submit(ONE)).collect();
    cluster.pass(SECOND * 60);
    for job in jobs {
        cluster.desk(1).check(job, "pending: queued");
    }
}

/// The only worker that could run it was there until just now.
#[test]
fn a_caretaker_in_the_place_of_a_worker_fails_no_step_at_once() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    cluster.desk(0).submit(ONE);
    let runs = cluster.desk(0).start(&mut w);
    let waits = cluster.desk(0).submit(ONE);
    // It is looked at again before its patience is over.
    cluster.pass(SECOND * 45);
    cluster.desk(0).hang_up(&w);
    let last_epoch = w.welcome.epoch;
    let comes = Hello { last_epoch, caretaker: true, ..hello("w", "script", 1, vec![running(&runs)]) };
    cluster.desk(0).knock(w.worker, comes).welcomed();
    cluster.pass(SECOND * 25);
    cluster.desk(0).check(waits, "pending: queued");
    cluster.pass(SECOND * 35);
    cluster.desk(0).check(waits, "failed: failed");
}

/// A server that was not heard for long still has the link of a worker that another one has deleted meanwhile for its absence.
#[test]
fn a_link_of_a_worker_that_is_not_on_record_any_more_ends() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    cluster.freeze(0);
    cluster.pass(Duration::from_secs(60));
    let (mut store, now) = (cluster.database.open(), cluster.now);
    assert!(store.depart(w.worker, now, now, None).expect("a write"), "by the rows it has no link");
    cluster.thaw(0);
    cluster.pass(Duration::from_secs(3));
    w.take();
    assert!(w.closed, "it is to come again, and is told then");
}
