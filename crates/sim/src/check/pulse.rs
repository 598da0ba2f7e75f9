//! How much of the time somebody listened, as commits show that follow each other without a long pause.

use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Pulse {
    last_commit: Duration,
    /// The last commit that was a sign of somebody who listens.
    heard: Duration,
    /// The same, before a server tried to start.
    heard_before_start: Duration,
}

impl Pulse {
    /// Somebody commits. Returns by how much more was listened; nothing where the pause before it was too long.
    pub(super) fn beat(&mut self, now: Duration, pause_max: Duration) -> Option<Duration> {
        let more = now.saturating_sub(self.last_commit);
        let pause = now.saturating_sub(self.heard);
        (self.last_commit, self.heard) = (now, now);
        (pause <= pause_max).then_some(more)
    }

    /// Nobody was heard for longer than that.
    pub(super) fn pauses(&self, now: Duration, pause_max: Duration) -> bool {
        now.saturating_sub(self.heard) > pause_max
    }

    pub(super) fn server_tries_to_start(&mut self) {
        self.heard_before_start = self.heard;
    }

    /// What it committed on its way was no sign that anybody listens. What others committed before it was.
    pub(super) fn start_failed(&mut self) {
        self.heard = self.heard_before_start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE_MAX: Duration = Duration::from_secs(3);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_start_that_fails_is_no_listening() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.beat(at(1), PAUSE_MAX), Some(at(1)));
        for second in [3, 5] {
            pulse.server_tries_to_start();
            pulse.beat(at(second), PAUSE_MAX);
            pulse.start_failed();
        }
        assert_eq!(pulse.beat(at(6), PAUSE_MAX), None);
    }

    #[test]
    fn a_start_that_fails_takes_nothing_from_those_who_listen() {
        let mut pulse = Pulse::default();
        let mut listened = Duration::ZERO;
        for second in 1..=10 {
            listened += pulse.beat(at(second), PAUSE_MAX).expect("somebody listens");
            pulse.server_tries_to_start();
            if second % 2 == 0 {
                let half = at(second) + Duration::from_millis(500);
                listened += pulse.beat(half, PAUSE_MAX).expect("somebody listened shortly before");
            }
            pulse.start_failed();
        }
        assert_eq!(listened, Duration::from_millis(10_500), "every moment counts once");
    }
}
