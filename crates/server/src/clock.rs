//! The one place of the server that reads a clock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::Time;
use rustix::time::{ClockId, clock_gettime};

/// A clock that is set ahead by more was wrong before, as on a machine that has just found the time.
const SET_MAX: Duration = Duration::from_secs(24 * 3600);

/// A database that takes longer to say what time it is says nothing worth having.
const ASKING_MAX: Duration = Duration::from_secs(1);

/// The installation's time: the system's, or that of the database which several servers share; except that it never goes back, never
/// stands still, and never leaps: a clock that is set ends no step by its timeout.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last: Reading,
    /// None: this machine's clock is the installation's.
    common: Option<Anchor>,
}

/// What the clock that all servers have in common said, and when. From there on this machine counts, by what nobody can set.
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    common: Time,
    boot: Duration,
}

impl Anchor {
    /// None where there is no such clock, or where the answer came too late to be of use.
    pub fn ask<E>(ask: impl FnOnce() -> Result<Option<Time>, E>) -> Result<Option<Anchor>, E> {
        let asked = since_boot();
        let common = ask()?;
        Ok(common.and_then(|common| Anchor::said(common, asked, since_boot())))
    }

    /// What it said, and when it was asked and had answered, both since this machine started.
    pub fn said(common: Time, asked: Duration, answered: Duration) -> Option<Anchor> {
        let took = answered.saturating_sub(asked);
        (took <= ASKING_MAX).then(|| Anchor { common, boot: asked + took / 2 })
    }

    pub fn time_at(self, boot: Duration) -> Time {
        self.common + boot.saturating_sub(self.boot)
    }
}

/// What was read, and by the clock that runs on while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub tick: Tick,
    pub boot: Duration,
}

impl Reading {
    /// Another server of the installation has got further: its time is everybody's.
    #[must_use]
    pub fn caught_up(self, with: Time) -> Reading {
        Reading { tick: Tick { now: self.tick.now.max(with), ..self.tick }, ..self }
    }
}

/// Both clocks of this machine, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    pub now: Time,
    /// Since this process started, by the clock that nobody can set.
    pub mono: Duration,
}

impl Clock {
    /// `floor`: the time up to which this installation has got already.
    pub fn starting_at(floor: Time) -> Clock {
        Clock::sharing(floor, None)
    }

    /// The same where servers have a clock in common.
    pub fn sharing(floor: Time, common: Option<Anchor>) -> Clock {
        let boot = since_boot();
        let now = common.map_or_else(wall, |anchor| anchor.time_at(boot));
        let last = Reading { tick: Tick { now: floor.max(now), mono: Duration::ZERO }, boot };
        Clock { started: Instant::now(), state: Mutex::new(State { last, common }) }
    }

    pub fn now(&self) -> Time {
        self.tick().now
    }

    pub fn tick(&self) -> Tick {
        let mut state = self.state();
        let boot = since_boot();
        let now = state.common.map_or_else(wall, |anchor| anchor.time_at(boot));
        state.last = follow(state.last, Reading { tick: Tick { now, mono: self.started.elapsed() }, boot });
        state.last.tick
    }

    pub fn catch_up(&self, with: Time) {
        let mut state = self.state();
        state.last = state.last.caught_up(with);
    }

    /// Goes by what the common clock said last.
    pub fn agree(&self, with: Anchor) {
        self.state().common = Some(with);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot have left a reading half-made.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock that was set back is waited for: ours goes on a little slower until it has caught up. One that was set ahead is
/// followed a little faster.
pub fn follow(last: Reading, read: Reading) -> Reading {
    let passed = read.boot.saturating_sub(last.boot);
    let ahead = read.tick.now.since(last.tick.now).saturating_sub(passed);
    let now = if read.tick.now < last.tick.now {
        last.tick.now + passed * 9 / 10
    } else if ahead <= SET_MAX {
        // To the end: whatever leaps counts as time in which nobody was heard.
        read.tick.now.min(last.tick.now + passed * 11 / 10)
    } else {
        read.tick.now
    };
    Reading { tick: Tick { now, mono: read.tick.mono }, boot: read.boot }
}

fn wall() -> Time {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(wall.as_micros()).unwrap_or(i64::MAX))
}

fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without sleep.
    fn read(now_secs: i64, mono_secs: u64) -> Reading {
        let mono = Duration::from_secs(mono_secs);
        Reading { tick: Tick { now: Time(now_secs * 1_000_000), mono }, boot: mono }
    }

    fn check(start: i64, readings: &[(i64, u64, i64)]) {
        let mut last = read(start, 0);
        for (wall, mono, expected) in readings {
            last = follow(last, read(*wall, *mono));
            assert_eq!(last, read(*expected, *mono));
        }
    }

    #[test]
    fn a_clock_that_was_set_back_neither_goes_back_nor_stands_still() {
        check(10_000, &[(10_010, 10, 10_010), (9_020, 20, 10_019), (9_120, 120, 10_109), (10_110, 130, 10_110)]);
    }

    #[test]
    fn a_clock_that_was_set_ahead_is_followed_without_a_leap() {
        check(
            10_000,
            &[(13_610, 10, 10_011), (13_710, 110, 10_121), (49_600, 36_000, 49_600), (49_610, 36_010, 49_610)],
        );
        // It was never right before.
        check(10_000, &[(1_700_000_000, 10, 1_700_000_000)]);
    }

    #[test]
    fn the_last_second_of_a_clock_that_was_set_ahead_is_no_leap_either() {
        let (start, step) = (read(10_000, 0), Duration::from_secs(2));
        let mut last = start;
        for mono in (2..=700).step_by(2) {
            let next = follow(last, read(10_061 + i64::try_from(mono).expect("it is small"), mono));
            assert!(next.tick.now.since(last.tick.now) <= step.mul_f64(1.1), "after {mono} s");
            last = next;
        }
        assert_eq!(last.tick.now, Time(10_761 * 1_000_000), "it is there in the end");
    }

    #[test]
    fn time_in_which_the_machine_slept_has_passed() {
        let mut woken = read(13_700, 100);
        woken.boot = Duration::from_secs(3_700);
        assert_eq!(follow(read(10_000, 0), woken).tick, woken.tick);
    }

    #[test]
    fn servers_go_by_the_clock_that_they_have_in_common() {
        let hour = Duration::from_secs(3600);
        let ask = |time: Time| Anchor::ask(|| Ok::<_, ()>(Some(time))).expect("asked").expect("an answer");
        let late = Clock::sharing(Time(0), Some(ask(wall() - hour)));
        let before = late.now();
        assert!(wall().since(before) >= hour, "this machine's own clock does not matter");
        late.agree(ask(wall() + hour));
        assert!(late.now().since(before) < hour / 60, "a database whose clock was set makes nobody leap");
        let (asked, floor) = (ask(wall() - hour), wall());
        assert!(Clock::sharing(floor, Some(asked)).now() >= floor, "nor go back");
    }

    #[test]
    fn an_answer_that_took_long_is_no_answer() {
        let slow = || {
            std::thread::sleep(ASKING_MAX + Duration::from_millis(10));
            Ok::<_, ()>(Some(Time(1)))
        };
        assert!(Anchor::ask(slow).expect("asked").is_none());
        assert!(Anchor::ask(|| Ok::<_, ()>(None)).expect("asked").is_none());
    }

    #[test]
    fn a_restart_begins_where_the_installation_was() {
        let far = Time(i64::MAX / 2);
        assert!(Clock::starting_at(far).now() >= far);
        assert!(Clock::starting_at(Time(0)).now() > Time(1_600_000_000_000_000));
    }
}
