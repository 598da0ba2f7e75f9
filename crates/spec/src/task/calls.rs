//! What a task gives to those that its steps begin and that follow on it: what they cannot take is known as soon as both texts
//! are, and not when the step's turn has come. Called by `bowline check`, by a submit, and for the tasks that a server lists.

use std::collections::{BTreeMap, BTreeSet};

use engine::definition::{ChildBody, DEPTH_MAX, Definition, HookWork, Occasion, Work};
use serde_json::Value as Json;

use super::bind;
use super::input::Input;
use super::kin::{self, entry};
use crate::diagnostic::{Code, Diagnostic, Finding, Severity, Sink};
use crate::source::{Source, Sources, Span};
use crate::template::is_template;
use crate::yaml::{self, Node, Value};

/// One place where a task names another.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub(super) by: By<'a>,
    pub body: &'a ChildBody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By<'a> {
    Step(&'a str),
    /// The so-many-th of its occasion.
    Hook(Occasion, usize),
}

impl<'a> Call<'a> {
    /// None: a hook.
    pub fn step(&self) -> Option<&'a str> {
        self.by.step()
    }
}

impl<'a> By<'a> {
    fn step(self) -> Option<&'a str> {
        match self {
            By::Step(name) => Some(name),
            By::Hook(..) => None,
        }
    }
}

/// Tasks that lead to more levels of each other than there may be, through those that `find` knows, which are in no circle.
pub fn too_deep<'a>(definition: &'a Definition, find: &dyn Fn(&str) -> Option<&'a Definition>) -> Vec<Misfit<'a>> {
    let mut depths = Depths { find, known: BTreeMap::new() };
    let found = calls(definition).filter_map(|Call { by, body }| {
        let mut way = depths.below(&body.task);
        if way.len() <= DEPTH_MAX {
            return None;
        }
        way.insert(0, &definition.name);
        let message = format!("tasks begin each other more than {DEPTH_MAX} levels deep: {}", kin::path(&way));
        let hint = Some("make one task of some of them".to_owned());
        Some(Misfit { by, at: At::Task, code: Code::Limit, message, hint })
    });
    found.collect()
}

struct Depths<'a, 'f> {
    find: &'f dyn Fn(&str) -> Option<&'a Definition>,
    known: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Depths<'a, '_> {
    /// The longest way down that begins with this one.
    fn below(&mut self, name: &'a str) -> Vec<&'a str> {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        // Whoever comes back to it on the way is in a circle, and that is told elsewhere.
        self.known.insert(name, vec![name]);
        let begins: BTreeSet<&str> = (self.find)(name).into_iter().flat_map(kin::begins).collect();
        let ways: Vec<Vec<&str>> = begins.into_iter().map(|next| self.below(next)).collect();
        let longest = ways.into_iter().max_by_key(Vec::len).unwrap_or_default();
        let way: Vec<&str> = [name].into_iter().chain(longest).collect();
        self.known.insert(name, way.clone());
        way
    }
}

/// All of a task: those of its steps, then those of its hooks.
pub fn calls(definition: &Definition) -> impl Iterator<Item = Call<'_>> {
    let steps = definition.steps().iter().filter_map(|step| match &step.work {
        Work::Child(body) => Some(Call { by: By::Step(&step.name), body }),
        Work::Run(_) | Work::Approve => None,
    });
    let hooks = definition.hooks.iter().enumerate().filter_map(|(at, hook)| match &hook.work {
        HookWork::Task(body) => {
            let number = definition.hooks[..at].iter().filter(|before| before.on == hook.on).count();
            Some(Call { by: By::Hook(hook.on, number), body })
        }
        HookWork::Tell(_) => None,
    });
    steps.chain(hooks)
}

/// Something that is given to a task that cannot take it, or not given although it must be.
#[derive(Debug)]
pub struct Misfit<'a> {
    by: By<'a>,
    at: At<'a>,
    code: Code,
    message: String,
    hint: Option<String>,
}

impl<'a> Misfit<'a> {
    /// The step that gives it; none: a hook.
    pub fn step(&self) -> Option<&'a str> {
        self.by.step()
    }
}

