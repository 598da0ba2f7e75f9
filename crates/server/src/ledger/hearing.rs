//! Hearing time: how long this installation could hear and commit, and from when on silence may be judged.
//!
//! The ledger commits a mark every few seconds. What lies between two marks beyond that interval is deaf time: the server
//! was down or stopped, its database away, the machine asleep, the clock set. [`Core`](super::Core) asks here with every
//! round, and saves the answer with it.
//!
//! Several servers on one database share one row: while any of them marks, the installation hears. What one of them
//! missed meanwhile is its own affair: it adds no deaf time, but judges nobody before it has listened for long enough
//! itself.

use std::time::Duration;

use engine::{Clocks, Heard, Time};
use planted::Bug;
use store::rows::{HearingRow, ServerRow};

use crate::clock::Tick;

/// A mark is committed so often, also by a server that has nothing else to do; more often where windows are short.
const MARK_EVERY_MAX: Duration = Duration::from_secs(2);
const MARK_EVERY_MIN: Duration = Duration::from_millis(100);

/// A mark may be late by its interval, or by this, before the time is called deaf: a busy machine is not a deaf one.
const LATE_MIN: Duration = Duration::from_millis(500);

/// The two clocks of a machine may differ by this between marks: they are adjusted all the time, by far less.
const DRIFT_MAX: Duration = Duration::from_millis(250);

/// A server that never hears for long enough at a time judges after so many windows of hearing in all.
const WINDOWS_MAX: u32 = 10;

/// A server that makes no mark for so many intervals, and a late one, is dead to its siblings.
const MARKS_MISSED: u32 = 3;

/// A lease ends a fifth of the window before it; half of that may be spent on what its server still answered.
const LEASE_ROOM: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HearingRules {
    pub mark_every: Duration,
    late: Duration,
    /// So much unbroken hearing after deaf time, and silence may be judged.
    pub stretch: Duration,
    /// So much hearing in all without such a stretch, and it is judged all the same.
    at_last: Duration,
    /// A server without a mark for so long is not there.
    pub dead_after: Duration,
    /// So long after its last mark a server may still have kept leases alive, beyond what the window leaves room for.
    pub afterlife: Duration,
}

impl HearingRules {
    pub(super) fn new(max_reconnect_delay: Duration, window: Duration) -> HearingRules {
        let mark_every = (window / 8).clamp(MARK_EVERY_MIN, MARK_EVERY_MAX);
        let late = mark_every.max(LATE_MIN);
        HearingRules {
            mark_every,
            late,
            stretch: if planted::is(Bug::NoTimeToCallIn) { Duration::ZERO } else { max_reconnect_delay * 3 / 2 },
            at_last: window * WINDOWS_MAX,
            dead_after: mark_every * MARKS_MISSED + late,
            afterlife: (mark_every + late).saturating_sub(window / LEASE_ROOM),
        }
    }

    /// Up to when a server was last there that had listened for long enough; if none ever had, when the first one was
    /// last there.
    pub(super) fn last_well(&self, servers: &[ServerRow]) -> Option<Heard> {
        let well = servers.iter().filter(|row| row.beat_at.since(row.started_at) >= self.stretch);
        let last = well.map(|row| row.beat_heard).max();
        last.or_else(|| servers.iter().map(|row| row.beat_heard).min())
    }
}

/// What is known at the last committed mark, and what this server heard of the time since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hearing {
    pub row: HearingRow,
    /// What this server's own clock said when it learnt of the mark, and how old the mark was then.
    mono: Duration,
    age: Duration,
    own: Own,
}

/// One server's own part in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Own {
    /// When it last made a mark.
    marked_at: Time,
    /// When it last looked up from its work.
    awake: Tick,
    /// Since when it has listened without a break.
    stretch_from: Heard,
    /// Since when it has not listened for long enough at a time, as it was when it last began anew.
    unsettled_since: Heard,
    /// It judges nobody before, whoever else may; this is past where it is alone, and the row says it all.
    verdicts_from: Heard,
}

/// How things stand at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listened {
    pub hearing: Hearing,
    /// The mark that it was made after.
    pub before: Option<HearingRow>,
    /// It is to be committed.
    pub mark: bool,
    /// What this tick found to have been deaf.
    pub deaf: Duration,
    /// Silence is judged from here on although no stretch was long enough; said once.
    pub alarm: bool,
}

