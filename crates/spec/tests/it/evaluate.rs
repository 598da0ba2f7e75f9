//! Conditions and templates over the state of a job.

use std::sync::Arc;

use engine::definition::{Condition, HookWork, Program, RunBody, StepDef, Work};
use engine::eval::{Evaluator, Outcome, Scope, StepView};
use engine::{Failure, FailureKind, JobId, JobState, StateName, StepIx};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use spec::eval::Templates;

use crate::task;

/// The step `s` of a task whose step `build` ended with the given output.
struct Case {
    step: StepDef,
    names: [Arc<str>; 2],
    input: Value,
    item: Value,
    output: Value,
}

impl Case {
    fn new(step: &str) -> Case {
        let input = "input: { version: {}, count: { type: integer }, hosts: { type: list }, none: {} }";
        let text = format!("name: demo\n{input}\nsteps:\n  build: {{ run: x }}\n  s: {{ needs: [build], {step} }}\n");
        let task = task(&text);
        let steps = task.definition.steps();
        Case {
            step: steps[1].clone(),
            names: [steps[0].name.clone(), steps[1].name.clone()],
            input: json!({ "version": "v1", "count": 3, "hosts": ["a", "b"], "none": null }),
            item: json!({ "os": "debian", "n": 7 }),
            output: json!({ "sha": "abc", "flag": "false", "big": "x".repeat(200_000) }),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&Scope<'_>) -> T) -> T {
        self.at_the_end(None, act)
    }

    /// The same, once the job is over.
    fn at_the_end<T>(&self, outcome: Option<Outcome<'_>>, act: impl FnOnce(&Scope<'_>) -> T) -> T {
        let view = |ix: StepIx| StepView {
            name: &self.names[ix.get()],
            state: StateName::Failed,
            output: &self.output,
            error_code: Some("exit_code"),
        };
        act(&Scope {
            job: JobId(uuid::Uuid::nil()),
            task: "demo",
            input: &self.input,
            success: false,
            failure: true,
            cancelled: false,
            steps: &view,
            item: Some(&self.item),
            outcome,
            notice: None,
        })
    }
}

fn holds(condition: &str, expect: &Expect) {
    let case = Case::new(&format!("run: x, if: \"{condition}\""));
    let Condition::Expression(expression) = &case.step.condition else { panic!("a condition") };
    let outcome = case.with(|scope| Templates.holds(expression, &case.step, scope));
    expect.assert_eq(&format!("{outcome:?}"));
}

fn rendered(step: &str) -> Result<RunBody, String> {
    let case = Case::new(step);
    let Work::Run(body) = &case.step.work else { panic!("it runs") };
    case.with(|scope| Templates.render(body, &case.step, scope))
}

fn renders(run: &str, expect: &Expect) {
    let shown = match rendered(&format!("run: \"{run}\"")) {
        Ok(RunBody { program: Program::Script { text, .. }, .. }) => text,
        Ok(other) => format!("{other:?}"),
        Err(message) => message,
    };
    expect.assert_eq(&shown);
}

#[test]
fn conditions() {
    holds("always()", &expect!["Ok(true)"]);
    holds("failure()", &expect!["Ok(true)"]);
    holds("not cancelled() and failure()", &expect!["Ok(true)"]);
    holds("success() or steps.build.state == 'success'", &expect!["Ok(false)"]);
    holds("always() and input.count > 2 and 'a' in input.hosts", &expect!["Ok(true)"]);
    holds("always() and steps.build.error == 'exit_code'", &expect!["Ok(true)"]);
    holds("always() and input.version is startingwith 'v'", &expect!["Ok(true)"]);
    holds("steps.build.output.missing is defined", &expect!["Ok(false)"]);
}

/// Here something failed. Who does not ask how its needs ended does not run then.
#[test]
fn a_condition_without_a_function_means_success_as_well() {
    holds("steps.build.error == 'exit_code'", &expect!["Ok(false)"]);
    holds("true", &expect!["Ok(false)"]);
}

#[test]
fn conditions_that_fail() {
    holds(
        "always() and steps.build.output.flag",
        &expect![[
            r#"Err("the condition `always() and steps.build.output.flag` gave `false`, which is neither true nor false; compare it with something, as in `… == 'yes'`")"#
        ]],
    );
    holds(
        "always() and steps.build.output.missing == 'x'",
        &expect![[
            r#"Err("the condition `always() and steps.build.output.missing …` failed: there is no such value, at `and steps.build.output.missing == 'x'`")"#
        ]],
    );
    holds("always() and input.count > 'x'", &expect!["Ok(false)"]);
}

