//! Tasks that begin each other: none may begin itself, however far around, and none may want a slot of a concurrency group that
//! only those have who wait for it.

use std::collections::{BTreeMap, BTreeSet};

use engine::definition::{ChildBody, DEPTH_MAX, Definition, HookWork, Work};
use engine::graph::find_cycle;

use crate::diagnostic::{Code, Diagnostic, Finding, Severity, Sink};
use crate::source::{Source, Sources, Span};
use crate::yaml::{self, Node};

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

/// The circle in words.
pub fn in_a_circle(names: &[&str]) -> String {
    format!("these tasks begin each other in a circle: {}", path(names))
}

/// The circle, at the place where this task begins the `next` one of it.
pub fn circle_diagnostic(definition: &Definition, next: &str, circle: &[&str], text: &str, file: &str) -> Diagnostic {
    let begins_next = |work: &Work| matches!(work, Work::Child(body) if &*body.task == next);
    let step = definition.steps().iter().find(|step| begins_next(&step.work)).map(|step| &*step.name);
    let hint = "let one of them end by itself";
    at_child(text, file, step.unwrap_or_default(), |span| {
        Finding::error(Code::TaskCycle, span, in_a_circle(circle)).hint(hint)
    })
}

/// A problem of the task that a step begins, where the text names that task.
fn at_child(text: &str, file: &str, step: &str, finding: impl FnOnce(Span) -> Finding) -> Diagnostic {
    let mut sink = Sink::new(Sources::of_file(Source::file(file, text)));
    let span = yaml::load(text, &mut sink)
        .and_then(|root| Some(entry(entry(entry(&root, "steps")?, step)?, "task")?.span))
        .unwrap_or(Span::new(0, 0, 0));
    let mut sink = Sink::new(Sources::of_file(Source::file(file, text)));
    sink.add(finding(span));
    let (mut found, _) = sink.finish();
    found.remove(0)
}

/// A step that waits for a job which waits for the step's own job: all slots of its concurrency group are held above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlock {
    /// The step of the outermost task that leads there.
    pub step: String,
    /// The tasks from the outermost to the one that is never admitted.
    pub path: Vec<String>,
    pub group: String,
    pub limit: u32,
}

/// More ways down through tasks are not looked at: whatever is behind them is found when it happens.
const WAYS_MAX: usize = 10_000;

/// The first of a task's steps that can never end, as far as that can be known: by groups whose names are no templates, through
/// the tasks that `find` knows. Who began a job holds its slot until that job is over.
pub fn deadlock<'a>(
    definition: &'a Definition,
    find: &dyn Fn(&'a ChildBody) -> Option<&'a Definition>,
) -> Option<Deadlock> {
    let mut seen = BTreeSet::new();
    definition.steps().iter().find_map(|step| {
        let Work::Child(body) = &step.work else { return None };
        let mut search = Search { find, above: vec![definition], seen: &mut seen };
        let (path, group, limit) = search.descend(body)?;
        Some(Deadlock { step: step.name.to_string(), path, group, limit })
    })
}

struct Search<'a, 's> {
    find: &'s dyn Fn(&'a ChildBody) -> Option<&'a Definition>,
    /// From the outermost one to who begins the next.
    above: Vec<&'a Definition>,
    /// What was looked at: a task, below so many holders of each group.
    seen: &'s mut BTreeSet<(&'a str, Vec<&'a str>)>,
}

impl<'a> Search<'a, '_> {
    fn descend(&mut self, body: &'a ChildBody) -> Option<(Vec<String>, String, u32)> {
        let task = (self.find)(body)?;
        let mut held: Vec<&str> = self.above.iter().filter_map(|above| constant_group(above)).collect();
        if let (Some(group), Some(concurrency)) = (constant_group(task), &task.concurrency) {
            let holders = held.iter().filter(|held| **held == group).count();
            if holders >= concurrency.limit as usize {
                let path = self.above.iter().chain([&task]).map(|task| task.name.to_string()).collect();
                return Some((path, group.to_owned(), concurrency.limit));
            }
        }
        held.sort_unstable();
        let is_deep = self.above.len() > DEPTH_MAX || self.seen.len() >= WAYS_MAX;
        if is_deep || !self.seen.insert((&*task.name, held)) {
            return None;
        }
        self.above.push(task);
        let found = task.steps().iter().find_map(|step| match &step.work {
            Work::Child(body) => self.descend(body),
            Work::Run(_) | Work::Approve => None,
        });
        self.above.pop();
        found
    }
}

