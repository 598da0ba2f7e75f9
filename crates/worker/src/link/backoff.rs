//! How long to wait before the next try. Pure: the jitter comes from outside.

use std::time::Duration;

use protocol::link::{RefusedCode, ServerMessage};

const FIRST: Duration = Duration::from_secs(1);
const FACTOR: f64 = 1.5;
/// Until a server has said otherwise.
const LONGEST_BY_DEFAULT: Duration = Duration::from_secs(60);

const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// Grows with every failure, up to a limit, and starts over after a success.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
    asked_back: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { next: FIRST, longest: LONGEST_BY_DEFAULT, asked_back: false }
    }
}

impl Backoff {
    /// What a server says on a link that stands may change how soon it is asked again after that.
    pub fn heard(&mut self, message: &ServerMessage) {
        match message {
            ServerMessage::Welcome(welcome) => {
                self.welcomed(Duration::from_millis(welcome.settings.max_reconnect_delay_ms));
            }
            ServerMessage::Refused { code: RefusedCode::GoingAway | RefusedCode::Recall, .. } => self.asked_back(),
            _ => {}
        }
    }

    /// The server welcomed us, and said how long we may stay away.
    fn welcomed(&mut self, longest: Duration) {
        self.longest = longest;
        self.next = FIRST;
    }

    /// The server is there, and not ready: the next delay is a short one.
    pub fn asked_back(&mut self) {
        self.asked_back = true;
    }

    /// The next delay. `jitter` is between 0 and 1; it takes away up to a half, so that workers that were cut off
    /// together do not come back together. The longest delay is never exceeded.
    pub fn next(&mut self, jitter: f64) -> Duration {
        if std::mem::take(&mut self.asked_back) {
            return probe_interval(jitter).min(self.next).min(self.longest);
        }
        let delay = self.next.min(self.longest);
        self.next = delay.mul_f64(FACTOR).min(self.longest);
        delay.mul_f64(1.0 - 0.5 * jitter.clamp(0.0, 1.0))
    }
}

/// While waiting for the next try, a server that was away is looked for this often; about two seconds, so that workers
/// that were cut off together do not all look at the same moment.
pub fn probe_interval(jitter: f64) -> Duration {
    PROBE_INTERVAL.mul_f64(0.75 + 0.5 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_ready_is_asked_again_soon_and_spends_nothing() {
        let mut backoff = Backoff::default();
        for _ in 0..12 {
            backoff.next(0.0);
        }
        backoff.asked_back();
        assert_eq!(backoff.next(0.0), Duration::from_millis(1500));
        backoff.asked_back();
        assert_eq!(backoff.next(1.0), Duration::from_millis(2500));
        assert_eq!(backoff.next(0.0), Duration::from_secs(60), "once");
    }

    #[test]
    fn delays_grow_to_the_limit_and_start_over() {
        let mut backoff = Backoff::default();
        let delays: Vec<u128> = (0..13).map(|_| backoff.next(0.0).as_millis()).collect();
        assert_eq!(delays[..4], [1000, 1500, 2250, 3375]);
        assert_eq!(delays[11..], [60_000, 60_000]);
        backoff.welcomed(Duration::from_secs(2));
        let delays: Vec<u128> = (0..4).map(|_| backoff.next(0.0).as_millis()).collect();
        assert_eq!(delays, [1000, 1500, 2000, 2000]);
    }

    #[test]
    fn jitter_only_shortens() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(1.0), Duration::from_millis(500));
        assert_eq!(backoff.next(0.5), Duration::from_millis(1125));
        assert_eq!(backoff.next(7.0), Duration::from_millis(1125));
    }

    #[test]
    fn a_limit_below_the_first_delay_holds_at_once() {
        let mut backoff = Backoff::default();
        backoff.welcomed(Duration::from_millis(200));
        assert_eq!(backoff.next(0.0), Duration::from_millis(200));
    }
}
