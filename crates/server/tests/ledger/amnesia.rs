//! Commits that are gone: nothing unsafe starts until workers have said what they have, and what they have is adopted.

use std::time::Duration;

use protocol::attempt::AttemptSpec;
use protocol::link::{
    Heartbeat, HeldAttempt, HeldState, Hello, Kept, Loss, RefusedCode, ServerMessage, VerdictKind, WorkerMessage,
};

use server::ledger::Commit;

use crate::cluster::Cluster;
use crate::desk::{Mailbox, ONE, hello};

const SECOND: Duration = Duration::from_secs(1);
const READS: &str = "name: reads\nsteps:\n  a: { run: 'true', effects: none }\n";
const CHAIN: &str = "name: chain\nsteps:\n  a: { run: 'true' }\n  b: { run: 'true', needs: [a] }\n";
const FAN: &str =
    "name: fan\nsteps:\n  a: { run: 'true' }\n  each: { needs: [a], for_each: [x, y], run: 'echo {{ item }}' }\n";
const FAN_APART: &str = "name: fan\nsteps:\n  a: { run: 'true', tags: [first] }\n  each: { needs: [a], for_each: [x, y], tags: [then], run: 'echo {{ item }}' }\n";
const HELD: &str = "name: held\nsteps:\n  a: { approve: { message: go on?, expires: 30s } }\n";

fn held(spec: &AttemptSpec, state: HeldState) -> HeldAttempt {
    HeldAttempt {
        ticket: spec.ticket,
        job: spec.job,
        step: spec.step.clone(),
        state,
        log_first_seq: 0,
        log_last_seq: 0,
        events: 0,
        unsure: false,
    }
}

fn heartbeat(spec: &AttemptSpec) -> WorkerMessage {
    let held = vec![spec.ticket];
    WorkerMessage::Heartbeat(Heartbeat { processed: 9, held, free: 0, ahead: 0, draining: false, runners: Vec::new() })
}

/// The worker comes again, with what it has.
fn again(cluster: &mut Cluster, w: &Mailbox, name: &str, slots: u32, held: Vec<HeldAttempt>) -> Mailbox {
    let last_epoch = w.welcome.epoch;
    cluster.desk(0).knock(w.worker, Hello { last_epoch, ..hello(name, "script", slots, held) }).welcomed()
}

/// A job that was offered and started, and a database that knows only that it is queued.
fn started_and_forgotten(cluster: &mut Cluster, w: &mut Mailbox) -> (engine::JobId, AttemptSpec) {
    let job = cluster.desk(0).submit(ONE);
    let before = cluster.database.commits();
    let spec = cluster.desk(0).start(w);
    let lost = cluster.database.commits() - before;
    assert_eq!(cluster.database.forget_last(lost), lost);
    (job, spec)
}

#[test]
fn a_started_step_that_is_not_on_record_is_adopted_and_its_end_counts() {
    for state in [HeldState::Running, HeldState::Ended] {
        let mut cluster = Cluster::new(1);
        let mut w = cluster.desk(0).worker("w", "script", 1);
        let (job, spec) = started_and_forgotten(&mut cluster, &mut w);
        // Another server on what is left of the database.
        cluster.kill(0);
        let place = cluster.start();
        cluster.pass(SECOND * 20);
        let last_epoch = w.welcome.epoch + 1;
        let hello = Hello { last_epoch, ..hello("w", "script", 1, vec![held(&spec, state)]) };
        let back = cluster.desk(place).knock(w.worker, hello).welcomed();
        let expected = if state == HeldState::Ended { VerdictKind::SendResult } else { VerdictKind::Continue };
        assert_eq!(back.welcome.verdicts[0].verdict, expected);
        cluster.desk(place).check(job, "running: running");
        cluster.desk(place).ends(&back, spec.ticket, 0);
        cluster.desk(place).check(job, "success: success");
    }
}

/// The list that an item belongs to is gone with the commits. It is made again, and the item is not run again.
#[test]
fn an_item_whose_list_is_not_on_record_is_waited_for_and_adopted() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(FAN);
    let first = cluster.desk(0).start(&mut w);
    let before = cluster.database.commits();
    cluster.desk(0).ends(&w, first.ticket, 0);
    let item = cluster.desk(0).start(&mut w);
    assert_eq!(item.step, "each[0]");
    let lost = cluster.database.commits() - before;
    assert_eq!(cluster.database.forget_last(lost), lost);
    cluster.kill(0);
    let place = cluster.start();
    cluster.pass(SECOND * 20);
    let brings = vec![held(&first, HeldState::Ended), held(&item, HeldState::Running)];
    let last_epoch = w.welcome.epoch + 1;
    let hello = Hello { last_epoch, ..hello("w", "script", 1, brings) };
    let mut back = cluster.desk(place).knock(w.worker, hello.clone()).welcomed();
    cluster.desk(place).check(job, "running: running pending");
    cluster.desk(place).ends(&back, first.ticket, 0);
    cluster.desk(place).check(job, "running: success running running queued");
    back.take();
    assert!(back.closed, "it is asked, since it may have put it away by now");
    cluster.desk(place).hang_up(&back);
    let hello = Hello { last_epoch: back.welcome.epoch, held: vec![held(&item, HeldState::Ended)], ..hello };
    let back = cluster.desk(place).knock(w.worker, hello).welcomed();
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::SendResult);
    cluster.desk(place).ends(&back, item.ticket, 0);
    let attempts = cluster.desk(place).attempts(job);
    assert_eq!(attempts.iter().filter(|attempt| attempt.id.0 == item.ticket.attempt).count(), 1);
}

