//! What is to be delivered outside, at least once. A delivery begins when it is on record that it does, and until when nobody
//! else is to try; what became of it is on record before anything else follows. Whoever dies in between leaves a row that is
//! due again.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::event::{About, Note};
use engine::{JobId, Time};
use planted::Bug;
use store::read::OutboxView;
use store::rows::OutboxMove;
use store::{Batch, Committed, Store};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::core::Core;
use super::letters::Letter;
use super::round::Round;

/// Deliveries of one server at once. One that is slow holds up no job, and only so many others.
pub const AT_ONCE: usize = 20;

/// How long one try may take; the row is nobody else's for half as long again.
pub const TRY_WITHIN: Duration = Duration::from_secs(10);
const CLAIMED_FOR: Duration = Duration::from_secs(15);

/// About half a day, with the pauses below. Then it is given up, and waits for a person.
const TRIES_MAX: u32 = 20;
const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// What is due and could not be read is looked at again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The way to whoever delivers.
pub type Post = mpsc::UnboundedSender<Parcel>;

/// One try to deliver something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The same with every try, so that whoever gets it twice can tell.
    pub id: Uuid,
    pub job: JobId,
    /// Which try this is, from 1.
    pub tries: u32,
    pub letter: Letter,
}

/// What became of a parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    pub id: Uuid,
    pub tries: u32,
    /// Or why not.
    pub outcome: Result<(), String>,
}

/// What one server knows of the outbox; the rows are the truth.
#[derive(Debug)]
pub(super) struct Outbox {
    post: Option<Post>,
    /// What is being delivered, and until when it is ours. Whoever has not come back by then never does.
    under_way: BTreeMap<Uuid, Time>,
    next_at: Time,
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox { post: None, under_way: BTreeMap::new(), next_at: Time(i64::MIN) }
    }
}

impl Outbox {
    pub(super) fn employ(&mut self, post: Post) {
        self.post = Some(post);
    }

    fn room(&self) -> usize {
        if self.post.is_some() { AT_ONCE.saturating_sub(self.under_way.len()) } else { 0 }
    }

    /// Where there is no room, the next one that comes back makes some, or the first whose time is over.
    pub(super) fn wake_at(&self) -> Time {
        match (&self.post, self.room()) {
            (None, _) => Time::MAX,
            (Some(_), 0) => self.under_way.values().copied().min().unwrap_or(Time::MAX),
            (Some(_), _) => self.next_at,
        }
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }
}

/// When a delivery that failed so often is tried again; none: it is given up. `random` spreads those that failed together.
pub(super) fn pause_after(tries: u32, random: u64) -> Option<Duration> {
    let tries = tries.checked_sub(1).filter(|tries| *tries < TRIES_MAX - 1)?;
    let pause = PAUSE_FIRST.saturating_mul(1u32.checked_shl(tries).unwrap_or(u32::MAX)).min(PAUSE_MAX);
    let quarter = u64::try_from(pause.as_millis() / 4).unwrap_or(u64::MAX).max(1);
    Some(pause + Duration::from_millis(random % quarter))
}

