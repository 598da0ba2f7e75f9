//! Every state × every event: what the engine makes of it, written down where people can read it.
//!
//! Each state is reached by a story on step `s`; beside it stands step `t`, so that the job stays open. Events that
//! carry an attempt, a fence or a link are also sent with an old one.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use engine::attempt::Loss;
use engine::event::{Event, NoReturn, Rejection, Stale, Ticket};
use engine::job::{Unborn, Unlisted};
use engine::{AttemptId, Epoch, Failure, FailureKind, Fence, JobId, State, StateName, StepIx, Time, WorkerId};
use expect_test::expect_file;
use uuid::Uuid;

use crate::support::script::{child_ended, child_of, report, resolve, world};
use crate::support::world::World;

/// What the row is called, the task, and how step `s` gets there.
const STATES: [(&str, &str, &str); 18] = [
    ("in line for its group", "s, t, group:g", ""),
    ("pending", "t -> s", ""),
    ("queued", "s, t", ""),
    ("queued, offered", "s, t", "offer s"),
    ("running", "s, t", "go s; back s"),
    ("recovering", "s, t", "go s; back s; lost s"),
    ("cancelling", "s[grace:1h], t[if:always()], s -> u[if:always()]", "go s; back s; cancel"),
    ("done by a job", "s[child], t", ""),
    ("its job is called off", "s[child], t[if:always()], s -> u[if:always()]", "cancel"),
    ("held", "s[approve], t", ""),
    ("held in doubt", "s, t", "restored"),
    ("held with an attempt", "s, t", "go s; back s; restored"),
    ("waiting", "s[wait:1h], t", ""),
    ("success", "s, t", "go s; end s 0"),
    ("failed", "s, t", "go s; end s 1"),
    ("cancelled", "s, t", "go s; end s cancelled"),
    ("skipped", "s[if:false], t", ""),
    ("the job is final", "s", "go s; end s 0"),
];

const S: StepIx = StepIx(0);

const SILENT: std::time::Duration = std::time::Duration::from_secs(300);

const HEAD: &str = "\
What every event does to a step in every state, ten minutes after it got there.
`=` is accepted and leaves the state as it is; words without an arrow are the reasons of a rejection.
Events that carry an attempt, a fence or a link are also sent with an old one.
";

