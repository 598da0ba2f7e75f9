//! Times that come: which of them make a job, which are over, and which is next. Pure; every server comes to the same.

use std::time::Duration;

use engine::{JobId, Time};
use planted::Bug;
use spec::cron::Cron;
use uuid::Uuid;

use super::text::Missed;

/// A time that is seen to so much later is not missed: the server was busy, or being restarted.
pub const LATE_MAX: Duration = Duration::from_secs(60);

/// Times that passed are counted up to this; who was away for longer wants to know no better.
const COUNTED_MAX: u64 = 1_000;

/// When one trigger comes.
#[derive(Debug, Clone)]
pub struct Times {
    pub id: String,
    pub cron: Cron,
    /// A run begins up to so much later, by chance that is the same on every server.
    pub jitter: Duration,
    pub missed: Missed,
}

/// A time by the trigger's clock, and when its run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    pub planned: Time,
    pub at: Time,
}

/// What a look at a trigger that is due comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// It makes a job.
    pub fires: bool,
    /// Times that passed without a job of their own.
    pub missed: u64,
    /// None: it never comes again.
    pub next: Option<Next>,
}

impl Times {
    /// The first one after this time.
    pub fn after(&self, time: Time) -> Option<Next> {
        Some(self.next(self.cron.after(time)?))
    }

    fn next(&self, planned: Time) -> Next {
        Next { planned, at: self.begins(planned) }
    }

    /// `planned` was the next one, and its run is due. However many have passed since, they make one job at most: the last
    /// one does if it is not missed, and otherwise the policy says.
    pub fn come(&self, planned: Time, now: Time) -> Outcome {
        let last = self.last_due(planned, now);
        let in_time = now.since(self.begins(last)) <= LATE_MAX;
        let once = self.missed == Missed::Once && !planted::is(Bug::MissedRunNeverHappens);
        let fires = in_time || once;
        let passed = self.count(planned, last);
        Outcome { fires, missed: passed - u64::from(fires), next: self.after(last) }
    }

    /// A pause begins or ends, and `planned` was the next one before: how many were missed for good, and what comes now. One
    /// whose run is still put off was not missed.
    pub fn pass(&self, planned: Time, now: Time) -> (u64, Option<Next>) {
        if self.begins(planned) > now || self.missed == Missed::Once {
            return (0, Some(self.next(planned)));
        }
        let last = self.last_due(planned, now);
        (self.count(planned, last), self.after(last))
    }

    /// When the run of this time begins.
    fn begins(&self, planned: Time) -> Time {
        let span = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
        let chance = mixed("jitter", &self.id, planned).0;
        planned + Duration::from_micros(if span == 0 { 0 } else { chance % span })
    }

    /// The last time, from `planned` on, whose run is due.
    fn last_due(&self, planned: Time, now: Time) -> Time {
        let mut last = self.cron.last_until(now);
        // A run that is still put off is not due: with a long jitter several may be.
        while let Some(time) = last.filter(|time| *time > planned) {
            if self.begins(time) <= now {
                return time;
            }
            last = self.cron.last_until(Time(time.0 - 1));
        }
        planned
    }

    fn count(&self, first: Time, last: Time) -> u64 {
        let times = std::iter::successors(Some(first), |time| self.cron.after(*time)).take_while(|time| *time <= last);
        times.zip(0..COUNTED_MAX).count() as u64
    }
}

/// The job that a trigger makes for a time: the same one whenever, and by whomever, that is decided. Like any job's, its
/// id begins with a time.
pub fn job_id(trigger: &str, planned: Time) -> JobId {
    id_of("job", trigger, planned)
}

/// What is said of times that passed, from this one on, goes under this id. No job has it: the one that a trigger makes late, or
/// when its task is back, may be the one of the first time that passed, and is none of those that were missed.
pub fn missed_id(trigger: &str, planned: Time) -> JobId {
    id_of("missed", trigger, planned)
}

fn id_of(what: &str, trigger: &str, planned: Time) -> JobId {
    let (first, second) = mixed(what, trigger, planned);
    // Triggers like round times: within the second each has its own.
    let millis = u64::try_from(planned.millis()).unwrap_or(0).saturating_add(first % 1_000);
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&second.to_le_bytes());
    bytes[8..].copy_from_slice(&first.to_le_bytes()[6..]);
    JobId(uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid())
}

/// Whose calls these are, for keys that are used once.
pub fn caller(trigger: &str) -> Uuid {
    let (first, second) = mixed("caller", trigger, Time(0));
    Uuid::from_u64_pair(first, second)
}

