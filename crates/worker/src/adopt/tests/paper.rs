//! Folders on paper: what a disk and the processes on it say, in the order in which they are asked.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Duration;

use protocol::attempt::{Effects, OnDisconnect, Ticket};
use protocol::folder::{Claim, ExitError, FolderSpec, Ownership, Tally};
use protocol::link::Loss;
use protocol::log::Span;
use runner::folder_io::{FolderError, Recorded};
use runner::remains::Remains;
use serde_json::Value;
use uuid::Uuid;

use super::{end, local, spec};
use crate::adopt::{
    DYING_PATIENCE, Examined, Folder, Look, Next, NotedLoss, Orphans, RETRY_PAUSE, UNREADABLE_PAUSE, end_lease,
    examine, look, look_at_kept, take_back,
};
use crate::agent::{Finding, FoundLease};

const ID: Uuid = Uuid::from_u128(7);

/// By default: a whole folder, never claimed, without a living runner and without remains.
struct Paper {
    spec: FolderSpec,
    /// Whether the runner lives, each time that it is asked; the last answer stays.
    lives: VecDeque<bool>,
    claim: Option<Claim>,
    /// A runner that claims the start just before the worker can.
    claims_first: bool,
    recorded: Recorded,
    torn: bool,
    unreadable: bool,
    /// The spec's file is empty.
    hollow: bool,
    inhabited: bool,
    loss: Option<NotedLoss>,
    remains: Remains,
    killed: u32,
    /// The folder is deleted, and this lives in it.
    deleted: Option<Orphans>,
}

impl Paper {
    fn new() -> Self {
        let ticket = Ticket { attempt: ID, fence: 9 };
        Paper {
            spec: FolderSpec::new(spec(ticket), local()),
            lives: VecDeque::from([false]),
            claim: None,
            claims_first: false,
            recorded: Recorded::default(),
            torn: false,
            unreadable: false,
            hollow: false,
            inhabited: false,
            loss: None,
            remains: Remains::None,
            killed: 0,
            deleted: None,
        }
    }

    /// It may have run, and its runner is dead.
    fn dead() -> Self {
        Paper { claim: Some(Claim::Intent), ..Paper::new() }
    }

    fn deleted_under(runner: bool, step: bool) -> Self {
        Paper { deleted: Some(Orphans { runner, step }), ..Paper::new() }
    }

    fn is_there(&self) -> Result<(), FolderError> {
        let gone = || FolderError::Io { what: "read", source: ErrorKind::NotFound.into() };
        if self.deleted.is_some() { Err(gone()) } else { Ok(()) }
    }

    fn finding(&mut self, rebooted: bool) -> Option<Finding> {
        match look(self, rebooted).expect("readable") {
            Look::Clear { finding, .. } => Some(finding),
            Look::Dying { .. } | Look::HalfMade | Look::Hollow => None,
        }
    }

    fn loss(&mut self, rebooted: bool) -> Option<Loss> {
        match self.finding(rebooted) {
            Some(Finding::Lost { loss, .. }) => Some(loss),
            _ => None,
        }
    }
}

impl Folder for Paper {
    fn read_spec(&mut self) -> Result<FolderSpec, FolderError> {
        self.is_there()?;
        if self.hollow {
            return serde_json::from_str("").map_err(FolderError::BadSpec);
        }
        if self.unreadable { Err(FolderError::UnknownFormat(99)) } else { Ok(self.spec.clone()) }
    }

    fn glimpse_spec(&mut self) -> Value {
        Value::Null
    }

    fn runner_lives(&mut self) -> Result<bool, FolderError> {
        let last = self.lives.len() == 1;
        Ok(if last { self.lives[0] } else { self.lives.pop_front().expect("at least one answer") })
    }

    fn read_claim(&mut self) -> Result<Option<Claim>, FolderError> {
        Ok(self.claim)
    }

    fn claim_void(&mut self) -> Result<Claim, FolderError> {
        self.is_there()?;
        let first = if self.claims_first { Claim::Intent } else { Claim::Void };
        Ok(*self.claim.get_or_insert(first))
    }

    fn read_record(&mut self) -> Result<Recorded, FolderError> {
        if self.torn { Err(ExitError::Torn.into()) } else { Ok(self.recorded.clone()) }
    }

    fn read_loss(&mut self) -> Option<NotedLoss> {
        self.loss.clone()
    }

    fn write_loss(&mut self, loss: &NotedLoss) -> io::Result<()> {
        self.loss = Some(loss.clone());
        Ok(())
    }

    fn kill_remains(&mut self, _: &FolderSpec, _: Option<Tally>) -> Remains {
        self.killed += 1;
        self.remains
    }

    fn kill_with_runner(&mut self, _: &FolderSpec, _: Option<Tally>) -> Result<Remains, FolderError> {
        self.killed += 1;
        self.lives = VecDeque::from([false]);
        Ok(Remains::Dying)
    }

    fn is_inhabited(&mut self) -> bool {
        self.inhabited
    }

