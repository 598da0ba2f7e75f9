//! What people are told: one story per state, and the whole answer.

mod others;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use engine::event::Event;
use engine::why::{LineView, LooseEnd, MatchView, PauseView, Refusal, Roster, WorkerView, why};
use engine::workers::Unwilling;
use engine::{Clocks, Continuation, Ctx, JobId, JobState, Origin, StepIx, Time, WorkerId, carry_on};
use expect_test::{Expect, expect};
use uuid::Uuid;

use crate::support::script::world;
use crate::support::toy::Toy;
use crate::support::world::{START, World};

/// A fleet with one known worker, and an answer about tags.
#[derive(Clone, Default)]
struct Fleet {
    host: Option<&'static str>,
    cut_off: bool,
    removed: bool,
    paused: bool,
    supply: MatchView,
    loose_ends: Vec<LooseEnd>,
    runner_seen: Option<Time>,
    carries_files: bool,
    line: Option<LineView>,
    origin: Option<Origin>,
    child: Option<JobState>,
}

impl Roster for Fleet {
    fn child(&self, _step: StepIx) -> Option<JobState> {
        self.child
    }

    fn origin(&self, _step: StepIx) -> Option<Origin> {
        self.origin.clone()
    }

    fn worker(&self, id: WorkerId) -> Option<WorkerView> {
        let known = id == WorkerId(Uuid::from_u128(1)) && !self.removed;
        known.then(|| WorkerView {
            name: "build-1".to_owned(),
            host: self.host.unwrap_or("rack7").to_owned(),
            connected: !self.cut_off,
            last_seen: Some(START + Duration::from_secs(1)),
        })
    }

    fn matching(&self, _tags: &[Arc<str>]) -> MatchView {
        self.supply.clone()
    }

    fn loose_ends(&self, _step: StepIx) -> Vec<LooseEnd> {
        self.loose_ends.clone()
    }

    fn pause(&self) -> Option<PauseView> {
        self.paused.then(|| PauseView { since: START, by: "ann".to_owned() })
    }

    fn runner_seen(&self, _step: StepIx) -> Option<Time> {
        self.runner_seen
    }

    fn carries_files(&self, _step: StepIx) -> bool {
        self.carries_files
    }

