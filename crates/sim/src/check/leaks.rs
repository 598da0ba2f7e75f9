//! Promise: nothing is kept for ever. When every job is over and all is quiet, no map of a server or a worker, no process, no
//! socket and no folder is left of what was.

use server::ledger::Census;

use super::Findings;

const CHECKER: &str = "leak";

/// What one host still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostCensus {
    /// Attempts that the agent holds.
    pub held: usize,
    pub folders: usize,
    pub runners: usize,
    pub groups: usize,
}

pub(crate) fn of_server(server: usize, connected: usize, sockets: usize, census: &Census, found: &mut Findings) {
    // Two that are bounded otherwise: signs of life of attempts that are over go with the next ones that come, and jobs that
    // somebody asked for stay in memory until there are too many steps.
    let (beats, cached_jobs) = (census.beats, census.cached_jobs);
    let expected = Census { links: connected, beats, cached_jobs, ..Census::default() };
    if *census != expected || sockets != connected {
        let left = format!("{census:?} and {sockets} sockets");
        found.add(CHECKER, format!("server {server} is left with {left}, with {connected} workers connected"));
    }
}

pub(crate) fn of_host(host: usize, census: &HostCensus, found: &mut Findings) {
    if *census != (HostCensus { held: 0, folders: 0, runners: 0, groups: 0 }) {
        found.add(CHECKER, format!("host {host} is left with {census:?}"));
    }
}
