//! What each fault does to the world. A fault counts as fired when it has really hit something.

use std::time::Duration;

use engine::JobId;
use worker::agent::StopLevel;

use super::{Fault, FaultKind, Scene, Ways};
use crate::check::Checks;
use crate::database::{Falter, Flaky, Poison, Trouble};
use crate::hosts::{Emptied, HostEvent};
use crate::net::{Line, Parcel, Way};
use crate::runners::RunnerEvent;
use crate::servers::Ambush;
use crate::users::{Act, UserEvent};
use crate::world::{Event, World};

#[derive(Debug, Clone, Copy)]
pub(crate) enum FaultEvent {
    Fire(Fault),
    StartServer(usize),
    KillServer {
        server: usize,
        life: u64,
    },
    DatabaseBack {
        server: Option<usize>,
    },
    DatabaseSteady {
        server: usize,
    },
    DiskHasRoom {
        host: usize,
    },
    DiskWorks {
        host: usize,
    },
    TakesLogs {
        server: usize,
    },
    Mend {
        host: usize,
        server: usize,
        way: Way,
    },
    /// Its machine has slept since then.
    WakeServer {
        server: usize,
        life: u64,
        since: Duration,
    },
    RestartServer {
        server: usize,
        down: Duration,
        /// With a later version.
        newer: bool,
    },
    Drift {
        server: usize,
        micros: i64,
        until: Duration,
    },
    RollBack {
        host: usize,
        time: Duration,
    },
    /// The line is as it was.
    Line {
        host: usize,
    },
    /// An operator says that the database was restored.
    SayRestored,
    /// Nobody is newer than the others.
    SameVersion {
        host: Option<usize>,
    },
    ActOn {
        host: usize,
        act: Act,
        /// They try again until then.
        until: Duration,
    },
    /// Somebody waits for a chance to do it.
    Decide(Act),
    /// What it hits was not there yet.
    TryAgain(FaultKind),
    /// On the concurrency group of this job.
    ActBehind {
        holder: JobId,
        act: Act,
        until: Duration,
    },
}

impl FaultEvent {
    /// The rest of a fault that began before peace.
    fn does_harm(&self) -> bool {
        match self {
            FaultEvent::KillServer { .. }
            | FaultEvent::RestartServer { .. }
            | FaultEvent::Drift { .. }
            | FaultEvent::RollBack { .. }
            | FaultEvent::SayRestored
            | FaultEvent::ActOn { .. }
            | FaultEvent::ActBehind { .. }
            | FaultEvent::Decide(_)
            | FaultEvent::TryAgain(_) => true,
            FaultEvent::Fire(_)
            | FaultEvent::StartServer(_)
            | FaultEvent::DatabaseBack { .. }
            | FaultEvent::DatabaseSteady { .. }
            | FaultEvent::DiskHasRoom { .. }
            | FaultEvent::DiskWorks { .. }
            | FaultEvent::TakesLogs { .. }
            | FaultEvent::Mend { .. }
            | FaultEvent::WakeServer { .. }
            | FaultEvent::Line { .. }
            | FaultEvent::SameVersion { .. } => false,
        }
    }
}

/// Whoever waits for a chance looks for one so often.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A clock that drifts is moved by small steps.
const DRIFT_STEP: Duration = Duration::from_secs(5);

impl World {
    pub(crate) fn plan_faults(&mut self, faults: Vec<Fault>) {
        for fault in faults {
            self.agenda.at(fault.at, Event::Fault(FaultEvent::Fire(fault)));
        }
    }

