//! Lines that wait for the server: how long a step that prints faster than they are stored is held back, and how long
//! its output may take after its end. Pure.

use std::time::Duration;

use protocol::attempt::STOP_DRAIN_MAX;

/// A step that prints faster than the server stores is held back while the server keeps up at all. This long after
/// its last word the step is let go on: a server that is away never blocks a step, it only costs the oldest lines.
const HOLD_PATIENCE: Duration = Duration::from_secs(1);
/// How long pipes and strays may outlast the step's own process.
const DRAIN_GRACE: Duration = Duration::from_secs(2);
/// The same while the server still takes lines: a pipe may hold many more than may wait for it.
const DRAIN_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// When the server last took lines of this log, or too many began to wait for it.
    moved_at: Option<Duration>,
    crowded: bool,
    /// Since when somebody waits for the end.
    hurried_at: Option<Duration>,
}

impl Pressure {
    /// The server has taken lines.
    pub(crate) fn eased(&mut self, now: Duration) {
        self.moved_at = Some(now);
    }

    /// `crowded`: too many lines wait.
    pub(crate) fn note(&mut self, crowded: bool, now: Duration) {
        if crowded && !self.crowded {
            self.moved_at = Some(now);
        }
        self.crowded = crowded;
    }

    /// The step is being stopped: the server waits for its end only so long, and would give it up before its cleanup.
    pub(crate) fn hurry(&mut self, now: Duration) {
        self.hurried_at.get_or_insert(now);
    }

    /// Until when the step is held back, if it is.
    pub(crate) fn hold_until(&self, now: Duration) -> Option<Duration> {
        let until = self.moved_at.filter(|_| self.crowded)? + HOLD_PATIENCE;
        (now < until).then_some(until)
    }

    /// Until when the output of a step that has ended is waited for.
    pub(crate) fn drain_until(&self, ended_at: Duration) -> Duration {
        let busy_at = self.moved_at.unwrap_or_default().max(ended_at);
        let until = (busy_at + DRAIN_GRACE).min(ended_at + DRAIN_MAX);
        self.hurried_at.map_or(until, |at| until.min(at.max(ended_at) + STOP_DRAIN_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_crowded_log_holds_the_step_back_while_the_server_takes_lines() {
        let mut pressure = Pressure::default();
        pressure.note(false, seconds(10));
        assert_eq!(pressure.hold_until(seconds(10)), None);
        pressure.note(true, seconds(20));
        assert_eq!(pressure.hold_until(seconds(20)), Some(seconds(21)));
        pressure.note(true, seconds(20));
        pressure.eased(seconds(20) + seconds(1) / 2);
        assert_eq!(pressure.hold_until(seconds(21)), Some(seconds(21) + seconds(1) / 2));
        assert_eq!(pressure.hold_until(seconds(22)), None, "a server that takes nothing holds nobody");
        pressure.eased(seconds(23));
        pressure.note(false, seconds(23));
        assert_eq!(pressure.hold_until(seconds(23)), None);
    }

    #[test]
    fn the_last_output_has_two_seconds_or_while_the_server_takes_it_a_minute() {
        let mut pressure = Pressure::default();
        assert_eq!(pressure.drain_until(seconds(100)), seconds(102));
        pressure.eased(seconds(90));
        assert_eq!(pressure.drain_until(seconds(100)), seconds(102));
        pressure.eased(seconds(130));
        assert_eq!(pressure.drain_until(seconds(100)), seconds(132));
        pressure.eased(seconds(159));
        assert_eq!(pressure.drain_until(seconds(100)), seconds(160));
    }

    #[test]
    fn the_output_of_a_step_that_was_stopped_is_not_waited_for_longer_than_the_server_waits() {
        let mut pressure = Pressure::default();
        pressure.eased(seconds(130));
        pressure.hurry(seconds(90));
        pressure.hurry(seconds(120));
        assert_eq!(pressure.drain_until(seconds(100)), seconds(100) + STOP_DRAIN_MAX);
        assert_eq!(pressure.drain_until(seconds(80)), seconds(90) + STOP_DRAIN_MAX, "it had ended when the order came");
        let mut quiet = Pressure::default();
        quiet.hurry(seconds(90));
        assert_eq!(quiet.drain_until(seconds(100)), seconds(102));
    }
}
