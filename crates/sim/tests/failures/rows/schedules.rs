//! A task that starts by itself, when nobody sees to its time, or what was seen to is lost.

use std::time::Duration;

use sim::Ambush;
use sim::faults::FaultKind;
use sim::scenario::{Moment, Order, Script};

use crate::row::{LONG, Row, returns, secs, when};

/// Before the first run is due.
const BEFORE: Duration = secs(20);

/// Over two of its times.
const TWICE: Duration = secs(700);

const REAL: &str = "a_run_that_was_due_while_the_server_was_down_is_made_up_for_or_skipped";

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new("schedule-server-down-skip", "the server is killed for 300 s; `missed: skip`", down(false, LONG))
            .rule("`missed: skip`: the next time makes the next job")
            .real(REAL),
        Row::new("schedule-server-down-once", "the same with `missed: once`", down(true, LONG))
            .rule("`missed: once`: made up for when a server is there")
            .real(REAL),
        Row::new("schedule-server-down-twice", "the server is killed for 700 s, over two times; `missed: once`", down(true, TWICE))
            .rule("one job for all that was missed"),
        Row::new("schedule-server-down-briefly", "the server is killed for 45 s; `missed: skip`", down(false, secs(45)))
            .rule("what is seen to within a minute is not missed"),
        Row::new(
            "schedule-one-of-two-killed",
            "one of two servers is killed for 300 s; `missed: skip`",
            two(before(false)).fault(FaultKind::KillServer { server: 0, down: LONG }).after(LONG),
        )
        .either()
        .rule("the other one sees to it"),
        Row::new(
            "schedule-one-of-two-frozen",
            "one of two servers is frozen for 300 s, and wakes when the other one has seen to it; `missed: once`",
            two(before(true)).fault(FaultKind::FreezeServer { server: 0, time: LONG }).after(LONG),
        )
        .either()
        .rule("the job and the word that its time is over are one commit: whoever comes second changes nothing"),
        Row::new(
            "schedule-run-lost",
            "the start of the run is committed, and the database loses that, the job and that its time had come; the step prints nothing",
            brief(when(Moment::Granted).fault(FaultKind::LoseCommits { count: 6 }))
                .scheduled(false)
                .program(|program| program.lines = 0),
        )
        .either()
        .rule("the time comes again and makes the same job; what the worker has of it is adopted"),
        Row::new("schedule-paused-skip", "somebody pauses the trigger for 300 s; `missed: skip`", paused(false))
            .rule("what passes in a pause makes no job"),
        Row::new("schedule-paused-once", "the same with `missed: once`", paused(true))
            .rule("made up for when the pause is over"),
        Row::new(
            "webhook-answer-lost",
            "a call of the task's webhook makes the job, and the server is killed for 5 s right after it has committed that, before it answers; the caller calls again 20 s after the first call, by the same name",
            brief(called().fault(ambush()).order(Order::Call).after(secs(20)).mark("the second call").order(Order::Call)),
        )
        .rule("the delivery's name is written with the job"),
    ]
}

/// The event is a call of a webhook, and nothing else makes a job.
fn called() -> Script {
    when(Moment::Time(Script::DUE_AT)).called()
}

/// With its next commit, which is that of the job.
fn ambush() -> FaultKind {
    FaultKind::AmbushServer { server: 0, ambush: Ambush::DieAfter, down: secs(5) }
}

fn brief(script: Script) -> Script {
    script.program(|program| (program.takes, program.lines) = (secs(120), 24))
}

fn before(once: bool) -> Script {
    brief(when(Moment::Time(Script::DUE_AT - BEFORE))).scheduled(once)
}

fn down(once: bool, down: Duration) -> Script {
    returns(before(once).fault(FaultKind::KillServer { server: 0, down }), down)
}

fn paused(once: bool) -> Script {
    returns(before(once).rests(Script::DUE_AT - BEFORE, LONG), LONG)
}

fn two(mut script: Script) -> Script {
    script.servers = 2;
    script
}
