//! Hosts: machines with a disk, a worker process (the product's agent) and runners. What the worker's shell does with
//! tasks and threads, these functions do with events.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::WorkerId;
use protocol::attempt::{AttemptSpec, StopMode, StopReason, Ticket};
use protocol::folder::{Claim, FolderSpec, FromRunner, Local, RunnerRules, ToRunner};
use protocol::link::{Hello, PROTOCOL_VERSION, RefuseReason, ServerMessage, decode_text, encode_text};
use protocol::state::Caretaker;
use runner::remains::Remains;
use store::rows::{NewWorker, TokenRow};
use uuid::Uuid;
use worker::adopt::{Next, RETRY_PAUSE, end_lease, look};
use worker::agent::{Action, Agent, ExitReason, Input, StopLevel, Word};
use worker::link::{Backoff, probe_interval};
use worker::ship::{LOOK_INTERVAL, Shipper};

use crate::attic::{Attic, LogShelf, scan};
use crate::dice::Dice;
use crate::disk::{Disk, Folder};
use crate::net::{CONNECT_TIMEOUT, ConnId, Parcel, Way};
use crate::runners::{Group, RunnerEvent, RunnerProcess};
use crate::servers::{DAWN, ServerEvent};
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
    pub boots: u64,
    pub booted_at: Duration,
    pub on: bool,
    /// Events for a machine that sleeps.
    pub asleep: Option<Vec<Event>>,
    pub disk: Disk,
    pub process: Option<WorkerProcess>,
    /// Events for a worker process that is stopped.
    pub frozen: Option<Vec<Event>>,
    pub runners: BTreeMap<u32, RunnerProcess>,
    /// The processes of steps, each with its group.
    pub groups: BTreeMap<Ticket, Group>,
    pub next_pid: u32,
    /// Runners that were sent KILL.
    pub doomed_runners: Vec<u32>,
    pub dice: Dice,
    /// The worker is to be started again when it has left.
    pub supervised: bool,
}

pub(crate) struct WorkerProcess {
    pub life: u64,
    pub agent: Agent,
    backoff: Backoff,
    /// Which server is tried next.
    turn: usize,
    pub link: Link,
    /// Raised with every plan to connect, so that an overtaken one is known.
    plan: u64,
    lines: BTreeMap<Ticket, RunnerLine>,
    next_line: u64,
    pub shipper: Shipper<()>,
    /// Logs are looked at from time to time, whatever hints come.
    looks_at_logs: bool,
    tick_at: Duration,
    pub caretaker: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Down,
    Connecting(ConnId),
    Up(ConnId),
}

/// The connection to one runner.
#[derive(Debug, Default)]
struct RunnerLine {
    /// Which connection, and the runner at its other end.
    open: Option<(u64, u32)>,
    /// An order that came while there was none.
    stop: Option<ToRunner>,
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
    ConnectFailed { conn: Option<ConnId>, tcp: bool },
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
    Void { ticket: Ticket },
    Examine { ticket: Ticket },
    EndLease { ticket: Ticket },
}

