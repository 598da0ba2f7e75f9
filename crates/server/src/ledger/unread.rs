//! Rows that cannot be read in the middle of a round, because the database is away.
//!
//! A worker that is answered by half of the rows does not ask again. So nothing of such a round happens, and all of it is
//! decided anew when the rows can be read.

use store::{Store, StoreError};

use super::amnesia::Evidence;
use super::command::Command;
use super::core::Core;
use super::round::Round;

impl<S: Store> Core<S> {
    /// People and timers see for themselves when something could not be read, and what links bring is not decided then.
    pub(super) fn decide(&mut self, command: &Command, round: &mut Round) {
        self.cache.take_missed();
        self.decide_by_rows(command, round);
        if matches!(command, Command::Link(_)) {
            round.unread = round.unread.take().or(self.cache.take_missed());
        }
    }

    /// Drops a round that has seen only a part of the rows. What it took in itself is taken in again.
    pub(super) fn decide_anew(
        &mut self,
        commands: Vec<Command>,
        mut round: Box<Round>,
        forgotten: Option<Evidence>,
        error: StoreError,
    ) {
        self.forgotten = self.forgotten.or(forgotten);
        self.in_piece |= round.piece;
        self.take_back(&mut round);
        self.wait_for_rows(commands, error);
    }

    /// Nothing is decided before everything has been read again.
    pub(super) fn wait_for_rows(&mut self, commands: Vec<Command>, error: StoreError) {
        tracing::error!(%error, "the ledger's state could not be read; it is tried until it can");
        self.forget_everything();
        self.waiting = Some((commands, error));
    }
}
