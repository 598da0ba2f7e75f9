//! One step: from its keys to the engine's `StepDef`, with what the graph still has to check.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use engine::StepIx;
use engine::definition::{
    Condition, Effects, Ends, Items, Need, OnDisconnect, Program, Protection, RunBody, StepDef, Work,
};

use super::artifacts;
use super::defaults::Defaults;
use super::environment::{self, Environment};
use super::fan_out;
use super::input::Input;
use super::kind::{self, StepKind};
use super::program::{self, Env};
use super::retry;
use super::secrets;
use super::shape::{END_WORDS, NEED, STEP};
use super::texts::Texts;
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::nearest::did_you_mean;
use crate::lower::{Fields, values};
use crate::source::Span;
use crate::template::check::StepNames;
use crate::yaml::{Entry, Key, Node, Scalar, Value};

/// The task's `env` is copied into every step: so much may come of it.
const ENV_BYTES_TOTAL_MAX: usize = 64 * 1024 * 1024;
/// The most that one step waits for directly; a wider join goes through a step in between.
const NEEDS_MAX: usize = 20_000;

/// What all steps of a task share.
pub(super) struct StepReader<'a> {
    pub(super) names: &'a StepNames<'a>,
    pub(super) inputs: &'a HashMap<String, bool>,
    pub(super) declared: &'a [Input],
    pub(super) defaults: &'a Defaults<'a>,
    pub(super) environments: Option<&'a BTreeMap<String, Environment>>,
    pub(super) env: &'a Env<'a>,
    pub(super) env_templated: bool,
    pub(super) env_bytes_left: usize,
}

/// A step as far as it can be read alone.
#[derive(Debug)]
pub(super) struct StepRead {
    pub(super) definition: StepDef,
    pub(super) name_span: Span,
    pub(super) need_spans: Vec<Span>,
    pub(super) fetch_spans: Vec<Span>,
    /// Steps that its texts name, each with the place.
    pub(super) uses: Vec<(StepIx, Span)>,
}