#[test]
fn what_may_never_have_started_is_adopted_only_where_commits_are_known_to_be_lost() {
    for loss_is_known in [false, true] {
        let mut cluster = Cluster::new(1);
        let mut w = cluster.desk(0).worker("w", "script", 1);
        let job = cluster.desk(0).submit(ONE);
        let spec = w.offer();
        // It leaves with the offer in hand; the offer is taken back, and nobody keeps it on record.
        cluster.desk(0).hang_up(&w);
        let last_epoch = w.welcome.epoch + u64::from(loss_is_known);
        let unsure = HeldAttempt { unsure: true, ..held(&spec, HeldState::Running) };
        let back = Hello { last_epoch, ..hello("w", "script", 1, vec![unsure]) };
        let mut back = cluster.desk(0).knock(w.worker, back).welcomed();
        if loss_is_known {
            assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Continue);
            cluster.desk(0).check(job, "running: running");
        } else {
            assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Finish);
            cluster.desk(0).check(job, "pending: queued");
            back.none();
        }
    }
}

#[test]
fn a_server_that_remembers_more_than_the_rows_asks_everyone_and_starts_nothing_unsafe_meanwhile() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let (job, spec) = started_and_forgotten(&mut cluster, &mut w);
    let mut other = cluster.desk(0).worker("other", "script", 2);
    cluster.pass(SECOND * 3);
    for mailbox in [&mut w, &mut other] {
        mailbox.take();
        assert!(mailbox.closed, "it is asked to come again");
    }
    // Whoever comes first is not given the step that the other one has started.
    let mut other = again(&mut cluster, &other, "other", 2, Vec::new());
    cluster.pass(SECOND * 5);
    other.none();
    // What only reads may start.
    let reads = cluster.desk(0).submit(READS);
    assert_eq!(other.offer().job, reads.0);
    let next = cluster.desk(0).submit(ONE);
    other.none();
    let back = again(&mut cluster, &w, "w", 1, vec![held(&spec, HeldState::Running)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Continue);
    cluster.desk(0).check(job, "running: running");
    // All have reported.
    cluster.pass(SECOND * 3);
    assert_eq!(other.offer().job, next.0);
    cluster.desk(0).ends(&back, spec.ticket, 0);
    cluster.desk(0).check(job, "success: success");
}

/// It was enrolled in the time that is lost: nobody knows it when it comes again, and it has what it has.
#[test]
fn a_worker_whose_enrolment_is_lost_is_waited_for() {
    let mut cluster = Cluster::new(1);
    let mut other = cluster.desk(0).worker("other", "script", 1);
    let job = cluster.desk(0).submit("name: one\nsteps:\n  a: { run: 'true', tags: [late] }\n");
    let submitted = cluster.database.commits();
    let mut late = cluster.desk(0).worker("late", "script late", 1);
    cluster.desk(0).start(&mut late);
    forget_since(&cluster, submitted);
    cluster.pass(SECOND * 3);
    other.take();
    assert!(other.closed, "it is asked to come again");
    let mut other = cluster
        .desk(0)
        .knock(other.worker, Hello { last_epoch: other.welcome.epoch, ..hello("other", "script late", 1, Vec::new()) })
        .welcomed();
    cluster.pass(SECOND * 30);
    other.none();
    cluster.desk(0).check(job, "pending: queued");
}

/// It may have what it could not read: nobody has reported who says so.
#[test]
fn a_worker_that_could_not_look_everywhere_has_not_reported() {
    let mut cluster = Cluster::new(2);
    let other = cluster.desk(1).enrol("other");
    let mut w = cluster.desk(0).worker("w", "script", 2);
    started_and_forgotten(&mut cluster, &mut w);
    cluster.pass(SECOND * 3);
    let comes = |last_epoch, scan_complete| Hello {
        last_epoch,
        scan_complete,
        kept: Some(Kept::Recalled),
        ..hello("w", "script", 2, Vec::new())
    };
    let mut back = cluster.desk(0).knock(w.worker, comes(w.welcome.epoch, false)).welcomed();
    let mut other = cluster.desk(1).connect(other, "other", "script", 1, Vec::new());
    cluster.pass(SECOND * 60);
    back.none();
    other.none();
    cluster.desk(0).hang_up(&back);
    cluster.desk(1).hang_up(&other);
    let mut whole = cluster.desk(0).knock(w.worker, comes(back.welcome.epoch, true)).welcomed();
    cluster.pass(SECOND * 3);
    whole.offer();
}