    fn line(&self) -> Option<LineView> {
        self.line.clone()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a value, and a call reads better without `&`")]
fn check(graph: &str, story: &str, expected: Expect) {
    expected.assert_eq(&told(&world(graph, story), &Fleet::default()));
}

fn told(world: &World, fleet: &Fleet) -> String {
    let at = |time: Time| format!("{}s", time.since(START).as_secs_f64());
    let answer = why(&world.job, fleet, &world.clocks());
    let mut text = format!("{}\n", answer.summary);
    for step in answer.steps {
        let seen = step.last_sign_of_life.map_or("never".to_owned(), at);
        let _ = writeln!(text, "{} is {}; owner: {}; seen: {seen}", step.name, step.state, step.owner);
        let _ = writeln!(text, "  {}", step.reason);
        if let Some(next) = step.next {
            let _ = writeln!(text, "  at {}: {}", at(next.at), next.action);
        }
    }
    text
}

fn supply(graph: &str, story: &str, supply: MatchView) -> String {
    let world = world(graph, story);
    why(&world.job, &Fleet { supply, ..Fleet::default() }, &world.clocks()).steps[0].reason.clone()
}

#[test]
fn pending() {
    check(
        "a -> c, b -> c",
        "go a; end a 0",
        expect![[r#"
        The job is running, 3 steps: 1 pending, 1 queued, 1 success. Step `b`: no worker is connected; it needs tags [script]; fails as unmatched in 30s.
        a is success; owner: nobody: it is over; seen: 0s
          it ended well in attempt 1
        c is pending; owner: step `b`; seen: never
          waits for `b` (queued)
          at 3600s: look again
        b is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s
          at 30s: fail it as unmatched, unless a worker has its tags
    "#]],
    );
}

#[test]
fn pending_on_many() {
    check(
        "a -> z, b -> z, c -> z, d -> z, e -> z, f -> z",
        "",
        expect![[r#"
        The job has not started, 7 steps: 1 pending, 6 queued. Step `a`: no worker is connected; it needs tags [script]; fails as unmatched in 30s.
        a is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s
          at 30s: fail it as unmatched, unless a worker has its tags
        z is pending; owner: steps `a`, `b`, `c`, `d` and 2 more; seen: never
          waits for `a` (queued), `b` (queued), `c` (queued), `d` (queued) and 2 more
          at 3600s: look again
        b is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s
          at 30s: fail it as unmatched, unless a worker has its tags
        c is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s
          at 30s: fail it as unmatched, unless a worker has its tags
        d is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s
          at 30s: fail it as unmatched, unless a worker has its tags
        e is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s
          at 30s: fail it as unmatched, unless a worker has its tags
        f is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s
          at 30s: fail it as unmatched, unless a worker has its tags
    "#]],
    );
}

#[test]
fn pending_after_a_cancel() {
    check(
        "a -> b[if:always()]",
        "go a; cancel",
        expect![[r#"
        The job is being cancelled by ann, 2 steps: 1 pending, 1 cancelling. Step `a`: cancelled by ann; worker build-1 (rack7) was told to stop attempt 1.
        a is cancelling; owner: worker build-1; seen: 1s
          cancelled by ann; worker build-1 (rack7) was told to stop attempt 1
          at 40s: end it without the worker's answer
        b is pending; owner: step `a`; seen: never
          waits for `a` (cancelling); then `if: always()` decides, although the job is cancelled
          at 3600s: look again
    "#]],
    );
}

#[test]
fn offered() {
    check(
        "a",
        "pass 2s; offer a; pass 3s",
        expect![[r#"
        The job has not started, 1 step: 1 queued. Step `a`: offered to worker build-1 (rack7) 3s ago.
        a is queued; owner: worker build-1; seen: 1s
          offered to worker build-1 (rack7) 3s ago
          at 12s: take the offer back and find another worker
    "#]],
    );
}

#[test]
fn offered_again_later() {
    check(
        "a",
        "offer a; next; offer a; next",
        expect![[r#"
        The job has not started, 1 step: 1 queued. Step `a`: 2 offers in a row stayed unanswered; offered again in 1s.
        a is queued; owner: the dispatcher; seen: never
          2 offers in a row stayed unanswered; offered again in 1s
          at 21s: look again
    "#]],
    );
}

/// A host is named where it says more than the name.
#[test]
fn workers_and_their_hosts() {
    let world = world("a", "offer a");
    let reason = |host| why(&world.job, &Fleet { host, ..Fleet::default() }, &world.clocks()).steps[0].reason.clone();
    assert_eq!(reason(Some("rack7")), "offered to worker build-1 (rack7) just now");
    assert_eq!(reason(Some("build-1")), "offered to worker build-1 just now");
    assert_eq!(reason(Some("")), "offered to worker build-1 just now");
}

/// What a timer brings depends on what it is for.
#[test]
fn what_a_timer_brings() {
    let next = |graph, story| {
        let world = world(graph, story);
        let told = why(&world.job, &Fleet::default(), &world.clocks());
        told.steps[0].next.clone().expect("it waits").action
    };
    assert_eq!(next("a[wait:5s]", ""), "queue it");
    assert_eq!(next("a[wait:5s reviewers:1]", ""), "ask for approval");
    assert_eq!(next("a[reviewers:1 retry:2 delay:5s]", "approve a; go a; end a 1"), "queue it");
}

/// In a job that goes on for another: what was taken over never ran there.
#[test]
fn taken_over() {
    let mut world = world("a -> b", "go a; end a 0; go b; end b 1");
    let Clocks { now, heard, verdicts_from } = world.clocks();
    let ctx = Ctx { now, heard, verdicts_from, random: 0, rules: &world.rules, workers: &(), evaluator: &Toy };
    let next = carry_on(
        JobId(Uuid::from_u128(2)),
        &world.job,
        &Continuation::FromFailed,
        false,
        &|_| None,
        "bob".into(),
        &ctx,
    );
    world.job = next.expect("it has ended").0;
    let told = why(&world.job, &Fleet::default(), &world.clocks());
    assert_eq!(told.steps[0].reason, "it was taken over, or settled by hand");
    let known = |origin: Origin| {
        let fleet = Fleet { origin: Some(origin), ..Fleet::default() };
        why(&world.job, &fleet, &world.clocks()).steps[0].reason.clone()
    };
    let origin = Origin::TakenOver(JobId(Uuid::from_u128(7)));
    assert_eq!(known(origin), "it was taken over from job 00000000-0000-0000-0000-000000000007");
    let settled = |how: &str| known(Origin::Settled { how: how.to_owned(), by: "ann".to_owned() });
    assert_eq!(settled("succeeded"), "it was settled by hand: ann resolved it as succeeded");
    assert_eq!(settled("accept_late"), "it was settled by hand: ann took its late end");
}

#[test]
fn origins_are_read_as_they_are_written() {
    let settled = |how: &str, by: &str| Origin::Settled { how: how.to_owned(), by: by.to_owned() };
    let origins =
        [Origin::TakenOver(JobId(Uuid::from_u128(7))), settled("failed", "ann"), settled("succeeded", "x by y")];
    for origin in origins {
        assert_eq!(Origin::of_reason(&origin.to_string()), Some(origin));
    }
    for other in ["", "taken over from job nowhere", "resolved", "exit code 1"] {
        assert_eq!(Origin::of_reason(other), None, "{other}");
    }
}

/// Once its time has come it waits for a worker like any other.
#[test]
fn offered_again_now() {
    for story in ["offer a; next", "offer a; next; offer a; next; pass 2s"] {
        let reason = supply("a", story, MatchView { matching: 1, slots: 2, ..MatchView::default() });
        assert_eq!(reason, "waits for a worker with tags [script]: 1 matches (0 of 2 slots taken)", "{story}");
    }
}

#[test]
fn queued_for_a_retry() {
    check(
        "a[retry:3]",
        "go a; end a 1; next",
        expect![[r#"
        The job is running, 1 step: 1 queued. Step `a`: no worker is connected; it needs tags [script]; fails as unmatched in 30s; execution 2 of 3, after: Step `a` exited with code 1.
        a is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s; execution 2 of 3, after: Step `a` exited with code 1
          at 30s: fail it as unmatched, unless a worker has its tags
    "#]],
    );
}

#[test]
fn queued_after_a_loss() {
    check(
        "a[effects:none]",
        "go a; gone a runner",
        expect![[r#"
        The job is running, 1 step: 1 queued. Step `a`: no worker is connected; it needs tags [script]; fails as unmatched in 30s; its worker was lost 1 time before.
        a is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s; its worker was lost 1 time before
          at 30s: fail it as unmatched, unless a worker has its tags
    "#]],
    );
}

#[test]
fn running() {
    check(
        "a",
        "go a; pass 182s",
        expect![[r#"
        The job is running, 1 step: 1 running. Step `a`: attempt 1 has been running on worker build-1 (rack7) for 3m 2s.
        a is running; owner: worker build-1; seen: 1s
          attempt 1 has been running on worker build-1 (rack7) for 3m 2s
          at 3600s: look again
    "#]],
    );
}

#[test]
fn running_with_a_timeout() {
    check(
        "a[timeout:20m]",
        "go a; pass 5m",
        expect![[r#"
        The job is running, 1 step: 1 running. Step `a`: attempt 1 has been running on worker build-1 (rack7) for 5m; its timeout of 20m is over in 15m.
        a is running; owner: worker build-1; seen: 1s
          attempt 1 has been running on worker build-1 (rack7) for 5m; its timeout of 20m is over in 15m
          at 1201s: tell the worker to stop it: its timeout is over
    "#]],
    );
}

#[test]
fn recovering() {
    check(
        "a",
        "go a; pass 60s; lost a; pass 30s",
        expect![[r#"
        The job waits for a worker that is cut off, 1 step: 1 recovering. Step `a`: the link to worker build-1 (rack7) was lost 30s ago and attempt 1 may still run there; the recovery window is over in 1m 30s.
        a is recovering; owner: worker build-1; seen: 60s
          the link to worker build-1 (rack7) was lost 30s ago and attempt 1 may still run there; the recovery window is over in 1m 30s
          at 180s: fail it as `worker_lost`: it may have run, and its effects forbid a repeat
    "#]],
    );
}

#[test]
fn cancelling() {
    check(
        "a[grace:20s]",
        "go a; cancel; pass 5s",
        expect![[r#"
        The job is being cancelled by ann, 1 step: 1 cancelling. Step `a`: cancelled by ann; worker build-1 (rack7) was told to stop attempt 1.
        a is cancelling; owner: worker build-1; seen: 1s
          cancelled by ann; worker build-1 (rack7) was told to stop attempt 1
          at 30s: end it without the worker's answer
    "#]],
    );
}

#[test]
fn cancelling_with_a_cleanup() {
    check(
        "a[grace:20s cleanup:90s]",
        "go a; cancel; pass 5s",
        expect![[r#"
        The job is being cancelled by ann, 1 step: 1 cancelling. Step `a`: cancelled by ann; worker build-1 (rack7) was told to stop attempt 1: it has 20s to end (15s left); as soon as it is gone its cleanup runs, for 1m 30s at most, and the log says when it begins.
        a is cancelling; owner: worker build-1; seen: 1s
          cancelled by ann; worker build-1 (rack7) was told to stop attempt 1: it has 20s to end (15s left); as soon as it is gone its cleanup runs, for 1m 30s at most, and the log says when it begins
          at 120s: end it without the worker's answer
    "#]],
    );
    check(
        "a[grace:20s cleanup:90s]",
        "go a; cancel; pass 25s",
        expect![[r#"
        The job is being cancelled by ann, 1 step: 1 cancelling. Step `a`: cancelled by ann; worker build-1 (rack7) was told to stop attempt 1: its 20s to end are over, so by now its cleanup should be running, for 1m 30s at most; the log says when it began.
        a is cancelling; owner: worker build-1; seen: 1s
          cancelled by ann; worker build-1 (rack7) was told to stop attempt 1: its 20s to end are over, so by now its cleanup should be running, for 1m 30s at most; the log says when it began
          at 120s: end it without the worker's answer
    "#]],
    );
    check(
        "a[grace:20s cleanup:90s]",
        "go a; cancel; pass 5s; force",
        expect![[r#"
        The job is being cancelled by ann, 1 step: 1 cancelling. Step `a`: cancelled by ann; worker build-1 (rack7) was told to stop attempt 1, at once.
        a is cancelling; owner: worker build-1; seen: 1s
          cancelled by ann; worker build-1 (rack7) was told to stop attempt 1, at once
          at 15s: end it without the worker's answer
    "#]],
    );
}

#[test]
fn cancelling_for_a_timeout() {
    check(
        "a[timeout:5s grace:20s]",
        "go a; next",
        expect![[r#"
        The job is running, 1 step: 1 cancelling. Step `a`: its timeout is over; worker build-1 (rack7) was told to stop attempt 1.
        a is cancelling; owner: worker build-1; seen: 1s
          its timeout is over; worker build-1 (rack7) was told to stop attempt 1
          at 36s: end it without the worker's answer
    "#]],
    );
}

#[test]
fn cancelling_for_the_jobs_timeout() {
    check(
        "a, timeout:60s",
        "go a; next",
        expect![[r#"
        The job is being cancelled by the job's timeout, 1 step: 1 cancelling. Step `a`: the job's timeout is over; worker build-1 (rack7) was told to stop attempt 1.
        a is cancelling; owner: worker build-1; seen: 1s
          the job's timeout is over; worker build-1 (rack7) was told to stop attempt 1
          at 100s: end it without the worker's answer
    "#]],
    );
}

#[test]
fn cancelling_while_cut_off() {
    check(
        "a",
        "go a; cancel; pass 5s; lost a; pass 5s",
        expect![[r#"
        The job is being cancelled by ann, 1 step: 1 cancelling. Step `a`: cancelled by ann; worker build-1 (rack7) was told to stop attempt 1, but its link was lost 5s ago.
        a is cancelling; owner: worker build-1; seen: 5s
          cancelled by ann; worker build-1 (rack7) was told to stop attempt 1, but its link was lost 5s ago
          at 40s: end it without the worker's answer
    "#]],
    );
}

#[test]
fn held() {
    check(
        "a[approve hold:1h]",
        "pass 5m",
        expect![[r#"
        Only a person can move the job on, 1 step: 1 held. Step `a`: has waited 5m for approval.
        a is held; owner: a person; seen: never
          has waited 5m for approval; the hold expires in 55m
          at 3600s: cancel it: nobody approved it in time
    "#]],
    );
    check(
        "a[approve hold:24h]",
        "pass 5m",
        expect![[r#"
        Only a person can move the job on, 1 step: 1 held. Step `a`: has waited 5m for approval.
        a is held; owner: a person; seen: never
          has waited 5m for approval; the hold expires in 23h 55m
          at 3600s: look again
    "#]],
    );
}

#[test]
fn held_for_two() {
    check(
        "a[reviewers:2]",
        "",
        expect![[r#"
        Only a person can move the job on, 1 step: 1 held. Step `a`: has waited 0s for 2 approvals.
        a is held; owner: a person; seen: never
          has waited 0s for 2 approvals
          at 3600s: look again
    "#]],
    );
}

#[test]
fn held_since_the_database_was_restored() {
    check(
        "a",
        "restored; pass 5m",
        expect![[r#"
        Only a person can move the job on, 1 step: 1 held. Step `a`: has waited 5m for approval; the database was restored: it may have run in the time that is lost. `bowline approve 00000000-0000-0000-0000-000000000001 a` runs it, `bowline resolve 00000000-0000-0000-0000-000000000001 a --succeeded` or `--failed` says what became of it.
        a is held; owner: a person; seen: never
          has waited 5m for approval; the database was restored: it may have run in the time that is lost. `bowline approve 00000000-0000-0000-0000-000000000001 a` runs it, `bowline resolve 00000000-0000-0000-0000-000000000001 a --succeeded` or `--failed` says what became of it
          at 3600s: look again
    "#]],
    );
    check(
        "a",
        "go a; restored",
        expect![[r#"
        Only a person can move the job on, 1 step: 1 held. Step `a`: has waited 0s for approval; the database was restored: attempt 1 was under way on worker build-1 (rack7), and may still be. `bowline resolve 00000000-0000-0000-0000-000000000001 a --rerun --confirm-dead` runs it, `bowline resolve 00000000-0000-0000-0000-000000000001 a --succeeded` or `--failed` says what became of it.
        a is held; owner: a person; seen: never
          has waited 0s for approval; the database was restored: attempt 1 was under way on worker build-1 (rack7), and may still be. `bowline resolve 00000000-0000-0000-0000-000000000001 a --rerun --confirm-dead` runs it, `bowline resolve 00000000-0000-0000-0000-000000000001 a --succeeded` or `--failed` says what became of it
          at 3600s: look again
    "#]],
    );
}

#[test]
fn waiting_for_a_retry() {
    check(
        "a[retry:3 delay:90s]",
        "go a; end a 1; pass 30s",
        expect![[r#"
        The job is running, 1 step: 1 waiting. Step `a`: execution 2 of 3 is due in 1m, after: Step `a` exited with code 1.
        a is waiting; owner: a timer; seen: never
          execution 2 of 3 is due in 1m, after: Step `a` exited with code 1
          at 90s: queue it
    "#]],
    );
}

#[test]
fn waiting_for_protection() {
    check(
        "a[wait:60s reviewers:1]",
        "pass 10s",
        expect![[r#"
        The job has not started, 1 step: 1 waiting. Step `a`: its environment asks for a wait, over in 50s.
        a is waiting; owner: a timer; seen: never
          its environment asks for a wait, over in 50s
          at 60s: ask for approval
    "#]],
    );
}

#[test]
fn succeeded() {
    check(
        "a[retry:2] -> b",
        "go a; end a 1; next; go a; pass 2s; end a 0; go b; end b 0",
        expect![[r#"
        The job succeeded after 2s, 2 steps: 2 success.
        a is success; owner: nobody: it is over; seen: 2s
          it ended well in attempt 2
        b is success; owner: nobody: it is over; seen: 2s
          it ended well in attempt 1
    "#]],
    );
}

#[test]
fn approved() {
    check(
        "a[approve]",
        "approve a",
        expect![[r#"
        The job succeeded after 0s, 1 step: 1 success.
        a is success; owner: nobody: it is over; seen: 0s
          it was approved
    "#]],
    );
}

#[test]
fn failed_and_skipped() {
    check(
        "a -> b -> c",
        "go a; pass 3s; end a 7",
        expect![[r#"
        The job failed after 3s in step `a`: Step `a` exited with code 7 (exit_code).
        a is failed; owner: nobody: it is over; seen: 3s
          Step `a` exited with code 7 (exit_code)
        b is skipped; owner: nobody: it is over; seen: 3s
          `a` failed
        c is skipped; owner: nobody: it is over; seen: 3s
          `b` was skipped
    "#]],
    );
}

#[test]
fn failed_after_retries() {
    check(
        "a[retry:2]",
        "go a; end a 1; next; go a; end a 1",
        expect![[r#"
        The job failed after 0s in step `a`: Step `a` exited with code 1 (exit_code).
        a is failed; owner: nobody: it is over; seen: 0s
          Step `a` exited with code 1 (exit_code); 2 attempts were made
    "#]],
    );
}

#[test]
fn failed_and_allowed() {
    check(
        "a[allow_failure] -> b",
        "go a; end a 1",
        expect![[r#"
        The job is running, 2 steps: 1 queued, 1 failed. Step `b`: no worker is connected; it needs tags [script]; fails as unmatched in 30s.
        a is failed; owner: nobody: it is over; seen: 0s
          Step `a` exited with code 1 (exit_code); its failure is allowed
        b is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [script]; fails as unmatched in 30s
          at 30s: fail it as unmatched, unless a worker has its tags
    "#]],
    );
}

#[test]
fn skipped_by_condition() {
    check(
        "a -> b[if:failure()]",
        "go a; end a 0",
        expect![[r#"
        The job succeeded after 0s, 2 steps: 1 success, 1 skipped.
        a is success; owner: nobody: it is over; seen: 0s
          it ended well in attempt 1
        b is skipped; owner: nobody: it is over; seen: 0s
          its condition `failure()` is false
    "#]],
    );
}

#[test]
fn skipped_for_a_rejection() {
    check(
        "a[approve] -> b",
        "reject a",
        expect![[r#"
        The job was cancelled after 0s in step `a`: Rejected by ann: no (rejected).
        a is cancelled; owner: nobody: it is over; seen: 0s
          Rejected by ann: no (rejected)
        b is skipped; owner: nobody: it is over; seen: 0s
          `a` was cancelled
    "#]],
    );
}

#[test]
fn skipped_for_a_success() {
    check(
        "a -failed-> b",
        "go a; end a 0",
        expect![[r#"
        The job succeeded after 0s, 2 steps: 1 success, 1 skipped.
        a is success; owner: nobody: it is over; seen: 0s
          it ended well in attempt 1
        b is skipped; owner: nobody: it is over; seen: 0s
          `a` succeeded
    "#]],
    );
}

/// All that it needs is as it asks.
#[test]
fn skipped_with_a_job_that_was_turned_away() {
    check(
        "a -failed-> b, group:release",
        "away",
        expect![[r#"
        The job failed after 0s: there is no room (group_full).
        a is failed; owner: nobody: it is over; seen: 0s
          there is no room (group_full)
        b is skipped; owner: nobody: it is over; seen: 0s
          the job never began
    "#]],
    );
}

#[test]
fn expired() {
    check(
        "a -> b[if:always()], expires:20s",
        "next",
        expect![[r#"
        The job failed after 20s in step `a`: Job failed: it had not started when it expired (expired).
        a is failed; owner: nobody: it is over; seen: 20s
          Job failed: it had not started when it expired (expired)
        b is skipped; owner: nobody: it is over; seen: 20s
          the job expired before it
    "#]],
    );
}

#[test]
fn skipped_by_a_condition_after_a_failure() {
    check(
        "a -> b[if:cancelled()]",
        "go a; end a 1",
        expect![[r#"
        The job failed after 0s in step `a`: Step `a` exited with code 1 (exit_code).
        a is failed; owner: nobody: it is over; seen: 0s
          Step `a` exited with code 1 (exit_code)
        b is skipped; owner: nobody: it is over; seen: 0s
          its condition `cancelled()` is false: `a` failed
    "#]],
    );
}

#[test]
fn cancelled() {
    check(
        "a -> b",
        "go a; cancel; end a cancelled",
        expect![[r#"
        The job was cancelled after 0s: Cancelled by ann (cancelled).
        a is cancelled; owner: nobody: it is over; seen: 0s
          Step `a` was cancelled by ann (cancelled)
        b is cancelled; owner: nobody: it is over; seen: 0s
          Step `b` was cancelled by ann (cancelled)
    "#]],
    );
}

#[test]
fn lost() {
    check(
        "a",
        "go a; lost a; next",
        expect![[r#"
            The job failed after 2m in step `a`: Job failed: agent disconnected and did not reconnect within the recovery window (recovery timeout exceeded): step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:40Z, window of 120s (worker_lost).
            a is failed; owner: nobody: it is over; seen: 120s
              Job failed: agent disconnected and did not reconnect within the recovery window (recovery timeout exceeded): step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:40Z, window of 120s (worker_lost)
        "#]],
    );
}

#[test]
fn unmatched() {
    check(
        "a[tags:gpu]",
        "pass 30s; unmatched a",
        expect![[r#"
        The job failed after 30s in step `a`: No active worker with required tags to run this step: gpu (unmatched).
        a is failed; owner: nobody: it is over; seen: 30s
          No active worker with required tags to run this step: gpu (unmatched)
    "#]],
    );
}

#[test]
fn a_queued_step_says_precisely_what_it_waits_for() {
    let reasons = [
        MatchView { connected: 2, matching: 2, busy: 2, slots: 4, slots_taken: 4, ..MatchView::default() },
        MatchView { connected: 9, matching: 1, busy: 1, slots: 4, slots_taken: 4, ..MatchView::default() },
        MatchView { connected: 5, matching: 5, busy: 5, slots: 20, slots_taken: 20, ..MatchView::default() },
        MatchView { connected: 3, matching: 3, busy: 1, slots: 6, slots_taken: 2, ..MatchView::default() },
        MatchView { connected: 1, matching: 1, slots: 2, ..MatchView::default() },
        MatchView {
            connected: 1,
            matching: 1,
            slots: 8,
            refusals: vec![Refusal { worker: "w1".to_owned(), why: Some("its disk is full".to_owned()) }],
            ..MatchView::default()
        },
        MatchView { connected: 1, away: vec![unwilling("w1", "not connected")], ..MatchView::default() },
        MatchView { away: vec![unwilling("w2", "draining"), unwilling("w1", "draining")], ..MatchView::default() },
        MatchView { connected: 1, missing: vec!["gpu".into()], ..MatchView::default() },
        MatchView { connected: 1, missing: vec!["arm".into(), "gpu".into()], ..MatchView::default() },
        MatchView { connected: 2, ..MatchView::default() },
        MatchView { connected: 1, missing: vec!["(secrets)".into()], ..MatchView::default() },
        MatchView {
            connected: 1,
            missing: vec!["(artifacts)".into(), "(cleanup)".into(), "gpu".into()],
            ..MatchView::default()
        },
        MatchView::default(),
    ];
    let told: Vec<String> = reasons.into_iter().map(|s| supply("a[tags:gpu+script]", "pass 18s", s)).collect();
    expect![[r#"
        waits for a worker with tags [gpu, script]: 2 match, both busy (4 of 4 slots taken)
        waits for a worker with tags [gpu, script]: 1 matches, and it is busy (4 of 4 slots taken)
        waits for a worker with tags [gpu, script]: 5 match, all busy (20 of 20 slots taken)
        waits for a worker with tags [gpu, script]: 3 match, 1 of them busy (2 of 6 slots taken)
        waits for a worker with tags [gpu, script]: 1 matches (0 of 2 slots taken)
        waits for a worker with tags [gpu, script]: 1 matches (0 of 8 slots taken); an offer was refused by worker w1 (its disk is full), to be asked again after a heartbeat
        waits for a worker with tags [gpu, script]: the worker that has them takes no new work: w1 (not connected)
        waits for a worker with tags [gpu, script]: the workers that have them take no new work: w1, w2 (draining)
        no worker has tag `gpu`; fails as unmatched in 12s
        no worker has tags `arm` and `gpu`; fails as unmatched in 12s
        no single worker has all of the tags [gpu, script]; fails as unmatched in 12s
        no worker can be handed secrets: those that are here are of an earlier version; fails as unmatched in 12s
        no worker has tag `gpu`, and none can store and fetch artifacts and clean up after a step; fails as unmatched in 12s
        no worker is connected; it needs tags [gpu, script]; fails as unmatched in 12s"#]]
    .assert_eq(&told.join("\n"));
}

fn unwilling(name: &str, why: &'static str) -> Unwilling {
    Unwilling { why, name: name.to_owned() }
}

#[test]
fn a_patient_step_is_not_said_to_fail() {
    let none = MatchView { connected: 1, missing: vec!["gpu".into()], ..MatchView::default() };
    expect!["no worker has tag `gpu`"].assert_eq(&supply("a[tags:gpu unmatched:wait]", "", none));
}

#[test]
fn a_worker_that_is_cut_off_or_removed_is_named_as_such() {
    let world = world("a", "go a; pass 5s");
    let cut_off = told(&world, &Fleet { cut_off: true, ..Fleet::default() });
    let removed = told(&world, &Fleet { removed: true, ..Fleet::default() });
    expect![[r#"
        The job is running, 1 step: 1 running. Step `a`: attempt 1 has been running on worker build-1 (rack7) for 5s; the worker's link is gone.
        a is running; owner: worker build-1; seen: 1s
          attempt 1 has been running on worker build-1 (rack7) for 5s; the worker's link is gone
          at 3600s: look again
        The job is running, 1 step: 1 running. Step `a`: attempt 1 has been running on worker 00000000-0000-0000-0000-000000000001 (removed) for 5s.
        a is running; owner: worker 00000000-0000-0000-0000-000000000001; seen: 0s
          attempt 1 has been running on worker 00000000-0000-0000-0000-000000000001 (removed) for 5s
          at 3600s: look again
    "#]].assert_eq(&format!("{cut_off}{removed}"));
}

#[test]
fn where_an_operator_decides_the_command_is_named() {
    let mut told_all = String::new();
    for story in ["go a", "offer a"] {
        let mut world = world("a", story);
        world.rules.auto_fail_stale_running = false;
        world.rules.auto_requeue_stale_claimed = false;
        let (ticket, silent) = (world.ticket(world.step_named("a")), Duration::from_secs(300));
        world.play(&Event::FellSilent { ticket, silent, by: None }).expect("it is noted");
        told_all += &told(&world, &Fleet::default());
    }
    expect![[r#"
        The job is running, 1 step: 1 running. Step `a`: attempt 1 has been running on worker build-1 (rack7) for 0s; no sign of life for too long, and here an operator decides: `bowline recover fail`.
        a is running; owner: an operator; seen: 1s
          attempt 1 has been running on worker build-1 (rack7) for 0s; no sign of life for too long, and here an operator decides: `bowline recover fail`
          at 3600s: look again
        The job has not started, 1 step: 1 queued. Step `a`: offered to worker build-1 (rack7) just now; no sign of life for too long, and here an operator decides: `bowline recover requeue`.
        a is queued; owner: an operator; seen: 1s
          offered to worker build-1 (rack7) just now; no sign of life for too long, and here an operator decides: `bowline recover requeue`
          at 10s: take the offer back and find another worker
    "#]].assert_eq(&told_all);
}

/// Whatever the window's end will bring is said before it comes, and comes as it was said.
#[test]
fn the_verdict_is_foretold() {
    let tasks = [
        "a",
        "a[effects:none]",
        "a[stop]",
        "a[stop effects:none]",
        "a[stop retry:2 on:worker_lost]",
        "a[effects:none retry:1 on:worker_lost]",
        "a[retry:2 on:worker_lost]",
    ];
    let mut text = String::new();
    for task in tasks {
        let before = world(task, "go a; lost a");
        let next = why(&before.job, &Fleet::default(), &before.clocks()).steps[0].next.clone().expect("it is open");
        let after = world(task, "go a; lost a; next");
        let _ = writeln!(text, "{task:<39} {:<8} {}", after.job.steps[0].state.name().word(), next.action);
    }
    expect![[r#"
        a                                       failed   fail it as `worker_lost`: it may have run, and its effects forbid a repeat
        a[effects:none]                         queued   queue it again: its effects allow a repeat, unless it lost too many workers
        a[stop]                                 failed   fail it as `worker_lost`: its effects forbid a repeat
        a[stop effects:none]                    queued   queue it again: its effects allow a repeat, unless it lost too many workers
        a[stop retry:2 on:worker_lost]          waiting  try it again: its policy names `worker_lost`
        a[effects:none retry:1 on:worker_lost]  failed   fail it as `worker_lost`: its policy has no attempt left
        a[retry:2 on:worker_lost]               failed   fail it as `worker_lost`: it may have run, and its effects forbid a repeat
    "#]].assert_eq(&text);
}

#[test]
fn a_server_that_could_not_hear_says_that_it_listens_first() {
    check(
        "a, b[tags:gpu]",
        "go a; lost a; pass 100s; deaf 1h 90s; pass 40s",
        expect![[r#"
        The job is running, 2 steps: 1 queued, 1 recovering. Step `a`: the link to worker build-1 (rack7) was lost 1h 2m ago and attempt 1 may still run there; the recovery window is over now; the server could not hear for a while, so it judges no silence before it has listened again, in 50s.
        a is recovering; owner: worker build-1; seen: 0s
          the link to worker build-1 (rack7) was lost 1h 2m ago and attempt 1 may still run there; the recovery window is over now; the server could not hear for a while, so it judges no silence before it has listened again, in 50s
          at 3790s: fail it as `worker_lost`: it may have run, and its effects forbid a repeat
        b is queued; owner: the dispatcher; seen: never
          no worker is connected; it needs tags [gpu]; fails as unmatched in 50s; the server could not hear for a while, so it judges no silence before it has listened again, in 50s
          at 3790s: fail it as unmatched, unless a worker has its tags
    "#]],
    );
}

#[test]
fn a_window_that_was_made_longer_says_why() {
    check(
        "a",
        "go a; lost a; more a; pass 60s",
        expect![[r#"
        The job waits for a worker that is cut off, 1 step: 1 recovering. Step `a`: the link to worker build-1 (rack7) was lost 1m ago and attempt 1 may still run there; the recovery window is over in 3m, longer than usual since most workers were lost at once.
        a is recovering; owner: worker build-1; seen: 0s
          the link to worker build-1 (rack7) was lost 1m ago and attempt 1 may still run there; the recovery window is over in 3m, longer than usual since most workers were lost at once
          at 240s: fail it as `worker_lost`: it may have run, and its effects forbid a repeat
    "#]],
    );
}

#[test]
fn what_a_person_could_settle_is_named() {
    let unconfirmed = LooseEnd {
        number: 1,
        worker: "build-1".to_owned(),
        given_up_at: Some(START + Duration::from_secs(120)),
        confirmed: false,
        late: None,
    };
    let late = LooseEnd { confirmed: true, late: Some("exited 0".to_owned()), ..unconfirmed.clone() };
    let lost = world("a", "go a; lost a; next; pass 3m");
    let mut text = String::new();
    for loose_ends in [vec![unconfirmed], vec![late]] {
        let fleet = Fleet { loose_ends, ..Fleet::default() };
        let reason = &why(&lost.job, &fleet, &lost.clocks()).steps[0].reason;
        let _ = writeln!(text, "{}", reason.split("(worker_lost)").nth(1).expect("the code stands before"));
    }
    expect![[r#"
        ; attempt 1 on worker build-1 was given up 3m ago and may still run: `--confirm-dead` says that it does not
        ; attempt 1 on worker build-1 reported its end late: exited 0; `bowline resolve --accept-late` takes it
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_pause_is_the_first_thing_to_know() {
    let fleet =
        Fleet { paused: true, supply: MatchView { matching: 1, slots: 2, ..MatchView::default() }, ..Fleet::default() };
    let waits = world("a", "pass 90s");
    expect!["dispatch was paused by ann 1m 30s ago: nothing new is handed out; waits for a worker with tags [script]: 1 matches (0 of 2 slots taken)"].assert_eq(&why(&waits.job, &fleet, &waits.clocks()).steps[0].reason);
}

#[test]
fn a_runners_own_sign_of_life_counts() {
    let fleet = Fleet { runner_seen: Some(START + Duration::from_secs(40)), ..Fleet::default() };
    let running = world("a", "go a; pass 1m");
    let seen = why(&running.job, &fleet, &running.clocks()).steps[0].last_sign_of_life;
    assert_eq!(seen, Some(START + Duration::from_secs(40)));
}
