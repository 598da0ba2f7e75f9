//! The last words: the record first, then the report, then a short wait for somebody to hear it.

use std::collections::BTreeMap;
use std::time::Duration;

use pause::Point;
use protocol::attempt::{End, EndResult};
use protocol::folder::{FromRunner, RunnerPhase, ToRunner};

use crate::clock;
use crate::control::Event;
use crate::poll::PollSet;
use crate::prepare::Desk;

/// How long a connected worker has to say `bye`. After that the record speaks for itself.
const BYE_WAIT: Duration = Duration::from_secs(10);

pub(crate) fn spawn_failed(desk: &Desk, message: String) -> End {
    End {
        result: EndResult::SpawnFailed { message },
        stopped: None,
        log_last_seq: desk.spool.last_seq(),
        output: BTreeMap::new(),
        output_error: None,
        duration_ms: 0,
        cpu_ms: 0,
        memory_bytes_max: 0,
    }
}

/// Records the end, reports it, and returns when it was heard, or when nobody listens and a caretaker was woken, if
/// there is to be one: whoever leaves last sees to it that somebody reads the record.
pub(crate) fn report(desk: &mut Desk, end: End) {
    pause::at(Point::EndedNotRecorded);
    let end = desk.record.write_end(end);
    pause::at(Point::RecordedNotReported);
    let report = FromRunner::Ended { end };
    desk.control.send(&report);
    let leave_at = clock::boot_now() + BYE_WAIT;
    loop {
        let now = clock::boot_now();
        let alone = !desk.control.has_peer();
        let tried = desk.keep_vigil(now);
        let wait_until = if alone { desk.solitude.deadline().filter(|_| !tried) } else { Some(leave_at) };
        let Some(patience) = wait_until.and_then(|until| until.checked_sub(now)).filter(|left| !left.is_zero()) else {
            return;
        };
        desk.control.listen_if_alone();
        let mut set = PollSet::default();
        desk.control.watch(&mut set);
        let ready = set.wait(Some(patience).into_iter().chain(desk.control.patience()).min());
        desk.control.turn(ready);
        while let Some(event) = desk.control.next_event() {
            match event {
                Event::Message(ToRunner::Bye) => return,
                Event::Connected => desk.control.send(&report),
                Event::Message(ToRunner::Status) => {
                    let status = desk.status(RunnerPhase::Ended);
                    desk.control.send(&status);
                }
                Event::Message(
                    ToRunner::Go { .. }
                    | ToRunner::Stop { .. }
                    | ToRunner::Acked { .. }
                    | ToRunner::Renewed { .. }
                    | ToRunner::Rules { .. }
                    | ToRunner::Unknown,
                ) => {}
            }
        }
    }
}
