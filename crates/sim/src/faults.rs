//! What goes wrong, when, and for how long: a list made from the seed before the world begins, so that it can be shown,
//! repeated and made shorter. Every seed picks its own mix (swarm testing): a world in which everything fails at once hides
//! what one kind of fault alone would show.

use std::fmt;
use std::time::Duration;

use worker::agent::StopLevel;

use crate::database::Trouble;
use crate::dice::Dice;
use crate::hosts::HostEvent;
use crate::net::Way;
use crate::servers::Ambush;
use crate::setup::Setup;
use crate::users::{Act, UserEvent};
use crate::world::{Event, World};

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub at: Duration,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    KillServer {
        server: usize,
        down: Duration,
    },
    RestartServer {
        server: usize,
        down: Duration,
    },
    AmbushServer {
        server: usize,
        ambush: Ambush,
        down: Duration,
    },
    FreezeServer {
        server: usize,
        time: Duration,
    },
    /// Shorter lives than the window, again and again.
    CrashLoop {
        server: usize,
        times: u32,
        up: Duration,
        down: Duration,
    },
    DatabaseAway {
        server: Option<usize>,
        time: Duration,
    },
    AnswersLost {
        server: usize,
        count: u32,
    },
    Refusals {
        server: usize,
        count: u32,
    },
    ClockStep {
        server: usize,
        micros: i64,
    },
    KillWorker {
        host: usize,
        down: Duration,
    },
    StopWorker {
        host: usize,
    },
    FreezeWorker {
        host: usize,
        time: Duration,
    },
    KillRunner {
        host: usize,
    },
    FreezeRunner {
        host: usize,
        time: Duration,
    },
    CutPower {
        host: usize,
        time: Duration,
    },
    Sleep {
        host: usize,
        time: Duration,
    },
    DiskFull {
        host: usize,
        time: Duration,
    },
    /// Between one host and one server, or all of them; one way or both.
    Cut {
        host: usize,
        server: Option<usize>,
        ways: Ways,
        time: Duration,
    },
    /// Every host at once.
    MassCut {
        time: Duration,
    },
    /// A middle box forgets the host's connections.
    HalfOpen {
        host: usize,
    },
    Act(Act),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ways {
    ToServer,
    ToHost,
    Both,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FaultEvent {
    Fire(Fault),
    StartServer(usize),
    KillServer { server: usize, life: u64 },
    DatabaseBack { server: Option<usize> },
    DiskHasRoom { host: usize },
    Mend { host: usize, server: usize, way: Way },
}

/// The kinds that a seed can pick, by name.
const KINDS: [&str; 24] = [
    "kill-server",
    "restart-server",
    "die-before-commit",
    "die-after-commit",
    "freeze-after-commit",
    "freeze-server",
    "crash-loop",
    "database-away",
    "answers-lost",
    "refusals",
    "clock-step",
    "kill-worker",
    "stop-worker",
    "freeze-worker",
    "kill-runner",
    "freeze-runner",
    "cut-power",
    "sleep",
    "disk-full",
    "cut",
    "mass-cut",
    "half-open",
    "cancel",
    "operator",
];

/// The faults of this seed.
pub fn roll(seed: u64, setup: &Setup) -> Vec<Fault> {
    let mut dice = Dice::new(seed, "faults");
    let wanted = dice.between(2, 8) as usize;
    let mix: Vec<&str> = (0..wanted).filter_map(|_| dice.pick(&KINDS).copied()).collect();
    let count = dice.between(14, 60) as usize;
    let mut faults: Vec<Fault> = (0..count)
        .filter_map(|_| {
            let name = *dice.pick(&mix)?;
            let at = Duration::from_secs(2) + dice.duration(Duration::ZERO, setup.length.mul_f64(0.95));
            Some(Fault { at, kind: kind(name, setup, &mut dice)? })
        })
        .collect();
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn kind(name: &str, setup: &Setup, dice: &mut Dice) -> Option<FaultKind> {
    let server = dice.below(setup.servers);
    let host = dice.below(setup.hosts.len());
    let time = dice.skewed(Duration::from_millis(50), Duration::from_secs(600));
    let down = dice.skewed(Duration::from_millis(20), Duration::from_secs(400));
    let some_server = dice.chance(0.5).then_some(server);
    Some(match name {
        "kill-server" => FaultKind::KillServer { server, down },
        "restart-server" => FaultKind::RestartServer { server, down },
        "die-before-commit" => FaultKind::AmbushServer { server, ambush: Ambush::DieBefore, down },
        "die-after-commit" => FaultKind::AmbushServer { server, ambush: Ambush::DieAfter, down },
        "freeze-after-commit" => FaultKind::AmbushServer { server, ambush: Ambush::FreezeAfter(time), down },
        "freeze-server" => FaultKind::FreezeServer { server, time },
        "crash-loop" => FaultKind::CrashLoop {
            server,
            times: dice.between(2, 12) as u32,
            up: dice.duration(Duration::from_secs(1), Duration::from_secs(90)),
            down: dice.duration(Duration::from_millis(100), Duration::from_secs(60)),
        },
        "database-away" => FaultKind::DatabaseAway { server: some_server, time },
        "answers-lost" => FaultKind::AnswersLost { server, count: dice.between(1, 3) as u32 },
        "refusals" => FaultKind::Refusals { server, count: dice.between(1, 4) as u32 },
        "clock-step" => {
            let size = i64::try_from(dice.skewed(Duration::from_millis(100), Duration::from_secs(7200)).as_micros());
            let micros = size.unwrap_or(0);
            FaultKind::ClockStep { server, micros: if dice.chance(0.5) { micros } else { -micros } }
        }
        "kill-worker" => FaultKind::KillWorker { host, down },
        "stop-worker" => FaultKind::StopWorker { host },
        "freeze-worker" => FaultKind::FreezeWorker { host, time },
        "kill-runner" => FaultKind::KillRunner { host },
        "freeze-runner" => FaultKind::FreezeRunner { host, time },
        "cut-power" => FaultKind::CutPower { host, time },
        "sleep" => FaultKind::Sleep { host, time },
        "disk-full" => FaultKind::DiskFull { host, time },
        "cut" => {
            let ways = *dice.pick(&[Ways::Both, Ways::Both, Ways::ToServer, Ways::ToHost])?;
            FaultKind::Cut { host, server: some_server, ways, time }
        }
        "mass-cut" => FaultKind::MassCut { time },
        "half-open" => FaultKind::HalfOpen { host },
        "cancel" => FaultKind::Act(Act::Cancel { force: dice.chance(0.3) }),
        "operator" => FaultKind::Act(*dice.pick(&[
            Act::Approve,
            Act::Reject,
            Act::ResolveRecovering,
            Act::Retry { from_failed: true },
            Act::Retry { from_failed: false },
            Act::Drain,
            Act::Undrain,
            Act::Pause,
            Act::Resume,
            Act::Recover,
        ])?),
        _ => return None,
    })
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
                self.tell(|| format!("fault: {fault}"));
                self.fired += 1;
                self.fire(fault.kind);
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

    fn fire(&mut self, kind: FaultKind) {
        match kind {
            FaultKind::KillServer { server, down } => {
                self.kill_server(server);
                self.fault_later(down, FaultEvent::StartServer(server));
            }
            FaultKind::RestartServer { server, down } => {
                self.stop_server(server);
                self.fault_later(down, FaultEvent::StartServer(server));
            }
            FaultKind::AmbushServer { server, ambush, down } => {
                self.servers[server].ambush = Some(ambush);
                self.fault_later(down, FaultEvent::StartServer(server));
            }
            FaultKind::FreezeServer { server, time } => self.freeze_server(server, time),
            FaultKind::CrashLoop { server, times, up, down } => self.crash_loop(server, times, up, down),
            FaultKind::DatabaseAway { server, time } => {
                for at in self.some_or_all(server) {
                    self.database.trouble(at, |trouble| trouble.away = true);
                }
                self.fault_later(time, FaultEvent::DatabaseBack { server });
            }
            FaultKind::AnswersLost { server, count } => {
                self.database.trouble(server, |trouble| trouble.answers_lost = count);
            }
            FaultKind::Refusals { server, count } => self.database.trouble(server, |trouble| trouble.refusals = count),
            FaultKind::ClockStep { server, micros } => self.step_clock(server, micros),
            FaultKind::KillWorker { host, down } => {
                self.kill_worker(host);
                self.agenda.after(down, Event::Host { host, what: HostEvent::StartWorker });
            }
            FaultKind::StopWorker { host } => self.stop_worker(host, StopLevel::Leave),
            FaultKind::FreezeWorker { host, time } => self.freeze_worker(host, time),
            FaultKind::KillRunner { host } => {
                if let Some(pid) = self.a_runner(host) {
                    self.kill_runner(host, pid);
                }
            }
            FaultKind::FreezeRunner { host, time } => {
                if let Some(pid) = self.a_runner(host) {
                    self.freeze_runner(host, pid, time);
                }
            }
            FaultKind::CutPower { host, time } => self.cut_power(host, time),
            FaultKind::Sleep { host, time } => self.put_to_sleep(host, time),
            FaultKind::DiskFull { host, time } => {
                self.hosts[host].disk.full = true;
                self.fault_later(time, FaultEvent::DiskHasRoom { host });
            }
            FaultKind::Cut { host, server, ways, time } => {
                for server in self.some_or_all(server) {
                    self.cut(server, host, ways, time);
                }
            }
            FaultKind::MassCut { time } => {
                for server in 0..self.servers.len() {
                    for host in 0..self.hosts.len() {
                        self.cut(server, host, Ways::Both, time);
                    }
                }
            }
            FaultKind::HalfOpen { host } => {
                for conn in self.net.all() {
                    if self.net.get(conn).is_some_and(|conn| conn.host == host) {
                        self.net.lose(conn);
                    }
                }
            }
            FaultKind::Act(act) => self.user_event(UserEvent::Act(act)),
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

    fn a_runner(&mut self, host: usize) -> Option<u32> {
        let pids: Vec<u32> = self.hosts[host].runners.keys().copied().collect();
        self.dice.pick(&pids).copied()
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
            self.database
                .trouble(server, |trouble| *trouble = Trouble { commits: trouble.commits, ..Trouble::default() });
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

impl Ways {
    fn has(self, way: Way) -> bool {
        match (self, way) {
            (Ways::Both, _) | (Ways::ToServer, Way::ToServer) | (Ways::ToHost, Way::ToHost) => true,
            (Ways::ToServer, Way::ToHost) | (Ways::ToHost, Way::ToServer) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}
