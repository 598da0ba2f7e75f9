//! The server's own lines in attempts' logs: what an outage held back, what is missing and why, and the last words of a
//! log whose end never came. Called by a worker's hello, by log frames, and when a log's time is over.

use std::time::Duration;

use engine::{AttemptId, Time};
use protocol::link::{HeldAttempt, Hello, MissingCause};
use store::rows::WorkerRow;
use store::{DueLog, LogClose, LogDeadline, LogMark, Store};

use crate::dispatch::LinkId;

use super::core::Core;
use super::links::LogPosition;
use super::round::Round;

/// Logs closed in one round; the rest follow in the next.
const CLOSES_PER_ROUND: usize = 500;

/// The time without a link that a hello ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outage {
    away: Away,
    lasted: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    /// The worker was there all the time and could not reach a server.
    Server,
    /// The worker process itself was not there.
    Worker,
}

/// What waited at the worker during an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Replay {
    events: u32,
    lines: u64,
    dropped: u64,
}

impl Outage {
    /// `before`: the worker's row as it was before this hello; `left_at`: when its link was seen to end, if it was.
    pub(super) fn of(hello: &Hello, before: &WorkerRow, left_at: Option<Time>, now: Time) -> Outage {
        let same_process = before.session.is_none_or(|session| session == hello.session);
        if same_process && hello.offline_ms > 0 {
            // The worker's own clock knows best: a server that was away saw nothing.
            return Outage { away: Away::Server, lasted: Duration::from_millis(hello.offline_ms) };
        }
        let since = left_at.or(before.last_seen_at).unwrap_or(now);
        Outage { away: if same_process { Away::Server } else { Away::Worker }, lasted: now.since(since) }
    }

    fn text(self, replay: Replay) -> String {
        let who = match self.away {
            Away::Server => "Orchestrator",
            Away::Worker => "Worker",
        };
        // Whole seconds, and never "for 0s".
        let seconds = self.lasted.as_secs_f64().round().max(1.0);
        let Replay { events, lines, dropped } = replay;
        let mut text = format!(
            "--- {who} offline for {seconds}s. Replaying {events} buffered events and {lines} buffered log lines."
        );
        if dropped > 0 {
            text.push_str(&format!(" {dropped} log lines dropped due to buffer overflow."));
        }
        text.push_str(" ---");
        text
    }
}

impl Replay {
    /// From what the server has and what the worker says that it has; none where nothing waited.
    fn of(held: &HeldAttempt, stored: LogPosition) -> Option<Replay> {
        let first = held.log_first_seq.max(stored.last_seq + 1);
        let lines = (held.log_last_seq + 1).saturating_sub(first);
        let gone = if lines > 0 { first - 1 - stored.last_seq } else { 0 };
        let replay = Replay { events: held.events, lines, dropped: gone.saturating_sub(stored.announced) };
        (replay.events > 0 || replay.lines > 0).then_some(replay)
    }
}

impl<S: Store> Core<S> {
    /// One mark per outage and attempt, where the lines that waited begin.
    pub(super) fn mark_outage(&mut self, link: LinkId, held: &HeldAttempt, outage: Outage, round: &mut Round) {
        let attempt = AttemptId(held.ticket.attempt);
        let Some(stored) = self.log_position(link, attempt, round) else { return };
        let Some(replay) = Replay::of(held, stored) else { return };
        self.mark(attempt, stored, replay.dropped, outage.text(replay), round);
        if let Some(known) = self.links.get_mut(&link).and_then(|l| l.logs.get_mut(&attempt)) {
            known.announced += replay.dropped;
        }
    }

    /// Says in its place what is missing, unless that was said already.
    pub(super) fn mark_gap(
        &mut self,
        attempt: AttemptId,
        stored: LogPosition,
        gap: u64,
        cause: MissingCause,
        round: &mut Round,
    ) {
        let unsaid = gap.saturating_sub(stored.announced);
        if unsaid > 0 {
            self.mark(attempt, stored, unsaid, gap_text(unsaid, cause), round);
        }
    }

    fn mark(&mut self, attempt: AttemptId, stored: LogPosition, missing: u64, text: String, round: &mut Round) {
        round.marks.push(LogMark { attempt, after_seq: stored.last_seq, at: round.now, missing, text });
    }

    /// Attempts that ended or were lost in this round, and whose log is not whole: it has one window to come.
    pub(super) fn set_log_deadlines(&self, round: &mut Round) {
        let window = self.config.rules.recovery_window;
        let over: Vec<(AttemptId, Time)> = round.over().filter(|(attempt, _)| !round.whole.contains(attempt)).collect();
        for (attempt, ended_at) in over {
            let end_seq = round.log_ends.get(&attempt).copied();
            round.log_deadlines.push(LogDeadline { attempt, close_at: ended_at + window, end_seq });
        }
    }

