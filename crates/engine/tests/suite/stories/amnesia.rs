//! Commits that are gone: what workers have, and the rows do not know, is taken up.

use expect_test::expect;

use engine::job::{Unborn, Unlisted};
use engine::{AttemptId, Epoch, Event, Fence, JobId, StepIx, WorkerId};
use uuid::Uuid;

use crate::support::script::{check, world};

/// It was approved once: the word of that was lost as well.
#[test]
fn a_step_that_waits_for_approval_is_adopted() {
    check(
        "a[reviewers:1]",
        "adopt a; end a 0",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        adopt a      | a: held -approve-> queued; a: queued -start-> running; job: held -> running; a#1 is running
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn what_runs_is_adopted_whatever_its_step_waits_for() {
    check(
        "a -> b",
        "adopt b; adopt a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        adopt b      | b: pending -enqueue-> queued; b: queued -start-> running; job: pending -> running; b#1 is running
        adopt a      | a: queued -start-> running; a#1 is running
        = job running, a running, b running
    "#]],
    );
    check(
        "a[retry:2 delay:5s]",
        "go a; end a 1; adopt a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        adopt a      | a: waiting -timer_done-> queued; a: queued -start-> running; a#2 is running
        = job running, a running
    "#]],
    );
}

/// What became of the one before is not known: it is given up, and not called dead.
#[test]
fn a_later_attempt_stands_for_the_one_that_is_on_record() {
    check(
        "a[effects:none]",
        "go a; adopt a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        adopt a      | a: unconfirmed; a: running -requeue-> queued; a: queued -start-> running; a#1 is lost; a#2 is running
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
    check(
        "a[retry:3]",
        "go a; lost a; adopt a; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        adopt a      | a: unconfirmed; a: recovering -requeue-> queued; a: queued -start-> running; job: recovering -> running; a#1 is lost; a#2 is running
        end a 1      | a: running -retry-> waiting; a#2 is ended, confirmed; ! forget a
        = job running, a waiting (exit_code) after 2 executions
    "#]],
    );
}

#[test]
fn a_later_attempt_stands_for_one_that_is_told_to_stop_and_may_be_followed() {
    check(
        "a[timeout:5s retry:3 on:timeout]",
        "go a; next; adopt a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        adopt a      | a: unconfirmed; a: cancelling -complete-> queued; a: queued -start-> running; a#1 is lost; a#2 is running
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
    check(
        "a[retry:3]",
        "go a; cancel; adopt a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        adopt a      | refused: the step is cancelling, so there is nothing to adopt
        = job cancelling, a cancelling
    "#]],
    );
}

/// It is a loss like any other: by effects it spends one of those, by a policy that names it an execution.
#[test]
fn what_an_attempt_that_was_overtaken_spends() {
    let spent = |graph: &str, story: &str| {
        let world = world(graph, story);
        (world.job.steps[0].losses, world.job.steps[0].executions)
    };
    assert_eq!(spent("a[effects:none]", "go a; adopt a"), (1, 1));
    assert_eq!(spent("a[effects:none retry:5 on:worker_lost]", "go a; adopt a"), (0, 2));
    assert_eq!(spent("a[retry:5]", "go a; adopt a"), (0, 2));
}

/// An item that ran before its list was lost is remembered in its step, once, by its last attempt.
#[test]
fn an_item_without_a_list_is_waited_for() {
    let mut world = world("a -> b[each:2]", "");
    let (a, each) = (world.step_named("a"), world.step_named("b"));
    let unlisted = |number, fence, epoch| Unlisted {
        number,
        attempt: AttemptId(Uuid::from_u128(u128::from(fence))),
        fence: Fence(fence),
        worker: WorkerId(Uuid::from_u128(1)),
        epoch: Epoch(epoch),
    };
    let event = |of, number, fence, epoch| Event::Unlisted { of, unlisted: unlisted(number, fence, epoch) };
    for (known, expected) in [
        (event(each, 1, 7, 3), true),
        // Said again, on the same link or on one before it.
        (event(each, 1, 7, 3), false),
        (event(each, 1, 7, 2), false),
        (event(each, 1, 6, 9), false),
        (event(each, 1, 8, 4), true),
        (event(each, 1, 8, 5), true),
        (event(each, 0, 5, 5), true),
        // Nobody's.
        (event(each, 10_000, 9, 5), false),
        (event(a, 0, 9, 5), false),
        (event(StepIx(9), 0, 9, 5), false),
    ] {
        assert_eq!(world.play(&known).is_ok(), expected, "{known:?}");
    }
    assert_eq!(world.job.step(each).unlisted, [unlisted(1, 8, 5), unlisted(0, 5, 5)]);
    assert_eq!(world.job.unlisted_item("b[1]"), Some((each, 1)));
    for stranger in ["a", "a[0]", "b", "b[01]", "b[-1]", "b[x]", "c[0]"] {
        assert_eq!(world.job.unlisted_item(stranger), None, "{stranger}");
    }
    world.play(&world.fresh_attempt(a, 1)).expect("it runs");
    let (ticket, report) = (world.ticket(a), crate::support::script::report("0"));
    world.play(&Event::Ended { ticket, report }).expect("it ends");
    assert_eq!(world.job.unlisted_item("b[1]"), None, "it is listed now");
    world.play(&event(each, 1, 9, 9)).expect_err("it is listed now");
}

/// The same for a child: once for each of its steps, by the last attempt.
#[test]
fn a_child_that_is_not_on_record_is_waited_for() {
    let mut world = world("a", "");
    let unborn = |job: u128, step: &str, fence, epoch| Unborn {
        job: JobId(Uuid::from_u128(job)),
        step: step.to_owned(),
        attempt: AttemptId(Uuid::from_u128(u128::from(fence))),
        fence: Fence(fence),
        worker: WorkerId(Uuid::from_u128(1)),
        epoch: Epoch(epoch),
    };
    for (known, expected) in [
        (unborn(5, "x", 7, 3), true),
        (unborn(5, "x", 7, 3), false),
        (unborn(5, "x", 7, 2), false),
        (unborn(5, "x", 6, 9), false),
        (unborn(5, "y", 6, 3), true),
        (unborn(6, "x", 6, 3), true),
        (unborn(5, "x", 8, 4), true),
    ] {
        assert_eq!(world.play(&Event::Unborn(known.clone())).is_ok(), expected, "{known:?}");
    }
    let remembered = [unborn(5, "y", 6, 3), unborn(6, "x", 6, 3), unborn(5, "x", 8, 4)];
    assert_eq!(world.job.header.unborn, remembered);
    world.play(&Event::Cancel { by: "ann".to_owned(), force: false }).expect("it is open");
    world.play(&Event::Unborn(unborn(7, "x", 9, 9))).expect_err("it begins nobody any more");
}
