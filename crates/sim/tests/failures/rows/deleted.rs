//! Workers that report late on a job that was deleted for its age, or would have been.

use std::time::Duration;

use sim::faults::{FaultKind, Ways};
use sim::scenario::{Moment, Order, Script, Settle};

use crate::row::{Row, returns, running, secs, when};

/// Longer than the job is kept, and than it takes until somebody looks.
const AWAY: Duration = secs(3 * 3600);

const KEPT: &str = "retention: { jobs_days: 0.01 }";

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "deleted-late-end",
            "the worker is cut off for 3 h when the step has just ended; after 60 s somebody has looked and says `resolve --rerun --confirm-dead`, and the other worker does the step; the job is deleted, and then the first one comes with its end",
            returns(confirmed(kept(when(Moment::Ended)).fault(cut())), AWAY),
        )
        .rule("who reports on what was deleted is told to forget it: nothing is adopted, and there is no alarm"),
        Row::new(
            "deleted-late-loss",
            "the same while the step runs, and it is its machine that is off for 3 h",
            returns(confirmed(kept(running()).fault(FaultKind::PullPlug { host: 0, time: AWAY })), AWAY),
        )
        .rule("the same for one that knows only that the step is gone"),
        Row::new(
            "deleted-not-while-in-doubt",
            "the worker is cut off for 3 h while the step runs, and nobody says that the step is dead",
            returns(kept(running()).fault(cut()), AWAY),
        )
        .rule("a job with an attempt that may still run is not deleted: the late end finds it"),
    ]
}

fn kept(script: Script) -> Script {
    script.hosts(2).config(KEPT)
}

fn cut() -> FaultKind {
    FaultKind::Cut { host: 0, server: None, ways: Ways::Both, time: AWAY }
}

/// Somebody has looked.
fn confirmed(script: Script) -> Script {
    script.after(secs(60)).order(Order::Resolve(Settle::Rerun { confirm_dead: true }))
}