#[test]
fn an_end_that_comes_before_the_loss_is_noticed_is_not_thrown_away() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let (job, spec) = started_and_forgotten(&mut cluster, &mut w);
    cluster.desk(0).ends(&w, spec.ticket, 0);
    let mail = w.take();
    assert!(
        !mail.iter().any(|m| matches!(m, ServerMessage::StaleDispatch { .. } | ServerMessage::Forget { .. })),
        "{mail:?}"
    );
    let back = again(&mut cluster, &w, "w", 1, vec![held(&spec, HeldState::Ended)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::SendResult);
    cluster.desk(0).ends(&back, spec.ticket, 0);
    cluster.desk(0).check(job, "success: success");
}

#[test]
fn after_a_window_it_is_over() {
    let mut cluster = Cluster::new(1);
    let w = cluster.desk(0).worker("w", "script", 2);
    cluster.desk(0).worker("gone", "other", 2);
    let far = Hello { last_epoch: 99, ..hello("w", "script", 2, Vec::new()) };
    let mut back = cluster.desk(0).knock(w.worker, far).welcomed();
    assert!(back.welcome.epoch > 99);
    cluster.desk(0).submit(ONE);
    cluster.pass(SECOND * 60);
    back.none();
    cluster.pass(SECOND * 62);
    back.offer();
}

/// Loses what was committed since there were so many transactions.
fn forget_since(cluster: &Cluster, commits: u64) {
    cluster.database.forget_last(cluster.database.commits() - commits);
}

#[test]
fn a_step_is_adopted_though_the_end_of_what_it_needs_is_not_on_record() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 2);
    let job = cluster.desk(0).submit(CHAIN);
    let first = cluster.desk(0).start(&mut w);
    let before = cluster.database.commits();
    cluster.desk(0).ends(&w, first.ticket, 0);
    let second = cluster.desk(0).start(&mut w);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    // The end of the first is in its folder as well: the server had not all of its log.
    let brings = vec![held(&first, HeldState::Ended), held(&second, HeldState::Running)];
    let back = again(&mut cluster, &w, "w", 2, brings);
    let verdicts: Vec<VerdictKind> = back.welcome.verdicts.iter().map(|v| v.verdict).collect();
    assert_eq!(verdicts, [VerdictKind::SendResult, VerdictKind::Continue]);
    cluster.desk(0).check(job, "running: running running");
    cluster.desk(0).ends(&back, first.ticket, 0);
    cluster.desk(0).ends(&back, second.ticket, 0);
    cluster.desk(0).check(job, "success: success success");
}

#[test]
fn a_later_attempt_is_adopted_though_the_rows_believe_in_an_earlier_one() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(READS);
    let first = cluster.desk(0).start(&mut w);
    let before = cluster.database.commits();
    // The worker lost it, and was given it once more.
    let mut w = again(&mut cluster, &w, "w", 1, Vec::new());
    let second = cluster.desk(0).start(&mut w);
    assert_ne!(first.ticket, second.ticket);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    let mut back = again(&mut cluster, &w, "w", 1, vec![held(&second, HeldState::Running)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Continue);
    cluster.pass(SECOND * 3);
    back.none();
    cluster.desk(0).ends(&back, second.ticket, 0);
    cluster.desk(0).check(job, "success: success");
}

#[test]
fn what_nobody_knows_any_more_is_put_away_when_it_is_over() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let before = cluster.database.commits();
    cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    let mut back = again(&mut cluster, &w, "w", 1, vec![held(&spec, HeldState::Running)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Finish);
    assert_eq!(cluster.desk(0).core().census().strays, 1, "it takes a slot");
    cluster.desk(0).ends(&back, spec.ticket, 0);
    let mail = back.take();
    assert!(
        mail.iter().any(|m| matches!(m, ServerMessage::Forget { ticket, .. } if *ticket == spec.ticket)),
        "{mail:?}"
    );
    assert_eq!(cluster.desk(0).core().census().strays, 0);
    // Word of that may not have come.
    let back = again(&mut cluster, &back, "w", 1, vec![held(&spec, HeldState::Ended)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Forget);
}

#[test]
fn nobody_is_judged_for_the_time_that_is_not_on_record() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    cluster.desk(0).hang_up(&w);
    cluster.desk(0).check(job, "recovering: recovering");
    let before = cluster.database.commits();
    cluster.pass(SECOND * 10);
    let w = again(&mut cluster, &w, "w", 1, vec![held(&spec, HeldState::Running)]);
    for _ in 0..30 {
        cluster.pass(SECOND * 10);
        cluster.desk(0).says(&w, vec![heartbeat(&spec)]);
    }
    cluster.desk(0).check(job, "running: running");
    // By the rows it has been cut off for five minutes, and it was here all the while.
    forget_since(&cluster, before);
    cluster.desk(0).ends(&w, spec.ticket, 0);
    cluster.pass(SECOND * 5);
    cluster.desk(0).check(job, "recovering: recovering");
    let back = again(&mut cluster, &w, "w", 1, vec![held(&spec, HeldState::Ended)]);
    cluster.desk(0).ends(&back, spec.ticket, 0);
    cluster.desk(0).check(job, "success: success");
}

#[test]
fn what_is_due_by_the_rows_that_are_left_is_looked_at_soon() {
    let mut cluster = Cluster::new(1);
    cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(HELD);
    let before = cluster.database.commits();
    cluster.pass(SECOND * 31);
    cluster.desk(0).check(job, "cancelled: cancelled");
    forget_since(&cluster, before);
    cluster.pass(SECOND * 5);
    cluster.desk(0).check(job, "cancelled: cancelled");
}

