//! Files that come before a step and stay after it: what earlier steps left is fetched before the runner is told to go, and
//! what the step leaves is stored before its end is reported. Dependants that the report releases can rely on it.
//!
//! ```text
//!  go ─► fetch ─► ask again ─► go ─► …runs… ─► ended ─► store ─► report
//! ```
//!
//! Somebody else carries the bytes, and tries again for as long as it takes. The agent decides when that is enough: with a
//! link, and without a single byte of progress for [`PATIENCE`]; or, where the step was told to stop, after
//! [`AFTER_STOP`], since the server waits for that. Without a link nothing could be reported anyway.

use std::time::Duration;

use planted::Bug;
use protocol::attempt::{
    ArtifactRule, ArtifactSet, Artifacts, AttemptSpec, End, EndResult, KeepWhen, StopMode, Ticket,
};

use super::Agent;
use super::event::Action;
use super::held::{Held, Phase};

/// How long nothing may move, while there is a link, before the step fails for it.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a step that was told to stop may take to leave its files. The server waits for a minute beyond the rest.
const AFTER_STOP: Duration = Duration::from_secs(50);
/// A server that needs the room keeps a set that nobody names for two hours; one that was seen there longer ago than this is asked
/// for again.
const SEEN_FOR: Duration = Duration::from_secs(1800);

/// What an attempt has to do with files of others and for others.
#[derive(Debug, Default)]
pub(super) struct Files {
    rule: Option<KeepWhen>,
    fetch: Fetch,
    keep: Keep,
    /// Until then they must be stored, since the step was told to stop.
    until: Option<Duration>,
}

#[derive(Debug, Default, PartialEq)]
enum Fetch {
    #[default]
    Nothing,
    Wanted,
    UnderWay {
        moved_at: Duration,
    },
    Done,
    Failed {
        why: String,
    },
}

#[derive(Debug, Default, PartialEq)]
enum Keep {
    /// There is nothing to store, or not yet.
    #[default]
    Nothing,
    Wanted,
    UnderWay {
        moved_at: Duration,
    },
    Done {
        set: ArtifactSet,
        seen_at: Duration,
    },
    Failed {
        why: String,
    },
}

impl Files {
    pub(super) fn of(spec: &AttemptSpec) -> Self {
        Files::found(spec.artifacts.as_ref(), !spec.fetch.is_empty())
    }

    pub(super) fn found(rule: Option<&ArtifactRule>, fetches: bool) -> Self {
        let fetch = if fetches { Fetch::Wanted } else { Fetch::Nothing };
        Files { rule: rule.map(|rule| rule.when), fetch, keep: Keep::Nothing, until: None }
    }

    /// The attempt has ended like this: whether it leaves anything.
    pub(super) fn ended(&mut self, end: &End) {
        let well = end.result == EndResult::Exited { code: 0 } && end.stopped.is_none() && end.output_error.is_none();
        let began = !matches!(end.result, EndResult::SpawnFailed { .. });
        let leaves = match self.rule {
            None => false,
            Some(KeepWhen::Success) => well,
            Some(KeepWhen::Always) => began && (well || !planted::is(Bug::FailuresLeaveNothing)),
        };
        if leaves && self.keep == Keep::Nothing {
            self.keep = Keep::Wanted;
        }
    }

    /// Whether its report has to wait.
    pub(super) fn is_storing(&self) -> bool {
        !planted::is(Bug::ReportedBeforeStored) && matches!(self.keep, Keep::Wanted | Keep::UnderWay { .. })
    }

    pub(super) fn is_fetching(&self) -> bool {
        matches!(self.fetch, Fetch::UnderWay { .. })
    }

    fn is_moving(&self) -> bool {
        self.is_fetching() || matches!(self.keep, Keep::UnderWay { .. })
    }

    /// For the report.
    pub(super) fn stored(&self) -> Option<Artifacts> {
        match &self.keep {
            Keep::Nothing | Keep::Wanted | Keep::UnderWay { .. } => None,
            Keep::Done { set, .. } => Some(Artifacts::Stored(set.clone())),
            Keep::Failed { why } => Some(Artifacts::Failed(why.clone())),
        }
    }

    /// What the runner is told where nothing could be fetched.
    pub(super) fn cannot(&self) -> Option<String> {
        match &self.fetch {
            Fetch::Failed { why } => Some(why.clone()),
            Fetch::Nothing | Fetch::Wanted | Fetch::UnderWay { .. } | Fetch::Done => None,
        }
    }

    fn moved_at(&mut self) -> Option<&mut Duration> {
        match (&mut self.fetch, &mut self.keep) {
            (Fetch::UnderWay { moved_at }, _) | (_, Keep::UnderWay { moved_at }) => Some(moved_at),
            _ => None,
        }
    }

    fn patience_ends(&self) -> Option<Duration> {
        match (&self.fetch, &self.keep) {
            (Fetch::UnderWay { moved_at }, _) => Some(*moved_at + PATIENCE),
            (_, Keep::UnderWay { moved_at }) => {
                let patience = *moved_at + PATIENCE;
                Some(self.until.map_or(patience, |until| until.min(patience)))
            }
            _ => None,
        }
    }

    /// It was told to stop, by a server that waits for its files: they have this long from now on, and no longer if that is said again.
    fn hurry(&mut self, now: Duration) {
        self.until.get_or_insert(now + AFTER_STOP);
    }
}

impl Held {
    /// The worker itself is busy with the attempt's files: no runner speaks for it.
    pub(super) fn is_carried(&self) -> bool {
        match self.phase {
            Phase::Waiting => self.files.is_fetching(),
            Phase::Ended { .. } => self.files.is_storing(),
            Phase::Preparing { .. }
            | Phase::Going
            | Phase::Running { .. }
            | Phase::Unreadable
            | Phase::Voiding { .. }
            | Phase::Lost { .. } => false,
        }
    }
}

