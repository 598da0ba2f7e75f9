//! Every seed picks its own mix (swarm testing), and of each kind its own number: a world in which everything fails at once
//! hides what one kind of fault alone would show.

use std::time::Duration;

use super::moment::ACTS;
use super::{Fault, FaultKind, Moment, Ways};
use crate::dice::Dice;
use crate::hosts::{Copied, Emptied};
use crate::millis;
use crate::servers::Ambush;
use crate::setup::Setup;
use crate::users::Act;

/// A kind of fault that a seed can pick.
struct Kind {
    name: &'static str,
    /// At most so many of it in one world.
    most: u64,
    make: fn(&mut Roll) -> FaultKind,
    moments: &'static [Moment],
}

/// Every world has so many of what hits always: a seed whose mix hits nothing would say nothing.
const SURE: u64 = 14;

const SURE_KINDS: [&str; 5] = ["kill-server", "kill-worker", "cut", "freeze-worker", "mass-cut"];

const fn timed(name: &'static str, most: u64, make: fn(&mut Roll) -> FaultKind) -> Kind {
    Kind { name, most, make, moments: &[] }
}

const WORKER_MOMENTS: [Moment; 9] = [
    Moment::Prepared,
    Moment::Welcomed,
    Moment::EpochKept,
    Moment::HelloSent,
    Moment::AcceptSent,
    Moment::EndedSent,
    Moment::OfferSent,
    Moment::GoSent,
    Moment::ForgetSent,
];

const RUNNER_MOMENTS: [Moment; 5] =
    [Moment::BeforeIntent, Moment::AfterIntent, Moment::AfterExec, Moment::BeforeRecord, Moment::AfterRecord];

const MACHINE_MOMENTS: [Moment; 8] = [
    Moment::Prepared,
    Moment::Welcomed,
    Moment::AcceptSent,
    Moment::BeforeIntent,
    Moment::AfterIntent,
    Moment::AfterExec,
    Moment::BeforeRecord,
    Moment::AfterRecord,
];

const LATER_MOMENTS: [Moment; 6] =
    [Moment::BeforeVoid, Moment::AfterVoid, Moment::BeforeKept, Moment::Kept, Moment::BeforeWord, Moment::WordLeft];

const MESSAGES: [Moment; 9] = [
    Moment::HelloSent,
    Moment::AcceptSent,
    Moment::EndedSent,
    Moment::RenewSent,
    Moment::WelcomeSent,
    Moment::OfferSent,
    Moment::GoSent,
    Moment::StopSent,
    Moment::ForgetSent,
];

