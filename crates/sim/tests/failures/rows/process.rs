//! The step's own process ends badly, or not in time.

use engine::StateName;
use sim::faults::{FaultKind, Ways};
use sim::scenario::{Moment, Script};
use sim::workload::RetryPlan;

use crate::row::{Row, returns, running, secs, when};

pub(crate) fn rows() -> Vec<Row> {
    let timeout = |script: Script| script.step(|step| step.timeout = Some(secs(60)));
    vec![
        Row::new("step-fails", "it exits with code 1", fails(when(Moment::Ended))),
        Row::new(
            "step-fails-retry",
            "it exits with code 1 the first time; `retry: { attempts: 2, delay: 5s, jitter: true }`",
            fails(when(Moment::Ended)).step(|step| step.retry = Some(retry(vec!["failure"]))),
        )
        .rule("`retry.delay`"),
        Row::new(
            "step-fails-in-outage",
            "the same, and the server is away for 45 s",
            fails(when(Moment::Ended))
                .step(|step| step.retry = Some(retry(vec!["failure"])))
                .fault(FaultKind::KillServer { server: 0, down: secs(45) })
                .after(secs(45))
                .mark("its return"),
        ),
        Row::new("step-timeout", "it runs for longer than its `timeout` (here 60 s)", timeout(started()))
            .rule("the step's `timeout`"),
        Row::new(
            "step-timeout-stubborn",
            "the same, and it ignores TERM",
            timeout(started()).program(|program| program.stubborn = true),
        )
        .rule("the step's `timeout`, then `cancel.grace` (here 30 s)"),
        Row::new(
            "step-timeout-cut-off",
            "its `timeout` (here 90 s) comes while its worker is cut off for 120 s",
            returns(running().step(|step| step.timeout = Some(secs(90))).fault(cut()), secs(120)),
        )
        .rule("a timeout is no silence: the runner keeps it, and so does the server"),
        Row::new(
            "job-timeout",
            "the job runs for longer than its `timeout` (here 60 s)",
            started().job(|job| job.timeout = Some(secs(60))),
        )
        .rule("the job's `timeout`"),
        Row::new("step-oom", "the kernel ends it for want of memory", running().fault(OOM)),
        Row::new(
            "step-oom-retry",
            "the same; `retry: { attempts: 2, delay: 5s, jitter: true }`",
            running().step(|step| step.retry = Some(retry(vec!["failure"]))).fault(OOM),
        )
        .rule("`retry.delay`"),
        Row::new(
            "step-leaves-process",
            "it ends well and leaves a process behind",
            when(Moment::Ended).program(|program| program.stray = true),
        ),
        Row::new(
            "step-unmatched",
            "no worker has its tag `gpu`",
            when(Moment::State(StateName::Queued)).step(|step| step.tag = Some("gpu")).after(secs(10)).asks_why(),
        )
        .rule("`unmatched_step_timeout_secs`, or the step's `unmatched`")
        .with("recovery: { unmatched_step_timeout_secs: 5 }"),
        Row::new(
            "step-expired",
            "the same with `unmatched: wait`, in a job with `expires: 60s`",
            when(Moment::State(StateName::Queued))
                .step(|step| step.tag = Some("gpu"))
                .step(|step| step.waits_for_worker = true)
                .job(|job| job.expires = Some(secs(60))),
        )
        .rule("the job's `expires`"),
    ]
}

const OOM: FaultKind = FaultKind::OutOfMemory { host: 0 };

/// Times are counted from its start.
fn started() -> Script {
    when(Moment::Granted)
}

fn cut() -> FaultKind {
    FaultKind::Cut { host: 0, server: None, ways: Ways::Both, time: secs(120) }
}

fn fails(script: Script) -> Script {
    script.program(|program| program.first_code = 1)
}

fn retry(on: Vec<&'static str>) -> RetryPlan {
    RetryPlan::of(2, on, secs(5))
}