impl World {
    pub(crate) fn enrol_hosts(&mut self) {
        for number in 0..self.setup.hosts.len() {
            let mut dice = Dice::new(self.seed, &format!("host {number}"));
            let worker = dice.uuid();
            let state_id = dice.uuid();
            let token = TokenRow {
                id: dice.uuid(),
                kind: "enroll".to_owned(),
                role: String::new(),
                name: String::new(),
                hash: *blake3::hash(format!("token {number}").as_bytes()).as_bytes(),
                tags: Vec::new(),
                uses_left: Some(1),
                created_at: DAWN,
                expires_at: None,
                revoked_at: None,
            };
            let credential_hash = *blake3::hash(format!("credential {number}").as_bytes()).as_bytes();
            let new = NewWorker { id: WorkerId(worker), name: format!("host-{number}"), credential_hash, state_id };
            let mut store = self.database.store();
            store.put_token(&token).expect("a new database takes a token");
            store.enroll(&token.hash, &new, DAWN).expect("a new database takes a worker");
            drop(store);
            if self.setup.hosts[number].no_reconnect {
                self.check(|checks| checks.will_not_come_back(WorkerId(worker)));
            }
            self.story.call(worker, || format!("host-{number}"));
            self.hosts.push(Host {
                number,
                worker,
                setup: self.setup.hosts[number].clone(),
                boots: 1,
                booted_at: Duration::ZERO,
                on: true,
                asleep: None,
                disk: Disk {
                    state_id,
                    machine: format!("machine-{number}"),
                    boot_id: String::new(),
                    last_epoch: 0,
                    attempts: BTreeMap::new(),
                    word: None,
                    full: false,
                },
                process: None,
                frozen: None,
                runners: BTreeMap::new(),
                groups: BTreeMap::new(),
                next_pid: 1000,
                doomed_runners: Vec::new(),
                dice,
                supervised: true,
            });
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
        self.next_life += 1;
        let life = self.next_life;
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        if !caretaker {
            host.disk.word = None;
        }
        let rebooted = !host.disk.boot_id.is_empty() && host.disk.boot_id != host.boot_id();
        let boot_now = host.boot_now(now);
        let found = scan(host, rebooted, boot_now);
        host.disk.boot_id = host.boot_id();
        let adopted: Vec<Ticket> = found.iter().map(|found| found.ticket).collect();
        let hello = host.hello(life, caretaker, now);
        let agent = Agent::new(hello, false, found);
        let process = WorkerProcess {
            life,
            agent,
            backoff: Backoff::default(),
            turn: host.dice.below(self.setup.servers),
            link: Link::Down,
            plan: 0,
            lines: BTreeMap::new(),
            next_line: 0,
            shipper: Shipper::default(),
            looks_at_logs: false,
            tick_at: Duration::MAX,
            caretaker,
        };
        host.process = Some(process);
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
        self.leave_connections(at, process, true);
    }

    /// What the kernel does for a process that is no more.
    fn leave_connections(&mut self, at: usize, process: WorkerProcess, abrupt: bool) {
        for conn in self.net.of_worker(at, process.life) {
            if abrupt {
                self.net.drop_unread(conn, Way::ToServer);
            }
            self.send(conn, Way::ToServer, Parcel::End);
        }
        for (ticket, line) in process.lines {
            if let Some((line, pid)) = line.open {
                let _ = ticket;
                self.agenda.after(LOCAL, Event::Runner { host: at, pid, what: RunnerEvent::LineClosed(line) });
            }
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
                if process.tick_at == now {
                    process.tick_at = Duration::MAX;
                    self.feed(at, Input::Tick);
                }
            }
            WorkerEvent::Connect { plan } if process.plan == plan => self.connect(at),
            WorkerEvent::Probe { plan } if process.plan == plan => self.probe(at),
            WorkerEvent::Connect { .. } | WorkerEvent::Probe { .. } => {}
            WorkerEvent::ConnectFailed { conn, tcp } => {
                let waits = match (process.link, conn) {
                    (Link::Connecting(waits_for), Some(conn)) => waits_for == conn,
                    (Link::Down, None) => true,
                    _ => false,
                };
                if waits {
                    if let Some(conn) = conn {
                        self.send(conn, Way::ToServer, Parcel::End);
                    }
                    self.connect_later(at, tcp);
                }
            }
            WorkerEvent::LinkDown(conn) => self.link_down(at, conn),
            WorkerEvent::Parcel(conn, parcel) => self.take_parcel(at, conn, parcel),
            WorkerEvent::Do(job) => self.work(at, job),
            WorkerEvent::Heard { ticket, line, said } => self.runner_heard(at, ticket, line, said),
            WorkerEvent::LookAtLogs => self.look_at_logs(at),
        }
    }

