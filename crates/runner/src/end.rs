//! The end of an attempt, as it is written down.

use std::time::Duration;

use pause::Point;
use protocol::attempt::{End, EndResult, StopReason};
use protocol::folder::OUTPUT_FILE;

use crate::clock;
use crate::output::{self, Output};
use crate::prepare::Desk;
use crate::step::Step;

/// How and why, as the runner's life has it.
pub(crate) struct Ended {
    pub(crate) result: EndResult,
    pub(crate) stopped: Option<StopReason>,
    pub(crate) ran_for: Duration,
}

/// Writes the exit record, durably. Returns what it holds. `step`: if it came to be one.
pub(crate) fn record(desk: &mut Desk, step: Option<Step>, ended: Ended) -> End {
    // A step that never began has left nothing behind that were its own.
    let output = if step.is_some() { output::read(OUTPUT_FILE.as_ref()) } else { Output::default() };
    let usage = step.map(|step| step.finish(&mut desk.spool)).unwrap_or_default();
    desk.flush_log();
    let end = End {
        result: ended.result,
        stopped: ended.stopped,
        log_last_seq: desk.spool.last_seq(),
        output: output.values,
        output_error: output.error,
        duration_ms: clock::to_ms(ended.ran_for),
        cpu_ms: clock::to_ms(usage.cpu),
        memory_bytes_max: usage.memory_bytes_max,
    };
    pause::at(Point::EndedNotRecorded);
    let end = desk.record.write_end(end);
    pause::at(Point::RecordedNotReported);
    end
}
