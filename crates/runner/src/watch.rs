//! The loop around a runner's [`Life`]: hands it what happens, does what it says. Who talks to the worker, the kernel
//! and the disk is elsewhere; here they meet.
//!
//! One `poll` for everything, which neither the step nor a full disk can block.

use std::os::fd::AsFd;
use std::time::Duration;

use protocol::attempt::{End, StopReason};
use protocol::folder::Tally;

use crate::child::Child;
use crate::clock;
use crate::control::Event;
use crate::end::{self, Before, Ended};
use crate::guard::Guard;
use crate::life::{Action, Input, Life};
use crate::poll::{PollSet, Ready, Source};
use crate::prepare::Desk;
use crate::proc_stat;
use crate::start;
use crate::step::Step;
use crate::sys::{self, Children};
use crate::tree;

/// Stays until the runner has nothing more to do.
pub(crate) fn watch(desk: Desk) {
    let life = Life::new(&desk.spec, std::process::id());
    let mut watch = Watch { desk, life, step: None, before: None, now: clock::boot_now(), left: false };
    // The worker that started us is there from the start.
    watch.feed(Input::Connected);
    while !watch.left {
        watch.turn();
    }
}

struct Watch {
    desk: Desk,
    life: Life,
    /// From its start until its end is written down; then its cleanup, if it has one.
    step: Option<Step>,
    /// What is known of a step whose place its cleanup has taken.
    before: Option<Before>,
    /// The time of this turn. It is taken before anybody is heard, so that nobody is late by our own fault.
    now: Duration,
    left: bool,
}

impl Watch {
    fn turn(&mut self) {
        self.desk.control.listen_if_alone();
        let hold_until = self.hold_until();
        let ready = self.wait(hold_until);
        self.now = clock::boot_now();
        if let Some(step) = &mut self.step {
            step.read(ready, self.now, &mut self.desk.spool);
        }
        if ready.has(Source::Signals) {
            self.hear_signals();
        }
        self.hear_worker(ready);
        self.feed(Input::Tick);
        self.look_after_log(hold_until.is_some());
    }

    /// Until when the pipes are left unread, so that the server can catch up.
    fn hold_until(&self) -> Option<Duration> {
        let step = self.step.as_ref().filter(|_| self.desk.control.has_peer())?;
        step.pressure.hold_until(clock::boot_now())
    }

    fn wait(&self, hold_until: Option<Duration>) -> Ready {
        let mut set = PollSet::default();
        set.read(Source::Signals, self.desk.signals.as_fd());
        self.desk.control.watch(&mut set);
        if let Some(step) = &self.step {
            step.watch(&mut set, hold_until.is_some());
        }
        let now = clock::boot_now();
        let of_step = self.step.as_ref().and_then(|step| step.deadline(hold_until.is_some(), &self.desk.spool));
        let deadline = [self.life.deadline(), of_step, hold_until].into_iter().flatten().min();
        let patience = deadline.map(|deadline| deadline.saturating_sub(now));
        set.wait(patience.into_iter().chain(self.desk.control.patience()).min())
    }

    fn hear_signals(&mut self) {
        while let Some(signal) = sys::next_signal(self.desk.signals.as_fd()) {
            if signal != libc::SIGCHLD {
                self.feed(Input::ToldToEnd);
            }
        }
        self.look_after_children();
    }

    /// Reaps whoever has ended. Once the step's own process has, nothing that it left may live on.
    fn look_after_children(&mut self) {
        loop {
            match sys::look_at_children() {
                Children::Ended(pid) if self.step.as_ref().is_some_and(|step| step.is_led_by(pid)) => self.step_ended(),
                Children::Ended(pid) if self.desk.forget_helper(pid) => {
                    let _ = sys::reap(pid);
                }
                Children::Ended(pid) => {
                    if let (Ok((_, usage)), Some(step)) = (sys::reap(pid), &mut self.step) {
                        step.usage.add(usage);
                    }
                }
                Children::AllRunning => {
                    if let Some(step) = &mut self.step {
                        step.strays = step.has_ended() && tree::kill_strays(self.desk.helpers());
                    }
                    return;
                }
                Children::None => {
                    if let Some(step) = &mut self.step {
                        step.strays = false;
                    }
                    return;
                }
            }
        }
    }

    fn step_ended(&mut self) {
        if let Some(step) = &mut self.step {
            let result = step.reap(self.now);
            self.feed(Input::StepEnded { result });
        }
    }