const KINDS: [Kind; 49] = [
    timed("kill-server", 15, |roll| FaultKind::KillServer { server: roll.server(), down: roll.down() }),
    timed("restart-server", 15, |roll| FaultKind::RestartServer { server: roll.server(), down: roll.down() }),
    timed("rolling-restart", 4, |roll| FaultKind::RollingRestart { down: roll.down(), pause: roll.pause() }),
    timed("die-before-commit", 12, |roll| roll.ambush(Ambush::DieBefore)),
    timed("die-after-commit", 12, |roll| roll.ambush(Ambush::DieAfter)),
    timed("freeze-after-commit", 12, |roll| {
        let time = roll.time();
        roll.ambush(Ambush::FreezeAfter(time))
    }),
    timed("freeze-server", 12, |roll| FaultKind::FreezeServer { server: roll.server(), time: roll.time() }),
    timed("suspend-server", 8, |roll| FaultKind::SuspendServer { server: roll.server(), time: roll.time() }),
    timed("crash-loop", 3, Roll::crash_loop),
    timed("database-away", 10, |roll| FaultKind::DatabaseAway { server: roll.maybe_server(), time: roll.time() }),
    timed("commit-errors", 20, |roll| FaultKind::CommitErrors { server: roll.server(), count: roll.few() }),
    timed("answers-lost", 20, |roll| FaultKind::AnswersLost { server: roll.server(), count: roll.few() }),
    timed("refusals", 12, |roll| FaultKind::Refusals { server: roll.server(), count: roll.few() }),
    timed("poison", 4, |roll| FaultKind::Poison { server: roll.server() }),
    timed("conflicts", 20, |roll| FaultKind::Conflicts { server: roll.server(), count: roll.few() }),
    timed("falter", 20, |roll| FaultKind::Falter { server: roll.server(), after: roll.few(), calls: roll.few() }),
    timed("slow-commit", 12, |roll| FaultKind::SlowCommit { server: roll.server(), time: roll.time() }),
    timed("clock-step", 10, Roll::clock_step),
    timed("drift", 3, Roll::drift),
    timed("kill-worker", 25, |roll| FaultKind::KillWorker { host: roll.host(), down: roll.down() }),
    timed("stop-worker", 15, |roll| FaultKind::StopWorker { host: roll.host() }),
    timed("freeze-worker", 15, |roll| FaultKind::FreezeWorker { host: roll.host(), time: roll.time() }),
    timed("kill-runner", 25, |roll| FaultKind::KillRunner { host: roll.host() }),
    timed("end-runner", 12, |roll| FaultKind::EndRunner { host: roll.host() }),
    timed("freeze-runner", 15, |roll| FaultKind::FreezeRunner { host: roll.host(), time: roll.time() }),
    timed("cut-power", 12, |roll| FaultKind::CutPower { host: roll.host(), time: roll.time() }),
    timed("roll-back", 3, Roll::roll_back),
    timed("sleep", 12, |roll| FaultKind::Sleep { host: roll.host(), time: roll.time() }),
    timed("disk-full", 12, |roll| FaultKind::DiskFull { host: roll.host(), time: roll.time() }),
    timed("disk-errors", 12, |roll| FaultKind::DiskErrors { host: roll.host(), time: roll.time() }),
    timed("drop-logs", 12, |roll| FaultKind::DropLogs { server: roll.server(), time: roll.time() }),
    timed("cut", 25, Roll::cut),
    timed("mass-cut", 6, |roll| FaultKind::MassCut { time: roll.time() }),
    timed("mass-reset", 6, |_| FaultKind::MassReset),
    timed("half-open", 15, |roll| FaultKind::HalfOpen { host: roll.host() }),
    timed("slow", 10, Roll::slow),
    timed("thin", 10, Roll::thin),
    timed("newer", 6, |roll| FaultKind::Newer { host: roll.maybe_host(), time: roll.time() }),
    timed("cancel", 10, |roll| FaultKind::Act(Act::Cancel { force: roll.dice.chance(0.3) })),
    timed("cut-and-act", 10, Roll::cut_and_act),
    timed("operator", 20, Roll::act),
    Kind {
        name: "worker-at-moment",
        most: 20,
        make: |roll| FaultKind::KillWorker { host: roll.host(), down: roll.down() },
        moments: &WORKER_MOMENTS,
    },
    Kind {
        name: "worker-frozen-at-moment",
        most: 12,
        make: |roll| FaultKind::FreezeWorker { host: roll.host(), time: roll.time() },
        moments: &WORKER_MOMENTS,
    },
    Kind {
        name: "runner-at-moment",
        most: 20,
        make: |roll| FaultKind::KillRunner { host: roll.host() },
        moments: &RUNNER_MOMENTS,
    },
    Kind {
        name: "power-at-moment",
        most: 12,
        make: |roll| FaultKind::CutPower { host: roll.host(), time: roll.time() },
        moments: &MACHINE_MOMENTS,
    },
    Kind {
        name: "torn-record",
        most: 6,
        make: |roll| FaultKind::TearRecord { host: roll.host(), time: roll.time() },
        moments: &[Moment::BeforeRecord],
    },
    Kind {
        name: "server-at-message",
        most: 15,
        make: |roll| FaultKind::KillServer { server: roll.server(), down: roll.down() },
        moments: &MESSAGES,
    },
    Kind { name: "link-at-message", most: 20, make: Roll::link, moments: &MESSAGES },
    Kind {
        name: "operator-at-message",
        most: 12,
        make: |roll| FaultKind::Act(*roll.dice.pick(&ACTS).unwrap_or(&Act::Drain)),
        moments: &MESSAGES,
    },
];