#[test]
fn what_a_worker_has_is_adopted_before_its_step_is_skipped_for_what_it_does_not_have() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 2);
    let job = cluster.desk(0).submit(CHAIN);
    let first = cluster.desk(0).start(&mut w);
    let before = cluster.database.commits();
    cluster.desk(0).ends(&w, first.ticket, 0);
    let second = cluster.desk(0).start(&mut w);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    // The server had said that it has all of the first.
    let back = again(&mut cluster, &w, "w", 2, vec![held(&second, HeldState::Running)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Continue);
    cluster.desk(0).check(job, "running: failed running");
}

/// Others write on: the last event is not behind for long, and means another one.
#[test]
fn a_loss_is_noticed_though_another_server_has_written_more_since() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    started_and_forgotten(&mut cluster, &mut w);
    for _ in 0..5 {
        cluster.desk(1).submit(HELD);
    }
    cluster.pass(SECOND);
    w.take();
    assert!(w.closed, "it is asked to come again");
}

/// The same where this server has changed nothing since its last mark.
#[test]
fn a_mark_that_is_gone_is_noticed_though_another_server_has_marked_since() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let before = cluster.database.commits();
    cluster.pass(SECOND * 10);
    cluster.freeze(0);
    forget_since(&cluster, before);
    cluster.pass(SECOND);
    cluster.desk(1).submit(HELD);
    cluster.pass(SECOND * 10);
    cluster.thaw(0);
    cluster.pass(SECOND);
    w.take();
    assert!(w.closed, "it is asked to come again");
}

/// It writes the server's own row anew, and has no events whose numbers could be missing.
#[test]
fn a_loss_in_the_middle_of_a_slow_commit_is_noticed() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let before = cluster.database.commits();
    cluster.pass(SECOND * 10);
    let desk = cluster.desk(0);
    desk.now = desk.now + SECOND * 3;
    let tick = desk.tick();
    desk.core().begin(Vec::new(), tick);
    forget_since(&cluster, before);
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Done));
    cluster.desk(0).pass(SECOND);
    w.take();
    assert!(w.closed, "it is asked to come again");
}

/// A loss that nobody has noticed yet: what asks for leave to start is no exception.
#[test]
fn nothing_starts_between_the_loss_and_the_next_mark() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let (_, _) = started_and_forgotten(&mut cluster, &mut w);
    let mut other = cluster.desk(1).worker("other", "script", 1);
    let Some(ServerMessage::Offer { spec, .. }) = other.take().pop() else { return };
    cluster.desk(1).says(&other, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
    assert!(!other.take().iter().any(|mail| matches!(mail, ServerMessage::Go { .. })));
}

#[test]
fn an_end_that_was_put_away_and_is_not_on_record_is_asked_for_and_counts() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 2);
    let job = cluster.desk(0).submit(CHAIN);
    let first = cluster.desk(0).start(&mut w);
    let before = cluster.database.commits();
    cluster.desk(0).ends(&w, first.ticket, 0);
    let second = cluster.desk(0).start(&mut w);
    cluster.desk(0).ends(&w, second.ticket, 0);
    cluster.desk(0).check(job, "success: success success");
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    let last_epoch = w.welcome.epoch;
    let comes = |kept, held| Hello { last_epoch, kept, ..hello("w", "script", 2, held) };
    let mut asked = cluster.desk(0).knock(w.worker, comes(Some(Kept::Apart), Vec::new()));
    assert_eq!(asked.refused().map(|(code, _)| code), Some(RefusedCode::Recall));
    let brings = vec![held(&first, HeldState::Ended), held(&second, HeldState::Ended)];
    let back = cluster.desk(0).knock(w.worker, comes(Some(Kept::Recalled), brings)).welcomed();
    let verdicts: Vec<VerdictKind> = back.welcome.verdicts.iter().map(|v| v.verdict).collect();
    assert_eq!(verdicts, [VerdictKind::SendResult, VerdictKind::SendResult]);
    cluster.desk(0).ends(&back, first.ticket, 0);
    cluster.desk(0).ends(&back, second.ticket, 0);
    cluster.desk(0).check(job, "success: success success");
    // All have reported; nobody is asked any more.
    cluster.pass(SECOND * 3);
    let comes = Hello { last_epoch: back.welcome.epoch, ..comes(Some(Kept::Apart), Vec::new()) };
    cluster.desk(0).knock(w.worker, comes).welcomed();
}

