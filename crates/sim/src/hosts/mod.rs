//! Hosts: machines with a disk, a worker process (the product's agent) and runners. What the worker's shell does with
//! tasks and threads, these functions do with events.

mod home;
mod link;
mod power;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::WorkerId;
use protocol::attempt::{AttemptSpec, Ticket};
use protocol::folder::{FromRunner, RunnerRules};
use protocol::link::{Hello, Kept, PROTOCOL_VERSION};
use uuid::Uuid;
use worker::adopt::is_complete;
use worker::agent::{Agent, ExitReason, Input, StopLevel, Word};
use worker::lines::Lines;
use worker::link::{Search, Setback};
use worker::ship::Shipper;
use worker::state::{Mark, is_rebooted};

pub use home::{Copied, Emptied};

use crate::attic::scan;
use crate::dice::Dice;
use crate::disk::{Disk, Folder};
use crate::faults::Moment;
use crate::net::{ConnId, Parcel, Way};
use crate::runners::{Group, RunnerEvent, RunnerProcess};
use crate::setup::HostSetup;
use crate::world::{Event, World};

/// As a worker's file has it by default.
const STOP_GRACE: Duration = Duration::from_secs(600);

/// Between processes of one machine.
pub(crate) const LOCAL: Duration = Duration::from_micros(200);

pub(crate) struct Host {
    pub number: usize,
    /// The identity that its credential stands for.
    pub worker: Uuid,
    pub setup: HostSetup,
    /// Its own id, whatever the state folder says.
    pub machine: String,
    /// Its state folder is a copy of that host's; and it is on the same machine.
    pub copy_of: Option<usize>,
    /// Somebody has seen that, and it does not come back.
    pub taken_away: bool,
    pub beside: Option<usize>,
    pub boots: u64,
    pub booted_at: Duration,
    pub on: bool,
    /// Events for a machine that sleeps.
    pub asleep: Option<Vec<Event>>,
    pub disk: Disk,
    /// Folders that were deleted while their runners had them open.
    pub deleted: BTreeMap<Ticket, Folder>,
    pub process: Option<WorkerProcess>,
    /// Events for a worker process that is stopped.
    pub frozen: Option<Vec<Event>>,
    pub runners: BTreeMap<u32, RunnerProcess>,
    /// The processes of steps, each with its group.
    pub groups: BTreeMap<Ticket, Group>,
    pub next_pid: u32,
    /// Runners that were sent KILL.
    pub doomed_runners: Vec<u32>,
    /// Attempts of the folder's original that were sent KILL from here.
    pub doomed_beside: Vec<Ticket>,
    pub dice: Dice,
    /// The worker is to be started again when it has left.
    pub supervised: bool,
    /// Its worker is of a later version than the servers.
    pub newer: bool,
    /// What its disk will be put back to.
    pub snapshot: Option<Disk>,
}

pub(crate) struct WorkerProcess {
    pub life: u64,
    pub agent: Agent,
    search: Search,
    pub link: Link,
    /// Raised with every plan to connect, so that an overtaken one is known.
    plan: u64,
    /// Each with the number of its connection and the runner at the other end.
    lines: Lines<(u64, u32)>,
    pub shipper: Shipper<()>,
    /// Attempts that it found, from before the machine was restarted.
    of_earlier_boot: BTreeSet<Uuid>,
    /// Logs are looked at from time to time, whatever hints come.
    looks_at_logs: bool,
    tick_at: Duration,
    pub caretaker: bool,
}