    fn hear_worker(&mut self, ready: Ready) {
        self.desk.control.turn(ready);
        while let Some(event) = self.desk.control.next_event() {
            self.feed(match event {
                Event::Connected => Input::Connected,
                Event::Message(message) => Input::Heard(message),
            });
        }
        if !self.desk.control.has_peer() && !self.life.is_alone() {
            self.feed(Input::Disconnected);
        }
    }

    /// Writes what was printed, and tells of it. `held`: the rest of a line may be in the pipes that are left unread, so
    /// its beginning is not shown.
    fn look_after_log(&mut self, held: bool) {
        let Some(step) = &mut self.step else { return };
        step.set_alarm(self.life.lease_alarm());
        if !held {
            step.show_partial_lines(self.now, &mut self.desk.spool);
        }
        self.desk.flush_log();
        step.pressure.note(self.desk.spool.is_half_full(), self.now);
        if self.life.is_stopping() {
            step.pressure.hurry(self.now);
        }
        if step.has_news(self.now, &self.desk.spool) {
            let hint = self.desk.log_hint();
            self.desk.control.send(&hint);
        }
        if step.is_drained(self.now) {
            self.feed(Input::Drained);
        }
    }

    fn feed(&mut self, input: Input) {
        for action in self.life.handle(input, self.now) {
            if let Some(answer) = self.perform(action) {
                self.now = clock::boot_now();
                self.feed(answer);
            }
        }
    }

    fn perform(&mut self, action: Action) -> Option<Input> {
        match action {
            Action::Send(message) => self.desk.control.send(&message),
            Action::SendStatus(phase) => {
                let status = self.desk.status(phase);
                self.desk.control.send(&status);
            }
            Action::SendLog => {
                let hint = self.desk.log_hint();
                self.desk.control.send(&hint);
            }
            Action::LogAcked { seq } => {
                let news = self.desk.spool.acknowledge(seq);
                if let Some(step) = self.step.as_mut().filter(|_| news) {
                    step.pressure.eased(self.now);
                }
            }
            Action::LookIfWanted => return (!start::is_wanted(&self.desk.root)).then_some(Input::Unwanted),
            Action::DeclareVoid => start::declare_void(&self.desk.root),
            Action::Equip(secrets) => self.desk.equip(&secrets),
            Action::Claim { durable } => return Some(start::claim(&self.desk.root, durable)),
            Action::Spawn { guard_until } => return Some(self.spawn(guard_until)),
            Action::SetOwnership(ownership) => self.desk.record.set_ownership(ownership),
            Action::Signal(signal) => self.step.iter().for_each(|step| step.tree.ask_to_stop(signal)),
            Action::Kill => self.step.iter().for_each(|step| step.tree.kill_all(self.desk.helpers())),
            Action::CleanUp { reason } => return Some(self.clean_up(reason)),
            Action::Note(text) => self.desk.note(&text),
            Action::WakeCaretaker => self.desk.wake_caretaker(),
            Action::Record { result, stopped, ran_for, cleanup } => {
                let ended = Ended { result, stopped, ran_for, cleanup };
                return Some(Input::Recorded { end: Box::new(self.record(ended)) });
            }
            Action::Leave => self.left = true,
        }
        None
    }

    fn spawn(&mut self, guard_until: Option<Duration>) -> Input {
        match start::spawn(&mut self.desk, guard_until) {
            Ok(child) => self.started(child),
            Err(message) => Input::StartFailed { message },
        }
    }

    /// Nothing of the step is left but its end: the cleanup takes its place.
    fn clean_up(&mut self, reason: StopReason) -> Input {
        self.before = Some(Before::of(self.step.take(), &mut self.desk.spool));
        match start::clean_up(&self.desk, reason) {
            Ok(child) => self.started(child),
            Err(message) => Input::StartFailed { message },
        }
    }

    /// Whoever must end it in our place finds it by the tally.
    fn started(&mut self, child: Child) -> Input {
        let pid = child.pid.unsigned_abs();
        let start_time = proc_stat::read(child.pid).map_or(0, |stat| stat.start_time);
        self.desk.record.set_tally(Tally { pid, start_time, ..self.desk.record.tally() });
        self.step =
            Some(Step::new(child, self.desk.spool.lines_max(), self.desk.guard.is_some(), self.desk.mask.as_ref()));
        Input::Started { pid, start_time }
    }

    fn record(&mut self, ended: Ended) -> End {
        self.desk.guard.take().into_iter().for_each(Guard::dismiss);
        end::record(&mut self.desk, self.before.take(), self.step.take(), ended)
    }
}
