//! `defaults`: what every step says unless it says otherwise.

use std::time::Duration;

use engine::definition::{Effects, OnDisconnect, Patience, StopPolicy};
use pack::glob::leads_out;

use super::retry::{self, Retry, STOP_DEFAULT};
use super::shape::{DEFAULTS, EFFECTS, ON_DISCONNECT, RUNNERS};
use super::{name, program};
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::{Fields, values};
use crate::template::is_template;
use crate::yaml::Node;

/// More than a worker ever has.
const TAGS_MAX: usize = 64;
/// The longest path that Linux takes.
const WORKDIR_BYTES_MAX: usize = 4 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Defaults<'n> {
    pub(super) timeout: Option<Duration>,
    pub(super) expect: Option<Duration>,
    pub(super) retry: Retry,
    pub(super) runner: &'static str,
    pub(super) shell: Option<Vec<String>>,
    pub(super) workdir: Option<&'n Node>,
    pub(super) tags: Vec<String>,
    pub(super) effects: Effects,
    pub(super) unmatched: Patience,
    pub(super) on_disconnect: OnDisconnect,
    pub(super) stop: StopPolicy,
}

impl<'n> Defaults<'n> {
    /// What holds where neither the step nor the task says anything.
    pub(super) fn of_server(step_timeout: Option<Duration>) -> Defaults<'n> {
        Defaults {
            timeout: step_timeout,
            expect: None,
            retry: Retry::default(),
            runner: RUNNERS[0],
            shell: None,
            workdir: None,
            tags: Vec::new(),
            effects: Effects::Writes,
            unmatched: Patience::Default,
            on_disconnect: OnDisconnect::Keep,
            stop: STOP_DEFAULT,
        }
    }

    pub(super) fn with(mut self, node: &'n Node, sink: &mut Sink) -> Defaults<'n> {
        let Some(mut fields) = Fields::open(node, &DEFAULTS, sink) else { return self };
        self.take_common(&mut fields, sink);
        if let Some(entry) = fields.entry("retry") {
            retry::must_count(entry, &self.retry, sink);
        }
        fields.close();
        self
    }

    /// The keys that `defaults` and a step share, the step's over these.
    pub(super) fn take_common(&mut self, fields: &mut Fields<'n>, sink: &mut Sink) {
        if let Some(node) = fields.get("timeout") {
            self.timeout = limit("timeout", node, sink);
        }
        if let Some(node) = fields.get("expect") {
            self.expect = limit("expect", node, sink);
            expected_in_time(self.expect, self.timeout, node, sink);
        }
        if let Some(node) = fields.get("retry") {
            self.retry = retry::retry(node, sink);
        }
        if let Some(runner) = fields.get("runner").and_then(|n| values::word("runner", RUNNERS, n, sink)) {
            self.runner = runner;
        }
        if let Some(shell) = fields.get("shell").and_then(|n| program::shell(n, sink)) {
            self.shell = Some(shell);
        }
        if let Some(node) = fields.get("workdir") {
            self.workdir = workdir(node, sink);
        }
        if let Some(tags) = fields.get("tags").and_then(|n| tags(n, sink)) {
            self.tags = tags;
        }
        if let Some(word) = fields.get("effects").and_then(|n| values::word("effects", EFFECTS, n, sink)) {
            self.effects = match word {
                "none" => Effects::None,
                "idempotent" => Effects::Idempotent,
                _ => Effects::Writes,
            };
        }
        if let Some(node) = fields.get("unmatched") {
            self.unmatched = patience(node, sink).unwrap_or(self.unmatched);
        }
        if let Some(node) = fields.get("on_disconnect")
            && let Some(word) = values::word("on_disconnect", ON_DISCONNECT, node, sink)
        {
            self.on_disconnect = if word == "stop" { OnDisconnect::Stop } else { OnDisconnect::Keep };
        }
        if let Some(node) = fields.get("cancel") {
            self.stop = retry::cancel(node, self.stop, sink);
        }
    }
}

/// A duration longer than zero; `null` for none at all.
pub(super) fn limit(what: &str, node: &Node, sink: &mut Sink) -> Option<Duration> {
    if node.is_null() { None } else { values::some_duration(what, node, sink) }
}

/// Whatever takes longer than its timeout is ended by that.
pub(super) fn expected_in_time(expect: Option<Duration>, timeout: Option<Duration>, node: &Node, sink: &mut Sink) {
    if expect.zip(timeout).is_some_and(|(expect, timeout)| expect >= timeout) {
        let message = "`expect` is not shorter than `timeout`, so there is never a notice";
        sink.add(Finding::warning(Code::BadValue, node.span, message).hint("say what it takes when all is well"));
    }
}

fn workdir<'n>(node: &'n Node, sink: &mut Sink) -> Option<&'n Node> {
    let folder = values::filled_text("workdir", node, sink)?;
    if folder.len() > WORKDIR_BYTES_MAX {
        sink.add(Finding::error(Code::Limit, node.span, format!("`workdir` has more than {WORKDIR_BYTES_MAX} bytes")));
        return None;
    }
    if leaves_its_folder(literal_start(folder)) {
        let message = format!("`workdir: {}` leads out of the attempt's own folder", crate::yaml::brief(folder));
        let hint = "a relative folder is below the attempt's own and has no `..`; for one elsewhere on the worker give its \
                    absolute path, as in `/srv/repo`";
        sink.add(Finding::error(Code::BadValue, node.span, message).hint(hint).later_rule());
    }
    Some(node)
}

/// Whether a folder for a step is a relative one that may be outside of the attempt's own.
pub(crate) fn leaves_its_folder(workdir: &str) -> bool {
    !workdir.starts_with('/') && leads_out(workdir)
}

/// As much of a folder's name as no template can change: whole names only, since `..{{ x }}` may become `..x`.
fn literal_start(workdir: &str) -> &str {
    if !is_template(workdir) {
        return workdir;
    }
    let start = workdir.split('{').next().unwrap_or_default();
    start.rfind('/').map_or("", |slash| &start[..=slash])
}

fn tags(node: &Node, sink: &mut Sink) -> Option<Vec<String>> {
    let tags = values::texts("tags", node, sink)?;
    if tags.len() > TAGS_MAX {
        sink.add(Finding::error(Code::Limit, node.span, format!("more than {TAGS_MAX} tags")));
    }
    for tag in tags.iter().filter(|tag| !name::is_tag(tag)) {
        let message = format!("`{}` is no tag", crate::yaml::brief(tag));
        let hint = "tags are made of letters, digits and `_-.:/=`";
        sink.add(Finding::error(Code::BadName, node.span, message).hint(hint));
    }
    Some(tags)
}

fn patience(node: &Node, sink: &mut Sink) -> Option<Patience> {
    if values::raw_scalar(node) == Some("wait") {
        return Some(Patience::Forever);
    }
    values::duration("unmatched", node, sink).map(Patience::For)
}
