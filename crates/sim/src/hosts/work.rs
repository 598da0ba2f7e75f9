//! What the agent wants done: messages, folders, lines to runners, logs.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{AttemptId, WorkerId};
use protocol::attempt::{AttemptSpec, StopMode, StopReason, Ticket};
use protocol::folder::{FolderSpec, FromRunner, Local, RunnerRules, ToRunner};
use protocol::link::{RefuseReason, WorkerMessage, encode_text};
use protocol::state::Caretaker;
use runner::clock;
use runner::remains::Remains;
use worker::adopt::{Look, Next, RETRY_PAUSE, end_lease, look, take_back};
use worker::agent::{Action, Input};
use worker::shelf::RECALLED_MAX;
use worker::ship::{LOOK_INTERVAL, Shipper};

use super::{Job, LOCAL, Link, WorkerEvent};
use crate::attic::{Attic, LogShelf, scan_kept};
use crate::disk::Folder;
use crate::faults::Moment;
use crate::net::{Parcel, Way};
use crate::runners::RunnerEvent;
use crate::secrets;
use crate::world::{Event, World};

impl World {
    pub(crate) fn feed(&mut self, at: usize, input: Input) {
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        let boot_now = host.boot_now(now);
        let Some(process) = &mut host.process else { return };
        let life = process.life;
        let actions = process.agent.handle(input, boot_now);
        let deadline = process.agent.deadline();
        let mut messages = Vec::new();
        let mut exit = None;
        for action in actions {
            // It may have died of the one before.
            if !self.hosts[at].has_worker(life) {
                return;
            }
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

    pub(super) fn send_messages(&mut self, at: usize, messages: &mut Vec<WorkerMessage>) {
        if messages.is_empty() {
            return;
        }
        if let Some(Link::Up(conn)) = self.hosts[at].process.as_ref().map(|process| process.link) {
            self.send(conn, Way::ToServer, Parcel::Text(encode_text(messages)));
        }
        messages.clear();
    }

    pub(super) fn perform(&mut self, at: usize, action: Action) {
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
                let (now, worker) = (self.agenda.now(), WorkerId(self.hosts[at].worker));
                self.check(|checks| checks.worker_comes(now, worker));
                self.stage(at, Moment::Welcomed);
                if self.hosts[at].process.is_some() {
                    self.hosts[at].disk.last_epoch = epoch;
                    self.stage(at, Moment::EpochKept);
                }
            }
            Action::Prepare { spec, rules } => {
                let takes = self.hosts[at].dice.duration(Duration::from_millis(1), Duration::from_millis(8));
                self.order(at, Job::Prepare { spec, rules }, takes);
            }
            Action::GiveSecrets { ticket, values } => self.tell_runner(at, ticket, ToRunner::Secrets { values }),
            Action::Go { ticket, asked_at, until, cannot } => {
                let (asked_at_ms, until_ms) = (Some(clock::to_ms(asked_at)), until.map(clock::to_ms));
                self.tell_runner(at, ticket, ToRunner::Go { asked_at_ms, until_ms, cannot });
            }
            Action::Store { ticket } => self.order_files(at, Job::Store { ticket }),
            Action::Fetch { ticket } => self.order_files(at, Job::Fetch { ticket }),
            // What still comes of it is not listened to.
            Action::StopFiles { .. } => {}
            Action::Renewed { ticket, n } => self.tell_runner(at, ticket, ToRunner::Renewed { n }),
            Action::Rules { ticket, rules } => self.tell_runner(at, ticket, ToRunner::Rules { rules }),
            Action::EndLease { ticket } => self.order(at, Job::EndLease { ticket }, LOCAL),
            Action::Void { ticket, told } => self.order(at, Job::Void { ticket, told }, LOCAL),
            Action::SendAway { ticket } => {
                let stop = ToRunner::Stop { mode: StopMode::Kill, reason: StopReason::WorkerStopped };
                self.tell_runner(at, ticket, stop);
            }
            Action::StopRunner { ticket, mode, reason } => {
                if let Some(process) = &mut self.hosts[at].process {
                    process.lines.stop(ticket, ToRunner::Stop { mode, reason });
                    self.deliver_stop(at, ticket);
                }
            }
            Action::Bye { ticket } => self.tell_runner(at, ticket, ToRunner::Bye),
            Action::Examine { ticket } => self.order(at, Job::Examine { ticket }, LOCAL),
            Action::Ship { ticket, after_seq } => self.ship_with(at, |shipper| shipper.start(ticket, after_seq)),
            Action::LogGrew { ticket } => self.ship_with(at, |shipper| shipper.grew(ticket)),
            Action::LogAcked { ticket, seq, dropped } => {
                self.ship_with(at, |shipper| shipper.acknowledged(ticket, seq, dropped));
                self.tell_runner(at, ticket, ToRunner::Acked { seq });
            }
            Action::LogEnded { ticket, last_seq } => self.ship_with(at, |shipper| shipper.ended(ticket, last_seq)),
            Action::StopShipping { ticket } => self.ship_with(at, |shipper| shipper.stop(ticket)),
            Action::Forget { ticket } => {
                self.stage(at, Moment::BeforeKept);
                if self.hosts[at].process.is_none() {
                    return;
                }
                let log = self.database.reader().log_state(AttemptId(ticket.attempt));
                let is_whole = log.is_ok_and(|log| log.complete);
                let worker = WorkerId(self.hosts[at].worker);
                self.check(|checks| checks.told_to_forget(worker, ticket, is_whole));
                if let Some(folder) = self.put_away(at, ticket) {
                    let kept = !self.hosts[at].setup.no_reconnect;
                    let ticket = folder.spec.attempt.ticket;
                    self.check(|checks| checks.keeps(ticket, kept));
                    self.hosts[at].disk.kept.insert(ticket, folder);
                    self.stage(at, Moment::Kept);
                }
            }
            Action::Recall => self.order(at, Job::Recall, LOCAL),
            Action::Discard { ticket } => drop(self.put_away(at, ticket)),
        }
    }