impl Hearing {
    /// A server starts. Alone, all links are gone, so nothing was heard since the last mark, however short ago that is;
    /// beside others it only has to listen itself before it judges.
    /// `strangers`: someone may be out there who was here before there were marks.
    /// `beside`: others are there, and one of all had listened for long enough up to then.
    pub(super) fn start(
        stored: Option<HearingRow>,
        strangers: bool,
        beside: Option<Heard>,
        tick: Tick,
        rules: &HearingRules,
    ) -> Listened {
        let known = stored.unwrap_or(HearingRow {
            mark_at: tick.now,
            deaf_us: 0,
            stretch_from: Heard(tick.now.0),
            unsettled_since: None,
            verdicts_from: Heard::MIN,
            alarmed: false,
        });
        let own = Own {
            marked_at: known.mark_at,
            awake: tick,
            stretch_from: Heard::MIN,
            unsettled_since: Heard::MIN,
            verdicts_from: Heard::MIN,
        };
        let mut hearing = Hearing { row: known, mono: tick.mono, age: Duration::ZERO, own };
        let deaf = tick.now.since(known.mark_at);
        if stored.is_none() && !strangers {
            return Listened { hearing, before: None, mark: true, deaf, alarm: false };
        }
        if let Some(last_well) = beside {
            hearing.age = deaf;
            // Servers that start again and again, one beside the other, must not leave every verdict to the next one.
            hearing.begin_anew(hearing.heard_at(tick, rules), last_well, rules);
            return Listened { mark: true, ..hearing.listen(tick, false, rules) };
        }
        Listened { before: stored, ..hearing.after(tick, deaf, None, rules) }
    }

    /// How things stand now. `alone`: no other server hears.
    pub(super) fn listen(&self, tick: Tick, alone: bool, rules: &HearingRules) -> Listened {
        let deaf = self.deaf_time(tick, rules);
        let mut hearing = *self;
        let mut since = self.row.stretch_from;
        if alone {
            // Who is alone speaks for all: what it did not hear, nobody did; but what it heard counts.
            since = since.max(self.own.stretch_from);
            hearing.own.verdicts_from = Heard::MIN;
        }
        hearing.after(tick, deaf, deaf.is_zero().then_some(since), rules)
    }

    /// The newest mark is another server's.
    pub(super) fn take_over(&mut self, row: HearingRow, tick: Tick) {
        if row != self.row {
            self.row = row;
            self.mono = tick.mono;
            self.age = tick.now.since(row.mark_at);
        }
    }

    /// Its clock was behind by so much, and now it is not: that is no time in which it was not awake.
    pub(super) fn set_ahead(&mut self, by: Duration) {
        self.own.awake.now = self.own.awake.now + by;
    }

    /// This server looks up. How long it did not, if that is too long: nobody was heard by it.
    pub(super) fn wake(&mut self, tick: Tick, rules: &HearingRules) -> Duration {
        let Tick { now, mono } = std::mem::replace(&mut self.own.awake, tick);
        between(now, tick.mono.saturating_sub(mono), tick, rules)
    }

    /// It woke and could not look around: what it missed, it has missed still.
    pub(super) fn sleep_on(&mut self, before: &Hearing) {
        self.own.awake = before.own.awake;
    }

    /// It showed that it is there, though the common mark is another server's.
    pub(super) fn marked(&mut self, at: Time) {
        self.own.marked_at = at;
    }

    /// It did not listen for so long while others did: from now on it does. Servers that miss something again and again must
    /// not leave every verdict to each other, either; but only what it heard itself counts.
    pub(super) fn missed(&mut self, missed: Duration, tick: Tick, rules: &HearingRules) {
        let heard = self.heard_at(tick, rules);
        let was_well = heard.since(self.own.stretch_from + missed) >= rules.stretch;
        let unsettled_since = if was_well { heard } else { self.own.unsettled_since + missed };
        self.begin_anew(heard, unsettled_since, rules);
    }

    fn begin_anew(&mut self, heard: Heard, unsettled_since: Heard, rules: &HearingRules) {
        self.own.stretch_from = heard;
        self.own.unsettled_since = unsettled_since;
        self.own.verdicts_from = (heard + rules.stretch).min(unsettled_since + rules.at_last);
    }

