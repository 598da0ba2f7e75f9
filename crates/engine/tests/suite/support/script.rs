//! Stories in words, and what the engine made of them, line by line.
//!
//! A story is a list of commands separated by `;`. `check` plays it and compares the trace.
//!
//! ```text
//!  offer a   accept a   go a (both)   refuse a   drop a (offer lost)   end a 0 | 1 | signal | oom | spawn | badout |
//!  end a timeout | cancelled | lease | worker   lost a   back a   gone a void | runner | torn | reboot | missing | forgotten | lease
//!  leave a, scaled a (its worker will not come back: it said so, its scaler says so)   more a (time to come back)
//!  remove a (its worker)   resolve a succeeded | failed | rerun | late [dead]   unmatched a   cancel   force
//!  child a ok | failed | timeout | cancelled [stray] (the job that does it is over)   missing a (it is not there)
//!  admit, away (there is room in its concurrency group, there is none)   approve a   reject a   check a   check job   poison a   poison job
//!  restored (the database was put back to an earlier state, says an operator)
//!  pass 5s   deaf 1h 90s (nobody is heard for an hour, and nobody judged for 90s of hearing after it)
//!  next (jump to the next check and fire what is due)   next 3
//!  a#1: the first ticket of step a, whatever is current       …@1: seen on link 1
//! ```

use std::fmt::Write as _;

use engine::attempt::{ArtifactSet, Artifacts, Cleanup, Loss, Outcome, Report, Stopped, Usage};
use engine::event::{About, Changes, ChildEnd, ChildOrder, Effect, Event, HookOrder, NoReturn, Rejection, Ticket};
use engine::{AttemptId, Epoch, Failure, FailureKind, JobId, Resolution, Resolve, State, StepIx};
use expect_test::Expect;
use serde_json::{Value, json};

use super::task::{duration, task};
use super::world::World;

/// Plays `story` on a job of `graph` and compares what happened.
#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a value, and a call reads better without `&`")]
pub(crate) fn check(graph: &str, story: &str, expected: Expect) {
    expected.assert_eq(&play(graph, story).1);
}

/// The world after `story`, for tests that look into it.
pub(crate) fn world(graph: &str, story: &str) -> World {
    play(graph, story).0
}

/// What the last event of `story` changes.
pub(crate) fn changes_of(graph: &str, story: &str) -> Changes {
    let (before, last) = story.rsplit_once(';').unwrap_or(("", story));
    let mut world = world(graph, before);
    let words: Vec<&str> = last.split_whitespace().collect();
    let event = event(&mut world, &words);
    world.ask(&event).unwrap_or_else(|refusal| panic!("{story}: {refusal}"))
}

fn play(graph: &str, story: &str) -> (World, String) {
    let (mut world, changes) = World::submit(task(graph));
    let mut trace = String::new();
    tell(&world, "submit", &Ok(changes), &mut trace);
    for command in story.split(';').map(str::trim).filter(|c| !c.is_empty()) {
        run(&mut world, command, &mut trace);
    }
    let _ = writeln!(trace, "= {}", ending(&world));
    (world, trace)
}

fn run(world: &mut World, command: &str, trace: &mut String) {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["pass", time] => {
            world.pass(duration(time));
            let _ = writeln!(trace, "{command}");
        }
        ["deaf", time, quiet] => {
            world.pass_deaf(duration(time), duration(quiet));
            let _ = writeln!(trace, "{command}");
        }
        ["next"] => next(world, trace),
        ["next", times] => (0..times.parse().expect("a number")).for_each(|_| next(world, trace)),
        ["go", step] => go(world, step, trace),
        _ => {
            let event = event(world, &words);
            let outcome = world.play(&event);
            tell(world, command, &outcome, trace);
        }
    }
}

/// Offer and grant; told in one word where both went well.
fn go(world: &mut World, step: &str, trace: &mut String) {
    for verb in ["offer", "accept"] {
        let event = event(world, &[verb, step]);
        let outcome = world.play(&event);
        if outcome.is_err() {
            return tell(world, &format!("go {step}"), &outcome, trace);
        }
    }
    let _ = writeln!(trace, "go {step}");
}

