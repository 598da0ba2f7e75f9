//! Runners, their steps' processes and the guards: the product's decisions, with simulated processes around them.

use std::time::Duration;

use protocol::attempt::{End, EndResult, OnDisconnect, Program, StopMode, Ticket};
use protocol::folder::{Claim, FromRunner, RunnerPhase, Status, Tally, ToRunner};
use protocol::secret::SecretValues;
use runner::fence::{self, Answer};
use runner::life::sentry::Sentry;
use runner::life::{Action, Input, Life, WordLeft, may_wake};

use crate::faults::Moment;
use crate::hosts::{HostEvent, LOCAL, WorkerEvent};
use crate::model::ProgramEnd;
use crate::secrets;
use crate::workload::{Behaviour, lists_of};
use crate::world::{Event, World};

const SIGKILL: i32 = 9;

/// From exec to the first thing that a program does.
const EXEC: Duration = Duration::from_millis(1);

pub(crate) struct RunnerProcess {
    pub ticket: Ticket,
    life: Life,
    /// The connection to a worker, and that worker's life.
    line: Option<(u64, u64)>,
    /// Events for a runner that is stopped.
    pub frozen: Option<Vec<Event>>,
    tick_at: Duration,
    /// It was told to kill its step.
    hardened: bool,
    /// It has a guard at its side.
    guarded: bool,
    /// What its step is given besides.
    secrets: SecretValues,
}

impl RunnerProcess {
    /// Its connection to this worker process, if it has one.
    pub(crate) fn line_to(&self, life: u64) -> Option<u64> {
        self.line.filter(|(_, worker)| *worker == life).map(|(line, _)| line)
    }
}

/// Whose processes they are. What was to happen in a step does not happen in its cleanup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Step,
    Cleanup,
}

/// The processes of one step, or of its cleanup.
pub(crate) struct Group {
    part: Part,
    behaviour: Behaviour,
    execution: u32,
    pub runner: u32,
    printed: u64,
    /// The step's own process; it dies with its runner.
    leader: bool,
    guard: Option<Sentry>,
    /// KILL was sent to all of it.
    pub doomed: bool,
}

impl Group {
    pub(crate) fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    pub(crate) fn is_cleanup(&self) -> bool {
        self.part == Part::Cleanup
    }
}

#[derive(Debug)]
pub(crate) enum RunnerEvent {
    LineOpened {
        ticket: Ticket,
        line: u64,
        life: u64,
    },
    LineClosed(u64),
    Told {
        line: u64,
        message: ToRunner,
    },
    Tick,
    Output(String),
    /// TERM.
    ToldToEnd,
    StepEnded(EndResult),
    Thaw,
}

/// What a step's processes do by themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GroupEvent {
    Prints,
    Ends,
    /// It was asked to stop, by this signal.
    Yields {
        signal: i32,
    },
    GuardWakes,
}

impl World {
    /// The nursery forks a runner for this folder.
    pub(crate) fn start_runner(&mut self, at: usize, ticket: Ticket) -> u32 {
        let host = &mut self.hosts[at];
        host.next_pid += 1;
        let pid = host.next_pid;
        let Some(folder) = host.disk.attempts.get_mut(&ticket) else { return pid };
        folder.runner = Some(pid);
        let life = Life::new(&folder.spec, pid);
        let (tick_at, hardened, guarded) = (Duration::MAX, false, false);
        let secrets = SecretValues::new();
        let process = RunnerProcess { ticket, life, line: None, frozen: None, tick_at, hardened, guarded, secrets };
        host.runners.insert(pid, process);
        pid
    }

    pub(crate) fn runner_event_for(&mut self, at: usize, pid: u32, what: RunnerEvent) {
        let host = &mut self.hosts[at];
        let Some(runner) = host.runners.get_mut(&pid) else {
            if let RunnerEvent::LineOpened { ticket, line, life } = what {
                // Nobody is there to take the connection.
                let what = WorkerEvent::Heard { ticket, line, said: None };
                self.agenda.after(LOCAL, Event::Worker { host: at, life, what });
            }
            return;
        };
        if let RunnerEvent::Thaw = what {
            let backlog = runner.frozen.take().unwrap_or_default();
            backlog.into_iter().for_each(|event| self.agenda.after(Duration::ZERO, event));
            return;
        }
        match host.asleep.as_mut().or(runner.frozen.as_mut()) {
            Some(backlog) => backlog.push(Event::Runner { host: at, pid, what }),
            None => self.runner_event(at, pid, what),
        }
    }