    fn connect(&mut self, at: usize) {
        let servers = self.servers.len();
        let Some(process) = &mut self.hosts[at].process else { return };
        let server = process.turn % servers;
        process.turn += 1;
        process.plan += 1;
        let life = process.life;
        let cut = [Way::ToServer, Way::ToHost].into_iter().any(|way| self.net.is_cut(server, at, way));
        if cut {
            process.link = Link::Down;
            return self.later_at_worker(at, CONNECT_TIMEOUT, WorkerEvent::ConnectFailed { conn: None, tcp: true });
        }
        let Some(server_life) = self.servers[server].process.as_ref().map(|process| process.life) else {
            process.link = Link::Down;
            return self.later_at_worker(at, 2 * LOCAL, WorkerEvent::ConnectFailed { conn: None, tcp: true });
        };
        let conn = self.net.open(server, server_life, at, life);
        process.link = Link::Connecting(conn);
        let knock = Event::Server { server, life: server_life, what: ServerEvent::Knock(conn) };
        self.agenda.after(2 * LOCAL, knock);
        self.later_at_worker(at, CONNECT_TIMEOUT, WorkerEvent::ConnectFailed { conn: Some(conn), tcp: false });
    }

    fn connect_later(&mut self, at: usize, probe: bool) {
        let host = &mut self.hosts[at];
        let jitter = host.dice.fraction();
        let first_probe = probe_interval(host.dice.fraction());
        let Some(process) = &mut host.process else { return };
        process.link = Link::Down;
        process.plan += 1;
        let (plan, delay) = (process.plan, process.backoff.next(jitter));
        self.later_at_worker(at, delay, WorkerEvent::Connect { plan });
        if probe && first_probe < delay {
            self.later_at_worker(at, first_probe, WorkerEvent::Probe { plan });
        }
    }

    /// Whether some server can be reached again before the delay is over.
    fn probe(&mut self, at: usize) {
        let reachable = (0..self.servers.len()).any(|server| {
            let cut = [Way::ToServer, Way::ToHost].into_iter().any(|way| self.net.is_cut(server, at, way));
            !cut && self.servers[server].process.is_some()
        });
        let pause = probe_interval(self.hosts[at].dice.fraction());
        let Some(process) = &self.hosts[at].process else { return };
        let plan = process.plan;
        if reachable {
            self.connect(at);
        } else {
            self.later_at_worker(at, pause, WorkerEvent::Probe { plan });
        }
    }

    fn take_parcel(&mut self, at: usize, conn: ConnId, parcel: Parcel) {
        let Some(process) = &mut self.hosts[at].process else { return };
        match (process.link, parcel) {
            (Link::Connecting(waits_for), Parcel::Accepted) if waits_for == conn => {
                process.link = Link::Up(conn);
                process.shipper.stop_all();
                self.net.establish(conn);
                self.feed(at, Input::LinkUp);
            }
            (Link::Connecting(waits_for), Parcel::End) if waits_for == conn => {
                self.net.forget(conn);
                self.connect_later(at, false);
            }
            (Link::Up(up), Parcel::Text(text)) if up == conn => {
                let messages: Vec<ServerMessage> = match decode_text(&text) {
                    Ok(messages) => messages,
                    Err(error) => panic!("a server sent what no worker understands: {error}\n{text}"),
                };
                messages.iter().for_each(|message| process.backoff.heard(message));
                self.feed(at, Input::Frame(messages));
            }
            (_, Parcel::End) => {
                self.send(conn, Way::ToServer, Parcel::End);
                self.link_down(at, conn);
                self.net.forget(conn);
            }
            _ => {}
        }
    }

    fn link_down(&mut self, at: usize, conn: ConnId) {
        let Some(process) = &mut self.hosts[at].process else { return };
        if process.link != Link::Up(conn) {
            return;
        }
        process.link = Link::Down;
        process.shipper.stop_all();
        let stays_away = self.hosts[at].setup.no_reconnect;
        self.feed(at, Input::LinkDown);
        if !stays_away && self.hosts[at].process.is_some() {
            self.connect_later(at, false);
        }
    }