#[derive(Debug, Clone, Copy)]
enum At<'a> {
    /// An input's name in `with`.
    Name(&'a str),
    /// What it is given there.
    Value(&'a str),
    /// All of `with`, or the task's name where there is none.
    Whole,
    /// The task's name.
    Task,
}

/// Everything that does not fit, through the tasks whose inputs `find` knows. What a template gives is nobody's guess.
pub fn misfits<'a, 'i>(definition: &'a Definition, find: &dyn Fn(&str) -> Option<&'i [Input]>) -> Vec<Misfit<'a>> {
    let known = calls(definition).filter_map(|call| Some((call, find(&call.body.task)?)));
    known.flat_map(|(call, inputs)| misfits_of(call, inputs)).collect()
}

/// What is wrong, and what to do about it.
pub type Told = (String, Option<String>);

/// Tasks that are named and cannot be begun, by what `problem` says of each name.
pub fn strangers<'a>(definition: &'a Definition, problem: &dyn Fn(&str) -> Option<Told>) -> Vec<Misfit<'a>> {
    let found = calls(definition).filter_map(|Call { by, body }| {
        let (message, hint) = problem(&body.task)?;
        Some(Misfit { by, at: At::Task, code: Code::UnknownReference, message, hint })
    });
    found.collect()
}

pub(super) fn misfits_of<'a>(call: Call<'a>, inputs: &[Input]) -> Vec<Misfit<'a>> {
    let Call { by, body } = call;
    let given = body.with.as_object();
    let mut found = Vec::new();
    for (name, value) in given.into_iter().flatten() {
        let Some(input) = inputs.iter().find(|input| input.name == *name) else {
            let problem = bind::unknown(&body.task, inputs.iter(), name);
            let (at, code) = (At::Name(name), Code::UnknownKey);
            found.push(Misfit { by, at, code, message: problem.message, hint: problem.hint });
            continue;
        };
        if let Err(problem) = could_take(input, value) {
            let message = format!("the task `{}` cannot take this: {}", body.task, problem.message);
            found.push(Misfit { by, at: At::Value(name), code: Code::BadValue, message, hint: problem.hint });
        }
    }
    let is_given = |name: &str| given.and_then(|given| given.get(name)).is_some_and(|value| !value.is_null());
    for input in inputs.iter().filter(|input| input.required && !is_given(&input.name)) {
        let Input { name, .. } = input;
        let message = format!("the task `{}` requires the input `{name}`, which it is not given", body.task);
        let hint = Some(format!("give it in `with`, as in `with: {{ {name}: … }}`"));
        found.push(Misfit { by, at: At::Whole, code: Code::MissingKey, message, hint });
    }
    found
}

/// Whether an input could be this, whatever templates within it give.
fn could_take(input: &Input, value: &Json) -> Result<(), bind::InputProblem> {
    match value {
        // As if it were not given.
        Json::Null => Ok(()),
        Json::String(text) if is_template(text) => Ok(()),
        value if has_template(value) => bind::of_its_kind(input, value.clone()).map(drop),
        value => input.take(value.clone()).map(drop),
    }
}

