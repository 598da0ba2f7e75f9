//! The server's clock is set.

use sim::faults::{FaultKind, Ways};
use sim::scenario::{Moment, Script};

use crate::row::{Row, running, secs, when};

pub(crate) fn rows() -> Vec<Row> {
    let ahead = |script: Script| script.fault(FaultKind::ClockStep { server: 0, micros: HOUR_US });
    let back = |script: Script| script.fault(FaultKind::ClockStep { server: 0, micros: -HOUR_US });
    let cut = || running().fault(FaultKind::Cut { host: 0, server: None, ways: Ways::Both, time: secs(60) });
    let recovering = || cut().at(Moment::State(engine::StateName::Recovering));
    let rule = "hearing time does not follow a clock that is set";
    vec![
        Row::new("clock-ahead-running", "set ahead by an hour while the step runs", ahead(running()))
            .rule(rule)
            .real("a_clock_that_jumps_costs_no_step"),
        Row::new("clock-back-running", "set back by an hour while the step runs", back(running()))
            .rule(rule)
            .real("a_clock_that_jumps_costs_no_step"),
        Row::new(
            "clock-ahead-recovering",
            "set ahead by an hour while a worker is cut off for 60 s",
            ahead(recovering()),
        )
        .rule(rule)
        .real("a_clock_that_jumps_while_a_step_is_recovering_decides_nothing"),
        Row::new(
            "clock-back-recovering",
            "set back by an hour while a worker is cut off for good; the step `writes`",
            back(gone()),
        )
        .rule(rule)
        .real("a_clock_that_went_back_does_not_stop_the_window"),
        Row::new(
            "clock-ahead-timeout",
            "set ahead by an hour; the step has `timeout: 300s`",
            ahead(when(Moment::Granted).step(|step| step.timeout = Some(secs(300)))),
        )
        .rule("a step's timeout is measured by its runner")
        .real("a_clock_that_is_set_ahead_ends_no_step_by_its_timeout"),
    ]
}

const HOUR_US: i64 = 3_600_000_000;

fn gone() -> Script {
    running()
        .fault(FaultKind::CutPower { host: 0, time: crate::row::FOR_GOOD })
        .at(Moment::State(engine::StateName::Recovering))
}