#[test]
fn texts() {
    renders(
        "echo {{ input.version }}\\n",
        &expect![[r#"
        echo v1
    "#]],
    );
    renders(
        "{{ steps.build.output.sha | upper }} {{ job.id }} {{ task.name }}",
        &expect!["ABC 00000000-0000-0000-0000-000000000000 demo"],
    );
    renders("{{ input.hosts }} {{ input.hosts | join(' ') }} {{ input.count * 2 }}", &expect![[r#"["a","b"] a b 6"#]]);
    renders("{{ steps.build.output.nope | default('none') }} {{ input.none or 'nobody' }}", &expect!["none nobody"]);
    renders("{{ 'a b' | quote }} {{ '{{' }}", &expect!["'a b' {{"]);
}

#[test]
fn texts_that_fail() {
    renders(
        "{{ steps.build.output.nope }}",
        &expect!["the template in `run` failed: there is no such value, at `.output.nope`"],
    );
    renders(
        "{{ input.none }}",
        &expect![
            "the template in `run` failed: the value is null; give another with `or`, as in `input.name or 'nobody'`, at `input.none`"
        ],
    );
    renders(
        &"{{ steps.build.output.big }}".repeat(6),
        &expect!["the templates of the step grow beyond 1048576 bytes at `run`"],
    );
    renders("{{ '\\\\u0000' }}", &expect!["`run` holds a NUL character, which no program can be given"]);
    renders("{{ 1 / 0 }}", &expect!["the template in `run` failed: unable to calculate 1 / 0, at `1 / 0`"]);
}

/// Each of these is quick, all of them together are not; what they print is little.
#[test]
fn many_filters_over_much_data() {
    let run = "{{ steps.build.output.big | list | sort | length }}".repeat(100);
    let problem = rendered(&format!("run: \"{run}\"")).expect_err("a hundred sorts of 200,000 items");
    assert!(problem.contains("go through too much data"), "{problem}");
}

#[test]
fn every_text_of_a_step_is_filled_in() {
    let body = rendered(
        "run: ['{{ input.version }}', plain], env: { K: '{{ task.name }}', L: l }, workdir: '/{{ input.count }}'",
    );
    let body = body.expect("all values are there");
    assert_eq!(body.program, Program::Command { argv: vec!["v1".to_owned(), "plain".to_owned()] });
    assert_eq!((body.env["K"].as_str(), body.env["L"].as_str()), ("demo", "l"));
    assert_eq!(body.workdir.as_deref(), Some("/3"));
    assert!(!body.templated);
}

#[test]
fn a_filled_in_folder_stays_in_the_attempts_own() {
    let folder = |workdir: &str| rendered(&format!("run: x, workdir: \"{workdir}\"")).map(|body| body.workdir);
    assert_eq!(folder("{{ '..' }}x/a..b"), Ok(Some("..x/a..b".to_owned())));
    assert_eq!(folder("{{ '/srv' }}/../data"), Ok(Some("/srv/../data".to_owned())), "an absolute one may be anywhere");
    let problem =
        "`workdir`: `a/../../x` leads out of the attempt's own folder; use a folder without `..`, or an absolute path";
    assert_eq!(folder("a/{{ '../..' }}/x"), Err(problem.to_owned()));
}

fn goes_over(fan_out: &str, expect: &Expect) {
    let case = Case::new(&format!("run: x, {fan_out}"));
    let items = &case.step.fan_out.as_ref().expect("it is a fan-out").items;
    let shown = match case.with(|scope| Templates.items(items, &case.step, scope)) {
        Ok(items) => Value::Array(items).to_string(),
        Err(message) => message,
    };
    expect.assert_eq(&shown);
}

#[test]
fn items_keep_their_types() {
    goes_over("for_each: [a, 1, true, { os: debian }]", &expect![[r#"["a",1,true,{"os":"debian"}]"#]]);
    goes_over(
        "for_each: ['{{ input.version }}-x', '{{ input.count }}', ['{{ input.hosts }}']]",
        &expect![[r#"["v1-x",3,[["a","b"]]]"#]],
    );
    goes_over("for_each: \"{{ input.hosts }}\"", &expect![[r#"["a","b"]"#]]);
    goes_over("for_each: \"{{- input.hosts | reverse -}}\"", &expect![[r#"["b","a"]"#]]);
    goes_over("for_each: []", &expect!["[]"]);
    goes_over(
        "matrix: { os: [debian, alpine], n: [1, 2] }",
        &expect![[r#"[{"n":1,"os":"debian"},{"n":2,"os":"debian"},{"n":1,"os":"alpine"},{"n":2,"os":"alpine"}]"#]],
    );
    goes_over("matrix: { os: [debian], n: [] }", &expect!["[]"]);
}

/// What a script writes with `echo` is a text, and may hold a list.
#[test]
fn a_text_that_holds_a_list_is_a_list() {
    goes_over("for_each: \"{{ '[1, 2]' }}\"", &expect!["[1,2]"]);
    goes_over(
        "for_each: \"{{ steps.build.output.sha }}\"",
        &expect!["`for_each` wants a list, and its template gave the text `abc`"],
    );
    goes_over("for_each: \"{{ input.count + 0 }}\"", &expect!["`for_each` wants a list, and its template gave `3`"]);
    goes_over(
        "for_each: \"{{ steps.build.output.nope }}\"",
        &expect!["the template in `for_each` failed: there is no such value, at `steps.build.output.nope`"],
    );
    goes_over("for_each: \"{{ input.none }}\"", &expect!["`for_each` wants a list, and its template gave `null`"]);
}

#[test]
fn a_cleanup_is_filled_in_like_the_step() {
    let of_cleanup = |step: &str| rendered(step).map(|body| body.cleanup);
    let undo = |word: &str| Program::Command { argv: vec!["undo".into(), word.into()] };
    assert_eq!(of_cleanup("run: x, cleanup: [undo, \"{{ input.version }}\"]"), Ok(Some(undo("v1"))));
    assert!(
        of_cleanup("run: x, cleanup: \"{{ steps.build.output.nope }}\"").is_err_and(|why| why.contains("`cleanup`"))
    );
}

#[test]
fn an_item_is_known_to_the_texts_of_its_step() {
    let of_item = |step: &str| match rendered(step) {
        Ok(RunBody { program: Program::Script { text, .. }, .. }) => text,
        Ok(other) => format!("{other:?}"),
        Err(message) => message,
    };
    assert_eq!(of_item("run: \"{{ item.os }} {{ item.n + 1 }}\", matrix: { os: [debian], n: [7] }"), "debian 8");
}

fn given(step: &str) -> Result<Value, String> {
    let case = Case::new(step);
    let Work::Child(body) = &case.step.work else { panic!("it begins a job") };
    assert_eq!(&*body.task, "other");
    case.with(|scope| Templates.fill(&body.with, &case.step.uses, scope))
}

/// A text that is one template keeps the type of what it gives; what is no text stays as it is.
#[test]
fn what_a_child_job_is_given() {
    assert_eq!(given("task: other"), Ok(json!({})));
    let with = "task: other, with: { a: 1, v: '{{ input.version }}!', n: '{{ input.count }}', deep: ['{{ steps.build.output.sha }}'] }";
    assert_eq!(given(with), Ok(json!({ "a": 1, "v": "v1!", "n": 3, "deep": ["abc"] })));
    let problem =
        given("task: other, with: { v: '{{ steps.build.output.nope }}' }").expect_err("there is no such output");
    assert!(problem.contains("`with`") && problem.contains("there is no such value"), "{problem}");
}

/// A hook sees every step, and how the job ended.
#[test]
fn what_follows_on_an_end_is_given_how_it_was() {
    let text = "name: t\nsteps: { build: { run: x }, s: { run: y } }\non_error:\n- task: page\n  with:\n    \
                text: '{{ job.id }} is {{ job.state }}: {{ job.error.code }} at {{ job.error.step }}'\n    \
                sha: '{{ steps.s.output.sha }}'\n    whole: '{{ job.error }}'\n";
    let (task, problems) = spec::task::parse(text, "t.yaml", &spec::task::Options::default());
    assert_eq!(problems.len(), 0, "{problems:?}");
    let hooks = &task.expect("a good task").definition.hooks;
    assert_eq!(hooks[0].uses, [StepIx(1)]);
    let HookWork::Task(body) = &hooks[0].work else { panic!("a task follows") };
    let failure = Failure::new(FailureKind::ExitCode(3), "it exited with 3");
    let fill = |error: Option<&Failure>| {
        let outcome = Outcome { state: JobState::Failed, error, step: error.map(|_| "b") };
        let case = Case::new("run: x");
        case.at_the_end(Some(outcome), |scope| Templates.fill(&body.with, &hooks[0].uses, scope))
    };
    let id = JobId(uuid::Uuid::nil());
    let expected = json!({
        "text": format!("{id} is failed: exit_code at b"), "sha": "abc",
        "whole": { "code": "exit_code", "message": "it exited with 3", "step": "b" },
    });
    assert_eq!(fill(Some(&failure)), Ok(expected));
    assert!(fill(None).is_err(), "there is no code of nothing");
}