    /// Hearing time at this tick, if nobody else has made a mark since.
    pub(super) fn heard_at(&self, tick: Tick, rules: &HearingRules) -> Heard {
        let clocks = self.row.clocks(tick.now);
        Heard((Time(clocks.heard.0) - self.deaf_time(tick, rules)).0)
    }

    /// This server's own last mark is young enough to speak for it.
    pub(super) fn is_fresh(&self, now: Time, rules: &HearingRules) -> bool {
        now.since(self.own.marked_at) <= rules.mark_every + rules.late
    }

    pub(super) fn is_due(&self, now: Time, rules: &HearingRules) -> bool {
        now >= self.next_mark(rules)
    }

    pub(super) fn next_mark(&self, rules: &HearingRules) -> Time {
        self.own.marked_at + rules.mark_every
    }

    pub(super) fn clocks(&self, now: Time) -> Clocks {
        let clocks = self.row.clocks(now);
        Clocks { verdicts_from: clocks.verdicts_from.max(self.own.verdicts_from), ..clocks }
    }

    /// How much of the time since the last mark nobody can have been heard.
    fn deaf_time(&self, tick: Tick, rules: &HearingRules) -> Duration {
        between(self.row.mark_at, tick.mono.saturating_sub(self.mono) + self.age, tick, rules)
    }

    /// `since`: from when on all was heard; none where something was not, just now.
    fn after(&self, tick: Tick, deaf: Duration, since: Option<Heard>, rules: &HearingRules) -> Listened {
        let old = &self.row;
        let counts = planted::is(Bug::DeafTimeCounts);
        let (deaf, since) = if counts { (Duration::ZERO, Some(old.stretch_from)) } else { (deaf, since) };
        let deaf_us = old.deaf_us.saturating_add(i64::try_from(deaf.as_micros()).unwrap_or(i64::MAX));
        let heard = Heard(tick.now.0.saturating_sub(deaf_us));
        let stretch_from = since.unwrap_or(heard);
        let broken = since != Some(old.stretch_from);
        let settled = heard.since(stretch_from) >= rules.stretch;
        let unsettled_since = match old.unsettled_since {
            _ if settled => None,
            Some(since) => Some(since),
            None => broken.then_some(stretch_from),
        };
        let verdicts_from = match unsettled_since {
            None => Heard::MIN,
            Some(since) => (stretch_from + rules.stretch).min(since + rules.at_last),
        };
        let at_last = unsettled_since.is_some_and(|since| heard.since(since) >= rules.at_last);
        let row = HearingRow {
            mark_at: tick.now.max(old.mark_at),
            deaf_us,
            stretch_from,
            unsettled_since,
            verdicts_from,
            alarmed: at_last || (old.alarmed && unsettled_since.is_some()),
        };
        let due = self.is_due(tick.now, rules);
        let changed = broken || unsettled_since != old.unsettled_since || row.alarmed != old.alarmed;
        let mark = due || changed;
        // Deaf time is measured from the last mark: one that is not made yet changes nothing.
        let own = Own { marked_at: tick.now, ..self.own };
        let hearing = if mark { Hearing { row, mono: tick.mono, age: Duration::ZERO, own } } else { *self };
        Listened { hearing, before: Some(*old), mark, deaf, alarm: at_last && !old.alarmed }
    }
}

