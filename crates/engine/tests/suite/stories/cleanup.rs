//! A step that is cleaned up after: an order to stop has its time as well, and nothing depends on how it ended.

use engine::State;
use engine::attempt::{Cleanup, CleanupCut, CleanupState, Outcome};
use expect_test::expect;

use crate::support::script::{check, world};

#[test]
fn an_order_to_stop_waits_for_grace_and_cleanup() {
    check(
        "a[grace:5s cleanup:20s] -> b",
        "go a; cancel; pass 34s; check a; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; b: pending -cancel-> cancelled; job: running -> cancelling; ! stop a (Graceful, Cancel)
        pass 34s
        check a
        +1s check a  | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
        = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled)
    "#]],
    );
}

#[test]
fn its_end_is_no_verdict() {
    check(
        "a[cleanup:20s]",
        "go a; cancel; end a cleaned",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        end a cleaned | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
    check(
        "a[cleanup:20s]",
        "go a; cancel; end a uncleaned",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        end a uncleaned | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}

#[test]
fn by_force_nobody_waits_for_it() {
    check(
        "a[grace:5s cleanup:20s]",
        "go a; force; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        force        | job: cancel asked by ann, by force; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Kill, Cancel)
        +10s check a | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
    check(
        "a[grace:5s cleanup:20s]",
        "go a; cancel; pass 8s; force; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        pass 8s
        force        | job: cancel asked by ann, by force; ! stop a (Kill, Cancel)
        +10s check a | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}

#[test]
fn a_cut_in_the_middle_of_it_moves_nothing() {
    check(
        "a[grace:5s cleanup:20s]",
        "go a; cancel; pass 8s; lost a; next; end a cleaned",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        pass 8s
        lost a       | a: cancelling -recover-> cancelling
        +27s check a | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
        end a cleaned | refused: stale: the step has no such attempt now
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}

#[test]
fn a_runner_that_dies_in_the_middle_of_it_ends_the_stop() {
    check(
        "a[grace:5s cleanup:20s]",
        "go a; cancel; pass 8s; gone a runner",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        pass 8s
        gone a runner | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is lost, confirmed
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}

#[test]
fn a_timeout_is_retried_when_its_cleanup_is_over() {
    check(
        "a[timeout:60s grace:5s cleanup:20s retry:2 on:timeout delay:1s]",
        "go a; next; pass 10s; end a timeout; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            +61s check a | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            pass 10s
            end a timeout | a: cancelling -complete-> waiting; a#1 is ended, confirmed; ! forget a
            +1s check a  | a: waiting -timer_done-> queued
            = job running, a queued (step_timeout) after 1 executions
        "#]],
    );
}

/// For people: who killed it, and why, says more than the signal by which it died.
#[test]
fn what_went_wrong_with_it_is_said() {
    let died = Outcome::Signaled { signal: 9, oom: false };
    let no_program = || Outcome::SpawnFailed("no such file".to_owned());
    let ends = [
        (None, Outcome::Exited(0), CleanupState::Success, None),
        (None, Outcome::Exited(3), CleanupState::Failed, Some("it exited with code 3")),
        (None, died.clone(), CleanupState::Failed, Some("it was ended by signal 9")),
        (None, Outcome::Signaled { signal: 9, oom: true }, CleanupState::Failed, Some("it was killed: out of memory")),
        (None, no_program(), CleanupState::Failed, Some("it could not be started: no such file")),
        (
            Some(CleanupCut::Budget),
            died.clone(),
            CleanupState::TimedOut,
            Some("it took longer than it may, and was killed"),
        ),
        (
            Some(CleanupCut::Killed),
            died.clone(),
            CleanupState::Killed,
            Some("it was killed: the step was to end at once"),
        ),
        (Some(CleanupCut::LeaseExpired), died, CleanupState::Killed, Some("it was killed: the step's lease was over")),
        // What never ran was killed by nobody.
        (Some(CleanupCut::Killed), no_program(), CleanupState::Failed, Some("it could not be started: no such file")),
    ];
    for (cut, outcome, state, problem) in ends {
        let cleanup = Cleanup { outcome, cut, duration_ms: 5 };
        assert_eq!((cleanup.state(), cleanup.problem().as_deref()), (state, problem), "{cleanup:?}");
    }
}

/// Its worker stores them before it reports. Those that only count after a good end are not waited for.
#[test]
fn an_order_to_stop_waits_for_files_that_are_left_in_any_case() {
    for (files, waits) in [("always", 75), ("success", 15)] {
        let task = format!("a[files:{files} grace:5s timeout:60s retry:2 on:timeout delay:1s]");
        let world = world(&task, "go a; pass 61s; check a");
        let State::Cancelling(cancelling) = &world.job.steps[0].state else { panic!("it was told to stop") };
        assert_eq!(cancelling.deadline.since(world.now).as_secs(), waits, "{files}");
    }
    let world = world("a[files:always grace:5s]", "go a; force");
    let State::Cancelling(cancelling) = &world.job.steps[0].state else { panic!("it was told to stop") };
    assert_eq!(cancelling.deadline.since(world.now).as_secs(), 10, "by force nobody waits for files");
}
