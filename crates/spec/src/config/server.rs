//! `server-config.yaml`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use engine::definition::HookWork;

use super::overrides::Scope;
use super::secrets::hidden;
use super::shape::{
    ARTIFACTS, CONNECTIONS_MAX, COUNT_MAX, CREDENTIALS, DAYS_MAX, DEFAULTS, ENVIRONMENT, MAIL, MASS_LOSS, NOTICES,
    POSTGRES, RECOVERY, RETENTION, SECONDS_MAX, SECONDS_MIN, SERVER,
};
use crate::diagnostic::{Code, Diagnostic, Finding, Sink};
use crate::lower::{Fields, values};
use crate::source::Span;
use crate::task::{Environment, Options, hooks};
use crate::yaml::{Node, brief};

/// The smallest window in which lost bytes are told from slow ones: what must be at least so many times its partner.
const RATIO_MIN: f64 = 2.0;

#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    pub listen: String,
    /// The folder of the SQLite file, admin.token and keys.
    pub data: String,
    pub database: Database,
    pub postgres: Postgres,
    pub tasks: String,
    pub defaults: Options,
    pub recovery: Recovery,
    pub retention: Retention,
    pub environments: BTreeMap<String, Environment>,
    pub credentials: Credentials,
    pub notices: Notices,
    pub mail: Mail,
    pub artifacts: Artifacts,
}

/// What people are told of although nothing has failed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Notices {
    /// A step that waits for a worker for longer is worth one; none: never.
    pub queue: Option<Duration>,
    /// What follows on each, whatever its task says.
    pub on: Vec<HookWork>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub sendmail: String,
    pub from: String,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// A file; in `data` if none is named.
    Sqlite(Option<String>),
    /// An address, maybe with a password.
    Postgres(String),
}

/// How a PostgreSQL database is reached, beyond its address.
#[derive(Clone, PartialEq, Eq)]
pub struct Postgres {
    /// Through a connection pooler that hands out sessions for a transaction at a time.
    pub pooled: bool,
    /// Where to listen for other servers; none: at the database's address, or nowhere if that is a pooler's.
    pub listen: Option<String>,
    /// Those that read.
    pub connections: u32,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Database::Postgres(url) => f.debug_tuple("Postgres").field(&hidden(url)).finish(),
        }
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listen = self.listen.as_deref().map(hidden);
        let mut shown = f.debug_struct("Postgres");
        shown.field("pooled", &self.pooled).field("listen", &listen).field("connections", &self.connections).finish()
    }
}

/// How silence is judged. The recovery window is twice `max_reconnect_delay`.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovery {
    pub heartbeat_interval: Duration,
    pub heartbeat_timeout: Duration,
    pub runner_heartbeat_interval: Duration,
    pub running_stale: Duration,
    pub claimed_stale: Duration,
    pub sweep_interval: Duration,
    pub unmatched_step_timeout: Duration,
    pub link_ping: Duration,
    pub max_reconnect_delay: Duration,
    pub dispatch_ack: Duration,
    pub dispatch_grace: Duration,
    pub max_dispatch_attempts: u32,
    pub max_losses: u32,
    pub caretaker_after: Option<Duration>,
    pub mass_loss: MassLoss,
    pub auto_requeue_stale_claimed: bool,
    pub auto_fail_stale_running: bool,
    pub heartbeat_retention: Option<Duration>,
}

impl Recovery {
    /// The time that a cut-off worker has to come back for its attempts.
    pub fn window(&self) -> Duration {
        self.max_reconnect_delay * 2
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MassLoss {
    pub min_workers: u32,
    pub fraction: f64,
    pub within: Duration,
}

/// None keeps for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub jobs: Option<Duration>,
    pub logs: Option<Duration>,
    pub workers: Option<Duration>,
}

/// The files that steps leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifacts {
    /// None: a folder in `data`.
    pub path: Option<String>,
    /// All of them together.
    pub max_bytes: u64,
    /// Those of one attempt.
    pub max_step_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    pub ttl: Duration,
    pub refresh: Duration,
}

