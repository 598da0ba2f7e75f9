//! A hello at the door: whose identity it is, and what to do while somebody else has it.
//!
//! ```text
//!  hello ─► judge ─► admit
//!              ├───► refuse (duplicate_identity), with one alarm
//!              └───► ask the process that has the link ─► it answers: refuse · its link ends, or it stays silent: admit
//! ```
//!
//! A link that another server has is asked by nobody here: that server drops it when it does not answer, and the worker's
//! row says so.

use std::time::Duration;

use engine::{Clocks, Epoch, Heard, Time, WorkerId};
use protocol::link::{Hello, RefusedCode, ServerMessage};
use store::Store;
use store::rows::WorkerRow;

use crate::dispatch::LinkId;
use crate::link::ASKED_FROM;

use super::amnesia::recall;
use super::command::{Command, LinkEvent, LinkSender};
use super::core::Core;
use super::identity::{Difference, Judgement, judge};
use super::round::Round;

/// So many ping intervals without an answer, and who had the link is gone.
pub(super) const UNANSWERED_INTERVALS: u32 = 3;

/// Alarms that are remembered, so that each is given once; beyond that some are given again.
const ALARMS_MAX: usize = 10_000;

/// A hello that waits for word from the process that has the link.
pub(super) struct Knock {
    link: LinkId,
    hello: Box<Hello>,
    sender: LinkSender,
    asked: Asked,
    since: Heard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// The process that has this link, with this ping.
    Link { link: LinkId, ping: u64 },
    /// The row of the worker, whose link of this epoch another server has.
    Row(Epoch),
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
        // It waited for us in vain, and knocks elsewhere by now: an epoch of its own would only hurt that.
        if round.hung_up.contains(&link) {
            return;
        }
        // Another server may have noticed a loss just now.
        let row = match self.hear_of_losses().and_then(|()| self.store.worker(worker)) {
            Ok(Some(row)) => row,
            Ok(None) => return self.unknown(link, worker, hello, sender, round),
            Err(error) => {
                tracing::warn!(%worker, %error, "a worker's row could not be read; it tries again");
                return refuse(&sender, RefusedCode::GoingAway, "the server cannot reach its database; try again");
            }
        };
        if row.removed_at.is_some() || self.roster.get(worker).is_some_and(|known| known.removed) {
            return self.farewell(link, worker, hello, sender, round);
        }
        // The same link: its hello was in a batch that was refused, and is decided again.
        let linked = self.roster.get(worker).and_then(|w| w.link).filter(|old| *old != link);
        let elsewhere = self.siblings.has_link_of(&row);
        let session = match linked {
            Some(old) => self.links.get(&old).map(|l| l.session),
            None => row.session.filter(|_| elsewhere),
        };
        match (judge(&row, session, hello), linked) {
            // What it says is older than what is known of it.
            (Judgement::Past, _) => {
                tracing::warn!(%worker, name = hello.name, "a hello came that is older than the worker's last link; it is refused");
                refuse(&sender, RefusedCode::GoingAway, "the same worker has connected again since");
            }
            (Judgement::Duplicate(difference), _) => self.duplicate(&row, hello, &sender, difference),
            (Judgement::AskTheOther, Some(old)) => self.ask_the_other(link, worker, hello, sender, old, round),
            (Judgement::AskTheOther, None) => self.ask_the_row(link, &row, hello, sender, round),
            (Judgement::Admit, _) if self.recalls(&row, hello, round) => recall(&sender),
            (Judgement::Admit, _) => self.admit(link, &row, hello, sender, round),
        }
    }

    /// A worker without a row. One that was deleted for its absence is told so, as one that was removed; of any other the word
    /// may be lost, and come back.
    fn unknown(&mut self, link: LinkId, worker: WorkerId, hello: &Hello, sender: LinkSender, round: &mut Round) {
        match self.store.reader().departed(worker) {
            Ok(Some(_)) => self.farewell(link, worker, hello, sender, round),
            Ok(None) => refuse(&sender, RefusedCode::GoingAway, "this server does not know the worker"),
            Err(error) => {
                tracing::warn!(%worker, %error, "whether a worker was deleted could not be read; it tries again");
                refuse(&sender, RefusedCode::GoingAway, "the server cannot reach its database; try again");
            }
        }
    }

    /// The server that has the link finds out whether it is still answered.
    fn ask_the_row(&mut self, link: LinkId, row: &WorkerRow, hello: &Hello, sender: LinkSender, round: &Round) {
        let asked = Asked::Row(row.epoch);
        let before = self.knocks.remove(&row.id).filter(|knock| knock.asked == asked);
        let since = before.map_or(round.clocks.heard, |knock| knock.since);
        self.knocks.insert(row.id, Knock { link, hello: Box::new(hello.clone()), sender, asked, since });
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
        let before = self.knocks.remove(&worker).filter(|knock| knock.asked_link() == Some(old));
        let (asked, since) = match &before {
            Some(knock) => (knock.asked, knock.since),
            None => {
                self.pings += 1;
                (Asked::Link { link: old, ping: ASKED_FROM + self.pings }, round.clocks.heard)
            }
        };
        if before.is_none()
            && let (Some(known), Asked::Link { ping, .. }) = (self.links.get(&old), asked)
        {
            known.sender.send(ServerMessage::Ping { n: ping });
        }
        self.knocks.insert(worker, Knock { link, hello: Box::new(hello.clone()), sender, asked, since });
    }

    /// The process that has the link is there: the one that knocks is a second one.
    pub(super) fn answered(&mut self, link: LinkId, worker: WorkerId, ping: u64) {
        let asked = Asked::Link { link, ping };
        if self.knocks.get(&worker).is_some_and(|knock| knock.asked == asked) {
            self.turn_away_second(worker);
        }
    }

    /// Two processes are there with one identity: the one that knocks goes.
    fn turn_away_second(&mut self, worker: WorkerId) {
        let Some(Knock { hello, sender, .. }) = self.knocks.remove(&worker) else { return };
        match self.store.worker(worker) {
            Ok(Some(row)) => self.duplicate(&row, &hello, &sender, Difference::BothAnswer),
            Ok(None) | Err(_) => refuse(&sender, RefusedCode::GoingAway, "try again"),
        }
    }

    /// The link that was asked is gone: who waited for that comes in.
    pub(super) fn knock_after(&mut self, closed: LinkId, worker: WorkerId) {
        if self.knocks.get(&worker).is_some_and(|knock| knock.asked_link() == Some(closed)) {
            self.open_to(worker);
        }
    }

    fn open_to(&mut self, worker: WorkerId) {
        if let Some(Knock { link, hello, sender, .. }) = self.knocks.remove(&worker) {
            self.let_in.push(Command::Link(LinkEvent::Hello { link, worker, hello, sender }));
        }
    }

    /// A link that never was let in is gone.
    pub(super) fn knocker_left(&mut self, closed: LinkId) {
        self.knocks.retain(|_, knock| knock.link != closed);
    }

    /// Who did not answer for long enough has no link any more.
    pub(super) fn settle_knocks(&mut self, round: &mut Round) {
        let heard = round.clocks.heard;
        // A loss of commits, or a round that came to nothing, ends links without a word.
        let asked_nobody = self
            .knocks
            .iter()
            .filter(|(_, knock)| knock.asked_link().is_some_and(|asked| !self.links.contains_key(&asked)));
        let asked_nobody: Vec<WorkerId> = asked_nobody.map(|(worker, _)| *worker).collect();
        asked_nobody.into_iter().for_each(|worker| self.open_to(worker));
        let over = self.knocks.values().filter(|knock| self.until(knock) <= heard);
        let silent: Vec<LinkId> = over.filter_map(Knock::asked_link).collect();
        for link in silent {
            self.drop_link(link, "it did not answer, and the same worker has connected again", round);
        }
        if round.listened.is_some() {
            self.ask_rows_again(heard);
        }
    }

    /// Whose link elsewhere is gone by now, and whose is kept by its server although it had time to find out.
    fn ask_rows_again(&mut self, heard: Heard) {
        let rows = self.knocks.iter().filter_map(|(worker, knock)| match knock.asked {
            Asked::Row(epoch) => Some((*worker, epoch, self.until(knock) <= heard)),
            Asked::Link { .. } => None,
        });
        let asked: Vec<(WorkerId, Epoch, bool)> = rows.collect();
        for (worker, epoch, over) in asked {
            let row = match self.store.worker(worker) {
                Ok(row) => row,
                Err(error) => {
                    tracing::debug!(%worker, %error, "a worker's row could not be read; it is tried with the next mark");
                    continue;
                }
            };
            if row.is_none_or(|row| row.epoch != epoch || !self.siblings.has_link_of(&row)) {
                self.open_to(worker);
            } else if over {
                self.turn_away_second(worker);
            }
        }
    }

    /// When the next of them is due. Rows are asked with each mark, and no sooner.
    pub(super) fn next_knock(&self, clocks: &Clocks) -> Time {
        let asked = self.knocks.values().filter(|knock| knock.asked_link().is_some());
        let due = asked.map(|knock| clocks.wall(self.until(knock)));
        due.min().unwrap_or(Time::MAX)
    }

    /// How long the other one has to answer; another server also has to find that out, and to write it.
    fn until(&self, knock: &Knock) -> Heard {
        let unanswered = Duration::from_millis(self.config.link.ping_ms) * UNANSWERED_INTERVALS;
        match knock.asked {
            Asked::Link { .. } => knock.since + unanswered,
            Asked::Row(_) => knock.since + unanswered + self.hearing_rules.dead_after,
        }
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
    fn asked_link(&self) -> Option<LinkId> {
        match self.asked {
            Asked::Link { link, .. } => Some(link),
            Asked::Row(_) => None,
        }
    }

    /// Nobody could be heard for so long.
    pub(super) fn grow_younger(&mut self, by: Duration) {
        self.since = self.since + by;
    }
}

pub(super) fn refuse(sender: &LinkSender, code: RefusedCode, message: &str) {
    sender.send(ServerMessage::Refused { code, message: message.to_owned() });
    sender.close();
}
