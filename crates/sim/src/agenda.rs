//! What is still to happen, in order. Simulated time is the time of what happens now; nothing sleeps.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Agenda<E> {
    now: Duration,
    /// What is put down first happens first, among things of the same time.
    serial: u64,
    entries: BinaryHeap<Entry<E>>,
}

#[derive(Debug)]
struct Entry<E> {
    at: Duration,
    serial: u64,
    event: E,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Agenda<E> {
        Agenda { now: Duration::ZERO, serial: 0, entries: BinaryHeap::new() }
    }

    /// True time since the world began; no party can read it.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    pub(crate) fn at(&mut self, at: Duration, event: E) {
        self.serial += 1;
        self.entries.push(Entry { at: at.max(self.now), serial: self.serial, event });
    }

    pub(crate) fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now + delay, event);
    }

    /// When the next thing happens.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.entries.peek().map(|entry| entry.at)
    }

    /// Lets time pass up to `at`, if nothing happens before.
    pub(crate) fn pass_to(&mut self, at: Duration) {
        if self.next_at().is_none_or(|next| next > at) {
            self.now = self.now.max(at);
        }
    }

    /// Lets time pass up to it.
    pub(crate) fn next(&mut self) -> Option<E> {
        let entry = self.entries.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap gives the greatest first, and the earliest is wanted.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
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
}
