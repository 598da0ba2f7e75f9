//! Offer, answer, grant: nothing runs twice, and nothing runs without leave.

use engine::event::Event;
use engine::{State, StepIx};
use expect_test::expect;

use crate::support::script::{check, world};
use crate::support::world::START;

#[test]
fn a_step_runs() {
    check(
        "a",
        "go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn a_second_offer_is_refused_while_one_stands() {
    check(
        "a",
        "offer a; offer a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        offer a      | refused: the step is queued, so there is nothing to offer
        = job pending, a queued
    "#]],
    );
}

#[test]
fn a_refusal_costs_the_step_nothing() {
    check(
        "a",
        "offer a; refuse a; refuse a; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        refuse a     | a: offer refused
        refuse a     | refused: stale: the step has no such attempt now
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn a_lost_offer_goes_elsewhere_at_once() {
    check(
        "a",
        "offer a; drop a @9; drop a; offer a; accept a#1; accept a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        drop a @9    | refused: stale: it was seen on an earlier link
        drop a       | a: offer lost
        offer a      | a: offer made; ! offer a
        accept a#1   | refused: stale: the step has no such attempt now
        accept a     | a: queued -start-> running; job: pending -> running; a#1 is running; ! go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn an_answer_on_another_link_is_stale() {
    check(
        "a",
        "offer a; accept a @9; accept a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        accept a @9  | refused: stale: it was seen on an earlier link
        accept a     | a: queued -start-> running; job: pending -> running; a#1 is running; ! go a
        = job running, a running
    "#]],
    );
}

/// The leave may be lost on its way, so it is given again; the attempt is still one.
#[test]
fn the_question_is_idempotent() {
    check(
        "a",
        "go a; accept a; end a 0; accept a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        accept a     | ! go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        accept a     | refused: stale: the step has no such attempt now
        = job success, a success
    "#]],
    );
}

#[test]
fn unanswered_offers_are_withdrawn_with_growing_delays() {
    check(
        "a",
        "offer a; next; offer a; next 2; offer a; next 2; offer a; next 2; offer a; next; offer a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        +1s check a
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        +2s check a
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        +4s check a
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; a: queued -fail-> failed; job: pending -> failed; ! withdraw a
        offer a      | refused: the job is already failed
        = job failed (dispatch_exhausted), a failed (dispatch_exhausted)
    "#]],
    );
}

/// Where the installation tries more often than there are delays, the last one repeats.
#[test]
fn the_longest_delay_between_offers_repeats() {
    let mut world = world("a", "");
    world.rules.max_dispatch_attempts = 9;
    let mut delays = Vec::new();
    for _ in 0..8 {
        let offer = world.fresh_offer(StepIx(0), 1);
        world.play(&offer).expect("it is time");
        world.pass(world.rules.dispatch_ack);
        world.play(&Event::Check { step: StepIx(0) }).expect("it is queued");
        let State::Queued(queued) = &world.job.steps[0].state else { panic!("it is queued") };
        let again = queued.not_before.expect("it was offered before");
        delays.push(again.since(world.now).as_secs());
        world.now = again;
    }
    assert_eq!(delays, [0, 1, 2, 4, 8, 8, 8, 8]);
}

#[test]
fn a_grant_resets_the_count_of_unanswered_offers() {
    check(
        "a[effects:none]",
        "offer a; next; offer a; next; pass 1s; go a; gone a runner; offer a; next; offer a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        pass 1s
        go a
        gone a runner | a: running -requeue-> queued; a#1 is lost, confirmed
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        offer a      | a: offer made; ! offer a
        = job running, a queued
    "#]],
    );
}

#[test]
fn an_offer_before_its_time_is_refused() {
    check(
        "a",
        "offer a; next; offer a; next; offer a; pass 1s; offer a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        offer a      | refused: the step is queued, so there is nothing to offer
        pass 1s
        offer a      | a: offer made; ! offer a
        = job pending, a queued
    "#]],
    );
}

#[test]
fn an_early_check_withdraws_nothing() {
    check(
        "a",
        "offer a; pass 9.9s; check a; pass 0.1s; check a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        pass 9.9s
        check a
        pass 0.1s
        check a      | a: offer unanswered; ! withdraw a
        = job pending, a queued
    "#]],
    );
}

#[test]
fn an_answer_after_the_withdrawal_is_stale() {
    check(
        "a",
        "offer a; next; accept a#1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        +10s check a | a: offer unanswered; ! withdraw a
        accept a#1   | refused: stale: the step has no such attempt now
        = job pending, a queued
    "#]],
    );
}

#[test]
fn a_late_answer_before_the_check_is_taken() {
    check(
        "a",
        "offer a; pass 11s; accept a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        pass 11s
        accept a     | a: queued -start-> running; job: pending -> running; a#1 is running; ! go a
        = job running, a running
    "#]],
    );
}

#[test]
fn an_end_without_leave_is_stale() {
    check(
        "a",
        "offer a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        end a 0      | refused: stale: the step has no such attempt now
        = job pending, a queued
    "#]],
    );
}

#[test]
fn an_old_attempts_end_is_stale() {
    check(
        "a[retry:2]",
        "go a; end a 1; next; go a; end a#1 0; gone a#1 runner; lost a#1; back a#1; refuse a#1; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        +0s check a  | a: waiting -timer_done-> queued
        go a
        end a#1 0    | refused: stale: the step has no such attempt now
        gone a#1 runner | refused: stale: the step has no such attempt now
        lost a#1     | refused: stale: the step has no such attempt now
        back a#1     | refused: stale: the step has no such attempt now
        refuse a#1   | refused: stale: the step has no such attempt now
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn unmatched_waits_for_all_of_the_patience() {
    check(
        "a[unmatched:20s]",
        "pass 19s; unmatched a; pass 1s; offer a; unmatched a; refuse a; unmatched a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        pass 19s
        unmatched a  | refused: the step is queued, so there is nothing to fail as unmatched
        pass 1s
        offer a      | a: offer made; ! offer a
        unmatched a  | refused: the step is queued, so there is nothing to fail as unmatched
        refuse a     | a: offer refused
        unmatched a  | a: queued -fail-> failed; job: pending -> failed
        = job failed (unmatched), a failed (unmatched)
    "#]],
    );
}

#[test]
fn patience_without_end() {
    check(
        "a[unmatched:wait]",
        "pass 10h; unmatched a; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        pass 10h
        unmatched a  | refused: the step is queued, so there is nothing to fail as unmatched
        +0s check a
        +0s check job
        = job pending, a queued
    "#]],
    );
}

/// The next offer goes to another worker, if there is one; once one has taken it, that is forgotten.
#[test]
fn who_let_an_offer_go_is_remembered() {
    let avoided = |story| world("a[effects:none]", story).job.steps[0].avoid.is_some();
    assert!(avoided("offer a; refuse a"));
    assert!(avoided("offer a; next"));
    assert!(!avoided("offer a; drop a"));
    assert!(!avoided("offer a; refuse a; go a; gone a runner"));
    assert!(avoided("go a; gone a void"));
}

#[test]
fn an_output_is_kept_only_from_a_success() {
    let output = |story| world("a", story).job.steps[0].output.clone();
    assert_eq!(output("go a; end a 0"), serde_json::json!({ "sha": "abc" }));
    assert_eq!(output("go a; end a badout"), serde_json::Value::Null);
    assert_eq!(output("go a; cancel; end a 0"), serde_json::Value::Null);
}

#[test]
fn files_are_those_of_the_last_attempt() {
    let files = |story| world("a[retry:2]", story).job.steps[0].artifacts.map(|set| set.files);
    assert_eq!(files("go a; end a files"), Some(2));
    assert_eq!(files("go a; end a unstored"), None);
    // One that was left by an attempt before is not this one's.
    assert_eq!(files("go a; end a 3-unstored; next; go a; end a files"), Some(2));
    assert_eq!(files("go a; lost a; end a files"), Some(2), "also of one whose end came late");
}

#[test]
fn templates_are_filled_in_when_the_step_is_queued() {
    let world = world("a -> b[argv:{input}]", "go a; end a 0");
    let rendered = world.job.steps[1].rendered.as_ref().expect("it has a template");
    assert_eq!(rendered.program, engine::definition::Program::Command { argv: vec!["\"hello\"".to_owned()] });
    assert_eq!(world.job.steps[0].rendered, None);
}

/// The error of an attempt that was repeated stands with that attempt, not with the one that runs now.
#[test]
fn a_new_attempt_starts_without_an_error() {
    let error = |story| world("a[retry:2]", story).job.steps[0].error.is_some();
    assert!(error("go a; end a 1"));
    assert!(error("go a; end a 1; next; offer a"));
    assert!(!error("go a; end a 1; next; go a"));
}

/// A patience longer than the time between two looks is still waited for from its beginning, then asked for again.
#[test]
fn a_long_patience_ends() {
    let mut world = world("a[unmatched:90m]", "");
    let mut decisions = Vec::new();
    for _ in 0..4 {
        let check = world.job.steps[0].check.expect("it is queued");
        decisions.push((check.at.since(START).as_secs() / 60, check.action.word()));
        world.now = check.at;
        world.play(&Event::Check { step: StepIx(0) }).expect("a queued step can be looked at");
    }
    let (look, decide) = ("look_again", "decide_unmatched");
    assert_eq!(decisions, [(60, look), (90, decide), (150, decide), (210, decide)]);
}

/// Workers that match may be busy for long: a step without patience is not looked at without a pause.
#[test]
fn no_patience_is_no_hurry() {
    let world = world("a[unmatched:0s]", "check a");
    let check = world.job.steps[0].check.expect("it is queued");
    assert_eq!(check.at.since(START).as_secs(), 1);
}

/// The worker is ready and may not start: nothing has run, so nothing is lost, and nobody is asked again.
#[test]
fn a_secret_that_cannot_be_had() {
    check(
        "a[retry:3] -> b",
        "offer a; bare a @7; bare a; bare a",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            offer a      | a: offer made; ! offer a
            bare a @7    | refused: stale: it was seen on an earlier link
            bare a       | a: queued -fail-> failed; b: pending -skip-> skipped; job: pending -> failed; ! withdraw a
            bare a       | refused: stale: the step has no such attempt now
            = job failed (secret), a failed (secret), b skipped
        "#]],
    );
}

/// Once it may have run, a missing secret says nothing: it had all of them.
#[test]
fn a_secret_that_is_gone_later() {
    check(
        "a",
        "go a; bare a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        bare a       | refused: the step is running, so there is nothing to fail for want of a secret
        = job running, a running
    "#]],
    );
}
