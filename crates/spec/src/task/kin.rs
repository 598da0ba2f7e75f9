//! Tasks that begin each other: none may begin itself, however far around.

use std::collections::BTreeMap;

use engine::definition::{Definition, HookWork, Work};
use engine::graph::find_cycle;

/// The tasks that steps of this one begin, in the order of the file.
pub fn begins(definition: &Definition) -> impl Iterator<Item = &str> {
    definition.steps().iter().filter_map(|step| match &step.work {
        Work::Child(body) => Some(&*body.task),
        Work::Run(_) | Work::Approve => None,
    })
}

/// The tasks that follow on its end. They are in no circle: nothing follows on them in turn.
pub fn follows(definition: &Definition) -> impl Iterator<Item = &str> {
    definition.hooks.iter().filter_map(|hook| match &hook.work {
        HookWork::Task(body) => Some(&*body.task),
        HookWork::Tell(_) => None,
    })
}

/// Whether it neither begins others nor is followed by any, so that it needs to know of none.
pub fn is_alone(definition: &Definition) -> bool {
    begins(definition).chain(follows(definition)).next().is_none()
}

/// Tasks that begin each other in a circle, the first one repeated at the end. What is not among them is passed over.
pub fn circle<'a>(tasks: &BTreeMap<&'a str, &'a Definition>) -> Option<Vec<&'a str>> {
    let names: Vec<&str> = tasks.keys().copied().collect();
    let place = |name: &str| names.binary_search(&name).ok();
    let needs: Vec<Vec<usize>> = tasks.values().map(|task| begins(task).filter_map(place).collect()).collect();
    find_cycle(&needs).map(|circle| circle.into_iter().map(|at| names[at]).collect())
}

/// `deploy → notify → deploy`.
pub fn path(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<String>>().join(" → ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::task::{self, Options};

    fn definition(name: &str, begins: &[&str]) -> Arc<Definition> {
        let steps: String = begins.iter().map(|task| format!("  {task}: {{ task: {task} }}\n")).collect();
        let text = format!("name: {name}\nsteps:\n  work: {{ run: 'true' }}\n{steps}");
        task::parse(&text, "t.yaml", &Options::default()).0.expect("a good task").definition
    }

    fn circle_of(tasks: &[(&str, &[&str])]) -> Option<String> {
        let tasks: Vec<Arc<Definition>> = tasks.iter().map(|(name, begins)| definition(name, begins)).collect();
        let by_name = tasks.iter().map(|task| (&*task.name, &**task)).collect();
        circle(&by_name).map(|names| path(&names))
    }

    #[test]
    fn a_circle_is_named_and_nothing_else_is() {
        assert_eq!(circle_of(&[("a", &["b", "c"]), ("b", &["c", "not-there"]), ("c", &[])]), None);
        assert_eq!(circle_of(&[("a", &["a"])]).as_deref(), Some("`a` → `a`"));
        let found = circle_of(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
        assert_eq!(found.as_deref(), Some("`b` → `c` → `b`"));
    }
}
