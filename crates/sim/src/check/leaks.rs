//! Promise: nothing is kept for ever. When every job is over and all is quiet, no map of a server or a worker, no process, no
//! socket and no folder is left of what was; what is kept in order to be said once, or of others, is no more than there is of those.

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
    /// Logs that its worker looks after, and connections to runners or orders for them.
    pub logs: usize,
    pub lines: usize,
}

/// Signs of life of attempts that are over go when others are written down, so that those of the last ones stay: of so many at most.
const LAST_ONES_MAX: usize = 128;

/// What was said once is remembered, up to a bound: every worker on a copied folder that knocks again is one.
const SAID_MAX: usize = 1_000;

/// What a world has of those of whom servers know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cast {
    pub servers: usize,
    /// Of every worker that there ever was.
    pub workers: usize,
    pub triggers: usize,
    /// Attempts that may still run, and whose start was not on record.
    pub in_doubt: usize,
}

pub(crate) fn of_server(
    server: usize,
    (connected, sockets): (usize, usize),
    census: &Census,
    cast: Cast,
    found: &mut Findings,
) {
    let most = |number: usize, most: usize| number.min(most);
    let expected = Census {
        links: connected,
        beats: most(census.beats, LAST_ONES_MAX),
        begun: most(census.begun, LAST_ONES_MAX),
        // Until their doubt is over.
        groups: most(census.groups, cast.in_doubt),
        alarmed: most(census.alarmed, cast.in_doubt),
        said: most(census.said, SAID_MAX),
        // Those that were taken away.
        schedules: most(census.schedules, cast.triggers),
        siblings: most(census.siblings, cast.servers.saturating_sub(1)),
        workers: most(census.workers, cast.workers),
        ..Census::default()
    };
    if *census != expected || sockets != connected {
        let left = format!("{census:?} and {sockets} sockets");
        found.add(
            CHECKER,
            format!("server {server} is left with {left}, with {connected} workers connected of {cast:?}"),
        );
    }
}

pub(crate) fn of_host(host: usize, census: &HostCensus, found: &mut Findings) {
    if *census != (HostCensus { held: 0, folders: 0, runners: 0, groups: 0, logs: 0, lines: 0 }) {
        found.add(CHECKER, format!("host {host} is left with {census:?}"));
    }
}
