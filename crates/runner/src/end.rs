//! The end of an attempt, as it is written down.

use std::fs;
use std::time::Duration;

use pause::Point;
use protocol::attempt::{CleanupEnd, End, EndResult, StopReason};
use protocol::folder::OUTPUT_FILE;

use crate::clock;
use crate::output::{self, Output};
use crate::prepare::Desk;
use crate::spool::Spool;
use crate::step::Step;
use crate::sys::Usage;

/// How and why, as the runner's life has it.
pub(crate) struct Ended {
    pub(crate) result: EndResult,
    pub(crate) stopped: Option<StopReason>,
    pub(crate) ran_for: Duration,
    pub(crate) cleanup: Option<CleanupEnd>,
}

impl Desk {
    /// Nothing that is stored or sent shows a secret.
    fn without_secrets(&self, result: EndResult, output: Output) -> (EndResult, Output) {
        let Some(mask) = &self.mask else { return (result, output) };
        let result = match result {
            EndResult::SpawnFailed { message } => EndResult::SpawnFailed { message: mask.text(&message) },
            EndResult::Exited { .. } | EndResult::Signaled { .. } => result,
        };
        let values = output.values.into_iter().map(|(key, value)| (mask.text(&key), mask.value(value)));
        let output = Output { values: values.collect(), error: output.error.map(|error| mask.text(&error)) };
        (result, output)
    }
}

/// What a step has left, taken down before its cleanup could change it.
pub(crate) struct Before {
    output: Output,
    usage: Usage,
}

impl Before {
    /// The last of its output goes to the log. A step that never began has left nothing behind that were its own.
    pub(crate) fn of(step: Option<Step>, spool: &mut Spool) -> Self {
        let output = if step.is_some() { output::read(OUTPUT_FILE.as_ref()) } else { Output::default() };
        Before { output, usage: step.map(|step| step.finish(spool)).unwrap_or_default() }
    }
}

/// Writes the exit record, durably. Returns what it holds. `last`: the step, if it came to be one; or its cleanup, and then
/// `before` is what the step has left.
pub(crate) fn record(desk: &mut Desk, before: Option<Before>, last: Option<Step>, ended: Ended) -> End {
    let Before { output, usage } = match before {
        None => Before::of(last, &mut desk.spool),
        Some(mut before) => {
            last.into_iter().for_each(|cleanup| before.usage.add(cleanup.finish(&mut desk.spool)));
            before
        }
    };
    let (result, output) = desk.without_secrets(ended.result, output);
    desk.flush_log();
    let end = End {
        result,
        stopped: ended.stopped,
        log_last_seq: desk.spool.last_seq(),
        output: output.values,
        output_error: output.error,
        duration_ms: clock::to_ms(ended.ran_for),
        cpu_ms: clock::to_ms(usage.cpu),
        memory_bytes_max: usage.memory_bytes_max,
        cleanup: ended.cleanup,
        artifacts: None,
    };
    pause::at(Point::EndedNotRecorded);
    let end = desk.record.write_end(end);
    if desk.mask.is_some() {
        // It was read, and what a step with secrets writes may hold them.
        let _ = fs::remove_file(OUTPUT_FILE);
    }
    pause::at(Point::RecordedNotReported);
    end
}
