//! The life of the step's process: its output, its deadlines, its end.
//!
//! The step is over when its own process has ended. What it left behind is killed then, and the pipes are read to
//! their end, though not for ever: somebody out of our reach may hold them open.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use protocol::attempt::{End, EndResult, StopMode, StopReason};
use protocol::folder::{FromRunner, OUTPUT_FILE, Ownership, RunnerPhase, ToRunner};
use protocol::log::Stream;
use rustix::io::Errno;

use crate::alarm::Alarm;
use crate::child::Child;
use crate::clock;
use crate::control::Event;
use crate::guard::Guard;
use crate::lease::Lease;
use crate::lines::Splitter;
use crate::notes;
use crate::output;
use crate::poll::{PollSet, Ready, Source};
use crate::prepare::Desk;
use crate::sys::{self, Children, Fate, Usage};
use crate::tree::{self, Tree};

/// How long pipes and strays may outlast the step's own process.
const DRAIN_GRACE: Duration = Duration::from_secs(2);
/// The same while the server still takes lines: a pipe may hold many more than may wait for it.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// Hints about a growing log are at least this far apart.
const HINT_GAP: Duration = Duration::from_millis(10);
/// One read from a pipe: what a pipe holds at most by default, times four.
const READ_BYTES: usize = 256 * 1024;
/// A step that prints faster than the server stores is held back while the server keeps up at all. This long after
/// its last word the step is let go on: a server that is away never blocks a step, it only costs the oldest lines.
const HOLD_PATIENCE: Duration = Duration::from_secs(1);
/// Signs of life are at least this far apart, whatever the server says.
const BEAT_GAP: Duration = Duration::from_millis(10);
/// Reads from one pipe before the others get their turn.
const READS_PER_TURN: usize = 4;

/// Stays until the step is over, and says how it ended.
pub(crate) fn watch(desk: &mut Desk, child: Child) -> End {
    let mut watch = Watch::new(desk, child);
    while !watch.is_over() {
        watch.turn();
    }
    watch.end()
}

struct Watch<'a> {
    desk: &'a mut Desk,
    tree: Tree,
    pipes: [Pipe; 2],
    buffer: Vec<u8>,
    started: Duration,
    /// Cleared when it has struck.
    timeout_at: Option<Duration>,
    stopping: Option<Stopping>,
    exited: Option<Exited>,
    usage: Usage,
    strays: bool,
    hint: Hint,
    /// Set where the step ends with its lease.
    alarm: Option<Alarm>,
    beat_at: Option<Duration>,
    /// When the server last took lines of this log, or too many began to wait for it.
    progress_at: Option<Duration>,
    crowded: bool,
}

struct Pipe {
    source: Source,
    /// `None` after its end.
    reader: Option<OwnedFd>,
    splitter: Splitter,
}

struct Stopping {
    reason: StopReason,
    /// `None`: everything was killed already.
    kill_at: Option<Duration>,
}

struct Exited {
    result: EndResult,
    at: Duration,
}

#[derive(Default)]
struct Hint {
    last_seq: u64,
    not_before: Duration,
}

impl<'a> Watch<'a> {
    fn new(desk: &'a mut Desk, child: Child) -> Self {
        let started = clock::boot_now();
        let timeout = desk.spec.attempt.timeout_ms.map(Duration::from_millis);
        // A line has at least one byte, so that one read never overruns the limit of lines.
        let lines_per_read = usize::try_from(desk.spool.lines_max() / 4).unwrap_or(READ_BYTES).max(1);
        let pipe = |source, stream, reader| Pipe { source, reader: Some(reader), splitter: Splitter::new(stream) };
        let alarm = desk.lease.as_ref().and_then(Lease::kill_at).and_then(|_| Alarm::new());
        let mut watch = Watch {
            desk,
            tree: Tree::new(child.pid, child.cgroup),
            pipes: [
                pipe(Source::Stdout, Stream::Stdout, child.stdout),
                pipe(Source::Stderr, Stream::Stderr, child.stderr),
            ],
            buffer: vec![0; READ_BYTES.min(lines_per_read)],
            started,
            timeout_at: timeout.and_then(|timeout| started.checked_add(timeout)),
            stopping: None,
            exited: None,
            usage: Usage::default(),
            strays: false,
            hint: Hint::default(),
            alarm,
            beat_at: None,
            progress_at: None,
            crowded: false,
        };
        watch.expect_beat(started);
        watch
    }

    /// Until when the pipes are left unread, so that the server can catch up.
    fn hold_until(&self) -> Option<Duration> {
        let until = self.progress_at.filter(|_| self.crowded && self.desk.control.has_peer())? + HOLD_PATIENCE;
        (clock::boot_now() < until).then_some(until)
    }

