//! What is still to happen, in order. Simulated time is the time of what happens now; nothing sleeps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Agenda<E> {
    now: Duration,
    /// What is put down first happens first, among things of the same time.
    serial: u64,
    /// When, which serial, and where in `events`: those are large, and a heap moves about what it holds.
    order: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    events: Vec<Option<E>>,
    free: Vec<usize>,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Agenda<E> {
        Agenda { now: Duration::ZERO, serial: 0, order: BinaryHeap::new(), events: Vec::new(), free: Vec::new() }
    }

    /// True time since the world began; no party can read it.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    pub(crate) fn at(&mut self, at: Duration, event: E) {
        self.serial += 1;
        let place = self.free.pop().unwrap_or(self.events.len());
        if place == self.events.len() {
            self.events.push(None);
        }
        self.events[place] = Some(event);
        self.order.push(Reverse((at.max(self.now), self.serial, place)));
    }

    pub(crate) fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now + delay, event);
    }

    /// When the next thing happens.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }

    /// Lets time pass up to `at`, if nothing happens before.
    pub(crate) fn pass_to(&mut self, at: Duration) {
        if self.next_at().is_none_or(|next| next > at) {
            self.now = self.now.max(at);
        }
    }

    /// Lets time pass up to it.
    pub(crate) fn next(&mut self) -> Option<E> {
        let Reverse((at, _, place)) = self.order.pop()?;
        self.now = at;
        self.free.push(place);
        self.events[place].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_order_of_time_and_then_of_arrival() {
        let mut agenda = Agenda::new();
        agenda.at(Duration::from_secs(2), "c");
        agenda.at(Duration::from_secs(1), "a");
        agenda.at(Duration::from_secs(1), "b");
        let order: Vec<&str> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(order, ["a", "b", "c"]);
        assert_eq!(agenda.now(), Duration::from_secs(2));
        agenda.at(Duration::ZERO, "the past is now");
        assert_eq!(agenda.next_at(), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_place_that_is_free_again_says_nothing_about_the_order() {
        let mut agenda = Agenda::new();
        for (at, name) in [(1, "a"), (3, "b"), (2, "c")] {
            agenda.at(Duration::from_secs(at), name);
        }
        assert_eq!(agenda.next(), Some("a"));
        agenda.after(Duration::from_secs(2), "after b");
        let rest: Vec<&str> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(rest, ["c", "b", "after b"]);
    }
}
