//! The worker process is killed, stopped or frozen. Its runners are processes of their own.

use std::time::Duration;

use sim::faults::FaultKind;
use sim::scenario::{Do, Moment, Script};
use worker::agent::StopLevel;

use crate::row::{FOR_GOOD, LEASE, LONG, Row, WINDOW, log_under_way, returns, running, secs, when};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = killed();
    rows.extend(frozen());
    rows.extend(stopped());
    rows
}

fn killed() -> Vec<Row> {
    let stage = |moment| returns(kill(when(moment), secs(5)), secs(5));
    vec![
        Row::new("worker-killed-offered", "killed before it gets the offer, back after 5 s", stage(Moment::Offered))
            .real("the_worker_is_killed_at_each_stage"),
        Row::new(
            "worker-killed-accepted",
            "killed when it has made all ready and asks for leave, back after 5 s",
            stage(Moment::Accepted),
        )
        .real("the_worker_is_killed_at_each_stage"),
        Row::new(
            "worker-killed-granted",
            "killed after the start is committed and before the process exists, back after 5 s",
            stage(Moment::Granted),
        )
        .real("the_worker_is_killed_at_each_stage"),
        Row::new(
            "worker-killed-running",
            "killed while the step runs, back after 5 s",
            returns(kill(running(), secs(5)), secs(5)),
        )
        .real("the_worker_is_killed_at_each_stage")
        .real("each_party_is_killed_while_the_step_runs"),
        Row::new("worker-killed-ended", "killed when the step has just ended, back after 5 s", stage(Moment::Ended))
            .real("the_worker_is_killed_at_each_stage"),
        Row::new(
            "worker-killed-log-under-way",
            "killed when the step has ended and the server had no room for its log yet, back after 5 s",
            returns(kill(log_under_way(), secs(5)), secs(5)),
        ),
        Row::new(
            "worker-gone-running",
            "killed, and nobody starts it again",
            kill(running(), FOR_GOOD).after(secs(5)).asks_why(),
        )
        .rule("a runner starts a caretaker after `caretaker_after_secs`")
        .with("recovery: { caretaker_after_secs: 30 }")
        .with("recovery: { caretaker_after_secs: null }")
        .real("the_last_runner_wakes_a_caretaker_that_reports_and_leaves"),
        Row::new(
            "worker-gone-stop",
            "killed, and nobody starts it again; the step has `on_disconnect: stop`",
            kill(running(), FOR_GOOD).step(|step| step.stop = true),
        )
        .rule("the caretaker renews the lease")
        .with("recovery: { caretaker_after_secs: null }")
        .real("a_step_whose_worker_is_killed_ends_with_its_lease"),
        Row::new("worker-no-reconnect", "one with `--no-reconnect` is killed", no_reconnect(kill(running(), FOR_GOOD)))
            .rule("its word that it will not come back")
            .real("a_step_of_a_worker_that_will_not_come_back_ends_with_it"),
        Row::new(
            "worker-no-reconnect-none",
            "the same with a step of effects `none` or `idempotent`, and another worker",
            no_reconnect(kill(running(), FOR_GOOD)).hosts(2).effects("none").host(0, |host| host.no_reconnect = true),
        )
        .alike(|script| script.effects("idempotent")),
        Row::new(
            "worker-ephemeral",
            "one with `--ephemeral` is killed for good, with its runner",
            ephemeral(kill(running(), FOR_GOOD)),
        )
        .rule(WINDOW),
    ]
}

fn frozen() -> Vec<Row> {
    let freeze = |time| FaultKind::FreezeWorker { host: 0, time };
    vec![
        Row::new("worker-frozen-short", "frozen for 60 s", returns(running().fault(freeze(secs(60))), secs(60)))
            .rule("three pings of `link_ping_secs` without an answer")
            .real("a_frozen_worker_is_found_and_active_again_when_it_wakes"),
        Row::new(
            "worker-frozen-long",
            "frozen for 300 s; the step `writes`",
            returns(running().fault(freeze(LONG)).after(secs(60)).asks_why(), secs(240)).after(secs(20)).asks_why(),
        )
        .rule(WINDOW)
        .real("a_worker_that_wakes_after_the_verdict_changes_nothing"),
        Row::new(
            "worker-frozen-long-none",
            "frozen for 300 s; effects `none` or `idempotent`, and another worker",
            returns(running().hosts(2).effects("none").fault(freeze(LONG)), LONG),
        )
        .alike(|script| script.effects("idempotent"))
        .rule(WINDOW)
        .real("another_worker_repeats_what_may_be_repeated_and_the_sleeper_is_told_to_stop"),
        Row::new(
            "worker-frozen-stop",
            "frozen for 300 s; effects `none` with `on_disconnect: stop`, and another worker",
            returns(running().hosts(2).effects("none").step(|step| step.stop = true).fault(freeze(LONG)), LONG),
        )
        .rule(LEASE)
        .real("a_step_whose_worker_is_frozen_ends_with_its_lease"),
    ]
}

fn stopped() -> Vec<Row> {
    let stop = |script: Script, level| script.does(Do::Stop { host: 0, level });
    let back = |script: Script, after| returns(script, after).does(Do::StartWorker { host: 0 });
    vec![
        Row::new(
            "worker-stopped-short",
            "stopped (TERM), started again after 60 s",
            back(stop(running(), StopLevel::Leave), secs(60)),
        )
        .rule(WINDOW),
        Row::new(
            "worker-stopped-long",
            "stopped (TERM), started again after 300 s; the step `writes`",
            back(stop(running(), StopLevel::Leave).after(secs(60)).asks_why(), secs(240)),
        )
        .rule("nobody stands in for it before `stop_grace` (10 min) is over; the window runs")
        .with("recovery: { max_reconnect_delay_secs: 200 }")
        .real("a_worker_that_was_told_to_stop_is_not_stood_in_for"),
        Row::new(
            "worker-stopped-with-steps",
            "stopped with `--stop-steps`; the step `writes`",
            stop(running(), StopLevel::EndSteps),
        ),
        Row::new(
            "worker-stopped-with-steps-none",
            "stopped with `--stop-steps`; effects `none`, and another worker",
            stop(running(), StopLevel::EndSteps).hosts(2).effects("none"),
        ),
    ]
}

fn kill(script: Script, down: Duration) -> Script {
    script.fault(FaultKind::KillWorker { host: 0, down })
}

fn no_reconnect(script: Script) -> Script {
    script.host(0, |host| host.no_reconnect = true)
}

fn ephemeral(script: Script) -> Script {
    script.host(0, |host| host.ephemeral = true).fault(FaultKind::KillRunner { host: 0 })
}
