//! Who could be heard, in truth: how long the installation listened, as its commits show, when each worker was last heard in
//! words that reached the database, and which runners are frozen. The checkers of silence and of what runs on read it.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{AttemptId, Time, WorkerId};
use store::Batch;

use super::pulse::Pulse;
use crate::setup::Setup;

/// A mark comes every two seconds and may be late by as much, by a clock that is set back by a little or goes slower for a
/// while; a longer pause between commits is time in which nobody listened.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Within this there is a mark.
const MARK_EVERY: Duration = Duration::from_secs(2);

/// A server that decides later than this after the last mark, or after it last did, may take that time for deaf, though it
/// is too short for [`PAUSE_MAX`].
const LATE_MIN: Duration = Duration::from_secs(4);

/// The last windows of hearing after which even an installation that is never well judges.
const WINDOWS_AT_LAST: u32 = 10;

/// The installation's time goes by a tenth faster at most where a clock is followed that was set. What comes at once and is
/// more than this is a leap.
const LEAP_MIN: Duration = Duration::from_secs(1);

pub(crate) struct Ears {
    /// So much hearing in a row, and silence may be judged.
    pub stretch: Duration,
    at_last: Duration,
    pub(super) pulse: Pulse,
    /// All time in which somebody listened.
    listened: Duration,
    /// What had been listened to at the end of the last pause, and at the end of the first one since it was last well.
    unbroken_from: Duration,
    unwell_from: Option<Duration>,
    /// What had been listened to when marks were last lost.
    marks_lost_at: Option<Duration>,
    /// Each server judges only after it has listened by itself.
    servers: BTreeMap<usize, Listener>,
    /// When each server's ledger last took up what had come: what it commits was not heard later, however long that takes.
    turns: BTreeMap<usize, Turn>,
    /// When the last mark that is on record was decided on, whoever made it.
    marked: Option<Duration>,
    /// What had been listened to without a pause when the last batch was decided on.
    decided_after: Duration,
    /// What had been listened to when the last one went that had listened for long enough.
    nobody_judges_from: Option<Duration>,
    /// How far ahead of true time commits have been at most, in microseconds, and when; and what had been listened to at the last leap.
    ahead: Option<(i64, Duration)>,
    leapt_from: Option<Duration>,
    workers: BTreeMap<WorkerId, Voice>,
    frozen: BTreeMap<AttemptId, Freeze>,
    /// Since when each host's disk works that ever failed; none while it fails.
    disks: BTreeMap<usize, Option<Duration>>,
}

/// A ledger takes up what has come: when, and what had been listened to without a pause.
#[derive(Debug, Clone, Copy)]
struct Turn {
    at: Duration,
    unbroken: Duration,
}

/// A server: when it last committed, and what had been listened to when it began to.
#[derive(Debug, Clone, Copy)]
struct Listener {
    last: Duration,
    from: Duration,
}

/// When a worker was last heard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Voice {
    pub hello: Duration,
    pub seen: Duration,
}

/// When a runner was last stopped, and when it goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freeze {
    pub from: Duration,
    pub until: Duration,
}

impl Ears {
    /// A server starts where none was: however short the pause, the stretch of hearing begins anew.
    pub(super) fn server_starts(&mut self) {
        self.unbroken_from = self.listened;
        self.unwell_from.get_or_insert(self.listened);
    }

    /// The marks of so much hearing are lost. Who reads only what is left was deaf for as long, and its stretch begins anew;
    /// one that remembers may judge all the same.
    pub(super) fn forgets(&mut self, lost: Duration) {
        if lost >= MARK_EVERY {
            self.marks_lost_at = Some(self.listened);
        }
    }

    /// Whether the marks that are left may speak of a stretch that is too short for a verdict, give or take `slack`.
    pub(crate) fn may_have_begun_anew(&self, slack: Duration) -> bool {
        self.marks_lost_at.is_some_and(|at| self.listened - at < self.stretch + slack)
    }

