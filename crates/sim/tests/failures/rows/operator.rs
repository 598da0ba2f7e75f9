//! A person cancels, drains, removes, pauses or settles, also at bad moments.

use std::time::Duration;

use engine::StateName;
use sim::faults::{FaultKind, Ways};
use sim::scenario::{Do, Moment, Order, Script, Settle};
use sim::workload::{Behaviour, CleanPlan, Condition, GatePlan, NeedPlan};
use worker::agent::StopLevel;

use crate::row::{FOR_GOOD, LONG, Row, SHORT, WINDOW, returns, running, secs, when};

const CANCEL: Order = Order::Cancel { force: false };

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = cancels();
    rows.extend(cleanups());
    rows.extend(fleet());
    rows.extend(settles());
    rows.extend(retries());
    rows
}

fn cancels() -> Vec<Row> {
    let stubborn = |script: Script| script.program(|program| program.stubborn = true);
    vec![
        Row::new("cancel-queued", "cancels while the step waits for a worker", waits().order(CANCEL)),
        Row::new("cancel-offered", "cancels when the step was just offered", when(Moment::Offered).order(CANCEL)),
        Row::new(
            "cancel-granted",
            "cancels when the start is committed and the process does not exist yet",
            when(Moment::Granted).order(CANCEL),
        ),
        Row::new("cancel-running", "cancels while the step runs", running().order(CANCEL)),
        Row::new(
            "cancel-stubborn",
            "the same; the step ignores TERM",
            stubborn(running().order(CANCEL).after(secs(10)).asks_why()),
        )
        .rule("`cancel.grace` (here 30 s)"),
        Row::new(
            "cancel-force",
            "cancels with `--force`; the step ignores TERM",
            stubborn(running().order(Order::Cancel { force: true })),
        ),
        Row::new(
            "cancel-cut-off",
            "cancels while the worker is cut off for 300 s",
            returns(cut_off().order(CANCEL).after(secs(5)).asks_why(), secs(255)),
        )
        .rule("the worker is told to stop the step as soon as it is back")
        .real("a_step_that_is_cancelled_while_its_worker_sleeps_is_stopped_when_it_wakes"),
        Row::new(
            "cancel-then-cut",
            "cancels, and the worker is cut off for 300 s before it hears of it",
            returns(running().order(CANCEL).fault(cut()), LONG),
        )
        .rule("the deadline of the cancel: `cancel.grace` and what a clean-up may take"),
        Row::new(
            "cancel-worker-away",
            "cancels while the worker is stopped (TERM) for 45 s",
            returns(
                running().does(Do::Stop { host: 0, level: StopLevel::Leave }).after(secs(5)).order(CANCEL),
                secs(40),
            )
            .does(Do::StartWorker { host: 0 }),
        ),
        Row::new(
            "cancel-ended",
            "cancels when the step has just ended and the server does not know",
            when(Moment::Ended).order(CANCEL),
        )
        .either(),
        Row::new(
            "cancel-condition",
            "cancels while the step runs; another step, `tidy`, needs it and has `if: cancelled()`",
            tidied().order(CANCEL),
        )
        .rule("a step with an `if` gets its say also in a job that is cancelled"),
        Row::new("cancel-condition-force", "the same with `--force`", tidied().order(Order::Cancel { force: true }))
            .rule("`--force` begins nothing more"),
    ]
}

/// The event is that the step runs, which another one waits for to be cancelled.
fn tidied() -> Script {
    let first = NeedPlan { step: 0, on: vec!["success"] };
    running().beside("tidy", secs(20), |step| (step.needs, step.condition) = (vec![first], Condition::Cancelled))
}

/// A step that is cleaned up after: that takes 20 s, and may take 60.
fn cleaned() -> Script {
    with_cleanup(secs(20))
}