/// Jumps to the next check time and fires all that is due then.
fn next(world: &mut World, trace: &mut String) {
    let Some(at) = world.next_check() else { return };
    let waited = at.since(world.now);
    world.now = world.now.max(at);
    for event in world.due() {
        let outcome = world.play(&event);
        let what = match event {
            Event::Check { step } => world.job.name(step).into_owned(),
            _ => "job".to_owned(),
        };
        tell(world, &format!("+{}s check {what}", waited.as_secs_f64()), &outcome, trace);
    }
}

pub(crate) fn event(world: &mut World, words: &[&str]) -> Event {
    let (words, link) = match words {
        [first @ .., last] if last.starts_with('@') => (first, Some(Epoch(last[1..].parse().expect("a link")))),
        all => (all, None),
    };
    let target = words.get(1).copied().unwrap_or_default();
    let (name, nth) = target.split_once('#').map_or((target, None), |(n, k)| (n, k.parse::<usize>().ok()));
    let step = match name {
        "" | "job" => StepIx(0),
        name => world.step_named(name),
    };
    let ticket = match nth {
        Some(nth) => *world.tickets.iter().filter(|t| t.step == step).nth(nth - 1).expect("that many offers"),
        None => world.ticket(step),
    };
    let epoch = link.unwrap_or_else(|| world.epoch_of(step));
    let what = words.get(2).copied().unwrap_or_default();
    match words[0] {
        "offer" => world.fresh_offer(step, 1),
        "adopt" => world.fresh_attempt(step, 1),
        "refuse" => Event::Refused { ticket, reason: "busy".to_owned() },
        "drop" => Event::OfferLost { ticket, epoch },
        "accept" => Event::Accepted { ticket, epoch },
        "bare" => Event::SecretMissing { ticket, epoch, why: "the secret `KEY` is not set".to_owned() },
        "end" => Event::Ended { ticket, report: report(what) },
        "lost" => Event::LinkLost { ticket, epoch },
        "back" => Event::Reattached { ticket, epoch: link.unwrap_or_else(|| world.new_epoch()) },
        "gone" => Event::Gone { ticket, epoch, loss: loss(what) },
        "silent" => Event::FellSilent { ticket, silent: silence(what), by: None },
        "forsake" => Event::FellSilent { ticket, silent: silence(what), by: Some("ann".to_owned()) },
        "leave" => Event::NoReturn { ticket, epoch, why: NoReturn::SaidSo },
        "scaled" => Event::NoReturn { ticket, epoch, why: NoReturn::MachineGone },
        "more" => Event::MoreTime { ticket, epoch, reason: "many were lost".to_owned() },
        "heard" => Event::HeardAgain { ticket },
        "resolve" => Event::Resolve(resolve(step, ticket.attempt, what, words.get(3) == Some(&"dead"))),
        "remove" => {
            world.remove_worker_of(step);
            Event::WorkerRemoved { ticket, by: "ann".to_owned() }
        }
        "child" if matches!(what, "held" | "moves") => {
            Event::ChildHeld { step, child: child_of(world, step), held: what == "held" }
        }
        "child" => child_ended(world, step, what, words.get(3) == Some(&"stray")),
        "missing" => Event::ChildMissing { step, child: child_of(world, step) },
        "unmatched" => Event::Unmatched { step, missing: "gpu".to_owned() },
        "admit" => Event::Admit { reason: "there is room".to_owned() },
        "away" => Event::TurnAway(Failure::new(FailureKind::GroupFull, "there is no room")),
        "restored" => Event::Restored { at: world.now },
        "cancel" => Event::Cancel { by: "ann".to_owned(), force: false },
        "force" => Event::Cancel { by: "ann".to_owned(), force: true },
        "approve" => {
            let by = if what.is_empty() { "ann" } else { what };
            Event::Approve { step, by: by.to_owned(), comment: words.get(3).copied().unwrap_or_default().to_owned() }
        }
        "reject" => Event::Reject { step, by: "ann".to_owned(), reason: "no".to_owned() },
        "check" if name == "job" => Event::CheckJob,
        "check" => Event::Check { step },
        "poison" if name == "job" => Event::Poisoned { step: None, message: "a bug".to_owned() },
        "poison" => Event::Poisoned { step: Some(step), message: "a bug".to_owned() },
        other => panic!("no such command: {other}"),
    }
}

