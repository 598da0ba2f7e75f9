//! What can be known of a job before there is one. Whoever submits it is told of all that is wrong. A trigger has nobody to
//! ask, and may have made good jobs of the same task for years: it is refused only what no job of it could survive.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use engine::definition::{ChildBody, Condition, Definition, HookWork, Items, StepDef, Work};
use spec::task::{calls, kin, secrets};
use spec::{Diagnostic, Severity};
use store::StoreError;

use crate::access::{SecretError, SecretSource};

use super::closure::Kin;
use super::known::KnownTask;

/// How far a look goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All that a job may come to.
    All,
    /// The steps that every job which goes well comes to, and whose failure is the job's.
    Sure,
}

impl Extent {
    /// The steps of a task that are looked at.
    fn steps(self, definition: &Definition) -> BTreeSet<&str> {
        let steps = definition.steps();
        let reached = match self {
            Extent::All => return steps.iter().map(|step| &*step.name).collect(),
            Extent::Sure => reached(steps),
        };
        let is_sure = |(step, reached): &(&StepDef, bool)| *reached && !step.allow_failure && has_items(step);
        steps.iter().zip(reached).filter(is_sure).map(|(step, _)| &*step.name).collect()
    }

    fn has_hooks(self) -> bool {
        self == Extent::All
    }
}

/// Whether each step's turn comes where those before it end well.
fn reached(steps: &[StepDef]) -> Vec<bool> {
    let mut reached: Vec<bool> = steps.iter().map(|step| matches!(step.condition, Condition::Success)).collect();
    // What is not reached takes along those that need it, however far.
    while let Some(at) = (0..steps.len()).find(|at| {
        let comes = |need: &engine::definition::Need| need.on.success && reached[need.step.get()];
        reached[*at] && !steps[*at].needs.iter().all(comes)
    }) {
        reached[at] = false;
    }
    reached
}

/// A fan-out over nothing does nothing.
fn has_items(step: &StepDef) -> bool {
    match step.fan_out.as_ref().map(|fan_out| &fan_out.items) {
        None => true,
        Some(Items::Text(_)) => false,
        Some(Items::List(items)) => !items.is_empty(),
        Some(Items::Matrix(axes)) => axes.iter().all(|(_, values)| !values.is_empty()),
    }
}

/// What tasks are given that they cannot take, here or further down: its step or hook could only fail.
pub fn misfits(task: &KnownTask, file: &str, kin: &Kin, extent: Extent) -> Vec<Diagnostic> {
    let mut problems = misfits_of(&task.task.definition, (&task.row.source, file), kin, extent, &mut HashSet::new());
    // What both a step and a hook begin is looked at twice.
    let mut told = HashSet::new();
    problems.retain(|p| told.insert((p.file().to_owned(), p.line(), p.column(), p.message.clone())));
    problems
}

/// Of a task and of all that it begins, each where it is given.
fn misfits_of(
    definition: &Definition,
    (source, file): (&str, &str),
    kin: &Kin,
    extent: Extent,
    seen: &mut HashSet<*const Definition>,
) -> Vec<Diagnostic> {
    let steps = extent.steps(definition);
    let wanted = |step: Option<&str>| step.map_or(extent.has_hooks(), |step| steps.contains(step));
    let mut found = calls::misfits(definition, &|name| kin.get(name).map(|known| &*known.task.inputs));
    found.retain(|misfit| wanted(misfit.step()));
    let mut problems = calls::diagnostics(found, Severity::Error, source, file);
    for body in calls::calls(definition).filter(|call| wanted(call.step())).map(|call| call.body) {
        let (Some(bound), Some(known)) = (&body.bound, kin.get(&*body.task)) else { continue };
        if seen.insert(Arc::as_ptr(&bound.definition)) {
            problems.extend(misfits_of(&bound.definition, (&known.row.source, &body.task), kin, extent, seen));
        }
    }
    problems
}

/// A step that would wait for a job that waits for the step's own.
pub fn deadlock(task: &KnownTask, extent: Extent) -> Option<Diagnostic> {
    let definition = &task.task.definition;
    let mut bodies = HashSet::new();
    add_bodies(definition, extent, &mut bodies);
    let is_wanted = |body: &ChildBody| bodies.contains(&std::ptr::from_ref(body));
    let found = kin::deadlock(definition, &|body| {
        body.bound.as_ref().filter(|_| is_wanted(body)).map(|child| &*child.definition)
    });
    Some(found?.diagnostic(Severity::Error, &task.row.source, task.name()))
}

fn add_bodies(definition: &Definition, extent: Extent, bodies: &mut HashSet<*const ChildBody>) {
    for body in begun_by_steps(definition, extent) {
        if bodies.insert(std::ptr::from_ref(body))
            && let Some(child) = &body.bound
        {
            add_bodies(&child.definition, extent, bodies);
        }
    }
}

/// Where secrets are looked for, besides those of steps.
pub(super) type OfHook<'a> = &'a dyn Fn(&str) -> Result<(), SecretError>;

