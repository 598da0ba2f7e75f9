//! Task files: the whole text checked at once, and the engine's definition made of it.
//!
//! [`parse`] is called by the server for its task folder and for every submit, and by `bowline check`.

mod around;
mod artifacts;
mod bind;
pub mod calls;
mod defaults;
mod environment;
mod fan_out;
mod given;
mod graph;
pub(crate) mod hooks;
mod input;
pub mod kin;
mod kind;
mod name;
mod program;
mod retry;
pub mod secrets;
pub(crate) mod shape;
mod sketch;
mod step;
mod texts;
pub mod webhooks;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use engine::definition::{Definition, DefinitionParts, Hook, STEPS_MAX};

pub use self::around::{Missed, Trigger};
pub use self::bind::{BODY_INPUT, InputProblem, input_variables};
pub(crate) use self::defaults::leaves_its_folder;
use self::defaults::{Defaults, expected_in_time, limit};
pub use self::environment::Environment;
pub use self::given::given_inputs;
pub use self::input::{Input, InputKind};
use self::program::Env;
pub use self::shape::PRIORITY_MAX;
use self::shape::TASK;
pub use self::sketch::Sketch;
use self::step::{StepRead, StepReader};
use self::texts::Texts;
use crate::diagnostic::{Code, Diagnostic, Finding, Sink};
use crate::lower::{Fields, values};
use crate::source::{Source, Sources, Span};
use crate::template::check::StepNames;
use crate::yaml::{self, Node};

pub use self::name::{SERVER_KEY, is_secret_name, is_tag};

/// A task that was read without an error.
#[derive(Debug)]
pub struct Task {
    pub definition: Arc<Definition>,
    pub description: Option<String>,
    /// In the order of the file.
    pub inputs: Vec<Input>,
    pub triggers: Vec<Trigger>,
    /// What is understood but does nothing yet. A task that has any must not be started.
    pub not_supported: Vec<Diagnostic>,
}

/// What the server's configuration adds to a task: what holds where it says nothing, and what it may name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    pub step_timeout: Option<Duration>,
    pub job_timeout: Option<Duration>,
    pub expires: Option<Duration>,
    /// None where they are not known: then a step may name any.
    pub environments: Option<BTreeMap<String, Environment>>,
}

/// Reads a task file. There is a task exactly if no diagnostic is an error; without one, what is not supported yet is
/// among the diagnostics.
pub fn parse(text: &str, file: &str, options: &Options) -> (Option<Task>, Vec<Diagnostic>) {
    parse_into(Sink::new(Sources::of_file(Source::file(file, text))), text, options)
}

/// The same for the text of a job or task that is stored: it was accepted, perhaps by an older version, and a job that is
/// under way must be readable after an upgrade. What later rules refuse is a warning, and fails where it is done, if at all.
pub fn parse_stored(text: &str, file: &str, options: &Options) -> (Option<Task>, Vec<Diagnostic>) {
    parse_into(Sink::of_accepted(Sources::of_file(Source::file(file, text))), text, options)
}

fn parse_into(mut sink: Sink, text: &str, options: &Options) -> (Option<Task>, Vec<Diagnostic>) {
    let read = yaml::load(text, &mut sink).and_then(|root| Parts::read(&root, options, &mut sink));
    let parts = read.filter(|_| !sink.has_errors());
    let (mut diagnostics, not_supported) = sink.finish();
    match parts {
        Some(parts) => (Some(parts.into_task(not_supported)), diagnostics),
        None => {
            diagnostics.extend(not_supported);
            (None, diagnostics)
        }
    }
}

/// The task before it is known to be free of errors.
struct Parts {
    definition: Definition,
    description: Option<String>,
    inputs: Vec<Input>,
    triggers: Vec<Trigger>,
}