    fn note_crowd(&mut self, now: Duration) {
        let crowded = self.desk.spool.is_half_full();
        if crowded && !self.crowded {
            self.progress_at = Some(now);
        }
        self.crowded = crowded;
    }

    fn is_over(&self) -> bool {
        let Some(exited) = &self.exited else { return false };
        let drained = self.pipes.iter().all(|pipe| pipe.reader.is_none());
        drained && !self.strays || clock::boot_now() >= self.drain_until(exited.at)
    }

    fn drain_until(&self, exited_at: Duration) -> Duration {
        let busy_at = self.progress_at.unwrap_or_default().max(exited_at);
        (busy_at + DRAIN_GRACE).min(exited_at + DRAIN_MAX)
    }

    fn turn(&mut self) {
        self.desk.control.listen_if_alone();
        let hold_until = self.hold_until();
        let ready = self.wait(hold_until);
        let now = clock::boot_now();
        self.read_pipes(ready, now);
        if ready.has(Source::Signals) {
            self.handle_signals(now);
        }
        self.desk.control.turn(ready);
        while let Some(event) = self.desk.control.next_event() {
            self.handle_event(&event, now);
        }
        if self.desk.spec.local.ends_with_worker && !self.desk.control.has_peer() {
            self.stop(StopMode::Graceful, StopReason::WorkerStopped, now);
        }
        // After what was heard: an answer that waited in the socket still counts.
        self.keep_lease(now);
        self.beat(now);
        self.desk.keep_vigil(now);
        self.meet_deadlines(now, hold_until.is_some());
        self.desk.flush_log();
        self.note_crowd(now);
        self.send_hint(now);
    }

    fn wait(&self, hold_until: Option<Duration>) -> Ready {
        let mut set = PollSet::default();
        set.read(Source::Signals, self.desk.signals.as_fd());
        self.desk.control.watch(&mut set);
        if let Some(alarm) = &self.alarm {
            set.read(Source::Alarm, alarm.descriptor());
        }
        for pipe in self.pipes.iter().filter(|_| hold_until.is_none()) {
            if let Some(reader) = &pipe.reader {
                set.read(pipe.source, reader.as_fd());
            }
        }
        let now = clock::boot_now();
        let until_deadline = self
            .next_deadline(hold_until.is_some())
            .into_iter()
            .chain(hold_until)
            .min()
            .map(|deadline| deadline.saturating_sub(now));
        set.wait(until_deadline.into_iter().chain(self.desk.control.patience()).min())
    }

