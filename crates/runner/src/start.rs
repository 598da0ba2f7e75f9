//! From `ready` to a running process: nothing execs before `go`, and whoever claims the folder first decides.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use pause::Point;
use protocol::attempt::Effects;
use protocol::folder::{Claim, FOLDER_FORMAT, FromRunner, RunnerPhase, Tally, ToRunner};

use crate::child::{self, Child};
use crate::clock;
use crate::control::Event;
use crate::folder_io::{self, Claimed};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::notes;
use crate::poll::{PollSet, Source};
use crate::prepare::Desk;
use crate::proc_stat;
use crate::sys;

/// How often a runner without a worker looks whether it is still wanted.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) enum Start {
    Running(Child),
    /// Claimed, but the step could not be started: that is an end, with a record.
    Failed(String),
    /// The step never started and never will; there is no record.
    Left,
}

pub(crate) fn start(desk: &mut Desk) -> Start {
    desk.control.send(&ready());
    match wait_for_go(desk) {
        Ok(asked_at) => {
            desk.lease = Lease::new(&desk.spec.attempt, asked_at);
            if is_too_late(desk) {
                leave(desk, "its lease was over before it was started")
            } else {
                claim_and_spawn(desk)
            }
        }
        Err(why) => leave(desk, &why),
    }
}

/// Returns with `go` and when the server was asked for it, or with the reason to leave.
fn wait_for_go(desk: &mut Desk) -> Result<Duration, String> {
    loop {
        desk.control.listen_if_alone();
        let mut set = PollSet::default();
        desk.control.watch(&mut set);
        set.read(Source::Signals, desk.signals.as_fd());
        let patience = (!desk.control.has_peer()).then_some(LOOK_INTERVAL);
        let ready_sources = set.wait(patience.into_iter().chain(desk.control.patience()).min());
        desk.control.turn(ready_sources);
        while let Some(event) = desk.control.next_event() {
            match event {
                Event::Connected => desk.control.send(&ready()),
                Event::Message(ToRunner::Go { asked_at_ms }) => {
                    return Ok(asked_at_ms.map_or_else(clock::boot_now, Duration::from_millis));
                }
                Event::Message(ToRunner::Stop { .. }) => return Err("stopped before it was started".to_owned()),
                Event::Message(ToRunner::Status) => {
                    let status = desk.status(RunnerPhase::Waiting);
                    desk.control.send(&status);
                }
                Event::Message(ToRunner::Rules { rules }) => desk.rules = rules,
                Event::Message(
                    ToRunner::Acked { .. } | ToRunner::Renewed { .. } | ToRunner::Bye | ToRunner::Unknown,
                ) => {}
            }
        }
        if ready_sources.has(Source::Signals) && sys::next_signal(desk.signals.as_fd()).is_some() {
            return Err("the runner was told to stop before the step was started".to_owned());
        }
        desk.keep_vigil(clock::boot_now());
        if !desk.control.has_peer() && desk.spec.local.ends_with_worker {
            return Err("its worker is gone, and will not come back".to_owned());
        }
        if !desk.control.has_peer() && !still_wanted(&desk.root) {
            return Err("the attempt was declared void".to_owned());
        }
    }
}

/// A `go` can lie in a socket while this machine sleeps.
fn is_too_late(desk: &Desk) -> bool {
    desk.lease.as_ref().and_then(Lease::signal_at).is_some_and(|at| clock::boot_now() >= at)
}

/// By the folder's full path: the current folder can be used even after it was deleted.
fn still_wanted(root: &Path) -> bool {
    root.exists() && !matches!(folder_io::read_claim(root), Ok(Some(Claim::Void)))
}

fn leave(desk: &mut Desk, why: &str) -> Start {
    // So that nobody who finds the folder has to wonder. If the folder is gone there is nothing to say.
    if desk.root.exists()
        && let Err(error) = folder_io::claim(&desk.root, Claim::Void, false)
    {
        notes::write(&error.to_string());
    }
    desk.control.send(&FromRunner::Refused { why: why.to_owned() });
    Start::Left
}

fn claim_and_spawn(desk: &mut Desk) -> Start {
    // A step that only reads may run again anyway, so its claim need not survive a power cut.
    let durable = desk.spec.attempt.effects != Effects::None;
    match folder_io::try_claim(&desk.root, Claim::Intent, durable) {
        Ok(Claimed::Ours) => pause::at(Point::Intent),
        Ok(Claimed::Earlier(Claim::Void)) => return leave(desk, "the attempt was declared void"),
        Ok(Claimed::Earlier(Claim::Intent)) => {
            // It may have run, so this is no refusal; the folder tells the worker more than we could.
            notes::write("an earlier runner has claimed this attempt");
            return Start::Left;
        }
        Err(error) => return Start::Failed(error.to_string()),
    }
    let image = match &desk.image {
        Ok(image) => image,
        Err(error) => return Start::Failed(error.to_string()),
    };
    let guard = desk.lease.as_ref().and_then(Lease::kill_at).map(|at| Guard::start(&desk.spec, at)).transpose();
    let guard = match guard {
        Ok(guard) => guard,
        Err(error) => return Start::Failed(format!("a guard for the step's lease cannot be started: {error}")),
    };
    match child::spawn(image, desk.spec.cgroup().as_deref()) {
        Ok(child) => {
            desk.guard = guard;
            pause::at(Point::Exec);
            announce(desk, &child);
            Start::Running(child)
        }
        Err(error) => {
            if let Some(guard) = guard {
                guard.dismiss();
            }
            Start::Failed(error.to_string())
        }
    }
}

fn announce(desk: &mut Desk, child: &Child) {
    let pid = child.pid.unsigned_abs();
    let start_time = proc_stat::read(child.pid).map_or(0, |stat| stat.start_time);
    desk.record.set_tally(Tally { pid, start_time, ..desk.record.tally() });
    if let Some(lease) = &desk.lease {
        desk.record.set_ownership(lease.ownership());
    }
    desk.control.send(&FromRunner::Started { pid, start_time });
}

fn ready() -> FromRunner {
    FromRunner::Ready { pid: std::process::id(), format: FOLDER_FORMAT }
}
