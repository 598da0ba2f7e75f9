//! How large a world is and by which rules it lives.

use std::sync::Arc;
use std::time::Duration;

use engine::definition::HookWork;
use protocol::attempt::AttemptSpec;
use protocol::features;
use serde::{Deserialize, Serialize};
use server::ledger::CoreConfig;
use server::retention::RetentionRules;
use server::run::core_config;
use spec::config::server::ServerConfig;

use crate::dice::Dice;
use crate::workload::{CallPlan, SchedulePlan};

/// Where rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// Real SQL, in memory.
    Sqlite,
    /// Plain tables: quick.
    Memory,
}

#[derive(Debug, Clone)]
pub struct Setup {
    pub backing: Backing,
    pub servers: usize,
    pub hosts: Vec<HostSetup>,
    pub core: CoreConfig,
    pub jobs: usize,
    /// Tasks that start by themselves.
    pub schedules: Vec<SchedulePlan>,
    /// Tasks that are called from outside.
    pub calls: Vec<CallPlan>,
    /// How long faults and users go on.
    pub length: Duration,
    /// How long everything may take after that.
    pub patience: Duration,
    /// From a command to its commit.
    pub commit_time: Duration,
    /// Lines that a runner keeps unacknowledged before it drops the oldest.
    pub log_lines_max: u64,
}

/// How large a world is asked to be, whatever its seed says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scale {
    /// How many share its database; as many as the seed says, if it is not said.
    pub servers: Option<usize>,
    /// As many workers as the seed says, if it is not said.
    pub hosts: Option<usize>,
}

/// How long what is over is kept: minutes stand for days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionPlan {
    pub jobs_secs: u64,
    pub logs_secs: Option<u64>,
    /// How long a worker may be away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers_secs: Option<u64>,
}

/// Longer than most are away.
const AWAY_SECS: u64 = 300;

impl RetentionPlan {
    /// By dice of its own: most worlds keep everything.
    pub fn roll(seed: u64) -> Option<RetentionPlan> {
        let mut dice = Dice::new(seed, "retention");
        let plan = dice.chance(0.25).then(|| RetentionPlan::some(&mut dice))?;
        // Longer than the window in which whoever is away is waited for.
        let mut dice = Dice::new(seed, "retention of workers");
        Some(RetentionPlan { workers_secs: dice.chance(0.6).then(|| dice.between(150, 500)), ..plan })
    }

    /// One in any case.
    pub fn roll_some(seed: u64) -> RetentionPlan {
        let plan = RetentionPlan::some(&mut Dice::new(seed, "some retention"));
        RetentionPlan { workers_secs: Some(AWAY_SECS), ..plan }
    }

    fn some(dice: &mut Dice) -> RetentionPlan {
        let jobs_secs = dice.between(20, 200);
        let logs_secs = dice.chance(0.5).then(|| dice.between(10, jobs_secs));
        RetentionPlan { jobs_secs, logs_secs, workers_secs: None }
    }

    pub(crate) fn rules(self) -> RetentionRules {
        let (every, settle) = (Duration::from_secs(10), Duration::from_secs(5));
        let seconds = Duration::from_secs;
        RetentionRules {
            jobs: Some(seconds(self.jobs_secs)),
            logs: self.logs_secs.map(seconds),
            workers: self.workers_secs.map(seconds),
            every,
            settle,
        }
    }
}

/// What the servers' configuration says where it is not the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigPlan {
    /// Servers do not give up what is silent: they ask an operator.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub asks_operators: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_caretaker: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_reconnect_secs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_losses: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_dispatch_attempts: Option<u32>,
}

impl ConfigPlan {
    /// By dice of its own: in three worlds of ten some of it is otherwise.
    pub fn roll(seed: u64) -> Option<ConfigPlan> {
        let mut dice = Dice::new(seed, "configuration");
        if !dice.chance(0.3) {
            return None;
        }
        Some(ConfigPlan {
            asks_operators: dice.chance(0.4),
            no_caretaker: dice.chance(0.4),
            // None waits for longer than a worker may be away.
            max_reconnect_secs: dice.pick(&[20, 30, 45, 70]).copied().filter(|_| dice.chance(0.5)),
            max_losses: dice.pick(&[1, 2, 5]).copied().filter(|_| dice.chance(0.5)),
            max_dispatch_attempts: dice.pick(&[2, 3, 8]).copied().filter(|_| dice.chance(0.5)),
        })
    }

    pub(crate) fn server(self) -> ServerConfig {
        let mut config = ServerConfig::default();
        let recovery = &mut config.recovery;
        recovery.auto_requeue_stale_claimed = !self.asks_operators;
        recovery.auto_fail_stale_running = !self.asks_operators;
        recovery.caretaker_after = recovery.caretaker_after.filter(|_| !self.no_caretaker);
        recovery.max_reconnect_delay =
            self.max_reconnect_secs.map_or(recovery.max_reconnect_delay, Duration::from_secs);
        recovery.max_losses = self.max_losses.unwrap_or(recovery.max_losses);
        recovery.max_dispatch_attempts = self.max_dispatch_attempts.unwrap_or(recovery.max_dispatch_attempts);
        config
    }
}

/// After how long in the queue a step is noticed, by dice of its own: most worlds want no such notice.
pub(crate) fn roll_queue_secs(seed: u64) -> Option<u64> {
    let mut dice = Dice::new(seed, "queue notice");
    dice.chance(0.25).then(|| dice.between(5, 120))
}