    pub(crate) fn fault_event(&mut self, event: FaultEvent) {
        if self.at_peace && event.does_harm() {
            return;
        }
        match event {
            FaultEvent::Fire(fault) => {
                self.tell(|| format!("fault: {fault}"));
                self.check(Checks::troubled);
                if let (FaultKind::Decide(act), None) = (fault.kind, fault.on) {
                    self.decide(act);
                } else if fault.on.is_some() {
                    self.armed.push(fault);
                } else if self.lays_in_wait(fault.kind) {
                    // It is counted when it has struck a commit.
                } else if self.fire(fault.kind) {
                    self.has_fired(fault.kind.name().to_owned());
                } else if matches!(fault.kind, FaultKind::CutHolder { patient: true, .. }) {
                    self.fault_later(LOOK_AGAIN, FaultEvent::TryAgain(fault.kind));
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
            FaultEvent::DatabaseSteady { server } => {
                self.database.trouble(server, |trouble| trouble.flaky = None);
            }
            FaultEvent::DiskHasRoom { host } => self.hosts[host].disk.full = false,
            FaultEvent::DiskWorks { host } => self.disk_works(host),
            FaultEvent::TakesLogs { server } => self.servers[server].drops_logs = false,
            FaultEvent::Mend { host, server, way } => self.mend(server, host, way),
            FaultEvent::WakeServer { server, life, since } => self.server_has_slept(server, life, since),
            FaultEvent::RestartServer { server, down, newer } => {
                self.servers[server].newer |= newer;
                self.fire(FaultKind::RestartServer { server, down });
            }
            FaultEvent::Drift { server, micros, until } => self.drift(server, micros, until),
            FaultEvent::RollBack { host, time } => self.roll_back(host, time),
            FaultEvent::Line { host } => self.net.set_line(host, Line::default()),
            FaultEvent::SayRestored => self.count_said(),
            FaultEvent::SameVersion { host } => self.set_newer(host, false),
            FaultEvent::Decide(act) => self.decide(act),
            FaultEvent::TryAgain(kind) => {
                if self.fire(kind) {
                    self.has_fired(kind.name().to_owned());
                } else {
                    self.fault_later(LOOK_AGAIN, FaultEvent::TryAgain(kind));
                }
            }
            FaultEvent::ActOn { host, act, until } => {
                self.scene = Some(Scene { host, server: None, runner: None });
                if self.act(act) {
                    self.has_fired(format!("{} while cut off", act.name()));
                } else if self.agenda.now() + LOOK_AGAIN < until {
                    self.fault_later(LOOK_AGAIN, FaultEvent::ActOn { host, act, until });
                }
                self.scene = None;
            }
            FaultEvent::ActBehind { holder, act, until } => {
                self.holder = Some(holder);
                if self.act(act) {
                    self.has_fired(format!("{} behind a holder that is cut off", act.name()));
                } else if self.agenda.now() + LOOK_AGAIN < until {
                    self.fault_later(LOOK_AGAIN, FaultEvent::ActBehind { holder, act, until });
                }
                self.holder = None;
            }
        }
    }

    /// Now, or when there is something to do it to.
    fn decide(&mut self, act: Act) {
        if self.act(act) {
            self.has_fired(act.name().to_owned());
        } else {
            self.fault_later(LOOK_AGAIN, FaultEvent::Decide(act));
        }
    }

    pub(crate) fn has_fired(&mut self, name: String) {
        *self.fired.entry(name).or_default() += 1;
    }

    /// What the database did to commits is counted there.
    pub(crate) fn count_struck_commits(&mut self) {
        for server in 0..self.servers.len() {
            let struck = self.database.trouble(server, |trouble| trouble.struck);
            let all = [
                ("answers-lost", struck.answers_lost),
                ("answers-lost-aside", struck.answers_lost_aside),
                ("commit-errors", struck.errors),
                ("refusals", struck.refusals),
                ("poison", struck.poisoned),
                ("conflicts", struck.conflicts),
                ("falter", struck.falters),
                ("flaky", struck.flukes),
                ("slow-commit", struck.pauses),
            ];
            for (name, times) in all.into_iter().filter(|(_, times)| *times > 0) {
                *self.fired.entry(name.to_owned()).or_default() += times;
            }
        }
    }

    /// Whether this waits for the next commits of its server, which it does from now on.
    pub(super) fn lays_in_wait(&mut self, kind: FaultKind) -> bool {
        let order = |server: usize, change: &dyn Fn(&mut Trouble)| {
            self.database.trouble(server, |trouble| change(trouble));
        };
        match kind {
            FaultKind::AmbushServer { server, ambush, down } => self.servers[server].ambush = Some((ambush, down)),
            FaultKind::AnswersLost { server, count } => order(server, &|trouble| trouble.answers_lost = count),
            FaultKind::AnswersLostAside { server, count } => {
                order(server, &|trouble| trouble.answers_lost_aside = count);
            }
            FaultKind::CommitErrors { server, count } => order(server, &|trouble| trouble.errors = count),
            FaultKind::Refusals { server, count } => order(server, &|trouble| trouble.refusals = count),
            FaultKind::Poison { server } => order(server, &|trouble| trouble.poison = Poison::Next),
            FaultKind::Conflicts { server, count } => order(server, &|trouble| trouble.conflicts = count),
            FaultKind::Falter { server, after, calls } => {
                order(server, &|trouble| trouble.falter = Some(Falter { after, calls }));
            }
            FaultKind::Flaky { server, one_in, salt, time } => {
                order(server, &|trouble| trouble.flaky = Some(Flaky::new(one_in, salt)));
                self.fault_later(time, FaultEvent::DatabaseSteady { server });
            }
            FaultKind::SlowCommit { server, time } => order(server, &|trouble| trouble.pause = Some(time)),
            _ => return false,
        }
        true
    }

    /// False if there is nothing that it could hit.
    pub(super) fn fire(&mut self, kind: FaultKind) -> bool {
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
            FaultKind::SuspendServer { server, time } => self.suspend_server(server, time),
            FaultKind::RollingRestart { down, pause } => self.restart_all(down, pause, false),
            FaultKind::RollingUpgrade { down, pause } => self.restart_all(down, pause, true),
            FaultKind::Drift { server, ppm, time } => {
                let step = i64::try_from(DRIFT_STEP.as_micros()).unwrap_or(i64::MAX);
                self.drift(server, step * ppm / 1_000_000, self.agenda.now() + time);
                true
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
            FaultKind::LoseCommits { count } => self.lose_commits(count),
            FaultKind::RestoreOlder { count, down, said } => {
                for server in 0..self.servers.len() {
                    self.kill_server(server);
                    self.fault_later(down, FaultEvent::StartServer(server));
                }
                let lost = self.lose_commits(count);
                if said {
                    self.count_said();
                }
                lost
            }
            FaultKind::FailOver { count, after } => {
                self.fault_later(after, FaultEvent::SayRestored);
                self.lose_commits(count)
            }
            FaultKind::DropLogs { server, time } => {
                let took_all = !std::mem::replace(&mut self.servers[server].drops_logs, true);
                self.fault_later(time, FaultEvent::TakesLogs { server });
                took_all && self.servers[server].process.is_some()
            }
            FaultKind::ClockStep { server, micros } => {
                self.step_clock(server, micros);
                true
            }
            FaultKind::Act(act) | FaultKind::Decide(act) => self.act(act),
            FaultKind::Cut { .. }
            | FaultKind::MassCut { .. }
            | FaultKind::HalfOpen { .. }
            | FaultKind::Slow { .. }
            | FaultKind::Thin { .. }
            | FaultKind::MassReset
            | FaultKind::Newer { .. }
            | FaultKind::CutAndAct { .. }
            | FaultKind::CutHolder { .. } => self.fire_at_net(kind),
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
            FaultKind::StopWorker { host } | FaultKind::StopSteps { host } => {
                let up = self.hosts[host].process.is_some();
                let steps = matches!(kind, FaultKind::StopSteps { .. });
                self.stop_worker(host, if steps { StopLevel::EndSteps } else { StopLevel::Leave });
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
            FaultKind::OutOfMemory { host } => match self.a_runner(host) {
                Some((host, pid)) => self.out_of_memory(host, pid),
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
            FaultKind::PullPlug { host, time } => {
                let on = self.hosts[host].is_on();
                self.pull_plug(host, time);
                on
            }
            FaultKind::TearRecord { host, time } => self.tear_record(host, time),
            FaultKind::RollBack { host, after, time } => {
                let host_at = &mut self.hosts[host];
                host_at.snapshot = Some(host_at.disk.clone());
                self.fault_later(after, FaultEvent::RollBack { host, time });
                true
            }
            FaultKind::CopyFolder { host, copied, down } => {
                self.copy_folder(host, copied);
                down.is_zero() || self.fire_at_host(FaultKind::KillWorker { host, down })
            }
            FaultKind::EmptyFolder { host, what } => {
                let had_some = !self.hosts[host].disk.attempts.is_empty();
                self.empty_folder(host, what);
                had_some || what == Emptied::All
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
            FaultKind::DiskErrors { host, time } => {
                let worked = !std::mem::replace(&mut self.hosts[host].disk.broken, true);
                self.check(|checks| checks.disk_fails(host));
                self.fault_later(time, FaultEvent::DiskWorks { host });
                worked
            }
            FaultKind::EndRunner { host } => match self.a_runner(host) {
                Some((host, pid)) => {
                    self.tell(|| format!("host {host}: runner {pid} is told to end"));
                    self.agenda.after(Duration::ZERO, Event::Runner { host, pid, what: RunnerEvent::ToldToEnd });
                    true
                }
                None => false,
            },
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
            FaultKind::Slow { host, latency, time } => {
                self.net.set_line(host, Line { latency, bytes_a_second: None });
                self.fault_later(time, FaultEvent::Line { host });
                true
            }
            FaultKind::Thin { host, bytes_a_second, time } => {
                self.net.set_line(host, Line { latency: Duration::ZERO, bytes_a_second: Some(bytes_a_second) });
                self.fault_later(time, FaultEvent::Line { host });
                true
            }
            FaultKind::MassReset => {
                let conns = self.net.all();
                for conn in &conns {
                    self.send(*conn, Way::ToHost, Parcel::End);
                    self.send(*conn, Way::ToServer, Parcel::End);
                }
                !conns.is_empty()
            }
            FaultKind::Newer { host, time } => {
                self.set_newer(host, true);
                self.fault_later(time, FaultEvent::SameVersion { host });
                true
            }
            FaultKind::CutAndAct { host, time, act, patient } => {
                let host = if patient { self.a_busy_host(host) } else { host };
                for server in 0..self.servers.len() {
                    self.cut(server, host, Ways::Both, time);
                }
                let until = if patient { self.agenda.now() + time } else { Duration::ZERO };
                // The link is seen to be lost after three pings; both before and after that is a bad moment.
                let after = if patient { Duration::ZERO } else { time.mul_f64(0.7) };
                self.fault_later(after, FaultEvent::ActOn { host, act, until });
                true
            }
            FaultKind::CutHolder { time, after, act, patient } => {
                let Some((holder, host)) = self.a_holder() else { return false };
                for server in 0..self.servers.len() {
                    self.cut(server, host, Ways::Both, time);
                }
                let until = if patient { self.agenda.now() + time } else { Duration::ZERO };
                self.fault_later(after, FaultEvent::ActBehind { holder, act, until });
                true
            }
            _ => false,
        }
    }

    /// One server after the other.
    fn restart_all(&mut self, down: Duration, pause: Duration, newer: bool) -> bool {
        for server in 0..self.servers.len() {
            let turn = u32::try_from(server).unwrap_or(u32::MAX);
            self.fault_later((down + pause) * turn, FaultEvent::RestartServer { server, down, newer });
        }
        true
    }

    fn lose_commits(&mut self, count: u32) -> bool {
        let up = (0..self.servers.len()).filter(|at| self.servers[*at].process.is_some()).collect();
        self.check(|checks| checks.will_forget(up));
        let batches = self.database.forget_last(u64::from(count));
        let word = self.last_word_of_a_restore();
        self.check(|checks| checks.left_of_words(word));
        self.tell(|| format!("the database has lost its last {batches} batches"));
        batches > 0
    }

    fn count_said(&mut self) {
        if self.say_restored() {
            self.has_fired("say-restored".to_owned());
        }
    }

    /// What lay in wait at this server's commit happens now.
    pub(crate) fn spring_ambush(&mut self, server: usize) {
        let Some((ambush, down)) = self.servers[server].ambush.take() else { return };
        self.tell(|| format!("fault: {ambush:?} at server {server}"));
        self.has_fired(FaultKind::AmbushServer { server, ambush, down }.name().to_owned());
        match ambush {
            Ambush::DieBefore | Ambush::DieAfter => {
                self.kill_server(server);
                self.fault_later(down, FaultEvent::StartServer(server));
            }
            Ambush::FreezeAfter(time) => self.freeze_server(server, time),
        }
    }

    fn suspend_server(&mut self, server: usize, time: Duration) -> bool {
        let node = &self.servers[server];
        let Some(life) = node.process.as_ref().filter(|_| node.frozen.is_none()).map(|process| process.life) else {
            return false;
        };
        // It comes before the thaw, so that its clocks are right when it goes on.
        let since = self.agenda.now();
        self.fault_later(time, FaultEvent::WakeServer { server, life, since });
        self.freeze_server(server, time);
        true
    }

    fn server_has_slept(&mut self, server: usize, life: u64, since: Duration) {
        let now = self.agenda.now();
        let node = &mut self.servers[server];
        let frozen = node.frozen.is_some();
        if let Some(process) = node.process.as_mut().filter(|process| frozen && process.life == life) {
            process.slept += now - since;
        }
    }

    fn drift(&mut self, server: usize, micros: i64, until: Duration) {
        self.step_clock(server, micros);
        if self.agenda.now() < until.min(self.setup.length) {
            self.fault_later(DRIFT_STEP, FaultEvent::Drift { server, micros, until });
        }
    }

    /// What lay on the disk then lies there again; whatever ran is gone.
    fn roll_back(&mut self, host: usize, time: Duration) {
        let Some(disk) = self.hosts[host].snapshot.take() else { return };
        self.cut_power(host, time);
        let full = self.hosts[host].disk.full;
        let newer = std::mem::replace(&mut self.hosts[host].disk, disk);
        self.hosts[host].disk.full = full;
        self.hosts[host].disk.attempts.values_mut().for_each(|folder| folder.runner = None);
        for ticket in newer.attempts.into_keys() {
            let kept = self.hosts[host].disk.attempts.get(&ticket).map_or(0, |folder| folder.log.last_seq);
            self.check(|checks| checks.log_rolled_back(ticket, kept));
        }
        for ticket in newer.kept.into_keys() {
            let kept = self.hosts[host].disk.kept.contains_key(&ticket);
            self.check(|checks| checks.keeps(ticket, kept));
        }
        self.tell(|| format!("host {host}: the disk is what it was before"));
    }

    /// The power goes while this runner writes how its step ended.
    fn tear_record(&mut self, host: usize, time: Duration) -> bool {
        let pid = self.scene.and_then(|scene| scene.runner);
        let ticket = pid.and_then(|pid| self.hosts[host].runners.get(&pid)).map(|runner| runner.ticket);
        if let Some(folder) = ticket.and_then(|ticket| self.hosts[host].disk.attempts.get_mut(&ticket)) {
            folder.torn = true;
        }
        self.cut_power(host, time);
        ticket.is_some()
    }

    fn set_newer(&mut self, host: Option<usize>, newer: bool) {
        match host {
            Some(host) => self.hosts[host].newer = newer,
            None => self.servers.iter_mut().for_each(|node| node.newer = newer),
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

    /// Servers that share a database go by its clock. Their own go other ways, which must not matter.
    fn step_clock(&mut self, server: usize, micros: i64) {
        let shared = self.servers.len() > 1;
        self.servers[server].skew_us += if shared { -micros } else { micros };
        self.common_skew_us += micros;
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

    /// This host, or the next one that has something.
    fn a_busy_host(&self, host: usize) -> usize {
        let hosts = self.hosts.len();
        let mut all = (host..host + hosts).map(|at| at % hosts);
        all.find(|at| !self.hosts[*at].disk.attempts.is_empty()).unwrap_or(host)
    }

    /// A runner of this host, or of the next one that has any.
    fn a_runner(&mut self, host: usize) -> Option<(usize, u32)> {
        if let Some(pid) = self.scene.and_then(|scene| scene.runner) {
            return Some((host, pid));
        }
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
        self.check(|checks| checks.peace(now));
        // Servers that are down start first: nobody would hear it.
        self.agenda.at(now + Duration::from_secs(5), Event::User(UserEvent::Peace));
        for (server, host, way) in self.net.cut_paths() {
            while self.net.is_cut(server, host, way) {
                self.mend(server, host, way);
            }
        }
        self.armed.clear();
        self.set_newer(None, false);
        for server in 0..self.servers.len() {
            self.database.trouble(server, |trouble| {
                *trouble = Trouble { commits: trouble.commits, struck: trouble.struck, ..Trouble::default() }
            });
            self.servers[server].ambush = None;
            self.servers[server].drops_logs = false;
            self.thaw_server(server);
            self.database_answers(server, now);
            self.agenda.at(now, Event::StartServer(server));
        }
        for host in 0..self.hosts.len() {
            self.hosts[host].disk.full = false;
            self.disk_works(host);
            self.net.set_line(host, Line::default());
            self.set_newer(Some(host), false);
            self.host_at_peace(host);
        }
    }

    fn disk_works(&mut self, host: usize) {
        let now = self.agenda.now();
        self.hosts[host].disk.broken = false;
        self.check(|checks| checks.disk_works(now, host));
    }
}
