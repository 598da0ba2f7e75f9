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
    // Signs of life are bounded otherwise: those of attempts that are over go with the next ones that come.
    let expected = Census { links: connected, beats: census.beats, begun: census.begun, ..Census::default() };
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