    fn put_away(&mut self, at: usize, ticket: Ticket) -> Option<Folder> {
        self.check(|checks| checks.put_away(ticket));
        self.ship_with(at, |shipper| shipper.stop(ticket));
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        let folder = host.disk.ticket_of(ticket.attempt).and_then(|named| host.disk.put_away(named, now));
        if let Some(process) = &mut host.process {
            process.lines.put_away(ticket);
        }
        folder
    }

    /// What was put away lies with the others again, and is told. The newest, if that is too much: their ids grow.
    fn recall(&mut self, at: usize) {
        let boot_now = self.hosts[at].boot_now(self.agenda.now());
        let host = &mut self.hosts[at];
        if host.disk.broken {
            return self.feed(at, Input::Recalled { found: Vec::new(), complete: false });
        }
        let older = host.disk.kept.len().saturating_sub(RECALLED_MAX);
        let tickets: Vec<Ticket> = host.disk.kept.keys().skip(older).copied().collect();
        let mut all = Vec::new();
        for ticket in tickets {
            host.disk.attempts.extend(host.disk.kept.remove(&ticket).map(|folder| (ticket, folder)));
            all.extend(scan_kept(host, ticket, boot_now));
        }
        self.feed(at, Input::Recalled { found: all, complete: true });
    }

    pub(super) fn ship_with(&mut self, at: usize, order: impl FnOnce(&mut Shipper<()>)) {
        if let Some(process) = &mut self.hosts[at].process {
            order(&mut process.shipper);
            self.ship(at);
        }
    }