impl Agent {
    /// Whether the runner may be told to go; if not, what it needs is being fetched, and the server is asked again after.
    pub(super) fn has_its_files(&mut self, ticket: Ticket, now: Duration) -> bool {
        let Some(held) = self.held.get_mut(&ticket) else { return false };
        match held.files.fetch {
            Fetch::Nothing | Fetch::Done | Fetch::Failed { .. } => true,
            Fetch::Wanted | Fetch::UnderWay { .. } if planted::is(Bug::FetchSkipped) => true,
            Fetch::UnderWay { .. } => false,
            Fetch::Wanted => {
                held.files.fetch = Fetch::UnderWay { moved_at: now };
                // With one step to run, the first that is granted is the one.
                self.draining |= self.once;
                self.out.push(Action::Fetch { ticket });
                false
            }
        }
    }

    pub(super) fn fetched(&mut self, ticket: Ticket, outcome: Result<(), String>, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        if !held.files.is_fetching() {
            return;
        }
        held.files.fetch = match outcome {
            Ok(()) => Fetch::Done,
            Err(why) => Fetch::Failed { why },
        };
        if held.phase == Phase::Waiting {
            self.ask_for_fresh_leave(ticket, now);
        }
    }

    /// Whether the end can be told; if not, what it leaves is being stored first.
    pub(super) fn has_left_its_files(&mut self, ticket: Ticket, now: Duration) -> bool {
        let link_stands = self.out.link_stands;
        let Some(held) = self.held.get_mut(&ticket) else { return false };
        if let Phase::Ended { end } = &held.phase {
            held.files.ended(end);
        }
        if matches!(held.files.keep, Keep::Done { seen_at, .. } if now >= seen_at + SEEN_FOR) {
            held.files.keep = Keep::Wanted;
        }
        if held.files.keep == Keep::Wanted && link_stands {
            held.files.keep = Keep::UnderWay { moved_at: now };
            if matches!(&held.phase, Phase::Ended { end } if end.stopped.is_some()) {
                held.files.hurry(now);
            }
            self.out.push(Action::Store { ticket });
        }
        !held.files.is_storing()
    }

    pub(super) fn stored(&mut self, ticket: Ticket, outcome: Result<ArtifactSet, String>, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        if !matches!(held.files.keep, Keep::UnderWay { .. }) {
            return;
        }
        held.files.until = None;
        held.files.keep = match outcome {
            Ok(set) => Keep::Done { set, seen_at: now },
            Err(why) => Keep::Failed { why },
        };
        self.say_bye(ticket);
        self.say_report(ticket, now);
    }

    /// Some bytes more.
    pub(super) fn files_moved(&mut self, ticket: Ticket, now: Duration) {
        if let Some(moved_at) = self.held.get_mut(&ticket).and_then(|held| held.files.moved_at()) {
            *moved_at = now;
        }
    }

    /// Time that was spent on waiting for others is no silence.
    pub(super) fn files_waited(&mut self, ticket: Ticket, waited: Duration, now: Duration) {
        if let Some(moved_at) = self.held.get_mut(&ticket).and_then(|held| held.files.moved_at()) {
            *moved_at = (*moved_at + waited).min(now);
        }
    }

    /// The attempt was told to stop, and has ended: what it leaves in any case may still come, if nobody is in a hurry.
    pub(super) fn stop_storing(&mut self, ticket: Ticket, mode: StopMode, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket).filter(|held| held.files.is_storing()) else { return };
        if mode == StopMode::Graceful && held.files.rule == Some(KeepWhen::Always) {
            held.files.hurry(now);
        } else {
            self.give_up_files(ticket, "the step was told to stop before they were stored", now);
        }
    }

    /// Nobody wants to wait for the attempt's files any more: it ends as it is.
    pub(super) fn give_up_files(&mut self, ticket: Ticket, why: &str, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        if held.files.is_fetching() {
            held.files.fetch = Fetch::Failed { why: why.to_owned() };
            self.out.push(Action::StopFiles { ticket });
            if held.phase == Phase::Waiting && self.out.link_stands {
                self.ask_anew(ticket, now);
            }
        } else if held.files.is_storing() {
            held.files.keep = Keep::Failed { why: why.to_owned() };
            self.out.push(Action::StopFiles { ticket });
            self.say_bye(ticket);
            self.say_report(ticket, now);
        }
    }

    /// On a new link patience begins anew.
    pub(super) fn link_is_back_for_files(&mut self, now: Duration) {
        for moved_at in self.held.values_mut().filter_map(|held| held.files.moved_at()) {
            *moved_at = now;
        }
    }

    pub(super) fn keep_patience_with_files(&mut self, now: Duration) {
        if !self.out.link_stands {
            return;
        }
        let over = |held: &Held| held.files.patience_ends().is_some_and(|at| now >= at);
        let tickets: Vec<Ticket> = self
            .held
            .iter()
            .filter(|(_, held)| held.files.is_moving() && over(held))
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in tickets {
            let hurried = self.held.get(&ticket).and_then(|held| held.files.until).is_some_and(|until| now >= until);
            let why = match hurried {
                true => {
                    format!("the step was told to stop, and they were not stored within {} s", AFTER_STOP.as_secs())
                }
                false => format!("nothing of it moved for {} s", PATIENCE.as_secs()),
            };
            self.give_up_files(ticket, &why, now);
        }
    }

    pub(super) fn files_deadline(&self) -> Option<Duration> {
        let ends = self.held.values().filter_map(|held| held.files.patience_ends());
        ends.min().filter(|_| self.out.link_stands)
    }
}