    fn orphans(&mut self) -> Orphans {
        self.deleted.unwrap_or_default()
    }

    fn kill_orphans(&mut self, with_runner: bool) {
        self.killed += 1;
        let runner = self.orphans().runner && !with_runner;
        self.deleted = Some(Orphans { runner, step: false });
    }

    fn log_bounds(&mut self) -> io::Result<Option<Span>> {
        Err(ErrorKind::Interrupted.into())
    }
}

#[test]
fn a_runner_that_comes_to_its_lock_late_is_kept_from_starting_or_found_running() {
    let mut late = Paper::new();
    assert!(matches!(late.finding(false), Some(Finding::NeverStarted { .. })));
    assert_eq!(late.claim, Some(Claim::Void), "so it cannot start any more");

    let mut quicker = Paper { lives: VecDeque::from([false, true]), claims_first: true, ..Paper::new() };
    assert_eq!(quicker.finding(false), Some(Finding::Running));
    assert_eq!(quicker.killed, 0);
}

#[test]
fn a_living_runner_is_believed_and_never_claimed_against() {
    for (claim, expected) in
        [(None, Finding::Waiting), (Some(Claim::Intent), Finding::Running), (Some(Claim::Void), Finding::Waiting)]
    {
        let mut paper = Paper { lives: VecDeque::from([true]), claim, ..Paper::new() };
        assert_eq!(paper.finding(false), Some(expected));
        assert_eq!((paper.claim, paper.killed), (claim, 0));
    }
}

#[test]
fn nothing_is_lost_before_its_remains_are_gone() {
    let mut paper = Paper { remains: Remains::Dying, ..Paper::dead() };
    assert_eq!(paper.finding(false), None);
    paper.remains = Remains::None;
    assert_eq!(paper.loss(false), Some(Loss::RunnerLost));
}

#[test]
fn after_a_reboot_nobody_is_killed_by_an_old_number() {
    let mut paper = Paper { remains: Remains::Dying, ..Paper::dead() };
    assert_eq!(paper.loss(true), Some(Loss::MachineRebooted));
    assert_eq!(paper.loss(false), Some(Loss::MachineRebooted), "the next worker of the new boot");
    assert_eq!(paper.killed, 0);

    let mut torn = Paper { torn: true, ..Paper::dead() };
    assert_eq!(torn.loss(true), Some(Loss::ResultNotAvailable), "it had ended");
}

#[test]
fn after_a_power_cut_a_missing_claim_of_a_step_without_effects_says_nothing() {
    let reads = || {
        let mut paper = Paper::new();
        paper.spec.attempt.effects = Effects::None;
        paper
    };
    let mut paper = reads();
    assert!(matches!(paper.finding(true), Some(Finding::Unsure { .. })));
    assert!(matches!(paper.finding(false), Some(Finding::Unsure { .. })), "the next worker of the new boot");
    let recorded = Recorded { end: Some(end()), ..Recorded::default() };
    let mut ended = Paper { recorded, ..reads() };
    assert_eq!(ended.finding(true), Some(Finding::Ended(Box::new(end()))), "its record was synced");
    assert!(matches!(reads().finding(false), Some(Finding::NeverStarted { .. })), "within one boot it does");
    let mut void = Paper { claim: Some(Claim::Void), ..reads() };
    assert!(matches!(void.finding(true), Some(Finding::NeverStarted { .. })), "it was claimed");
    assert!(matches!(Paper::new().finding(true), Some(Finding::NeverStarted { .. })), "claims of others are synced");
}

#[test]
fn a_folder_whose_spec_went_with_the_power_is_no_folder() {
    let mut paper = Paper { hollow: true, inhabited: true, ..Paper::dead() };
    assert!(look(&mut paper, false).is_err(), "it may run");
    assert!(matches!(look(&mut paper, true), Ok(Look::HalfMade)));
    paper.inhabited = false;
    let gone = look(&mut paper, false);
    assert!(matches!(gone, Ok(Look::Hollow)), "what it started is gone, whatever the boot");
    assert!(matches!(Next::after(gone), Next::Tell(Finding::Lost { loss: Loss::ResultNotAvailable, .. })));
}

#[test]
fn a_folder_that_was_deleted_under_its_step_is_no_proof_that_the_step_is_gone() {
    let mut paper = Paper::deleted_under(true, true);
    let next = |paper: &mut Paper| Next::after(look(paper, false));
    assert_eq!(next(&mut paper), Next::LookAgain { after: UNREADABLE_PAUSE });
    assert_eq!(paper.killed, 0, "its runner sees to it");
    paper.deleted = Some(Orphans { runner: false, step: true });
    assert_eq!(next(&mut paper), Next::LookAgain { after: RETRY_PAUSE });
    assert_eq!(paper.killed, 1, "nobody else will");
    assert!(matches!(next(&mut paper), Next::Tell(Finding::Lost { loss: Loss::RunnerLost, .. })));
}