/// The worker has the end of the attempt that is on record as running, and runs the one after it.
#[test]
fn a_later_attempt_stands_for_the_one_before_it() {
    let retry = "name: again\nsteps:\n  a: { run: 'true', retry: { attempts: 3, delay: 1s, jitter: false } }\n";
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 2);
    let job = cluster.desk(0).submit(retry);
    let first = cluster.desk(0).start(&mut w);
    let before = cluster.database.commits();
    cluster.desk(0).ends(&w, first.ticket, 1);
    cluster.pass(SECOND * 2);
    let offered = w.take();
    let Some(ServerMessage::Offer { spec: second, .. }) = offered.last() else { panic!("{offered:?}") };
    cluster.desk(0).says(&w, vec![WorkerMessage::Accept { ticket: second.ticket }]);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    let brings = vec![held(&first, HeldState::Ended), held(second, HeldState::Running)];
    let mut back = again(&mut cluster, &w, "w", 2, brings);
    assert_eq!(back.welcome.verdicts[1].verdict, VerdictKind::Continue);
    cluster.desk(0).ends(&back, first.ticket, 1);
    cluster.pass(SECOND * 5);
    assert!(!back.take().iter().any(|mail| matches!(mail, ServerMessage::Offer { .. })), "it runs already");
    cluster.desk(0).ends(&back, second.ticket, 0);
    cluster.desk(0).check(job, "success: success");
}

/// By the rows that are left it went long ago; but it was here when the loss came.
#[test]
fn a_worker_that_came_in_the_time_that_is_not_on_record_is_asked_for_what_it_keeps() {
    let mut cluster = Cluster::new(1);
    let w = cluster.desk(0).worker("w", "script", 1);
    cluster.desk(0).hang_up(&w);
    cluster.pass(SECOND * 200);
    let before = cluster.database.commits();
    let mut w = again(&mut cluster, &w, "w", 1, Vec::new());
    cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    cluster.desk(0).ends(&w, spec.ticket, 0);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    let comes = Hello { last_epoch: w.welcome.epoch, kept: Some(Kept::Apart), ..hello("w", "script", 1, Vec::new()) };
    let mut asked = cluster.desk(0).knock(w.worker, comes);
    assert_eq!(asked.refused().map(|(code, _)| code), Some(RefusedCode::Recall));
}

/// The rows still know the offer that became the attempt.
#[test]
fn a_started_step_is_adopted_though_it_is_on_record_as_offered() {
    for state in [HeldState::Running, HeldState::Ended] {
        let mut cluster = Cluster::new(1);
        let mut w = cluster.desk(0).worker("w", "script", 1);
        let job = cluster.desk(0).submit(ONE);
        let spec = w.offer();
        let before = cluster.database.commits();
        cluster.desk(0).says(&w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
        assert_eq!(w.go(), spec.ticket);
        forget_since(&cluster, before);
        cluster.pass(SECOND * 3);
        let mut back = again(&mut cluster, &w, "w", 1, vec![held(&spec, state)]);
        cluster.desk(0).check(job, "running: running");
        cluster.desk(0).ends(&back, spec.ticket, 0);
        cluster.desk(0).check(job, "success: success");
        cluster.pass(SECOND * 3);
        assert!(!back.take().iter().any(|mail| matches!(mail, ServerMessage::Offer { .. })), "it has run");
    }
}

/// Nothing but the grant is lost, and others have written more since: it is the worker's word that tells of it.
#[test]
fn what_became_of_a_start_that_is_not_on_record_is_asked_for_again() {
    for loss in [None, Some(Loss::RunnerLost)] {
        let mut cluster = Cluster::new(2);
        let mut w = cluster.desk(0).worker("w", "script", 1);
        let job = cluster.desk(0).submit(ONE);
        let spec = w.offer();
        let before = cluster.database.commits();
        cluster.desk(0).says(&w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
        assert_eq!(w.go(), spec.ticket);
        forget_since(&cluster, before);
        for _ in 0..5 {
            cluster.desk(1).submit(HELD);
        }
        let ticket = spec.ticket;
        let detail = String::new();
        match loss {
            None => cluster.desk(0).ends(&w, ticket, 0),
            Some(loss) => cluster.desk(0).says(&w, vec![WorkerMessage::Lost { ticket, loss, detail }]),
        }
        let mail = w.take();
        let answered = |m: &ServerMessage| !matches!(m, ServerMessage::Refused { .. });
        assert!(!mail.iter().any(answered), "{mail:?}");
        cluster.pass(SECOND);
        w.take();
        assert!(w.closed, "it is asked to come again");
        let back = again(&mut cluster, &w, "w", 1, vec![held(&spec, HeldState::Ended)]);
        cluster.desk(0).check(job, "running: running");
        cluster.desk(0).ends(&back, spec.ticket, 0);
        cluster.desk(0).check(job, "success: success");
    }
}

/// The same at a server that remembers what another one wrote, and has not heard that it is lost.
#[test]
fn a_started_step_is_adopted_by_a_server_that_remembers_its_start() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = w.offer();
    cluster.pass(SECOND * 3);
    let before = cluster.database.commits();
    cluster.desk(0).says(&w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
    assert_eq!(w.go(), spec.ticket);
    // It is looked at elsewhere before any mark.
    cluster.desk(1).pass(SECOND);
    forget_since(&cluster, before);
    let last_epoch = w.welcome.epoch;
    let brings = vec![held(&spec, HeldState::Ended)];
    let comes = Hello { last_epoch, ..hello("w", "script", 1, brings) };
    cluster.desk(1).knock(w.worker, comes).welcomed();
    cluster.desk(1).check(job, "running: running");
}

/// What may be repeated may still run elsewhere: nobody knows, and the rows say so.
#[test]
fn what_a_later_attempt_stands_for_is_not_called_dead() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(READS);
    let first = cluster.desk(0).start(&mut w);
    let mut other = cluster.desk(0).worker("other", "script", 1);
    let before = cluster.database.commits();
    cluster.desk(0).hang_up(&w);
    cluster.pass(SECOND * 125);
    let offered = other.take();
    let Some(ServerMessage::Offer { spec: second, .. }) = offered.last() else { panic!("{offered:?}") };
    cluster.desk(0).says(&other, vec![WorkerMessage::Accept { ticket: second.ticket }]);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    let _back = again(&mut cluster, &other, "other", 1, vec![held(second, HeldState::Running)]);
    cluster.desk(0).check(job, "running: running");
    let attempts = cluster.desk(0).attempts(job);
    let row = attempts.iter().find(|row| row.id.0 == first.ticket.attempt).expect("on record");
    assert_eq!((row.error_code.as_deref(), row.confirmed), (Some("worker_lost"), false));
}

/// What is on record came back first, and was told to go on.
#[test]
fn what_a_later_attempt_stands_for_is_told_to_end_where_it_runs() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(READS);
    let first = cluster.desk(0).start(&mut w);
    let mut other = cluster.desk(0).worker("other", "script", 1);
    let before = cluster.database.commits();
    cluster.desk(0).hang_up(&w);
    cluster.pass(SECOND * 125);
    let offered = other.take();
    let Some(ServerMessage::Offer { spec: second, .. }) = offered.last() else { panic!("{offered:?}") };
    cluster.desk(0).says(&other, vec![WorkerMessage::Accept { ticket: second.ticket }]);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    let mut back = again(&mut cluster, &w, "w", 1, vec![held(&first, HeldState::Running)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Continue);
    let _second = again(&mut cluster, &other, "other", 1, vec![held(second, HeldState::Running)]);
    cluster.pass(SECOND);
    cluster.desk(0).check(job, "running: running");
    let told = back.take();
    let is_stop = |mail: &ServerMessage| matches!(mail, ServerMessage::Stop { ticket, .. } if *ticket == first.ticket);
    assert!(told.iter().any(is_stop), "{told:?}");
}

/// Nobody remembers; but a worker that has what is not on record is proof enough to ask all of them.
#[test]
fn all_are_asked_when_one_worker_has_what_is_not_on_record() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let mut other = cluster.desk(0).worker("other", "gpu", 1);
    let (job, spec) = started_and_forgotten(&mut cluster, &mut w);
    cluster.kill(0);
    let place = cluster.start();
    let comes = |mailbox: &Mailbox, name, tag, held| {
        let last_epoch = mailbox.welcome.epoch;
        Hello { last_epoch, kept: Some(Kept::Apart), ..hello(name, tag, 1, held) }
    };
    let nothing = comes(&other, "other", "gpu", Vec::new());
    other = cluster.desk(place).knock(other.worker, nothing).welcomed();
    let more = comes(&w, "w", "script", vec![held(&spec, HeldState::Running)]);
    cluster.desk(place).knock(w.worker, more).welcomed();
    cluster.desk(place).check(job, "running: running");
    cluster.pass(SECOND);
    other.take();
    assert!(other.closed, "it is asked to come again");
    let nothing = comes(&other, "other", "gpu", Vec::new());
    let mut asked = cluster.desk(place).knock(other.worker, nothing);
    assert_eq!(asked.refused().map(|(code, _)| code), Some(RefusedCode::Recall));
}