const GIB: u64 = 1 << 30;
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            listen: "127.0.0.1:7411".to_owned(),
            data: "./bowline-data".to_owned(),
            database: Database::Sqlite(None),
            postgres: Postgres { pooled: false, listen: None, connections: 4 },
            tasks: "./tasks".to_owned(),
            defaults: Options::default(),
            recovery: Recovery::default(),
            retention: Retention { jobs: Some(DAY * 30), logs: Some(DAY * 30), workers: Some(DAY * 30) },
            environments: BTreeMap::new(),
            credentials: Credentials { ttl: DAY, refresh: HOUR * 8 },
            notices: Notices::default(),
            mail: Mail { sendmail: "/usr/sbin/sendmail".to_owned(), from: "bowline@localhost".to_owned() },
            artifacts: Artifacts { path: None, max_bytes: 50 * GIB, max_step_bytes: 5 * GIB },
        }
    }
}

impl Default for Recovery {
    fn default() -> Recovery {
        let secs = Duration::from_secs;
        Recovery {
            heartbeat_interval: secs(30),
            heartbeat_timeout: secs(120),
            runner_heartbeat_interval: secs(30),
            running_stale: secs(300),
            claimed_stale: secs(120),
            sweep_interval: secs(60),
            unmatched_step_timeout: secs(30),
            link_ping: secs(10),
            max_reconnect_delay: secs(60),
            dispatch_ack: secs(10),
            dispatch_grace: secs(10),
            max_dispatch_attempts: 5,
            max_losses: 3,
            caretaker_after: Some(secs(10)),
            mass_loss: MassLoss { min_workers: 5, fraction: 0.5, within: secs(10) },
            auto_requeue_stale_claimed: true,
            auto_fail_stale_running: true,
            heartbeat_retention: Some(DAY),
        }
    }
}

/// Reads the file (an empty text for none) with the environment over it. A config exactly if nothing is an error.
pub fn parse<E>(text: &str, file: &str, variables: E) -> (Option<ServerConfig>, Vec<Diagnostic>)
where
    E: IntoIterator<Item = (String, String)>,
{
    let (mut sink, root) = super::load(text, file, variables, &Scope::Server);
    let config = root.and_then(|root| read(&root, &mut sink)).filter(|_| !sink.has_errors());
    (config, sink.finish().0)
}

fn read(root: &Node, sink: &mut Sink) -> Option<ServerConfig> {
    let mut config = ServerConfig::default();
    let mut fields = Fields::open(root, &SERVER, sink)?;
    if let Some(node) = fields.get("listen") {
        config.listen = address(node, sink).unwrap_or(config.listen);
    }
    for (key, slot) in [("data", &mut config.data), ("tasks", &mut config.tasks)] {
        if let Some(text) = fields.get(key).and_then(|n| values::filled_text(key, n, sink)) {
            text.clone_into(slot);
        }
    }
    if let Some(database) = fields.get("database").and_then(|n| database(n, sink)) {
        config.database = database;
    }
    if let Some(node) = fields.get("postgres") {
        postgres(node, &mut config.postgres, sink);
    }
    if let Some(node) = fields.get("defaults") {
        defaults(node, &mut config.defaults, sink);
    }
    if let Some(node) = fields.get("recovery") {
        recovery(node, &mut config.recovery, sink);
    }
    if let Some(node) = fields.get("retention") {
        retention(node, &mut config.retention, sink);
    }
    if let Some(node) = fields.get("environments") {
        config.environments = environments(node, sink);
    }
    if let Some(node) = fields.get("credentials") {
        credentials(node, &mut config.credentials, sink);
    }
    if let Some(node) = fields.get("notices") {
        notices(node, &mut config.notices, sink);
    }
    if let Some(node) = fields.get("mail") {
        mail(node, &mut config.mail, sink);
    }
    if let Some(node) = fields.get("artifacts") {
        artifacts(node, &mut config.artifacts, sink);
    }
    if let Some(entry) = fields.entry("scalers")
        && !values::list("scalers", &entry.value, sink).unwrap_or_default().is_empty()
    {
        let finding = Finding::error(Code::NotSupported, entry.key.span, "`scalers` is not supported yet");
        sink.add(finding.hint("leave the list empty"));
    }
    fields.close();
    Some(config)
}