fn has_template(value: &Json) -> bool {
    match value {
        Json::String(text) => is_template(text),
        Json::Array(items) => items.iter().any(has_template),
        Json::Object(fields) => fields.values().any(has_template),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// The same with their places in the text of the task that gives it.
pub fn diagnostics(misfits: Vec<Misfit<'_>>, severity: Severity, text: &str, file: &str) -> Vec<Diagnostic> {
    if misfits.is_empty() {
        return Vec::new();
    }
    let sources = || Sources::of_file(Source::file(file, text));
    let root = yaml::load(text, &mut Sink::new(sources()));
    let mut sink = Sink::new(sources());
    for Misfit { by, at, code, message, hint } in misfits {
        let span = root.as_ref().and_then(|root| place(root, by, at)).unwrap_or(Span::new(0, 0, 0));
        sink.add(match severity {
            Severity::Error => Finding::error(code, span, message).hint_if(hint),
            Severity::Warning => Finding::warning(code, span, message).hint_if(hint),
        });
    }
    sink.finish().0
}

fn place(root: &Node, by: By<'_>, at: At<'_>) -> Option<Span> {
    let caller = match by {
        By::Step(name) => entry(entry(root, "steps")?, name)?,
        By::Hook(on, number) => match &entry(root, on.word())?.value {
            Value::List(items) => items.get(number)?,
            Value::Map(_) | Value::Scalar { .. } => return None,
        },
    };
    let key = |of: &Node, name: &str| of.entries()?.iter().find(|entry| entry.key.text == name).map(|e| e.key.span);
    let within = match at {
        At::Name(name) => entry(caller, "with").and_then(|with| key(with, name)),
        At::Value(name) => entry(caller, "with").and_then(|with| entry(with, name)).map(|value| value.span),
        At::Whole => key(caller, "with"),
        At::Task => None,
    };
    within.or_else(|| entry(caller, "task").map(|task| task.span))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::task::{self, Options};

    const NOTIFY: &str = "name: notify\ninput:\n  text: { type: string, required: true, pattern: '^[a-z ]+$' }\n  \
                          level: { type: enum, options: [info, alarm], default: info }\n  count: { type: integer, max: 9 }\n  \
                          hosts: { type: list }\nsteps: { a: { run: x } }\n";

    fn check(text: &str, expect: &Expect) {
        let read = |text: &str| task::parse(text, "t.yaml", &Options::default()).0.expect("a good task");
        let (task, notify) = (read(text), read(NOTIFY));
        let found = misfits(&task.definition, &|name| (name == "notify").then_some(&notify.inputs));
        let mut told = String::new();
        for d in diagnostics(found, Severity::Error, text, "t.yaml") {
            told += &format!("{}:{} {}: {}\n", d.line(), d.column(), d.code.word(), d.message);
            told += &d.hint.map(|hint| format!("    {hint}\n")).unwrap_or_default();
        }
        expect.assert_eq(&told);
    }

    #[test]
    fn what_steps_give() {
        check(
            "name: t\nsteps:\n  a:\n    task: notify\n    with: { texts: hello, level: loud, count: 12 }\n",
            &expect![[r#"
                5:5 missing_key: the task `notify` requires the input `text`, which it is not given
                    give it in `with`, as in `with: { text: … }`
                5:13 unknown_key: the task `notify` has no input `texts`
                    did you mean `text`?
                5:34 bad_value: the task `notify` cannot take this: `level` must be `info` or `alarm`, not `loud`
                5:47 bad_value: the task `notify` cannot take this: `count` must be at most 9, not 12
            "#]],
        );
        check(
            "name: t\nsteps:\n  a: { task: notify }\n  b: { task: elsewhere, with: { x: 1 } }\n",
            &expect![[r#"
            3:14 missing_key: the task `notify` requires the input `text`, which it is not given
                give it in `with`, as in `with: { text: … }`
        "#]],
        );
        check(
            "name: t\nsteps:\n  a:\n    for_each: [x]\n    task: notify\n    with: { text: '{{ item }}', level: null, count: '7', hosts: a }\n",
            &expect![""],
        );
        check(
            "name: t\nsteps:\n  a: { task: notify, with: { text: null, count: ['{{ job.id }}'], hosts: ['{{ job.id }}'] } }\n",
            &expect![[r#"
                3:22 missing_key: the task `notify` requires the input `text`, which it is not given
                    give it in `with`, as in `with: { text: … }`
                3:49 bad_value: the task `notify` cannot take this: `count` must be a whole number, not `["{{ job.id }}"]`
            "#]],
        );
    }

    #[test]
    fn what_hooks_give() {
        check(
            "name: t\nsteps: { a: { run: x } }\non_success: [ { task: notify, with: { text: done } } ]\non_error:\n  \
             - webhook: https://example.com/\n  - task: notify\n  - { task: notify, with: { text: BAD, x: 1 } }\n\
             on_notice: [ { task: notify, with: { text: '{{ notice.text }}', lvl: info } } ]\n",
            &expect![[r#"
                6:11 missing_key: the task `notify` requires the input `text`, which it is not given
                    give it in `with`, as in `with: { text: … }`
                7:35 bad_value: the task `notify` cannot take this: `text` must match ^[a-z ]+$, not `BAD`
                7:40 unknown_key: the task `notify` has no input `x`
                    it has `text`, `level`, `count` or `hosts`
                8:65 unknown_key: the task `notify` has no input `lvl`
                    did you mean `level`?
            "#]],
        );
    }
}
