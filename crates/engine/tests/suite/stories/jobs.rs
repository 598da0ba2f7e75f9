//! What a job's state, error and end follow from.

use engine::StepIx;
use engine::event::{Event, Rejection, Ticket};
use expect_test::expect;

use crate::support::script::{check, resolve, world};

#[test]
fn nothing_has_started() {
    check(
        "a -> b",
        "offer a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        = job pending, a queued, b pending
    "#]],
    );
}

#[test]
fn recovering_only_if_nothing_else_moves() {
    check(
        "a, b",
        "go a; go b; lost a; lost b; back b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        go b
        lost a       | a: running -recover-> recovering; a#1 is recovering
        lost b       | b: running -recover-> recovering; job: running -> recovering; b#1 is recovering
        back b       | b: recovering -start-> running; job: recovering -> running; b#1 is running
        end b 0      | b: running -succeed-> success; job: running -> recovering; b#1 is ended, confirmed; ! forget b
        = job recovering, a recovering, b success
    "#]],
    );
}

#[test]
fn held_only_if_nothing_else_moves() {
    check(
        "a[approve], b",
        "go b; end b 0",
        expect![[r#"
        submit       | a: pending -hold-> held; b: pending -enqueue-> queued
        go b
        end b 0      | b: running -succeed-> success; job: running -> held; b#1 is ended, confirmed; ! forget b
        = job held, a held, b success
    "#]],
    );
}

#[test]
fn recovering_comes_before_held() {
    check(
        "a[approve], b",
        "go b; lost b",
        expect![[r#"
        submit       | a: pending -hold-> held; b: pending -enqueue-> queued
        go b
        lost b       | b: running -recover-> recovering; job: running -> recovering; b#1 is recovering
        = job recovering, a held, b recovering
    "#]],
    );
}

#[test]
fn the_first_failure_by_place_is_the_jobs() {
    check(
        "a, b",
        "go a; go b; end b 2; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        go b
        end b 2      | b: running -fail-> failed; b#1 is ended, confirmed; ! forget b
        end a 1      | a: running -fail-> failed; job: running -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (exit_code), a failed (exit_code), b failed (exit_code)
    "#]],
    );
}

#[test]
fn an_allowed_failure_fails_no_job() {
    check(
        "a[allow_failure], b",
        "go a; go b; end a 1; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        go b
        end a 1      | a: running -fail-> failed; a#1 is ended, confirmed; ! forget a
        end b 0      | b: running -succeed-> success; job: running -> success; b#1 is ended, confirmed; ! forget b
        = job success, a failed (exit_code), b success
    "#]],
    );
}

#[test]
fn a_failure_beats_a_rejection() {
    check(
        "a[approve], b",
        "reject a; go b; end b 1",
        expect![[r#"
        submit       | a: pending -hold-> held; b: pending -enqueue-> queued
        reject a     | a: held -reject-> cancelled
        go b
        end b 1      | b: running -fail-> failed; job: running -> failed; b#1 is ended, confirmed; ! forget b
        = job failed (exit_code), a cancelled (rejected), b failed (exit_code)
    "#]],
    );
}

#[test]
fn a_poison_event_fails_its_step() {
    check(
        "a -> b, c",
        "go a; poison a; poison a; go c; end c 0",
        expect![[r#"
            submit       | a: pending -enqueue-> queued; c: pending -enqueue-> queued
            go a
            poison a     | a: unconfirmed; a: running -fail-> failed; b: pending -skip-> skipped; a#1 is lost; ! stop a (Graceful, Cancel)
            poison a     | refused: the step is failed, so there is nothing to fail
            go c
            end c 0      | c: running -succeed-> success; job: running -> failed; c#1 is ended, confirmed; ! forget c
            = job failed (internal), a failed (internal), b skipped, c success
        "#]],
    );
}

#[test]
fn a_poison_event_of_an_offered_step() {
    check(
        "a -> b",
        "offer a; poison a; accept a#1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        poison a     | a: queued -fail-> failed; b: pending -skip-> skipped; job: pending -> failed; ! withdraw a
        accept a#1   | refused: stale: the step has no such attempt now
        = job failed (internal), a failed (internal), b skipped
    "#]],
    );
}

#[test]
fn a_poison_event_of_a_pending_step() {
    check(
        "a -> b -> c",
        "poison b; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        poison b     | b: pending -fail-> failed; c: pending -skip-> skipped
        go a
        end a 0      | a: running -succeed-> success; job: running -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (internal), a success, b failed (internal), c skipped
    "#]],
    );
}

#[test]
fn a_poison_event_of_a_held_step_fails_the_job() {
    check(
        "a[approve]",
        "poison a",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        poison a     | a: held -cancel-> cancelled; job: held -> failed
        = job failed (internal), a cancelled (internal)
    "#]],
    );
}

#[test]
fn a_poison_event_during_a_stop() {
    check(
        "a",
        "go a; cancel; poison a",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
            poison a     | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
            = job cancelled (cancelled), a cancelled (internal)
        "#]],
    );
}

#[test]
fn a_poison_event_without_a_step_kills_the_job() {
    check(
        "a -> b[if:always()]",
        "go a; poison job; end a cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        poison job   | job: cancel asked by the server, after an internal error, by force; a: running -cancel_graceful-> cancelling; b: pending -cancel-> cancelled; job: running -> cancelling; ! stop a (Kill, Cancel)
        end a cancelled | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled)
    "#]],
    );
}

/// Each change that is taken has a number of its own; a refusal has none. Without chance they are counted.
#[test]
fn versions_grow_with_changes() {
    let version = |story| world("a", story).job.header.version;
    assert_eq!(["", "offer a", "offer a; offer a", "offer a; accept a"].map(version), [1, 2, 2, 3]);
}

/// A database that lost commits lets a job go another way from where it was: nobody may take one way for the other.
#[test]
fn two_ways_of_one_job_have_different_versions() {
    let mut world = world("a", "go a");
    let cancel = Event::Cancel { by: "ann".to_owned(), force: false };
    let mut next = |random| {
        world.random = random;
        world.ask(&cancel).expect("it runs").header.version
    };
    let versions = [next(0), next(1), next(0xfffff), next(0x10_0000), next(u64::MAX)];
    let before = world.job.header.version;
    assert_eq!(versions.map(|version| version - before), [1, 2, 1 << 20, 1, 1 << 20]);
}

/// The first place behind the last step is as wrong as any.
#[test]
fn steps_that_are_not_there() {
    let world = world("a", "go a");
    for step in [StepIx(1), StepIx(99)] {
        let ticket = Ticket { step, ..world.ticket(StepIx(0)) };
        let (by, reason) = ("ann".to_owned(), "no".to_owned());
        let events = [
            Event::Refused { ticket, reason: reason.clone() },
            Event::Resolve(resolve(step, ticket.attempt, "failed", false)),
            Event::Unmatched { step, missing: "gpu".to_owned() },
            Event::Approve { step, by: by.clone(), comment: String::new() },
            Event::Reject { step, by, reason },
            Event::Check { step },
            Event::Poisoned { step: Some(step), message: "a bug".to_owned() },
        ];
        for event in events {
            assert_eq!(world.ask(&event), Err(Rejection::NoSuchStep), "{event:?}");
        }
    }
}

#[test]
fn a_poison_event_during_the_stop_of_a_timeout() {
    check(
        "a[timeout:5s retry:3]",
        "go a; next; poison a",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            poison a     | a: unconfirmed; a: cancelling -cancel_force-> failed; job: running -> failed; a#1 is lost
            = job failed (internal), a failed (internal)
        "#]],
    );
}

#[test]
fn a_step_that_is_told_to_stop_still_moves() {
    check(
        "a[timeout:5s], b[approve]",
        "go a; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -hold-> held
        go a
        +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        = job running, a cancelling, b held
    "#]],
    );
}
