//! Three servers on one database, and one of them fails; servers and workers of different versions.

use sim::faults::FaultKind;
use sim::scenario::Script;

use crate::row::{LONG, Row, returns, running, secs};

pub(crate) fn rows() -> Vec<Row> {
    let elsewhere = "the worker goes to another server; the rows are everybody's";
    vec![
        Row::new(
            "servers-one-killed",
            "of three the one that the worker is connected to is killed for 300 s",
            returns(three(running()).at_its_server(|server| FaultKind::KillServer { server, down: LONG }), LONG),
        )
        .rule(elsewhere),
        Row::new(
            "servers-one-frozen",
            "of three the one that the worker is connected to is frozen for 300 s",
            returns(three(running()).at_its_server(|server| FaultKind::FreezeServer { server, time: LONG }), LONG),
        )
        .rule(elsewhere),
        Row::new(
            "servers-one-without-database",
            "of three the one that the worker is connected to cannot reach the database for 300 s",
            returns(
                three(running()).at_its_server(|server| FaultKind::DatabaseAway { server: Some(server), time: LONG }),
                LONG,
            ),
        )
        .rule("a server without its database sends its workers away, and they go to another one"),
        Row::new(
            "servers-rolling-restart",
            "three are stopped and started again one after the other, each for 5 s and 20 s apart; the step prints nothing",
            quiet(three(running()).fault(FaultKind::RollingRestart { down: secs(5), pause: secs(20) })),
        )
        .either()
        .rule(elsewhere),
        Row::new(
            "servers-rolling-upgrade",
            "the same, and each comes back with a later version",
            quiet(three(running()).fault(FaultKind::RollingUpgrade { down: secs(5), pause: secs(20) })),
        )
        .either()
        .rule(elsewhere),
        Row::new(
            "worker-newer",
            "the worker says things that the server does not know, for 300 s",
            running().fault(FaultKind::Newer { host: Some(0), time: LONG }),
        )
        .rule("what is not known is passed over"),
        Row::new(
            "server-newer",
            "the server says things that the worker does not know, for 300 s",
            running().fault(FaultKind::Newer { host: None, time: LONG }),
        )
        .rule("what is not known is passed over"),
    ]
}

fn quiet(script: Script) -> Script {
    script.program(|program| program.lines = 0)
}

fn three(mut script: Script) -> Script {
    script.servers = 3;
    script
}
