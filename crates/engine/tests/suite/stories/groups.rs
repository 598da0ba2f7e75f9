//! A job with a concurrency group: nothing of it begins before it is admitted.

use std::time::Duration;

use engine::deadline::{Action, LOOK_AGAIN, Owner};
use engine::definition::{Concurrency, Definition, DefinitionParts, WhenFull};
use engine::{GROUP_NAME_MAX, JobId, JobState, StepIx, group_of};
use expect_test::expect;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::script::{check, world};
use crate::support::task::task;
use crate::support::toy::Toy;
use crate::support::world::START;

#[test]
fn it_waits_and_then_goes_on_like_any_other() {
    check(
        "a -> b, c, group:release",
        "offer a; check a; check job; admit; admit; go a; end a 0; go c; end c 0; go b; end b 0; admit",
        expect![[r#"
            submit       | job: it waits for room in concurrency group `release`
            offer a      | refused: the step is pending, so there is nothing to offer
            check a
            check job
            admit        | job: there is room; a: pending -enqueue-> queued; c: pending -enqueue-> queued
            admit        | refused: the job does not wait for its concurrency group
            go a
            end a 0      | a: running -succeed-> success; b: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
            go c
            end c 0      | c: running -succeed-> success; c#1 is ended, confirmed; ! forget c
            go b
            end b 0      | b: running -succeed-> success; job: running -> success; b#1 is ended, confirmed; ! forget b
            admit        | refused: the job is already success
            = job success, a success, b success, c success
        "#]],
    );
}

/// Not even approvals, timers, lists and child jobs begin.
#[test]
fn nothing_of_it_begins() {
    check(
        "a[approve], b[wait:30s], c[each:3], d[child:x], group:release",
        "approve a; next; admit",
        expect![[r#"
            submit       | job: it waits for room in concurrency group `release`
            approve a    | refused: the step is pending, so there is nothing to approve
            +3600s check a
            +3600s check b
            +3600s check c
            +3600s check d
            +3600s check job
            admit        | job: there is room; a: pending -hold-> held; b: pending -wait-> waiting; c: pending -start-> running; d: pending -start-> running; c[0]: pending -enqueue-> queued; c[1]: pending -enqueue-> queued; c[2]: pending -enqueue-> queued; job: pending -> running; * begin a job for d with "x"
            = job running, a held, b waiting, c running, d running, c[0] queued, c[1] queued, c[2] queued
        "#]],
    );
}

#[test]
fn it_is_called_off_at_once_and_nothing_has_its_say() {
    check(
        "a -> b[if:always], group:release",
        "cancel",
        expect![[r#"
        submit       | job: it waits for room in concurrency group `release`
        cancel       | job: cancel asked by ann; a: pending -cancel-> cancelled; b: pending -cancel-> cancelled; job: pending -> cancelled
        = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled)
    "#]],
    );
}

#[test]
fn it_expires_and_is_turned_away() {
    check(
        "a[allow_failure] -> b[if:always], expires:60s, group:release",
        "next",
        expect![[r#"
        submit       | job: it waits for room in concurrency group `release`
        +60s check job | b: pending -skip-> skipped; a: pending -fail-> failed; job: pending -> failed
        = job failed (expired), a failed (expired), b skipped
    "#]],
    );
    check(
        "a -> b, group:release, on_error:told",
        "away; admit",
        expect![[r#"
        submit       | job: it waits for room in concurrency group `release`
        away         | b: pending -skip-> skipped; a: pending -fail-> failed; job: pending -> failed; job: on_error: job H0 of task `child` follows; * begin a job with "told"
        admit        | refused: the job is already failed
        = job failed (group_full), a failed (group_full), b skipped
    "#]],
    );
    check(
        "a, group:release",
        "admit; away",
        expect![[r#"
        submit       | job: it waits for room in concurrency group `release`
        admit        | job: there is room; a: pending -enqueue-> queued
        away         | refused: the job does not wait for its concurrency group
        = job pending, a queued
    "#]],
    );
}

/// A worker has what nobody remembers to have admitted.
#[test]
fn what_runs_has_its_slot() {
    check(
        "a -> b, c, group:release",
        "adopt a; end a 0",
        expect![[r#"
        submit       | job: it waits for room in concurrency group `release`
        adopt a      | job: a worker has started it already: commits were lost; a: pending -enqueue-> queued; a: queued -start-> running; c: pending -enqueue-> queued; job: pending -> running; a#1 is running
        end a 0      | a: running -succeed-> success; b: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        = job running, a success, b queued, c queued
    "#]],
    );
}

#[test]
fn while_it_waits_its_group_owns_it() {
    let waiting = world("a -> b, timeout:10s, expect:5s, group:release", "");
    let header = &waiting.job.header;
    assert_eq!(header.state, JobState::Pending);
    assert!(waiting.job.awaits_slot());
    assert_eq!((header.timeout_at, header.expect_at), (None, None), "its clock stands still");
    let check = header.check.expect("it is open");
    assert_eq!((check.owner, check.at, check.action), (Owner::Group, START + LOOK_AGAIN, Action::LookAgain));
    let owner = |ix: u32| waiting.job.step(StepIx(ix)).check.map(|check| check.owner);
    assert_eq!((owner(0), owner(1)), (Some(Owner::Group), Some(Owner::Needs)));

    let admitted = world("a -> b, timeout:10s, expect:5s, group:release", "pass 1h; admit");
    let start = START + Duration::from_secs(3600);
    assert_eq!(admitted.job.header.admitted_at, Some(start));
    assert_eq!(admitted.job.header.timeout_at, Some(start + Duration::from_secs(10)), "it counts from here");
    assert_eq!(admitted.job.header.expect_at, Some(start + Duration::from_secs(5)), "and so does this");
    assert_eq!(admitted.job.header.check.map(|check| check.owner), Some(Owner::Steps));
}

/// The group of a job with this input, or why there is none.
fn group(written: &str, templated: bool, input: &Value) -> Result<String, String> {
    let task = task("a");
    let concurrency = Concurrency { group: written.into(), templated, limit: 1, when_full: WhenFull::Queue };
    let parts = DefinitionParts {
        name: task.name.clone(),
        timeout: None,
        expires: None,
        expect: None,
        priority: 0,
        concurrency: Some(concurrency),
        hooks: Vec::new(),
        steps: task.steps().to_vec(),
    };
    let definition = Definition::new(parts).expect("one step is a sound graph");
    let group = group_of(&definition, input, JobId(Uuid::from_u128(1)), &Toy)?;
    Ok(group.expect("the task has a group").to_string())
}

#[test]
fn its_name_is_taken_as_it_is_written_or_from_the_input() {
    assert_eq!(group("{input}", false, &json!("prod")), Ok("{input}".to_owned()), "it is no template");
    assert_eq!(group("shop-{input}", true, &json!(7)), Ok("shop-7".to_owned()));
    for (input, name) in [(json!("prod"), "prod"), (json!(" prod\n"), "prod"), (json!(7), "7"), (json!(true), "true")] {
        assert_eq!(group("{input}", true, &input), Ok(name.to_owned()), "{input}");
    }
}

#[test]
fn a_name_that_is_none_is_refused() {
    let problem = |input: Value| match group("{input}", true, &input) {
        Ok(_) => None,
        Err(problem) => Some(problem.replace("the concurrency group of task `demo`: ", "")),
    };
    for input in [json!(null), json!(["prod"]), json!({ "name": "prod" })] {
        assert_eq!(problem(input).as_deref(), Some("its name is no text"));
    }
    assert_eq!(problem(json!(" ")).as_deref(), Some("its name is empty"));
    assert_eq!(problem(json!("x".repeat(GROUP_NAME_MAX - 1))), None);
    assert_eq!(problem(json!("x".repeat(GROUP_NAME_MAX))), None);
    let told = problem(json!("x".repeat(GROUP_NAME_MAX + 1)));
    assert_eq!(told.as_deref(), Some("its name has more than 200 bytes"));
    let told = problem(json!("a\nb"));
    assert_eq!(told.as_deref(), Some("its name has a line break or another control character in it"));
    let told = group("{bad}", true, &json!(1));
    assert_eq!(told, Err("the concurrency group of task `demo`: `bad` is not there".to_owned()));
}
