//! The runner, which owns one attempt, is killed or frozen.

use sim::faults::FaultKind;
use sim::scenario::{Moment, Order, Script};
use sim::workload::RetryPlan;

use crate::row::{FOR_GOOD, LEASE, Row, running, secs, when};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = killed();
    rows.extend(frozen());
    rows
}

fn killed() -> Vec<Row> {
    let certain =
        "its worker found the runner's lock free and its processes gone: certain, so `effects` decide at once";
    vec![
        Row::new("runner-killed-accepted", "killed before it has leave to start", when(Moment::Accepted).fault(KILL))
            .rule("it provably never started")
            .real("the_runner_is_killed_at_each_stage_of_a_step_that_writes"),
        Row::new(
            "runner-killed-running",
            "killed while the step runs, by somebody or by the kernel for want of memory; the step `writes`",
            running().fault(KILL),
        )
        .rule(certain)
        .real("only_the_runner_is_killed_and_a_step_that_writes_fails_with_its_child_gone"),
        Row::new("runner-killed-none", "killed; effects `none` or `idempotent`", running().effects("none").fault(KILL))
            .alike(|script| script.effects("idempotent"))
            .rule(certain)
            .real("only_the_runner_is_killed_and_a_step_that_reads_is_repeated"),
        Row::new(
            "runner-killed-retry",
            "killed; the step `writes` and has `retry: { attempts: 2, on: [worker_lost], delay: 5s, jitter: true }`",
            running().step(|step| step.retry = Some(worker_lost())).fault(KILL),
        )
        .rule("the policy names `worker_lost`"),
        Row::new("runner-killed-thrice", "killed in three executions in a row; effects `none`", thrice())
            .rule("`max_losses`")
            .with("recovery: { max_losses: 5 }")
            .real("a_step_that_keeps_losing_its_runner_is_poison"),
        Row::new(
            "runner-killed-ended",
            "killed when the step has just ended and its end is recorded",
            when(Moment::Ended).fault(KILL),
        )
        .rule("the exit record is on disk before anybody is told")
        .real("the_runner_is_killed_at_each_stage_of_a_step_that_writes"),
        Row::new(
            "runner-killed-with-worker",
            "killed together with its worker, which is back after 5 s",
            running()
                .fault(KILL)
                .fault(FaultKind::KillWorker { host: 0, down: secs(5) })
                .after(secs(5))
                .mark("its return"),
        )
        .real("worker_and_runner_are_killed_at_once"),
        Row::new(
            "runner-killed-stray",
            "killed, and the step has left a process of its own behind",
            running().program(|program| program.stray = true).fault(KILL),
        )
        .rule("nothing is decided before all of the step's processes are gone"),
    ]
}

fn frozen() -> Vec<Row> {
    let freeze = |time| FaultKind::FreezeRunner { host: 0, time };
    vec![
        Row::new("runner-frozen-short", "frozen for 60 s", running().fault(freeze(secs(60))))
            .real("a_runner_that_is_frozen_for_a_while_loses_nothing"),
        Row::new(
            "runner-frozen",
            "frozen for good; the step `writes`",
            running().fault(freeze(FOR_GOOD)).after(secs(200)).asks_why(),
        )
        .rule("`running_stale_secs` without a sign of life, then `cancel.grace`")
        .with("recovery: { running_stale_secs: 60 }")
        .real("a_runner_that_shows_no_sign_of_life_is_given_up_though_its_worker_is_well"),
        Row::new(
            "runner-frozen-operator",
            "frozen for good, with `auto_fail_stale_running: false`; after 10 min somebody says `bowline recover fail`",
            left_to_people(running().fault(freeze(FOR_GOOD))),
        )
        .rule("nothing happens by itself; `why` names the command"),
        Row::new(
            "runner-frozen-stop",
            "frozen for good; the step has `on_disconnect: stop`",
            running().step(|step| step.stop = true).fault(freeze(FOR_GOOD)),
        )
        .rule(LEASE)
        .real("the_worker_ends_a_step_whose_runner_is_frozen_past_the_lease"),
    ]
}

const KILL: FaultKind = FaultKind::KillRunner { host: 0 };

fn left_to_people(script: Script) -> Script {
    script
        .config("recovery: { auto_fail_stale_running: false }")
        .after(secs(600))
        .mark("the order")
        .asks_why()
        .order(Order::GiveUpSilent)
}

fn thrice() -> Script {
    let script = running().effects("none").fault(KILL);
    [2, 3].into_iter().fold(script, |script, number| script.at(Moment::Execution(number)).fault(KILL))
}

fn worker_lost() -> RetryPlan {
    RetryPlan::of(2, vec!["worker_lost"], secs(5))
}
