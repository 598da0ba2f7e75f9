//! Work that crosses servers: asked for at one, done by a worker that hangs on another.

use std::time::Duration;

use engine::Event;
use protocol::link::{HeldState, LogHeader, Loss, MissingCause, ServerMessage, WorkerMessage};
use server::ledger::{Command, LinkEvent};

use crate::cluster::Cluster;
use crate::desk::{ONE, exited};
use crate::recovery::held;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_job_submitted_at_one_server_is_offered_by_the_other_and_to_one_worker() {
    let mut cluster = Cluster::new(3);
    let mut fleet = [cluster.desk(1).worker("b", "script", 1), cluster.desk(2).worker("c", "script", 1)];
    let job = cluster.desk(0).submit(ONE);
    cluster.pass(SECOND);
    let offers: Vec<_> = fleet.iter_mut().map(|w| w.take()).collect();
    assert_eq!(offers.iter().flatten().filter(|m| matches!(m, ServerMessage::Offer { .. })).count(), 1, "{offers:?}");
    cluster.desk(0).check(job, "pending: queued");
}

#[test]
fn two_servers_race_for_one_step_and_the_loser_drops_out_alone() {
    let mut cluster = Cluster::new(2);
    let mut first = cluster.desk(0).worker("a", "script", 4);
    let mut second = cluster.desk(1).worker("b", "script", 4);
    let busy: Vec<_> = (0..8).map(|n| cluster.desk(n % 2).submit(ONE)).collect();
    cluster.pass(SECOND * 2);
    let waiting: Vec<_> = (0..4).map(|n| cluster.desk(n % 2).submit(ONE)).collect();
    cluster.pass(SECOND * 2);
    let mut started = Vec::new();
    for (place, mailbox) in [&mut first, &mut second].into_iter().enumerate() {
        for message in mailbox.take() {
            let ServerMessage::Offer { spec, .. } = message else { panic!("an offer, not {message:?}") };
            started.push((place, spec.ticket));
        }
    }
    assert_eq!(started.len(), busy.len());
    // All slots become free at the same moment, on both servers, for the same four steps.
    for (place, ticket) in started {
        let mailbox = [&first, &second][place];
        cluster.desk(place).says(mailbox, vec![WorkerMessage::Accept { ticket }]);
        cluster.desk(place).ends(mailbox, ticket, 0);
    }
    cluster.pass(SECOND * 3);
    let offers =
        |messages: Vec<ServerMessage>| messages.iter().filter(|m| matches!(m, ServerMessage::Offer { .. })).count();
    assert_eq!(offers(first.take()) + offers(second.take()), waiting.len());
    for job in busy {
        cluster.desk(0).check(job, "success: success");
    }
}

#[test]
fn a_cancel_at_one_server_stops_the_step_on_the_other() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    cluster.pass(SECOND);
    let spec = cluster.desk(1).start(&mut w);
    cluster.desk(0).event(job, Event::Cancel { by: "ann".to_owned(), force: false }).expect("it can be cancelled");
    cluster.pass(SECOND);
    assert!(matches!(w.one(), ServerMessage::Stop { ticket, .. } if ticket == spec.ticket));
    cluster.pass(SECOND * 3);
    w.none();
    cluster.desk(1).ends(&w, spec.ticket, 143);
    cluster.desk(0).check(job, "cancelled: cancelled");
    cluster.pass(SECOND);
}

/// The first thing that is seen of it is that it is there at all.
#[test]
fn a_cancel_at_a_server_that_is_just_back_stops_the_step_on_the_other() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(1).submit(ONE);
    let spec = cluster.desk(1).start(&mut w);
    cluster.freeze(0);
    cluster.pass(SECOND * 20);
    cluster.desk(1).heartbeat(&w);
    cluster.thaw(0);
    cluster.desk(0).event(job, Event::Cancel { by: "ann".to_owned(), force: false }).expect("it can be cancelled");
    cluster.pass(SECOND * 3);
    let stopped =
        w.take().iter().any(|said| matches!(said, ServerMessage::Stop { ticket, .. } if *ticket == spec.ticket));
    assert!(stopped, "it is told to stop");
}

