//! Many workers lost at once: more likely it is us. Their windows are made longer, once per loss.
//!
//! Pure; [`super::losses`] tells of losses and [`super::hello`] of returns.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use engine::{Heard, WorkerId};

/// When so many are too many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MassLoss {
    pub min_workers: usize,
    /// Of those that were connected.
    pub fraction: f64,
    pub within: Duration,
}

#[derive(Debug, Clone)]
pub(super) struct Breaker {
    rules: MassLoss,
    /// Losses of the last moments.
    recent: VecDeque<(Heard, WorkerId)>,
    tripped: Option<Trip>,
    /// What was made of the last of them came to nothing.
    unjudged: bool,
}

#[derive(Debug, Clone)]
struct Trip {
    last_loss: Heard,
    lost: BTreeSet<WorkerId>,
    back: BTreeSet<WorkerId>,
}

/// What a loss comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// It is one too many: all of these get more time.
    Tripped {
        lost: Vec<WorkerId>,
        of: usize,
    },
    /// One more, while we suspect ourselves already.
    OneMore,
}

impl Breaker {
    pub(super) fn new(rules: MassLoss) -> Breaker {
        Breaker { rules, recent: VecDeque::new(), tripped: None, unjudged: false }
    }

    /// `left`: how many static workers are connected after this loss.
    pub(super) fn lost(&mut self, worker: WorkerId, heard: Heard, left: usize) -> Found {
        if let Some(trip) = &mut self.tripped {
            trip.last_loss = heard;
            trip.back.remove(&worker);
            trip.lost.insert(worker);
            return Found::OneMore;
        }
        self.recent.retain(|(_, id)| *id != worker);
        self.recent.push_back((heard, worker));
        self.judge(heard, left)
    }

    /// Whether the losses of the last moments are too many.
    pub(super) fn judge(&mut self, heard: Heard, left: usize) -> Found {
        self.unjudged = false;
        self.recent.retain(|(at, _)| *at + self.rules.within > heard);
        let (lost, of) = (self.recent.len(), self.recent.len() + left);
        if lost < self.rules.min_workers || (lost as f64) <= self.rules.fraction * (of as f64) {
            return Found::Nothing;
        }
        let lost: Vec<WorkerId> = self.recent.drain(..).map(|(_, id)| id).collect();
        self.tripped = Some(Trip { last_loss: heard, lost: lost.iter().copied().collect(), back: BTreeSet::new() });
        Found::Tripped { lost, of }
    }

    /// This is how it was before something that came to nothing. The workers that were lost `since` are lost all the same.
    pub(super) fn take_over_losses(&mut self, since: Breaker) {
        let tripped =
            since.tripped.into_iter().flat_map(|trip| trip.lost.into_iter().map(move |id| (trip.last_loss, id)));
        for (at, worker) in tripped.chain(since.recent) {
            if let Some(trip) = &mut self.tripped {
                trip.last_loss = trip.last_loss.max(at);
                trip.lost.insert(worker);
            } else if self.recent.iter().all(|(_, id)| *id != worker) {
                self.recent.push_back((at, worker));
                self.unjudged = true;
            }
        }
    }

    pub(super) fn has_unjudged(&self) -> bool {
        self.unjudged && self.tripped.is_none()
    }

    /// A worker is here again. Returns whether that ends it: half of those that were lost are back.
    pub(super) fn back(&mut self, worker: WorkerId) -> bool {
        self.recent.retain(|(_, id)| *id != worker);
        let Some(trip) = &mut self.tripped else { return false };
        if trip.lost.contains(&worker) {
            trip.back.insert(worker);
        }
        let over = trip.back.len() * 2 >= trip.lost.len();
        if over {
            self.tripped = None;
        }
        over
    }

    pub(super) fn is_due(&self, heard: Heard, window: Duration) -> bool {
        self.tripped.as_ref().is_some_and(|trip| trip.last_loss + window <= heard)
    }

    /// Returns whether it ends by itself: a window has passed since the last loss.
    pub(super) fn settles(&mut self, heard: Heard, window: Duration) -> bool {
        let over = self.is_due(heard, window);
        if over {
            self.tripped = None;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const RULES: MassLoss = MassLoss { min_workers: 5, fraction: 0.5, within: Duration::from_secs(10) };

    fn id(n: u128) -> WorkerId {
        WorkerId(Uuid::from_u128(n))
    }

    /// Loses one worker after the other, at these seconds, of `all`.
    fn lose(breaker: &mut Breaker, seconds: &[i64], all: usize) -> Vec<Found> {
        let each = |(n, at): (usize, &i64)| breaker.lost(id(n as u128), Heard(at * 1_000_000), all - n - 1);
        seconds.iter().enumerate().map(each).collect()
    }

    #[test]
    fn more_than_half_and_five_at_least_within_ten_seconds() {
        let trips = |seconds: &[i64], all| {
            let found = lose(&mut Breaker::new(RULES), seconds, all);
            found.iter().position(|found| matches!(found, Found::Tripped { .. })).map(|place| place + 1)
        };
        assert_eq!(trips(&[0, 1, 2, 3, 4], 9), Some(5), "five of nine");
        assert_eq!(trips(&[0, 1, 2, 3, 4, 5], 10), Some(6), "half is not more than half");
        assert_eq!(trips(&[0, 1, 2, 3], 4), None, "all, but too few");
        assert_eq!(trips(&[0, 3, 6, 9, 12, 15], 6), None, "too slow");
        assert_eq!(trips(&[0; 5], 100), None);
    }

    #[test]
    fn it_takes_in_who_follows_and_ends_when_half_are_back() {
        let mut breaker = Breaker::new(RULES);
        let found = lose(&mut breaker, &[0, 1, 2, 3, 4, 5, 6], 7);
        assert_eq!(found[4], Found::Tripped { lost: (0..5).map(id).collect(), of: 7 });
        assert_eq!(found[5..], [Found::OneMore, Found::OneMore]);
        let ends: Vec<bool> = [0, 99, 1, 2, 3].map(|n| breaker.back(id(n))).into();
        assert_eq!(ends, [false, false, false, false, true]);
        assert!(!breaker.back(id(4)), "once");
    }

    #[test]
    fn what_came_to_nothing_is_judged_again() {
        let mut breaker = Breaker::new(RULES);
        lose(&mut breaker, &[0; 4], 5);
        let before = breaker.clone();
        assert!(matches!(breaker.lost(id(4), Heard(1), 0), Found::Tripped { .. }));
        let mut again = before.clone();
        again.take_over_losses(breaker);
        assert!(again.has_unjudged());
        assert_eq!(again.judge(Heard(1), 0), Found::Tripped { lost: (0..5).map(id).collect(), of: 5 });
        assert!(!again.has_unjudged(), "once");
        // One that comes back in what came to nothing is lost until it comes again.
        let mut back = before.clone();
        back.back(id(0));
        let mut again = before;
        again.take_over_losses(back);
        assert!(!again.has_unjudged());
        assert!(matches!(again.lost(id(4), Heard(1), 0), Found::Tripped { lost, .. } if lost.len() == 5));
    }

    #[test]
    fn it_ends_by_itself_when_nobody_comes_back() {
        let mut breaker = Breaker::new(RULES);
        lose(&mut breaker, &[0; 5], 5);
        let window = Duration::from_secs(120);
        assert!(!breaker.settles(Heard(119_000_000), window));
        assert!(breaker.settles(Heard(120_000_000), window));
        assert!(!breaker.settles(Heard(120_000_000), window));
    }
}