    /// Sends what the shipper has ready.
    pub(super) fn ship(&mut self, at: usize) {
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

    pub(super) fn look_at_logs(&mut self, at: usize) {
        let Some(process) = &mut self.hosts[at].process else { return };
        process.looks_at_logs = false;
        process.shipper.look_at_all();
        self.ship(at);
    }

    pub(crate) fn order(&mut self, at: usize, job: Job, takes: Duration) {
        self.later_at_worker(at, takes, WorkerEvent::Do(job));
    }

    pub(super) fn work(&mut self, at: usize, job: Job) {
        match job {
            Job::Prepare { spec, rules } => self.prepare(at, *spec, rules),
            Job::Void { ticket, told } => self.void(at, ticket, told),
            Job::Examine { ticket } => self.examine(at, ticket),
            Job::EndLease { ticket } => self.end_lease(at, ticket),
            Job::Store { ticket } => self.store_files(at, ticket),
            Job::Fetch { ticket } => self.fetch_files(at, ticket),
            Job::Recall => self.recall(at),
        }
    }

    pub(super) fn prepare(&mut self, at: usize, spec: AttemptSpec, rules: RunnerRules) {
        let ticket = spec.ticket;
        let host = &mut self.hosts[at];
        if host.disk.full {
            let (reason, detail) = (RefuseReason::DiskFull, "no space left on device".to_owned());
            return self.feed(at, Input::PrepareFailed { ticket, reason, detail });
        }
        if host.disk.broken {
            let (reason, detail) = (RefuseReason::Broken, "input/output error".to_owned());
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
        let folder = Folder::new(FolderSpec::new(spec, local));
        let told = secrets::shows(&folder.spec);
        host.disk.attempts.insert(ticket, folder);
        self.check(|checks| checks.prepared(ticket, told));
        let pid = self.start_runner(at, ticket);
        self.open_line(at, ticket, pid);
        self.stage(at, Moment::Prepared);
    }

    pub(super) fn open_line(&mut self, at: usize, ticket: Ticket, pid: u32) {
        let Some(process) = &mut self.hosts[at].process else { return };
        let life = process.life;
        process.lines.open(ticket, |number| (number, pid));
        let Some((line, _)) = process.lines.connection(ticket) else { return };
        let what = RunnerEvent::LineOpened { ticket, line: *line, life };
        self.agenda.after(LOCAL, Event::Runner { host: at, pid, what });
    }

    fn void(&mut self, at: usize, ticket: Ticket, told: bool) {
        self.stage(at, Moment::BeforeVoid);
        if self.hosts[at].process.is_none() {
            return;
        }
        let named = self.hosts[at].disk.lies_under(ticket);
        match take_back(&mut Attic { host: &mut self.hosts[at], ticket: named }, told) {
            Ok(claim) => {
                self.stage(at, Moment::AfterVoid);
                self.feed(at, Input::Claimed { ticket, claim });
            }
            Err(_) => self.order(at, Job::Void { ticket, told }, RETRY_PAUSE),
        }
    }

    pub(super) fn examine(&mut self, at: usize, ticket: Ticket) {
        let named = self.hosts[at].disk.lies_under(ticket);
        let process = self.hosts[at].process.as_ref();
        let rebooted = process.is_some_and(|process| process.of_earlier_boot.contains(&ticket.attempt));
        let look = look(&mut Attic { host: &mut self.hosts[at], ticket: named }, rebooted);
        self.carry_out_dooms(at);
        if let Ok(Look::Clear { spec, .. }) = &look {
            self.feed(at, Input::Recognised { ticket, spec: Box::new(spec.attempt.clone()) });
        }
        match Next::after(look) {
            Next::Tell(finding) => self.feed(at, Input::Examined { ticket, finding }),
            Next::LookAgain { after } => self.order(at, Job::Examine { ticket }, after),
            Next::Connect(finding) => {
                let runner = self.hosts[at].disk.attempts.get(&named).and_then(|folder| folder.runner);
                let Some(pid) = runner else { return self.order(at, Job::Examine { ticket }, RETRY_PAUSE) };
                self.open_line(at, ticket, pid);
                self.deliver_stop(at, ticket);
                self.feed(at, Input::Examined { ticket, finding });
            }
        }
    }

    pub(super) fn end_lease(&mut self, at: usize, ticket: Ticket) {
        let named = self.hosts[at].disk.lies_under(ticket);
        let remains = end_lease(&mut Attic { host: &mut self.hosts[at], ticket: named });
        self.carry_out_dooms(at);
        if !matches!(remains, Ok(Remains::None)) {
            self.order(at, Job::EndLease { ticket }, RETRY_PAUSE);
        }
    }

    /// What was sent KILL dies.
    pub(super) fn carry_out_dooms(&mut self, at: usize) {
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
        if let Some(original) = self.hosts[at].beside {
            for ticket in std::mem::take(&mut self.hosts[at].doomed_beside) {
                self.check(|checks| checks.killed_from_copy(ticket));
                self.kill_group(original, ticket);
            }
        }
    }

    pub(super) fn runner_heard(&mut self, at: usize, ticket: Ticket, line: u64, said: Option<FromRunner>) {
        let Some(process) = &mut self.hosts[at].process else { return };
        if let Some(input) = process.lines.heard(ticket, line, said) {
            self.feed(at, input);
        }
    }

    pub(super) fn tell_runner(&mut self, at: usize, ticket: Ticket, message: ToRunner) {
        let Some(process) = &self.hosts[at].process else { return };
        if let Some((line, pid)) = process.lines.connection(ticket) {
            let what = RunnerEvent::Told { line: *line, message };
            self.agenda.after(LOCAL, Event::Runner { host: at, pid: *pid, what });
        }
    }

    /// Without a connection the order waits for the next one.
    pub(super) fn deliver_stop(&mut self, at: usize, ticket: Ticket) {
        let Some(process) = &mut self.hosts[at].process else { return };
        let mut sent = None;
        process.lines.deliver_stop(ticket, |(line, pid), stop| {
            sent = Some((*pid, RunnerEvent::Told { line: *line, message: stop.clone() }));
            true
        });
        if let Some((pid, what)) = sent {
            self.agenda.after(LOCAL, Event::Runner { host: at, pid, what });
        }
    }
}