/// The name of its group, where every job of it is in the same.
fn constant_group(definition: &Definition) -> Option<&str> {
    definition.concurrency.as_ref().filter(|concurrency| !concurrency.templated).map(|concurrency| &*concurrency.group)
}

impl Deadlock {
    /// What is wrong, at its place in the text of the outermost task.
    pub fn diagnostic(&self, severity: Severity, text: &str, file: &str) -> Diagnostic {
        let Deadlock { step, path: names, group, limit } = self;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (way, last) = (path(&names), names.last().copied().unwrap_or_default());
        let message = format!(
            "step `{step}` can never end: concurrency group `{group}` admits {limit} at once, and {way} all want a slot while \
             the first waits for the last"
        );
        let hint = format!("give `{last}` a group of its own, or a higher `limit`");
        at_child(text, file, step, |span| match severity {
            Severity::Error => Finding::error(Code::GroupDeadlock, span, message).hint(hint),
            Severity::Warning => Finding::warning(Code::GroupDeadlock, span, message).hint(hint),
        })
    }
}

pub(super) fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    node.entries()?.iter().find(|entry| entry.key.text == key).map(|entry| &*entry.value)
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

    /// Tasks as `name group limit: child child`, with `-` for none.
    fn deadlock_of(tasks: &[&str]) -> Option<String> {
        let texts: Vec<(String, String)> = tasks.iter().map(|line| text_of(line)).collect();
        let read = |(name, text): &(String, String)| {
            let task = task::parse(text, "t.yaml", &Options::default()).0.expect("a good task");
            (name.clone(), task.definition)
        };
        let known: BTreeMap<String, Arc<Definition>> = texts.iter().map(read).collect();
        let outermost = &known[&texts[0].0];
        let found = deadlock(outermost, &|body| known.get(&*body.task).map(|task| &**task))?;
        let shown = found.diagnostic(Severity::Error, &texts[0].1, "t.yaml");
        Some(format!("{}:{} {}", shown.line(), shown.column(), found.path.join(" ")))
    }

    fn text_of(line: &str) -> (String, String) {
        let (head, begins) = line.split_once(':').expect("a colon");
        let [name, group, limit] = head.split(' ').collect::<Vec<&str>>()[..] else { panic!("three words") };
        let concurrency = match group {
            "-" => String::new(),
            group => format!("concurrency: {{ group: '{group}', limit: {limit} }}\n"),
        };
        let steps = begins.split_whitespace().map(|task| format!("  {task}: {{ task: {task} }}\n"));
        let input = "input: { x: { type: string, default: a } }\n";
        let steps: String = steps.collect();
        (name.to_owned(), format!("name: {name}\n{input}{concurrency}steps:\n  work: {{ run: 'true' }}\n{steps}"))
    }

    #[test]
    fn a_job_that_only_its_own_parents_keep_out() {
        assert_eq!(deadlock_of(&["a g 1: b", "b g 1:"]).as_deref(), Some("6:14 a b"));
        assert_eq!(deadlock_of(&["a g 1: b", "b g 2:"]), None, "there is room for both");
        assert_eq!(deadlock_of(&["a g 2: b", "b g 1:"]).as_deref(), Some("6:14 a b"), "each goes by its own limit");
        assert_eq!(deadlock_of(&["a g 1: b", "b h 1:"]), None, "another group");
        assert_eq!(deadlock_of(&["a g 1: b", "b - 1: c", "c g 1:"]).as_deref(), Some("6:14 a b c"), "far below");
        assert_eq!(deadlock_of(&["a - 1: b c", "b g 1: c", "c h 1: d", "d g 1:"]).as_deref(), Some("5:14 a b c d"));
        assert_eq!(deadlock_of(&["a g 3: b", "b g 3: c", "c g 2:"]).as_deref(), Some("6:14 a b c"), "two are above it");
        assert_eq!(deadlock_of(&["a g 3: b", "b g 3: c", "c g 3:"]), None);
        assert_eq!(deadlock_of(&["a g 1: b", "b g-{{input.x}} 1:"]), None, "nobody knows");
        assert_eq!(deadlock_of(&["a g 1: elsewhere"]), None, "what is not known is passed over");
    }
}
