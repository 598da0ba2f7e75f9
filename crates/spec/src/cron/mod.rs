//! When a cron expression comes, in a time zone. Pure: the zones' rules come with the build, and the time is an argument.
//!
//! On the day on which clocks go ahead, a time that does not exist comes at the first instant that does. On the day on
//! which they go back, a time that exists twice comes once, the first time. What comes at intervals (`*` or `/` in its
//! minutes or hours) goes on through both.

mod fields;

use croner::parser::{CronParser, Seconds, Year};
use engine::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// An expression of five fields, or a word such as `@daily`, in a zone.
#[derive(Debug, Clone)]
pub struct Cron {
    pattern: croner::Cron,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error("{0}")]
    Expression(String),
    #[error("there is no time zone `{0}`")]
    Zone(String),
}

impl Cron {
    pub fn read(expression: &str, zone: &str) -> Result<Cron, CronError> {
        fields::check(expression).map_err(CronError::Expression)?;
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).sloppy_ranges(true);
        let pattern = parser.build().parse(expression).map_err(|error| CronError::Expression(error.to_string()))?;
        let zone = TimeZone::get(zone).map_err(|_| CronError::Zone(zone.to_owned()))?;
        Ok(Cron { pattern, zone })
    }

    /// The first time after this one; none if it never comes.
    pub fn after(&self, time: Time) -> Option<Time> {
        let next = self.pattern.find_next_occurrence(&self.local(time)?, false).ok()?;
        Some(instant(&next)).filter(|next| *next > time)
    }

    /// The last time that is not after this one.
    pub fn last_until(&self, time: Time) -> Option<Time> {
        let last = self.pattern.find_previous_occurrence(&self.local(time)?, true).ok()?;
        Some(instant(&last)).filter(|last| *last <= time)
    }

    fn local(&self, time: Time) -> Option<Zoned> {
        Some(Timestamp::from_microsecond(time.0).ok()?.to_zoned(self.zone.clone()))
    }
}

fn instant(local: &Zoned) -> Time {
    Time(local.timestamp().as_microsecond())
}

/// The zone whose name is nearest to this one.
pub fn nearest_zone(name: &str) -> Option<String> {
    let known: Vec<String> = jiff::tz::db().available().map(|zone| zone.to_string()).collect();
    crate::nearest(name, known.iter().map(String::as_str)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        Time(text.parse::<Timestamp>().expect("a time").as_microsecond())
    }

    fn text(time: Time) -> String {
        Timestamp::from_microsecond(time.0).expect("a time").to_string()
    }

    #[track_caller]
    fn check(expression: &str, zone: &str, from: &str, expected: &[&str]) {
        let cron = Cron::read(expression, zone).expect("a good expression");
        let mut time = at(from);
        let mut found = Vec::new();
        while found.len() < expected.len()
            && let Some(next) = cron.after(time)
        {
            found.push(text(next));
            time = next;
        }
        assert_eq!(found, expected, "{expression} in {zone}");
    }

    #[test]
    fn a_time_in_a_zone_follows_its_clocks() {
        check("0 3 * * *", "Europe/Oslo", "2026-07-01T00:30:00Z", &["2026-07-01T01:00:00Z", "2026-07-02T01:00:00Z"]);
        check("0 3 * * *", "Europe/Oslo", "2026-01-01T00:30:00Z", &["2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z"]);
        check(
            "30 9 * * MON-FRI",
            "America/New_York",
            "2026-11-13T00:00:00Z",
            &["2026-11-13T14:30:00Z", "2026-11-16T14:30:00Z"],
        );
        check("@monthly", "UTC", "2026-11-13T00:00:00Z", &["2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"]);
    }

    /// In Oslo clocks went from 02:00 to 03:00 on 29 March 2026, at 01:00 UTC.
    #[test]
    fn a_time_that_does_not_exist_comes_at_the_first_that_does() {
        let days = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
        check("30 2 * * *", "Europe/Oslo", "2026-03-28T00:00:00Z", &days);
        let days = ["2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"];
        check("0 3 * * *", "Europe/Oslo", "2026-03-28T01:30:00Z", &days);
        let quarters = ["2026-03-29T00:45:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z"];
        check("*/15 * * * *", "Europe/Oslo", "2026-03-29T00:30:00Z", &quarters);
        let hours = ["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"];
        check("0 * * * *", "Europe/Oslo", "2026-03-28T23:30:00Z", &hours);
    }

    /// Clocks went from 03:00 to 02:00 on 25 October 2026, at 01:00 UTC.
    #[test]
    fn a_time_that_exists_twice_comes_once() {
        let days = ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
        check("30 2 * * *", "Europe/Oslo", "2026-10-24T00:00:00Z", &days);
        let quarters = ["2026-10-25T00:45:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:15:00Z"];
        check("*/15 * * * *", "Europe/Oslo", "2026-10-25T00:30:00Z", &quarters);
        let hours = ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"];
        check("0 * * * *", "Europe/Oslo", "2026-10-24T23:30:00Z", &hours);
    }

    /// Looking back finds what looking ahead has found, wherever one stands on either day.
    #[test]
    fn both_ways_see_the_same_times() {
        let days = [("2026-03-28T20:00:00Z", "2026-03-30T04:00:00Z"), ("2026-10-24T20:00:00Z", "2026-10-26T04:00:00Z")];
        for expression in ["30 2 * * *", "0 3 * * *", "*/15 * * * *", "0 * * * *", "5,40 2 * * *", "0 2-3 * * *"] {
            let cron = Cron::read(expression, "Europe/Oslo").expect("a good expression");
            for (from, to) in days {
                let mut last = cron.last_until(at(from)).expect("there is one before");
                let mut time = at(from);
                while time < at(to) {
                    let ahead = cron.after(last).expect("there is one after");
                    if ahead <= time {
                        last = ahead;
                    }
                    assert_eq!(cron.last_until(time).map(text), Some(text(last)), "{expression} at {}", text(time));
                    time = Time(time.0 + 150_000_000);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let zone = Cron::read("0 3 * * *", "Europe/Olso").expect_err("no such zone");
        assert_eq!(zone.to_string(), "there is no time zone `Europe/Olso`");
        assert_eq!(nearest_zone("Europe/Olso").as_deref(), Some("Europe/Oslo"));
        assert!(Cron::read("61 3 * * *", "UTC").is_err());
        assert_eq!(Cron::read("0 0 30 2 *", "UTC").expect("it can be read").after(at("2026-01-01T00:00:00Z")), None);
    }
}