/// How much of the time since `then` was too much for a server that is awake. `passed`: by the clock that nobody can set.
fn between(then: Time, passed: Duration, tick: Tick, rules: &HearingRules) -> Duration {
    let gap = tick.now.since(then);
    // The clock was set, or the machine slept: the two clocks do not agree.
    let jump = Some(gap.saturating_sub(passed)).filter(|jump| *jump > DRIFT_MAX).unwrap_or_default();
    // One that was set back is waited for, and may have stood almost still while this server did.
    let real = (gap - jump).max(passed);
    let late = if real > rules.mark_every + rules.late { real - rules.mark_every } else { Duration::ZERO };
    // Hearing time does not go back.
    (jump + late).min(gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn rules() -> HearingRules {
        HearingRules::new(60 * SECOND, 120 * SECOND)
    }

    /// A server, its clocks, and whatever happens to them.
    struct Server {
        hearing: Hearing,
        tick: Tick,
        alarms: u32,
    }

    impl Server {
        fn new() -> Server {
            let tick = Tick { now: Time(1_000_000_000_000), mono: Duration::ZERO };
            let started = Hearing::start(None, false, None, tick, &rules());
            assert!(started.mark);
            Server { hearing: started.hearing, tick, alarms: 0 }
        }

        fn listen(&mut self) -> Duration {
            self.hearing.wake(self.tick, &rules());
            let heard = self.hearing.listen(self.tick, true, &rules());
            self.take(heard)
        }

        fn take(&mut self, listened: Listened) -> Duration {
            self.alarms += u32::from(listened.alarm);
            self.hearing = listened.hearing;
            listened.deaf
        }

        /// Ticks in time.
        fn run(&mut self, time: Duration) {
            let steps = time.as_micros() / SECOND.as_micros();
            for _ in 0..steps {
                self.freeze(SECOND);
                assert_eq!(self.listen(), Duration::ZERO);
            }
        }

        /// Time in which the process does nothing.
        fn freeze(&mut self, time: Duration) {
            self.tick = Tick { now: self.tick.now + time, mono: self.tick.mono + time };
        }

        fn restart(&mut self, down: Duration) -> Duration {
            self.tick = Tick { now: self.tick.now + down, mono: Duration::ZERO };
            let started = Hearing::start(Some(self.hearing.row), false, None, self.tick, &rules());
            self.take(started)
        }

        fn heard(&self) -> Heard {
            self.hearing.clocks(self.tick.now).heard
        }

        fn judges(&self) -> bool {
            self.hearing.clocks(self.tick.now).may_judge(Heard::MIN)
        }
    }

    #[test]
    fn a_new_installation_was_never_deaf() {
        let mut server = Server::new();
        assert!(server.judges());
        server.run(HOUR);
        assert_eq!(server.heard(), Heard(server.tick.now.0));
        assert!(server.judges());
    }

    #[test]
    fn what_came_before_the_first_mark_is_given_time_to_call_in() {
        let tick = Tick { now: Time(5), mono: Duration::ZERO };
        let started = Hearing::start(None, true, None, tick, &rules()).hearing;
        assert_eq!(started.row.deaf_us, 0, "what is stored in wall time stays what it is");
        assert!(started.clocks(tick.now).is_quiet_stretch());
    }

    #[test]
    fn an_hour_down_does_not_count_and_a_stretch_of_hearing_follows() {
        let mut server = Server::new();
        server.run(MINUTE);
        let before = server.heard();
        server.restart(HOUR);
        assert!(server.heard().since(before) <= 2 * SECOND, "nothing of the hour was heard");
        assert!(!server.judges());
        server.run(89 * SECOND);
        assert!(!server.judges());
        server.run(SECOND);
        assert!(server.judges());
        assert_eq!(server.alarms, 0);
    }

    #[test]
    fn a_frozen_server_judges_nobody_for_it() {
        let mut server = Server::new();
        server.run(MINUTE);
        server.freeze(HOUR);
        let deaf = server.listen();
        assert!(deaf >= HOUR - 4 * SECOND && deaf <= HOUR, "{deaf:?}");
        assert!(!server.judges());
    }

    #[test]
    fn a_clock_set_ahead_and_a_machine_that_slept_are_deaf_time() {
        let mut server = Server::new();
        server.run(MINUTE);
        let before = server.heard();
        server.tick.now = server.tick.now + HOUR;
        assert_eq!(server.listen(), HOUR);
        assert_eq!(server.heard(), before);
    }

    #[test]
    fn a_server_that_was_frozen_while_its_clock_was_caught_up_with_judges_nobody_for_it() {
        let mut server = Server::new();
        server.run(MINUTE);
        let before = server.heard();
        // Its clock was set back by a quarter of a minute, and by the end of this true time has got as far.
        server.tick.mono += 16 * SECOND;
        server.tick.now = server.tick.now + SECOND;
        assert_eq!(server.listen(), SECOND, "no more than has passed by the installation's time");
        assert_eq!(server.heard(), before);
        assert!(!server.judges());
        server.run(89 * SECOND);
        assert!(!server.judges());
        server.run(SECOND);
        assert!(server.judges());
    }

    #[test]
    fn a_late_mark_on_a_busy_machine_is_not_deaf_time() {
        let mut server = Server::new();
        server.freeze(4 * SECOND);
        assert_eq!(server.listen(), Duration::ZERO);
        server.freeze(5 * SECOND);
        assert_eq!(server.listen(), 3 * SECOND);
    }

    #[test]
    fn a_server_that_crashes_again_and_again_judges_at_last_and_says_so_once() {
        let mut server = Server::new();
        server.run(MINUTE);
        let mut lives = 0;
        while !server.judges() || lives == 0 {
            server.restart(MINUTE);
            server.run(30 * SECOND);
            lives += 1;
            assert!(lives < 100, "it never decides");
        }
        assert!((39..=41).contains(&lives), "ten windows of hearing, half a minute at a time: {lives}");
        assert_eq!(server.alarms, 1);
        // It stays so, without another word, until it has heard for long enough at a time.
        server.restart(MINUTE);
        assert!(server.judges());
        server.run(90 * SECOND);
        assert_eq!((server.alarms, server.hearing.row.alarmed), (1, false));
        server.restart(MINUTE);
        assert!(!server.judges());
    }

    #[test]
    fn marks_are_made_in_time_and_not_more_often() {
        let mut server = Server::new();
        server.freeze(SECOND);
        assert!(!server.hearing.listen(server.tick, true, &rules()).mark);
        server.freeze(SECOND);
        assert!(server.hearing.listen(server.tick, true, &rules()).mark);
        assert!(server.hearing.is_fresh(server.tick.now, &rules()));
        server.freeze(MINUTE);
        assert!(!server.hearing.is_fresh(server.tick.now, &rules()));
    }

    /// Two servers on one row: `first` marks, then `second` reads what is there and marks.
    fn mark_in_turn(first: &mut Server, second: &mut Server, time: Duration) {
        for _ in 0..time.as_secs() {
            for server in [&mut *first, &mut *second] {
                server.freeze(SECOND);
            }
            first.hearing.take_over(second.hearing.row, first.tick);
            first.wake();
            second.hearing.take_over(first.hearing.row, second.tick);
            second.wake();
        }
    }

    impl Server {
        /// One of several looks up, and listens.
        fn wake(&mut self) -> Duration {
            let missed = self.hearing.wake(self.tick, &rules());
            if !missed.is_zero() {
                self.hearing.missed(missed, self.tick, &rules());
            }
            let listened = self.hearing.listen(self.tick, false, &rules());
            assert_eq!(self.take(listened), Duration::ZERO, "while a sibling hears nothing is deaf");
            missed
        }

        /// A second server starts.
        fn sibling(&self) -> Server {
            let tick = Tick { now: self.tick.now, mono: Duration::ZERO };
            let started = Hearing::start(Some(self.hearing.row), true, Some(self.heard()), tick, &rules());
            assert_eq!(started.deaf, Duration::ZERO);
            Server { hearing: started.hearing, tick, alarms: 0 }
        }
    }

    #[test]
    fn a_start_beside_a_sibling_changes_nothing_for_it() {
        let mut first = Server::new();
        first.run(MINUTE + SECOND);
        let mut second = first.sibling();
        mark_in_turn(&mut first, &mut second, 2 * SECOND);
        assert!(first.judges() && !second.judges(), "the one that starts has to listen first");
        assert_eq!((first.hearing.row.deaf_us, second.hearing.row.deaf_us), (0, 0));
        mark_in_turn(&mut first, &mut second, 90 * SECOND);
        assert!(first.judges() && second.judges());
    }

    #[test]
    fn what_one_server_missed_is_nobodys_deaf_time_and_it_judges_nobody_for_it() {
        let mut first = Server::new();
        first.run(MINUTE);
        let mut second = first.sibling();
        mark_in_turn(&mut first, &mut second, 2 * MINUTE);
        // One is frozen while the other goes on.
        second.freeze(HOUR);
        first.run(HOUR);
        second.hearing.take_over(first.hearing.row, second.tick);
        assert!(second.wake() > HOUR - 4 * SECOND);
        assert!(!second.judges() && first.judges());
        assert_eq!(second.hearing.row.deaf_us, 0);
        // What it misses again is not among the time after which it judges at last.
        mark_in_turn(&mut first, &mut second, 30 * SECOND);
        second.freeze(HOUR);
        first.run(HOUR);
        second.hearing.take_over(first.hearing.row, second.tick);
        second.wake();
        assert!(!second.judges());
    }

    #[test]
    fn who_is_left_alone_gives_everybody_the_time_that_it_missed_itself() {
        let mut first = Server::new();
        first.run(MINUTE);
        // It looked as if there was another one, but that had died right before.
        let mut second = first.sibling();
        second.freeze(SECOND);
        second.wake();
        assert!(second.hearing.row.unsettled_since.is_none());
        second.run(8 * SECOND);
        assert!(
            second.hearing.row.unsettled_since.is_some(),
            "a server that is started again and again decides at last"
        );
        assert!(!second.judges());
        second.run(90 * SECOND);
        assert!(second.judges());
    }

    #[test]
    fn servers_that_start_again_and_again_beside_each_other_judge_at_last() {
        let server = |started: i64, beat: i64| ServerRow {
            id: store::rows::ServerId(uuid::Uuid::nil()),
            generation: 0,
            address: String::new(),
            started_at: Time(started * 1_000_000),
            beat_at: Time(beat * 1_000_000),
            beat_heard: Heard(beat * 1_000_000),
            left_at: None,
        };
        let well = |rows: &[ServerRow]| rules().last_well(rows).map(|heard| heard.0 / 1_000_000);
        assert_eq!(well(&[server(0, 89), server(60, 149)]), Some(89), "none ever was");
        assert_eq!(well(&[server(0, 90), server(500, 900), server(901, 980)]), Some(900));

        let tick = Tick { now: Time(10_000_000_000), mono: Duration::ZERO };
        let row = Hearing::start(None, false, None, tick, &rules()).hearing.row;
        let starts = |well_ago: Duration| {
            let last_well = Heard((tick.now - well_ago).0);
            let hearing = Hearing::start(Some(row), true, Some(last_well), tick, &rules()).hearing;
            hearing.clocks(tick.now).may_judge(Heard::MIN)
        };
        assert!(!starts(20 * MINUTE - SECOND) && starts(20 * MINUTE));
    }

    /// One does not look up while the other goes on; then both do for half a minute.
    fn miss(late: &mut Server, awake: &mut Server) {
        late.freeze(5 * SECOND);
        for _ in 0..5 {
            awake.freeze(SECOND);
            awake.wake();
        }
        mark_in_turn(late, awake, 30 * SECOND);
    }

    #[test]
    fn servers_that_miss_something_again_and_again_beside_each_other_judge_at_last() {
        let mut first = Server::new();
        first.run(MINUTE);
        let mut second = first.sibling();
        mark_in_turn(&mut first, &mut second, 2 * MINUTE);
        let mut last = 0;
        for round in 1..=30 {
            miss(&mut first, &mut second);
            miss(&mut second, &mut first);
            if !first.judges() && !second.judges() {
                last = round;
            }
        }
        assert_eq!(last, 18, "in all each listens for ten windows, 66 s of 70 s");
        mark_in_turn(&mut first, &mut second, 90 * SECOND);
        miss(&mut first, &mut second);
        assert!(!first.judges() && second.judges(), "both were well, and one has missed something since");
    }

    #[test]
    fn who_is_left_alone_and_has_listened_for_long_judges_at_once() {
        let mut first = Server::new();
        first.run(MINUTE);
        let mut second = first.sibling();
        mark_in_turn(&mut first, &mut second, 10 * MINUTE);
        let missed_once = second.hearing.own.stretch_from;
        assert!(missed_once > second.hearing.row.stretch_from);
        second.run(8 * SECOND);
        assert!(second.judges() && second.hearing.row.unsettled_since.is_none());
        assert_eq!(second.hearing.row.stretch_from, missed_once);
    }

    #[test]
    fn a_dead_server_leaves_the_leases_that_it_renewed_their_time() {
        for (delay, window) in [(60_000, 120_000), (500, 1_000), (1_000, 2_000)] {
            let rules = HearingRules::new(Duration::from_millis(delay), Duration::from_millis(window));
            let last_answer = rules.mark_every + rules.late;
            let lease = Duration::from_millis(window) * 4 / 5;
            assert!(last_answer + lease < rules.afterlife + Duration::from_millis(window), "{window}");
        }
    }

    #[test]
    fn short_windows_have_short_marks() {
        let short = HearingRules::new(Duration::from_millis(500), SECOND);
        assert_eq!(short.mark_every, Duration::from_millis(125));
        assert_eq!(rules().mark_every, MARK_EVERY_MAX);
    }
}