fn with_cleanup(takes: Duration) -> Script {
    let does = Behaviour {
        takes,
        lines: 3,
        first_code: 0,
        later_code: 0,
        first_times: 1,
        stubborn: true,
        stray: false,
        output: 0,
    };
    running().step(|step| step.clean = Some(CleanPlan { does, budget: secs(60) }))
}

fn cleanups() -> Vec<Row> {
    let budget = "`cancel.cleanup` (here 60 s; the cleanup takes 20 s unless said otherwise)";
    vec![
        Row::new("cleanup", "cancels a step with a `cleanup`", cleaned().order(CANCEL).after(secs(10)).asks_why())
            .rule(budget),
        Row::new("cleanup-hangs", "the same; the cleanup never ends", with_cleanup(LONG).order(CANCEL)).rule(budget),
        Row::new(
            "cleanup-force",
            "the same; `--force` 10 s later",
            with_cleanup(LONG).order(CANCEL).after(secs(10)).order(Order::Cancel { force: true }),
        ),
        Row::new(
            "cleanup-server-killed",
            "the server is killed for 5 s during the cleanup",
            cleaned().order(CANCEL).after(secs(5)).fault(FaultKind::KillServer { server: 0, down: secs(5) }),
        )
        .real("a_server_that_is_killed_during_a_cleanup_hears_of_it_later"),
        Row::new(
            "cleanup-worker-killed",
            "the worker is killed (KILL) for 5 s during the cleanup",
            cleaned().order(CANCEL).after(secs(5)).fault(FaultKind::KillWorker { host: 0, down: secs(5) }),
        )
        .real("a_worker_that_is_killed_during_a_cleanup_finds_it_again"),
        Row::new(
            "cleanup-cut",
            "the worker is cut off for 300 s during the cleanup",
            returns(cleaned().order(CANCEL).after(secs(5)).fault(cut()), LONG),
        )
        .rule("the deadline of the cancel: `cancel.grace` and `cancel.cleanup`, and a margin"),
        Row::new(
            "cleanup-runner-killed",
            "the step's runner is killed during the cleanup",
            cleaned().order(CANCEL).after(secs(5)).fault(FaultKind::KillRunner { host: 0 }),
        )
        .real("a_runner_that_is_killed_during_a_cleanup_takes_it_along"),
    ]
}

fn fleet() -> Vec<Row> {
    vec![
        Row::new("drain-running", "drains the worker that runs the step", running().order(Order::Drain { host: 0 })),
        Row::new("drain-queued", "drains the only worker; a step is queued behind", behind_a_drain().asks_why())
            .rule("`unmatched_step_timeout_secs`, or the step's `unmatched`"),
        Row::new("pause-queued", "pauses dispatch for 10 min when the step is queued", paused())
            .rule("a pause is no silence"),
        Row::new(
            "remove-running",
            "removes the worker that runs the step; the step `writes`",
            running().order(Order::Remove { host: 0 }),
        ),
        Row::new(
            "remove-running-none",
            "the same with effects `none` or `idempotent`, and another worker",
            running().hosts(2).effects("none").order(Order::Remove { host: 0 }),
        )
        .alike(|script| script.effects("idempotent")),
        Row::new(
            "remove-cut-off",
            "removes a worker that is cut off for 300 s; the step `writes`",
            returns(cut_off().order(Order::Remove { host: 0 }), secs(260)),
        )
        .rule("when it comes back it is told to stop all that it has"),
        Row::new(
            "remove-cut-off-none",
            "the same with effects `none`, and another worker",
            returns(cut_off().hosts(2).effects("none").order(Order::Remove { host: 0 }), secs(260)),
        )
        .rule(WINDOW),
        Row::new(
            "remove-offered",
            "removes the worker that the step was just offered to; there is another",
            when(Moment::Offered).hosts(2).order(Order::Remove { host: 0 }),
        ),
    ]
}

