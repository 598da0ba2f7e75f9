//! A step that is done for each item of a list, when something fails between its items.

use sim::faults::FaultKind;
use sim::scenario::{Moment, Script};
use sim::workload::StepPlan;

use crate::row::{FOR_GOOD, Row, SHORT, WINDOW, returns, when};

/// Three, one after the other.
const ITEMS: usize = 3;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "items-machine-lost",
            "the machine of the first item loses its power for good; the step `writes`, and there is another worker",
            machine_lost(0),
        )
        .rule(WINDOW),
        Row::new("items-machine-lost-next", "the same, as the second item sees it", machine_lost(1))
            .rule("an item gets its turn when the one before it is final, however it ended"),
        Row::new(
            "items-machine-lost-none",
            "the same as the first item sees it, with effects `none` or `idempotent`",
            machine_lost(0).effects("none"),
        )
        .alike(|script| script.effects("idempotent"))
        .rule(WINDOW),
        Row::new(
            "items-server-killed",
            "the server is killed when the first item has just ended, back after 45 s; as the second item sees it",
            returns(
                when(Moment::ItemEnded(0)).items(ITEMS, 1).fault(FaultKind::KillServer { server: 0, down: SHORT }),
                SHORT,
            ),
        )
        .rule("items and turns are rows"),
        Row::new(
            "items-fail-fast",
            "the runner of the first item is killed, and the step has `fail_fast: true`; as the second item sees it",
            when(Moment::ItemRuns(0)).items(ITEMS, 1).step(fails_fast).fault(FaultKind::KillRunner { host: 0 }),
        )
        .rule("`fail_fast`: no further item begins after one that has failed"),
    ]
}

fn fails_fast(step: &mut StepPlan) {
    step.fan.iter_mut().for_each(|fan| fan.fail_fast = true);
}

fn machine_lost(watched: u32) -> Script {
    let off = FaultKind::CutPower { host: 0, time: FOR_GOOD };
    when(Moment::ItemRuns(0)).items(ITEMS, watched).hosts(2).fault(off)
}
