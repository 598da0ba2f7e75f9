//! Tasks from text: `a -> b[if:always() retry:3], a -failed|success-> c`.
//!
//! Statements are separated by commas outside brackets; a step may be named again to give it edges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::StepIx;
use engine::definition::{
    ChildBody, ChildTask, Concurrency, Condition, Definition, DefinitionParts, Effects, Ends, FanOut, Fetch, Hook,
    HookWork, Inputs, Items, KeepRule, KeepWhen, Mail, Need, Occasion, OnDisconnect, Outside, Patience, Program,
    Protection, RunBody, StepDef, StopPolicy, Webhook, WhenFull, Work,
};
use engine::retry::{RetryOn, RetryPolicy};
use serde_json::Value;

/// The parts of a task, from its graph; the job's own limits are words too: `timeout:60s`, `expires:60s`, `expect:60s`.
pub(crate) fn task(text: &str) -> Arc<Definition> {
    let mut parts = DefinitionParts {
        name: "demo".into(),
        timeout: None,
        expires: None,
        expect: None,
        priority: 0,
        concurrency: None,
        hooks: Vec::new(),
        steps: Vec::new(),
    };
    for statement in split_outside_brackets(text) {
        let words = tokens(statement);
        match words.as_slice() {
            [one] if one.starts_with("timeout:") => parts.timeout = Some(duration(&one["timeout:".len()..])),
            [one] if one.starts_with("group:") => parts.concurrency = Some(group(&one["group:".len()..])),
            [one] if one.starts_with("expect:") => parts.expect = Some(duration(&one["expect:".len()..])),
            [one] if one.starts_with("on_") => parts.hooks.push(hook(one)),
            [one] if one.starts_with("expires:") => parts.expires = Some(duration(&one["expires:".len()..])),
            _ => chain(&words, &mut parts.steps),
        }
    }
    Arc::new(Definition::new(parts).expect("the test's graph is sound"))
}

/// One at a time.
fn group(name: &str) -> Concurrency {
    Concurrency { group: name.into(), templated: name.contains('{'), limit: 1, when_full: WhenFull::Queue }
}

pub(crate) fn plain_step(name: &str) -> StepDef {
    StepDef {
        name: name.into(),
        needs: Vec::new(),
        condition: Condition::Success,
        uses: Vec::new(),
        work: Work::Run(Arc::new(body("true"))),
        fan_out: None,
        tags: vec!["script".into()],
        effects: Effects::Writes,
        on_disconnect: OnDisconnect::Keep,
        timeout: None,
        expect: None,
        retry: RetryPolicy::default(),
        unmatched: Patience::Default,
        allow_failure: false,
        stop: StopPolicy { signal: 15, grace: Duration::from_secs(30), cleanup: Duration::from_secs(20) },
        secrets: Vec::new(),
        protection: Protection::default(),
        fetch: Vec::new(),
    }
}

fn body(word: &str) -> RunBody {
    RunBody {
        program: Program::Command { argv: vec![word.to_owned()] },
        env: BTreeMap::new(),
        workdir: None,
        cleanup: None,
        artifacts: None,
        templated: word.contains('{'),
    }
}

/// `a -> b -failed-> c`: steps in order, each needing the one before.
fn chain(words: &[&str], steps: &mut Vec<StepDef>) {
    let mut before: Option<StepIx> = None;
    let mut on = Ends::SUCCESS;
    for word in words {
        if let Some(edge) = word.strip_prefix('-') {
            on = ends(edge.trim_end_matches("->").trim_end_matches('>'));
            continue;
        }
        let ix = step(word, steps);
        if let Some(need) = before {
            steps[ix.get()].needs.push(Need { step: need, on });
        }
        before = Some(ix);
    }
}

fn ends(text: &str) -> Ends {
    if text.is_empty() {
        return Ends::SUCCESS;
    }
    let has = |word: &str| text.split('|').any(|w| w == word);
    Ends { success: has("success"), failed: has("failed"), cancelled: has("cancelled"), skipped: has("skipped") }
}

fn step(word: &str, steps: &mut Vec<StepDef>) -> StepIx {
    let (name, attributes) = match word.split_once('[') {
        Some((name, rest)) => (name, rest.trim_end_matches(']')),
        None => (word, ""),
    };
    let index = steps.iter().position(|s| *s.name == *name).unwrap_or_else(|| {
        steps.push(plain_step(name));
        steps.len() - 1
    });
    for attribute in attributes.split_whitespace() {
        let (key, value) = attribute.split_once(':').unwrap_or((attribute, ""));
        let uses = steps.iter().position(|s| *s.name == *value).map(StepIx::of);
        set(&mut steps[index], key, value, uses);
    }
    StepIx::of(index)
}

