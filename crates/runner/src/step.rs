//! The step's process as its runner has it: its output, its remains, its end.
//!
//! The step is over when its own process has ended. What it left behind is killed then, and the pipes are read to
//! their end, though not for ever: somebody out of our reach may hold them open.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use protocol::attempt::EndResult;
use protocol::log::Stream;
use rustix::io::Errno;

use crate::alarm::Alarm;
use crate::child::Child;
use crate::clock;
use crate::lines::Splitter;
use crate::mask::{Mask, Masker};
use crate::notes;
use crate::poll::{PollSet, Ready, Source};
use crate::pressure::Pressure;
use crate::spool::Spool;
use crate::sys::{self, Fate, Usage};
use crate::tree::Tree;

/// Hints about a growing log are at least this far apart.
const HINT_GAP: Duration = Duration::from_millis(10);
/// One read from a pipe: what a pipe holds at most by default, times four.
const READ_BYTES: usize = 256 * 1024;
/// What may be in a pipe when nothing more is waited for: the most that a system lets one hold, unless it was told otherwise.
const REST_BYTES_MAX: usize = 1024 * 1024;
/// Reads from one pipe before the others get their turn.
const READS_PER_TURN: usize = 4;

pub(crate) struct Step {
    pub(crate) tree: Tree,
    pipes: [Pipe; 2],
    buffer: Vec<u8>,
    pub(crate) usage: Usage,
    /// Something that it left behind may live.
    pub(crate) strays: bool,
    ended_at: Option<Duration>,
    hint: Hint,
    /// Set where the step ends with its lease.
    alarm: Option<Alarm>,
    pub(crate) pressure: Pressure,
}

struct Pipe {
    source: Source,
    /// `None` after its end.
    reader: Option<OwnedFd>,
    lines: Lines,
}

/// From what a pipe brings to what the log holds.
struct Lines {
    /// For a step that has secrets.
    masker: Option<Masker>,
    splitter: Splitter,
}

#[derive(Default)]
struct Hint {
    last_seq: u64,
    not_before: Duration,
}

impl Step {
    /// `lines_max`: how many lines of log may wait for the server. `alarmed`: its lease ends it. `mask`: what its log must not
    /// show.
    pub(crate) fn new(child: Child, lines_max: u64, alarmed: bool, mask: Option<&Rc<Mask>>) -> Self {
        // A line has at least one byte, so that one read never overruns the limit of lines.
        let lines_per_read = usize::try_from(lines_max / 4).unwrap_or(READ_BYTES).max(1);
        let pipe = |source, stream, reader| {
            let lines = Lines { masker: mask.cloned().map(Masker::new), splitter: Splitter::new(stream) };
            Pipe { source, reader: Some(reader), lines }
        };
        Step {
            tree: Tree::new(child.pid, child.cgroup),
            pipes: [
                pipe(Source::Stdout, Stream::Stdout, child.stdout),
                pipe(Source::Stderr, Stream::Stderr, child.stderr),
            ],
            buffer: vec![0; READ_BYTES.min(lines_per_read)],
            usage: Usage::default(),
            strays: false,
            ended_at: None,
            hint: Hint::default(),
            alarm: if alarmed { Alarm::new() } else { None },
            pressure: Pressure::default(),
        }
    }

    /// Whether this is its own process, and not reaped.
    pub(crate) fn is_led_by(&self, pid: i32) -> bool {
        pid == self.tree.leader() && !self.has_ended()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    pub(crate) fn set_alarm(&mut self, at: Option<Duration>) {
        if let Some(alarm) = &mut self.alarm {
            alarm.set(at);
        }
    }

    /// `held`: its output is left in the pipes.
    pub(crate) fn watch<'a>(&'a self, set: &mut PollSet<'a>, held: bool) {
        if let Some(alarm) = &self.alarm {
            set.read(Source::Alarm, alarm.descriptor());
        }
        for pipe in self.pipes.iter().filter(|_| !held) {
            if let Some(reader) = &pipe.reader {
                set.read(pipe.source, reader.as_fd());
            }
        }
    }

    pub(crate) fn deadline(&self, held: bool, spool: &Spool) -> Option<Duration> {
        let hint_at = (self.hint.last_seq < spool.last_seq()).then_some(self.hint.not_before);
        let drained_at = self.ended_at.map(|ended_at| self.pressure.drain_until(ended_at));
        let flush_at = self.pipes.iter().filter(|_| !held).filter_map(|pipe| pipe.lines.splitter.flush_at());
        flush_at.chain(hint_at).chain(drained_at).min()
    }