    pub(crate) fn feed(&mut self, at: usize, input: Input) {
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        let boot_now = host.boot_now(now);
        let Some(process) = &mut host.process else { return };
        let actions = process.agent.handle(input, boot_now);
        let deadline = process.agent.deadline();
        let mut messages = Vec::new();
        let mut exit = None;
        for action in actions {
            match action {
                Action::Send(message) => messages.push(message),
                Action::Exit(reason) => exit = Some(reason),
                other => {
                    // Messages go out before what follows them.
                    self.send_messages(at, &mut messages);
                    self.perform(at, other);
                }
            }
        }
        self.send_messages(at, &mut messages);
        if let Some(reason) = exit {
            return self.worker_leaves(at, &reason);
        }
        let Some(process) = &mut self.hosts[at].process else { return };
        if let Some(deadline) = deadline {
            let due = (now + deadline.saturating_sub(boot_now)).max(now + Duration::from_micros(1));
            if due < process.tick_at || process.tick_at <= now {
                process.tick_at = due;
                self.later_at_worker(at, due - now, WorkerEvent::Tick);
            }
        }
    }

    fn send_messages(&mut self, at: usize, messages: &mut Vec<protocol::link::WorkerMessage>) {
        if messages.is_empty() {
            return;
        }
        if let Some(Link::Up(conn)) = self.hosts[at].process.as_ref().map(|process| process.link) {
            self.send(conn, Way::ToServer, Parcel::Text(encode_text(messages)));
        }
        messages.clear();
    }

    fn perform(&mut self, at: usize, action: Action) {
        match action {
            Action::Send(_) | Action::Exit(_) => {}
            Action::DropLink { why } => {
                self.tell(|| format!("host {at}: gives up its link: {why}"));
                if let Some(Link::Up(conn)) = self.hosts[at].process.as_ref().map(|process| process.link) {
                    self.send(conn, Way::ToServer, Parcel::End);
                    self.later_at_worker(at, LOCAL, WorkerEvent::LinkDown(conn));
                }
            }
            Action::Welcomed { epoch, .. } => {
                self.tell(|| format!("host {at}: welcomed on epoch {epoch}"));
                self.hosts[at].disk.last_epoch = epoch;
            }
            Action::Prepare { spec, rules } => {
                let takes = self.hosts[at].dice.duration(Duration::from_millis(1), Duration::from_millis(8));
                self.order(at, Job::Prepare { spec, rules }, takes);
            }
            Action::Go { ticket, asked_at } => {
                let asked_at_ms = Some(u64::try_from(asked_at.as_millis()).unwrap_or(u64::MAX));
                self.tell_runner(at, ticket, ToRunner::Go { asked_at_ms });
            }
            Action::Renewed { ticket, n } => self.tell_runner(at, ticket, ToRunner::Renewed { n }),
            Action::Rules { ticket, rules } => self.tell_runner(at, ticket, ToRunner::Rules { rules }),
            Action::EndLease { ticket } => self.order(at, Job::EndLease { ticket }, LOCAL),
            Action::Void { ticket } => self.order(at, Job::Void { ticket }, LOCAL),
            Action::SendAway { ticket } => {
                let stop = ToRunner::Stop { mode: StopMode::Kill, reason: StopReason::WorkerStopped };
                self.tell_runner(at, ticket, stop);
            }
            Action::StopRunner { ticket, mode, reason } => {
                if let Some(process) = &mut self.hosts[at].process {
                    process.lines.entry(ticket).or_default().stop = Some(ToRunner::Stop { mode, reason });
                    self.deliver_stop(at, ticket);
                }
            }
            Action::Bye { ticket } => self.tell_runner(at, ticket, ToRunner::Bye),
            Action::Examine { ticket } => self.order(at, Job::Examine { ticket }, LOCAL),
            Action::Ship { ticket, after_seq } => self.ship_with(at, |shipper| shipper.start(ticket, after_seq)),
            Action::LogGrew { ticket } => self.ship_with(at, |shipper| shipper.grew(ticket)),
            Action::LogAcked { ticket, seq } => {
                self.ship_with(at, |shipper| shipper.acknowledged(ticket, seq));
                self.tell_runner(at, ticket, ToRunner::Acked { seq });
            }
            Action::LogEnded { ticket, last_seq } => self.ship_with(at, |shipper| shipper.ended(ticket, last_seq)),
            Action::StopShipping { ticket } => self.ship_with(at, |shipper| shipper.stop(ticket)),
            Action::Forget { ticket } | Action::Discard { ticket } => {
                self.ship_with(at, |shipper| shipper.stop(ticket));
                let host = &mut self.hosts[at];
                host.disk.attempts.remove(&ticket);
                if let Some(process) = &mut host.process
                    && process.lines.get(&ticket).is_some_and(|line| line.open.is_none())
                {
                    process.lines.remove(&ticket);
                }
            }
        }
    }