impl<'a> StepReader<'a> {
    pub(super) fn new(
        names: &'a StepNames<'a>,
        inputs: &'a HashMap<String, bool>,
        declared: &'a [Input],
        defaults: &'a Defaults<'a>,
        environments: Option<&'a BTreeMap<String, Environment>>,
        env: &'a Env<'a>,
        env_templated: bool,
    ) -> StepReader<'a> {
        let env_bytes_left = ENV_BYTES_TOTAL_MAX;
        StepReader { names, inputs, declared, defaults, environments, env, env_templated, env_bytes_left }
    }

    /// None if the step cannot be told at all; then the sink knows why.
    pub(super) fn read(&mut self, entry: &'a Entry, sink: &mut Sink) -> Option<StepRead> {
        let kind = kind::choose(&entry.key, &entry.value, sink);
        let mut fields = Fields::open(&entry.value, &STEP, sink)?;
        let mut texts = Texts {
            inputs: self.inputs,
            steps: Some(self.names),
            items: None,
            outcome: false,
            notice: false,
            uses: Vec::new(),
        };
        let fan_out = fan_out::read(&mut fields, self.declared, &mut texts, sink);
        // Where the list cannot be read, that is the problem, and not that there is no `item`.
        let is_meant = fields.get("for_each").or(fields.get("matrix")).is_some();
        texts.items = match &fan_out {
            Some(fan_out) => Some(fan_out.items.clone()),
            None => is_meant.then(|| Items::List(Arc::default())),
        };
        let mut said = self.defaults.clone();
        said.take_common(&mut fields, sink);
        if let Some(entry) = fields.entry("retry") {
            retry::must_count(entry, &said.retry, sink);
        }
        let (needs, need_spans) = self.needs(&entry.key, &mut fields, sink);
        let condition = condition(&mut fields, &mut texts, sink);
        let allow_failure = fields.get("allow_failure").and_then(|n| values::boolean("allow_failure", n, sink));
        let description = fields.get("description");
        if let Some(node) = description {
            values::text("description", node, sink);
        }
        let environment = environment::read(&mut fields, self.environments, sink);
        let fetches = artifacts::fetches(&mut fields, self.names, sink);
        let (work, own) = self.work(kind, &said, &mut fields, &mut texts, sink);
        let protection = environment.unwrap_or(own);
        let secrets = secrets::read(&mut fields, &work, sink);
        fields.close();

        let mut tags: Vec<Arc<str>> = kind::required_tags(kind.unwrap_or(StepKind::Run), said.runner)
            .iter()
            .copied()
            .chain(said.tags.iter().map(String::as_str))
            .map(Arc::from)
            .collect();
        tags.sort();
        tags.dedup();
        if matches!(kind, Some(StepKind::Child | StepKind::Approve)) {
            tags.clear();
        }
        let on_disconnect = self.on_disconnect(&entry.key, kind, &said, sink);
        let definition = StepDef {
            name: Arc::from(entry.key.text.as_str()),
            needs,
            condition,
            uses: Vec::new(),
            work,
            fan_out,
            tags,
            effects: said.effects,
            on_disconnect,
            timeout: said.timeout,
            expect: said.expect,
            retry: said.retry.policy,
            unmatched: said.unmatched,
            allow_failure: allow_failure.unwrap_or(false),
            stop: said.stop,
            secrets,
            protection,
            fetch: fetches.iter().map(|read| read.fetch.clone()).collect(),
        };
        let fetch_spans: Vec<Span> = fetches.iter().map(|read| read.span).collect();
        // Like steps that texts name, they must be over by then.
        let mut uses = texts.uses;
        uses.extend(fetches.iter().map(|read| (read.fetch.step, read.span)));
        Some(StepRead { definition, name_span: entry.key.span, need_spans, fetch_spans, uses })
    }

    fn work(
        &mut self,
        kind: Option<StepKind>,
        said: &Defaults<'a>,
        fields: &mut Fields<'a>,
        texts: &mut Texts<'_>,
        sink: &mut Sink,
    ) -> (Work, Protection) {
        // All are asked for, whichever there is.
        let (run, cleanup) = (fields.get("run"), fields.get("cleanup"));
        let (docker, pod) = (fields.entry("docker"), fields.entry("pod"));
        let (task, with) = (fields.entry("task"), fields.get("with"));
        let approve = fields.entry("approve");
        let env = fields.get("env").map(|node| program::env(node, sink)).unwrap_or_default();
        let image = fields.entry("image");
        let kept = artifacts::rule(fields, texts, sink);
        match kind {
            Some(StepKind::Approve) if let Some(entry) = approve => return kind::approve(entry, sink),
            Some(StepKind::Child) if let Some(entry) = task => {
                return (kind::child(entry, with, texts, sink), Protection::default());
            }
            _ => {}
        }
        let (body, templated) = match (kind, run, docker.or(pod)) {
            (Some(StepKind::Run), Some(run), _) => {
                check_runner(said.runner, run, image, sink);
                program("run", run, said, texts, sink)
            }
            (Some(kind), _, Some(entry)) => (kind::container(entry, kind, texts, sink), false),
            _ => (None, false),
        };
        let (cleanup, templated_cleanup) = match cleanup {
            Some(node) => program("cleanup", node, said, texts, sink),
            None => (None, false),
        };
        let templated_workdir = said.workdir.is_some_and(|node| texts.template(node, sink));
        let templated_env = env.values().filter(|node| texts.template(node, sink)).count() > 0;
        let (kept, templated_globs) = kept.map_or((None, false), |(rule, templated)| (Some(rule), templated));
        let body = RunBody {
            program: body.unwrap_or(Program::Command { argv: Vec::new() }),
            env: self.merged_env(&env, fields.span, sink),
            workdir: said.workdir.and_then(values::raw_scalar).map(str::to_owned),
            artifacts: kept,
            cleanup,
            templated: templated
                || templated_cleanup
                || templated_workdir
                || templated_env
                || templated_globs
                || self.env_templated,
        };
        (Work::Run(Arc::new(body)), Protection::default())
    }

    /// The task's variables with the step's own over them.
    fn merged_env(&mut self, own: &Env<'a>, span: Span, sink: &mut Sink) -> BTreeMap<String, String> {
        let mut merged = BTreeMap::new();
        for (name, node) in self.env.iter().chain(own) {
            let value = values::raw_scalar(node).unwrap_or_default();
            let Some(left) = self.env_bytes_left.checked_sub(name.len() + value.len()) else {
                let message = format!("the variables of all steps together hold more than {ENV_BYTES_TOTAL_MAX} bytes");
                sink.add(
                    Finding::error(Code::Limit, span, message)
                        .hint("move large values from `env` of the task into the steps that need them"),
                );
                return merged;
            };
            self.env_bytes_left = left;
            merged.insert((*name).to_owned(), value.to_owned());
        }
        merged
    }

    /// A policy that names `worker_lost` wins over effects, and then two copies must never run at once.
    fn on_disconnect(&self, step: &Key, kind: Option<StepKind>, said: &Defaults<'_>, sink: &mut Sink) -> OnDisconnect {
        match said.retry.worker_lost {
            // The steps of a child job have effects of their own.
            Some(place) if said.effects == Effects::Writes && kind != Some(StepKind::Child) => {
                let message = format!("the step `{}` writes and is still repeated when its worker is lost", step.text);
                let hint = "if it may be repeated say `effects: idempotent`, otherwise leave `worker_lost` out";
                let finding = Finding::warning(Code::RiskyRetry, step.span, message).hint(hint);
                sink.add(finding.related(place, "asked for here"));
                OnDisconnect::Stop
            }
            _ => said.on_disconnect,
        }
    }

    fn needs(&self, step: &Key, fields: &mut Fields<'a>, sink: &mut Sink) -> (Vec<Need>, Vec<Span>) {
        let Some(node) = fields.get("needs") else { return (Vec::new(), Vec::new()) };
        let items: Vec<&Node> = match &node.value {
            Value::Scalar { .. } => vec![node],
            _ => values::list("needs", node, sink).unwrap_or_default(),
        };
        if items.len() > NEEDS_MAX {
            sink.add(Finding::error(Code::Limit, node.span, format!("more than {NEEDS_MAX} needs")));
            return (Vec::new(), Vec::new());
        }
        let mut needs: Vec<Need> = Vec::with_capacity(items.len());
        let mut spans = Vec::with_capacity(items.len());
        let mut seen = HashMap::with_capacity(items.len());
        for item in items {
            let Some((name_node, on)) = need(item, sink) else { continue };
            let Some(name) = values::filled_text("needs", name_node, sink) else { continue };
            let Some(target) = self.names.find(name) else {
                let hint = if sink.is_full() { None } else { did_you_mean(name, self.names.in_order()) };
                let message =
                    format!("the step `{}` needs `{}`, which is not there", step.text, crate::yaml::brief(name));
                sink.add(Finding::error(Code::UnknownStep, name_node.span, message).hint_if(hint));
                continue;
            };
            if let Some(first) = seen.insert(target, name_node.span) {
                let message = format!("`{name}` stands in `needs` twice");
                sink.add(Finding::error(Code::Conflict, name_node.span, message).related(first, "first here"));
                continue;
            }
            needs.push(Need { step: target, on });
            spans.push(name_node.span);
        }
        (needs, spans)
    }
}