    pub(crate) fn read(&mut self, ready: Ready, now: Duration, spool: &mut Spool) {
        for pipe in &mut self.pipes {
            if ready.has(pipe.source) {
                pipe.read(&mut self.buffer, now, spool);
            }
        }
    }

    pub(crate) fn show_partial_lines(&mut self, now: Duration, spool: &mut Spool) {
        for pipe in &mut self.pipes {
            if pipe.lines.splitter.flush_at().is_some_and(|at| at <= now) {
                pipe.lines.splitter.flush_partial(clock::wall_us(), spool);
            }
        }
    }

    /// Whether the worker should hear that the log has grown. It then counts as told.
    pub(crate) fn has_news(&mut self, now: Duration, spool: &Spool) -> bool {
        let last_seq = spool.last_seq();
        let news = last_seq > self.hint.last_seq && now >= self.hint.not_before;
        if news {
            self.hint = Hint { last_seq, not_before: now + HINT_GAP };
        }
        news
    }

    /// Reaps its own process, which has ended, and kills what that left.
    pub(crate) fn reap(&mut self, now: Duration) -> EndResult {
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
        self.ended_at = Some(now);
        result
    }

    /// Whether it has ended, and nothing more of its output is worth waiting for.
    pub(crate) fn is_drained(&self, now: Duration) -> bool {
        let Some(ended_at) = self.ended_at else { return false };
        let drained = self.pipes.iter().all(|pipe| pipe.reader.is_none());
        drained && !self.strays || now >= self.pressure.drain_until(ended_at)
    }

    /// The last of its output goes to the log. What it has used.
    pub(crate) fn finish(mut self, spool: &mut Spool) -> Usage {
        for pipe in &mut self.pipes {
            pipe.read_rest(&mut self.buffer, spool);
            pipe.lines.finish(clock::wall_us(), spool);
        }
        if self.strays {
            notes::write("some processes of the step could not be killed in time");
        }
        self.usage
    }
}

impl Pipe {
    fn read(&mut self, buffer: &mut [u8], now: Duration, spool: &mut Spool) {
        let Some(reader) = &self.reader else { return };
        let time_us = clock::wall_us();
        for _ in 0..READS_PER_TURN {
            match rustix::io::read(reader, &mut *buffer) {
                Ok(0) => return self.close(time_us, spool),
                Ok(length) => {
                    self.lines.feed(&buffer[..length], now, time_us, spool);
                    if length < buffer.len() || spool.is_half_full() {
                        return;
                    }
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => return,
                Err(errno) => {
                    notes::write(&format!("cannot read the step's output: {errno}"));
                    return self.close(time_us, spool);
                }
            }
        }
    }

    /// What is in it now, however crowded the log is; no more, since whoever has it open may write for ever.
    fn read_rest(&mut self, buffer: &mut [u8], spool: &mut Spool) {
        let Some(reader) = &self.reader else { return };
        let mut read = 0;
        while read < REST_BYTES_MAX {
            match rustix::io::read(reader, &mut *buffer) {
                Ok(length) if length > 0 => {
                    self.lines.feed(&buffer[..length], Duration::ZERO, clock::wall_us(), spool);
                    // By one read at a time the limits of the log are kept.
                    spool.flush();
                    read += length;
                }
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn close(&mut self, time_us: i64, spool: &mut Spool) {
        self.lines.finish(time_us, spool);
        self.reader = None;
    }
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], now: Duration, time_us: i64, spool: &mut Spool) {
        match &mut self.masker {
            None => self.splitter.feed(bytes, now, time_us, spool),
            Some(masker) => masker.feed(bytes, |shown| self.splitter.feed(shown, now, time_us, spool)),
        }
    }

    /// Nothing more comes from it.
    fn finish(&mut self, time_us: i64, spool: &mut Spool) {
        if let Some(masker) = &mut self.masker {
            // Its line ends here, so that the time from which it waits does not matter.
            masker.finish(|shown| self.splitter.feed(shown, Duration::ZERO, time_us, spool));
        }
        self.splitter.finish(time_us, spool);
    }
}
