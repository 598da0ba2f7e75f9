//! All rows, one file per party.

mod children;
mod clock;
mod database;
mod deleted;
mod folder;
mod gifts;
mod groups;
mod hooks;
mod items;
mod machine;
mod network;
mod operator;
mod process;
mod runner;
mod schedules;
mod server;
mod several;
mod worker;

use crate::row::Table;

pub(crate) fn tables() -> Vec<Table> {
    vec![
        Table { name: "server", rows: server::rows() },
        Table { name: "several", rows: several::rows() },
        Table { name: "worker", rows: worker::rows() },
        Table { name: "folder", rows: folder::rows() },
        Table { name: "runner", rows: runner::rows() },
        Table { name: "process", rows: process::rows() },
        Table { name: "machine", rows: machine::rows() },
        Table { name: "network", rows: network::rows() },
        Table { name: "database", rows: database::rows() },
        Table { name: "clock", rows: clock::rows() },
        Table { name: "operator", rows: operator::rows() },
        Table { name: "items", rows: items::rows() },
        Table { name: "children", rows: children::rows() },
        Table { name: "groups", rows: groups::rows() },
        Table { name: "secrets", rows: gifts::secrets() },
        Table { name: "artifacts", rows: gifts::artifacts() },
        Table { name: "hooks", rows: hooks::rows() },
        Table { name: "schedules", rows: schedules::rows() },
        Table { name: "deleted", rows: deleted::rows() },
    ]
}
