//! A person's word: on a step that is cut off, and on a job that has ended.

use std::fmt::Write as _;

use engine::{
    AttemptId, Clocks, Continuation, Ctx, JobId, JobState, LastAttempt, Rejection, StateName, StepIx, Time, carry_on,
};
use expect_test::{Expect, expect};
use uuid::Uuid;

use crate::support::script::{check, event, resolve, world};
use crate::support::toy::Toy;
use crate::support::world::World;

#[test]
fn a_step_that_is_cut_off_is_settled_by_hand() {
    check(
        "a -> b",
        "go a; lost a; resolve a succeeded; go b",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        resolve a succeeded | a: unconfirmed; a: recovering -succeed-> success; b: pending -enqueue-> queued; job: recovering -> running; a#1 is lost
        go b
        = job running, a success, b running
    "#]],
    );
    check(
        "a -> b",
        "go a; lost a; resolve a failed dead",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        resolve a failed dead | a: confirmed; a: recovering -fail-> failed; b: pending -skip-> skipped; job: recovering -> failed; a#1 is lost, confirmed
        = job failed (resolved), a failed (resolved), b skipped
    "#]],
    );
    check(
        "a[retry:3 on:worker_lost]",
        "go a; lost a; resolve a failed",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        resolve a failed | a: unconfirmed; a: recovering -fail-> failed; job: recovering -> failed; a#1 is lost
        = job failed (resolved), a failed (resolved)
    "#]],
    );
}

