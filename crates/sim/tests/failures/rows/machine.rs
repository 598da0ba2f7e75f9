//! The worker's machine loses its power, sleeps, or never comes back.

use std::time::Duration;

use sim::faults::{FaultKind, Moment as Written};
use sim::scenario::{Moment, Script};
use sim::workload::RetryPlan;

use crate::row::{FOR_GOOD, LEASE, LONG, Row, WINDOW, log_under_way, returns, running, secs, when};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = powerless();
    rows.extend(asleep());
    rows
}

fn powerless() -> Vec<Row> {
    let certain = "another boot id with the same state folder: certain, so `effects` decide at once";
    vec![
        Row::new(
            "machine-rebooted-accepted",
            "loses its power before the step has leave to start, on again after 20 s",
            reboot(Moment::Accepted),
        ),
        Row::new(
            "machine-rebooted-running",
            "loses its power while the step runs, on again after 20 s; the step `writes`",
            reboot(Moment::Execution(1)),
        )
        .rule(certain),
        Row::new(
            "machine-rebooted-none",
            "the same with effects `none` or `idempotent`",
            reboot(Moment::Execution(1)).effects("none"),
        )
        .alike(|script| script.effects("idempotent"))
        .rule(certain),
        Row::new(
            "machine-rebooted-ended",
            "loses its power when the step has just ended, on again after 20 s",
            reboot(Moment::Ended),
        )
        .rule("the exit record is synced before it is reported"),
        Row::new(
            "machine-torn-record",
            "loses its power while the step's end is written, on again after 20 s; the step `writes`",
            returns(
                running()
                    .fault_on(Written::BeforeRecord, FaultKind::TearRecord { host: 0, time: OFF })
                    .at(Moment::Off)
                    .mark(""),
                OFF,
            ),
        )
        .rule("a record that is torn says that there was an end, and not which"),
        Row::new(
            "machine-log-under-way",
            "loses its power for good when the step has ended and the server had no room for its log yet",
            off(log_under_way()),
        )
        .rule("the log's own deadline: one window after the end"),
        Row::new(
            "machine-gone",
            "loses its power for good; the step `writes`",
            off(running()).after(secs(60)).asks_why(),
        )
        .rule(WINDOW)
        .with("recovery: { max_reconnect_delay_secs: 10 }")
        .with("recovery: { link_ping_secs: 2 }"),
        Row::new(
            "machine-gone-none",
            "the same with effects `none` or `idempotent`, and another worker",
            off(running()).hosts(2).effects("none"),
        )
        .alike(|script| script.effects("idempotent"))
        .rule(WINDOW)
        .with("recovery: { max_reconnect_delay_secs: 10 }"),
        Row::new(
            "machine-gone-retry",
            "the same; the step `writes` and has `retry: { attempts: 2, on: [worker_lost], delay: 5s, jitter: true }`",
            off(running()).hosts(2).step(|step| step.retry = Some(worker_lost())),
        )
        .rule("the policy, which makes the step end with its lease"),
        Row::new(
            "machine-gone-cancelled",
            "loses its power for good; 60 s later the job is cancelled",
            off(running()).after(secs(60)).order(sim::scenario::Order::Cancel { force: false }),
        )
        .rule("nobody is left to be asked"),
    ]
}

fn asleep() -> Vec<Row> {
    let sleep = |time| FaultKind::Sleep { host: 0, time };
    vec![
        Row::new("machine-asleep-short", "sleeps for 60 s", returns(running().fault(sleep(secs(60))), secs(60))),
        Row::new(
            "machine-asleep-long",
            "sleeps for 300 s; the step `writes`",
            returns(running().fault(sleep(LONG)), LONG),
        )
        .rule(WINDOW),
        Row::new(
            "machine-asleep-stop",
            "sleeps for 300 s; effects `none` with `on_disconnect: stop`, and another worker",
            returns(running().hosts(2).effects("none").step(|step| step.stop = true).fault(sleep(LONG)), LONG),
        )
        .rule(LEASE)
        .real("a_step_that_slept_past_its_lease_is_killed_when_its_runner_wakes"),
    ]
}

const OFF: Duration = secs(20);

/// Booting takes a moment more.
fn reboot(moment: Moment) -> Script {
    returns(when(moment).fault(FaultKind::CutPower { host: 0, time: OFF }), OFF)
}

fn off(script: Script) -> Script {
    script.fault(FaultKind::CutPower { host: 0, time: FOR_GOOD })
}

fn worker_lost() -> RetryPlan {
    RetryPlan::of(2, vec!["worker_lost"], secs(5))
}