/// A worker that keeps what it was told to forget, and whose only step ended; the database knows it as queued.
fn ended_and_forgotten(cluster: &mut Cluster) -> (Mailbox, engine::JobId, AttemptSpec) {
    let worker = cluster.desk(0).enrol("w");
    let comes = Hello { kept: Some(Kept::Apart), ..hello("w", "script", 1, Vec::new()) };
    let mut w = cluster.desk(0).knock(worker, comes).welcomed();
    let job = cluster.desk(0).submit(ONE);
    let before = cluster.database.commits();
    let spec = cluster.desk(0).start(&mut w);
    cluster.desk(0).ends(&w, spec.ticket, 0);
    forget_since(cluster, before);
    w.take();
    (w, job, spec)
}

/// It may connect to another server next, which knows nothing of a loss.
#[test]
fn who_is_connected_when_a_loss_is_noticed_is_asked_at_once_for_what_it_keeps() {
    let mut cluster = Cluster::new(2);
    let (mut w, _, _) = ended_and_forgotten(&mut cluster);
    cluster.pass(SECOND * 2);
    let ServerMessage::Refused { code, .. } = w.one() else { panic!("a refusal") };
    assert_eq!((code, w.closed), (RefusedCode::Recall, true));
}

#[test]
fn what_another_server_has_noticed_is_known_at_the_next_hello() {
    let mut cluster = Cluster::new(2);
    let (w, job, spec) = ended_and_forgotten(&mut cluster);
    cluster.desk(0).pass(SECOND * 2);
    let last_epoch = w.welcome.epoch;
    let comes = |kept, held| Hello { last_epoch, kept, ..hello("w", "script", 1, held) };
    let mut asked = cluster.desk(1).knock(w.worker, comes(Some(Kept::Apart), Vec::new()));
    assert_eq!(asked.refused().map(|(code, _)| code), Some(RefusedCode::Recall));
    let brings = vec![held(&spec, HeldState::Ended)];
    let back = cluster.desk(1).knock(w.worker, comes(Some(Kept::Recalled), brings)).welcomed();
    cluster.desk(1).ends(&back, spec.ticket, 0);
    cluster.desk(1).check(job, "success: success");
}