    fn runner_event(&mut self, at: usize, pid: u32, event: RunnerEvent) {
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        let Some(runner) = host.runners.get_mut(&pid) else { return };
        match event {
            RunnerEvent::LineOpened { line, life, .. } => {
                // Who died meanwhile leaves the runner alone.
                if host.process.as_ref().is_some_and(|process| process.life == life) {
                    runner.line = Some((line, life));
                    self.live(at, pid, Input::Connected);
                }
            }
            RunnerEvent::LineClosed(line) => {
                if runner.line.is_some_and(|(number, _)| number == line) {
                    runner.line = None;
                    self.live(at, pid, Input::Disconnected);
                }
            }
            RunnerEvent::Told { line, message } => {
                if runner.line.is_some_and(|(number, _)| number == line) {
                    runner.hardened |= matches!(message, ToRunner::Stop { mode: StopMode::Kill, .. });
                    self.live(at, pid, Input::Heard(message));
                }
            }
            RunnerEvent::Tick => {
                // A stopped process gets its timer late.
                if runner.tick_at > now {
                    return;
                }
                runner.tick_at = Duration::MAX;
            }
            RunnerEvent::ToldToEnd => self.live(at, pid, Input::ToldToEnd),
            RunnerEvent::Output(text) => self.take_output(at, pid, text),
            RunnerEvent::StepEnded(result) => {
                let ticket = runner.ticket;
                // What it left behind does not live on.
                self.kill_group(at, ticket);
                self.live(at, pid, Input::StepEnded { result });
                self.live(at, pid, Input::Drained);
            }
            RunnerEvent::Thaw => {}
        }
        self.live(at, pid, Input::Tick);
    }

    fn take_output(&mut self, at: usize, pid: u32, text: String) {
        let host = &mut self.hosts[at];
        let Some(runner) = host.runners.get(&pid) else { return };
        let ticket = runner.ticket;
        let written = !host.disk.full && host.disk.attempts.contains_key(&ticket);
        let line = runner.line;
        let Some(folder) = host.open_folder(ticket) else { return };
        folder.log.print(text.clone(), written, folder.spec.local.log_lines_max);
        let (seq, first) = (folder.log.last_seq, folder.log.first());
        self.check(|checks| checks.printed(ticket, text, written));
        if let Some((line, life)) = line {
            let said = FromRunner::Log { first_seq: first, last_seq: seq, bytes: seq * 20 };
            let what = WorkerEvent::Heard { ticket, line, said: Some(said) };
            self.agenda.after(LOCAL, Event::Worker { host: at, life, what });
        }
    }

    /// Lets the runner decide, and does what it says.
    fn live(&mut self, at: usize, pid: u32, input: Input) {
        let now = self.agenda.now();
        let boot_now = self.hosts[at].boot_now(now);
        let Some(runner) = self.hosts[at].runners.get_mut(&pid) else { return };
        let actions = runner.life.handle(input, boot_now);
        for action in actions {
            self.runner_acts(at, pid, action);
        }
        let Some(runner) = self.hosts[at].runners.get_mut(&pid) else { return };
        if let Some(deadline) = runner.life.deadline() {
            let due = (now + deadline.saturating_sub(boot_now)).max(now + Duration::from_micros(1));
            if due < runner.tick_at || runner.tick_at <= now {
                runner.tick_at = due;
                self.agenda.at(due, Event::Runner { host: at, pid, what: RunnerEvent::Tick });
            }
        }
    }