/// One column: the event as it would come now, with the old forms that it can have.
struct Case {
    name: &'static str,
    now: Event,
    stale: Vec<(&'static str, Event)>,
}

#[test]
#[expect(clippy::disallowed_macros, reason = "a test may print; the engine may not")]
fn every_state_meets_every_event() {
    let mut text = String::from(HEAD);
    let mut reached = BTreeSet::new();
    let names: Vec<&str> = cases(&world("s", ""), S).iter().map(|case| case.name).collect();
    for (column, name) in names.into_iter().enumerate() {
        let _ = writeln!(text, "\n## {name}");
        for (row, graph, story) in STATES {
            let mut world = world(graph, story);
            // Late enough for every deadline that is not an hour away.
            world.now = world.now + std::time::Duration::from_secs(600);
            let step = world.step_named("s");
            let case = cases(&world, step).swap_remove(column);
            reached.insert((row, variant(&case.now)));
            let _ = writeln!(text, "{row:<21} {}", cell(&world, step, &case));
        }
    }
    assert_eq!(reached.len(), STATES.len() * VARIANTS.len(), "every cell is reached");
    println!("{text}");
    expect_file!["matrix.txt"].assert_eq(&text);
}

#[test]
fn the_stories_lead_where_they_say() {
    for (row, graph, story) in STATES {
        let world = world(graph, story);
        let state = &world.job.step(world.step_named("s")).state;
        match row {
            "in line for its group" => assert!(world.job.awaits_slot()),
            "queued, offered" => assert!(state.offer().is_some()),
            "the job is final" => assert!(world.job.is_final()),
            "held in doubt" | "held with an attempt" => {
                assert_eq!(state.name(), StateName::Held);
                assert_eq!(state.live().is_some(), row == "held with an attempt");
            }
            "done by a job" | "its job is called off" => assert!(state.child().is_some()),
            _ => {
                assert_eq!(state.name().word(), row);
                assert!(!world.job.is_final());
            }
        }
    }
}

fn cell(world: &World, step: StepIx, case: &Case) -> String {
    let mut text = format!("{:<19}", outcome(world, step, &case.now));
    for (what, event) in &case.stale {
        let _ = write!(text, " | {what}: {:<13}", outcome(world, step, event));
    }
    text.trim_end().to_owned()
}

fn outcome(world: &World, step: StepIx, event: &Event) -> String {
    let changes = match world.ask(event) {
        Ok(changes) => changes,
        Err(rejection) => return short(&rejection).to_owned(),
    };
    let mut after = world.job.clone();
    after.absorb(&changes);
    let (old, new) = (&world.job.step(step).state, &after.step(step).state);
    match (old.offer(), new.offer()) {
        (None, Some(_)) => "offered".to_owned(),
        (Some(_), None) if matches!(new, State::Queued(_)) => "no longer offered".to_owned(),
        _ if old.name() == new.name() => "=".to_owned(),
        _ => format!("-> {}", new.name()),
    }
}

fn short(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::Stale(Stale::Attempt) => "stale attempt",
        Rejection::Stale(Stale::Fence) => "stale fence",
        Rejection::Stale(Stale::Epoch) => "stale link",
        Rejection::NotNow { .. } => "not now",
        Rejection::JobFinal(_) => "job is final",
        Rejection::JobOpen(_) => "job is open",
        Rejection::MayStillRun { .. } => "may still run",
        Rejection::NoSuchStep => "no such step",
        Rejection::NotItsChild => "not its job",
        Rejection::NotInLine => "not in line",
        Rejection::KnownOfChild => "known of child",
        Rejection::RestoredBefore => "restored before",
        Rejection::ApprovedBefore { .. } => "approved before",
        Rejection::OwnJob { .. } => "own job",
        Rejection::Illegal(_) => "ILLEGAL",
    }
}

