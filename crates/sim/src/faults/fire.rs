//! What each fault does to the world. A fault counts as fired when it has really hit something.

use std::time::Duration;

use worker::agent::StopLevel;

use super::{Fault, FaultKind, Ways};
use crate::database::Trouble;
use crate::hosts::HostEvent;
use crate::net::Way;
use crate::servers::Ambush;
use crate::users::UserEvent;
use crate::world::{Event, World};

#[derive(Debug, Clone, Copy)]
pub(crate) enum FaultEvent {
    Fire(Fault),
    StartServer(usize),
    KillServer { server: usize, life: u64 },
    DatabaseBack { server: Option<usize> },
    DiskHasRoom { host: usize },
    Mend { host: usize, server: usize, way: Way },
}

impl World {
    pub(crate) fn plan_faults(&mut self, faults: Vec<Fault>) {
        for fault in faults {
            self.agenda.at(fault.at, Event::Fault(FaultEvent::Fire(fault)));
        }
    }

    pub(crate) fn fault_event(&mut self, event: FaultEvent) {
        match event {
            FaultEvent::Fire(fault) => {
                self.tell(|| format!("fault: {:?}", fault.kind));
                if fault.kind.lies_in_wait() {
                    self.arm(fault.kind);
                } else if self.fire(fault.kind) {
                    self.has_fired(fault.kind.name());
                } else {
                    self.tell(|| "which hits nothing".to_owned());
                }
            }
            FaultEvent::StartServer(server) => self.start_server(server),
            FaultEvent::KillServer { server, life } => {
                if self.servers[server].process.as_ref().is_some_and(|process| process.life == life) {
                    self.kill_server(server);
                }
            }
            FaultEvent::DatabaseBack { server } => {
                for at in self.some_or_all(server) {
                    self.database.trouble(at, |trouble| trouble.away = false);
                }
            }
            FaultEvent::DiskHasRoom { host } => self.hosts[host].disk.full = false,
            FaultEvent::Mend { host, server, way } => self.mend(server, host, way),
        }
    }

    pub(crate) fn has_fired(&mut self, name: &'static str) {
        *self.fired.entry(name).or_default() += 1;
    }

    /// What the database did to commits is counted there.
    pub(crate) fn count_struck_commits(&mut self) {
        for server in 0..self.servers.len() {
            let struck = self.database.trouble(server, |trouble| trouble.struck);
            for (name, times) in [("answers-lost", struck.answers_lost), ("refusals", struck.refusals)] {
                if times > 0 {
                    *self.fired.entry(name).or_default() += times;
                }
            }
        }
    }

    fn arm(&mut self, kind: FaultKind) {
        match kind {
            FaultKind::AmbushServer { server, ambush, down } => self.servers[server].ambush = Some((ambush, down)),
            FaultKind::AnswersLost { server, count } => {
                self.database.trouble(server, |trouble| trouble.answers_lost = count);
            }
            FaultKind::Refusals { server, count } => self.database.trouble(server, |trouble| trouble.refusals = count),
            _ => {}
        }
    }