#[test]
fn an_offer_is_withdrawn_by_the_server_that_made_it_when_another_cancels_the_job() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    cluster.pass(SECOND);
    let spec = w.offer();
    cluster.desk(0).event(job, Event::Cancel { by: "ann".to_owned(), force: false }).expect("it can be cancelled");
    cluster.pass(SECOND);
    assert_eq!(w.one(), ServerMessage::Withdraw { ticket: spec.ticket });
    let second = cluster.desk(0).submit(ONE);
    cluster.pass(SECOND);
    assert_eq!(w.offer().job, second.0, "its slot is free again");
}

#[test]
fn what_a_worker_says_is_decided_again_when_another_server_was_faster() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(1).submit(ONE);
    let spec = w.offer();
    // The other server has the job in memory as it is before the worker speaks, and writes first.
    cluster.desk(1).says(&w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
    w.go();
    cluster.desk(0).event(job, Event::Cancel { by: "ann".to_owned(), force: false }).expect("it can be cancelled");
    cluster.desk(1).ends(&w, spec.ticket, 0);
    cluster.desk(1).check(job, "cancelled: cancelled");
    assert_eq!(cluster.desk(1).attempts(job)[0].exit_code, Some(0), "its end was not lost");
}

#[test]
fn an_end_is_forgotten_only_when_it_is_on_record() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let ticket = cluster.desk(0).start(&mut w).ticket;
    let log = LogHeader { ticket, first_seq: 1, last_seq: 0, missing: 0, cause: MissingCause::Limit, complete: true };
    cluster.desk(0).log(&w, log, Vec::new());
    w.take();
    // The other server writes the job between the decision and the commit.
    let ended = WorkerMessage::Ended { ticket, end: exited(0) };
    let desk = cluster.desk(0);
    let tick = desk.tick();
    desk.core().begin(vec![Command::Link(LinkEvent::Messages { link: w.link, messages: vec![ended] })], tick);
    assert!(cluster.database.touch(job));
    cluster.desk(0).core().commit();
    cluster.desk(0).check(job, "running: running");
    w.none();
    cluster.desk(0).round(Vec::new());
    cluster.desk(0).check(job, "success: success");
    assert!(matches!(w.one(), ServerMessage::Forget { .. }));
}

#[test]
fn an_end_that_was_not_written_is_not_remembered() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let ticket = cluster.desk(0).start(&mut w).ticket;
    let ended = || WorkerMessage::Ended { ticket, end: exited(0) };
    let desk = cluster.desk(0);
    let tick = desk.tick();
    desk.core().begin(vec![Command::Link(LinkEvent::Messages { link: w.link, messages: vec![ended()] })], tick);
    assert!(cluster.database.touch(job));
    cluster.desk(0).core().commit();
    // It is not decided again.
    assert!(cluster.desk(0).core().take_split().is_some());
    w.take();
    let log = LogHeader { ticket, first_seq: 1, last_seq: 0, missing: 0, cause: MissingCause::Limit, complete: true };
    cluster.desk(0).log(&w, log, Vec::new());
    assert!(w.take().iter().all(|said| !matches!(said, ServerMessage::Forget { .. })));
    cluster.desk(0).says(&w, vec![ended()]);
    cluster.desk(0).check(job, "success: success");
    assert!(w.take().iter().any(|said| matches!(said, ServerMessage::Forget { .. })));
}

#[test]
fn a_no_is_what_the_rows_say_and_not_what_was_in_memory() {
    let gate = "name: gate\nsteps:\n  a: { run: 'true' }\n  b: { needs: [a], approve: { message: ok } }\n";
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(0).submit(gate);
    cluster.pass(SECOND);
    let spec = cluster.desk(1).start(&mut w);
    cluster.desk(1).ends(&w, spec.ticket, 0);
    // No time goes by: the first server has not noticed that the second step is held.
    let approve = Event::Approve { step: engine::StepIx(1), by: "ann".to_owned(), comment: String::new() };
    assert_eq!(cluster.desk(0).event(job, approve), Ok(()));
    cluster.desk(0).check(job, "success: success success");
}

