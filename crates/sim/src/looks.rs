//! What the checkers ask of the parties themselves: an explanation now and then, and at the end what each still has.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::{AttemptId, WorkerId};
use server::explain::{Live, explain};

use crate::check::HostCensus;
use crate::hosts::{Host, Link};
use crate::world::World;

/// An explanation is asked for so often. More would cost more than all the rest.
pub(crate) const ASK_WHY_EVERY: Duration = Duration::from_secs(45);

/// How often it is asked about one that is over.
const ABOUT_THE_PAST: f64 = 0.2;

impl World {
    /// Asks a server that is up why some job is where it is: mostly an open one.
    pub(crate) fn ask_why(&mut self) {
        let ended = self.curiosity.chance(ABOUT_THE_PAST);
        let jobs = {
            let checks = self.checks.lock().expect("no checker panics");
            if ended { checks.final_jobs() } else { checks.open_jobs() }
        };
        let (Some(job), Some(server)) = (self.curiosity.pick(&jobs), self.a_talking_server()) else { return };
        let Some(process) = &self.servers[server].process else { return };
        let reader = self.database.reader();
        let now = process.now();
        let clocks = match reader.hearing() {
            Ok(Some(row)) => row.clocks(now),
            Ok(None) | Err(_) => return,
        };
        let why = explain(reader.as_ref(), &self.definitions, &clocks, *job, Live::of(process.core.roster()));
        let stored = reader.job(*job);
        self.check(|checks| checks.explained((server, *job), now, stored, why));
    }

    /// Up, not stopped, and with a database: one that would answer.
    fn a_talking_server(&self) -> Option<usize> {
        (0..self.servers.len()).find(|at| {
            let node = &self.servers[*at];
            node.process.is_some() && node.frozen.is_none() && !self.database.trouble(*at, |trouble| trouble.away)
        })
    }

    /// What can only be seen when all is over.
    pub(crate) fn last_look(&mut self) {
        let unacknowledged = self.users.plans.len() - self.users.submitted();
        let reader = self.database.reader();
        let shut_out = self.shut_out();
        let heard = self.hosts.iter().enumerate().filter(|(at, _)| !shut_out.contains(at));
        let tickets = heard.flat_map(|(_, host)| host.disk.attempts.keys());
        let folders: BTreeSet<AttemptId> = tickets.map(|ticket| AttemptId(ticket.attempt)).collect();
        self.check(|checks| checks.at_the_end(unacknowledged, reader.as_ref(), &folders));
        // One that is refused for good knocks again and again; whether its socket is still open is chance.
        let linked = self.hosts.iter().enumerate();
        let linked = linked.filter_map(|(at, host)| Some((at, self.server_of(host.process.as_ref()?.link)?)));
        let (refused, up): (Vec<_>, Vec<_>) = linked.partition(|(at, _)| shut_out.contains(at));
        for (at, node) in self.servers.iter().enumerate() {
            let Some(process) = &node.process else { continue };
            let count = |links: &[(usize, usize)]| links.iter().filter(|(_, server)| *server == at).count();
            let (connected, knocking) = (count(&up), count(&refused));
            let sockets = process.sockets_count();
            let sockets = sockets - sockets.saturating_sub(connected).min(knocking);
            let census = process.core.census();
            self.check(|checks| checks.server_at_the_end(at, connected, sockets, &census));
        }
        for (at, host) in self.hosts.iter().enumerate().filter(|(at, _)| !shut_out.contains(at)) {
            let census = HostCensus {
                held: host.process.as_ref().map_or(0, |process| process.agent.holds()),
                folders: host.disk.attempts.len(),
                runners: host.runners.len(),
                groups: host.groups.len(),
                logs: host.process.as_ref().map_or(0, |process| process.shipper.holds()),
                lines: host.process.as_ref().map_or(0, |process| process.lines_held()),
            };
            self.check(|checks| checks.host_at_the_end(at, &census));
            if host.process.is_some() {
                self.check(|checks| checks.worker_at_the_end(at, WorkerId(host.worker)));
            }
        }
    }

    /// Hosts whose disk was put back to before a link that their worker has used, or whose copy has used one since: it is an
    /// older copy of the state folder to every server, so the worker is refused for good, and what lies there stays until
    /// people see to it. And copies, which somebody has taken away.
    fn shut_out(&self) -> BTreeSet<usize> {
        let rows = self.database.reader().workers().unwrap_or_default();
        let used = |host: &Host| rows.iter().find(|row| row.id.0 == host.worker).map_or(0, |row| row.used_epoch.0);
        // One whose folder was emptied knows as long as it lives.
        let last_epoch = |host: &Host| match &host.process {
            Some(process) => process.agent.last_epoch(),
            None => host.disk.last_epoch,
        };
        let is_older = |host: &Host| (1..used(host)).contains(&last_epoch(host));
        let is_out = |host: &Host| host.copy_of.is_some() || is_older(host);
        (0..self.hosts.len()).filter(|at| is_out(&self.hosts[*at])).collect()
    }

    /// The server at the other end.
    pub(crate) fn server_of(&self, link: Link) -> Option<usize> {
        match link {
            Link::Up(conn) => self.net.get(conn).map(|conn| conn.server),
            Link::Down | Link::Connecting(_) => None,
        }
    }
}
