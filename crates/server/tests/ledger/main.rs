//! The ledger over a real database, without a clock, a thread or a socket: the test is all three.

mod children;
mod cluster;
mod desk;

mod abilities;
mod absence;
mod again;
mod amnesia;
mod artifacts;
mod cleanups;
mod crossing;
mod crowds;
mod dispatch;
mod faults;
mod fleet;
mod groups;
mod hearing;
mod hooks;
mod identity;
mod leases;
mod lives;
mod logs;
mod notices;
mod reconcile;
mod recover;
mod recovery;
mod remains;
mod remembered;
mod restored;
mod retention;
mod same;
mod schedules;
mod secrets;
mod siblings;
mod sweep;
mod told;