#[test]
fn what_another_server_has_noticed_is_known_at_the_next_start() {
    let mut cluster = Cluster::new(2);
    let mut other = cluster.desk(1).worker("other", "script", 1);
    cluster.desk(1).submit(ONE);
    let spec = other.offer();
    ended_and_forgotten(&mut cluster);
    cluster.desk(0).pass(SECOND * 2);
    cluster.desk(1).says(&other, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
    assert!(!other.take().iter().any(|mail| matches!(mail, ServerMessage::Go { .. })), "it may have run");
}

/// All that it ever wrote is gone, itself included; and what another one has written since hides that.
#[test]
fn a_server_whose_start_is_not_on_record_knows_that_commits_were_lost() {
    let mut cluster = Cluster::new(1);
    let worker = cluster.desk(0).enrol("w");
    let before = cluster.database.commits();
    let place = cluster.start();
    let comes = Hello { kept: Some(Kept::Apart), ..hello("w", "script", 1, Vec::new()) };
    let mut w = cluster.desk(place).knock(worker, comes).welcomed();
    forget_since(&cluster, before);
    cluster.desk(0).pass(SECOND * 20);
    cluster.desk(place).pass(SECOND * 20);
    let ServerMessage::Refused { code, .. } = w.one() else { panic!("a refusal") };
    assert_eq!((code, w.closed), (RefusedCode::Recall, true));
}

/// It may keep the end of what another server has lost.
#[test]
fn who_is_connected_to_a_server_that_lost_nothing_is_asked_as_well_and_only_once() {
    let mut cluster = Cluster::new(2);
    let id = cluster.desk(1).enrol("other");
    let comes = Hello { kept: Some(Kept::Apart), ..hello("other", "gpu", 1, Vec::new()) };
    let mut other = cluster.desk(1).knock(id, comes.clone()).welcomed();
    ended_and_forgotten(&mut cluster);
    cluster.desk(0).pass(SECOND * 2);
    cluster.desk(1).pass(SECOND * 3);
    let ServerMessage::Refused { code, .. } = other.one() else { panic!("a refusal") };
    assert_eq!((code, other.closed), (RefusedCode::Recall, true));
    let comes = Hello { kept: Some(Kept::Recalled), last_epoch: other.welcome.epoch, ..comes };
    let mut back = cluster.desk(1).knock(id, comes).welcomed();
    cluster.pass(SECOND * 10);
    back.take();
    assert!(!back.closed, "it was asked already");
}

#[test]
fn an_item_is_adopted_by_whichever_server_makes_its_list_again() {
    let mut cluster = Cluster::new(2);
    let mut v = cluster.desk(1).worker("v", "script first", 1);
    let mut w = cluster.desk(0).worker("w", "script then", 1);
    let job = cluster.desk(1).submit(FAN_APART);
    let first = cluster.desk(1).start(&mut v);
    let before = cluster.database.commits();
    cluster.desk(1).ends(&v, first.ticket, 0);
    cluster.pass(SECOND);
    let item = cluster.desk(0).start(&mut w);
    assert_eq!(item.step, "each[0]");
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    let comes = |w: &Mailbox, name, tags, held| Hello { last_epoch: w.welcome.epoch, ..hello(name, tags, 1, held) };
    let brings = comes(&w, "w", "script then", vec![held(&item, HeldState::Running)]);
    let mut w = cluster.desk(0).knock(w.worker, brings).welcomed();
    let brings = comes(&v, "v", "script first", vec![held(&first, HeldState::Ended)]);
    let v = cluster.desk(1).knock(v.worker, brings).welcomed();
    cluster.desk(1).check(job, "running: running pending");
    cluster.desk(1).ends(&v, first.ticket, 0);
    cluster.desk(1).check(job, "running: success running recovering queued");
    cluster.pass(SECOND);
    w.take();
    assert!(w.closed, "its server asks it, since it may have put it away by now");
    let brings = comes(&w, "w", "script then", vec![held(&item, HeldState::Ended)]);
    let w = cluster.desk(0).knock(w.worker, brings).welcomed();
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::SendResult);
    cluster.desk(0).ends(&w, item.ticket, 0);
    let attempts = cluster.desk(0).attempts(job);
    assert_eq!(attempts.iter().filter(|attempt| attempt.id.0 == item.ticket.attempt).count(), 1);
}

#[test]
fn a_server_that_stops_right_after_a_loss_leaves_word_of_it() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let (job, _) = started_and_forgotten(&mut cluster, &mut w);
    cluster.desk(0).core().leave().expect("the database is there");
    cluster.kill(0);
    let place = cluster.start();
    let mut other = cluster.desk(place).worker("other", "script", 1);
    cluster.pass(SECOND * 5);
    other.none();
    cluster.desk(place).check(job, "pending: queued");
}

