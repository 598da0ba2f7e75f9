//! What a worker is told to execute.

use std::time::Duration;

use engine::definition::{self as def, Work};
use engine::state::Offer;
use engine::{Job, StepIx};
use protocol::attempt::{
    ArtifactRule, ArtifactSet, AttemptSpec, CleanupPlan, Effects, Fetch, KeepWhen, OnDisconnect, Program, SPEC_FORMAT,
    STOP_DRAIN_MAX, StopPlan,
};
use serde_json::Value;

use super::core::CoreConfig;
use super::round::wire_ticket;

/// Of what a stop may take, this is for messages, the kill and the record.
const STOP_REST: Duration = Duration::from_secs(4);
// A runner that reads the last output of the step, and then of its cleanup, for as long as it may, is still heard in time.
const _: () = assert!(2 * STOP_DRAIN_MAX.as_secs() + STOP_REST.as_secs() <= engine::STOP_MARGIN.as_secs());

pub(super) fn build(job: &Job, ix: StepIx, offer: &Offer, config: &CoreConfig) -> AttemptSpec {
    let (step, def) = (job.step(ix), job.def(ix));
    let own = match &def.work {
        Work::Run(body) => Some(body),
        Work::Approve | Work::Child(_) => None,
    };
    let body = step.rendered.as_ref().or(own).expect("only `run` steps are queued for a worker");
    let mut env = body.env.clone();
    env.extend(inputs(&job.input));
    AttemptSpec {
        format: SPEC_FORMAT,
        ticket: wire_ticket(offer.attempt, offer.fence),
        job: job.id.0,
        task: job.definition.name.to_string(),
        step: job.name(ix).into_owned(),
        number: step.attempts + 1,
        program: program(&body.program),
        env,
        workdir: body.workdir.clone(),
        timeout_ms: def.timeout.map(millis),
        effects: match def.effects {
            def::Effects::None => Effects::None,
            def::Effects::Idempotent => Effects::Idempotent,
            def::Effects::Writes => Effects::Writes,
        },
        on_disconnect: match def.on_disconnect {
            def::OnDisconnect::Keep => OnDisconnect::Keep,
            def::OnDisconnect::Stop => OnDisconnect::Stop,
        },
        lease_ms: Some(millis(config.rules.lease())),
        stop: StopPlan { signal: def.stop.signal, grace_ms: millis(def.stop.grace) },
        cleanup: body
            .cleanup
            .as_ref()
            .map(|cleanup| CleanupPlan { program: program(cleanup), budget_ms: millis(def.stop.cleanup) }),
        secrets: def.secrets.iter().map(ToString::to_string).collect(),
        artifacts: body.artifacts.as_ref().map(|keep| ArtifactRule {
            paths: keep.paths.clone(),
            when: match keep.when {
                def::KeepWhen::Success => KeepWhen::Success,
                def::KeepWhen::Always => KeepWhen::Always,
            },
            optional: keep.optional,
            bytes_max: config.artifact_bytes_max,
        }),
        fetch: def.fetch.iter().flat_map(|fetch| fetches(job, fetch)).collect(),
    }
}

fn program(program: &def::Program) -> Program {
    match program {
        def::Program::Script { shell, text } => Program::Script { shell: shell.clone(), text: text.clone() },
        def::Program::Command { argv } => Program::Command { argv: argv.clone() },
    }
}

/// What the step left, by its exact content. What a step with `for_each` became lies in a folder each, by number.
fn fetches(job: &Job, fetch: &def::Fetch) -> Vec<Fetch> {
    let one = |ix: StepIx, to: Option<String>| {
        let set = job.step(ix).artifacts?;
        let set = ArtifactSet { id: pack::SetId(set.id).to_string(), files: set.files, bytes: set.bytes };
        Some(Fetch { step: job.name(ix).into_owned(), set, to })
    };
    let to = fetch.to.as_deref().filter(|to| *to != ".");
    match job.step(fetch.step).fan {
        None => one(fetch.step, to.map(str::to_owned)).into_iter().collect(),
        Some(fan) => {
            let place = |number: u32| to.map_or_else(|| number.to_string(), |to| format!("{to}/{number}"));
            (0..fan.count).filter_map(|number| one(fan.item(number), Some(place(number)))).collect()
        }
    }
}

/// `BOWLINE_INPUT_<NAME>` for every input: text as it is, the rest as JSON.
fn inputs(input: &Value) -> impl Iterator<Item = (String, String)> {
    let fields = input.as_object().into_iter().flatten();
    fields.map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (format!("BOWLINE_INPUT_{}", name.to_uppercase().replace('-', "_")), text)
    })
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