fn mixed(what: &str, trigger: &str, time: Time) -> (u64, u64) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(what.as_bytes()).update(b"\0").update(trigger.as_bytes()).update(b"\0").update(&time.0.to_le_bytes());
    let hash = hasher.finalize();
    let part = |from: usize| {
        let bytes = &hash.as_bytes()[from..from + 8];
        u64::from_le_bytes(bytes.try_into().expect("a hash has 32 bytes"))
    };
    (part(0), part(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A whole hour.
    const T0: Time = Time(1_699_999_200_000_000);

    fn times(cron: &str, missed: Missed, jitter: Duration) -> Times {
        let cron = Cron::read(cron, "UTC").expect("a good expression");
        Times { id: "t:cron:1".to_owned(), cron, jitter, missed }
    }

    fn after(minutes: u32) -> Time {
        T0 + MINUTE * minutes
    }

    #[track_caller]
    fn check(missed: Missed, now: Time, fires: bool, passed: u64, next: Time) {
        let outcome = times("*/10 * * * *", missed, Duration::ZERO).come(after(10), now);
        let next = Some(Next { planned: next, at: next });
        assert_eq!(outcome, Outcome { fires, missed: passed, next });
    }

    #[test]
    fn a_time_that_has_come_fires_whatever_the_policy() {
        for missed in [Missed::Skip, Missed::Once] {
            check(missed, after(10), true, 0, after(20));
            check(missed, after(10) + LATE_MAX, true, 0, after(20));
        }
    }

    #[test]
    fn what_was_missed_is_skipped_or_made_up_for_once() {
        check(Missed::Skip, after(14), false, 1, after(20));
        check(Missed::Once, after(14), true, 0, after(20));
        check(Missed::Skip, after(47), false, 4, after(50));
        check(Missed::Once, after(47), true, 3, after(50));
    }

    #[test]
    fn the_last_of_many_may_still_be_in_time() {
        check(Missed::Skip, after(40) + MINUTE / 2, true, 3, after(50));
        check(Missed::Once, after(40) + MINUTE / 2, true, 3, after(50));
    }

    #[test]
    fn a_pause_ends_as_the_policy_says() {
        let (ten, ahead) = (Duration::ZERO, |planned| Some(Next { planned, at: planned }));
        let skips = times("*/10 * * * *", Missed::Skip, ten);
        assert_eq!(skips.pass(after(10), after(7)), (0, ahead(after(10))), "nothing was missed");
        assert_eq!(skips.pass(after(10), after(31)), (3, ahead(after(40))));
        let once = times("*/10 * * * *", Missed::Once, ten);
        assert_eq!(once.pass(after(10), after(31)), (0, ahead(after(10))), "it is due at once");
    }

    /// Who rests for a moment between a time and its run loses nothing.
    #[test]
    fn a_run_that_is_put_off_is_not_missed_by_a_pause() {
        let times = times("0 * * * *", Missed::Skip, MINUTE * 20);
        let next = times.after(T0).expect("it comes");
        assert!(next.at > next.planned, "{next:?}");
        assert_eq!(times.pass(next.planned, Time(next.at.0 - 1)), (0, Some(next)));
        assert_eq!(times.pass(next.planned, next.at), (1, times.after(next.planned)));
    }

    #[test]
    fn years_are_no_trouble() {
        let outcome =
            times("* * * * *", Missed::Skip, Duration::ZERO).come(T0, T0 + MINUTE * 60 * 24 * 400 + MINUTE / 2);
        assert_eq!((outcome.fires, outcome.missed), (true, COUNTED_MAX - 1));
        assert_eq!(outcome.next.map(|next| next.planned), Some(T0 + MINUTE * (60 * 24 * 400 + 1)));
    }

    #[test]
    fn chance_puts_a_run_off_and_is_the_same_for_all() {
        let times = times("0 * * * *", Missed::Skip, MINUTE * 20);
        let next = times.after(T0).expect("it comes");
        assert_eq!(next.planned, after(60));
        assert!(next.at >= after(60) && next.at < after(80), "{next:?}");
        assert_eq!(times.after(T0), Some(next));
        let other = Times { id: "u:cron:1".to_owned(), ..times.clone() };
        assert_ne!(other.after(T0).expect("it comes").at, next.at, "another trigger is put off otherwise");
        let outcome = times.come(next.planned, next.at);
        assert!(outcome.fires && outcome.missed == 0, "{outcome:?}");
        assert_eq!(outcome.next.map(|next| next.planned), Some(after(120)));
    }

    /// More than one run may be put off at a time; each comes, and in its order.
    #[test]
    fn chance_may_be_longer_than_the_interval() {
        let times = times("*/10 * * * *", Missed::Once, MINUTE * 45);
        let (mut next, mut planned) = (times.after(T0).expect("it comes"), Vec::new());
        while next.planned < after(600) {
            let outcome = times.come(next.planned, next.at);
            assert!(outcome.fires);
            let following = outcome.next.expect("it comes again");
            assert!(following.at > next.at && following.planned > next.planned);
            assert_eq!(times.count(next.planned, following.planned), outcome.missed + 2, "none is forgotten");
            planned.push(next.planned);
            next = following;
        }
        assert!(planned.len() > 15, "most have a job of their own: {}", planned.len());
    }

    #[test]
    fn a_job_has_one_id_per_time() {
        assert_eq!(job_id("a:cron:1", T0), job_id("a:cron:1", T0));
        assert_ne!(job_id("a:cron:1", T0), job_id("a:cron:2", T0));
        assert_ne!(job_id("a:cron:1", T0), job_id("a:cron:1", after(1)));
        assert!(job_id("a:cron:1", T0) < job_id("b:cron:1", after(1)), "ids are in the order of their times");
        assert!(!job_id("a:cron:1", T0).may_be_kin(job_id("b:cron:1", T0)));
    }
}
