//! Times as people read them: how long ago on a terminal, RFC 3339 for programs.

use std::time::Duration;

use api::Timestamp;

use crate::print::stdout_is_terminal;

/// For a listing.
pub(crate) fn when(time: Option<Timestamp>) -> String {
    match time {
        None => "-".to_owned(),
        Some(time) if stdout_is_terminal() => relative(time, now()),
        Some(time) => time.to_string(),
    }
}

/// How long something took, or has taken until now.
pub(crate) fn took(from: Option<Timestamp>, to: Option<Timestamp>) -> String {
    match from {
        None => "-".to_owned(),
        Some(from) => short(between(from, to.unwrap_or_else(now))),
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now())
}

/// Zero if `to` is not after `from`: two machines' clocks may disagree.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.0.duration_since(from.0)).unwrap_or_default()
}

pub(crate) fn relative(time: Timestamp, now: Timestamp) -> String {
    if time > now { format!("in {}", short(between(now, time))) } else { format!("{} ago", short(between(time, now))) }
}

/// How long until then: a countdown.
pub(crate) fn remaining(time: Timestamp, now: Timestamp) -> String {
    if time > now { format!("{} left", short(between(now, time))) } else { "due".to_owned() }
}

/// A step's state while it waits for a time to come: `waiting (4m00s)`.
pub(crate) fn waiting_until(time: Timestamp, now: Timestamp) -> String {
    let left = if time > now { short(between(now, time)) } else { "due".to_owned() };
    format!("waiting ({left})")
}

/// Two units at most, as much as anyone compares at a glance.
pub(crate) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    if days > 0 {
        format!("{days}d{hours:02}h")
    } else if hours > 0 {
        format!("{hours}h{minutes:02}m")
    } else if minutes > 0 {
        format!("{minutes}m{:02}s", seconds % 60)
    } else if seconds >= 10 {
        format!("{seconds}s")
    } else if duration >= Duration::from_secs(1) {
        format!("{:.1}s", duration.as_secs_f64())
    } else {
        format!("{}ms", duration.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            (0, "0ms"),
            (999, "999ms"),
            (1_240, "1.2s"),
            (59_000, "59s"),
            (61_000, "1m01s"),
            (3_600_000, "1h00m"),
            (90_000_000, "1d01h"),
        ];
        for (millis, text) in cases {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn before_and_after_now() {
        let now = Timestamp::from_micros(100_000_000);
        assert_eq!(relative(Timestamp::from_micros(40_000_000), now), "1m00s ago");
        assert_eq!(relative(Timestamp::from_micros(130_000_000), now), "in 30s");
        assert_eq!(between(now, Timestamp::from_micros(0)), Duration::ZERO);
        assert_eq!(remaining(Timestamp::from_micros(130_000_000), now), "30s left");
        assert_eq!(remaining(now, now), "due");
        assert_eq!(waiting_until(Timestamp::from_micros(340_000_000), now), "waiting (4m00s)");
        assert_eq!(waiting_until(now, now), "waiting (due)");
    }
}
