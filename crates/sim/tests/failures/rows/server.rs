//! The server is killed, stopped or frozen.

use std::time::Duration;

use engine::StateName;
use sim::Ambush;
use sim::faults::{FaultKind, Ways};
use sim::scenario::{Moment, Order, Script};
use sim::workload::RetryPlan;

use crate::row::{FOR_GOOD, LEASE, LONG, Row, SHORT, WINDOW, returns, running, secs, when};

const HEARING: &str = "hearing time: a server judges nobody for what it could not hear";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = stages();
    rows.extend(outages());
    rows
}

fn stages() -> Vec<Row> {
    vec![
        Row::new("server-killed-offered", "killed for 5 s when it has just offered the step", dies(Moment::Offered, 5))
            .rule("`queued` means never started: it may be offered again")
            .real("the_server_is_killed_at_each_stage"),
        Row::new(
            "server-killed-accepted",
            "killed for 5 s before it answers the worker that is ready to start",
            dies(Moment::Accepted, 5),
        )
        .real("the_server_is_killed_at_each_stage"),
        Row::new(
            "server-killed-granting",
            "killed right after the commit of the start, back after 5 s: the worker never hears of it",
            returns(when(Moment::Accepted).fault(ambush(Ambush::DieAfter, secs(5))), secs(5)),
        )
        .rule("the worker asks again: a start is a question")
        .real("the_server_is_killed_at_each_stage"),
        Row::new(
            "server-killed-granting-alone",
            "the same, and the worker's machine loses its power for good at that moment",
            returns(
                when(Moment::Accepted)
                    .fault(ambush(Ambush::DieAfter, secs(5)))
                    .at(Moment::State(StateName::Running))
                    .fault(FaultKind::CutPower { host: 0, time: FOR_GOOD }),
                secs(5),
            ),
        )
        .rule(WINDOW),
        Row::new(
            "server-killed-running",
            "killed while the step runs, back after 45 s",
            returns(kill(running(), SHORT), SHORT),
        )
        .rule(HEARING)
        .real("each_party_is_killed_while_the_step_runs")
        .real("an_outage_of_the_server_is_marked_once_in_its_place_with_true_counts"),
        Row::new(
            "server-killed-ended",
            "killed when the step has just ended and nobody has told it, back after 45 s",
            dies(Moment::Ended, 45),
        )
        .rule("the runner's exit record is kept until the server has it")
        .real("the_server_is_killed_at_each_stage"),
        Row::new(
            "server-killed-cancelling",
            "killed for 5 s after the order to cancel, while the step takes its time",
            returns(
                kill(
                    stubborn(running().order(Order::Cancel { force: false }).at(Moment::State(StateName::Cancelling))),
                    secs(5),
                ),
                secs(5),
            ),
        )
        .rule("`cancel.grace` (here 30 s)")
        .real("a_step_that_was_told_to_stop_stops_also_when_the_server_crashes_after_the_order"),
        Row::new(
            "server-killed-waiting",
            "killed for 45 s, 5 s after the step has failed and waits for its next execution; `retry: { attempts: 2, delay: 120s, jitter: true }`",
            returns(kill(waiting(), SHORT), SHORT),
        )
        .rule("`retry.delay`: the wait is a row with a time"),
        Row::new(
            "server-away-waiting",
            "the same for 300 s, longer than the wait",
            returns(kill(waiting(), LONG), LONG),
        )
        .rule("`retry.delay`: what has passed is over"),
    ]
}

/// The step has failed once, its worker knows that it is known, and it is to be tried again.
fn waiting() -> Script {
    let retry = RetryPlan::of(2, vec!["failure"], secs(120));
    Script::new()
        .at(Moment::State(StateName::Waiting))
        .after(secs(5))
        .mark("")
        .program(|program| program.first_code = 1)
        .step(|step| step.retry = Some(retry))
}

fn outages() -> Vec<Row> {
    vec![
        Row::new(
            "server-away-long",
            "away for 30 min, longer than the window; the step ends meanwhile",
            returns(kill(running(), secs(1800)), secs(1800)),
        )
        .rule(HEARING)
        .real("an_outage_longer_than_the_window_costs_no_step"),
        Row::new(
            "server-away-recovering",
            "away for 10 min while a cut-off worker is waited for; the worker is back 30 s after it",
            returns(
                kill(
                    running().fault(cut(secs(690))).at(Moment::State(StateName::Recovering)).after(secs(20)),
                    secs(600),
                ),
                secs(600),
            ),
        )
        .rule(HEARING)
        .real("a_step_that_was_already_recovering_is_not_judged_for_the_servers_absence"),
        Row::new(
            "server-away-stop-short",
            "away for 45 s; the step has `on_disconnect: stop`",
            returns(kill(running(), SHORT).step(|step| step.stop = true), SHORT),
        )
        .rule(LEASE),
        Row::new(
            "server-away-stop-long",
            "away for 300 s; the step has `on_disconnect: stop`",
            returns(kill(running(), LONG).step(|step| step.stop = true), LONG),
        )
        .rule(LEASE)
        .with("recovery: { max_reconnect_delay_secs: 20 }")
        .real("a_step_whose_server_is_killed_ends_with_its_lease"),
        Row::new(
            "server-stopped-running",
            "stopped (TERM) and started again after 10 s, as for an upgrade",
            returns(running().fault(FaultKind::RestartServer { server: 0, down: secs(10) }), secs(10)),
        )
        .real("a_server_that_is_stopped_and_started_costs_no_step"),
        Row::new(
            "server-crash-loop",
            "killed three times, 20 s of life and 20 s of death each",
            running().fault(FaultKind::CrashLoop { server: 0, times: 3, up: secs(20), down: secs(20) }),
        )
        .rule(HEARING)
        .real("a_server_that_crashes_again_and_again_costs_no_step"),
        Row::new(
            "server-frozen-running",
            "frozen for 300 s, longer than the window",
            returns(running().fault(FaultKind::FreezeServer { server: 0, time: LONG }), LONG),
        )
        .rule(HEARING)
        .real("a_server_that_stood_still_for_longer_than_the_window_judges_nobody"),
        Row::new(
            "server-frozen-recovering",
            "frozen for 300 s while a cut-off worker is waited for; the worker is back 10 s after it",
            returns(
                running()
                    .fault(cut(secs(350)))
                    .at(Moment::State(StateName::Recovering))
                    .fault(FaultKind::FreezeServer { server: 0, time: LONG }),
                LONG,
            ),
        )
        .rule(HEARING)
        .real("a_server_that_stood_still_while_a_step_was_recovering_judges_nobody"),
        Row::new(
            "server-and-worker-killed",
            "server and worker killed at once, both back after 45 s",
            returns(kill(running(), SHORT).fault(FaultKind::KillWorker { host: 0, down: SHORT }), SHORT),
        )
        .rule(WINDOW)
        .real("server_and_worker_are_killed_at_once_at_each_stage"),
    ]
}

fn dies(moment: Moment, down: u64) -> Script {
    returns(kill(when(moment), secs(down)), secs(down))
}

fn kill(script: Script, down: Duration) -> Script {
    script.fault(FaultKind::KillServer { server: 0, down })
}

fn ambush(ambush: Ambush, down: Duration) -> FaultKind {
    FaultKind::AmbushServer { server: 0, ambush, down }
}

fn cut(time: Duration) -> FaultKind {
    FaultKind::Cut { host: 0, server: None, ways: Ways::Both, time }
}

fn stubborn(script: Script) -> Script {
    script.program(|program| program.stubborn = true)
}