/// The job that a step waits for, or one that it never began.
pub(crate) fn child_of(world: &World, step: StepIx) -> JobId {
    world.job.step(step).state.child().unwrap_or(world.job.id.child(step, 99))
}

pub(crate) fn child_ended(world: &World, step: StepIx, what: &str, strays: bool) -> Event {
    let failure = |kind| Failure::new(kind, "it did not work out");
    let end = match what {
        "ok" => ChildEnd::Success { output: json!({ "work": { "sha": "abc" } }) },
        "failed" => ChildEnd::Failed(failure(FailureKind::ExitCode(1))),
        "timeout" => ChildEnd::Failed(failure(FailureKind::JobTimeout)),
        "cancelled" => ChildEnd::Cancelled(failure(FailureKind::Cancelled)),
        other => panic!("no such end: {other}"),
    };
    Event::ChildEnded { step, child: child_of(world, step), end, strays }
}

pub(crate) fn resolve(step: StepIx, attempt: AttemptId, what: &str, confirm_dead: bool) -> Resolve {
    let how = match what {
        "succeeded" => Resolution::Succeeded { output: json!({ "sha": "by hand" }) },
        "failed" => Resolution::Failed { reason: "it did not".to_owned() },
        "rerun" => Resolution::Rerun,
        "late" => Resolution::AcceptLate { report: report("0") },
        other => panic!("no such resolution: {other}"),
    };
    Resolve { step, attempt, how, confirm_dead, by: "ann".to_owned() }
}

pub(crate) fn report(what: &str) -> Report {
    let (outcome, stopped) = match what {
        "" | "0" | "badout" | "files" | "unstored" => (Outcome::Exited(0), None),
        "3-unstored" => (Outcome::Exited(3), None),
        "signal" => (Outcome::Signaled { signal: 9, oom: false }, None),
        "oom" => (Outcome::Signaled { signal: 9, oom: true }, None),
        "spawn" => (Outcome::SpawnFailed("no such file".to_owned()), None),
        "timeout" | "timeout-unstored" => (Outcome::Signaled { signal: 15, oom: false }, Some(Stopped::Timeout)),
        "cleaned" | "uncleaned" => (Outcome::Signaled { signal: 15, oom: false }, Some(Stopped::Cancelled)),
        "cancelled" | "cancelled-unstored" => (Outcome::Signaled { signal: 15, oom: false }, Some(Stopped::Cancelled)),
        "lease" => (Outcome::Signaled { signal: 9, oom: false }, Some(Stopped::LeaseExpired)),
        "worker" => (Outcome::Signaled { signal: 15, oom: false }, Some(Stopped::Worker)),
        code => (Outcome::Exited(code.parse().expect("an exit code")), None),
    };
    let good = outcome == Outcome::Exited(0);
    Report {
        outcome,
        stopped,
        output: if good { json!({ "sha": "abc" }) } else { Value::Null },
        output_error: (what == "badout").then(|| "line 3 has no `=`".to_owned()),
        artifacts: artifacts(what),
        usage: Usage { duration_ms: Some(50), cpu_ms: 40, memory_bytes_max: 9_000 },
        cleanup: match what {
            "cleaned" => Some(Cleanup { outcome: Outcome::Exited(0), cut: None, duration_ms: 5 }),
            "uncleaned" => Some(Cleanup { outcome: Outcome::Exited(3), cut: None, duration_ms: 5 }),
            _ => None,
        },
    }
}

fn artifacts(what: &str) -> Option<Artifacts> {
    match what {
        "files" => Some(Artifacts::Stored(ArtifactSet { id: [7; 32], files: 2, bytes: 90 })),
        _ if what.ends_with("unstored") => Some(Artifacts::Failed("the disk is full".to_owned())),
        _ => None,
    }
}

fn silence(seconds: &str) -> std::time::Duration {
    std::time::Duration::from_secs_f64(seconds.parse().expect("seconds"))
}

fn loss(what: &str) -> Loss {
    match what {
        "void" => Loss::Void,
        "runner" => Loss::RunnerLost,
        "torn" => Loss::ResultNotAvailable,
        "reboot" => Loss::MachineRebooted,
        "missing" => Loss::NotReported,
        "forgotten" => Loss::StartForgotten,
        "lease" => Loss::LeaseExpired,
        other => panic!("no such loss: {other}"),
    }
}