/// All events about step `s`, each in the forms that it can have.
fn cases(world: &World, step: StepIx) -> Vec<Case> {
    let ticket = world.ticket(step);
    let epoch = world.epoch_of(step);
    let old = Epoch(epoch.0 - 1);
    let newer = Epoch(epoch.0 + 1);
    let ended = |what: &'static str| move |ticket| Event::Ended { ticket, report: report(what) };
    let gone = |loss: Loss| move |ticket, epoch| Event::Gone { ticket, epoch, loss: loss.clone() };
    vec![
        plain("offer", world.fresh_offer(step, 2)),
        ticketed("refused", ticket, |ticket| Event::Refused { ticket, reason: "busy".to_owned() }),
        linked("offer lost", ticket, epoch, old, |ticket, epoch| Event::OfferLost { ticket, epoch }),
        linked("accepted", ticket, epoch, old, |ticket, epoch| Event::Accepted { ticket, epoch }),
        ticketed("ended well", ticket, ended("0")),
        ticketed("ended badly", ticket, ended("1")),
        ticketed("ended by its timeout", ticket, ended("timeout")),
        ticketed("ended by an order", ticket, ended("cancelled")),
        ticketed("ended by its lease", ticket, ended("lease")),
        linked("link lost", ticket, epoch, old, |ticket, epoch| Event::LinkLost { ticket, epoch }),
        linked("server lost", ticket, epoch, old, |ticket, epoch| Event::ServerLost {
            ticket,
            epoch,
            since: world.heard(),
        }),
        linked("reattached", ticket, newer, old, |ticket, epoch| Event::Reattached { ticket, epoch }),
        plain("adopted", Event::Adopted { ticket: old_attempt(ticket), worker: WorkerId(Uuid::from_u128(1)), epoch }),
        plain("an item that is not listed", Event::Unlisted { of: step, unlisted: unlisted(ticket, epoch) }),
        plain("a child that is not on record", Event::Unborn(unborn(ticket, epoch))),
        linked("gone: void", ticket, epoch, old, gone(Loss::Void)),
        linked("gone: runner lost", ticket, epoch, old, gone(Loss::RunnerLost)),
        ticketed("fell silent", ticket, |ticket| Event::FellSilent { ticket, silent: SILENT, by: None }),
        ticketed("heard again", ticket, |ticket| Event::HeardAgain { ticket }),
        linked("no return", ticket, epoch, old, |ticket, epoch| Event::NoReturn {
            ticket,
            epoch,
            why: NoReturn::SaidSo,
        }),
        linked("more time", ticket, epoch, old, |ticket, epoch| Event::MoreTime {
            ticket,
            epoch,
            reason: String::new(),
        }),
        ticketed("worker removed", ticket, |ticket| Event::WorkerRemoved { ticket, by: "ann".to_owned() }),
        resolved("resolved as succeeded", step, ticket, "succeeded", false),
        resolved("resolved as failed", step, ticket, "failed", false),
        resolved("resolved: run it again", step, ticket, "rerun", false),
        resolved("resolved: it is dead, run it again", step, ticket, "rerun", true),
        plain("resolved: take the late end", Event::Resolve(resolve(step, ticket.attempt, "late", false))),
        of_child("its job ended well", world, step, "ok"),
        of_child("its job failed", world, step, "failed"),
        of_child("its job was cancelled", world, step, "cancelled"),
        plain("its job is held", Event::ChildHeld { step, child: child_of(world, step), held: true }),
        plain("its job goes on", Event::ChildHeld { step, child: child_of(world, step), held: false }),
        plain("its job is missing", Event::ChildMissing { step, child: child_of(world, step) }),
        linked("a secret is missing", ticket, epoch, old, |ticket, epoch| Event::SecretMissing {
            ticket,
            epoch,
            why: "none".to_owned(),
        }),
        plain("unmatched", Event::Unmatched { step, missing: "gpu".to_owned() }),
        plain("admit", Event::Admit { reason: "there is room".to_owned() }),
        plain("turn away", Event::TurnAway(Failure::new(FailureKind::GroupFull, "there is no room"))),
        plain("cancel", Event::Cancel { by: "ann".to_owned(), force: false }),
        plain("cancel by force", Event::Cancel { by: "ann".to_owned(), force: true }),
        plain("approve", Event::Approve { step, by: "ann".to_owned(), comment: String::new() }),
        plain("reject", Event::Reject { step, by: "ann".to_owned(), reason: "no".to_owned() }),
        Case {
            name: "the database was restored",
            now: Event::Restored { at: Time(world.now.0) },
            stale: vec![("told before", Event::Restored { at: Time(1) })],
        },
        plain("check", Event::Check { step }),
        plain("check of the job", Event::CheckJob),
        plain("poisoned", Event::Poisoned { step: Some(step), message: "a bug".to_owned() }),
        plain("poisoned job", Event::Poisoned { step: None, message: "a bug".to_owned() }),
    ]
}

fn resolved(name: &'static str, step: StepIx, ticket: Ticket, how: &str, dead: bool) -> Case {
    let of = |attempt| Event::Resolve(resolve(step, attempt, how, dead));
    Case { name, now: of(ticket.attempt), stale: vec![("old attempt", of(old_attempt(ticket).attempt))] }
}

fn of_child(name: &'static str, world: &World, step: StepIx, what: &str) -> Case {
    let now = child_ended(world, step, what, false);
    let mut other = now.clone();
    if let Event::ChildEnded { child, .. } = &mut other {
        *child = world.job.id;
    }
    Case { name, now, stale: vec![("another job", other)] }
}

fn plain(name: &'static str, now: Event) -> Case {
    Case { name, now, stale: Vec::new() }
}