#[test]
fn a_step_that_waits_before_it_is_offered_again_is_offered_by_whoever_has_a_worker() {
    let mut cluster = Cluster::new(3);
    let again = "name: again\nsteps:\n  a: { run: 'false', retry: { attempts: 2, delay: 5s } }\n";
    let mut w = cluster.desk(1).worker("w", "script", 1);
    for _ in 0..3 {
        let job = cluster.desk(0).submit(again);
        cluster.pass(SECOND);
        let spec = cluster.desk(1).start(&mut w);
        cluster.desk(1).ends(&w, spec.ticket, 1);
        w.take();
        cluster.pass(SECOND * 9);
        let spec = cluster.desk(1).start(&mut w);
        cluster.desk(1).ends(&w, spec.ticket, 0);
        w.take();
        cluster.desk(0).check(job, "success: success");
    }
}

#[test]
fn a_step_that_never_started_is_offered_again_by_its_server_whoever_sees_to_its_timer() {
    let mut cluster = Cluster::new(3);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    // Enough jobs that some are the others' to see to.
    for _ in 0..6 {
        let job = cluster.desk(0).submit(ONE);
        let lost = cluster.desk(0).start(&mut w).ticket;
        let void = WorkerMessage::Lost { ticket: lost, loss: Loss::Void, detail: String::new() };
        cluster.desk(0).says(&w, vec![void]);
        w.take();
        cluster.pass(SECOND * 10);
        let spec = cluster.desk(0).start(&mut w);
        assert!(spec.job == job.0 && spec.ticket != lost);
        cluster.desk(0).ends(&w, spec.ticket, 0);
        w.take();
    }
}

#[test]
fn a_start_that_one_server_heard_cannot_be_unsaid_to_another() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    cluster.desk(0).says(&w, vec![WorkerMessage::Started { ticket: spec.ticket, pid: 7 }]);
    cluster.pass(SECOND * 2);
    cluster.desk(0).hang_up(&w);
    let w = cluster.desk(1).connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Waiting)]);
    let void = WorkerMessage::Lost { ticket: spec.ticket, loss: Loss::Void, detail: String::new() };
    cluster.desk(1).says(&w, vec![void]);
    cluster.desk(1).check(job, "failed: failed");
}

#[test]
fn nobody_takes_a_step_for_unmatched_while_a_siblings_worker_could_run_it() {
    let mut cluster = Cluster::new(3);
    let mut w = cluster.desk(2).worker("w", "script", 1);
    let first = cluster.desk(0).submit(ONE);
    cluster.pass(SECOND);
    cluster.desk(2).start(&mut w);
    let second = cluster.desk(1).submit(ONE);
    cluster.pass(SECOND * 90);
    cluster.desk(0).check(first, "running: running");
    cluster.desk(0).check(second, "pending: queued");
}

#[test]
fn a_later_attempt_has_a_higher_fence_whichever_server_offers_it() {
    let mut cluster = Cluster::new(2);
    let mut early = cluster.desk(1).worker("early", "script", 1);
    // The second server has taken fences before the first one does.
    cluster.desk(1).submit(ONE);
    cluster.desk(1).start(&mut early);
    let mut first = cluster.desk(0).worker("first", "script", 1);
    cluster.desk(0).submit(ONE);
    cluster.pass(SECOND);
    let offered = first.offer();
    let mut second = cluster.desk(1).worker("second", "script", 1);
    cluster.desk(0).hang_up(&first);
    cluster.pass(SECOND * 3);
    let again = second.offer();
    assert_eq!(again.job, offered.job);
    assert!(again.ticket.fence > offered.ticket.fence, "{} and then {}", offered.ticket.fence, again.ticket.fence);
}
