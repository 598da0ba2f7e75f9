//! The worker's state folder is copied or emptied.

use std::time::Duration;

use sim::faults::FaultKind;
use sim::scenario::Script;
use sim::{Copied, Emptied};

use crate::row::{Row, WINDOW, returns, running, secs};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = copied();
    rows.extend(emptied());
    rows
}

fn copied() -> Vec<Row> {
    let certain = "machine and file system tell the copy from the folder: no worker starts on it";
    vec![
        Row::new(
            "folder-copied-beside",
            "copied on the same machine, and a second worker is started on the copy",
            copy(running(), Copied::Beside, Duration::ZERO),
        )
        .rule(certain),
        Row::new(
            "folder-copied-in-doubt",
            "the same on a file system that cannot tell the two apart for certain",
            copy(running(), Copied::BesideInDoubt, Duration::ZERO),
        )
        .rule(
            "a copy leaves alone what has no result; the link that answers stays, the second is refused with an alarm",
        ),
        Row::new(
            "folder-copied-in-doubt-away",
            "the same while the worker is away for 60 s; the step `writes`",
            returns(copy(running(), Copied::BesideInDoubt, secs(60)), secs(60)),
        )
        .rule("whoever comes first has the identity; the other is refused, and the window decides on what it holds"),
        Row::new(
            "folder-copied-elsewhere",
            "copied to another machine while the worker is away for 5 s, and a worker is started on the copy",
            returns(copy(running(), Copied::Elsewhere, secs(5)), secs(5)),
        )
        .rule(certain),
        Row::new(
            "folder-copied-as-image",
            "the same with an image of the whole disk, on a machine with an id of its own",
            returns(copy(running(), Copied::AsImage, secs(5)), secs(5)),
        )
        .rule("another machine with the same identity is refused, with an alarm"),
    ]
}

fn emptied() -> Vec<Row> {
    let empty = |what| running().fault(FaultKind::EmptyFolder { host: 0, what });
    let restart = |script: Script| returns(script.fault(FaultKind::KillWorker { host: 0, down: secs(5) }), secs(5));
    vec![
        Row::new(
            "folder-emptied-running",
            "its attempts are deleted while the step runs; the worker goes on",
            empty(Emptied::Attempts),
        )
        .rule("the runner tells its worker itself how the step ends; what it printed lay in the folder"),
        Row::new(
            "folder-emptied-restarted",
            "its attempts are deleted, and the worker is killed and back after 5 s; the step `writes`",
            restart(empty(Emptied::Attempts)),
        )
        .rule(WINDOW),
        Row::new(
            "folder-emptied-all",
            "all of it is deleted, and the worker killed; after 5 s it is enrolled again; the step `writes`",
            restart(empty(Emptied::All)),
        )
        .rule(WINDOW),
    ]
}

fn copy(script: Script, copied: Copied, down: Duration) -> Script {
    script.fault(FaultKind::CopyFolder { host: 0, copied, down })
}