fn tell(world: &World, command: &str, outcome: &Result<Changes, Rejection>, trace: &mut String) {
    let told = match outcome {
        Ok(changes) => facts(world, changes).join("; "),
        Err(rejection) => format!("refused: {rejection}"),
    };
    let _ = writeln!(trace, "{}", format!("{command:<12} | {told}").trim_end_matches([' ', '|']));
}

/// Changes in short words: moves of steps and job, offers, rows of attempts, effects.
fn facts(world: &World, changes: &Changes) -> Vec<String> {
    let name = |ix: StepIx| world.job.name(ix);
    let mut facts = Vec::new();
    for note in &changes.notes {
        facts.push(match &note.about {
            About::Step { step, verb, from, to } => format!("{}: {from} -{verb}-> {to}", name(*step)),
            About::Offer { step, what, .. } => format!("{}: offer {what:?}", name(*step)).to_lowercase(),
            About::Attempt { step, what, .. } => format!("{}: {what:?}", name(*step)).to_lowercase(),
            About::Job { from, to } => format!("job: {from} -> {to}"),
            About::Approved { step } => format!("{}: {}", name(*step), note.reason),
            About::Continued => "job: continued".to_owned(),
            About::Restored => "job: restored".to_owned(),
            About::Hook => (0..4).fold(format!("job: {}", note.reason), |text, number| {
                text.replace(&world.job.id.hook(number).to_string(), &format!("H{number}"))
            }),
            About::Slot => format!("job: {}", note.reason),
            About::Notice { step: Some(step) } => format!("{}: notice: {}", name(*step), note.reason),
            About::Notice { step: None } => format!("job: notice: {}", note.reason),
            About::CancelAsked => format!("job: cancel {}", note.reason),
        });
    }
    for attempt in &changes.attempts {
        let certain = if attempt.confirmed { ", confirmed" } else { "" };
        let at = format!("{}#{}", name(attempt.step), attempt.live.number);
        facts.push(format!("{at} is {}{certain}", attempt.state.word()));
    }
    for order in &changes.children {
        facts.push(match order {
            ChildOrder::Begin(birth) => {
                let parent = birth.parent.expect("a step begins it");
                format!("* begin a job for {} with {}", name(parent.step), birth.input)
            }
            ChildOrder::CallOff { force: false, .. } => "* call a job off".to_owned(),
            ChildOrder::CallOff { force: true, .. } => "* call a job off by force".to_owned(),
        });
    }
    for order in &changes.hooks {
        facts.push(match order {
            HookOrder::Begin(birth) => format!("* begin a job with {}", birth.input),
            HookOrder::Tell { on, to, .. } => format!("* tell {} of {}", to.address(), on.word()),
        });
    }
    let on = |ticket: &Ticket| name(ticket.step);
    for effect in &changes.effects {
        facts.push(match effect {
            Effect::Offer { step, .. } => format!("! offer {}", name(*step)),
            Effect::Withdraw { ticket, .. } => format!("! withdraw {}", on(ticket)),
            Effect::Go { ticket, .. } => format!("! go {}", on(ticket)),
            Effect::Stop { ticket, mode, cause, .. } => format!("! stop {} ({mode:?}, {cause:?})", on(ticket)),
            Effect::Forget { ticket, .. } => format!("! forget {}", on(ticket)),
        });
    }
    facts
}

fn ending(world: &World) -> String {
    let header = &world.job.header;
    let mut text = format!("job {}", header.state);
    if let Some(error) = &header.error {
        let _ = write!(text, " ({})", error.failure.kind.code());
    }
    for (index, step) in world.job.steps.iter().enumerate() {
        let _ = write!(text, ", {} {}", world.job.name(StepIx::of(index)), step.state.name());
        if let Some(error) = &step.error {
            let _ = write!(text, " ({})", error.kind.code());
        }
        if let (State::Queued(_) | State::Waiting(_), 1..) = (&step.state, step.executions) {
            let _ = write!(text, " after {} executions", step.executions);
        }
    }
    text
}