/// What steps of the task, and of those that it begins, cannot be given, and what their hooks could not be signed with;
/// each with what that prevents. It is looked for again when each step starts.
pub fn lacks(
    definition: &Definition,
    extent: Extent,
    of_step: &dyn SecretSource,
    of_hook: OfHook<'_>,
) -> Vec<(String, SecretError)> {
    let mut search = Search { extent, of_step, of_hook, seen: HashSet::new(), found: Vec::new() };
    search.look_at(definition);
    search.found
}

/// Whether it, or anything that it begins, names a secret.
pub fn names_secrets(definition: &Definition) -> bool {
    definition.steps().iter().any(|step| !step.secrets.is_empty())
        || secrets::of_hooks(definition).next().is_some()
        || begun(definition, Extent::All).any(names_secrets)
}

struct Search<'a> {
    extent: Extent,
    of_step: &'a dyn SecretSource,
    of_hook: OfHook<'a>,
    seen: HashSet<*const Definition>,
    found: Vec<(String, SecretError)>,
}

impl Search<'_> {
    fn look_at(&mut self, definition: &Definition) {
        let (name, wanted) = (&definition.name, self.extent.steps(definition));
        let steps = definition.steps().iter().filter(|step| !step.secrets.is_empty());
        for step in steps.filter(|step| wanted.contains(&*step.name)) {
            if let Err(error) = self.of_step.of_step(&step.secrets) {
                self.add(format!("step `{}` of `{name}` cannot start", step.name), error);
            }
        }
        let has_hooks = self.extent.has_hooks();
        for (on, secret) in secrets::of_hooks(definition).filter(|_| has_hooks) {
            if let Err(error) = (self.of_hook)(secret) {
                self.add(format!("a webhook in `{}` of `{name}` cannot be signed", on.word()), error);
            }
        }
        for child in begun(definition, self.extent) {
            if self.seen.insert(std::ptr::from_ref(child)) {
                self.look_at(child);
            }
        }
    }

    fn add(&mut self, what: String, error: SecretError) {
        let passes =
            error.may_pass() || matches!(error, SecretError::Store { source: StoreError::Unavailable { .. }, .. });
        // What both a step and a hook begin is looked at twice.
        let is_told = self.found.iter().any(|(told, _)| *told == what);
        let counts = !passes || self.extent != Extent::Sure;
        if counts && !is_told {
            self.found.push((what, error));
        }
    }
}

/// More than that are not told one by one.
pub const LACKS_TOLD: usize = 20;

/// All that is missing, in one text: whoever sets one of them should not find the next one only then.
pub fn in_words(lacks: &[(String, SecretError)]) -> Option<String> {
    match lacks {
        [] => None,
        [(what, error)] => Some(format!("{what}: {}", error.in_full())),
        several => {
            let told = several.iter().take(LACKS_TOLD).map(|(what, error)| format!("{what}: {error}"));
            let mut told: Vec<String> = told.collect();
            if let Some(more) = several.len().checked_sub(LACKS_TOLD).filter(|more| *more > 0) {
                told.push(format!("{more} more like these"));
            }
            Some(told.join("; "))
        }
    }
}

/// The tasks that steps and hooks begin; there is no circle among them.
fn begun(definition: &Definition, extent: Extent) -> impl Iterator<Item = &Definition> {
    let hooks = definition.hooks.iter().filter(move |_| extent.has_hooks()).filter_map(|hook| match &hook.work {
        HookWork::Task(body) => Some(&**body),
        HookWork::Tell(_) => None,
    });
    begun_by_steps(definition, extent)
        .chain(hooks)
        .filter_map(|body| body.bound.as_ref())
        .map(|child| &*child.definition)
}

fn begun_by_steps(definition: &Definition, extent: Extent) -> impl Iterator<Item = &ChildBody> {
    let wanted = extent.steps(definition);
    definition.steps().iter().filter(move |step| wanted.contains(&*step.name)).filter_map(|step| match &step.work {
        Work::Child(body) => Some(&**body),
        Work::Run(_) | Work::Approve => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(steps: &str, sure: &str) {
        let text = format!("name: t\ninput: {{ list: {{ type: list }} }}\nsteps:\n{steps}");
        let (task, found) = spec::task::parse(&text, "t.yaml", &spec::task::Options::default());
        let task = task.unwrap_or_else(|| panic!("a good task: {found:?}"));
        let steps = Extent::Sure.steps(&task.definition);
        assert_eq!(steps.into_iter().collect::<Vec<_>>().join(" "), sure);
    }

    #[test]
    fn steps_that_every_good_job_comes_to() {
        check("  a: { run: x }\n  b: { needs: [a], run: x }\n", "a b");
        check("  a: { run: x, if: \"failure()\" }\n  b: { needs: [a], run: x }\n  c: { needs: [b], run: x }\n", "");
        check("  a: { run: x, allow_failure: true }\n  b: { needs: [a], run: x }\n", "b");
        check("  a: { run: x }\n  b: { needs: [{ step: a, on: [failed] }], run: x }\n", "a");
        check("  a: { for_each: '{{ input.list }}', run: x }\n  b: { needs: [a], run: x }\n", "b");
        check("  a: { for_each: [1], run: x }\n  b: { matrix: { x: [1] }, run: x }\n", "a b");
    }
}
