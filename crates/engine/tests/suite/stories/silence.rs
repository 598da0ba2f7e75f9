//! Signs of life that stay out, while the worker is there.

use std::time::Duration;

use engine::deadline::{Owner, Rules};
use engine::event::Event;
use expect_test::expect;

use crate::support::script::{check, world};

#[test]
fn an_offer_of_a_silent_worker_goes_elsewhere_and_costs_nothing() {
    check(
        "a",
        "offer a; silent a 120; offer a; accept a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        silent a 120 | a: offer lost; ! withdraw a
        offer a      | a: offer made; ! offer a
        accept a     | a: queued -start-> running; job: pending -> running; a#1 is running; ! go a
        = job running, a running
    "#]],
    );
}

#[test]
fn a_silent_runner_is_told_to_stop_and_its_step_fails() {
    check(
        "a[grace:5s]",
        "go a; silent a 300; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        silent a 300 | a: running -stop-> cancelling; ! stop a (Graceful, RunnerStale { silent_ms: 300000 })
        +15s check a | a: unconfirmed; a: cancelling -cancel_force-> failed; job: running -> failed; a#1 is lost
        = job failed (runner_stale), a failed (runner_stale)
    "#]],
    );
}

#[test]
fn what_may_be_repeated_is_after_a_whole_window_of_silence() {
    check(
        "a[grace:5s effects:none]",
        "go a; silent a 300; next; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        silent a 300 | a: running -stop-> cancelling; ! stop a (Graceful, RunnerStale { silent_ms: 300000 })
        +15s check a | a: unconfirmed; a: cancelling -cancel_force-> queued; a#1 is lost
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
    check(
        "a[grace:5s effects:none]",
        "go a; forsake a 60; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        forsake a 60 | a: running -stop-> cancelling; ! stop a (Graceful, RunnerStale { silent_ms: 60000 })
        +15s check a | a: unconfirmed; a: cancelling -cancel_force-> failed; job: running -> failed; a#1 is lost
        = job failed (runner_stale), a failed (runner_stale)
    "#]],
    );
}

#[test]
fn a_policy_that_names_it_comes_before_effects() {
    check(
        "a[grace:5s effects:none retry:2 on:worker_lost delay:1s]",
        "go a; silent a 300; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        silent a 300 | a: running -stop-> cancelling; ! stop a (Graceful, RunnerStale { silent_ms: 300000 })
        +15s check a | a: unconfirmed; a: cancelling -cancel_force-> waiting; a#1 is lost
        = job running, a waiting (runner_stale) after 1 executions
    "#]],
    );
}

#[test]
fn a_runner_that_was_only_slow_is_believed() {
    check(
        "a",
        "go a; silent a 300; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        silent a 300 | a: running -stop-> cancelling; ! stop a (Graceful, RunnerStale { silent_ms: 300000 })
        end a 0      | a: cancelling -complete-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
    check(
        "a[effects:none]",
        "go a; silent a 300; end a cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        silent a 300 | a: running -stop-> cancelling; ! stop a (Graceful, RunnerStale { silent_ms: 300000 })
        end a cancelled | a: cancelling -complete-> queued; a#1 is ended, confirmed; ! forget a
        = job running, a queued
    "#]],
    );
    check(
        "a[retry:2]",
        "go a; silent a 300; end a 7",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        silent a 300 | a: running -stop-> cancelling; ! stop a (Graceful, RunnerStale { silent_ms: 300000 })
        end a 7      | a: cancelling -complete-> waiting; a#1 is ended, confirmed; ! forget a
        = job running, a waiting (exit_code) after 1 executions
    "#]],
    );
    check(
        "a[effects:idempotent]",
        "go a; silent a 300; gone a runner",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        silent a 300 | a: running -stop-> cancelling; ! stop a (Graceful, RunnerStale { silent_ms: 300000 })
        gone a runner | a: cancelling -complete-> queued; a#1 is lost, confirmed
        = job running, a queued
    "#]],
    );
}

#[test]
fn only_the_window_decides_on_what_is_cut_off() {
    check(
        "a",
        "go a; lost a; silent a 300",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        silent a 300 | refused: the step is recovering, so there is nothing to give up as silent
        = job recovering, a recovering
    "#]],
    );
}

/// Where people decide, every sweep reminds them, and a sign of life takes it back.
#[test]
fn an_operator_is_asked_instead() {
    for (story, state) in [("go a", "running"), ("offer a", "queued")] {
        let mut world = world("a", story);
        world.rules = Rules { auto_requeue_stale_claimed: false, auto_fail_stale_running: false, ..Rules::default() };
        let ticket = world.ticket(world.step_named("a"));
        let silent = |by: Option<&str>| Event::FellSilent {
            ticket,
            silent: Duration::from_secs(300),
            by: by.map(str::to_owned),
        };
        for _ in 0..2 {
            let changes = world.play(&silent(None)).expect("it is noted");
            assert!(changes.effects.is_empty());
            assert_eq!(changes.notes.len(), 1, "a reminder each time");
            assert!(changes.notes[0].reason.contains("`bowline recover "), "{}", changes.notes[0].reason);
            let step = &world.job.steps[0];
            assert_eq!(step.state.name().word(), state);
            assert_eq!(step.check.map(|check| check.owner), Some(Owner::Operator));
        }
        world.play(&Event::HeardAgain { ticket }).expect("it is heard");
        assert!(matches!(world.job.steps[0].check.map(|check| check.owner), Some(Owner::Worker(_))));
        assert!(world.play(&Event::HeardAgain { ticket }).is_err(), "nobody was asked");
        world.play(&silent(Some("ann"))).expect("a person may");
        assert_ne!(world.job.steps[0].check.map(|check| check.owner), Some(Owner::Operator));
    }
}