fn set(step: &mut StepDef, key: &str, value: &str, named: Option<StepIx>) {
    match key {
        "effects" => {
            step.effects = match value {
                "none" => Effects::None,
                "idempotent" => Effects::Idempotent,
                "writes" => Effects::Writes,
                other => panic!("no such effects: {other}"),
            }
        }
        "retry" => step.retry.attempts = value.parse().expect("a number of attempts"),
        "on" => step.retry.on = retry_on(value),
        "delay" => step.retry.delay = duration(value),
        "timeout" => step.timeout = Some(duration(value)),
        "expect" => step.expect = Some(duration(value)),
        "unmatched" if value == "wait" => step.unmatched = Patience::Forever,
        "unmatched" => step.unmatched = Patience::For(duration(value)),
        "tags" => step.tags = value.split('+').map(Arc::from).collect(),
        "if" => step.condition = Condition::Expression(value.into()),
        "uses" => step.uses.push(named.expect("a step that was named before")),
        "argv" => step.work = Work::Run(Arc::new(body(value))),
        "approve" => step.work = Work::Approve,
        "child" => step.work = child(value),
        "allow_failure" => step.allow_failure = true,
        "stop" => step.on_disconnect = OnDisconnect::Stop,
        "grace" => step.stop.grace = duration(value),
        "files" => {
            let when = if value == "always" { KeepWhen::Always } else { KeepWhen::Success };
            let rule = KeepRule { paths: vec!["out".to_owned()], when, optional: false };
            step.work = Work::Run(Arc::new(RunBody { artifacts: Some(rule), ..body("true") }));
        }
        "cleanup" => {
            let program = Program::Command { argv: vec!["undo".to_owned()] };
            step.work = Work::Run(Arc::new(RunBody { cleanup: Some(program), ..body("true") }));
            step.stop.cleanup = duration(value);
        }
        "leaves" => {
            let rule = KeepRule { paths: vec![value.to_owned()], when: KeepWhen::Success, optional: false };
            step.work = Work::Run(Arc::new(RunBody { artifacts: Some(rule), ..body("true") }));
        }
        "fetch" => step.fetch.push(Fetch { step: named.expect("a step that was named before"), to: None }),
        "reviewers" => step.protection.reviewers = value.parse().expect("a number of people"),
        "four_eyes" => step.protection.four_eyes = true,
        "message" => step.protection.message = Some(value.into()),
        "env" => step.protection.environment = Some(value.into()),
        "wait" => step.protection.wait = Some(duration(value)),
        "each" => step.fan_out = Some(FanOut { items: items(value), max_parallel: None, fail_fast: false }),
        "parallel" => fan_out(step).max_parallel = Some(value.parse().expect("a number of items")),
        "fail_fast" => fan_out(step).fail_fast = true,
        "hold" => step.protection.hold_expires = Some(duration(value)),
        other => panic!("no such attribute: {other}"),
    }
}

/// `on_error:x` is a job that is given `x`, `on_error:http://a` a word to somebody outside.
fn hook(word: &str) -> Hook {
    let (on, value) = word.split_once(':').expect("a hook has a value");
    let on = Occasion::ALL.into_iter().find(|known| known.word() == on).expect("an occasion");
    let work = if value.starts_with("http") {
        HookWork::Tell(Outside::Webhook(Arc::new(Webhook { url: value.to_owned(), secret: None })))
    } else if value.contains('@') {
        HookWork::Tell(Outside::Mail(Arc::new(Mail { to: vec![value.to_owned()] })))
    } else {
        let Work::Child(body) = child(value) else { unreachable!("it is a job") };
        HookWork::Task(body)
    };
    Hook { on, work, uses: Vec::new() }
}

/// A child job of one step, given this value; there is no task `none`, and nobody takes `refused`.
pub(crate) fn child(with: &str) -> Work {
    Work::Child(Arc::new(ChildBody {
        task: "child".into(),
        with: Value::from(with),
        bound: (with != "none").then(|| Arc::new(child_task([7; 32]))),
    }))
}

/// The task of such a job, under the name of its text.
pub(crate) fn child_task(hash: [u8; 32]) -> ChildTask {
    let parts = DefinitionParts {
        name: "child".into(),
        timeout: None,
        expires: None,
        expect: None,
        priority: 0,
        concurrency: None,
        hooks: Vec::new(),
        steps: vec![plain_step("work")],
    };
    let definition = Arc::new(Definition::new(parts).expect("one step is a sound graph"));
    ChildTask { definition, hash, inputs: Box::new(Anything) }
}

#[derive(Debug)]
struct Anything;

impl Inputs for Anything {
    fn bind(&self, given: Value) -> Result<Value, String> {
        if given == "refused" { Err("`refused` is no input".to_owned()) } else { Ok(given) }
    }
}

/// `3` items, or those of an expression.
fn items(value: &str) -> Items {
    match value.parse::<u64>() {
        Ok(count) => Items::List(Arc::new((0..count).map(Value::from).collect())),
        Err(_) => Items::Text(value.into()),
    }
}

fn fan_out(step: &mut StepDef) -> &mut FanOut {
    step.fan_out.as_mut().expect("`each` comes first")
}

fn retry_on(value: &str) -> RetryOn {
    let has = |word: &str| value.split('+').any(|w| w == word);
    RetryOn {
        failure: has("failure"),
        timeout: has("timeout"),
        worker_lost: has("worker_lost"),
        exit_codes: Vec::new(),
        signals: Vec::new(),
    }
}

/// `90s`, `5m` or `2h`.
pub(crate) fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let seconds: f64 = number.parse().unwrap_or_else(|_| panic!("no duration: {text}"));
    let factor = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => panic!("no duration: {text}"),
    };
    Duration::from_secs_f64(seconds * factor)
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        depth == 0 && (c == ',' || c == '\n')
    })
    .filter(|s| !s.trim().is_empty())
    .collect()
}

/// Words, where a name and its brackets are one.
fn tokens(statement: &str) -> Vec<&str> {
    let mut depth = 0;
    statement
        .split(|c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            depth == 0 && c.is_whitespace()
        })
        .filter(|word| !word.is_empty())
        .collect()
}