fn settles() -> Vec<Row> {
    vec![
        Row::new(
            "resolve-succeeded",
            "says `resolve --succeeded` while the worker is cut off for 300 s",
            returns(cut_off().order(Order::Resolve(Settle::Succeeded)), secs(260)),
        ),
        Row::new(
            "resolve-failed",
            "says `resolve --failed` while the worker is cut off for 300 s",
            returns(cut_off().order(Order::Resolve(Settle::Failed)), secs(260)),
        ),
        Row::new(
            "resolve-rerun",
            "says `resolve --rerun --confirm-dead` while the machine is off for good; there is another worker",
            gone().hosts(2).order(Order::Resolve(Settle::Rerun { confirm_dead: true })),
        ),
        Row::new(
            "resolve-accept-late",
            "says `resolve --accept-late` when the end of a step that was given up has come",
            late(),
        ),
        Row::new(
            "restored-running",
            "stops the server while the step runs, says `bowline db restored`, and starts it again",
            restored(running()),
        )
        .rule("workers are asked what they have, and their word settles it")
        .real("what_was_under_way_in_the_backup_goes_on_where_it_runs"),
        Row::new(
            "restored-gone",
            "the same when the machine is off for good, and says 300 s later that the step did what it should",
            restored(gone())
                .after(LONG)
                .asks_why()
                .mark("`resolve --succeeded`")
                .order(Order::Resolve(Settle::Succeeded)),
        )
        .rule("what may have run in the time that is lost waits for a person")
        .real("a_person_who_knows_what_became_of_it_says_so_and_the_job_goes_on"),
        Row::new(
            "restored-rerun",
            "the same, and says 300 s later `resolve --rerun --confirm-dead`; there is another worker",
            restored(gone().hosts(2))
                .after(LONG)
                .mark("`resolve --rerun`")
                .order(Order::Resolve(Settle::Rerun { confirm_dead: true })),
        )
        .real("what_was_under_way_in_the_backup_is_not_run_beside_itself"),
        Row::new("reject-held", "rejects a step that waits for approval", held().order(Order::Reject)),
        Row::new(
            "hold-expired",
            "approves nothing: the step asked with `expires: 60s`",
            held().step(|step| step.hold_expires = Some(secs(60))),
        )
        .rule("`approve.expires`"),
        Row::new(
            "approve-twice",
            "approves twice where two people must, somebody else 60 s later",
            held()
                .step(|step| step.gate = Some(gate(2, None)))
                .order(Order::Approve)
                .after(secs(5))
                .order(Order::Approve)
                .after(secs(55))
                .asks_why()
                .mark("the other approval")
                .order(Order::ApproveBy("ben")),
        )
        .rule("nobody counts twice")
        .real("approvals_of_different_people_are_counted_and_survive_a_kill_of_the_server"),
        Row::new(
            "approve-own",
            "approves a job of their own where somebody else must (`allow_submitter: false`), who does so 60 s later",
            held()
                .step(|step| step.gate = Some(GatePlan { allow_submitter: false, ..gate(1, None) }))
                .order(Order::Approve)
                .after(secs(60))
                .asks_why()
                .mark("the other approval")
                .order(Order::ApproveBy("ben")),
        )
        .real("an_environment_wants_a_wait_and_somebody_else_and_no_worker_meanwhile"),
        Row::new(
            "environment-wait",
            "waits for an environment's `wait: 60s`, and the server is killed for 300 s",
            returns(waits_for_environment(0).fault(FaultKind::KillServer { server: 0, down: LONG }), LONG),
        )
        .rule("a wait is a row with a time")
        .real("an_environment_wants_a_wait_and_somebody_else_and_no_worker_meanwhile"),
        Row::new(
            "environment-wait-reviewer",
            "approves 30 s after an environment with `wait: 60s` and `reviewers: 1` has asked",
            waits_for_environment(1)
                .at(Moment::State(StateName::Held))
                .after(secs(30))
                .asks_why()
                .mark("the approval")
                .order(Order::ApproveBy("ben")),
        ),
        Row::new(
            "environment-expired",
            "approves nothing: the environment has `wait: 60s`, `reviewers: 1` and `hold_expires: 60s`",
            waits_for_environment(1).step(|step| step.hold_expires = Some(secs(60))),
        )
        .rule("`environments.NAME.hold_expires`"),
        Row::new(
            "approve-after-restart",
            "approves after the server was killed for 45 s",
            held()
                .fault(FaultKind::KillServer { server: 0, down: SHORT })
                .after(secs(50))
                .mark("the approval")
                .order(Order::Approve),
        ),
    ]
}