    /// Closes logs whose time is over, so that nobody waits for them for ever.
    pub(super) fn close_due_logs(&mut self, round: &mut Round) -> Result<(), store::StoreError> {
        let window = self.config.rules.recovery_window;
        let clocks = round.clocks;
        for due in self.store.due_logs(round.now, CLOSES_PER_ROUND)? {
            if !self.closes(due) {
                continue;
            }
            if clocks.is_quiet_stretch() {
                // Nobody could be heard for a while: workers have the time to call in first.
                let close_at = clocks.wall(clocks.verdicts_from);
                round.log_deadlines.push(LogDeadline { attempt: due.attempt, close_at, end_seq: due.end_seq });
                continue;
            }
            // Its lines are just coming in: it has as long again after the last of them.
            let moved_at =
                self.links.values().filter_map(|l| l.logs.get(&due.attempt)).filter_map(|p| p.moved_at).max();
            if let Some(close_at) = moved_at.map(|at| at + window).filter(|at| *at > round.now) {
                round.log_deadlines.push(LogDeadline { attempt: due.attempt, close_at, end_seq: due.end_seq });
                continue;
            }
            let stored = round.stands(due.attempt, self.store.reader().log_state(due.attempt)?.into());
            let text = closing_text(due, stored.announced);
            for position in self.links.values_mut().filter_map(|l| l.logs.get_mut(&due.attempt)) {
                position.closed = text.is_some();
            }
            round.log_closes.push(LogClose { attempt: due.attempt, after_seq: due.last_seq, text });
            self.ask_for_refused(due.attempt, round);
        }
        Ok(())
    }

    /// The server that has the worker's link knows whether lines are just coming in; else any one of them closes it.
    fn closes(&self, due: DueLog) -> bool {
        match due.worker.and_then(|worker| self.roster.get(worker)) {
            Some(worker) if worker.link.is_some() => true,
            Some(worker) if worker.elsewhere => false,
            Some(_) | None => self.siblings.sees_to_log(due.attempt),
        }
    }
}

fn gap_text(count: u64, cause: MissingCause) -> String {
    match cause {
        MissingCause::Limit => format!("--- {count} log lines dropped due to buffer overflow. ---"),
        MissingCause::Unwritten => format!("--- {count} log lines lost: the worker's disk did not take them. ---"),
        MissingCause::Damaged => format!("--- {count} log lines lost: the worker's log file is damaged. ---"),
        MissingCause::Other => format!("--- {count} log lines lost. ---"),
    }
}

/// None where no line is missing but those of which that was said: only the word that the log is whole did not come.
fn closing_text(due: DueLog, announced: u64) -> Option<String> {
    match due.end_seq.map(|end| end.saturating_sub(due.last_seq + announced)) {
        Some(0) => None,
        Some(missing) => Some(format!("--- {missing} log lines were not received: worker lost ---")),
        None => Some("--- an unknown number of log lines were not received: worker lost ---".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::Ticket;
    use protocol::link::HeldState;
    use uuid::Uuid;

    use super::*;

    fn held(first: u64, last: u64, events: u32) -> HeldAttempt {
        HeldAttempt {
            ticket: Ticket { attempt: Uuid::nil(), fence: 1 },
            job: Uuid::nil(),
            step: String::new(),
            state: HeldState::Running,
            log_first_seq: first,
            log_last_seq: last,
            events,
            unsure: false,
        }
    }

    #[test]
    fn what_waited_is_counted_from_both_sides() {
        let at = |last_seq, announced| LogPosition { last_seq, announced, ..LogPosition::default() };
        let replay = |held, stored| Replay::of(&held, stored).map(|r| (r.events, r.lines, r.dropped));
        assert_eq!(replay(held(0, 0, 0), at(0, 0)), None);
        assert_eq!(replay(held(1, 250, 0), at(250, 0)), None, "all of it is here");
        assert_eq!(replay(held(1, 250, 0), at(300, 0)), None, "more than all of it");
        assert_eq!(replay(held(1, 250, 12), at(12, 0)), Some((12, 238, 0)));
        assert_eq!(replay(held(1, 250, 1), at(250, 0)), Some((1, 0, 0)));
        assert_eq!(replay(held(101, 150, 0), at(20, 0)), Some((0, 50, 80)));
        assert_eq!(replay(held(101, 150, 0), at(20, 60)), Some((0, 50, 20)), "sixty were said to be gone before");
    }

    #[test]
    fn the_words() {
        let text = |away, seconds, events, lines, dropped| {
            let outage = Outage { away, lasted: Duration::from_secs_f64(seconds) };
            outage.text(Replay { events, lines, dropped })
        };
        assert_eq!(
            text(Away::Server, 45.2, 12, 238, 0),
            "--- Orchestrator offline for 45s. Replaying 12 buffered events and 238 buffered log lines. ---"
        );
        assert_eq!(
            text(Away::Worker, 0.2, 0, 180, 2847),
            "--- Worker offline for 1s. Replaying 0 buffered events and 180 buffered log lines. \
             2847 log lines dropped due to buffer overflow. ---"
        );
        let attempt = AttemptId(Uuid::nil());
        let due = |last_seq, end_seq| closing_text(DueLog { attempt, last_seq, end_seq, worker: None }, 0);
        assert_eq!(due(3, Some(9)).as_deref(), Some("--- 6 log lines were not received: worker lost ---"));
        assert_eq!(due(9, Some(9)), None);
        assert!(due(9, None).is_some_and(|text| text.contains("log lines were not received: worker lost")));
    }
}