#[test]
fn what_may_still_run_is_run_again_only_on_a_persons_word() {
    check(
        "a",
        "go a; lost a; resolve a rerun; resolve a rerun dead; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        resolve a rerun | refused: an attempt before it may still run
        resolve a rerun dead | a: confirmed; a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost, confirmed
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
    check(
        "a[effects:none]",
        "go a; lost a; pass 60s; resolve a rerun",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        pass 60s
        resolve a rerun | refused: an attempt before it may still run
        = job recovering, a recovering
    "#]],
    );
}

/// The window is over, and nobody has looked yet: the ground that this gives is as good before.
#[test]
fn a_person_need_not_wait_for_the_check() {
    check(
        "a[effects:none]",
        "go a; lost a; pass 119s; resolve a rerun; pass 1s; resolve a rerun",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        pass 119s
        resolve a rerun | refused: an attempt before it may still run
        pass 1s
        resolve a rerun | a: unconfirmed; a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost
        = job running, a queued
    "#]],
    );
}

/// It is neither an execution of the policy nor a loss: both budgets are what they were.
#[test]
fn a_repeat_on_a_persons_word_spends_nothing() {
    check(
        "a[retry:2]",
        "go a; lost a; resolve a rerun dead; go a; end a 1; next; go a; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        resolve a rerun dead | a: confirmed; a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost, confirmed
        go a
        end a 1      | a: running -retry-> waiting; a#2 is ended, confirmed; ! forget a
        +0s check a  | a: waiting -timer_done-> queued
        go a
        end a 1      | a: running -fail-> failed; job: running -> failed; a#3 is ended, confirmed; ! forget a
        = job failed (exit_code), a failed (exit_code)
    "#]],
    );
}

#[test]
fn a_word_on_an_attempt_that_is_no_longer_the_one_is_a_conflict() {
    check(
        "a[effects:none]",
        "go a; lost a; next; go a; lost a; resolve a#1 failed; resolve a#1 late",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        +120s check a | a: unconfirmed; a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#2 is recovering
        resolve a#1 failed | refused: stale: the step has no such attempt now
        resolve a#1 late | a: unconfirmed; a: recovering -succeed-> success; job: recovering -> success; a#2 is lost
        = job success, a success
    "#]],
    );
}

#[test]
fn only_what_is_cut_off_can_be_settled() {
    check(
        "a",
        "go a; resolve a succeeded; end a 0; resolve a failed",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        resolve a succeeded | refused: the step is running, so there is nothing to resolve
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        resolve a failed | refused: the job is already success
        = job success, a success
    "#]],
    );
}

#[test]
fn a_job_that_failed_goes_on_from_there() {
    goes_on(
        "a -> b -> c",
        "go a; end a 0; go b; end b 1",
        Continuation::FromFailed,
        true,
        expect![[r#"job pending, a success {"sha":"abc"}, b queued, c pending"#]],
    );
    // What ran because of the failure is no longer what it was.
    let story = "go a; end a 0; go b; end b 1; go c; end c 0";
    goes_on(
        "a -> b -> c[if:always()]",
        story,
        Continuation::FromFailed,
        true,
        expect![[r#"job pending, a success {"sha":"abc"}, b queued, c pending"#]],
    );
    // A failure that was allowed stands, and so does what follows from it.
    let story = "go a; end a 1; go b; end b 0; go c; end c 1";
    goes_on(
        "a[allow_failure] -> b -> c",
        story,
        Continuation::FromFailed,
        true,
        expect![[r#"job pending, a failed (exit_code), b success {"sha":"abc"}, c queued"#]],
    );
    goes_on(
        "a -> b",
        "go a; end a 0; go b; end b 1",
        Continuation::Anew,
        true,
        expect!["job pending, a queued, b pending"],
    );
}

#[test]
fn a_step_that_was_lost_is_settled_in_a_job_that_goes_on() {
    let lost = "go a; lost a; next";
    goes_on(
        "a -> b",
        lost,
        resolved("succeeded"),
        false,
        expect![[r#"job pending, a success {"sha":"by hand"}, b queued"#]],
    );
    goes_on("a -> b", lost, resolved("failed"), false, expect!["job failed, a failed (resolved), b skipped"]);
    goes_on("a -> b", lost, resolved("late"), false, expect![[r#"job pending, a success {"sha":"abc"}, b queued"#]]);
    // Others that failed stay as they are: each is settled by a word of its own.
    let both = "go a; go x; lost a; lost x; next";
    goes_on(
        "a -> b, x",
        both,
        resolved("succeeded"),
        false,
        expect![[r#"job pending, a success {"sha":"by hand"}, b queued, x failed (worker_lost)"#]],
    );
    // Nobody's word is taken for a step that was called off: it is asked for again.
    goes_on(
        "a, x[approve]",
        "go a; reject x; lost a; next",
        resolved("succeeded"),
        false,
        expect![[r#"job held, a success {"sha":"by hand"}, x held"#]],
    );
}

/// It is settled as it is, so that all that led to it stays as it was: near or far, and however it ended.
#[test]
fn what_led_to_a_settled_step_stands() {
    goes_on(
        "a, f -> x, x -skipped-> y -> a",
        "go f; end f 1; go y; end y 0; go a; lost a; next",
        resolved("succeeded"),
        false,
        expect![[
            r#"job failed, a success {"sha":"by hand"}, f failed (exit_code), x skipped, y success {"sha":"abc"}"#
        ]],
    );
}

#[test]
fn what_may_still_run_is_not_run_in_another_job_either() {
    let lost = "go a; lost a; next";
    goes_on("a -> b", lost, resolved("rerun"), false, expect!["refused: a may still run"]);
    goes_on("a -> b", lost, resolved("rerun"), true, expect!["job pending, a queued, b pending"]);
    goes_on("a -> b", lost, Continuation::FromFailed, false, expect!["refused: a may still run"]);
    goes_on("a -> b", lost, Continuation::Anew, false, expect!["refused: a may still run"]);
    // Called off while it was cut off: its window must be over before it may be repeated.
    goes_on(
        "a[effects:none]",
        "go a; lost a; cancel",
        Continuation::FromFailed,
        false,
        expect!["refused: a may still run"],
    );
    goes_on(
        "a[effects:none]",
        "go a; lost a; cancel; pass 2m",
        Continuation::FromFailed,
        false,
        expect!["job pending, a queued"],
    );
    // Once its lease is over nothing of it runs; without one, no silence is long enough for what writes.
    let cut = "go a; lost a; cancel; pass 2m";
    goes_on("a[stop]", cut, Continuation::FromFailed, false, expect!["job pending, a queued"]);
    goes_on("a", cut, Continuation::FromFailed, false, expect!["refused: a may still run"]);
}

#[test]
fn a_word_on_one_step_says_nothing_of_another_that_may_still_run() {
    let cut = "go a; go b; lost a; lost b; cancel";
    goes_on("a, b", cut, resolved("succeeded"), false, expect!["refused: b may still run"]);
    let cut = "go a[0]; go a[1]; lost a[0]; lost a[1]; cancel";
    let of_item = Continuation::Resolved(Box::new(resolve(StepIx(1), AttemptId(Uuid::nil()), "succeeded", false)));
    goes_on("a[each:2]", cut, of_item, false, expect!["refused: a[1] may still run"]);
}

#[test]
fn only_a_job_that_has_ended_is_continued() {
    goes_on(
        "a",
        "go a",
        Continuation::Anew,
        true,
        expect!["refused: the job is running, and only one that has ended can be continued"],
    );
}

#[test]
fn of_a_fan_out_only_what_did_not_end_well_is_done_again() {
    let story = "go a; end a 0; go b[0]; end b[0] 0; go b[1]; end b[1] 1; go b[2]; end b[2] 0";
    goes_on(
        "a -> b[each:3] -> c",
        story,
        Continuation::FromFailed,
        true,
        expect![[
            r#"job pending, a success {"sha":"abc"}, b running, c pending, b[0] success {"sha":"abc"}, b[1] queued, b[2] success {"sha":"abc"}"#
        ]],
    );
    goes_on(
        "a -> b[each:3] -> c",
        story,
        Continuation::Anew,
        true,
        expect!["job pending, a queued, b pending, c pending"],
    );
    // Its list may be another one.
    goes_on(
        "a[allow_failure], a -> b[each:2]",
        "go a; end a 1; cancel",
        Continuation::FromFailed,
        true,
        expect!["job pending, a failed (exit_code), b running, b[0] queued, b[1] queued"],
    );
    goes_on(
        "a, b[each:2], a -> c[if:always()]",
        "go a; end a 1; go b[0]; end b[0] 0; go b[1]; end b[1] 0; go c; end c 0",
        Continuation::FromFailed,
        true,
        expect![[
            r#"job pending, a queued, b success [{"sha":"abc"},{"sha":"abc"}], c pending, b[0] success {"sha":"abc"}, b[1] success {"sha":"abc"}"#
        ]],
    );
    let of_item = |how: &str| Continuation::Resolved(Box::new(resolve(StepIx(4), AttemptId(Uuid::nil()), how, false)));
    goes_on(
        "a -> b[each:3] -> c",
        story,
        of_item("succeeded"),
        true,
        expect![[
            r#"job pending, a success {"sha":"abc"}, b success [{"sha":"abc"},{"sha":"by hand"},{"sha":"abc"}], c queued, b[0] success {"sha":"abc"}, b[1] success {"sha":"by hand"}, b[2] success {"sha":"abc"}"#
        ]],
    );
    goes_on(
        "a -> b[each:3] -> c",
        story,
        of_item("rerun"),
        true,
        expect![[
            r#"job pending, a success {"sha":"abc"}, b running, c pending, b[0] success {"sha":"abc"}, b[1] queued, b[2] success {"sha":"abc"}"#
        ]],
    );
    goes_on(
        "a -> b[each:3] -> c",
        story,
        of_item("failed"),
        true,
        expect![[
            r#"job failed, a success {"sha":"abc"}, b failed (resolved), c skipped, b[0] success {"sha":"abc"}, b[1] failed (resolved), b[2] success {"sha":"abc"}"#
        ]],
    );
    let of_all = |how: &str| Continuation::Resolved(Box::new(resolve(StepIx(1), AttemptId(Uuid::nil()), how, false)));
    goes_on(
        "a -> b[each:3] -> c",
        story,
        of_all("succeeded"),
        true,
        expect![[r#"job pending, a success {"sha":"abc"}, b success {"sha":"by hand"}, c queued"#]],
    );
    goes_on(
        "a -> b[each:3] -> c",
        story,
        of_all("rerun"),
        true,
        expect![[
            r#"job pending, a success {"sha":"abc"}, b running, c pending, b[0] success {"sha":"abc"}, b[1] queued, b[2] success {"sha":"abc"}"#
        ]],
    );
    goes_on(
        "a -> b[each:3] -> c",
        story,
        of_all("failed"),
        true,
        expect![[r#"job failed, a success {"sha":"abc"}, b failed (resolved), c skipped"#]],
    );
    // An item that may still run.
    let cut = "go a[0]; lost a[0]; cancel";
    goes_on("a[each:2]", cut, Continuation::FromFailed, false, expect!["refused: a[0] may still run"]);
    let by_hand = Continuation::Resolved(Box::new(resolve(StepIx(0), AttemptId(Uuid::nil()), "succeeded", false)));
    goes_on("a[each:2]", cut, by_hand, false, expect![[r#"job success, a success {"sha":"by hand"}"#]]);
    // What waits for a reviewer keeps what it has, and gives it up with itself.
    let story = "approve b; go b[0]; end b[0] 0; go b[1]; end b[1] 1";
    goes_on(
        "b[each:2 reviewers:1]",
        story,
        Continuation::FromFailed,
        true,
        expect![[r#"job held, b held, b[0] success {"sha":"abc"}, b[1] pending"#]],
    );
    let story = "cancel; go b[0]; end b[0] 0; go b[1]; end b[1] 1";
    goes_on(
        "a[unmatched:wait] -cancelled-> b[each:2 if:cancelled()]",
        story,
        Continuation::Resolved(Box::new(resolve(StepIx(3), AttemptId(Uuid::nil()), "rerun", false))),
        true,
        expect![[r#"job cancelled, a cancelled (cancelled), b skipped, b[0] success {"sha":"abc"}, b[1] skipped"#]],
    );
}

/// A failure that is allowed is one of a step that ran: what fell with its job is still to be done.
#[test]
fn what_failed_with_its_job_is_done_after_all() {
    let expired = "pass 60s; check job";
    goes_on(
        "a[allow_failure unmatched:wait] -> b, c[each:2 allow_failure unmatched:wait], expires:60s",
        expired,
        Continuation::FromFailed,
        true,
        expect!["job pending, a queued, b pending, c running, c[0] queued, c[1] queued"],
    );
    goes_on(
        "a[unmatched:wait], b[allow_failure unmatched:wait], expires:60s",
        expired,
        resolved("succeeded"),
        true,
        expect![[r#"job pending, a success {"sha":"by hand"}, b queued"#]],
    );
    goes_on(
        "a[allow_failure], group:g, expires:60s",
        expired,
        Continuation::FromFailed,
        true,
        expect!["job pending, a pending"],
    );
}

/// What somebody settled before the job expired is settled.
#[test]
fn what_was_settled_in_a_job_that_expired_stays_so() {
    let mut world = world("a[allow_failure unmatched:wait], b[unmatched:wait], expires:60s", "pass 60s; check job");
    go_on_as(&mut world, 2, &resolved("failed"));
    world.pass(std::time::Duration::from_secs(60));
    let check = event(&mut world, &["check", "job"]);
    world.play(&check).expect("it is due");
    expect!["job pending, a failed (resolved), b queued"].assert_eq(&told(&world, &Continuation::FromFailed, true));
}

/// In a job that went on for another, they were skipped as their step was rejected: they have not ended well.
#[test]
fn items_of_a_step_that_did_not_begin_are_done_after_all() {
    let mut world = world("b[each:2 reviewers:1]", "approve b; go b[0]; end b[0] 0; go b[1]; end b[1] 1");
    go_on_as(&mut world, 2, &Continuation::FromFailed);
    let reject = event(&mut world, &["reject", "b"]);
    world.play(&reject).expect("it is held");
    expect![[r#"job held, b held, b[0] success {"sha":"abc"}, b[1] pending"#]].assert_eq(&told(
        &world,
        &Continuation::FromFailed,
        true,
    ));
    go_on_as(&mut world, 3, &Continuation::FromFailed);
    let approve = event(&mut world, &["approve", "b"]);
    world.play(&approve).expect("it is held");
    assert_eq!(world.job.step(StepIx(2)).state.name(), StateName::Queued, "the one that failed is to run");
}

/// They are those of a list that other inputs may make another one.
#[test]
fn a_list_is_made_anew_where_all_is() {
    let story = "approve b; go b[0]; end b[0] 0; go b[1]; end b[1] 1";
    goes_on("b[each:2 reviewers:1]", story, Continuation::Anew, true, expect!["job held, b held"]);
}

/// A step that was settled beside it says nothing of them: a job further on still knows which of them ended well.
#[test]
fn items_go_on_with_a_step_that_stands() {
    let story = "go a; end a 1; go b[0]; end b[0] 0; go b[1]; end b[1] 1; go b[2]; end b[2] 0";
    let mut beside = world("a, b[each:3]", story);
    go_on_as(&mut beside, 2, &resolved("succeeded"));
    assert_eq!(beside.job.header.state, JobState::Failed);
    let counts = beside.job.header.counts;
    assert_eq!((counts.get(StateName::Success), counts.get(StateName::Failed), counts.open()), (3, 2, 0));
    expect![[
        r#"job pending, a success {"sha":"by hand"}, b running, b[0] success {"sha":"abc"}, b[1] queued, b[2] success {"sha":"abc"}"#
    ]]
    .assert_eq(&told(&beside, &Continuation::FromFailed, true));
    // One of them can be settled there, too.
    expect![[
        r#"job success, a success {"sha":"by hand"}, b success [{"sha":"abc"},{"sha":"by hand"},{"sha":"abc"}], b[0] success {"sha":"abc"}, b[1] success {"sha":"by hand"}, b[2] success {"sha":"abc"}"#
    ]]
    .assert_eq(&told(&beside, &of_step(&beside, "b[1]", "succeeded"), true));
    // The other way round.
    let mut beside = world("a, b[each:3]", story);
    let of_item = of_step(&beside, "b[1]", "succeeded");
    go_on_as(&mut beside, 2, &of_item);
    expect![[
        r#"job pending, a queued, b success [{"sha":"abc"},{"sha":"by hand"},{"sha":"abc"}], b[0] success {"sha":"abc"}, b[1] success {"sha":"by hand"}, b[2] success {"sha":"abc"}"#
    ]]
    .assert_eq(&told(&beside, &Continuation::FromFailed, true));
}

/// They stay as they ended, those too that were called off with another: nothing of them begins where their step stands.
#[test]
fn items_of_a_step_that_stands_begin_nothing() {
    let story = "go a; end a 1; go b[0]; end b[0] 1";
    let mut beside = world("a, b[each:3 parallel:1 fail_fast]", story);
    expect![[r#"job failed, a success {"sha":"by hand"}, b failed (exit_code), b[0] failed (exit_code), b[1] cancelled (cancelled), b[2] cancelled (cancelled)"#]]
    .assert_eq(&told(&beside, &resolved("succeeded"), true));
    go_on_as(&mut beside, 2, &resolved("succeeded"));
    expect![[r#"job pending, a success {"sha":"by hand"}, b running, b[0] queued, b[1] pending, b[2] pending"#]]
        .assert_eq(&told(&beside, &Continuation::FromFailed, true));
}

#[test]
fn items_that_other_jobs_do_go_on_with_their_step() {
    let story = "go a; end a 1; child b[0] ok; child b[1] failed";
    let mut beside = world("a, b[each:2 child:{item}]", story);
    go_on_as(&mut beside, 2, &resolved("succeeded"));
    expect![[
        r#"job running, a success {"sha":"by hand"}, b running, b[0] success {"work":{"sha":"abc"}}, b[1] running"#
    ]]
    .assert_eq(&told(&beside, &Continuation::FromFailed, true));
}

/// A job that goes on has them where the one before had them, in whatever order their lists came up.
#[test]
fn items_keep_their_places() {
    let story = "go x; go b[0]; end b[0] 1; go b[1]; end b[1] 0; end x 0; go a[0]; end a[0] 0; go a[1]; end a[1] 1; go c; end c 1";
    let mut late = world("x -> a[each:2], b[each:2], c", story);
    let of_c = of_step(&late, "c", "succeeded");
    let names =
        |world: &World| (0..world.job.steps.len()).map(|ix| world.job.name(StepIx::of(ix)).into_owned()).collect();
    let before: Vec<String> = names(&late);
    go_on_as(&mut late, 2, &of_c);
    let after: Vec<String> = names(&late);
    assert_eq!(after, before);
}

/// The files of a fan-out are those of its items.
#[test]
fn items_that_left_files_go_on_with_their_step() {
    let story = "go a[0]; end a[0] files; go a[1]; end a[1] files; go b; end b 1";
    goes_on(
        "a[each:2 leaves:out] -> b[fetch:a]",
        story,
        Continuation::FromFailed,
        true,
        expect![[
            r#"job pending, a success [{"sha":"abc"},{"sha":"abc"}], b queued, a[0] success {"sha":"abc"}, a[1] success {"sha":"abc"}"#
        ]],
    );
}

fn resolved(how: &str) -> Continuation {
    Continuation::Resolved(Box::new(resolve(StepIx(0), AttemptId(Uuid::nil()), how, false)))
}

fn of_step(world: &World, name: &str, how: &str) -> Continuation {
    let found = (0..world.job.steps.len()).map(StepIx::of).find(|ix| world.job.name(*ix) == name);
    let ix = found.expect("there is a step of this name");
    Continuation::Resolved(Box::new(resolve(ix, AttemptId(Uuid::nil()), how, false)))
}

/// Plays `story`, continues its job, and tells what the new one looks like.
#[expect(clippy::needless_pass_by_value, reason = "`expect!` and a continuation are made in the call")]
fn goes_on(graph: &str, story: &str, how: Continuation, confirmed: bool, expected: Expect) {
    let world = world(graph, story);
    expected.assert_eq(&told(&world, &how, confirmed));
}

/// The story goes on in the job that goes on.
fn go_on_as(world: &mut World, id: u128, how: &Continuation) {
    let id = JobId(Uuid::from_u128(id));
    world.job = carry_on(id, &world.job, how, false, &|_| None, "bob".into(), &world.ctx()).expect("it has ended").0;
}

fn told(world: &World, how: &Continuation, confirmed: bool) -> String {
    let Clocks { now, heard, verdicts_from } = world.clocks();
    let ctx = Ctx { now, heard, verdicts_from, random: 0, rules: &world.rules, workers: &(), evaluator: &Toy };
    let ended_at: Option<Time> = world.job.header.ended_at;
    let last = |ix: StepIx| (world.job.step(ix).attempts > 0).then_some(LastAttempt { confirmed, ended_at });
    let confirm_dead = false;
    let made = carry_on(JobId(Uuid::from_u128(2)), &world.job, how, confirm_dead, &last, "bob".into(), &ctx);
    let (job, changes) = match made {
        Ok(made) => made,
        Err(Rejection::MayStillRun { steps }) => {
            let names: Vec<_> = steps.iter().map(|ix| world.job.name(*ix)).collect();
            return format!("refused: {} may still run", names.join(", "));
        }
        Err(rejection) => return format!("refused: {rejection}"),
    };
    assert_eq!(changes.steps.len(), job.steps.len(), "every row of a new job is written");
    let mut text = format!("job {}", job.header.state);
    for (index, step) in job.steps.iter().enumerate() {
        let _ = write!(text, ", {} {}", job.name(StepIx::of(index)), step.state.name());
        if !step.output.is_null() {
            let _ = write!(text, " {}", step.output);
        }
        if let Some(error) = &step.error {
            let _ = write!(text, " ({})", error.kind.code());
        }
    }
    text
}