/// Kinds that came later, with dice of their own: what else a seed has stays as it is. New ones go to the end.
const LATER: [Kind; 21] = [
    timed("rolling-upgrade", 4, |roll| FaultKind::RollingUpgrade { down: roll.down(), pause: roll.pause() }),
    timed("pull-plug", 12, |roll| FaultKind::PullPlug { host: roll.host(), time: roll.time() }),
    Kind {
        name: "plug-at-moment",
        most: 12,
        make: |roll| FaultKind::PullPlug { host: roll.host(), time: roll.time() },
        moments: &MACHINE_MOMENTS,
    },
    timed("out-of-memory", 12, |roll| FaultKind::OutOfMemory { host: roll.host() }),
    timed("copy-folder", 3, Roll::copy_folder),
    timed("empty-folder", 4, Roll::empty_folder),
    timed("lose-commits", 4, |roll| FaultKind::LoseCommits { count: roll.commits() }),
    timed("cut-holder", 8, Roll::cut_holder),
    timed("fail-over", 2, |roll| FaultKind::FailOver { count: roll.commits(), after: roll.pause() }),
    timed("flaky", 6, |roll| FaultKind::Flaky {
        server: roll.server(),
        one_in: roll.dice.between(3, 60),
        salt: roll.dice.bits() >> 32,
        time: roll.time(),
    }),
    timed("restore-older", 2, Roll::restore_older),
    Kind {
        name: "lose-commits-at-message",
        most: 4,
        make: |roll| FaultKind::LoseCommits { count: roll.commits() },
        moments: &MESSAGES,
    },
    timed("decide", 12, |roll| FaultKind::Decide(roll.decision())),
    Kind { name: "decide-at-message", most: 12, make: |roll| FaultKind::Decide(roll.decision()), moments: &MESSAGES },
    timed("cut-and-decide", 10, Roll::cut_and_decide),
    timed("cut-holder-and-decide", 14, Roll::cut_holder_and_decide),
    timed("stop-steps", 8, |roll| FaultKind::StopSteps { host: roll.host() }),
    timed("answers-lost-aside", 8, |roll| FaultKind::AnswersLostAside { server: roll.server(), count: roll.few() }),
    Kind {
        name: "worker-at-later-moment",
        most: 12,
        make: |roll| FaultKind::KillWorker { host: roll.host(), down: roll.down() },
        moments: &LATER_MOMENTS,
    },
    Kind {
        name: "worker-frozen-at-later-moment",
        most: 6,
        make: |roll| FaultKind::FreezeWorker { host: roll.host(), time: roll.time() },
        moments: &LATER_MOMENTS,
    },
    Kind {
        name: "power-at-later-moment",
        most: 6,
        make: |roll| FaultKind::CutPower { host: roll.host(), time: roll.time() },
        moments: &LATER_MOMENTS,
    },
];

/// Each of them comes in so many worlds: one in four has none of them, and few have more than two.
const LATER_SHARE: f64 = 0.12;

/// What ordinary worlds have in all lengths and at all moments, just as long and just when one kind of mistake would show.
/// Only [`roll_only`] knows these.
const PROVOKING: [Kind; 9] = [
    timed("long-cut", 1, Roll::long_cut),
    timed("long-freeze-runner", 1, |roll| FaultKind::FreezeRunner { host: roll.host(), time: roll.long() }),
    timed("resolve", 1, |_| FaultKind::Act(Act::ResolveRecovering)),
    Kind { name: "cut-at-stop", most: 1, make: Roll::long_cut, moments: &[Moment::StopSent] },
    Kind {
        name: "freeze-at-go",
        most: 1,
        make: |roll| FaultKind::FreezeWorker { host: roll.host(), time: roll.long() },
        moments: &[Moment::AcceptSent, Moment::GoSent],
    },
    Kind {
        name: "die-before-grant",
        most: 1,
        make: |roll| roll.ambush(Ambush::DieBefore),
        moments: &[Moment::AcceptSent],
    },
    Kind {
        name: "die-before-end",
        most: 1,
        make: |roll| roll.ambush(Ambush::DieBefore),
        moments: &[Moment::EndedSent],
    },
    timed("short-kill-server", 1, |roll| FaultKind::KillServer { server: roll.server(), down: roll.pause() }),
    timed("restore-and-say-so", 1, |roll| FaultKind::RestoreOlder {
        count: roll.commits(),
        down: roll.pause(),
        said: true,
    }),
];