fn address(node: &Node, sink: &mut Sink) -> Option<String> {
    let text = values::filled_text("listen", node, sink)?;
    let port =
        text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() {
        let message = format!("`listen` must be an address and a port, not {}", node.describe());
        sink.add(Finding::error(Code::BadValue, node.span, message).hint("as in `127.0.0.1:7411` or `[::]:7411`"));
        return None;
    }
    Some(text.to_owned())
}

fn database(node: &Node, sink: &mut Sink) -> Option<Database> {
    let text = values::filled_text("database", node, sink)?;
    if text == "sqlite" {
        return Some(Database::Sqlite(None));
    }
    if is_postgres(text) {
        return Some(Database::Postgres(text.to_owned()));
    }
    match text.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
        Some(path) => Some(Database::Sqlite(Some(path.to_owned()))),
        None => {
            let shown = brief(&hidden(text));
            let message = format!("`database` must be sqlite, sqlite:PATH or postgres://…, not the text `{shown}`");
            sink.add(Finding::error(Code::BadValue, node.span, message));
            None
        }
    }
}

fn is_postgres(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

fn postgres(node: &Node, postgres: &mut Postgres, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &POSTGRES, sink) else { return };
    if let Some(pooled) = fields.get("pooled").and_then(|n| values::boolean("pooled", n, sink)) {
        postgres.pooled = pooled;
    }
    if let Some(node) = fields.get("listen").filter(|node| !node.is_null()) {
        let text = values::filled_text("listen", node, sink);
        if text.is_some_and(|text| !is_postgres(text)) {
            let finding =
                Finding::error(Code::BadValue, node.span, "`postgres.listen` must be an address of PostgreSQL");
            sink.add(finding.hint("as in `postgres://user:password@host:5432/database`"));
        }
        postgres.listen = text.map(str::to_owned);
    }
    if let Some(node) = fields.get("connections") {
        let count = values::integer("connections", 1..=CONNECTIONS_MAX, node, sink);
        postgres.connections = count.and_then(|n| u32::try_from(n).ok()).unwrap_or(postgres.connections);
    }
    fields.close();
}

fn defaults(node: &Node, defaults: &mut Options, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &DEFAULTS, sink) else { return };
    let mut limit = |key: &'static str, sink: &mut Sink| {
        fields.get(key).filter(|n| !n.is_null()).and_then(|n| values::some_duration(key, n, sink))
    };
    defaults.step_timeout = limit("step_timeout", sink);
    defaults.job_timeout = limit("job_timeout", sink);
    defaults.expires = limit("expires", sink);
    fields.close();
}

fn recovery(node: &Node, recovery: &mut Recovery, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &RECOVERY, sink) else { return };
    let r = recovery;
    let seconds: [(&'static str, &mut Duration); 11] = [
        ("heartbeat_interval_secs", &mut r.heartbeat_interval),
        ("heartbeat_timeout_secs", &mut r.heartbeat_timeout),
        ("runner_heartbeat_interval_secs", &mut r.runner_heartbeat_interval),
        ("running_stale_secs", &mut r.running_stale),
        ("claimed_stale_secs", &mut r.claimed_stale),
        ("sweep_interval_secs", &mut r.sweep_interval),
        ("unmatched_step_timeout_secs", &mut r.unmatched_step_timeout),
        ("link_ping_secs", &mut r.link_ping),
        ("max_reconnect_delay_secs", &mut r.max_reconnect_delay),
        ("dispatch_ack_secs", &mut r.dispatch_ack),
        ("dispatch_grace_secs", &mut r.dispatch_grace),
    ];
    for (key, slot) in seconds {
        if let Some(duration) = fields.get(key).and_then(|n| of_seconds(key, n, sink)) {
            *slot = duration;
        }
    }
    for (key, slot) in [("max_dispatch_attempts", &mut r.max_dispatch_attempts), ("max_losses", &mut r.max_losses)] {
        if let Some(count) = fields.get(key).and_then(|n| count(key, n, sink)) {
            *slot = count;
        }
    }
    if let Some(node) = fields.get("caretaker_after_secs") {
        r.caretaker_after = if node.is_null() { None } else { of_seconds("caretaker_after_secs", node, sink) };
    }
    if let Some(node) = fields.get("mass_loss") {
        mass_loss(node, &mut r.mass_loss, sink);
    }
    for (key, slot) in [
        ("auto_requeue_stale_claimed", &mut r.auto_requeue_stale_claimed),
        ("auto_fail_stale_running", &mut r.auto_fail_stale_running),
    ] {
        if let Some(value) = fields.get(key).and_then(|n| values::boolean(key, n, sink)) {
            *slot = value;
        }
    }
    if let Some(node) = fields.get("heartbeat_retention_hours") {
        let hours = 0.0..=DAYS_MAX * 24.0;
        let read = |sink| values::number("heartbeat_retention_hours", hours, node, sink).map(|h| HOUR.mul_f64(h));
        r.heartbeat_retention = if node.is_null() { None } else { read(sink) };
    }
    check_pairs(&mut fields, r, sink);
    fields.close();
}

