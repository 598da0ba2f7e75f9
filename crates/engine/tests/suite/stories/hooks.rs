//! What follows on a job's end.

use std::sync::Arc;

use engine::JobState;
use engine::definition::ChildTask;
use engine::event::{Birth, HookOrder};
use expect_test::expect;

use crate::support::script::{changes_of, check, event, world};
use crate::support::task::child_task;

#[test]
fn each_end_has_its_own() {
    let graph = "a, on_success:yes, on_error:{state}/{error}/{step}, on_cancel:no, on_recovered:again";
    check(
        graph,
        "go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; job: on_success: job H0 of task `child` follows; a#1 is ended, confirmed; * begin a job with "yes"; ! forget a
        = job success, a success
    "#]],
    );
    check(
        graph,
        "go a; end a 1",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            end a 1      | a: running -fail-> failed; job: running -> failed; job: on_error: job H1 of task `child` follows; a#1 is ended, confirmed; * begin a job with "failed/exit_code/a"; ! forget a
            = job failed (exit_code), a failed (exit_code)
        "#]],
    );
    check(
        graph,
        "cancel",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            cancel       | job: cancel asked by ann; a: queued -cancel-> cancelled; job: pending -> cancelled; job: on_cancel: job H2 of task `child` follows; * begin a job with "no"
            = job cancelled (cancelled), a cancelled (cancelled)
        "#]],
    );
}

/// What follows may ask how the job ended, in the words of conditions.
#[test]
fn an_end_is_just_one_of_the_three() {
    let graph = "a, on_success:{holds}, on_error:{holds}, on_cancel:{holds}";
    for (story, holds) in [("go a; end a 0", "success()"), ("go a; end a 1", "failure()"), ("cancel", "cancelled()")] {
        let ended = changes_of(graph, story);
        let [HookOrder::Begin(birth)] = ended.hooks.as_slice() else { panic!("one job follows: {story}") };
        assert_eq!(*birth.input, holds, "{story}");
    }
}

#[test]
fn several_follow_in_their_order_and_each_has_its_number() {
    check(
        "a, on_success:x, on_error:y, on_success:http://z",
        "go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; job: on_success: job H0 of task `child` follows; job: on_success: http://z is told; a#1 is ended, confirmed; * begin a job with "x"; * tell http://z of on_success; ! forget a
        = job success, a success
    "#]],
    );
}

/// Its own timeout is nobody's wish.
#[test]
fn a_timeout_of_the_job_is_an_error() {
    check(
        "timeout:10s, a, on_error:x, on_cancel:y",
        "next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        +10s check job | job: cancel the job's timeout is over; a: queued -cancel-> cancelled; job: pending -> cancelled; job: on_error: job H0 of task `child` follows; * begin a job with "x"
        = job cancelled (job_timeout), a cancelled (job_timeout)
    "#]],
    );
}

#[test]
fn a_job_that_lost_touch_and_succeeded_has_recovered() {
    check(
        "a, on_recovered:x",
        "go a; lost a; back a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        back a       | a: recovering -start-> running; job: recovering -> running; a#1 is running
        end a 0      | a: running -succeed-> success; job: running -> success; job: on_recovered: job H0 of task `child` follows; a#1 is ended, confirmed; * begin a job with "x"; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn what_cannot_follow_is_said_and_holds_nothing_up() {
    check(
        "a, on_success:none, on_success:refused, on_success:{bad}, on_success:x",
        "go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; job: on_success: no job of task `child` follows: there was no such task when the job was submitted; job: on_success: no job of task `child` follows: `refused` is no input; job: on_success: no job of task `child` follows: `bad` is not there; job: on_success: job H3 of task `child` follows; a#1 is ended, confirmed; * begin a job with "x"; ! forget a
        = job success, a success
    "#]],
    );
}

/// A hook that fails would be a hook without end.
#[test]
fn nothing_follows_on_a_hook() {
    let ended = changes_of("a, on_error:x", "go a; end a 1");
    let HookOrder::Begin(birth) = &ended.hooks[0] else { panic!("a job follows") };
    assert_eq!(
        (birth.id, birth.hook_of, birth.parent),
        (world("a", "").job.id.hook(0), Some(world("a", "").job.id), None)
    );
    // Its own task has a hook too.
    let mut hook = world("a, on_error:x", "");
    let task = Arc::new(ChildTask { definition: hook.job.definition.clone(), ..child_task([8; 32]) });
    let (job, _) = engine::bear(&Birth { task, ..birth.clone() }, None, &hook.ctx());
    hook.job = job;
    for verb in ["offer", "accept"] {
        let event = event(&mut hook, &[verb, "a"]);
        hook.play(&event).expect("it begins like any job");
    }
    let end = event(&mut hook, &["end", "a", "1"]);
    let changes = hook.ask(&end).expect("it ends");
    assert_eq!((changes.header.state, changes.hooks), (JobState::Failed, Vec::new()));
}