/// The faults of this seed.
pub fn roll(seed: u64, setup: &Setup) -> Vec<Fault> {
    let (servers, hosts) = (setup.servers, setup.hosts.len());
    let mut roll = Roll { servers, hosts, length: setup.length, dice: Dice::new(seed, "faults") };
    let mut faults = Vec::new();
    for _ in 0..roll.dice.between(1, 6) {
        let kind = &KINDS[roll.dice.below(KINDS.len())];
        for _ in 0..roll.dice.between(1, kind.most) {
            faults.push(roll.fault(kind));
        }
    }
    let sure: Vec<&Kind> = KINDS.iter().filter(|kind| SURE_KINDS.contains(&kind.name)).collect();
    let sure = sure[roll.dice.below(sure.len())];
    for _ in 0..SURE {
        faults.push(roll.fault(sure));
    }
    faults.extend(roll_later(seed, setup));
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn roll_later(seed: u64, setup: &Setup) -> Vec<Fault> {
    let (servers, hosts) = (setup.servers, setup.hosts.len());
    let mut roll = Roll { servers, hosts, length: setup.length, dice: Dice::new(seed, "later faults") };
    let mut faults = Vec::new();
    for kind in &LATER {
        if roll.dice.chance(LATER_SHARE) {
            for _ in 0..roll.dice.between(1, kind.most) {
                faults.push(roll.fault(kind));
            }
        }
    }
    faults
}

/// Whether a kind has this name.
pub fn is_kind(name: &str) -> bool {
    KINDS.iter().chain(&LATER).any(|kind| kind.name == name)
}

/// So many faults of these kinds and no others: a world that provokes something.
pub fn roll_only(seed: u64, setup: &Setup, names: &[&str], count: usize) -> Vec<Fault> {
    let (servers, hosts) = (setup.servers, setup.hosts.len());
    let mut roll = Roll { servers, hosts, length: setup.length, dice: Dice::new(seed, "faults") };
    let all = KINDS.iter().chain(&LATER).chain(&PROVOKING);
    let kinds: Vec<&Kind> = all.filter(|kind| names.contains(&kind.name)).collect();
    let mut faults: Vec<Fault> = (0..count).map(|at| roll.fault(kinds[at % kinds.len()])).collect();
    faults.sort_by_key(|fault| fault.at);
    faults
}

/// What a kind is made from.
struct Roll {
    servers: usize,
    hosts: usize,
    length: Duration,
    dice: Dice,
}

impl Roll {
    fn fault(&mut self, kind: &Kind) -> Fault {
        let at = Duration::from_secs(2) + self.dice.duration(Duration::ZERO, self.length.mul_f64(0.95));
        let on = self.dice.pick(kind.moments).copied();
        let mut kind = (kind.make)(self);
        kind.times_mut().into_iter().for_each(|time| *time = millis::whole(*time));
        Fault { at: millis::whole(at), on, kind }
    }

    fn server(&mut self) -> usize {
        self.dice.below(self.servers)
    }

    fn maybe_server(&mut self) -> Option<usize> {
        let server = self.server();
        self.dice.chance(0.5).then_some(server)
    }

    fn host(&mut self) -> usize {
        self.dice.below(self.hosts)
    }

    fn maybe_host(&mut self) -> Option<usize> {
        let host = self.host();
        self.dice.chance(0.7).then_some(host)
    }

    fn time(&mut self) -> Duration {
        self.dice.skewed(Duration::from_millis(50), Duration::from_secs(600))
    }

    fn down(&mut self) -> Duration {
        self.dice.skewed(Duration::from_millis(20), Duration::from_secs(400))
    }

    fn pause(&mut self) -> Duration {
        self.dice.duration(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// Longer than every window, and than the lease within it.
    fn long(&mut self) -> Duration {
        self.dice.duration(Duration::from_secs(180), Duration::from_secs(600))
    }

    fn few(&mut self) -> u32 {
        self.dice.between(1, 4) as u32
    }

    /// A copy lags by a few transactions, seldom by some seconds of them.
    fn commits(&mut self) -> u32 {
        if self.dice.chance(0.7) { self.dice.between(1, 8) as u32 } else { self.dice.between(8, 300) as u32 }
    }

    /// Half of those who do it know that they are to say so.
    fn restore_older(&mut self) -> FaultKind {
        FaultKind::RestoreOlder { count: self.commits(), down: self.down(), said: self.dice.chance(0.5) }
    }

    fn ambush(&mut self, ambush: Ambush) -> FaultKind {
        FaultKind::AmbushServer { server: self.server(), ambush, down: self.down() }
    }

    /// Lives that are shorter than the window.
    fn crash_loop(&mut self) -> FaultKind {
        FaultKind::CrashLoop {
            server: self.server(),
            times: self.dice.between(2, 12) as u32,
            up: self.dice.duration(Duration::from_secs(1), Duration::from_secs(90)),
            down: self.dice.duration(Duration::from_millis(100), Duration::from_secs(60)),
        }
    }

    fn clock_step(&mut self) -> FaultKind {
        let size = self.dice.skewed(Duration::from_millis(100), Duration::from_secs(7200)).as_micros();
        let micros = i64::try_from(size).unwrap_or(0);
        FaultKind::ClockStep { server: self.server(), micros: if self.dice.chance(0.5) { micros } else { -micros } }
    }

    fn drift(&mut self) -> FaultKind {
        let ppm = self.dice.between(10, 2000) as i64;
        let ppm = if self.dice.chance(0.5) { ppm } else { -ppm };
        let time = self.dice.duration(Duration::from_secs(60), Duration::from_secs(2000));
        FaultKind::Drift { server: self.server(), ppm, time }
    }

    /// One whose worker may be refused for good afterwards. The first two, which can do everything, are spared.
    fn spare_host(&mut self) -> Option<usize> {
        let spare = self.hosts.checked_sub(2).filter(|spare| *spare > 0)?;
        Some(2 + self.dice.below(spare))
    }

    fn copy_folder(&mut self) -> FaultKind {
        let Some(host) = self.spare_host() else {
            return FaultKind::KillWorker { host: self.host(), down: self.down() };
        };
        let all = [Copied::Beside, Copied::BesideInDoubt, Copied::BesideInDoubt, Copied::Elsewhere, Copied::AsImage];
        let copied = *self.dice.pick(&all).unwrap_or(&Copied::Beside);
        let down = if self.dice.chance(0.5) { self.down() } else { Duration::ZERO };
        FaultKind::CopyFolder { host, copied, down }
    }

    fn empty_folder(&mut self) -> FaultKind {
        let what = if self.dice.chance(0.3) { Emptied::All } else { Emptied::Attempts };
        FaultKind::EmptyFolder { host: self.host(), what }
    }

    fn roll_back(&mut self) -> FaultKind {
        let Some(host) = self.spare_host() else {
            return FaultKind::CutPower { host: self.host(), time: self.time() };
        };
        let after = self.dice.skewed(Duration::from_secs(1), Duration::from_secs(600));
        FaultKind::RollBack { host, after, time: self.time() }
    }

    fn cut(&mut self) -> FaultKind {
        let ways = *self.dice.pick(&[Ways::Both, Ways::Both, Ways::ToServer, Ways::ToHost]).unwrap_or(&Ways::Both);
        FaultKind::Cut { host: self.host(), server: self.maybe_server(), ways, time: self.time() }
    }

    fn long_cut(&mut self) -> FaultKind {
        FaultKind::Cut { host: self.host(), server: None, ways: Ways::Both, time: self.long() }
    }

    fn link(&mut self) -> FaultKind {
        if self.dice.chance(0.5) { FaultKind::HalfOpen { host: self.host() } } else { self.cut() }
    }

    /// Up to longer than a lease: answers then come too late.
    fn slow(&mut self) -> FaultKind {
        let latency = self.dice.skewed(Duration::from_millis(100), Duration::from_secs(150));
        FaultKind::Slow { host: self.host(), latency, time: self.time() }
    }

    fn thin(&mut self) -> FaultKind {
        FaultKind::Thin { host: self.host(), bytes_a_second: self.dice.between(50, 20_000) as u32, time: self.time() }
    }

    fn cut_and_act(&mut self) -> FaultKind {
        let acts = [
            Act::Cancel { force: false },
            Act::Cancel { force: true },
            Act::Drain,
            Act::Remove,
            Act::Recover,
            Act::ResolveRecovering,
        ];
        let act = *self.dice.pick(&acts).unwrap_or(&Act::Recover);
        let time = self.dice.skewed(Duration::from_secs(2), Duration::from_secs(400));
        FaultKind::CutAndAct { host: self.host(), time, act, patient: false }
    }

    /// Both before and after the verdict on the one that is cut off.
    fn cut_holder(&mut self) -> FaultKind {
        let acts = [
            Act::Cancel { force: false },
            Act::Cancel { force: true },
            Act::Approve,
            Act::ResolveRecovering,
            Act::ResolveFailed,
            Act::Retry { from_failed: true },
            Act::Retry { from_failed: false },
        ];
        let act = *self.dice.pick(&acts).unwrap_or(&Act::Approve);
        let time = self.dice.skewed(Duration::from_secs(30), Duration::from_secs(600));
        FaultKind::CutHolder { time, after: self.dice.duration(Duration::ZERO, time), act, patient: false }
    }

    /// What wants something that is there only now and then.
    fn decision(&mut self) -> Act {
        let acts = [
            Act::Approve,
            Act::ApproveTwice,
            Act::Reject,
            Act::ResolveRecovering,
            Act::ResolveRecovering,
            Act::ResolveFailed,
            Act::Retry { from_failed: true },
            Act::Retry { from_failed: false },
        ];
        *self.dice.pick(&acts).unwrap_or(&Act::Approve)
    }

    /// Longer than it takes to see that a link is lost.
    fn cut_and_decide(&mut self) -> FaultKind {
        let act = *self.dice.pick(&[Act::Approve, Act::ResolveRecovering]).unwrap_or(&Act::Approve);
        let time = self.dice.duration(Duration::from_secs(60), Duration::from_secs(400));
        FaultKind::CutAndAct { host: self.host(), time, act, patient: true }
    }

    fn cut_holder_and_decide(&mut self) -> FaultKind {
        let acts = [Act::Approve, Act::Approve, Act::ResolveRecovering, Act::ResolveFailed];
        let act = *self.dice.pick(&acts).unwrap_or(&Act::Approve);
        let time = self.dice.duration(Duration::from_secs(60), Duration::from_secs(600));
        FaultKind::CutHolder { time, after: self.dice.duration(Duration::ZERO, time / 2), act, patient: true }
    }

    fn act(&mut self) -> FaultKind {
        let acts = [
            Act::Approve,
            Act::ApproveTwice,
            Act::Reject,
            Act::ResolveRecovering,
            Act::ResolveFailed,
            Act::Retry { from_failed: true },
            Act::Retry { from_failed: false },
            Act::Drain,
            Act::Undrain,
            Act::Pause,
            Act::Resume,
            Act::Recover,
            Act::Remove,
        ];
        FaultKind::Act(*self.dice.pick(&acts).unwrap_or(&Act::Recover))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_gets_its_turn_and_no_two_have_one_name() {
        let kinds = || KINDS.iter().chain(&LATER);
        let names: BTreeSet<&str> = kinds().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len() + LATER.len());
        let mut seen = BTreeSet::new();
        for seed in 0..400 {
            seen.extend(
                roll(seed, &Setup::of(seed)).iter().map(|fault| (fault.kind.name(), fault.on.map(Moment::name))),
            );
        }
        // These go by the names of what people do.
        let people = ["operator", "decide", "cut-and-decide", "cut-holder-and-decide"];
        let simple = kinds().filter(|kind| kind.moments.is_empty() && !people.contains(&kind.name));
        let missing: Vec<&str> = simple.map(|kind| kind.name).filter(|name| !seen.contains(&(*name, None))).collect();
        assert!(missing.is_empty(), "never rolled: {missing:?}");
        let at_moments: BTreeSet<&str> = seen.iter().filter_map(|(_, moment)| *moment).collect();
        assert_eq!(at_moments.len(), 23, "{at_moments:?}");
    }
}