    pub(crate) fn new(setup: &Setup) -> Ears {
        let reconnect = Duration::from_millis(setup.core.link.max_reconnect_delay_ms);
        Ears {
            stretch: reconnect.mul_f64(1.5),
            at_last: setup.core.rules.recovery_window * WINDOWS_AT_LAST,
            pulse: Pulse::default(),
            listened: Duration::ZERO,
            unbroken_from: Duration::ZERO,
            unwell_from: None,
            marks_lost_at: None,
            servers: BTreeMap::new(),
            turns: BTreeMap::new(),
            marked: None,
            decided_after: Duration::ZERO,
            nobody_judges_from: None,
            ahead: None,
            leapt_from: None,
            workers: BTreeMap::new(),
            frozen: BTreeMap::new(),
            disks: BTreeMap::new(),
        }
    }

    /// A server starts, whoever else is there.
    pub(super) fn server_starts_anew(&mut self, server: usize) {
        self.servers.remove(&server);
    }

    pub(super) fn server_dies(&mut self, server: usize) {
        self.turns.remove(&server);
    }

    pub(super) fn turn_begins(&mut self, now: Duration, server: usize) {
        let unbroken = if self.pulse.pauses(now, PAUSE_MAX) { Duration::ZERO } else { self.unbroken() };
        let before = self.turns.insert(server, Turn { at: now, unbroken });
        let late = |then: Duration| Some(now.saturating_sub(then)).filter(|gap| *gap > LATE_MIN);
        let missed = before.and_then(|turn| late(turn.at));
        if missed.is_some() {
            self.servers.remove(&server);
        }
        // The mark is everybody's: where it is late, nobody has listened.
        let deaf = self.marked.and_then(late);
        if deaf.is_some() {
            self.servers.clear();
        }
        // Nor is it among the time after which they judge at last. A longer pause of all is not counted, anyway.
        let gap = deaf.map_or(missed, |gap| Some(gap).filter(|gap| *gap <= PAUSE_MAX)).unwrap_or_default();
        let listened = self.listened;
        self.nobody_judges_from = self.nobody_judges_from.map(|from| (from + gap).min(listened));
    }

    pub(crate) fn committed(&mut self, now: Duration, server: usize, batch: &Batch) {
        match self.pulse.beat(now, PAUSE_MAX) {
            Some(more) => self.listened += more,
            None => {
                self.unbroken_from = self.listened;
                self.unwell_from.get_or_insert(self.listened);
            }
        }
        if self.unbroken() >= self.stretch {
            self.unwell_from = None;
        }
        self.server_listens(now, server);
        self.time_goes_by(now, batch.now);
        for hello in &batch.hellos {
            self.workers.insert(hello.id, Voice { hello: now, seen: now });
        }
        let turn = self.turns.get(&server).copied().unwrap_or(Turn { at: now, unbroken: self.unbroken() });
        self.decided_after = turn.unbroken;
        if batch.hearing.is_some() {
            self.marked = self.marked.max(Some(turn.at));
        }
        for (worker, _) in &batch.seen {
            let voice = self.workers.entry(*worker).or_default();
            voice.seen = voice.seen.max(turn.at);
        }
    }

    fn server_listens(&mut self, now: Duration, server: usize) {
        let begins = Listener { last: now, from: self.listened };
        let listener = self.servers.entry(server).or_insert(begins);
        *listener = if now - listener.last > PAUSE_MAX { begins } else { Listener { last: now, ..*listener } };
        self.servers.retain(|_, listener| now - listener.last <= PAUSE_MAX);
        if self.longest() >= self.stretch {
            self.nobody_judges_from = None;
        } else {
            self.nobody_judges_from.get_or_insert(self.listened);
        }
    }

