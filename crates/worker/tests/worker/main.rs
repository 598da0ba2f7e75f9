//! Real workers with real runners, against a server that only follows the test's script.

mod copies;
mod formats;
mod kit;
mod leases;
mod leaving;
mod recovery;
mod steps;
mod throughput;
