//! What the database does not take: a batch that is refused is halved until one event stands alone, and that one goes to
//! quarantine. A round calls [`Core::split`]; the pieces come back through [`Core::take_split`].

use engine::{AttemptId, Epoch, Event, JobId, StepIx};
use store::rows::QuarantineRow;
use store::{Store, StoreError};

use super::command::{Command, LinkEvent, LogFrame};
use super::core::{Core, Prepared};
use super::round::Round;

impl<S: Store> Core<S> {
    /// The batch was refused: nothing of it happened. Halve it, until the one event that cannot be written stands alone.
    pub(super) fn split(&mut self, prepared: Prepared, error: &StoreError) {
        let Prepared { mut commands, mut round, .. } = prepared;
        self.forget_everything();
        self.take_back(&mut round);
        // Nothing of it happened, so nobody is told of it.
        round.outgoing.clear();
        round.told.clear();
        round.notices.clear();
        round.welcomes.clear();
        if round.poisoned.is_some() {
            // Not even the word that it failed can be written: its sender is told, and its job waits.
            tracing::error!(%error, "a poison event could not be recorded");
            round.jobs().for_each(|job| self.set_aside(job, round.now));
            self.answer(commands, round, &store::Committed::default());
            return;
        }
        match commands.len() {
            0 => {
                tracing::error!(%error, "offers could not be written");
                round.jobs().for_each(|job| self.set_aside(job, round.now));
            }
            1 if round.piece => self.quarantine(commands, error),
            // Checks and offers may have been in it as well: first without them.
            1 => self.split.push_front(commands),
            n => {
                tracing::warn!(%error, commands = n, "a batch was refused and is split");
                let second = commands.split_off(n / 2);
                self.split.push_front(second);
                self.split.push_front(commands);
            }
        }
    }

    /// Memory may be ahead of the database: drop it all, and read again before anything else is decided.
    pub(super) fn forget_everything(&mut self) {
        self.cache.clear();
        for link in self.links.values_mut() {
            link.logs.clear();
            link.ended.clear();
            // That it was used may not be on record.
            link.used = false;
        }
        self.must_rebuild = true;
    }

    /// Nothing of this round happens. What it took in besides rows is as it was before.
    pub(super) fn take_back(&mut self, round: &mut Round) {
        self.take_back_hellos(round);
        // What other servers' changes demand is said with another round.
        self.noticed.read_again(std::mem::take(&mut round.heeded));
        if let Some(before) = round.breaker_before.take() {
            let since = std::mem::replace(&mut self.breaker, *before);
            self.breaker.take_over_losses(since);
        }
    }

    /// Hellos of a round of which nothing happens are decided again. Until then their links are none: their epochs may be those of
    /// links elsewhere, and if one closes, nothing was lost with it. Nor have their workers come with all that they keep.
    fn take_back_hellos(&mut self, round: &Round) {
        for (link, _) in &round.welcomes {
            let Some(taken) = self.links.remove(link) else { continue };
            self.has_not_come(taken.worker);
            self.roster.update(taken.worker, |w| {
                if let Some(w) = w.as_mut().filter(|w| w.link == Some(*link)) {
                    w.link = None;
                    // Nor is the epoch its own: its row says which was the last, and is read before anything else is decided.
                    w.epoch = Epoch::default();
                }
            });
        }
    }

    /// Answers the poison event with `internal`, keeps it, and fails the step that it was about: unless it came from an attempt that is
    /// not the step's current one, which changes no state.
    fn quarantine(&mut self, commands: Vec<Command>, error: &StoreError) {
        let Ok(mut round) = self.rebuild().and_then(|()| self.listen()) else {
            // The database went away in between: once it is back this piece is refused again, and comes here again.
            self.split.push_front(commands);
            return;
        };
        let now = round.now;
        let message = error.to_string();
        for command in &commands {
            self.turn_away(command);
            if let Command::Fire(id) = command {
                self.spoil(id, &message, &mut round);
            }
            let (job, step, text) = self.describe(command);
            tracing::error!(%error, event = text, "an event could not be written and goes to quarantine");
            round.quarantine.push(QuarantineRow { job, at: now, event: text, error: message.clone() });
            if let Some(job) = job.filter(|_| !self.is_past(command)) {
                let event = Event::Poisoned { step, message: format!("internal error: {message}") };
                if let Err(error) = self.apply(job, &event, &mut round) {
                    tracing::warn!(%job, %error, "the poisoned step could not be failed");
                }
            }
        }
        round.poisoned = Some(message);
        self.prepare(commands, round);
    }

    /// Whether a worker speaks of an attempt that is over, or was given up.
    fn is_past(&mut self, command: &Command) -> bool {
        let Command::Link(LinkEvent::Messages { messages, .. }) = command else { return false };
        let Some(ticket) = messages.iter().find_map(super::links::ticket_of) else { return false };
        let Some(place) = self.place(AttemptId(ticket.attempt)) else { return false };
        let ticket = self.engine_ticket(ticket, place);
        let cached = self.cache.load(place.job, &mut self.store, &self.definitions);
        cached.is_ok_and(|cached| cached.job.state(place.step).ticket() != Some((ticket.attempt, ticket.fence)))
    }

    fn describe(&mut self, command: &Command) -> (Option<JobId>, Option<StepIx>, String) {
        match command {
            Command::Event { job, event, .. } => (Some(*job), event.ticket().map(|t| t.step), format!("{event:?}")),
            Command::Link(LinkEvent::Messages { messages, .. }) => {
                let place =
                    messages.iter().find_map(super::links::ticket_of).and_then(|t| self.place(AttemptId(t.attempt)));
                (place.map(|p| p.job), place.map(|p| p.step), format!("{messages:?}"))
            }
            Command::Link(LinkEvent::LogDropped { ticket, .. }) => {
                (None, None, format!("dropped log frame of attempt {}", ticket.attempt))
            }
            Command::Link(LinkEvent::Log(LogFrame { header, blocks, .. })) => {
                (None, None, format!("log {header:?}, {} bytes", blocks.len()))
            }
            Command::Link(LinkEvent::Hello { worker, .. }) => (None, None, format!("hello of worker {worker}")),
            Command::Link(LinkEvent::Closed { link }) => (None, None, format!("end of link {}", link.0)),
            Command::Submit(submit, _) => (None, None, format!("submit of task {}", submit.definition.name)),
            Command::Recover(order, _) => (None, None, format!("{order:?}")),
            Command::Again(order, _) => (None, None, format!("{order:?}")),
            Command::Fleet(order, _) => (None, None, format!("{order:?}")),
            Command::Trigger(order, _) => (None, None, format!("{order:?}")),
            Command::Fire(id) => (None, None, format!("trigger {id}")),
            Command::Delivered(delivered) => (None, None, format!("{delivered:?}")),
            Command::Check(due) => (Some(due.job), due.step, format!("{due:?}")),
            Command::Swept(swept) => (Some(swept.place.job), Some(swept.place.step), format!("{swept:?}")),
            Command::Triggers(..)
            | Command::WithStore(_)
            | Command::Changed
            | Command::Inspect(_)
            | Command::Prune(..) => (None, None, String::new()),
        }
    }
}