fn ticketed(name: &'static str, ticket: Ticket, make: impl Fn(Ticket) -> Event) -> Case {
    let stale = vec![("old attempt", make(old_attempt(ticket))), ("old fence", make(old_fence(ticket)))];
    Case { name, now: make(ticket), stale }
}

fn linked(name: &'static str, ticket: Ticket, epoch: Epoch, old: Epoch, make: impl Fn(Ticket, Epoch) -> Event) -> Case {
    let stale = vec![
        ("old attempt", make(old_attempt(ticket), epoch)),
        ("old fence", make(old_fence(ticket), epoch)),
        ("old link", make(ticket, old)),
    ];
    Case { name, now: make(ticket, epoch), stale }
}

fn old_attempt(ticket: Ticket) -> Ticket {
    Ticket { attempt: AttemptId(Uuid::from_u128(0xDEAD)), ..ticket }
}

fn unborn(ticket: Ticket, epoch: Epoch) -> Unborn {
    let (job, worker) = (JobId(Uuid::from_u128(9)), WorkerId(Uuid::from_u128(1)));
    Unborn { job, step: "a".to_owned(), attempt: ticket.attempt, fence: ticket.fence, worker, epoch }
}

fn unlisted(ticket: Ticket, epoch: Epoch) -> Unlisted {
    let Ticket { attempt, fence, .. } = ticket;
    Unlisted { number: 1, attempt, fence, worker: WorkerId(Uuid::from_u128(1)), epoch }
}

fn old_fence(ticket: Ticket) -> Ticket {
    Ticket { fence: Fence(1), ..ticket }
}

const VARIANTS: [&str; 32] = [
    "Offer",
    "Refused",
    "OfferLost",
    "Accepted",
    "Ended",
    "LinkLost",
    "Reattached",
    "Gone",
    "Unmatched",
    "Cancel",
    "Approve",
    "Reject",
    "Check",
    "CheckJob",
    "Poisoned",
    "WorkerRemoved",
    "FellSilent",
    "HeardAgain",
    "Resolve",
    "NoReturn",
    "MoreTime",
    "ServerLost",
    "Adopted",
    "Unlisted",
    "ChildEnded",
    "ChildMissing",
    "Unborn",
    "SecretMissing",
    "Admit",
    "TurnAway",
    "Restored",
    "ChildHeld",
];

/// No wildcard: a new event does not compile until it has its column.
fn variant(event: &Event) -> &'static str {
    let index = match event {
        Event::Offer { .. } => 0,
        Event::Refused { .. } => 1,
        Event::OfferLost { .. } => 2,
        Event::Accepted { .. } => 3,
        Event::Ended { .. } => 4,
        Event::LinkLost { .. } => 5,
        Event::Reattached { .. } => 6,
        Event::Gone { .. } => 7,
        Event::Unmatched { .. } => 8,
        Event::Cancel { .. } => 9,
        Event::Approve { .. } => 10,
        Event::Reject { .. } => 11,
        Event::Check { .. } => 12,
        Event::CheckJob => 13,
        Event::Poisoned { .. } => 14,
        Event::WorkerRemoved { .. } => 15,
        Event::FellSilent { .. } => 16,
        Event::HeardAgain { .. } => 17,
        Event::Resolve(_) => 18,
        Event::NoReturn { .. } => 19,
        Event::MoreTime { .. } => 20,
        Event::ServerLost { .. } => 21,
        Event::Adopted { .. } => 22,
        Event::Unlisted { .. } => 23,
        Event::ChildEnded { .. } => 24,
        Event::ChildMissing { .. } => 25,
        Event::Unborn(_) => 26,
        Event::SecretMissing { .. } => 27,
        Event::Admit { .. } => 28,
        Event::TurnAway(_) => 29,
        Event::Restored { .. } => 30,
        Event::ChildHeld { .. } => 31,
    };
    VARIANTS[index]
}
