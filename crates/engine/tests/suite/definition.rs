//! What is no task, and what is just one.

use engine::StepIx;
use engine::definition::{Definition, DefinitionParts, Ends, Need, STEPS_MAX, StepDef};

use crate::support::task::{child_task, plain_step};

/// What is wrong with a task of these steps; nothing if it is sound.
fn refusal(steps: Vec<StepDef>) -> Option<String> {
    let parts = DefinitionParts {
        name: "demo".into(),
        timeout: None,
        expires: None,
        expect: None,
        priority: 0,
        concurrency: None,
        hooks: Vec::new(),
        steps,
    };
    Definition::new(parts).err().map(|error| error.to_string())
}

fn needing(name: &str, needs: &[u32]) -> StepDef {
    let needs = needs.iter().map(|&step| Need { step: StepIx(step), on: Ends::SUCCESS }).collect();
    StepDef { needs, ..plain_step(name) }
}

fn many(count: usize) -> Vec<StepDef> {
    (0..count).map(|number| plain_step(&format!("s{number}"))).collect()
}

#[test]
fn a_task_has_some_steps_but_not_too_many() {
    assert_eq!(refusal(Vec::new()).as_deref(), Some("a task has at least one step"));
    assert_eq!(refusal(many(1)), None);
    assert_eq!(refusal(many(STEPS_MAX)), None);
    let told = refusal(many(STEPS_MAX + 7));
    assert_eq!(told.as_deref(), Some("a task has at most 20000 steps, this one has 20007"));
}

#[test]
fn steps_have_names_of_their_own() {
    let told = refusal(vec![plain_step("a"), plain_step("b"), plain_step("a")]);
    assert_eq!(told.as_deref(), Some("two steps are named `a`"));
}

#[test]
fn needs_are_there_and_lead_nowhere_back() {
    let told = refusal(vec![plain_step("a"), needing("b", &[2])]);
    assert_eq!(told.as_deref(), Some("step `b` needs a step that is not there"));
    let told = refusal(vec![needing("a", &[1]), needing("b", &[2]), needing("c", &[1])]);
    assert_eq!(told.as_deref(), Some("these steps wait for each other: b → c → b"));
}

#[test]
fn the_same_text_is_the_same_task() {
    assert_eq!(child_task([7; 32]), child_task([7; 32]));
    assert_ne!(child_task([7; 32]), child_task([8; 32]));
}
