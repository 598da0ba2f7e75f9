//! How the database treats one server: the world's orders, and what becomes of each call by them.
//!
//! Nothing here is left to chance; the world decides what is to happen, and to whom.

use std::time::Duration;

use engine::JobId;
use store::Batch;

use crate::dice::Dice;

/// Orders for one server. They stay until they are carried out or taken back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble {
    /// Nothing can be read or written.
    pub away: bool,
    pub falter: Option<Falter>,
    pub flaky: Option<Flaky>,
    /// The next commits do not happen, and the server is told so as if the database were away.
    pub errors: u32,
    /// The next commits happen, and their answers are lost.
    pub answers_lost: u32,
    /// The same of what is written besides rounds.
    pub answers_lost_aside: u32,
    /// The next commits are refused, as if one row of them could never be written.
    pub refusals: u32,
    pub poison: Poison,
    /// Before so many of the next commits that change a job, another server rewrites it.
    pub conflicts: u32,
    /// The next commit takes so long; whoever runs the server sees to that.
    pub pause: Option<Duration>,
    /// So many commits went through since the world began.
    pub commits: u64,
    pub struck: Struck,
}

/// How often each order hit something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Struck {
    pub falters: u64,
    pub flukes: u64,
    pub errors: u64,
    pub answers_lost: u64,
    pub answers_lost_aside: u64,
    pub refusals: u64,
    pub poisoned: u64,
    pub conflicts: u64,
    pub pauses: u64,
}

/// Trouble in the middle of a round: so many calls go through, the next ones fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Falter {
    pub after: u32,
    pub calls: u32,
}

/// Calls fail now and then, each by itself: whatever is asked for may be what cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct Flaky {
    one_in: u64,
    dice: Dice,
}

impl Flaky {
    pub(crate) fn new(one_in: u64, salt: u64) -> Flaky {
        Flaky { one_in, dice: Dice::new(salt, "flaky") }
    }
}

/// An event that the database can never take, alone or with others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Poison {
    #[default]
    None,
    /// The first event of the next commit that has any.
    Next,
    Event {
        job: JobId,
        reason: String,
    },
}

/// What becomes of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Happens,
    /// It happens, and the server hears that it did not.
    AnswerLost,
    Error,
    Refused,
}

impl Trouble {
    /// Whether the database can be reached by the call that is made now.
    pub(crate) fn lets_through(&mut self) -> bool {
        if self.away {
            return false;
        }
        if let Some(flaky) = &mut self.flaky
            && flaky.dice.between(1, flaky.one_in) == 1
        {
            self.struck.flukes += 1;
            return false;
        }
        match &mut self.falter {
            None => true,
            Some(Falter { after: 0, calls }) => {
                *calls = calls.saturating_sub(1);
                if *calls == 0 {
                    self.falter = None;
                }
                self.struck.falters += 1;
                false
            }
            Some(Falter { after, .. }) => {
                *after -= 1;
                true
            }
        }
    }

    /// A job of this batch that another server is to write first.
    pub(crate) fn rival(&mut self, batch: &Batch) -> Option<JobId> {
        let known = batch.jobs.iter().find(|write| write.expected.is_some())?;
        take_one(&mut self.conflicts, &mut self.struck.conflicts).then_some(known.row.id)
    }

    pub(crate) fn fate(&mut self, batch: &Batch) -> Fate {
        if take_one(&mut self.errors, &mut self.struck.errors) {
            Fate::Error
        } else if self.is_poisoned(batch) || take_one(&mut self.refusals, &mut self.struck.refusals) {
            Fate::Refused
        } else if take_one(&mut self.answers_lost, &mut self.struck.answers_lost) {
            Fate::AnswerLost
        } else {
            Fate::Happens
        }
    }

    /// Whether the answer to what is written now, besides a round, is lost.
    pub(crate) fn loses_answer_aside(&mut self) -> bool {
        take_one(&mut self.answers_lost_aside, &mut self.struck.answers_lost_aside)
    }

    /// How long the commit that is made now takes.
    pub(crate) fn take_pause(&mut self) -> Option<Duration> {
        let pause = self.pause.take()?;
        self.struck.pauses += 1;
        Some(pause)
    }

    fn is_poisoned(&mut self, batch: &Batch) -> bool {
        if self.poison == Poison::Next
            && let Some(event) = batch.events.first()
        {
            self.poison = Poison::Event { job: event.job, reason: event.reason.clone() };
        }
        let is_in_it = match &self.poison {
            Poison::None | Poison::Next => false,
            Poison::Event { job, reason } => {
                batch.events.iter().any(|event| event.job == *job && event.reason == *reason)
            }
        };
        self.struck.poisoned += u64::from(is_in_it);
        is_in_it
    }
}

fn take_one(ordered: &mut u32, struck: &mut u64) -> bool {
    let any = *ordered > 0;
    *ordered -= u32::from(any);
    *struck += u64::from(any);
    any
}

#[cfg(test)]
mod tests {
    use engine::Time;
    use store::rows::EventRow;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn it_falters_once_in_the_middle() {
        let mut trouble = Trouble { falter: Some(Falter { after: 2, calls: 3 }), ..Trouble::default() };
        let through: Vec<bool> = (0..8).map(|_| trouble.lets_through()).collect();
        assert_eq!(through, [true, true, false, false, false, true, true, true]);
        trouble.away = true;
        assert!(!trouble.lets_through());
    }

    #[test]
    fn it_fails_now_and_then_until_it_is_steady_again() {
        let through = |salt| -> Vec<bool> {
            let mut trouble = Trouble { flaky: Some(Flaky::new(5, salt)), ..Trouble::default() };
            (0..100).map(|_| trouble.lets_through()).collect()
        };
        let failed = through(7).iter().filter(|through| !**through).count();
        assert!((5..50).contains(&failed), "{failed}");
        assert_eq!(through(7), through(7));
        assert_ne!(through(7), through(8));
    }

    #[test]
    fn each_order_is_carried_out_as_often_as_it_was_given() {
        let mut trouble = Trouble { errors: 1, refusals: 2, answers_lost: 1, ..Trouble::default() };
        let fates: Vec<Fate> = (0..6).map(|_| trouble.fate(&Batch::default())).collect();
        let expected = [Fate::Error, Fate::Refused, Fate::Refused, Fate::AnswerLost, Fate::Happens, Fate::Happens];
        assert_eq!(fates, expected);
    }

    #[test]
    fn poison_follows_its_event() {
        let mut trouble = Trouble { poison: Poison::Next, ..Trouble::default() };
        assert_eq!(trouble.fate(&Batch::default()), Fate::Happens, "nothing in it can be poisoned");
        assert_eq!(trouble.fate(&events(&["bad", "good"])), Fate::Refused);
        assert_eq!(trouble.fate(&events(&["good"])), Fate::Happens);
        assert_eq!(trouble.fate(&events(&["good", "bad"])), Fate::Refused);
    }

    fn events(reasons: &[&str]) -> Batch {
        let event = |reason: &&str| EventRow {
            job: JobId(Uuid::nil()),
            ix: None,
            at: Time(1),
            kind: "job",
            verb: None,
            from: None,
            to: None,
            worker: None,
            reason: (*reason).to_owned(),
        };
        Batch { events: reasons.iter().map(event).collect(), ..Batch::default() }
    }
}
