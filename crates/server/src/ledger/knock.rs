//! A hello at the door: whose identity it is, and what to do while somebody else has it.
//!
//! ```text
//!  hello ─► judge ─► admit
//!              ├───► refuse (duplicate_identity), with one alarm
//!              └───► ask the process that has the link ─► it answers: refuse · its link ends, or it stays silent: admit
//! ```

use engine::{Clocks, Heard, Time, WorkerId};
use protocol::link::{Hello, RefusedCode, ServerMessage};
use store::Store;
use store::rows::WorkerRow;

use crate::dispatch::LinkId;
use crate::link::ASKED_FROM;

use super::command::LinkSender;
use super::core::Core;
use super::identity::{Difference, Judgement, judge};
use super::round::Round;

/// So many ping intervals without an answer, and who had the link is gone.
const UNANSWERED_INTERVALS: u32 = 3;

/// Alarms that are remembered, so that each is given once; beyond that some are given again.
const ALARMS_MAX: usize = 10_000;

/// A hello that waits for word from the process that has the link.
pub(super) struct Knock {
    link: LinkId,
    hello: Box<Hello>,
    sender: LinkSender,
    /// The link that was asked, with this ping.
    asked: LinkId,
    ping: u64,
    since: Heard,
}

impl<S: Store> Core<S> {
    pub(super) fn hello(
        &mut self,
        link: LinkId,
        worker: WorkerId,
        hello: &Hello,
        sender: LinkSender,
        round: &mut Round,
    ) {
        if self.roster.get(worker).is_some_and(|known| known.removed) {
            return self.farewell(link, worker, hello, sender, round);
        }
        let row = match self.store.worker(worker) {
            Ok(Some(row)) => row,
            Ok(None) => return refuse(&sender, RefusedCode::GoingAway, "this server does not know the worker"),
            Err(error) => {
                tracing::warn!(%worker, %error, "a worker's row could not be read; it tries again");
                return refuse(&sender, RefusedCode::GoingAway, "the server cannot reach its database; try again");
            }
        };
        // The same link: its hello was in a batch that was refused, and is decided again.
        let linked = self.roster.get(worker).and_then(|w| w.link).filter(|old| *old != link);
        let session = linked.and_then(|old| Some(self.links.get(&old)?.session));
        match (judge(&row, session, hello), linked) {
            (Judgement::Duplicate(difference), _) => self.duplicate(&row, hello, &sender, difference),
            (Judgement::AskTheOther, Some(old)) => self.ask_the_other(link, worker, hello, sender, old, round),
            (Judgement::Admit | Judgement::AskTheOther, _) => self.admit(link, &row, hello, sender, round),
        }
    }

    fn ask_the_other(
        &mut self,
        link: LinkId,
        worker: WorkerId,
        hello: &Hello,
        sender: LinkSender,
        old: LinkId,
        round: &Round,
    ) {
        // Who knocks again does not begin to wait anew.
        let before = self.knocks.remove(&worker).filter(|knock| knock.asked == old);
        let (ping, since) = match &before {
            Some(knock) => (knock.ping, knock.since),
            None => {
                self.pings += 1;
                (ASKED_FROM + self.pings, round.clocks.heard)
            }
        };
        if before.is_none()
            && let Some(known) = self.links.get(&old)
        {
            known.sender.send(ServerMessage::Ping { n: ping });
        }
        self.knocks.insert(worker, Knock { link, hello: Box::new(hello.clone()), sender, asked: old, ping, since });
    }

    /// The process that has the link is there: the one that knocks is a second one.
    pub(super) fn answered(&mut self, link: LinkId, worker: WorkerId, ping: u64) {
        let Some(knock) = self.knocks.get(&worker).filter(|k| k.asked == link && k.ping == ping) else { return };
        let (hello, sender) = (knock.hello.clone(), knock.sender.clone());
        self.knocks.remove(&worker);
        match self.store.worker(worker) {
            Ok(Some(row)) => self.duplicate(&row, &hello, &sender, Difference::BothAnswer),
            Ok(None) | Err(_) => refuse(&sender, RefusedCode::GoingAway, "try again"),
        }
    }

    /// The link that was asked is gone: who waited for that comes in.
    pub(super) fn knock_after(&mut self, closed: LinkId, worker: WorkerId, round: &mut Round) {
        if self.knocks.get(&worker).is_some_and(|knock| knock.asked == closed)
            && let Some(knock) = self.knocks.remove(&worker)
        {
            self.hello(knock.link, worker, &knock.hello, knock.sender, round);
        }
    }

    /// A link that never was let in is gone.
    pub(super) fn knocker_left(&mut self, closed: LinkId) {
        self.knocks.retain(|_, knock| knock.link != closed);
    }

    /// Who did not answer for long enough has no link any more.
    pub(super) fn settle_knocks(&mut self, round: &mut Round) {
        let heard = round.clocks.heard;
        let over = self.knocks.values().filter(|knock| knock.until(self.link_ping()) <= heard);
        let silent: Vec<LinkId> = over.map(|knock| knock.asked).collect();
        for link in silent {
            self.drop_link(link, "it did not answer, and the same worker has connected again", round);
        }
    }

    /// When the next of them is due.
    pub(super) fn next_knock(&self, clocks: &Clocks) -> Time {
        let due = self.knocks.values().map(|knock| clocks.wall(knock.until(self.link_ping())));
        due.min().unwrap_or(Time::MAX)
    }

    fn link_ping(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.config.link.ping_ms)
    }

    fn duplicate(&mut self, row: &WorkerRow, hello: &Hello, sender: &LinkSender, difference: Difference) {
        let message = format!(
            "the identity of worker {} is in use by {} (machine {}) and by {} (machine {}): {difference}; give each its own \
             state folder and enroll it anew",
            row.name, row.hostname, row.machine, hello.hostname, hello.machine
        );
        refuse(sender, RefusedCode::DuplicateIdentity, &message);
        if self.duplicates.len() >= ALARMS_MAX {
            self.duplicates.clear();
        }
        if self.duplicates.insert((row.id, hello.session)) {
            self.metrics.duplicate_identities.inc();
            tracing::error!(worker = row.name, id = %row.id, %message, "duplicate identity");
        }
    }
}

impl Knock {
    fn until(&self, ping: std::time::Duration) -> Heard {
        self.since + ping * UNANSWERED_INTERVALS
    }
}

pub(super) fn refuse(sender: &LinkSender, code: RefusedCode, message: &str) {
    sender.send(ServerMessage::Refused { code, message: message.to_owned() });
    sender.close();
}
