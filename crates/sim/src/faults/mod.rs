//! What goes wrong, when, and for how long: a list made from the seed before the world begins ([`roll`]), so that it can be
//! shown, written down, repeated and made shorter. What each does to the world is in `fire`.

mod fire;
mod moment;
mod roll;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hosts::{Copied, Emptied};
use crate::millis;
use crate::net::Way;
use crate::servers::Ambush;
use crate::users::Act;

pub(crate) use fire::FaultEvent;
pub use moment::Moment;
pub(crate) use moment::{Scene, messages_in};
pub use roll::{is_kind, roll, roll_only};

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    #[serde(with = "millis")]
    pub at: Duration,
    /// It waits for this from then on, and hits whoever is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Moment>,
    pub kind: FaultKind,
}

/// In files all times are milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    KillServer {
        server: usize,
        #[serde(with = "millis")]
        down: Duration,
    },
    RestartServer {
        server: usize,
        #[serde(with = "millis")]
        down: Duration,
    },
    AmbushServer {
        server: usize,
        ambush: Ambush,
        #[serde(with = "millis")]
        down: Duration,
    },
    FreezeServer {
        server: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// The whole machine sleeps: its monotonic clock stands still as well.
    SuspendServer {
        server: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// One server after the other is stopped and started again.
    RollingRestart {
        #[serde(with = "millis")]
        down: Duration,
        #[serde(with = "millis")]
        pause: Duration,
    },
    /// The same with a later version: what has been restarted says things that the others do not know.
    RollingUpgrade {
        #[serde(with = "millis")]
        down: Duration,
        #[serde(with = "millis")]
        pause: Duration,
    },
    /// Shorter lives than the window, again and again.
    CrashLoop {
        server: usize,
        times: u32,
        #[serde(with = "millis")]
        up: Duration,
        #[serde(with = "millis")]
        down: Duration,
    },
    DatabaseAway {
        server: Option<usize>,
        #[serde(with = "millis")]
        time: Duration,
    },
    AnswersLost {
        server: usize,
        count: u32,
    },
    /// The same for what servers write besides their rounds: numbers that they reserve, jobs and workers that they delete.
    AnswersLostAside {
        server: usize,
        count: u32,
    },
    /// The next commits fail before anything is written.
    CommitErrors {
        server: usize,
        count: u32,
    },
    Refusals {
        server: usize,
        count: u32,
    },
    /// An event of the next commit can never be written.
    Poison {
        server: usize,
    },
    /// Another server writes the same job first.
    Conflicts {
        server: usize,
        count: u32,
    },
    /// The database goes away in the middle of a round.
    Falter {
        server: usize,
        after: u32,
        calls: u32,
    },
    /// One in so many calls of the database fails, by dice of its own.
    Flaky {
        server: usize,
        one_in: u64,
        salt: u64,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// The next commit takes so long.
    SlowCommit {
        server: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// The database falls over to a copy that lacks its last transactions.
    LoseCommits {
        count: u32,
    },
    /// The same while no server is up; they come back after so long.
    RestoreOlder {
        count: u32,
        #[serde(with = "millis")]
        down: Duration,
        /// An operator says so before they do, as they should.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        said: bool,
    },
    /// The database loses its last transactions with servers up, and an operator says so after this.
    FailOver {
        count: u32,
        #[serde(with = "millis")]
        after: Duration,
    },
    ClockStep {
        server: usize,
        micros: i64,
    },
    /// The clock runs too fast or too slow by so many parts in a million.
    Drift {
        server: usize,
        ppm: i64,
        #[serde(with = "millis")]
        time: Duration,
    },
    KillWorker {
        host: usize,
        #[serde(with = "millis")]
        down: Duration,
    },
    StopWorker {
        host: usize,
    },
    /// And it ends its steps.
    StopSteps {
        host: usize,
    },
    FreezeWorker {
        host: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    KillRunner {
        host: usize,
    },
    /// Somebody sends TERM to it, as a service manager does that ends a whole group.
    EndRunner {
        host: usize,
    },
    /// The kernel ends a step's own process for want of memory.
    OutOfMemory {
        host: usize,
    },
    FreezeRunner {
        host: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    CutPower {
        host: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// The power goes, and with it what was written and not synced.
    PullPlug {
        host: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// The power goes while a runner writes its exit record.
    TearRecord {
        host: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// The machine's disk is put back to what it holds now, after so long and with a power cut.
    RollBack {
        host: usize,
        #[serde(with = "millis")]
        after: Duration,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// The worker's state folder is copied, and a worker started on the copy. The original's is killed for so long, or not.
    CopyFolder {
        host: usize,
        copied: Copied,
        #[serde(with = "millis")]
        down: Duration,
    },
    /// Its attempts are deleted from the state folder, or all that is in it.
    EmptyFolder {
        host: usize,
        what: Emptied,
    },
    Sleep {
        host: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    DiskFull {
        host: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// Nothing can be read from it, and nothing new be made on it.
    DiskErrors {
        host: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// More log frames come than the server can take: it throws them away, and asks for them again.
    DropLogs {
        server: usize,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// Between one host and one server, or all of them; one way or both.
    Cut {
        host: usize,
        server: Option<usize>,
        ways: Ways,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// Every host at once.
    MassCut {
        #[serde(with = "millis")]
        time: Duration,
    },
    /// A middle box forgets the host's connections.
    HalfOpen {
        host: usize,
    },
    /// Everything from and to this host takes so much longer.
    Slow {
        host: usize,
        #[serde(with = "millis")]
        latency: Duration,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// So little fits through the host's line that frames queue up.
    Thin {
        host: usize,
        bytes_a_second: u32,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// All connections are closed at once, as by a proxy that is restarted.
    MassReset,
    /// This host speaks a newer protocol for a while, or the servers do: fields and messages that nobody knows.
    Newer {
        host: Option<usize>,
        #[serde(with = "millis")]
        time: Duration,
    },
    /// An operator does this to what is on the host, while it is cut off.
    CutAndAct {
        host: usize,
        #[serde(with = "millis")]
        time: Duration,
        act: Act,
        /// Until there is something to do it to, while the host is cut off; on one that has something.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        patient: bool,
    },
    /// The host of a job that has a slot of its concurrency group is cut off, and an operator does this to the group meanwhile:
    /// to whoever is next, or to the one that is cut off where only that makes sense.
    CutHolder {
        #[serde(with = "millis")]
        time: Duration,
        #[serde(with = "millis")]
        after: Duration,
        act: Act,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        patient: bool,
    },
    Act(Act),
    /// The same as soon as there is something to do it to.
    Decide(Act),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    ToServer,
    ToHost,
    Both,
}

impl FaultKind {
    /// Its name among what was fired.
    pub fn name(&self) -> &'static str {
        match self {
            FaultKind::KillServer { .. } => "kill-server",
            FaultKind::RestartServer { .. } => "restart-server",
            FaultKind::AmbushServer { ambush: Ambush::DieBefore, .. } => "die-before-commit",
            FaultKind::AmbushServer { ambush: Ambush::DieAfter, .. } => "die-after-commit",
            FaultKind::AmbushServer { ambush: Ambush::FreezeAfter(_), .. } => "freeze-after-commit",
            FaultKind::FreezeServer { .. } => "freeze-server",
            FaultKind::CrashLoop { .. } => "crash-loop",
            FaultKind::DatabaseAway { .. } => "database-away",
            FaultKind::AnswersLost { .. } => "answers-lost",
            FaultKind::AnswersLostAside { .. } => "answers-lost-aside",
            FaultKind::Refusals { .. } => "refusals",
            FaultKind::Poison { .. } => "poison",
            FaultKind::Conflicts { .. } => "conflicts",
            FaultKind::Falter { .. } => "falter",
            FaultKind::Flaky { .. } => "flaky",
            FaultKind::SlowCommit { .. } => "slow-commit",
            FaultKind::LoseCommits { .. } => "lose-commits",
            FaultKind::RestoreOlder { .. } => "restore-older",
            FaultKind::FailOver { .. } => "fail-over",
            FaultKind::ClockStep { .. } => "clock-step",
            FaultKind::KillWorker { .. } => "kill-worker",
            FaultKind::StopWorker { .. } => "stop-worker",
            FaultKind::StopSteps { .. } => "stop-steps",
            FaultKind::FreezeWorker { .. } => "freeze-worker",
            FaultKind::KillRunner { .. } => "kill-runner",
            FaultKind::EndRunner { .. } => "end-runner",
            FaultKind::OutOfMemory { .. } => "out-of-memory",
            FaultKind::FreezeRunner { .. } => "freeze-runner",
            FaultKind::CutPower { .. } => "cut-power",
            FaultKind::PullPlug { .. } => "pull-plug",
            FaultKind::RollingUpgrade { .. } => "rolling-upgrade",
            FaultKind::CopyFolder { .. } => "copy-folder",
            FaultKind::EmptyFolder { .. } => "empty-folder",
            FaultKind::Sleep { .. } => "sleep",
            FaultKind::DiskFull { .. } => "disk-full",
            FaultKind::DiskErrors { .. } => "disk-errors",
            FaultKind::DropLogs { .. } => "drop-logs",
            FaultKind::Cut { .. } => "cut",
            FaultKind::MassCut { .. } => "mass-cut",
            FaultKind::HalfOpen { .. } => "half-open",
            FaultKind::SuspendServer { .. } => "suspend-server",
            FaultKind::RollingRestart { .. } => "rolling-restart",
            FaultKind::CommitErrors { .. } => "commit-errors",
            FaultKind::Drift { .. } => "drift",
            FaultKind::TearRecord { .. } => "tear-record",
            FaultKind::RollBack { .. } => "roll-back",
            FaultKind::Slow { .. } => "slow",
            FaultKind::Thin { .. } => "thin",
            FaultKind::MassReset => "mass-reset",
            FaultKind::Newer { .. } => "newer",
            FaultKind::CutAndAct { .. } => "cut-and-act",
            FaultKind::CutHolder { .. } => "cut-holder",
            FaultKind::Act(act) | FaultKind::Decide(act) => act.name(),
        }
    }

    /// Commits that were acknowledged are gone after it.
    pub(crate) fn forgets(&self) -> bool {
        matches!(self, FaultKind::LoseCommits { .. } | FaultKind::RestoreOlder { .. } | FaultKind::FailOver { .. })
    }

    /// What is in the database cannot be read or written for a while, or is not what a server takes it for.
    pub(crate) fn is_about_the_database(&self) -> bool {
        let fails = matches!(
            self,
            FaultKind::DatabaseAway { .. }
                | FaultKind::AnswersLost { .. }
                | FaultKind::AnswersLostAside { .. }
                | FaultKind::CommitErrors { .. }
                | FaultKind::Refusals { .. }
                | FaultKind::Poison { .. }
                | FaultKind::Conflicts { .. }
                | FaultKind::Falter { .. }
                | FaultKind::Flaky { .. }
        );
        fails || self.forgets()
    }

    /// Its lengths, for whoever makes it shorter.
    pub(crate) fn times_mut(&mut self) -> Vec<&mut Duration> {
        match self {
            FaultKind::CrashLoop { up, down, .. } => vec![up, down],
            FaultKind::AmbushServer { ambush: Ambush::FreezeAfter(time), down, .. } => vec![time, down],
            FaultKind::RollingRestart { down, pause } | FaultKind::RollingUpgrade { down, pause } => vec![down, pause],
            FaultKind::RollBack { after, time, .. } | FaultKind::CutHolder { after, time, .. } => vec![after, time],
            FaultKind::Slow { latency, time, .. } => vec![latency, time],
            FaultKind::KillServer { down: time, .. }
            | FaultKind::RestartServer { down: time, .. }
            | FaultKind::RestoreOlder { down: time, .. }
            | FaultKind::FailOver { after: time, .. }
            | FaultKind::AmbushServer { down: time, .. }
            | FaultKind::KillWorker { down: time, .. }
            | FaultKind::CopyFolder { down: time, .. }
            | FaultKind::FreezeServer { time, .. }
            | FaultKind::SuspendServer { time, .. }
            | FaultKind::DatabaseAway { time, .. }
            | FaultKind::Flaky { time, .. }
            | FaultKind::Drift { time, .. }
            | FaultKind::FreezeWorker { time, .. }
            | FaultKind::FreezeRunner { time, .. }
            | FaultKind::CutPower { time, .. }
            | FaultKind::PullPlug { time, .. }
            | FaultKind::TearRecord { time, .. }
            | FaultKind::Sleep { time, .. }
            | FaultKind::DiskFull { time, .. }
            | FaultKind::DiskErrors { time, .. }
            | FaultKind::DropLogs { time, .. }
            | FaultKind::Cut { time, .. }
            | FaultKind::CutAndAct { time, .. }
            | FaultKind::MassCut { time }
            | FaultKind::Thin { time, .. }
            | FaultKind::SlowCommit { time, .. }
            | FaultKind::Newer { time, .. } => vec![time],
            FaultKind::AnswersLost { .. }
            | FaultKind::AnswersLostAside { .. }
            | FaultKind::StopSteps { .. }
            | FaultKind::CommitErrors { .. }
            | FaultKind::Refusals { .. }
            | FaultKind::Poison { .. }
            | FaultKind::Conflicts { .. }
            | FaultKind::Falter { .. }
            | FaultKind::LoseCommits { .. }
            | FaultKind::ClockStep { .. }
            | FaultKind::StopWorker { .. }
            | FaultKind::KillRunner { .. }
            | FaultKind::EndRunner { .. }
            | FaultKind::EmptyFolder { .. }
            | FaultKind::OutOfMemory { .. }
            | FaultKind::HalfOpen { .. }
            | FaultKind::MassReset
            | FaultKind::Act(_)
            | FaultKind::Decide(_) => Vec::new(),
        }
    }

    /// The machine that it hits, if it is one.
    pub(crate) fn host_mut(&mut self) -> Option<&mut usize> {
        match self {
            FaultKind::KillWorker { host, .. }
            | FaultKind::StopWorker { host }
            | FaultKind::StopSteps { host }
            | FaultKind::FreezeWorker { host, .. }
            | FaultKind::KillRunner { host }
            | FaultKind::EndRunner { host }
            | FaultKind::FreezeRunner { host, .. }
            | FaultKind::CutPower { host, .. }
            | FaultKind::PullPlug { host, .. }
            | FaultKind::TearRecord { host, .. }
            | FaultKind::RollBack { host, .. }
            | FaultKind::CopyFolder { host, .. }
            | FaultKind::EmptyFolder { host, .. }
            | FaultKind::OutOfMemory { host }
            | FaultKind::Sleep { host, .. }
            | FaultKind::DiskFull { host, .. }
            | FaultKind::DiskErrors { host, .. }
            | FaultKind::Cut { host, .. }
            | FaultKind::CutAndAct { host, .. }
            | FaultKind::Slow { host, .. }
            | FaultKind::Thin { host, .. }
            | FaultKind::Newer { host: Some(host), .. }
            | FaultKind::HalfOpen { host } => Some(host),
            _ => None,
        }
    }

    pub(crate) fn host(mut self) -> Option<usize> {
        self.host_mut().copied()
    }
}

impl Ways {
    fn has(self, way: Way) -> bool {
        match (self, way) {
            (Ways::Both, _) | (Ways::ToServer, Way::ToServer) | (Ways::ToHost, Way::ToHost) => true,
            (Ways::ToServer, Way::ToHost) | (Ways::ToHost, Way::ToServer) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, millis) = (self.at.as_secs(), self.at.subsec_millis());
        write!(f, "{:02}:{:02}.{millis:03} {:?}", secs / 60, secs % 60, self.kind)?;
        self.on.map_or(Ok(()), |moment| write!(f, " when it comes to {}", moment.name()))
    }
}