/// Whether the servers' configuration lets words follow on notices, by dice of its own.
pub(crate) fn roll_tells(seed: u64) -> bool {
    Dice::new(seed, "notices of servers").chance(0.4)
}

/// What it lets follow: a word, and a mail.
pub(crate) fn told_by_servers() -> Arc<Vec<HookWork>> {
    let (config, problems) = spec::config::server::parse(TELLS, "notices", Vec::new());
    let config = config.unwrap_or_else(|| panic!("the world made a bad configuration: {problems:?}"));
    Arc::new(config.notices.on)
}

const TELLS: &str = "\
notices:
  on: [{ webhook: \"http://outside/notices\" }, { mail: notices@outside.example }]
";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSetup {
    pub tags: Vec<String>,
    pub slots: u32,
    pub no_reconnect: bool,
    pub ephemeral: bool,
    /// What it cannot do, since its version is older.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

/// What was given up holds a concurrency slot for so long: longer than anything that has an end of its own takes.
const DOUBT_MAX: Duration = Duration::from_secs(1200);

impl Setup {
    /// A world of this seed, as large as asked.
    pub fn scaled(seed: u64, scale: Scale) -> Setup {
        let mut setup = Setup::of(seed).among(scale.servers.unwrap_or_else(|| Setup::servers_of(seed)));
        let Some(hosts) = scale.hosts else { return setup };
        let mut dice = Dice::new(seed, "more hosts");
        let more = (setup.hosts.len()..hosts).map(|number| HostSetup::roll(number, &mut dice));
        setup.hosts.extend(more);
        setup.hosts.truncate(hosts);
        setup.roll_versions(seed);
        setup
    }

    /// How many servers this seed wants: one, as most installations have, or some that share a database.
    fn servers_of(seed: u64) -> usize {
        let mut dice = Dice::new(seed, "servers");
        if dice.chance(0.5) { 1 } else { dice.between(2, 3) as usize }
    }

    /// As this seed wants it, with one server: every seed its own size and mix.
    pub fn of(seed: u64) -> Setup {
        let mut dice = Dice::new(seed, "setup");
        let hosts = dice.between(2, 8) as usize;
        let hosts = (0..hosts).map(|number| HostSetup::roll(number, &mut dice)).collect();
        let mut setup = Setup {
            backing: if dice.chance(0.1) { Backing::Sqlite } else { Backing::Memory },
            servers: 1,
            hosts,
            // A day would outlast the world.
            core: CoreConfig {
                doubt_max: DOUBT_MAX,
                retention: RetentionRules::default(),
                ..core_config(&ServerConfig::default())
            },
            jobs: dice.between(20, 40) as usize,
            schedules: Vec::new(),
            calls: Vec::new(),
            length: Duration::from_secs(3600),
            patience: Duration::from_secs(4 * 3600),
            commit_time: Duration::from_millis(1),
            log_lines_max: if dice.chance(0.2) { 30 } else { 10_000 },
        };
        setup.roll_versions(seed);
        setup
    }

    /// By dice of its own: in some worlds some workers are older than the others. The first two never are, so that no step
    /// is without a worker by design.
    fn roll_versions(&mut self, seed: u64) {
        let mut dice = Dice::new(seed, "older workers");
        if !dice.chance(0.25) {
            return;
        }
        for host in self.hosts.iter_mut().skip(2) {
            host.lacks = features::all().into_iter().filter(|_| dice.chance(0.4)).collect();
        }
    }
}

impl Setup {
    /// By this configuration of the servers.
    #[must_use]
    pub(crate) fn configured(mut self, config: &ServerConfig) -> Setup {
        let retention = std::mem::take(&mut self.core.retention);
        let doubt_max = self.core.doubt_max;
        Setup { core: CoreConfig { doubt_max, retention, ..core_config(config) }, ..self }
    }

    /// Whoever is silent for long is given up by nobody but a person.
    pub(crate) fn leaves_silence_to_people(&self) -> bool {
        !self.core.rules.auto_fail_stale_running
    }

    /// So many servers. A file is one server's own; plain tables can be shared.
    #[must_use]
    pub fn among(self, servers: usize) -> Setup {
        let backing = if servers > 1 { Backing::Memory } else { self.backing };
        Setup { servers, backing, ..self }
    }
}

impl HostSetup {
    fn roll(number: usize, dice: &mut Dice) -> HostSetup {
        let mut tags = vec!["script".to_owned()];
        // The first two can do everything, so that no step is without a worker by design.
        for tag in ["gpu", "big"] {
            if number < 2 || dice.chance(0.4) {
                tags.push(tag.to_owned());
            }
        }
        HostSetup {
            tags,
            slots: dice.between(1, 4) as u32,
            no_reconnect: number >= 2 && dice.chance(0.05),
            ephemeral: number >= 2 && dice.chance(0.1),
            lacks: Vec::new(),
        }
    }

    /// What its worker can do.
    pub(crate) fn features(&self) -> Vec<String> {
        features::all().into_iter().filter(|feature| !self.lacks.contains(feature)).collect()
    }

    /// What this attempt needs and its worker cannot do.
    pub(crate) fn lacks_for(&self, attempt: &AttemptSpec) -> Option<&str> {
        let needs = |feature: &str| match feature {
            features::ARTIFACTS => attempt.artifacts.is_some() || !attempt.fetch.is_empty(),
            features::CLEANUP => attempt.cleanup.is_some(),
            features::SECRETS => !attempt.secrets.is_empty(),
            _ => false,
        };
        self.lacks.iter().map(String::as_str).find(|feature| needs(feature))
    }
}