impl WorkerProcess {
    /// Attempts that it has a connection to, or an order for.
    pub(crate) fn lines_held(&self) -> usize {
        self.lines.holds()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Down,
    Connecting(ConnId),
    Up(ConnId),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum HostEvent {
    StartWorker,
    StartCaretaker,
    /// The power is back.
    Boot,
    Wake,
    ThawWorker {
        life: u64,
    },
}

#[derive(Debug)]
pub(crate) enum WorkerEvent {
    Tick,
    Connect { plan: u64 },
    Probe { plan: u64 },
    ConnectFailed { conn: Option<ConnId>, setback: Setback },
    LinkDown(ConnId),
    Parcel(ConnId, Parcel),
    Do(Job),
    Heard { ticket: Ticket, line: u64, said: Option<FromRunner> },
    LookAtLogs,
}

/// What the worker's workshop does.
#[derive(Debug)]
pub(crate) enum Job {
    Prepare { spec: Box<AttemptSpec>, rules: RunnerRules },
    Void { ticket: Ticket, told: bool },
    Examine { ticket: Ticket },
    EndLease { ticket: Ticket },
    Store { ticket: Ticket },
    Fetch { ticket: Ticket },
    Recall,
}

impl World {
    pub(crate) fn enrol_hosts(&mut self) {
        for number in 0..self.setup.hosts.len() {
            let mut dice = Dice::new(self.seed, &format!("host {number}"));
            let worker = dice.uuid();
            let state_id = dice.uuid();
            let token = dice.uuid();
            self.put_worker(token, WorkerId(worker), state_id, format!("host-{number}"));
            if self.setup.hosts[number].no_reconnect {
                self.check(|checks| checks.will_not_come_back(WorkerId(worker)));
            }
            let lies_at = Mark { inode: number as u64 + 1, created_us: Some(1) };
            let disk = Disk::new(state_id, format!("machine-{number}"), lies_at);
            let setup = self.setup.hosts[number].clone();
            self.hosts.push(Host { dice, ..Host::new(self.seed, number, worker, setup, disk) });
        }
    }

    pub(crate) fn host_event(&mut self, host: usize, event: HostEvent) {
        match event {
            HostEvent::StartWorker => self.start_worker(host, false),
            HostEvent::StartCaretaker => self.start_worker(host, true),
            HostEvent::Boot => self.boot(host),
            HostEvent::Wake => self.wake_host(host),
            HostEvent::ThawWorker { life } => self.thaw_worker(host, life),
        }
    }

    /// A worker opens its state folder, looks what lives there, and begins.
    pub(crate) fn start_worker(&mut self, at: usize, caretaker: bool) {
        if !self.hosts[at].is_on() || self.hosts[at].asleep.is_some() {
            return;
        }
        match &self.hosts[at].process {
            // The lock is taken: a caretaker is not needed, and a worker asks a caretaker to hand over.
            Some(_) if caretaker => return,
            Some(process) if process.caretaker => {
                self.feed(at, Input::HandOver);
                let again = Event::Host { host: at, what: HostEvent::StartWorker };
                return self.agenda.after(Duration::from_secs(1), again);
            }
            Some(_) => return,
            None => {}
        }
        if !self.settles(at) || caretaker && !self.hosts[at].disk.enrolled {
            return;
        }
        if !self.hosts[at].disk.enrolled {
            self.enrol_again(at);
        }
        self.next_life += 1;
        let life = self.next_life;
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        if !caretaker {
            host.disk.word = None;
        }
        let rebooted = is_rebooted(&host.disk.boot_id, &host.boot_id());
        let boot_now = host.boot_now(now);
        let found = scan(host, rebooted, boot_now);
        host.disk.boot_id = host.boot_id();
        let orphans = host.all_orphans();
        let complete = is_complete(&found, !orphans.is_empty());
        let adopted: Vec<Ticket> = found.iter().map(|found| found.ticket).chain(orphans).collect();
        let mut hello = host.hello(life, caretaker, now);
        hello.scan_complete = complete && !host.disk.moved;
        let (session, last_epoch) = (hello.session, hello.last_epoch);
        let agent = Agent::new(hello, false, found);
        let process = WorkerProcess {
            life,
            agent,
            search: Search::new(self.setup.servers, host.setup.no_reconnect),
            link: Link::Down,
            plan: 0,
            lines: Lines::default(),
            shipper: Shipper::default(),
            of_earlier_boot: adopted.iter().filter(|_| rebooted).map(|ticket| ticket.attempt).collect(),
            looks_at_logs: false,
            tick_at: Duration::MAX,
            caretaker,
        };
        host.process = Some(process);
        self.check(|checks| checks.worker_starts(session, last_epoch));
        self.carry_out_dooms(at);
        self.tell(|| format!("host {at}: a {} starts, life {life}", if caretaker { "caretaker" } else { "worker" }));
        for ticket in adopted {
            self.order(at, Job::Examine { ticket }, LOCAL);
        }
        self.later_at_worker(at, LOCAL, WorkerEvent::Connect { plan: 0 });
    }

    /// The process is gone; its runners are not.
    pub(crate) fn kill_worker(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        host.frozen = None;
        let Some(process) = host.process.take() else { return };
        self.tell(|| format!("host {at}: the worker dies"));
        self.leave_connections(at, &process, true);
    }

    /// What the kernel does for a process that is no more.
    fn leave_connections(&mut self, at: usize, process: &WorkerProcess, abrupt: bool) {
        for conn in self.net.of_worker(at, process.life) {
            if abrupt {
                self.net.drop_unread(conn, Way::ToServer);
            }
            self.send(conn, Way::ToServer, Parcel::End);
        }
        let lines: Vec<(u32, u64)> = self.hosts[at]
            .runners
            .iter()
            .filter_map(|(pid, runner)| Some((*pid, runner.line_to(process.life)?)))
            .collect();
        for (pid, line) in lines {
            self.agenda.after(LOCAL, Event::Runner { host: at, pid, what: RunnerEvent::LineClosed(line) });
        }
    }

    pub(crate) fn worker_event_for(&mut self, at: usize, life: u64, what: WorkerEvent) {
        let host = &mut self.hosts[at];
        if host.process.as_ref().is_none_or(|process| process.life != life) {
            return;
        }
        let backlog = host.asleep.as_mut().or(host.frozen.as_mut());
        match backlog {
            Some(backlog) => backlog.push(Event::Worker { host: at, life, what }),
            None => self.worker_event(at, what),
        }
    }

    fn worker_event(&mut self, at: usize, event: WorkerEvent) {
        let now = self.agenda.now();
        let Some(process) = &mut self.hosts[at].process else { return };
        match event {
            WorkerEvent::Tick => {
                // A stopped process gets its timer late.
                if process.tick_at <= now {
                    process.tick_at = Duration::MAX;
                    self.feed(at, Input::Tick);
                }
            }
            WorkerEvent::Connect { plan } if process.plan == plan => self.connect(at),
            WorkerEvent::Probe { plan } if process.plan == plan => self.probe(at),
            WorkerEvent::Connect { .. } | WorkerEvent::Probe { .. } => {}
            WorkerEvent::ConnectFailed { conn, setback } => {
                let waits = match (process.link, conn) {
                    (Link::Connecting(waits_for), Some(conn)) => waits_for == conn,
                    (Link::Down, None) => true,
                    _ => false,
                };
                if waits {
                    if let Some(conn) = conn {
                        self.send(conn, Way::ToServer, Parcel::End);
                    }
                    self.connect_later(at, setback);
                }
            }
            WorkerEvent::LinkDown(conn) => self.link_down(at, conn),
            WorkerEvent::Parcel(conn, parcel) => self.take_parcel(at, conn, parcel),
            WorkerEvent::Do(job) => self.work(at, job),
            WorkerEvent::Heard { ticket, line, said } => self.runner_heard(at, ticket, line, said),
            WorkerEvent::LookAtLogs => self.look_at_logs(at),
        }
    }

    fn worker_leaves(&mut self, at: usize, reason: &ExitReason) {
        let now = self.agenda.now();
        self.stage(at, Moment::BeforeWord);
        let host = &mut self.hosts[at];
        if host.process.is_none() {
            return;
        }
        let boot_now = host.boot_now(now);
        let boot_id = host.boot_id();
        if let Some(word) = Word::of(reason, STOP_GRACE).written(boot_id, boot_now) {
            host.disk.word = Some(word);
        }
        self.stage(at, Moment::WordLeft);
        let host = &mut self.hosts[at];
        let Some(process) = host.process.take() else { return };
        // It was frozen in the midst of this; nobody is any more.
        host.frozen = None;
        let caretaker = process.caretaker;
        self.tell(|| format!("host {at}: the worker leaves: {reason:?}"));
        self.leave_connections(at, &process, false);
        let removed = matches!(reason, ExitReason::Refused { .. });
        if let ExitReason::Refused { code, .. } = reason {
            let worker = WorkerId(self.hosts[at].worker);
            self.check(|checks| checks.sent_away(worker, *code));
        }
        if removed && self.is_departed(at) {
            // Somebody reads that it was deleted for its absence, and enrols it again.
            self.enrolment_is_gone(at);
            self.start_worker_again(at);
        } else if !caretaker && !removed {
            self.start_worker_again(at);
        }
    }

    /// It could not reach any server, and was told not to try again.
    fn worker_gives_up(&mut self, at: usize) {
        let Some(process) = self.hosts[at].process.take() else { return };
        self.hosts[at].frozen = None;
        self.tell(|| format!("host {at}: the worker reaches no server and leaves"));
        self.leave_connections(at, &process, false);
        self.start_worker_again(at);
    }

    /// Whoever supervises it does.
    fn start_worker_again(&mut self, at: usize) {
        if self.hosts[at].supervised {
            let pause = self.hosts[at].dice.duration(Duration::from_millis(100), Duration::from_secs(20));
            self.agenda.after(pause, Event::Host { host: at, what: HostEvent::StartWorker });
        }
    }

    pub(crate) fn later_at_worker(&mut self, at: usize, pause: Duration, what: WorkerEvent) {
        let Some(life) = self.hosts[at].process.as_ref().map(|process| process.life) else { return };
        self.agenda.after(pause, Event::Worker { host: at, life, what });
    }

    /// Whoever wants a frozen one to stop lets it go on: it would hear nothing before that.
    pub(crate) fn stop_worker(&mut self, at: usize, level: StopLevel) {
        if let Some(life) = self.hosts[at].process.as_ref().map(|process| process.life) {
            self.thaw_worker(at, life);
        }
        self.feed(at, Input::Stop(level));
    }
}

impl Host {
    /// On, and nothing runs there.
    pub(super) fn new(seed: u64, number: usize, worker: Uuid, setup: HostSetup, disk: Disk) -> Host {
        Host {
            number,
            worker,
            setup,
            machine: disk.machine.clone(),
            copy_of: None,
            taken_away: false,
            beside: None,
            boots: 1,
            booted_at: Duration::ZERO,
            on: true,
            asleep: None,
            disk,
            deleted: BTreeMap::new(),
            process: None,
            frozen: None,
            runners: BTreeMap::new(),
            groups: BTreeMap::new(),
            next_pid: 1000,
            doomed_runners: Vec::new(),
            doomed_beside: Vec::new(),
            dice: Dice::new(seed, &format!("host {number}")),
            supervised: true,
            newer: false,
            snapshot: None,
        }
    }

    pub(crate) fn has_worker(&self, life: u64) -> bool {
        self.process.as_ref().is_some_and(|process| process.life == life)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn boot_id(&self) -> String {
        format!("boot of {} {}", self.machine, self.boots)
    }

    /// The clock that runs on while the machine sleeps.
    pub(crate) fn boot_now(&self, now: Duration) -> Duration {
        Duration::from_secs(100) + (now - self.booted_at)
    }

    fn hello(&mut self, life: u64, caretaker: bool, now: Duration) -> Hello {
        Hello {
            protocol: PROTOCOL_VERSION,
            version: "sim".to_owned(),
            platform: "sim".to_owned(),
            hostname: format!("host-{}", self.number),
            pid: u32::try_from(life).unwrap_or(u32::MAX),
            name: format!("host-{}", self.number),
            tags: self.setup.tags.clone(),
            slots: self.setup.slots,
            session: self.dice.uuid(),
            boot_id: self.boot_id(),
            state_id: self.disk.state_id,
            machine: self.disk.machine.clone(),
            started_at_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
            last_epoch: self.disk.last_epoch,
            ephemeral: self.setup.ephemeral,
            no_reconnect: self.setup.no_reconnect,
            caretaker,
            processed: 0,
            scan_complete: true,
            offline_ms: 0,
            held: Vec::new(),
            kept: (!self.setup.no_reconnect).then_some(Kept::Apart),
            features: self.setup.features(),
        }
    }
}