    fn ship_with(&mut self, at: usize, order: impl FnOnce(&mut Shipper<()>)) {
        if let Some(process) = &mut self.hosts[at].process {
            order(&mut process.shipper);
            self.ship(at);
        }
    }

    /// Sends what the shipper has ready.
    fn ship(&mut self, at: usize) {
        loop {
            let host = &mut self.hosts[at];
            let Some(process) = &mut host.process else { return };
            let Link::Up(conn) = process.link else { return };
            let Some(frame) = process.shipper.next_frame(&mut LogShelf(&host.disk)) else { break };
            self.send(conn, Way::ToServer, Parcel::Binary(frame));
        }
        let Some(process) = &mut self.hosts[at].process else { return };
        if process.shipper.is_watching() && !process.looks_at_logs {
            process.looks_at_logs = true;
            self.later_at_worker(at, LOOK_INTERVAL, WorkerEvent::LookAtLogs);
        }
    }

    fn look_at_logs(&mut self, at: usize) {
        let Some(process) = &mut self.hosts[at].process else { return };
        process.looks_at_logs = false;
        process.shipper.look_at_all();
        self.ship(at);
    }

    fn worker_leaves(&mut self, at: usize, reason: &ExitReason) {
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        let boot_now = host.boot_now(now);
        let boot_id = host.boot_id();
        if let Some(word) = Word::of(reason, STOP_GRACE).written(boot_id, boot_now) {
            host.disk.word = Some(word);
        }
        let Some(process) = host.process.take() else { return };
        let caretaker = process.caretaker;
        self.tell(|| format!("host {at}: the worker leaves: {reason:?}"));
        self.leave_connections(at, process, false);
        let removed = matches!(reason, ExitReason::Refused { .. });
        if !caretaker && !removed && self.hosts[at].supervised {
            let pause = self.hosts[at].dice.duration(Duration::from_millis(100), Duration::from_secs(20));
            self.agenda.after(pause, Event::Host { host: at, what: HostEvent::StartWorker });
        }
    }

    fn order(&mut self, at: usize, job: Job, takes: Duration) {
        self.later_at_worker(at, takes, WorkerEvent::Do(job));
    }

    pub(crate) fn later_at_worker(&mut self, at: usize, pause: Duration, what: WorkerEvent) {
        let Some(life) = self.hosts[at].process.as_ref().map(|process| process.life) else { return };
        self.agenda.after(pause, Event::Worker { host: at, life, what });
    }

    fn work(&mut self, at: usize, job: Job) {
        match job {
            Job::Prepare { spec, rules } => self.prepare(at, *spec, rules),
            Job::Void { ticket } => {
                let Some(folder) = self.hosts[at].disk.attempts.get_mut(&ticket) else { return };
                let claim = folder.claim(Claim::Void);
                self.feed(at, Input::Claimed { ticket, claim });
            }
            Job::Examine { ticket } => self.examine(at, ticket),
            Job::EndLease { ticket } => self.end_lease(at, ticket),
        }
    }