/// A name, or `{ step, on }`.
fn need<'n>(item: &'n Node, sink: &mut Sink) -> Option<(&'n Node, Ends)> {
    if matches!(item.value, Value::Scalar { .. }) {
        return Some((item, Ends::SUCCESS));
    }
    let mut fields = Fields::open(item, &NEED, sink)?;
    let step = fields.get("step");
    let on = fields.get("on");
    fields.close();
    let Some(on) = on else { return step.map(|step| (step, Ends::SUCCESS)) };
    let mut ends = Ends { success: false, failed: false, cancelled: false, skipped: false };
    let words: Vec<&Node> = match &on.value {
        Value::Scalar { .. } => vec![on],
        _ => values::list("on", on, sink)?,
    };
    if words.is_empty() {
        sink.add(Finding::error(Code::BadValue, on.span, "`on` names no end that would satisfy it"));
    }
    for word in words {
        match values::word("on", END_WORDS, word, sink) {
            Some("success") => ends.success = true,
            Some("failed" | "failure") => ends.failed = true,
            Some("cancelled") => ends.cancelled = true,
            Some(_) => ends.skipped = true,
            None => {}
        }
    }
    step.map(|step| (step, ends))
}

fn condition(fields: &mut Fields<'_>, texts: &mut Texts<'_>, sink: &mut Sink) -> Condition {
    let Some(node) = fields.get("if") else { return Condition::Success };
    let text = match node.as_scalar() {
        Some(Scalar::Bool(true)) => return Condition::Success,
        Some(Scalar::Bool(false)) => return Condition::Expression(Arc::from("false")),
        // What it is not is told better than that it wants quotes.
        Some(Scalar::Int(_) | Scalar::Float(_)) => values::raw_scalar(node),
        _ => values::filled_text("if", node, sink).map(str::trim),
    };
    match text {
        None | Some("success()") => Condition::Success,
        Some(expression) => {
            // The untrimmed text, for the places in it.
            let asks_outcome = texts.condition(node, values::raw_scalar(node).unwrap_or(expression), sink);
            // Who asks only for an input or an output does not mean to run after a failure.
            let whole = if asks_outcome { expression.to_owned() } else { format!("success() and ({expression})") };
            Condition::Expression(Arc::from(whole))
        }
    }
}

/// What `run` or `cleanup` executes, and whether there is anything in it to fill in.
fn program(
    what: &str,
    node: &Node,
    said: &Defaults<'_>,
    texts: &mut Texts<'_>,
    sink: &mut Sink,
) -> (Option<Program>, bool) {
    let Some((program, nodes)) = program::program(what, node, said.shell.clone(), sink) else { return (None, false) };
    let templated = nodes.iter().filter(|node| texts.template(node, sink)).count() > 0;
    (Some(program), templated)
}

/// `runner` and `image` go together.
fn check_runner(runner: &str, run: &Node, image: Option<&Entry>, sink: &mut Sink) {
    if let Some(entry) = image {
        values::filled_text("image", &entry.value, sink);
    }
    match (runner, image) {
        ("local", None) => {}
        ("local", Some(entry)) => {
            let finding = Finding::error(Code::Conflict, entry.key.span, "`image` means nothing with `runner: local`");
            sink.add(finding.hint("say `runner: docker` or `runner: pod`"));
        }
        (runner, image) => {
            let span = image.map_or(run.span, |entry| entry.key.span);
            if image.is_none() {
                let message = format!("`runner: {runner}` needs an `image`");
                sink.add(Finding::error(Code::MissingKey, span, message).hint("as in `image: alpine:3`"));
            }
            sink.not_supported(span, &format!("`runner: {runner}`"));
        }
    }
}