fn retries() -> Vec<Row> {
    vec![
        Row::new(
            "retry",
            "says `bowline retry` when the step has failed, since its runner was killed; it needs another step, `fetch`, which has succeeded",
            failed_behind_another().order(Order::Retry { from_failed: false }).after(secs(5)),
        )
        .rule("a new job does all again"),
        Row::new(
            "retry-from-failed",
            "the same with `--from-failed`",
            failed_behind_another().order(Order::Retry { from_failed: true }).after(secs(5)),
        )
        .rule("a new job takes over what ended well"),
    ]
}

/// The event is the end of a job whose second step has failed.
fn failed_behind_another() -> Script {
    let other = NeedPlan { step: 1, on: vec!["success"] };
    Script::new()
        .step(|step| step.needs = vec![other])
        .beside("fetch", secs(20), |_| {})
        .at(Moment::Execution(1))
        .fault(FaultKind::KillRunner { host: 0 })
        .at(Moment::Over)
        .mark("")
}

/// No worker can take the step.
fn waits() -> Script {
    when(Moment::State(StateName::Queued)).step(|step| step.tag = Some("gpu")).step(|step| step.waits_for_worker = true)
}

fn cut() -> FaultKind {
    FaultKind::Cut { host: 0, server: None, ways: Ways::Both, time: LONG }
}

/// The event is what happens 40 s into a cut.
fn cut_off() -> Script {
    Script::new().at(Moment::Execution(1)).fault(cut()).after(secs(40)).mark("")
}

/// An operator says that the database was restored, as it is said: while no server has it.
fn restored(script: Script) -> Script {
    script.fault(FaultKind::KillServer { server: 0, down: secs(5) }).order(Order::SayRestored)
}

fn gone() -> Script {
    let off = FaultKind::CutPower { host: 0, time: FOR_GOOD };
    Script::new().at(Moment::Execution(1)).fault(off).at(Moment::State(StateName::Recovering)).mark("")
}

fn behind_a_drain() -> Script {
    Script::new()
        .at(Moment::Time(secs(100)))
        .order(Order::Drain { host: 0 })
        .at(Moment::State(StateName::Queued))
        .mark("")
        .after(secs(10))
}

fn paused() -> Script {
    Script::new()
        .at(Moment::Time(secs(100)))
        .order(Order::Pause)
        .at(Moment::State(StateName::Queued))
        .mark("")
        .after(secs(60))
        .asks_why()
        .after(secs(540))
        .mark("the end of the pause")
        .order(Order::Resume)
}

/// Given up in a cut, ended, and reported when the cut was over.
fn late() -> Script {
    Script::new()
        .at(Moment::Execution(1))
        .program(|program| program.takes = secs(200))
        .fault(cut())
        .after(secs(330))
        .mark("")
        .asks_why()
        .order(Order::Resolve(Settle::AcceptLate))
}

fn gate(reviewers: u32, wait: Option<Duration>) -> GatePlan {
    GatePlan { reviewers, allow_submitter: true, wait }
}

/// The event is the begin of the wait.
fn waits_for_environment(reviewers: u32) -> Script {
    when(Moment::State(StateName::Waiting)).step(|step| step.gate = Some(gate(reviewers, Some(secs(60)))))
}

fn held() -> Script {
    let approve = |step: &mut sim::workload::StepPlan| step.kind = sim::workload::Kind::Approve;
    when(Moment::State(StateName::Held)).step(approve)
}
