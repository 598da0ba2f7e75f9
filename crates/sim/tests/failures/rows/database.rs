//! The database is away or refuses, and disks are full.

use sim::faults::FaultKind;
use sim::scenario::{Moment, Script};

use crate::row::{LEASE, LONG, Row, SHORT, returns, running, secs, when};

pub(crate) fn rows() -> Vec<Row> {
    let away = |script: Script, time| returns(script.fault(FaultKind::DatabaseAway { server: None, time }), time);
    let full = |script: Script, time| script.fault(FaultKind::DiskFull { host: 0, time });
    vec![
        Row::new("database-away-offered", "the database is away for 45 s when the step was just offered", away(when(Moment::Offered), SHORT)),
        Row::new("database-away-running", "the database is away for 300 s, or the server's disk is full", away(running(), LONG))
            .rule("hearing time: without commits a server is deaf")
            .real("a_full_disk_of_the_server_is_waited_out"),
        Row::new("database-away-ended", "the database is away for 300 s when the step has just ended", away(when(Moment::Ended), LONG))
            .rule("a result is answered after its commit, and sent until then"),
        Row::new("database-away-stop", "the database is away for 300 s; the step has `on_disconnect: stop`", away(running().step(|step| step.stop = true), LONG))
            .rule(LEASE),
        Row::new("database-answer-lost", "the commit of the start goes through, its answer is lost", when(Moment::Accepted).fault(FaultKind::AnswersLost { server: 0, count: 1 }))
            .rule("the same batch again changes nothing twice"),
        Row::new("database-refuses-once", "the database refuses the commit of the start once", when(Moment::Accepted).fault(FaultKind::Refusals { server: 0, count: 1 })),
        Row::new("database-lost-start", "the database loses the commit of the start, as one does that falls over to an older copy; the step prints nothing", lost_start())
            .rule("workers know better than the rows: what they have is adopted")
            .either(),
        Row::new("database-lost-start-two", "the same, and there is another worker", lost_start().hosts(2))
            .rule("nothing but effects `none` starts before all workers have reported, or a window is over")
            .either(),
        Row::new("database-lost-end", "the database loses the commit of the end after the worker was told that it need not keep it; the step prints nothing", lost_end())
            .rule("a worker keeps for a while what it was told to forget, and is asked for it when commits are lost"),
        Row::new("database-lost-end-two", "the same, and there is another worker", lost_end().hosts(2)),
        Row::new("disk-full-offered", "the worker's disk is full for 40 s when the step is offered", full(when(Moment::Offered), secs(40)).after(secs(10)).asks_why())
            .rule("a refused offer costs the step nothing; the worker is asked again with its next heartbeat, which comes soon after"),
        Row::new("disk-full-running", "the worker's disk is full for 60 s while the step runs", full(running(), secs(60)))
            .rule("the exit record has its room from the start")
            .real("a_full_disk_of_the_worker_costs_lines_that_are_counted_and_never_the_exit_code"),
    ]
}

fn lost_start() -> Script {
    when(Moment::Granted).fault(FaultKind::LoseCommits { count: 1 }).program(|program| program.lines = 0)
}

fn lost_end() -> Script {
    when(Moment::PutAway).fault(FaultKind::LoseCommits { count: 2 }).program(|program| program.lines = 0)
}
