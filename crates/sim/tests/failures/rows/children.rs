//! A step that a job of its own does, when something fails there or here.

use sim::Ambush;
use sim::faults::FaultKind;
use sim::scenario::{Moment, Order, Script};
use sim::workload::RetryPlan;

use crate::row::{FOR_GOOD, Row, SHORT, WINDOW, returns, secs, when};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "child-server-killed",
            "the server is killed while the child job runs, back after 45 s",
            returns(runs().fault(FaultKind::KillServer { server: 0, down: SHORT }), SHORT),
        )
        .rule("who waits for whom is in the rows")
        .real("a_child_outlives_its_server_and_ends_with_its_parent"),
        Row::new(
            "child-server-killed-ended",
            "the server is killed right after it has committed the child job's end, back after 45 s",
            returns(when(Moment::ChildEnded).child().fault(dies_after_it()), SHORT),
        )
        .rule("the step ends in the transaction of the child's end"),
        Row::new(
            "child-machine-lost",
            "the machine that the child job runs on loses its power for good",
            machine_lost(),
        )
        .rule(WINDOW),
        Row::new(
            "child-machine-lost-retry",
            "the same, and the step has `retry: { attempts: 2, on: [worker_lost] }`",
            machine_lost().hosts(2).step(|step| {
                step.retry = Some(RetryPlan::of(2, vec!["worker_lost"], secs(1)));
            }),
        )
        .rule("no second job beside what may still run of the first"),
        Row::new(
            "child-cancelled",
            "the job that began the child is cancelled",
            runs().order(Order::Cancel { force: false }),
        )
        .rule("a cancel travels down in the same transaction"),
        Row::new(
            "child-timeout",
            "the child job's own `timeout: 120s` is over",
            runs().step(|step| {
                if let Some(child) = &mut step.child {
                    child.job.timeout = Some(secs(120));
                }
            }),
        )
        .rule("a child job that is over by its own timeout has failed for its step"),
    ]
}

fn runs() -> Script {
    when(Moment::ChildRuns).child()
}

/// With its next commit, which is that of the end.
fn dies_after_it() -> FaultKind {
    FaultKind::AmbushServer { server: 0, ambush: Ambush::DieAfter, down: SHORT }
}

fn machine_lost() -> Script {
    runs().fault(FaultKind::CutPower { host: 0, time: FOR_GOOD })
}