    /// `held`: the rest of a line may be in the pipes that are left unread, so its beginning is not flushed.
    fn next_deadline(&self, held: bool) -> Option<Duration> {
        let hint_at = (self.hint.last_seq < self.desk.spool.last_seq()).then_some(self.hint.not_before);
        [
            self.timeout_at,
            self.stopping.as_ref().and_then(|stopping| stopping.kill_at),
            self.exited.as_ref().map(|exited| self.drain_until(exited.at)),
            self.pipes[0].splitter.flush_at().filter(|_| !held),
            self.pipes[1].splitter.flush_at().filter(|_| !held),
            hint_at,
            self.beat_at,
            self.desk.solitude.deadline(),
            self.lease_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn read_pipes(&mut self, ready: Ready, now: Duration) {
        for pipe in &mut self.pipes {
            if ready.has(pipe.source) {
                pipe.read(&mut self.buffer, now, self.desk);
            }
        }
    }

    fn handle_signals(&mut self, now: Duration) {
        while let Some(signal) = sys::next_signal(self.desk.signals.as_fd()) {
            if signal != libc::SIGCHLD {
                // Somebody shuts the machine or the service down: better an orderly end than none.
                self.stop(StopMode::Graceful, StopReason::WorkerStopped, now);
            }
        }
        self.look_after_children(now);
    }

    /// Reaps whoever has ended. Once the step's own process has, nothing that it left may live on.
    fn look_after_children(&mut self, now: Duration) {
        loop {
            match sys::look_at_children() {
                Children::Ended(pid) if pid == self.tree.leader() && self.exited.is_none() => self.step_ended(now),
                Children::Ended(pid) if Some(pid) == self.desk.caretaker => {
                    let _ = sys::reap(pid);
                    self.desk.caretaker = None;
                }
                Children::Ended(pid) if Some(pid) == self.desk.guard.as_ref().map(Guard::pid) => {
                    let _ = sys::reap(pid);
                    self.desk.guard = None;
                }
                Children::Ended(pid) => {
                    if let Ok((_, usage)) = sys::reap(pid) {
                        self.usage.add(usage);
                    }
                }
                Children::AllRunning => {
                    self.strays = self.exited.is_some() && tree::kill_strays(self.desk.helpers());
                    return;
                }
                Children::None => {
                    self.strays = false;
                    return;
                }
            }
        }
    }

    fn step_ended(&mut self, now: Duration) {
        // While the process is not reaped its number, and with it the group's, cannot be anyone else's.
        self.tree.kill_group();
        let result = match sys::reap(self.tree.leader()) {
            Ok((Fate::Exited(code), usage)) => {
                self.usage.add(usage);
                EndResult::Exited { code }
            }
            Ok((Fate::Signaled(signal), usage)) => {
                self.usage.add(usage);
                EndResult::Signaled { signal, oom: signal == libc::SIGKILL && self.tree.oom_killed() }
            }
            Err(error) => {
                notes::write(&format!("cannot reap the step's process: {error}"));
                EndResult::Signaled { signal: libc::SIGKILL, oom: false }
            }
        };
        self.tree.empty_cgroup();
        self.timeout_at = None;
        self.blame_the_lease(&result, now);
        if let Some(stopping) = &mut self.stopping {
            stopping.kill_at = None;
        }
        self.exited = Some(Exited { result, at: now });
    }

    /// While this runner was frozen its worker may have ended the step for it.
    fn blame_the_lease(&mut self, result: &EndResult, now: Duration) {
        let killed = matches!(result, EndResult::Signaled { signal: libc::SIGKILL, oom: false });
        let over = is_due(self.desk.lease.as_ref().and_then(Lease::kill_at), now);
        if killed && over && self.stopping.is_none() {
            self.stopping = Some(Stopping { reason: StopReason::LeaseExpired, kill_at: None });
        }
    }

    fn handle_event(&mut self, event: &Event, now: Duration) {
        match event {
            Event::Connected | Event::Message(ToRunner::Go { .. }) => {
                let tally = self.desk.record.tally();
                self.desk.control.send(&FromRunner::Started { pid: tally.pid, start_time: tally.start_time });
                let hint = self.desk.log_hint();
                self.desk.control.send(&hint);
                self.beat_at = self.beat_at.map(|_| now);
                if let Some(lease) = &mut self.desk.lease {
                    lease.ask_soon(now);
                }
            }
            Event::Message(ToRunner::Stop { mode, reason }) => self.stop(*mode, *reason, now),
            Event::Message(ToRunner::Status) => {
                let phase = if self.stopping.is_some() { RunnerPhase::Stopping } else { RunnerPhase::Running };
                let status = self.desk.status(phase);
                self.desk.control.send(&status);
            }
            Event::Message(ToRunner::Acked { seq }) => {
                if self.desk.spool.acknowledge(*seq) {
                    self.progress_at = Some(now);
                }
            }
            Event::Message(ToRunner::Renewed { n }) => {
                if let Some(lease) = self.desk.lease.as_mut()
                    && lease.answered(*n)
                {
                    self.desk.record.set_ownership(lease.ownership());
                }
            }
            Event::Message(ToRunner::Rules { rules }) => {
                self.desk.rules = *rules;
                self.expect_beat(now);
            }
            Event::Message(ToRunner::Bye | ToRunner::Unknown) => {}
        }
    }

    /// The next sign of life. From this loop, which neither the step nor its output can block.
    fn expect_beat(&mut self, now: Duration) {
        let interval = Duration::from_millis(self.desk.rules.beat_ms);
        self.beat_at = if interval.is_zero() { None } else { now.checked_add(interval.max(BEAT_GAP)) };
    }

    fn beat(&mut self, now: Duration) {
        if is_due(self.beat_at, now) {
            self.desk.control.send(&FromRunner::Beat { pid: std::process::id() });
            self.expect_beat(now);
        }
    }

    /// Asks for more while the step runs, and ends it in time where it ends with its lease.
    fn keep_lease(&mut self, now: Duration) {
        if self.exited.is_some() {
            // There is nothing left to end, and an alarm that rings on would keep this loop spinning.
            if let Some(alarm) = &mut self.alarm {
                alarm.set(None);
            }
            return;
        }
        let Some(lease) = &mut self.desk.lease else { return };
        if let Some(n) = lease.ask(now) {
            self.desk.control.send(&FromRunner::Renew { n, asked_at_ms: clock::to_ms(now) });
        }
        let (signal_at, kill_at) = (lease.signal_at(), lease.kill_at());
        if is_due(signal_at, now) && self.stopping.is_none() {
            self.tree.ask_to_stop(self.desk.spec.attempt.stop.signal);
            self.stopping = Some(Stopping { reason: StopReason::LeaseExpired, kill_at });
        }
        // Whatever else it is being stopped for, and however long it had for that.
        if is_due(kill_at, now) && !self.is_killed() {
            self.disown();
            self.kill();
        }
        let next = if self.stopping.is_some() { kill_at.filter(|_| !self.is_killed()) } else { signal_at };
        if let Some(alarm) = &mut self.alarm {
            alarm.set(next);
        }
    }

    fn lease_deadline(&self) -> Option<Duration> {
        let lease = self.desk.lease.as_ref().filter(|_| self.exited.is_none())?;
        let stop_at =
            if self.stopping.is_some() { lease.kill_at().filter(|_| !self.is_killed()) } else { lease.signal_at() };
        stop_at.into_iter().chain([lease.ask_at()]).min()
    }

    fn is_killed(&self) -> bool {
        self.stopping.as_ref().is_some_and(|stopping| stopping.kill_at.is_none())
    }

    /// Whoever asks from now on hears that the step is somebody else's.
    fn disown(&self) {
        self.desk.record.set_ownership(Ownership { confirmed_ms: 0, until_ms: 0 });
    }

    /// The first reason stays; a later order can only be harder.
    fn stop(&mut self, mode: StopMode, reason: StopReason, now: Duration) {
        if self.exited.is_some() {
            return;
        }
        if reason == StopReason::Superseded {
            self.disown();
        }
        let plan = &self.desk.spec.attempt.stop;
        if self.stopping.is_none() {
            let kill_at = now.saturating_add(Duration::from_millis(plan.grace_ms));
            self.stopping = Some(Stopping { reason, kill_at: Some(kill_at) });
            if mode == StopMode::Graceful {
                self.tree.ask_to_stop(plan.signal);
            }
        }
        if mode == StopMode::Kill {
            self.kill();
        }
    }

    fn kill(&mut self) {
        self.tree.kill_all(self.desk.helpers());
        if let Some(stopping) = &mut self.stopping {
            stopping.kill_at = None;
        }
    }

    fn meet_deadlines(&mut self, now: Duration, held: bool) {
        if is_due(self.timeout_at, now) {
            self.timeout_at = None;
            self.stop(StopMode::Graceful, StopReason::Timeout, now);
        }
        if is_due(self.stopping.as_ref().and_then(|stopping| stopping.kill_at), now) {
            self.kill();
        }
        for pipe in self.pipes.iter_mut().filter(|_| !held) {
            if is_due(pipe.splitter.flush_at(), now) {
                pipe.splitter.flush_partial(clock::wall_us(), &mut self.desk.spool);
            }
        }
    }

    fn send_hint(&mut self, now: Duration) {
        let last_seq = self.desk.spool.last_seq();
        if last_seq > self.hint.last_seq && now >= self.hint.not_before {
            self.hint = Hint { last_seq, not_before: now + HINT_GAP };
            let hint = self.desk.log_hint();
            self.desk.control.send(&hint);
        }
    }

    fn end(mut self) -> End {
        if let Some(guard) = self.desk.guard.take() {
            guard.dismiss();
        }
        for pipe in &mut self.pipes {
            pipe.splitter.finish(clock::wall_us(), &mut self.desk.spool);
        }
        self.desk.flush_log();
        if self.strays {
            notes::write("some processes of the step could not be killed in time");
        }
        let exited = self.exited.expect("the watch is over when the step has ended");
        let output = output::read(OUTPUT_FILE.as_ref());
        End {
            result: exited.result,
            stopped: self.stopping.map(|stopping| stopping.reason),
            log_last_seq: self.desk.spool.last_seq(),
            output: output.values,
            output_error: output.error,
            duration_ms: clock::to_ms(exited.at.saturating_sub(self.started)),
            cpu_ms: clock::to_ms(self.usage.cpu),
            memory_bytes_max: self.usage.memory_bytes_max,
        }
    }
}

impl Pipe {
    fn read(&mut self, buffer: &mut [u8], now: Duration, desk: &mut Desk) {
        let Some(reader) = &self.reader else { return };
        let time_us = clock::wall_us();
        for _ in 0..READS_PER_TURN {
            match rustix::io::read(reader, &mut *buffer) {
                Ok(0) => return self.close(time_us, desk),
                Ok(length) => {
                    self.splitter.feed(&buffer[..length], now, time_us, &mut desk.spool);
                    if length < buffer.len() || desk.spool.is_half_full() {
                        return;
                    }
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => return,
                Err(errno) => {
                    notes::write(&format!("cannot read the step's output: {errno}"));
                    return self.close(time_us, desk);
                }
            }
        }
    }

    fn close(&mut self, time_us: i64, desk: &mut Desk) {
        self.splitter.finish(time_us, &mut desk.spool);
        self.reader = None;
    }
}

fn is_due(at: Option<Duration>, now: Duration) -> bool {
    at.is_some_and(|at| at <= now)
}