/// Pairs of which the first must be at least twice the second.
fn check_pairs(fields: &mut Fields<'_>, r: &Recovery, sink: &mut Sink) {
    let pairs: [(&'static str, Duration, &'static str, Duration); 3] = [
        ("heartbeat_timeout_secs", r.heartbeat_timeout, "heartbeat_interval_secs", r.heartbeat_interval),
        ("claimed_stale_secs", r.claimed_stale, "heartbeat_interval_secs", r.heartbeat_interval),
        ("running_stale_secs", r.running_stale, "runner_heartbeat_interval_secs", r.runner_heartbeat_interval),
    ];
    for (long, long_value, short, short_value) in pairs {
        let (long_secs, short_secs) = (long_value.as_secs_f64(), short_value.as_secs_f64());
        if long_secs >= RATIO_MIN * short_secs {
            continue;
        }
        let said: Vec<Span> = [long, short].into_iter().filter_map(|key| fields.get(key)).map(|n| n.span).collect();
        let place = said.first().copied().unwrap_or(fields.span);
        let message =
            format!("`recovery.{long}` ({long_secs}) must be at least twice `recovery.{short}` ({short_secs})");
        let hint =
            format!("raise the first to {} or lower the second to {}", short_secs * RATIO_MIN, long_secs / RATIO_MIN);
        let finding = Finding::error(Code::BrokenRule, place, message).hint(hint);
        sink.add(match said.get(1) {
            Some(&other) => finding.related(other, "the other"),
            None => finding,
        });
    }
}

fn mass_loss(node: &Node, mass_loss: &mut MassLoss, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &MASS_LOSS, sink) else { return };
    if let Some(workers) = fields.get("min_workers").and_then(|n| count("min_workers", n, sink)) {
        mass_loss.min_workers = workers;
    }
    if let Some(fraction) = fields.get("fraction").and_then(|n| values::number("fraction", 0.0..=1.0, n, sink)) {
        mass_loss.fraction = fraction;
    }
    if let Some(within) = fields.get("within_secs").and_then(|n| of_seconds("within_secs", n, sink)) {
        mass_loss.within = within;
    }
    fields.close();
}

fn retention(node: &Node, retention: &mut Retention, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &RETENTION, sink) else { return };
    let slots = [
        ("jobs_days", &mut retention.jobs),
        ("logs_days", &mut retention.logs),
        ("workers_days", &mut retention.workers),
    ];
    for (key, slot) in slots {
        let Some(node) = fields.get(key) else { continue };
        let days = |sink| values::number(key, 0.0..=DAYS_MAX, node, sink).map(|days| DAY.mul_f64(days));
        *slot = if node.is_null() { None } else { days(sink) };
    }
    fields.close();
}