impl Parts {
    fn read(root: &Node, options: &Options, sink: &mut Sink) -> Option<Parts> {
        let mut fields = Fields::open(root, &TASK, sink)?;
        let name = fields
            .get("name")
            .and_then(|node| values::filled_text("name", node, sink).filter(|name| name::task(name, node.span, sink)));
        let description =
            fields.get("description").and_then(|n| values::text("description", n, sink)).map(str::to_owned);
        let inputs = fields.get("input").map(|n| input::inputs(n, sink)).unwrap_or_default();
        let timeout = fields.get("timeout").map_or(options.job_timeout, |n| limit("timeout", n, sink));
        let expires = fields.get("expires").map_or(options.expires, |n| limit("expires", n, sink));
        let expect = fields.get("expect").and_then(|node| {
            let expect = limit("expect", node, sink);
            expected_in_time(expect, timeout, node, sink);
            expect
        });
        let priority =
            fields.get("priority").and_then(|n| values::integer("priority", -PRIORITY_MAX..=PRIORITY_MAX, n, sink));
        let concurrency = around::concurrency(&mut fields, name.unwrap_or_default(), &inputs, sink);
        let triggers = around::triggers(&mut fields, name.unwrap_or_default(), &inputs, sink);
        let steps = read_steps(&mut fields, &inputs, options, sink);
        let hooks = read_hooks(&mut fields, &inputs, sink);
        fields.close();

        let parts = DefinitionParts {
            name: Arc::from(name?),
            timeout,
            expires,
            expect,
            priority: priority.and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
            concurrency,
            hooks,
            steps: steps?.into_iter().map(|step| step.definition).collect(),
        };
        match Definition::new(parts) {
            Ok(definition) => Some(Parts { definition, description, inputs, triggers }),
            Err(error) => {
                sink.add(Finding::error(Code::Conflict, Span::new(0, 0, 0), error.to_string()));
                None
            }
        }
    }

    fn into_task(self, not_supported: Vec<Diagnostic>) -> Task {
        let Parts { definition, description, inputs, triggers } = self;
        Task { definition: Arc::new(definition), description, inputs, triggers, not_supported }
    }
}

/// All steps, their graph checked; none if there was an error that makes it pointless.
fn read_steps(fields: &mut Fields<'_>, inputs: &[Input], options: &Options, sink: &mut Sink) -> Option<Vec<StepRead>> {
    let (declared, inputs) = (inputs, input::names(inputs));
    let env = fields.get("env").map(|node| program::env(node, sink)).unwrap_or_default();
    let env_templated = check_task_env(&env, &inputs, sink);
    let of_server = Defaults::of_server(options.step_timeout);
    let defaults = match fields.get("defaults") {
        Some(node) => of_server.with(node, sink),
        None => of_server,
    };
    let steps = fields.get("steps")?;
    let Some(entries) = steps.entries() else {
        sink.add(values::mismatch("steps", "a mapping", steps).hint("as in `steps: { hello: { run: echo hello } }`"));
        return None;
    };
    if entries.is_empty() || entries.len() > STEPS_MAX {
        let message = format!("a task has between 1 and {STEPS_MAX} steps, this one has {}", entries.len());
        sink.add(Finding::error(Code::Limit, steps.span, message));
        return None;
    }
    let names = StepNames::new(entries.iter().map(|entry| entry.key.text.as_str()));
    for entry in entries {
        name::step(&entry.key.text, entry.key.span, sink);
    }
    let environments = options.environments.as_ref();
    let mut reader = StepReader::new(&names, &inputs, declared, &defaults, environments, &env, env_templated);
    let read: Vec<Option<StepRead>> = entries.iter().map(|entry| reader.read(entry, sink)).collect();
    // Indices into the list are indices of the file only if none is missing.
    let mut steps: Vec<StepRead> = read.into_iter().collect::<Option<_>>()?;
    let order = graph::order(&steps, sink)?;
    graph::resolve_uses(&mut steps, &order, sink);
    artifacts::check(&steps, sink);
    fan_out::check_all(&steps, sink);
    Some(steps)
}

/// What follows on the end; its texts may name every step.
fn read_hooks(fields: &mut Fields<'_>, inputs: &[Input], sink: &mut Sink) -> Vec<Hook> {
    let entries = fields.get("steps").and_then(Node::entries).unwrap_or_default();
    let names = StepNames::new(entries.iter().map(|entry| entry.key.text.as_str()));
    hooks::hooks(fields, &input::names(inputs), &names, sink)
}

/// Whether any variable of the task has something to fill in.
fn check_task_env(env: &Env<'_>, inputs: &HashMap<String, bool>, sink: &mut Sink) -> bool {
    let mut texts = Texts { inputs, steps: None, items: None, outcome: false, notice: false, uses: Vec::new() };
    env.values().filter(|node| texts.template(node, sink)).count() > 0
}