    fn runner_acts(&mut self, at: usize, pid: u32, action: Action) {
        let now = self.agenda.now();
        match action {
            Action::Claim { .. } => self.runner_stage(at, pid, Moment::BeforeIntent),
            Action::Spawn { .. } => self.runner_stage(at, pid, Moment::AfterIntent),
            Action::Record { .. } => self.runner_stage(at, pid, Moment::BeforeRecord),
            _ => {}
        }
        let host = &mut self.hosts[at];
        let Some(runner) = host.runners.get(&pid) else { return };
        let ticket = runner.ticket;
        match action {
            Action::Send(said) => self.say(at, pid, said),
            Action::SendStatus(phase) => {
                let status = self.status(at, ticket, pid, phase);
                self.say(at, pid, FromRunner::Status { status });
            }
            Action::SendLog => {
                let Some(folder) = host.open_folder(ticket) else { return };
                let (first_seq, last_seq) = (folder.log.first(), folder.log.last_seq);
                self.say(at, pid, FromRunner::Log { first_seq, last_seq, bytes: last_seq * 20 });
            }
            Action::LogAcked { seq } => {
                if let Some(folder) = host.open_folder(ticket) {
                    folder.log.acked = folder.log.acked.max(seq);
                }
            }
            Action::LookIfWanted => {
                let folder = host.disk.attempts.get(&ticket);
                if folder.is_none_or(|folder| folder.claim == Some(Claim::Void)) {
                    self.live(at, pid, Input::Unwanted);
                }
            }
            Action::DeclareVoid => {
                if let Some(folder) = host.disk.attempts.get_mut(&ticket) {
                    folder.claim(Claim::Void, false);
                }
            }
            Action::Equip(values) => {
                if let Some(runner) = host.runners.get_mut(&pid) {
                    runner.secrets = values;
                }
            }
            Action::Claim { durable } => {
                let answer = match host.disk.attempts.get_mut(&ticket) {
                    Some(folder) => Input::Claimed(folder.try_claim(Claim::Intent, durable)),
                    None => Input::StartFailed { message: "the folder is gone".to_owned() },
                };
                self.live(at, pid, answer);
            }
            Action::Spawn { guard_until } => self.spawn(at, pid, ticket, guard_until),
            Action::SetOwnership(ownership) => {
                if let Some(folder) = host.open_folder(ticket) {
                    folder.ownership = Some(ownership);
                }
            }
            Action::Signal(signal) => {
                if let Some(part) = host.groups.get(&ticket).map(|group| group.part) {
                    self.group_later(at, ticket, part, LOCAL, GroupEvent::Yields { signal });
                }
            }
            Action::CleanUp { .. } => self.clean_up(at, pid, ticket),
            Action::Note(text) => self.take_output(at, pid, text),
            Action::Kill => self.kill_leader(at, ticket, SIGKILL),
            Action::WakeCaretaker => {
                let word = host.disk.word.clone().map_or(WordLeft::Nothing, WordLeft::Word);
                let now_ms = u64::try_from(host.boot_now(now).as_millis()).unwrap_or(u64::MAX);
                if may_wake(&word, host.process.is_some(), &host.boot_id(), now_ms) {
                    let what = HostEvent::StartCaretaker;
                    self.agenda.after(Duration::from_millis(20), Event::Host { host: at, what });
                }
            }
            Action::Record { result, stopped, ran_for, cleanup } => {
                let Some(folder) = host.open_folder(ticket) else {
                    return self.runner_gone(at, pid);
                };
                let behaviour = behaviour(&folder.spec.attempt.program);
                let mut output = std::collections::BTreeMap::new();
                let wrote = behaviour.filter(|_| matches!(result, EndResult::Exited { .. }));
                if let Some(behaviour) = wrote {
                    output.insert("n".to_owned(), serde_json::json!(behaviour.output));
                    output.extend(lists(&folder.spec.attempt.program));
                }
                let end = End {
                    result,
                    stopped,
                    log_last_seq: folder.log.last_seq,
                    output,
                    output_error: None,
                    duration_ms: u64::try_from(ran_for.as_millis()).unwrap_or(u64::MAX),
                    cpu_ms: 1,
                    memory_bytes_max: 1,
                    cleanup,
                    artifacts: None,
                };
                folder.end = Some(end.clone());
                if let Some(behaviour) = wrote {
                    self.check(|checks| checks.wrote(ticket, behaviour.output));
                }
                self.runner_stage(at, pid, Moment::AfterRecord);
                self.live(at, pid, Input::Recorded { end: Box::new(end) });
            }
            Action::Leave => self.runner_gone(at, pid),
        }
    }

    fn say(&mut self, at: usize, pid: u32, said: FromRunner) {
        let Some(runner) = self.hosts[at].runners.get(&pid) else { return };
        if let Some((line, life)) = runner.line {
            let what = WorkerEvent::Heard { ticket: runner.ticket, line, said: Some(said) };
            self.agenda.after(LOCAL, Event::Worker { host: at, life, what });
        }
    }

    fn status(&mut self, at: usize, ticket: Ticket, pid: u32, phase: RunnerPhase) -> Status {
        let last_seq = self.hosts[at].open_folder(ticket).map_or(0, |folder| folder.log.last_seq);
        Status {
            phase,
            runner_pid: pid,
            pid: pid + 500_000,
            start_time: 1,
            last_seq,
            log_bytes: 0,
            dropped_lines: 0,
            lost_lines: 0,
        }
    }

