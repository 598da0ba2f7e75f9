//! What follows on a job's end or on a notice, when the server that is to see to it is away.

use std::time::Duration;

use sim::Ambush;
use sim::faults::FaultKind;
use sim::scenario::{Do, Moment, Order, Script};
use sim::workload::{HookPlan, HookWork, On};
use worker::agent::StopLevel;

use crate::row::{LONG, Row, SHORT, returns, running, secs, when};

const EXPECT: u64 = 120;

/// How long the job takes that follows.
const FOLLOWER: Duration = secs(20);

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "hook-server-killed",
            "the job has ended, and the server is killed right after it has committed that: its `on_success` webhook is not delivered; back after 45 s",
            returns(followed(when(Moment::Ended), On::Success).fault(dies_after_it(SHORT)), SHORT),
        )
        .rule("the webhook is written with the end, and tried until somebody takes it"),
        Row::new(
            "hook-task-server-killed",
            "the same with a `task` in `on_success`, whose job has not begun",
            returns(
                when(Moment::Ended).followed_by_job(On::Success, FOLLOWER).fault(dies_after_it(SHORT)),
                SHORT,
            ),
        )
        .rule("the job that follows is written with the end"),
        Row::new(
            "hook-cancel-server-killed",
            "the job, which has an `on_cancel` webhook, is cancelled by force, and the server is killed right after it has committed that, back after 45 s",
            returns(followed(running(), On::Cancel).fault(dies_after_it(SHORT)).order(Order::Cancel { force: true }), SHORT),
        )
        .rule("the webhook is written with the end"),
        Row::new(
            "hook-nobody-takes",
            "nobody takes the webhook: every try to deliver it fails",
            // The worker has nothing to do with it.
            followed(when(Moment::Over), On::Success)
                .does(Do::RefuseWords)
                .does(Do::Stop { host: 0, level: StopLevel::Leave })
                .after(secs(10 * 3600))
.at(Moment::GivenUp)
                .mark("the last try"),
        )
        .long()
        .rule("20 tries, with pauses that grow to about an hour; then `bowline outbox` lists it"),
        Row::new(
            "notice-server-away",
            "the step has `expect: 120s`, and the server is away for 300 s meanwhile",
            returns(expected(running()).fault(killed(LONG.as_secs())), LONG),
        )
        .rule("`expect`: time in which the server is away counts; what is still under way is noticed when it is back"),
        Row::new(
            "notice-server-killed",
            "the server is killed right after the notice that the step takes longer than `expect: 120s`, back after 45 s",
            returns(expected(when(Moment::Noticed)).fault(killed(SHORT.as_secs())), SHORT),
        )
        .rule("a notice is a mark on the step's row: it is given once"),
        Row::new(
            "notice-server-away-ended",
            "the step has `expect: 120s`, and ends while the server is away for 30 min",
            returns(expected(running()).fault(killed(1800)), secs(1800)),
        )
        .rule("what is over is not noticed"),
    ]
}

fn killed(secs: u64) -> FaultKind {
    FaultKind::KillServer { server: 0, down: crate::row::secs(secs) }
}

/// With its next commit, which is that of the end.
fn dies_after_it(down: Duration) -> FaultKind {
    FaultKind::AmbushServer { server: 0, ambush: Ambush::DieAfter, down }
}

fn followed(script: Script, on: On) -> Script {
    script.job(|job| job.hooks.push(HookPlan { on, work: HookWork::Word }))
}

fn expected(script: Script) -> Script {
    followed(script.step(|step| step.expect = Some(secs(EXPECT))), On::Notice)
}