    fn prepare(&mut self, at: usize, spec: AttemptSpec, rules: RunnerRules) {
        let ticket = spec.ticket;
        let host = &mut self.hosts[at];
        if host.disk.full {
            let (reason, detail) = (RefuseReason::DiskFull, "no space left on device".to_owned());
            return self.feed(at, Input::PrepareFailed { ticket, reason, detail });
        }
        let caretaker = (!host.setup.no_reconnect).then(|| Caretaker {
            state: "state".into(),
            program: "bowline".into(),
            arguments: Vec::new(),
        });
        let local = Local {
            log_lines_max: self.setup.log_lines_max,
            log_bytes_max: u64::MAX,
            cgroup_parent: None,
            base_env: BTreeMap::new(),
            rules,
            caretaker,
            ends_with_worker: host.setup.no_reconnect,
        };
        host.disk.attempts.insert(ticket, Folder::new(FolderSpec::new(spec, local)));
        let pid = self.start_runner(at, ticket);
        self.open_line(at, ticket, pid);
    }

    fn open_line(&mut self, at: usize, ticket: Ticket, pid: u32) {
        let Some(process) = &mut self.hosts[at].process else { return };
        process.next_line += 1;
        let line = process.next_line;
        process.lines.entry(ticket).or_default().open = Some((line, pid));
        let life = process.life;
        self.agenda.after(LOCAL, Event::Runner { host: at, pid, what: RunnerEvent::LineOpened { line, life } });
    }

    fn examine(&mut self, at: usize, ticket: Ticket) {
        let look = look(&mut Attic { host: &mut self.hosts[at], ticket }, false);
        self.carry_out_dooms(at);
        match Next::after(look) {
            Next::Tell(finding) => self.feed(at, Input::Examined { ticket, finding }),
            Next::LookAgain { after } => self.order(at, Job::Examine { ticket }, after),
            Next::Connect(finding) => {
                let runner = self.hosts[at].disk.attempts.get(&ticket).and_then(|folder| folder.runner);
                let Some(pid) = runner else { return self.order(at, Job::Examine { ticket }, RETRY_PAUSE) };
                self.open_line(at, ticket, pid);
                self.deliver_stop(at, ticket);
                self.feed(at, Input::Examined { ticket, finding });
            }
        }
    }

    fn end_lease(&mut self, at: usize, ticket: Ticket) {
        let remains = end_lease(&mut Attic { host: &mut self.hosts[at], ticket });
        self.carry_out_dooms(at);
        if !matches!(remains, Ok(Remains::None)) {
            self.order(at, Job::EndLease { ticket }, RETRY_PAUSE);
        }
    }

    /// What was sent KILL dies.
    fn carry_out_dooms(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let doomed = host.groups.iter().filter(|(_, group)| group.doomed).map(|(ticket, _)| *ticket);
        let groups: Vec<Ticket> = doomed.collect();
        let runners = std::mem::take(&mut host.doomed_runners);
        for ticket in groups {
            self.kill_group(at, ticket);
        }
        for pid in runners {
            self.kill_runner(at, pid);
        }
    }

    fn runner_heard(&mut self, at: usize, ticket: Ticket, line: u64, said: Option<FromRunner>) {
        let Some(process) = &mut self.hosts[at].process else { return };
        let Some(known) = process.lines.get_mut(&ticket) else { return };
        if known.open.is_none_or(|(number, _)| number != line) {
            return;
        }
        match said {
            Some(said) => self.feed(at, Input::Runner { ticket, said }),
            None => {
                known.open = None;
                if known.stop.is_none() {
                    process.lines.remove(&ticket);
                }
                self.feed(at, Input::RunnerGone { ticket });
            }
        }
    }

    fn tell_runner(&mut self, at: usize, ticket: Ticket, message: ToRunner) {
        let Some(process) = &self.hosts[at].process else { return };
        if let Some((line, pid)) = process.lines.get(&ticket).and_then(|line| line.open) {
            self.agenda.after(LOCAL, Event::Runner { host: at, pid, what: RunnerEvent::Told { line, message } });
        }
    }

    /// Without a connection the order waits for the next one.
    fn deliver_stop(&mut self, at: usize, ticket: Ticket) {
        let Some(process) = &mut self.hosts[at].process else { return };
        let Some(line) = process.lines.get_mut(&ticket) else { return };
        if line.open.is_some()
            && let Some(stop) = line.stop.take()
        {
            self.tell_runner(at, ticket, stop);
        }
    }