    fn spawn(&mut self, at: usize, pid: u32, ticket: Ticket, guard_until: Option<Duration>) {
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        let Some(folder) = host.disk.attempts.get_mut(&ticket) else { return };
        let attempt = &folder.spec.attempt;
        let (job, step, execution) = (attempt.job, attempt.step.clone(), attempt.number);
        let Some(behaviour) = behaviour(&attempt.program).filter(|_| !host.disk.broken) else {
            return self.live(at, pid, Input::StartFailed { message: "input/output error".to_owned() });
        };
        let lacks = host.setup.lacks_for(attempt).map(str::to_owned);
        let given = host.runners.get(&pid).is_some_and(|runner| secrets::are_all(&attempt.secrets, &runner.secrets));
        let (child, start_time) = (pid + 500_000, u64::try_from(now.as_millis()).unwrap_or(0));
        folder.tally = Some(Tally { pid: child, start_time, ..Tally::default() });
        let guard = guard_until.map(Sentry::new);
        let guarded = guard.is_some();
        let part = Part::Step;
        let group = Group { part, behaviour, execution, runner: pid, printed: 0, leader: true, guard, doomed: false };
        host.groups.insert(ticket, group);
        if let Some(runner) = host.runners.get_mut(&pid) {
            runner.guarded = guarded;
        }
        self.tell(|| format!("host {at}: step {step} of {job} runs, attempt {execution}"));
        let attempt = self.hosts[at]
            .disk
            .attempts
            .get(&ticket)
            .map(|folder| (folder.spec.attempt.clone(), folder.fetched.clone()));
        self.check(|checks| checks.child_started(now, at, ticket));
        if let Some((spec, there)) = attempt {
            self.check(|checks| checks.started_with_files(&spec, &there));
        }
        self.check(|checks| checks.equipped(ticket, given));
        if let Some(lacks) = lacks {
            self.check(|checks| checks.started_unable(at, ticket, &lacks));
        }
        self.group_begins(at, ticket, part);
        self.runner_stage(at, pid, Moment::AfterExec);
        self.live(at, pid, Input::Started { pid: child, start_time });
    }

    /// The cleanup takes the place of a step that is gone.
    fn clean_up(&mut self, at: usize, pid: u32, ticket: Ticket) {
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        let boot_now = host.boot_now(now);
        let Some(runner) = host.runners.get(&pid) else { return };
        let (hardened, guarded, broken) = (runner.hardened, runner.guarded, host.disk.broken);
        let Some(folder) = host.open_folder(ticket) else { return };
        let (attempt, recorded) = (&folder.spec.attempt, folder.recorded());
        let (job, step, execution) = (attempt.job, attempt.step.clone(), attempt.number);
        let binding = attempt.on_disconnect == OnDisconnect::Stop;
        let program = attempt.cleanup.as_ref().map(|plan| &plan.program);
        let Some(behaviour) = program.and_then(behaviour).filter(|_| !broken) else {
            return self.live(at, pid, Input::StartFailed { message: "input/output error".to_owned() });
        };
        let owns = matches!(fence::judge(&recorded, boot_now), Some(Answer::Owner { .. }));
        let unfit = match (hardened, binding && !owns) {
            (true, _) => Some("its runner was told to kill"),
            (false, true) => Some("its lease is over"),
            (false, false) => None,
        };
        let (child, start_time) = (pid + 600_000, u64::try_from(now.as_millis()).unwrap_or(0));
        folder.tally = Some(Tally { pid: child, start_time, ..Tally::default() });
        let (part, guard) = (Part::Cleanup, guarded.then(|| Sentry::new(boot_now)));
        let group = Group { part, behaviour, execution, runner: pid, printed: 0, leader: true, guard, doomed: false };
        host.groups.insert(ticket, group);
        self.tell(|| format!("host {at}: step {step} of {job} is cleaned up after, attempt {execution}"));
        self.check(|checks| checks.cleanup_started(now, ticket, unfit));
        self.group_begins(at, ticket, part);
        self.live(at, pid, Input::Started { pid: child, start_time });
    }

    fn group_begins(&mut self, at: usize, ticket: Ticket, part: Part) {
        let Some(group) = self.hosts[at].groups.get(&ticket) else { return };
        let (takes, guarded) = (group.behaviour.takes, group.is_guarded());
        self.group_later(at, ticket, part, EXEC, GroupEvent::Prints);
        self.group_later(at, ticket, part, takes.max(EXEC), GroupEvent::Ends);
        if guarded {
            self.group_later(at, ticket, part, LOCAL, GroupEvent::GuardWakes);
        }
    }