    /// A server that starts takes its clock as it is, and the installation's time leaps with it. Nobody can say who was
    /// heard in the time between: it is deaf, and hearing begins anew.
    fn time_goes_by(&mut self, now: Duration, at: Time) {
        let ahead = at.0 - i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        // Of a clock that was set back it loses a tenth at most.
        let most = self.ahead.map(|(most, at)| most - micros(now.saturating_sub(at)) / 10);
        if most.is_some_and(|most| ahead > most + micros(LEAP_MIN)) {
            self.leapt_from = Some(self.listened);
        }
        if most.is_none_or(|most| ahead >= most) {
            self.ahead = Some((ahead, now));
        }
    }

    /// A server was frozen, or its machine asleep. However short that was: by its clocks, or as its mark comes late, it may count as
    /// deaf, and hearing as begun anew.
    pub(crate) fn server_goes_on(&mut self) {
        self.leapt_from = Some(self.listened);
    }

    /// Too little was heard since the installation's time leapt, give or take `slack`.
    pub(crate) fn has_leapt(&self, slack: Duration) -> bool {
        self.leapt_from.is_some_and(|from| self.listened - from < self.stretch + slack)
    }

    /// The installation's time has leapt since so much had been listened to.
    pub(crate) fn has_leapt_since(&self, listened: Duration) -> bool {
        self.leapt_from.is_some_and(|from| from >= listened)
    }

    /// For how long the one server that has listened for longest has.
    fn longest(&self) -> Duration {
        self.servers.values().map(|listener| self.listened - listener.from).max().unwrap_or_default()
    }

    /// No server has listened for long enough by itself, give or take `slack`, and that has not been so for too long.
    pub(crate) fn is_without_judge(&self, slack: Duration) -> bool {
        let young = self.longest() < self.stretch + slack;
        young && self.nobody_judges_from.is_none_or(|from| self.listened - from < self.at_last + slack)
    }

    pub(crate) fn runner_freezes(&mut self, attempt: AttemptId, from: Duration, until: Duration) {
        self.frozen.insert(attempt, Freeze { from, until });
    }

    pub(crate) fn listened(&self) -> Duration {
        self.listened
    }

    /// This server has been committing for so long, up to now.
    pub(crate) fn has_committed_for(&self, server: usize, time: Duration) -> bool {
        self.servers.get(&server).is_some_and(|listener| self.listened - listener.from > time)
    }

    /// Listened to without a pause up to now.
    pub(crate) fn unbroken(&self) -> Duration {
        self.listened - self.unbroken_from
    }

    /// Whether silence may be judged, give or take `slack`.
    pub(crate) fn may_judge(&self, slack: Duration) -> bool {
        let at_last = self.unwell_from.is_none_or(|from| self.listened - from + slack >= self.at_last);
        at_last || self.unbroken() + slack >= self.stretch
    }

    /// The same for what the last batch decided: its commit may have taken long.
    pub(crate) fn might_judge(&self, slack: Duration) -> bool {
        self.may_judge(slack) || self.decided_after + slack >= self.stretch
    }

    pub(crate) fn disk_fails(&mut self, host: usize) {
        self.disks.insert(host, None);
    }

    pub(crate) fn disk_works(&mut self, now: Duration, host: usize) {
        self.disks.entry(host).and_modify(|since| *since = since.or(Some(now)));
    }

    /// Since when a host's disk works; none while it fails.
    pub(crate) fn disk_works_since(&self, host: usize) -> Option<Duration> {
        self.disks.get(&host).copied().unwrap_or(Some(Duration::ZERO))
    }

    pub(crate) fn worker(&self, id: WorkerId) -> Voice {
        self.workers.get(&id).copied().unwrap_or_default()
    }

    /// Whatever is frozen goes on.
    pub(crate) fn peace(&mut self, now: Duration) {
        self.frozen.values_mut().for_each(|freeze| freeze.until = freeze.until.min(now));
    }

    pub(crate) fn freeze(&self, attempt: AttemptId) -> Option<Freeze> {
        self.frozen.get(&attempt).copied()
    }

    pub(crate) fn freezes(&self) -> impl Iterator<Item = (AttemptId, Freeze)> {
        self.frozen.iter().map(|(id, freeze)| (*id, *freeze))
    }
}