    /// False if there is nothing that it could hit.
    fn fire(&mut self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::KillServer { server, down } => {
                let up = self.servers[server].process.is_some();
                self.kill_server(server);
                self.fault_later(down, FaultEvent::StartServer(server));
                up
            }
            FaultKind::RestartServer { server, down } => {
                let up = self.servers[server].process.is_some();
                self.stop_server(server);
                self.fault_later(down, FaultEvent::StartServer(server));
                up
            }
            FaultKind::FreezeServer { server, time } => {
                let node = &self.servers[server];
                let awake = node.process.is_some() && node.frozen.is_none();
                self.freeze_server(server, time);
                awake
            }
            FaultKind::CrashLoop { server, times, up, down } => {
                self.crash_loop(server, times, up, down);
                true
            }
            FaultKind::DatabaseAway { server, time } => {
                let servers = self.some_or_all(server);
                servers.iter().for_each(|at| self.database.trouble(*at, |trouble| trouble.away = true));
                self.fault_later(time, FaultEvent::DatabaseBack { server });
                servers.iter().any(|at| self.servers[*at].process.is_some())
            }
            FaultKind::ClockStep { server, micros } => {
                self.step_clock(server, micros);
                true
            }
            FaultKind::Cut { .. } | FaultKind::MassCut { .. } | FaultKind::HalfOpen { .. } => self.fire_at_net(kind),
            FaultKind::Act(act) => self.act(act),
            _ => self.fire_at_host(kind),
        }
    }

    fn fire_at_host(&mut self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::KillWorker { host, down } => {
                let up = self.hosts[host].process.is_some();
                self.kill_worker(host);
                self.agenda.after(down, Event::Host { host, what: HostEvent::StartWorker });
                up
            }
            FaultKind::StopWorker { host } => {
                let up = self.hosts[host].process.is_some();
                self.stop_worker(host, StopLevel::Leave);
                up
            }
            FaultKind::FreezeWorker { host, time } => {
                let awake = self.hosts[host].process.is_some() && self.hosts[host].frozen.is_none();
                self.freeze_worker(host, time);
                awake
            }
            FaultKind::KillRunner { host } => match self.a_runner(host) {
                Some((host, pid)) => {
                    self.kill_runner(host, pid);
                    true
                }
                None => false,
            },
            FaultKind::FreezeRunner { host, time } => match self.a_runner(host) {
                Some((host, pid)) => {
                    self.freeze_runner(host, pid, time);
                    true
                }
                None => false,
            },
            FaultKind::CutPower { host, time } => {
                let on = self.hosts[host].is_on();
                self.cut_power(host, time);
                on
            }
            FaultKind::Sleep { host, time } => {
                let awake = self.hosts[host].is_on() && self.hosts[host].asleep.is_none();
                self.put_to_sleep(host, time);
                awake
            }
            FaultKind::DiskFull { host, time } => {
                let had_room = !std::mem::replace(&mut self.hosts[host].disk.full, true);
                self.fault_later(time, FaultEvent::DiskHasRoom { host });
                had_room
            }
            _ => false,
        }
    }

    fn fire_at_net(&mut self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::Cut { host, server, ways, time } => {
                for server in self.some_or_all(server) {
                    self.cut(server, host, ways, time);
                }
                true
            }
            FaultKind::MassCut { time } => {
                for server in 0..self.servers.len() {
                    for host in 0..self.hosts.len() {
                        self.cut(server, host, Ways::Both, time);
                    }
                }
                true
            }
            FaultKind::HalfOpen { host } => {
                let of_host = |world: &World, conn| world.net.get(conn).is_some_and(|conn| conn.host == host);
                let conns: Vec<_> = self.net.all().into_iter().filter(|conn| of_host(self, *conn)).collect();
                conns.iter().for_each(|conn| self.net.lose(*conn));
                !conns.is_empty()
            }
            _ => false,
        }
    }

    /// What lay in wait at this server's commit happens now.
    pub(crate) fn spring_ambush(&mut self, server: usize) {
        let Some((ambush, down)) = self.servers[server].ambush.take() else { return };
        self.tell(|| format!("fault: {ambush:?} at server {server}"));
        self.has_fired(FaultKind::AmbushServer { server, ambush, down }.name());
        match ambush {
            Ambush::DieBefore | Ambush::DieAfter => {
                self.kill_server(server);
                self.fault_later(down, FaultEvent::StartServer(server));
            }
            Ambush::FreezeAfter(time) => self.freeze_server(server, time),
        }
    }

    fn crash_loop(&mut self, server: usize, times: u32, up: Duration, down: Duration) {
        let mut at = Duration::ZERO;
        for round in 0..times {
            let life = self.servers[server].lives + u64::from(round);
            self.fault_later(at, FaultEvent::KillServer { server, life });
            self.fault_later(at + down, FaultEvent::StartServer(server));
            at += down + up;
        }
    }

    /// Servers that share a database share its clock.
    fn step_clock(&mut self, server: usize, micros: i64) {
        let all = self.servers.len() > 1;
        for (at, node) in self.servers.iter_mut().enumerate() {
            if all || at == server {
                node.skew_us += micros;
            }
        }
    }

    fn cut(&mut self, server: usize, host: usize, ways: Ways, time: Duration) {
        let both = [Way::ToServer, Way::ToHost];
        for way in both.into_iter().filter(|way| ways.has(*way)) {
            self.net.cut(server, host, way);
            self.fault_later(time, FaultEvent::Mend { host, server, way });
        }
    }

    fn mend(&mut self, server: usize, host: usize, way: Way) {
        let now = self.agenda.now();
        for due in self.net.mend(server, host, way, now) {
            self.agenda.at(due.at, Event::Arrive { conn: due.conn, way: due.way });
        }
    }

    /// A runner of this host, or of the next one that has any.
    fn a_runner(&mut self, host: usize) -> Option<(usize, u32)> {
        let hosts = self.hosts.len();
        let host = (host..host + hosts).map(|at| at % hosts).find(|at| !self.hosts[*at].runners.is_empty())?;
        let pids: Vec<u32> = self.hosts[host].runners.keys().copied().collect();
        self.dice.pick(&pids).map(|pid| (host, *pid))
    }

    fn some_or_all(&self, server: Option<usize>) -> Vec<usize> {
        server.map_or_else(|| (0..self.servers.len()).collect(), |server| vec![server])
    }

    fn fault_later(&mut self, pause: Duration, event: FaultEvent) {
        self.agenda.after(pause, Event::Fault(event));
    }

    /// Everything works again from here on, and people do what only they can do.
    pub(crate) fn make_peace(&mut self) {
        self.tell(|| "peace: nothing fails from here on".to_owned());
        let now = self.setup.length;
        // Servers that are down start first: nobody would hear it.
        self.agenda.at(now + Duration::from_secs(5), Event::User(UserEvent::Peace));
        for (server, host, way) in self.net.cut_paths() {
            while self.net.is_cut(server, host, way) {
                self.mend(server, host, way);
            }
        }
        for server in 0..self.servers.len() {
            self.database.trouble(server, |trouble| {
                *trouble = Trouble { commits: trouble.commits, struck: trouble.struck, ..Trouble::default() }
            });
            self.servers[server].ambush = None;
            self.thaw_server(server);
            self.agenda.at(now, Event::StartServer(server));
        }
        for host in 0..self.hosts.len() {
            self.hosts[host].disk.full = false;
            self.host_at_peace(host);
        }
    }
}