    pub(crate) fn stop_worker(&mut self, at: usize, level: StopLevel) {
        self.feed(at, Input::Stop(level));
    }

    pub(crate) fn freeze_worker(&mut self, at: usize, time: Duration) {
        let host = &mut self.hosts[at];
        if let Some(process) = &host.process
            && host.frozen.is_none()
        {
            let life = process.life;
            host.frozen = Some(Vec::new());
            self.tell(|| format!("host {at}: the worker is frozen for {time:?}"));
            self.agenda.after(time, Event::Host { host: at, what: HostEvent::ThawWorker { life } });
        }
    }

    fn thaw_worker(&mut self, at: usize, life: u64) {
        if self.hosts[at].has_worker(life)
            && let Some(backlog) = self.hosts[at].frozen.take()
        {
            self.tell(|| format!("host {at}: the worker goes on"));
            backlog.into_iter().for_each(|event| self.agenda.after(Duration::ZERO, event));
        }
    }

    /// The machine loses its power: all processes are gone, and nobody is told.
    pub(crate) fn cut_power(&mut self, at: usize, time: Duration) {
        if !self.hosts[at].on {
            return;
        }
        self.tell(|| format!("host {at} loses its power for {time:?}"));
        let now = self.agenda.now();
        self.check(|checks| checks.host_wakes(now, at));
        self.hosts[at].on = false;
        self.hosts[at].asleep = None;
        self.hosts[at].frozen = None;
        self.hosts[at].process = None;
        let pids: Vec<u32> = self.hosts[at].runners.keys().copied().collect();
        for pid in pids {
            self.runner_gone(at, pid);
        }
        let groups: Vec<Ticket> = self.hosts[at].groups.keys().copied().collect();
        for ticket in groups {
            self.kill_group(at, ticket);
        }
        self.agenda.after(time, Event::Host { host: at, what: HostEvent::Boot });
    }

    fn boot(&mut self, at: usize) {
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        host.on = true;
        host.boots += 1;
        host.booted_at = now;
        self.tell(|| format!("host {at} boots"));
        self.agenda.after(Duration::from_secs(3), Event::Host { host: at, what: HostEvent::StartWorker });
    }

    /// The machine sleeps: nothing runs, clocks that count sleep go on.
    pub(crate) fn put_to_sleep(&mut self, at: usize, time: Duration) {
        let host = &mut self.hosts[at];
        if host.on && host.asleep.is_none() {
            host.asleep = Some(Vec::new());
            self.tell(|| format!("host {at} sleeps for {time:?}"));
            self.check(|checks| checks.host_sleeps(at));
            self.agenda.after(time, Event::Host { host: at, what: HostEvent::Wake });
        }
    }

    /// Whatever keeps the host from working is over.
    pub(crate) fn host_at_peace(&mut self, at: usize) {
        if !self.hosts[at].on {
            self.boot(at);
        }
        self.wake_host(at);
        if let Some(life) = self.hosts[at].process.as_ref().map(|process| process.life) {
            self.thaw_worker(at, life);
        }
        let frozen: Vec<u32> = self.hosts[at].runners.keys().copied().collect();
        for pid in frozen {
            self.agenda.after(Duration::ZERO, Event::Runner { host: at, pid, what: RunnerEvent::Thaw });
        }
        self.agenda.after(Duration::from_secs(1), Event::Host { host: at, what: HostEvent::StartWorker });
    }

    fn wake_host(&mut self, at: usize) {
        let Some(backlog) = self.hosts[at].asleep.take() else { return };
        self.tell(|| format!("host {at} wakes up"));
        let now = self.agenda.now();
        self.check(|checks| checks.host_wakes(now, at));
        backlog.into_iter().for_each(|event| self.agenda.after(Duration::ZERO, event));
    }
}

impl Host {
    pub(crate) fn has_worker(&self, life: u64) -> bool {
        self.process.as_ref().is_some_and(|process| process.life == life)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn boot_id(&self) -> String {
        format!("boot-{}-{}", self.number, self.boots)
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
        }
    }
}