/// Else a worker would try for ever to take back what was deleted under it.
#[test]
fn what_was_deleted_cannot_start_but_may_have_started() {
    for (runner, step, told, expected) in [
        (true, false, false, Claim::Void),
        (false, false, false, Claim::Void),
        (true, true, false, Claim::Intent),
        (false, false, true, Claim::Intent),
    ] {
        let claim = take_back(&mut Paper::deleted_under(runner, step), told).expect("nobody else can claim it");
        assert_eq!(claim, expected, "runner: {runner}, step: {step}, told to go: {told}");
    }
}

#[test]
fn a_lease_ends_what_lives_in_a_folder_that_was_deleted() {
    let mut paper = Paper::deleted_under(true, true);
    assert_eq!(end_lease(&mut paper).expect("it can be ended"), Remains::Dying);
    assert_eq!(end_lease(&mut paper).expect("it can be ended"), Remains::None);
    assert_eq!(paper.killed, 1);
}

#[test]
fn a_lease_that_was_ended_from_outside_is_told_as_such_once_all_is_dead() {
    let mut paper = Paper { lives: VecDeque::from([true]), remains: Remains::Dying, ..Paper::dead() };
    assert_eq!(end_lease(&mut paper).expect("readable"), Remains::Dying);
    assert_eq!(paper.finding(false), None, "the runner is dead, its step is not");
    paper.remains = Remains::None;
    assert_eq!(paper.loss(false), Some(Loss::LeaseExpired));
}

#[test]
fn a_runner_that_ended_its_step_at_the_last_moment_is_not_killed_for_its_lease() {
    let recorded = Recorded { end: Some(end()), ..Recorded::default() };
    let mut paper = Paper { lives: VecDeque::from([true]), recorded, ..Paper::dead() };
    assert_eq!(end_lease(&mut paper).expect("readable"), Remains::None);
    assert_eq!((paper.killed, paper.loss), (0, None));
}

#[test]
fn what_keeps_dying_counts_as_running_when_patience_is_over() {
    let mut paper = Paper { remains: Remains::Dying, ..Paper::dead() };
    let mut at = |waited| examine(&mut paper, ID, false, waited, Duration::ZERO);
    assert_eq!(at(DYING_PATIENCE / 2), Examined::Dying);
    let Examined::Found(found) = at(DYING_PATIENCE) else { panic!("it waits on") };
    assert_eq!(found.finding, Finding::Running);
}

#[test]
fn a_lease_goes_as_far_as_the_record_says_or_begins_now() {
    let mut paper = Paper::dead();
    paper.spec.attempt.lease_ms = Some(96_000);
    let lease = |paper: &mut Paper| match examine(paper, ID, false, Duration::ZERO, Duration::from_secs(50)) {
        Examined::Found(found) => found.lease,
        other => panic!("{other:?}"),
    };
    assert_eq!(lease(&mut paper), None, "it does not end with it");
    paper.spec.attempt.on_disconnect = OnDisconnect::Stop;
    let length = Duration::from_secs(96);
    assert_eq!(lease(&mut paper), Some(FoundLease { length, from: Duration::from_secs(50) }));
    paper.recorded.ownership = Some(Ownership { confirmed_ms: 30_000, until_ms: 126_000 });
    assert_eq!(lease(&mut paper), Some(FoundLease { length, from: Duration::from_secs(30) }));
}

#[test]
fn what_follows_from_a_look() {
    let next = |paper: &mut Paper| Next::after(look(paper, false));
    assert_eq!(next(&mut Paper { lives: VecDeque::from([true]), ..Paper::dead() }), Next::Connect(Finding::Running));
    assert!(matches!(next(&mut Paper::dead()), Next::Tell(Finding::Lost { .. })));
    let mut dying = Paper { remains: Remains::Dying, ..Paper::dead() };
    assert_eq!(next(&mut dying), Next::LookAgain { after: RETRY_PAUSE });
    let mut unreadable = Paper { unreadable: true, ..Paper::dead() };
    assert_eq!(next(&mut unreadable), Next::LookAgain { after: UNREADABLE_PAUSE });
    assert!(matches!(Next::after(Ok(Look::HalfMade)), Next::Tell(Finding::Lost { loss: Loss::RunnerLost, .. })));
}

/// Its worker has the end, and has said goodbye; a runner that is frozen then has not heard it.
#[test]
fn what_was_put_away_is_what_its_record_says_whether_its_runner_is_gone_or_not() {
    for lives in [true, false] {
        let recorded = Recorded { end: Some(end()), ..Recorded::default() };
        let mut paper = Paper { recorded, lives: VecDeque::from([lives]), ..Paper::dead() };
        let found = look_at_kept(&mut paper, Duration::ZERO).expect("it can be read");
        assert_eq!((found.finding, found.ticket), (Finding::Ended(Box::new(end())), paper.spec.attempt.ticket));
    }
    assert!(look_at_kept(&mut Paper::dead(), Duration::ZERO).is_none(), "it says nothing");
    assert!(look_at_kept(&mut Paper { torn: true, ..Paper::dead() }, Duration::ZERO).is_none());
}
