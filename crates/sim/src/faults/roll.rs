//! Every seed picks its own mix (swarm testing): a world in which everything fails at once hides what one kind of fault alone
//! would show.

use std::time::Duration;

use super::{Fault, FaultKind, Ways};
use crate::dice::Dice;
use crate::millis;
use crate::servers::Ambush;
use crate::setup::Setup;
use crate::users::Act;

/// The kinds that a seed can pick, by name.
const KINDS: [&str; 24] = [
    "kill-server",
    "restart-server",
    "die-before-commit",
    "die-after-commit",
    "freeze-after-commit",
    "freeze-server",
    "crash-loop",
    "database-away",
    "answers-lost",
    "refusals",
    "clock-step",
    "kill-worker",
    "stop-worker",
    "freeze-worker",
    "kill-runner",
    "freeze-runner",
    "cut-power",
    "sleep",
    "disk-full",
    "cut",
    "mass-cut",
    "half-open",
    "cancel",
    "operator",
];

/// The faults of this seed.
pub fn roll(seed: u64, setup: &Setup) -> Vec<Fault> {
    let mut dice = Dice::new(seed, "faults");
    let wanted = dice.between(2, 8) as usize;
    let mix: Vec<&str> = (0..wanted).filter_map(|_| dice.pick(&KINDS).copied()).collect();
    let count = dice.between(14, 60) as usize;
    let mut faults: Vec<Fault> = (0..count)
        .filter_map(|_| {
            let name = *dice.pick(&mix)?;
            let at = Duration::from_secs(2) + dice.duration(Duration::ZERO, setup.length.mul_f64(0.95));
            let mut kind = kind(name, setup, &mut dice)?;
            kind.times_mut().into_iter().for_each(|time| *time = millis::whole(*time));
            Some(Fault { at: millis::whole(at), kind })
        })
        .collect();
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn kind(name: &str, setup: &Setup, dice: &mut Dice) -> Option<FaultKind> {
    let server = dice.below(setup.servers);
    let host = dice.below(setup.hosts.len());
    let time = dice.skewed(Duration::from_millis(50), Duration::from_secs(600));
    let down = dice.skewed(Duration::from_millis(20), Duration::from_secs(400));
    let some_server = dice.chance(0.5).then_some(server);
    Some(match name {
        "kill-server" => FaultKind::KillServer { server, down },
        "restart-server" => FaultKind::RestartServer { server, down },
        "die-before-commit" => FaultKind::AmbushServer { server, ambush: Ambush::DieBefore, down },
        "die-after-commit" => FaultKind::AmbushServer { server, ambush: Ambush::DieAfter, down },
        "freeze-after-commit" => FaultKind::AmbushServer { server, ambush: Ambush::FreezeAfter(time), down },
        "freeze-server" => FaultKind::FreezeServer { server, time },
        "crash-loop" => FaultKind::CrashLoop {
            server,
            times: dice.between(2, 12) as u32,
            up: dice.duration(Duration::from_secs(1), Duration::from_secs(90)),
            down: dice.duration(Duration::from_millis(100), Duration::from_secs(60)),
        },
        "database-away" => FaultKind::DatabaseAway { server: some_server, time },
        "answers-lost" => FaultKind::AnswersLost { server, count: dice.between(1, 3) as u32 },
        "refusals" => FaultKind::Refusals { server, count: dice.between(1, 4) as u32 },
        "clock-step" => {
            let size = i64::try_from(dice.skewed(Duration::from_millis(100), Duration::from_secs(7200)).as_micros());
            let micros = size.unwrap_or(0);
            FaultKind::ClockStep { server, micros: if dice.chance(0.5) { micros } else { -micros } }
        }
        "kill-worker" => FaultKind::KillWorker { host, down },
        "stop-worker" => FaultKind::StopWorker { host },
        "freeze-worker" => FaultKind::FreezeWorker { host, time },
        "kill-runner" => FaultKind::KillRunner { host },
        "freeze-runner" => FaultKind::FreezeRunner { host, time },
        "cut-power" => FaultKind::CutPower { host, time },
        "sleep" => FaultKind::Sleep { host, time },
        "disk-full" => FaultKind::DiskFull { host, time },
        "cut" => {
            let ways = *dice.pick(&[Ways::Both, Ways::Both, Ways::ToServer, Ways::ToHost])?;
            FaultKind::Cut { host, server: some_server, ways, time }
        }
        "mass-cut" => FaultKind::MassCut { time },
        "half-open" => FaultKind::HalfOpen { host },
        "cancel" => FaultKind::Act(Act::Cancel { force: dice.chance(0.3) }),
        "operator" => FaultKind::Act(*dice.pick(&[
            Act::Approve,
            Act::Reject,
            Act::ResolveRecovering,
            Act::Retry { from_failed: true },
            Act::Retry { from_failed: false },
            Act::Drain,
            Act::Undrain,
            Act::Pause,
            Act::Resume,
            Act::Recover,
        ])?),
        _ => return None,
    })
}
