//! `worker-config.yaml`.

use std::time::Duration;

use super::overrides::Scope;
use super::shape::{COUNT_MAX, LINES_MAX, LINES_MIN, LOG, LOG_FORMATS, LOG_LEVELS, SLOTS_MAX, SPOOL, WORKER};
use crate::diagnostic::{Code, Diagnostic, Finding, Sink};
use crate::lower::{Fields, values};
use crate::task::is_tag;
use crate::yaml::Node;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerConfig {
    pub servers: Vec<String>,
    /// The host's name if none.
    pub name: Option<String>,
    /// Those of its enroll token if none, or else `script`.
    pub tags: Vec<String>,
    /// The number of cores if none.
    pub slots: Option<u32>,
    pub state: String,
    pub enroll_token_file: Option<String>,
    pub ca_file: Option<String>,
    pub spool: Spool,
    pub stop_grace: Duration,
    pub log: Log,
}

/// What is kept per attempt while the servers are away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spool {
    pub log_lines: u64,
    pub log_bytes: u64,
    pub events: u32,
    pub keep_after_ack: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// One of error, warn, info, debug, trace.
    pub level: &'static str,
    pub format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl Default for WorkerConfig {
    fn default() -> WorkerConfig {
        WorkerConfig {
            servers: vec!["http://127.0.0.1:7411".to_owned()],
            name: None,
            tags: Vec::new(),
            slots: None,
            state: "./bowline-worker".to_owned(),
            enroll_token_file: None,
            ca_file: None,
            spool: Spool {
                log_lines: 1_000_000,
                log_bytes: 1 << 30,
                events: 5_000,
                keep_after_ack: Duration::from_secs(24 * 3600),
            },
            stop_grace: Duration::from_secs(600),
            log: Log { level: "info", format: LogFormat::Text },
        }
    }
}

/// Reads the file (an empty text for none) with the environment over it. A config exactly if nothing is an error.
pub fn parse<E>(text: &str, file: &str, variables: E) -> (Option<WorkerConfig>, Vec<Diagnostic>)
where
    E: IntoIterator<Item = (String, String)>,
{
    let (mut sink, root) = super::load(text, file, variables, &Scope::Worker);
    let config = root.and_then(|root| read(&root, &mut sink)).filter(|_| !sink.has_errors());
    (config, sink.finish().0)
}

fn read(root: &Node, sink: &mut Sink) -> Option<WorkerConfig> {
    let mut config = WorkerConfig::default();
    let mut fields = Fields::open(root, &WORKER, sink)?;
    if let Some(node) = fields.get("servers") {
        config.servers = servers(node, sink);
    }
    if let Some(node) = fields.get("tags") {
        config.tags = tags(node, sink);
    }
    if let Some(slots) = fields.get("slots").and_then(|n| values::integer("slots", 1..=SLOTS_MAX, n, sink)) {
        config.slots = u32::try_from(slots).ok();
    }
    if let Some(state) = fields.get("state").and_then(|n| values::filled_text("state", n, sink)) {
        state.clone_into(&mut config.state);
    }
    let optional = [
        ("name", &mut config.name),
        ("enroll_token_file", &mut config.enroll_token_file),
        ("ca_file", &mut config.ca_file),
    ];
    for (key, slot) in optional {
        let node = fields.get(key).filter(|node| !node.is_null());
        *slot = node.and_then(|n| values::filled_text(key, n, sink)).map(str::to_owned);
    }
    if let Some(node) = fields.get("spool") {
        spool(node, &mut config.spool, sink);
    }
    if let Some(grace) = fields.get("stop_grace").and_then(|n| values::duration("stop_grace", n, sink)) {
        config.stop_grace = grace;
    }
    if let Some(node) = fields.get("log") {
        log(node, &mut config.log, sink);
    }
    fields.close();
    Some(config)
}

fn servers(node: &Node, sink: &mut Sink) -> Vec<String> {
    let servers = values::texts("servers", node, sink).unwrap_or_default();
    if servers.is_empty() {
        sink.add(Finding::error(Code::BadValue, node.span, "`servers` names no server"));
    }
    for server in servers.iter().filter(|s| !s.starts_with("http://") && !s.starts_with("https://")) {
        let message = format!("`servers` must be addresses, not `{}`", crate::yaml::brief(server));
        sink.add(Finding::error(Code::BadValue, node.span, message).hint("as in `http://127.0.0.1:7411`"));
    }
    servers
}

fn tags(node: &Node, sink: &mut Sink) -> Vec<String> {
    let mut tags = values::texts("tags", node, sink).unwrap_or_default();
    for tag in tags.iter().filter(|tag| !is_tag(tag)) {
        let message = format!("`{}` is no tag", crate::yaml::brief(tag));
        sink.add(
            Finding::error(Code::BadName, node.span, message).hint("tags are made of letters, digits and `_-.:/=`"),
        );
    }
    tags.sort();
    tags.dedup();
    tags
}

fn spool(node: &Node, spool: &mut Spool, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &SPOOL, sink) else { return };
    if let Some(lines) =
        fields.get("log_lines").and_then(|n| values::integer("log_lines", LINES_MIN..=LINES_MAX, n, sink))
    {
        spool.log_lines = u64::try_from(lines).unwrap_or(spool.log_lines);
    }
    if let Some(bytes) = fields.get("log_bytes").and_then(|n| values::size("log_bytes", n, sink)) {
        spool.log_bytes = bytes;
    }
    if let Some(events) = fields.get("events").and_then(|n| values::integer("events", 100..=COUNT_MAX, n, sink)) {
        spool.events = u32::try_from(events).unwrap_or(spool.events);
    }
    if let Some(keep) = fields.get("keep_after_ack").and_then(|n| values::duration("keep_after_ack", n, sink)) {
        spool.keep_after_ack = keep;
    }
    fields.close();
}

fn log(node: &Node, log: &mut Log, sink: &mut Sink) {
    let Some(mut fields) = Fields::open(node, &LOG, sink) else { return };
    if let Some(level) = fields.get("level").and_then(|n| values::word("level", LOG_LEVELS, n, sink)) {
        log.level = level;
    }
    if let Some(format) = fields.get("format").and_then(|n| values::word("format", LOG_FORMATS, n, sink)) {
        log.format = if format == "json" { LogFormat::Json } else { LogFormat::Text };
    }
    fields.close();
}
