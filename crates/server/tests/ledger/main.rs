//! The ledger over a real database, without a clock, a thread or a socket: the test is all three.

mod children;
mod cluster;
mod desk;

mod absence;
mod again;
mod amnesia;
mod crossing;
mod dispatch;
mod faults;
mod fleet;
mod hearing;
mod hooks;
mod identity;
mod lives;
mod logs;
mod reconcile;
mod recover;
mod recovery;
mod remains;
mod same;
mod schedules;
mod siblings;
mod sweep;
mod told;
