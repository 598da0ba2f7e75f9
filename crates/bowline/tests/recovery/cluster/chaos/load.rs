//! Jobs of all effects, one after the other, as a seed has them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::House;

use super::super::town::Town;
use super::outside::Outside;
use super::{SERVERS, ask};
use crate::dice::Dice;
use crate::story::pass;

/// Between two jobs, at most.
const PACE_MS: u64 = 500;

/// Before the next server is asked for the same.
const NEXT_SERVER: Duration = Duration::from_millis(100);

/// Nobody was there to take a job, which those who read of faults may want to know.
const WORTH_A_WORD: Duration = Duration::from_secs(2);

const STEPS_MAX: u64 = 3;

/// Pauses of a tenth of a second that a step makes, at most.
const PAUSES_MAX: u64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Reads,
    Idempotent,
    IdempotentStop,
    Writes,
    WritesStop,
    /// By a policy that wants it to be repeated when its worker is lost.
    WritesRetried,
}

impl Kind {
    const ALL: [Kind; 6] =
        [Kind::Reads, Kind::Idempotent, Kind::IdempotentStop, Kind::Writes, Kind::WritesStop, Kind::WritesRetried];

    pub(super) fn words(self) -> &'static str {
        match self {
            Kind::Reads => "effects: none",
            Kind::Idempotent => "effects: idempotent",
            Kind::IdempotentStop => "effects: idempotent, on_disconnect: stop",
            Kind::Writes => "effects: writes",
            Kind::WritesStop => "effects: writes, on_disconnect: stop",
            Kind::WritesRetried => "effects: writes, retry: {attempts: 3, on: [worker_lost]}",
        }
    }

    /// It is never there twice at the same time.
    pub(super) fn is_alone(self) -> bool {
        matches!(self, Kind::IdempotentStop | Kind::WritesStop | Kind::WritesRetried)
    }

    /// How often it may be started, if there is a limit: by its effects, its policy, and what may be lost of it (`max_losses`).
    pub(super) fn starts_max(self) -> usize {
        match self {
            Kind::Writes | Kind::WritesStop => 1,
            Kind::WritesRetried | Kind::Reads | Kind::Idempotent | Kind::IdempotentStop => 3,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) kind: Kind,
    /// It prints so many, and `end`.
    pub(super) lines: u64,
    /// Between two pauses.
    burst: u64,
    /// It waits for the one before it.
    follows: bool,
}

/// A job that was asked for, and its id if a server said yes.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) task: String,
    pub(super) id: Option<String>,
    pub(super) took: Duration,
}

#[derive(Debug)]
pub(super) struct Load {
    seed: u64,
    pub(super) outside: Outside,
}

impl Load {
    pub(super) fn new(seed: u64, house: &House) -> Load {
        Load { seed, outside: Outside::new(house) }
    }

    /// The steps of a job, by its number or its task's name.
    pub(super) fn steps(&self, number: u64) -> Vec<Step> {
        let mut dice = Dice::new(self.seed ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        (0..=dice.roll(STEPS_MAX)).map(|_| step(&mut dice)).collect()
    }

    /// One job after the other until it is told to stop. Each is asked for under its key until some server has it.
    pub(super) fn submit_until(&self, stop: &AtomicBool, town: &Town) -> Vec<Sent> {
        let mut dice = Dice::new(self.seed);
        let mut sent = Vec::new();
        for number in 0.. {
            let task = format!("chaos-{number}");
            let body = json!({ "spec": self.text(&task, number) }).to_string();
            let key = format!("idempotency-key: {task}\r\n");
            let mut servers = SERVERS.into_iter().cycle().skip(usize::try_from(dice.roll(3)).expect("small"));
            let asked = Instant::now();
            let id = loop {
                if stop.load(Ordering::Relaxed) {
                    break None;
                }
                let server = servers.next().expect("for ever");
                match ask::post(town, server, "/api/jobs", &key, &body) {
                    Ok((200 | 201, job)) => break Some(job["id"].as_str().expect("an id").to_owned()),
                    Ok((503, _)) | Err(_) => pass(NEXT_SERVER),
                    Ok(other) => panic!("{task} was refused: {other:?}"),
                }
            };
            let (stopped, took) = (id.is_none(), asked.elapsed());
            if took > WORTH_A_WORD {
                println!("{task} was asked for during {took:.1?}");
            }
            sent.push(Sent { task, id, took });
            if stopped {
                break;
            }
            dice.wait(PACE_MS);
        }
        sent
    }

    fn text(&self, task: &str, number: u64) -> String {
        let steps = self.steps(number);
        let steps = steps.iter().enumerate().map(|(at, step)| self.step_text(at, *step));
        format!("name: {task}\nsteps:\n{}", steps.collect::<String>())
    }

    fn step_text(&self, at: usize, step: Step) -> String {
        let Step { kind, lines, burst, follows } = step;
        let lock = if kind.is_alone() { format!("\n      {}", self.outside.lock()) } else { String::new() };
        let options: String = options(kind).iter().map(|line| format!("    {line}\n")).collect();
        let needs = if follows && at > 0 { format!("    needs: [s{}]\n", at - 1) } else { String::new() };
        let begin = self.outside.begin();
        format!(
            "  s{at}:\n{options}{needs}    run: |\n      {begin}{lock}\n      \
             n=0; while [ $n -lt {lines} ]; do n=$((n+1)); echo \"line $n\"; [ $((n % {burst})) != 0 ] || sleep 0.1 9>&-; done\n      \
             echo end\n"
        )
    }
}

fn options(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Reads => &["effects: none"],
        Kind::Idempotent => &["effects: idempotent"],
        Kind::IdempotentStop => &["effects: idempotent", "on_disconnect: stop"],
        Kind::Writes => &["effects: writes"],
        Kind::WritesStop => &["effects: writes", "on_disconnect: stop"],
        Kind::WritesRetried => &["effects: writes", "retry: { attempts: 3, on: [worker_lost] }"],
    }
}

/// Every third prints some hundred lines.
fn step(dice: &mut Dice) -> Step {
    let kind = dice.of(&Kind::ALL);
    let lines = if dice.roll(3) == 0 { 200 + dice.roll(600) } else { 1 + dice.roll(40) };
    let pauses = 1 + dice.roll(PAUSES_MAX);
    Step { kind, lines, burst: lines.div_ceil(pauses), follows: dice.roll(2) == 0 }
}