    fn group_later(&mut self, at: usize, ticket: Ticket, part: Part, pause: Duration, what: GroupEvent) {
        self.agenda.after(pause, Event::Group { host: at, ticket, part, what });
    }

    pub(crate) fn group_event(&mut self, at: usize, ticket: Ticket, part: Part, event: GroupEvent) {
        let host = &mut self.hosts[at];
        if let Some(backlog) = &mut host.asleep {
            return backlog.push(Event::Group { host: at, ticket, part, what: event });
        }
        let Some(group) = host.groups.get_mut(&ticket).filter(|group| group.part == part) else { return };
        match event {
            GroupEvent::Prints => self.group_prints(at, ticket),
            GroupEvent::Ends => {
                let result = match group.behaviour.code(group.execution) {
                    code @ 0.. => EndResult::Exited { code },
                    signal => EndResult::Signaled { signal: -signal, oom: false },
                };
                self.leader_ends(at, ticket, result);
            }
            GroupEvent::Yields { signal } => {
                if !group.behaviour.stubborn {
                    self.leader_ends(at, ticket, EndResult::Signaled { signal, oom: false });
                }
            }
            GroupEvent::GuardWakes => self.guard_wakes(at, ticket),
        }
    }

    fn group_prints(&mut self, at: usize, ticket: Ticket) {
        let Some(group) = self.hosts[at].groups.get_mut(&ticket) else { return };
        if !group.leader || group.printed >= group.behaviour.lines {
            return;
        }
        group.printed += 1;
        let (pid, part) = (group.runner, group.part);
        let what = if part == Part::Step { "line" } else { "cleanup line" };
        let text = format!("{what} {} of {}", group.printed, ticket.attempt);
        let pause = group.behaviour.takes / u32::try_from(group.behaviour.lines + 1).unwrap_or(u32::MAX);
        self.agenda.after(Duration::ZERO, Event::Runner { host: at, pid, what: RunnerEvent::Output(text) });
        self.group_later(at, ticket, part, pause, GroupEvent::Prints);
    }

    /// The step's own process ends; its runner hears of it.
    fn leader_ends(&mut self, at: usize, ticket: Ticket, result: EndResult) {
        let Some(group) = self.hosts[at].groups.get_mut(&ticket) else { return };
        if !std::mem::take(&mut group.leader) {
            return;
        }
        let (pid, stray, part) = (group.runner, group.behaviour.stray, group.part);
        self.program_ended(ticket, part, &result);
        if !stray {
            self.group_gone(at, ticket);
        }
        self.agenda.after(LOCAL, Event::Runner { host: at, pid, what: RunnerEvent::StepEnded(result) });
    }

    /// The kernel ends the step's own process for want of memory; whether there was one.
    pub(crate) fn out_of_memory(&mut self, at: usize, pid: u32) -> bool {
        let Some(ticket) = self.hosts[at].runners.get(&pid).map(|runner| runner.ticket) else { return false };
        let lives = self.hosts[at].groups.get(&ticket).is_some_and(|group| group.leader);
        self.leader_ends(at, ticket, EndResult::Signaled { signal: SIGKILL, oom: true });
        lives
    }

    fn kill_leader(&mut self, at: usize, ticket: Ticket, signal: i32) {
        if self.hosts[at].groups.contains_key(&ticket) {
            self.leader_ends(at, ticket, EndResult::Signaled { signal, oom: false });
            self.kill_group(at, ticket);
        }
    }

    /// KILL to everything of a step.
    pub(crate) fn kill_group(&mut self, at: usize, ticket: Ticket) {
        let Some(group) = self.hosts[at].groups.get_mut(&ticket) else { return };
        group.doomed = true;
        let (pid, part) = (group.runner, group.part);
        if std::mem::take(&mut group.leader) {
            let result = EndResult::Signaled { signal: SIGKILL, oom: false };
            self.program_ended(ticket, part, &result);
            self.agenda.after(LOCAL, Event::Runner { host: at, pid, what: RunnerEvent::StepEnded(result) });
        }
        self.group_gone(at, ticket);
    }

    fn group_gone(&mut self, at: usize, ticket: Ticket) {
        let now = self.agenda.now();
        if self.hosts[at].groups.remove(&ticket).is_some() {
            self.hosts[at].forget_if_lifeless(ticket);
            self.check(|checks| checks.child_ended(now, ticket));
        }
    }