impl<S: Store> Core<S> {
    /// Takes what is due, for as long as one try may take.
    pub(super) fn post_due(&mut self, round: &mut Round) {
        self.outbox.under_way.retain(|_, until| *until > round.now);
        let room = self.outbox.room();
        if room == 0 || round.now < self.outbox.next_at {
            return;
        }
        // One row of ours may be due again before its try is over.
        let due = match self.store.due_outbox(round.now, AT_ONCE) {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "what is to be delivered could not be read; it is tried again");
                self.outbox.next_at = round.now + LOOK_AGAIN;
                return;
            }
        };
        round.posted = true;
        let free = due.iter().filter(|row| !self.outbox.under_way.contains_key(&row.id));
        free.take(room).for_each(|row| take_up(row, round));
    }

    /// The round is on record: what it took goes out.
    pub(super) fn post(&mut self, round: &Round, batch: &Batch, committed: &Committed) {
        if !batch.outbox.is_empty() {
            self.outbox.next_at = self.outbox.next_at.min(round.now);
        }
        for again in batch.outbox_moves.iter().filter_map(|row| row.next_at) {
            self.outbox.next_at = self.outbox.next_at.min(again);
        }
        let Some(post) = self.outbox.post.clone() else { return };
        for parcel in round.parcels.iter().filter(|parcel| !committed.outbox_moved.contains(&parcel.id)) {
            if post.send(parcel.clone()).is_err() {
                // Nobody delivers here any more. What was taken is due again soon, for a server that can.
                self.outbox.post = None;
                return;
            }
            self.outbox.under_way.insert(parcel.id, round.now + CLAIMED_FOR);
        }
        if round.posted {
            self.outbox.next_at =
                self.store.next_outbox().map_or(round.now + LOOK_AGAIN, |next| next.unwrap_or(Time::MAX));
        }
    }

    /// When something is due is remembered, and another server may have made it so.
    pub(super) fn look_for_post(&mut self) {
        if self.outbox.room() > 0
            && let Ok(Some(next)) = self.store.next_outbox()
        {
            self.outbox.next_at = self.outbox.next_at.min(next);
        }
    }

    pub(super) fn delivered(&mut self, delivered: &Delivered, round: &mut Round) {
        let Delivered { id, tries, outcome } = delivered;
        self.outbox.under_way.remove(id);
        let settled = OutboxMove {
            id: *id,
            expected: *tries,
            tries: *tries,
            next_at: None,
            delivered_at: None,
            error: outcome.as_ref().err().cloned(),
        };
        let settled = match outcome {
            Ok(()) => OutboxMove { delivered_at: Some(round.now), ..settled },
            Err(problem) => match pause_after(*tries, self.random.bits()) {
                Some(pause) => OutboxMove { next_at: Some(round.now + pause), ..settled },
                None => {
                    self.give_up_delivery(*id, problem, round);
                    settled
                }
            },
        };
        round.outbox_moves.push(settled);
    }

    fn give_up_delivery(&mut self, id: Uuid, problem: &str, round: &mut Round) {
        self.metrics.undeliverable.inc();
        let Ok(Some(row)) = self.store.reader().outbox(id) else { return };
        let url = Letter::from_json(&row.body).map_or_else(|_| "somebody".to_owned(), |letter| letter.url);
        tracing::error!(job = %row.job, %id, url, problem, "a word was never taken; it is given up");
        let reason = format!("{url} was tried {TRIES_MAX} times and never took it: {problem}; see `bowline outbox`");
        // What a trigger had to say belongs to no job's history.
        if self.cache.load(row.job, &mut self.store, &self.definitions).is_ok() {
            round.tell(row.job, Note { at: round.now, about: About::Hook, reason });
        }
    }
}

/// Nobody else is to try it for a while.
fn take_up(row: &OutboxView, round: &mut Round) {
    let (id, job, expected) = (row.id, row.job, row.tries);
    match Letter::from_json(&row.body) {
        Ok(letter) => {
            let (tries, next_at) = (expected + 1, Some(round.now + CLAIMED_FOR));
            let delivered_at = planted::is(Bug::SentBeforeItArrives).then_some(round.now);
            let next_at = next_at.filter(|_| delivered_at.is_none());
            round.outbox_moves.push(OutboxMove { id, expected, tries, next_at, delivered_at, error: None });
            round.parcels.push(Parcel { id, job, tries, letter });
        }
        Err(problem) => {
            let error = Some(problem);
            let given_up = OutboxMove { id, expected, tries: expected, next_at: None, delivered_at: None, error };
            round.outbox_moves.push(given_up);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_an_hour_and_end() {
        let pauses: Vec<u64> = (1..TRIES_MAX).filter_map(|tries| pause_after(tries, 0)).map(|p| p.as_secs()).collect();
        assert_eq!(pauses[..5], [5, 10, 20, 40, 80]);
        assert_eq!((pauses.len(), pauses[18]), (19, 3600));
        assert_eq!(pause_after(TRIES_MAX, 0), None);
        assert!((8 * 3600..16 * 3600).contains(&pauses.iter().sum::<u64>()), "about half a day");
    }

    #[test]
    fn chance_adds_at_most_a_quarter() {
        for random in [0, 1, 12_345, u64::MAX] {
            let pause = pause_after(3, random).expect("not the last one");
            assert!(Duration::from_secs(20) <= pause && pause < Duration::from_secs(25), "{pause:?}");
        }
    }
}
