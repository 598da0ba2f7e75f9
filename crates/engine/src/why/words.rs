//! Small words: lists, counts and spans of time as people say them.

use std::fmt::Display;
use std::time::Duration;

use crate::time::Time;

/// More names than these are counted, not listed.
const NAMES_MAX: usize = 4;

/// `a`, `a and b`, `a, b and c`, `a, b, c, d and 7 more`.
pub(super) fn list<T: Display>(items: &[T]) -> String {
    let (shown, hidden) = items.split_at(items.len().min(NAMES_MAX));
    let mut words: Vec<String> = shown.iter().map(ToString::to_string).collect();
    if !hidden.is_empty() {
        words.push(format!("{} more", hidden.len()));
    }
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    }
}

/// A step's name in a command: to a shell that of an item, `each[0]`, is a pattern.
pub(super) fn shell_word(name: &str) -> String {
    if name.contains('[') { format!("'{name}'") } else { name.to_owned() }
}

/// `1 step`, `3 steps`.
pub(super) fn count(number: u32, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// `400ms`, `1.2s`, `12s`, `1m 30s`, `2h 5m`, `3d 4h`: two units at most. What is left over is left out, as in every listing.
pub(crate) fn span(time: Duration) -> String {
    let (millis, seconds) = (time.as_millis(), time.as_secs());
    match millis / 100 {
        0..10 if millis > 0 => return format!("{millis}ms"),
        tenths @ 10..100 if tenths % 10 > 0 => return format!("{seconds}.{}s", tenths % 10),
        _ => {}
    }
    let units = [(86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")];
    match units.into_iter().find(|(size, ..)| seconds >= *size) {
        None => format!("{seconds}s"),
        Some((size, unit, smaller, small)) => match (seconds % size) / smaller {
            0 => format!("{}{unit}", seconds / size),
            rest => format!("{}{unit} {rest}{small}", seconds / size),
        },
    }
}

/// `in 12s`, or `now` for what is due.
pub(super) fn until(at: Time, now: Time) -> String {
    if at > now { format!("in {}", span(at.since(now))) } else { "now".to_owned() }
}

/// `3m 2s ago`, or `just now`.
pub(super) fn ago(at: Time, now: Time) -> String {
    let passed = now.since(at);
    if passed < Duration::from_secs(1) { "just now".to_owned() } else { format!("{} ago", span(passed)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        let words = |millis: u64| span(Duration::from_millis(millis));
        let told = [0, 40, 950, 1_000, 3_190, 12_900, 59_600, 90_000, 3_600_000, 7_500_000, 360_000_000].map(words);
        assert_eq!(told, ["0s", "40ms", "950ms", "1s", "3.1s", "12s", "59s", "1m 30s", "1h", "2h 5m", "4d 4h"]);
    }

    #[test]
    fn times_read_well() {
        let now = Time(5_000_000);
        assert_eq!([4_999_999, 5_000_000, 6_000_000].map(|at| until(Time(at), now)), ["now", "now", "in 1s"]);
        assert_eq!([4_000_000, 4_000_001, 5_000_001].map(|at| ago(Time(at), now)), ["1s ago", "just now", "just now"]);
    }

    #[test]
    fn lists_read_well() {
        assert_eq!(list(&["a"; 0]), "");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c", "d", "e", "f"]), "a, b, c, d and 2 more");
    }
}
