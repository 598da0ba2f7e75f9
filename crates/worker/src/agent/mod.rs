//! What a worker decides, without doing any of it: no clock, no randomness, no files, no sockets.
//!
//! The shell (`crate::shell`) feeds it everything that happens as [`Input`], one at a time, with the time since its
//! own start, and performs the [`Action`]s that come back, in order. So the same code runs over a real WebSocket and
//! in a simulator.
//!
//! ```text
//!  offer ─► Preparing ─ready─► Waiting ─go─► Going ─started─► Running ─ended─► Ended ─forget─► gone
//!              │                  │ withdrawn, stale, stopped    │ runner dead, no record
//!              ▼ failed           ▼                              ▼
//!           refused            Voiding ─► gone, or told ───────► Lost ─forget─► gone
//! ```
//!
//! In reading order: [`event`] (in and out), `held` (one attempt), `session` (the link), `work` (offers and
//! orders), `pace` (work prepared ahead), `runners` (what runners say), `files` (what comes before a step and stays after
//! it), `lease` (leases and signs of life), `leave` (stopping).

pub mod event;
mod files;
mod held;
mod lease;
mod leave;
mod pace;
mod runners;
mod session;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::attempt::Ticket;
use protocol::folder::RunnerRules;
use protocol::link::{Heartbeat, Hello, WorkerMessage};

pub use event::{Action, ExitReason, Finding, Found, FoundLease, Input, StopLevel};
use held::Held;
use leave::Leaving;
pub use leave::Word;
use pace::Pace;
use session::Session;

/// The one that decides.
pub struct Agent {
    /// As it is sent, but for the attempts held.
    hello: Hello,
    /// One step, then no more.
    once: bool,
    held: BTreeMap<Ticket, Held>,
    session: Session,
    /// When the last link that stood was lost; `None` while one stands, and before the first.
    offline_since: Option<Duration>,
    /// Takes no new work.
    draining: bool,
    leaving: Option<Leaving>,
    pace: Pace,
    /// Since when a caretaker has nothing alive to look after, and no server to tell.
    idle_since: Option<Duration>,
    /// What runners are to be told.
    rules: RunnerRules,
    out: Outbox,
}

impl Agent {
    /// `hello` says who this worker is; `found` is what lay in its state folder.
    pub fn new(hello: Hello, once: bool, found: Vec<Found>) -> Self {
        // A caretaker takes no new work.
        let draining = hello.caretaker;
        Agent {
            hello,
            once,
            held: found.into_iter().map(Held::found).collect(),
            session: Session::Down,
            offline_since: None,
            draining,
            leaving: None,
            pace: Pace::default(),
            idle_since: None,
            rules: RunnerRules::default(),
            out: Outbox::default(),
        }
    }

    /// Takes one input. `now` is on the clock that runs on while the machine sleeps, and never goes back.
    pub fn handle(&mut self, input: Input, now: Duration) -> Vec<Action> {
        match input {
            Input::LinkUp => self.link_up(now),
            Input::LinkDown => self.link_down(now),
            Input::Frame(messages) => self.hear(messages, now),
            Input::PrepareFailed { ticket, reason, detail } => self.prepare_failed(ticket, reason, detail, now),
            Input::Runner { ticket, said } => {
                self.runner_said(ticket, said, now);
                self.ship_if_wanted(ticket);
            }
            Input::RunnerGone { ticket } => self.runner_gone(ticket),
            Input::Recognised { ticket, spec } => {
                if let Some(held) = self.held.get_mut(&ticket) {
                    held.recognised(&spec, now);
                }
            }
            Input::Examined { ticket, finding } => {
                self.examined(ticket, finding, now);
                self.ship_if_wanted(ticket);
            }
            Input::Claimed { ticket, claim } => {
                self.claimed(ticket, claim, now);
                self.ship_if_wanted(ticket);
            }
            Input::Fetched { ticket, outcome } => self.fetched(ticket, outcome, now),
            Input::Stored { ticket, outcome } => self.stored(ticket, outcome, now),
            Input::FilesMoved { ticket } => self.files_moved(ticket, now),
            Input::FilesWaited { ticket, waited } => self.files_waited(ticket, waited, now),
            Input::Recalled { found, complete } => self.recalled(found, complete),
            Input::Stop(level) => self.stop(level, ExitReason::Stopped, now),
            Input::HandOver => self.stop(StopLevel::Leave, ExitReason::HandedOver, now),
            Input::Tick => {}
        }
        self.fill_slots(now);
        self.guard_leases(now);
        self.keep_patience_with_files(now);
        self.keep_time(now);
        self.leave_if_done(now);
        std::mem::take(&mut self.out.actions)
    }

    /// The link that it was last welcomed on; 0 before the first.
    pub fn last_epoch(&self) -> u64 {
        self.hello.last_epoch
    }

    /// How many attempts it has, in whatever state.
    pub fn holds(&self) -> usize {
        self.held.len()
    }

    /// When to come back with a [`Input::Tick`], if nothing happens before.
    pub fn deadline(&self) -> Option<Duration> {
        let leaving = self.leaving.as_ref().and_then(Leaving::deadline);
        let own = [self.session.deadline(), leaving, self.pace.deadline(), self.lease_deadline(), self.idle_deadline()];
        own.into_iter().chain([self.files_deadline()]).flatten().min()
    }

    fn free_slots(&self) -> u32 {
        if self.draining {
            return 0;
        }
        let active = self.held.values().filter(|held| held.is_active()).count();
        self.hello.slots.saturating_sub(u32::try_from(active).unwrap_or(u32::MAX))
    }

    fn say_heartbeat(&mut self, now: Duration) {
        let heartbeat = Heartbeat {
            processed: self.session.processed(),
            held: self.held.keys().copied().collect(),
            free: self.free_slots(),
            ahead: self.ahead(),
            draining: self.draining,
            runners: self.runner_beats(now),
        };
        self.out.say(WorkerMessage::Heartbeat(heartbeat));
    }
}

/// Collects the actions of one input.
#[derive(Default)]
struct Outbox {
    actions: Vec<Action>,
    /// Between welcome and loss. Whatever is said without a link is said again after the next welcome.
    link_stands: bool,
}

impl Outbox {
    fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn say(&mut self, message: WorkerMessage) {
        if self.link_stands {
            self.actions.push(Action::Send(message));
        }
    }
}