/// It may have started something, though it is on record as one that was never here.
#[test]
fn who_came_in_the_time_that_is_not_on_record_is_waited_for() {
    let mut cluster = Cluster::new(1);
    let ids = ["w", "other"].map(|name| cluster.desk(0).enrol(name));
    let before = cluster.database.commits();
    let mut w = cluster.desk(0).connect(ids[0], "w", "script", 1, Vec::new());
    let mut other = cluster.desk(0).connect(ids[1], "other", "script", 1, Vec::new());
    cluster.desk(0).submit(HELD);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    w.take();
    other.take();
    assert!(w.closed && other.closed, "they are asked to come again");
    let mut other = again(&mut cluster, &other, "other", 1, Vec::new());
    cluster.desk(0).submit(ONE);
    cluster.pass(SECOND * 3);
    other.none();
    again(&mut cluster, &w, "w", 1, Vec::new());
    cluster.pass(SECOND * 3);
    assert!(other.take().iter().any(|mail| matches!(mail, ServerMessage::Offer { .. })), "all have reported");
}

/// By the rows that are left it has been away for longer than anybody is waited for. The server has seen it since.
#[test]
fn who_came_and_went_in_the_time_that_is_not_on_record_is_waited_for() {
    let mut cluster = Cluster::new(1);
    let w = cluster.desk(0).worker("w", "script", 1);
    let other = cluster.desk(0).worker("other", "script", 1);
    cluster.desk(0).hang_up(&w);
    cluster.desk(0).hang_up(&other);
    let mut other = again(&mut cluster, &other, "other", 0, Vec::new());
    cluster.pass(SECOND * 900);
    let job = cluster.desk(0).submit(ONE);
    let before = cluster.database.commits();
    let mut w = again(&mut cluster, &w, "w", 1, Vec::new());
    cluster.desk(0).start(&mut w);
    cluster.desk(0).hang_up(&w);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    other.take();
    assert!(other.closed, "it is asked to come again");
    let mut other = again(&mut cluster, &other, "other", 1, Vec::new());
    cluster.pass(SECOND * 3);
    other.none();
    cluster.desk(0).check(job, "pending: queued");
}

/// No event and no mark was lost with it: only another server, which takes the worker for gone with the server that it was at before.
#[test]
fn a_hello_that_is_gone_is_noticed_when_others_act_as_if_there_had_been_none() {
    let mut cluster = Cluster::new(3);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    cluster.kill(0);
    let before = cluster.database.commits();
    let comes = Hello { last_epoch: w.welcome.epoch, ..hello("w", "script", 1, vec![held(&spec, HeldState::Running)]) };
    let mut back = cluster.desk(1).knock(w.worker, comes).welcomed();
    forget_since(&cluster, before);
    cluster.pass(SECOND * 20);
    cluster.desk(2).check(job, "recovering: recovering");
    back.take();
    assert!(back.closed, "it is asked to come again");
}

/// Two servers notice the same loss at once: who was asked by then is waited for all the same.
#[test]
fn who_was_asked_is_waited_for_though_another_server_says_the_same() {
    let mut cluster = Cluster::new(2);
    let ids = ["w", "other"].map(|name| cluster.desk(0).enrol(name));
    let before = cluster.database.commits();
    let mut w = cluster.desk(0).connect(ids[0], "w", "script", 1, Vec::new());
    let mut other = cluster.desk(0).connect(ids[1], "other", "script", 1, Vec::new());
    cluster.desk(0).submit(HELD);
    cluster.desk(1).submit(HELD);
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    w.take();
    other.take();
    assert!(w.closed && other.closed, "they are asked to come again");
    let mut other = again(&mut cluster, &other, "other", 1, Vec::new());
    cluster.desk(0).submit(ONE);
    cluster.pass(SECOND * 5);
    other.none();
}

/// That it was here is not on record any more; whoever starts next does not even know its tags.
#[test]
fn nobody_is_missed_before_a_window_has_passed_since_a_loss() {
    for restarts in [false, true] {
        let mut cluster = Cluster::new(1);
        let id = cluster.desk(0).enrol("w");
        let before = cluster.database.commits();
        let mut w = cluster.desk(0).connect(id, "w", "script", 1, Vec::new());
        cluster.desk(0).submit(HELD);
        forget_since(&cluster, before);
        cluster.pass(SECOND * 3);
        w.take();
        assert!(w.closed, "it is asked to come again");
        let mut place = 0;
        if restarts {
            cluster.kill(0);
            place = cluster.start();
        }
        let job = cluster.desk(place).submit(ONE);
        cluster.pass(SECOND * 105);
        cluster.desk(place).check(job, "pending: queued");
        cluster.pass(SECOND * 60);
        cluster.desk(place).check(job, "failed: failed");
    }
}

/// Neither an event nor a mark is lost with it, and it has nothing that anybody would ask about.
#[test]
fn a_lost_hello_of_an_idle_worker_is_noticed() {
    let mut cluster = Cluster::new(2);
    let id = cluster.desk(0).enrol("w");
    let before = cluster.database.commits();
    let mut w = cluster.desk(0).connect(id, "w", "script", 1, Vec::new());
    forget_since(&cluster, before);
    cluster.pass(SECOND * 3);
    w.take();
    assert!(w.closed, "it is asked to come again");
}
