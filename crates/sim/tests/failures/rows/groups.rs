//! Jobs that share a concurrency group with a limit of one: the step is that of the second job, and what happens, happens to the
//! first one, which has the slot.

use std::time::Duration;

use engine::state::StateName;
use sim::Ambush;
use sim::faults::{FaultKind, Ways};
use sim::scenario::{Moment, Order, Script};
use sim::workload::WhenFull;

use crate::row::{FOR_GOOD, LONG, Row, SHORT, secs};

const DAY: &str = "successor rule: at most a day";

/// The first job runs and the second one waits.
fn waits() -> Script {
    let script = Script::new().hosts(2).behind_another(WhenFull::Queue);
    script.at(Moment::HolderRuns).at(Moment::State(StateName::Pending))
}

fn in_line() -> Script {
    waits().mark("")
}

/// The same, and both may be repeated.
fn repeatable() -> Script {
    let script = Script::new().hosts(2).effects("idempotent").behind_another(WhenFull::Queue);
    script.at(Moment::HolderRuns).at(Moment::State(StateName::Pending)).mark("")
}

fn cut(time: Duration) -> FaultKind {
    FaultKind::Cut { host: 0, server: None, ways: Ways::Both, time }
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new("group-holder-cut-off", "the first job's worker is cut off for 45 s", in_line().fault(cut(SHORT)))
            .rule("the first job goes on, and keeps its slot"),
        Row::new(
            "group-holder-lost",
            "the first job's machine loses power for good",
            in_line().fault(FaultKind::CutPower { host: 0, time: FOR_GOOD }).after(secs(1200)).asks_why(),
        )
        .long()
        .rule(DAY),
        Row::new(
            "group-holder-lost-idempotent",
            "the same, and its step is `idempotent`",
            repeatable().fault(FaultKind::CutPower { host: 0, time: FOR_GOOD }),
        )
        .rule("its step is repeated, and the first job keeps its slot"),
        Row::new(
            "group-server-killed-at-end",
            "the first job has ended, and the server is killed right after it has committed that",
            waits()
                .at(Moment::HolderEnded)
                .mark("")
                .fault(FaultKind::AmbushServer { server: 0, ambush: Ambush::DieAfter, down: secs(5) }),
        )
        .rule("who has a slot is asked of the rows"),
        Row::new(
            "group-holder-cancelled",
            "the first job's worker is cut off for 300 s, and it is cancelled by force meanwhile",
            in_line().fault(cut(LONG)).after(SHORT).order(Order::CancelHolder { force: true }).after(SHORT).asks_why(),
        )
        .rule(DAY),
        Row::new(
            "group-rejected",
            "the second job says `when_full: reject`, and whoever submits it comes again every 20 s; the first one's worker is cut off for 45 s",
            Script::new().hosts(2).behind_another(WhenFull::Reject).at(Moment::HolderRuns).mark("").fault(cut(SHORT)),
        )
        .rule("`when_full: reject`: refused while the first is not over, wherever it is"),
        Row::new(
            "group-oldest-cut-off",
            "the second job says `when_full: cancel_oldest`; the first one's worker is cut off since before its submit, for 300 s",
            Script::new()
                .hosts(2)
                .behind_another(WhenFull::CancelOldest)
                .at(Moment::HolderRuns)
                .fault(cut(LONG))
                .at(Moment::State(StateName::Pending))
                .mark("")
                .after(SHORT)
                .asks_why(),
        )
        .rule(DAY),
    ]
}