    /// For the checkers: what the program did, whoever hears of it.
    fn program_ended(&mut self, ticket: Ticket, part: Part, result: &EndResult) {
        if part == Part::Cleanup {
            return;
        }
        let end = match result {
            EndResult::Exited { code } => ProgramEnd::Exited(*code),
            EndResult::Signaled { signal, .. } => ProgramEnd::Signaled(*signal),
            EndResult::SpawnFailed { .. } => return,
        };
        self.check(|checks| checks.program_ended(ticket, end));
    }

    fn guard_wakes(&mut self, at: usize, ticket: Ticket) {
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        let boot_now = host.boot_now(now);
        let recorded = host.open_folder(ticket).map(|folder| folder.recorded());
        let Some(group) = host.groups.get_mut(&ticket) else { return };
        let (runner_lives, part) = (host.runners.contains_key(&group.runner), group.part);
        let Some(guard) = &mut group.guard else { return };
        let ask = || recorded.and_then(|recorded| fence::judge(&recorded, boot_now)).unwrap_or(Answer::CannotTell);
        match guard.turn(runner_lives, boot_now, ask) {
            Some(until) => {
                let pause = until.saturating_sub(boot_now).max(LOCAL);
                self.group_later(at, ticket, part, pause, GroupEvent::GuardWakes);
            }
            None => self.kill_group(at, ticket),
        }
    }

    /// SIGKILL to a runner. Its step's process dies with it, what that has left behind does not.
    pub(crate) fn kill_runner(&mut self, at: usize, pid: u32) {
        let Some(runner) = self.hosts[at].runners.get(&pid) else { return };
        let ticket = runner.ticket;
        self.tell(|| format!("host {at}: the runner of {} is killed", ticket.attempt));
        self.runner_gone(at, pid);
        let Some(group) = self.hosts[at].groups.get_mut(&ticket) else { return };
        let (stray, guarded, part) = (group.behaviour.stray, group.guard.is_some(), group.part);
        if std::mem::take(&mut group.leader) {
            self.program_ended(ticket, part, &EndResult::Signaled { signal: SIGKILL, oom: false });
        }
        if !stray {
            self.group_gone(at, ticket);
        } else if guarded {
            self.group_later(at, ticket, part, LOCAL, GroupEvent::GuardWakes);
        }
    }

    /// Its process is no more: the lock is free, its line closed.
    pub(crate) fn runner_gone(&mut self, at: usize, pid: u32) {
        let host = &mut self.hosts[at];
        let Some(runner) = host.runners.remove(&pid) else { return };
        // Its folder may have been put away meanwhile: it was told to go a moment before.
        let disk = &mut host.disk;
        let folders = [disk.attempts.get_mut(&runner.ticket), disk.kept.get_mut(&runner.ticket)];
        for folder in folders.into_iter().flatten().filter(|folder| folder.runner == Some(pid)) {
            folder.runner = None;
        }
        host.forget_if_lifeless(runner.ticket);
        if let Some((line, life)) = runner.line {
            let what = WorkerEvent::Heard { ticket: runner.ticket, line, said: None };
            self.agenda.after(LOCAL, Event::Worker { host: at, life, what });
        }
        // Whoever connected while it was frozen is told that nobody is there any more.
        for waiting in runner.frozen.unwrap_or_default() {
            self.agenda.after(LOCAL, waiting);
        }
    }

    pub(crate) fn freeze_runner(&mut self, at: usize, pid: u32, time: Duration) {
        if let Some(runner) = self.hosts[at].runners.get_mut(&pid)
            && runner.frozen.is_none()
        {
            runner.frozen = Some(Vec::new());
            let (ticket, now) = (runner.ticket, self.agenda.now());
            self.check(|checks| checks.runner_freezes(now, ticket, time));
            self.tell(|| format!("host {at}: runner {pid} is frozen for {time:?}"));
            self.agenda.after(time, Event::Runner { host: at, pid, what: RunnerEvent::Thaw });
        }
    }
}

/// What it is to give besides.
fn lists(program: &Program) -> Vec<(String, serde_json::Value)> {
    match program {
        Program::Command { argv } => lists_of(argv),
        Program::Script { .. } => Vec::new(),
    }
}

fn behaviour(program: &Program) -> Option<Behaviour> {
    match program {
        Program::Command { argv } => Behaviour::parse(argv),
        Program::Script { .. } => None,
    }
}
