//! What goes wrong, when, and for how long: a list made from the seed before the world begins ([`roll`]), so that it can be
//! shown, written down, repeated and made shorter. What each does to the world is in `fire`.

mod fire;
mod roll;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::millis;
use crate::net::Way;
use crate::servers::Ambush;
use crate::users::Act;

pub(crate) use fire::FaultEvent;
pub use roll::roll;

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    #[serde(with = "millis")]
    pub at: Duration,
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
    Refusals {
        server: usize,
        count: u32,
    },
    ClockStep {
        server: usize,
        micros: i64,
    },
    KillWorker {
        host: usize,
        #[serde(with = "millis")]
        down: Duration,
    },
    StopWorker {
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
    Act(Act),
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
            FaultKind::Refusals { .. } => "refusals",
            FaultKind::ClockStep { .. } => "clock-step",
            FaultKind::KillWorker { .. } => "kill-worker",
            FaultKind::StopWorker { .. } => "stop-worker",
            FaultKind::FreezeWorker { .. } => "freeze-worker",
            FaultKind::KillRunner { .. } => "kill-runner",
            FaultKind::FreezeRunner { .. } => "freeze-runner",
            FaultKind::CutPower { .. } => "cut-power",
            FaultKind::Sleep { .. } => "sleep",
            FaultKind::DiskFull { .. } => "disk-full",
            FaultKind::Cut { .. } => "cut",
            FaultKind::MassCut { .. } => "mass-cut",
            FaultKind::HalfOpen { .. } => "half-open",
            FaultKind::Act(act) => act.name(),
        }
    }

    /// It waits for the next commit of its server.
    pub(crate) fn lies_in_wait(&self) -> bool {
        matches!(self, FaultKind::AmbushServer { .. } | FaultKind::AnswersLost { .. } | FaultKind::Refusals { .. })
    }

    /// Its lengths, for whoever makes it shorter.
    pub(crate) fn times_mut(&mut self) -> Vec<&mut Duration> {
        match self {
            FaultKind::CrashLoop { up, down, .. } => vec![up, down],
            FaultKind::AmbushServer { ambush: Ambush::FreezeAfter(time), down, .. } => vec![time, down],
            FaultKind::KillServer { down: time, .. }
            | FaultKind::RestartServer { down: time, .. }
            | FaultKind::AmbushServer { down: time, .. }
            | FaultKind::KillWorker { down: time, .. }
            | FaultKind::FreezeServer { time, .. }
            | FaultKind::DatabaseAway { time, .. }
            | FaultKind::FreezeWorker { time, .. }
            | FaultKind::FreezeRunner { time, .. }
            | FaultKind::CutPower { time, .. }
            | FaultKind::Sleep { time, .. }
            | FaultKind::DiskFull { time, .. }
            | FaultKind::Cut { time, .. }
            | FaultKind::MassCut { time } => vec![time],
            FaultKind::AnswersLost { .. }
            | FaultKind::Refusals { .. }
            | FaultKind::ClockStep { .. }
            | FaultKind::StopWorker { .. }
            | FaultKind::KillRunner { .. }
            | FaultKind::HalfOpen { .. }
            | FaultKind::Act(_) => Vec::new(),
        }
    }

    /// The machine that it hits, if it is one.
    pub(crate) fn host(&self) -> Option<usize> {
        match self {
            FaultKind::KillWorker { host, .. }
            | FaultKind::StopWorker { host }
            | FaultKind::FreezeWorker { host, .. }
            | FaultKind::KillRunner { host }
            | FaultKind::FreezeRunner { host, .. }
            | FaultKind::CutPower { host, .. }
            | FaultKind::Sleep { host, .. }
            | FaultKind::DiskFull { host, .. }
            | FaultKind::Cut { host, .. }
            | FaultKind::HalfOpen { host } => Some(*host),
            _ => None,
        }
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
        write!(f, "{:02}:{:02}.{millis:03} {:?}", secs / 60, secs % 60, self.kind)
    }
}