fn environments(node: &Node, sink: &mut Sink) -> BTreeMap<String, Environment> {
    let Some(entries) = node.entries() else {
        sink.add(values::mismatch("environments", "a mapping", node).hint("as in `production: { reviewers: 1 }`"));
        return BTreeMap::new();
    };
    entries.iter().filter_map(|e| Some((e.key.text.clone(), environment(&e.value, sink)?))).collect()
}

fn environment(node: &Node, sink: &mut Sink) -> Option<Environment> {
    let mut fields = Fields::open(node, &ENVIRONMENT, sink)?;
    let reviewers = fields.get("reviewers").and_then(|n| values::integer("reviewers", 0..=100, n, sink));
    let environment = Environment {
        reviewers: reviewers.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        wait: fields.get("wait").and_then(|n| values::duration("wait", n, sink)).unwrap_or_default(),
        hold_expires: fields
            .get("hold_expires")
            .and_then(|n| values::some_duration("hold_expires", n, sink))
            .unwrap_or(DAY),
        allow_submitter: fields
            .get("allow_submitter")
            .and_then(|n| values::boolean("allow_submitter", n, sink))
            .unwrap_or(true),
    };
    fields.close();
    Some(environment)
}

fn notices(node: &Node, notices: &mut Notices, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &NOTICES, sink) else { return };
    let queue = fields.get("queue").filter(|node| !node.is_null());
    notices.queue = queue.and_then(|node| values::some_duration("queue", node, sink));
    notices.on = fields.entry("on").map(|entry| hooks::of_server(entry, sink)).unwrap_or_default();
    fields.close();
}

fn mail(node: &Node, mail: &mut Mail, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &MAIL, sink) else { return };
    if let Some(node) = fields.get("sendmail") {
        let path = values::filled_text("sendmail", node, sink);
        if path.is_some_and(|path| !path.starts_with('/')) {
            let finding = Finding::error(Code::BadValue, node.span, "`mail.sendmail` must be a whole path");
            sink.add(finding.hint("as in `/usr/sbin/sendmail`"));
        }
        path.unwrap_or_default().clone_into(&mut mail.sendmail);
    }
    if let Some(from) = fields.get("from").and_then(|node| hooks::mail_address("from", node, sink)) {
        mail.from = from;
    }
    fields.close();
}

fn credentials(node: &Node, credentials: &mut Credentials, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &CREDENTIALS, sink) else { return };
    if let Some(ttl) = fields.get("ttl").and_then(|n| values::some_duration("ttl", n, sink)) {
        credentials.ttl = ttl;
    }
    if let Some(refresh) = fields.get("refresh").and_then(|n| values::some_duration("refresh", n, sink)) {
        credentials.refresh = refresh;
    }
    fields.close();
    if credentials.refresh >= credentials.ttl {
        let message = format!(
            "`credentials.refresh` ({:?}) must be shorter than `credentials.ttl` ({:?})",
            credentials.refresh, credentials.ttl
        );
        sink.add(Finding::error(Code::BrokenRule, node.span, message));
    }
}

fn artifacts(node: &Node, artifacts: &mut Artifacts, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &ARTIFACTS, sink) else { return };
    if let Some(node) = fields.get("path").filter(|node| !node.is_null()) {
        artifacts.path = values::filled_text("path", node, sink).map(str::to_owned);
    }
    for (key, slot) in [("max_bytes", &mut artifacts.max_bytes), ("max_step_bytes", &mut artifacts.max_step_bytes)] {
        if let Some(bytes) = fields.get(key).and_then(|node| values::size(key, node, sink)) {
            *slot = bytes;
        }
    }
    fields.close();
    // A small quota bounds each step as well.
    artifacts.max_step_bytes = artifacts.max_step_bytes.min(artifacts.max_bytes);
}

fn of_seconds(what: &str, node: &Node, sink: &mut Sink) -> Option<Duration> {
    values::number(what, SECONDS_MIN..=SECONDS_MAX, node, sink).map(Duration::from_secs_f64)
}

fn count(what: &str, node: &Node, sink: &mut Sink) -> Option<u32> {
    values::integer(what, 1..=COUNT_MAX, node, sink).and_then(|n| u32::try_from(n).ok())
}
