//! Files that are right, and what becomes of them.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::definition::{
    Condition, Effects, HookWork, Occasion, OnDisconnect, Patience, Program, Protection, WhenFull, Work,
};
use expect_test::expect;
use spec::task::{Environment, Options, Trigger};

use crate::{check, lines, task};

const CONTRACT: &str = include_str!("data/contract-task.yaml");

#[test]
fn the_whole_surface_is_understood() {
    // The documented example names an input that it does not declare; with it declared all is well.
    let text = CONTRACT.replace("input:\n", "input:\n  targets: { type: list }\n");
    let (task, diagnostics) = spec::task::parse(&text, "release.yaml", &Options::default());
    expect![[r#"
        release.yaml:57:5 warning bad_value: the input `version` is required
            give it in `with`, as in `with: { version: … }`
        release.yaml:61:5 warning bad_value: the input `version` is required
            give it in `with`, as in `with: { version: … }`
    "#]]
    .assert_eq(&lines(&diagnostics));
    let task = task.expect("no errors");
    expect![[r#"
        release.yaml:31:5 warning not_supported: `docker` is not supported yet
        release.yaml:34:5 warning not_supported: `pod` is not supported yet
    "#]]
    .assert_eq(&lines(&task.not_supported));
    let hooks: Vec<(Occasion, bool)> =
        task.definition.hooks.iter().map(|hook| (hook.on, matches!(hook.work, HookWork::Tell(_)))).collect();
    assert_eq!(hooks, [(Occasion::Success, false), (Occasion::Error, false), (Occasion::Error, true)]);
    assert!(
        matches!(&task.triggers[1], Trigger::Webhook { name, secret, .. } if name == "release" && secret == "RELEASE_HOOK")
    );
    let concurrency = task.definition.concurrency.as_ref().expect("it has one");
    let read = (&*concurrency.group, concurrency.templated, concurrency.limit, concurrency.when_full);
    assert_eq!(read, ("release", false, 1, WhenFull::Queue));
    let secrets: Vec<&str> = task.definition.steps()[0].secrets.iter().map(|name| &**name).collect();
    assert_eq!(secrets, ["DEPLOY_KEY"]);
}

#[test]
fn a_step_as_it_is_defined() {
    let task = task(
        r"
name: t
timeout: 45m
expires: 24h
priority: 7
env: { A: 1, B: task }
steps:
  build:
    run: |
      make
      make install
    tags: [linux, big, linux]
    effects: idempotent
    timeout: 20m
    retry: { attempts: 3, on: [exit:75, signal:KILL], delay: 5s, backoff: 2, max_delay: 1m, jitter: true }
    env: { B: step }
    workdir: ./repo
    unmatched: wait
    cancel: { signal: INT, grace: 30s }
    cleanup: make uninstall
",
    );
    let definition = &task.definition;
    assert_eq!(definition.timeout, Some(Duration::from_secs(2700)));
    assert_eq!(definition.expires, Some(Duration::from_secs(86_400)));
    assert_eq!(definition.priority, 7);
    let step = &definition.steps()[0];
    assert_eq!(step.tags.iter().map(|t| &**t).collect::<Vec<_>>(), ["big", "linux", "script"]);
    assert_eq!(step.effects, Effects::Idempotent);
    assert_eq!(step.on_disconnect, OnDisconnect::Keep);
    assert_eq!(step.unmatched, Patience::Forever);
    assert_eq!((step.stop.signal, step.stop.grace), (2, Duration::from_secs(30)));
    assert_eq!(step.cleanup(), Some(Duration::from_secs(30)), "if nothing is said");
    assert_eq!(step.retry.attempts, 3);
    assert_eq!((step.retry.on.failure, step.retry.on.timeout), (false, false));
    assert_eq!((step.retry.on.exit_codes.as_slice(), step.retry.on.signals.as_slice()), (&[75][..], &[9][..]));
    assert_eq!(step.condition, Condition::Success);
    let Work::Run(body) = &step.work else { panic!("it runs") };
    assert_eq!(
        body.program,
        Program::Script { shell: vec!["bash".into(), "-e".into()], text: "make\nmake install\n".into() }
    );
    assert_eq!(
        body.cleanup,
        Some(Program::Script { shell: vec!["bash".into(), "-e".into()], text: "make uninstall".into() })
    );
    assert_eq!(body.env.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(), ["A=1", "B=step"]);
    assert_eq!(body.workdir.as_deref(), Some("./repo"));
    assert!(!body.templated);
}

#[test]
fn defaults_fill_what_steps_leave_out() {
    let text = r"
name: t
defaults: { timeout: 1h, retry: { attempts: 4, delay: 2s }, shell: sh -eu, tags: [eu], effects: none }
steps:
  a: { run: 'true' }
  b: { run: 'true', timeout: 5s, retry: { attempts: 2 }, tags: [us], shell: [python3, -u], effects: writes }
  c: { run: [ls, -l], timeout: null }
";
    let options = Options { step_timeout: Some(Duration::from_secs(9)), ..Options::default() };
    let (task, _) = spec::task::parse(text, "t.yaml", &options);
    let task = task.expect("no errors");
    let [a, b, c] = task.definition.steps() else { panic!("three steps") };
    assert_eq!(
        (a.timeout, b.timeout, c.timeout),
        (Some(Duration::from_secs(3600)), Some(Duration::from_secs(5)), None)
    );
    assert_eq!((a.retry.attempts, b.retry.attempts), (4, 2));
    assert_eq!(a.retry.delay, Duration::from_secs(2));
    assert_ne!(b.retry.delay, Duration::from_secs(2), "its own policy stands for the other as a whole");
    assert_eq!((a.effects, b.effects), (Effects::None, Effects::Writes));
    assert_eq!(b.tags.iter().map(|t| &**t).collect::<Vec<_>>(), ["script", "us"]);
    let shell = |step: &engine::definition::StepDef| match &step.work {
        Work::Run(body) => match &body.program {
            Program::Script { shell, .. } => shell.join(" "),
            Program::Command { argv } => format!("argv {}", argv.join(" ")),
        },
        Work::Approve | Work::Child(_) => String::new(),
    };
    assert_eq!((shell(a), shell(b), shell(c)), ("sh -eu".into(), "python3 -u".into(), "argv ls -l".into()));
}

#[test]
fn environments_and_approvals_become_rules() {
    let text = r"
name: t
steps:
  gate: { approve: { message: 'Ship it?', reviewers: 2, expires: 1h, allow_submitter: false } }
  out: { environment: production, run: 'true' }
";
    let production = Environment {
        reviewers: 1,
        wait: Duration::from_secs(60),
        hold_expires: Duration::from_secs(600),
        allow_submitter: false,
    };
    let environments = Some(BTreeMap::from([("production".to_owned(), production)]));
    let (task, _) = spec::task::parse(text, "t.yaml", &Options { environments, ..Options::default() });
    let task = task.expect("no errors");
    assert!(task.not_supported.is_empty());
    let [gate, out] = task.definition.steps() else { panic!("two steps") };
    let expected = Protection {
        environment: None,
        message: Some("Ship it?".into()),
        wait: None,
        reviewers: 2,
        four_eyes: true,
        hold_expires: Some(Duration::from_secs(3600)),
    };
    assert_eq!(gate.protection, expected);
    let expected = Protection {
        environment: Some("production".into()),
        message: None,
        wait: Some(Duration::from_secs(60)),
        reviewers: 1,
        four_eyes: true,
        hold_expires: Some(Duration::from_secs(600)),
    };
    assert_eq!(out.protection, expected);
}

#[test]
fn an_environment_must_be_one_of_the_servers() {
    let plain = Environment {
        reviewers: 0,
        wait: Duration::ZERO,
        hold_expires: Duration::from_secs(600),
        allow_submitter: true,
    };
    let environments = Some(BTreeMap::from([("production".to_owned(), plain)]));
    let options = Options { environments, ..Options::default() };
    let text = "name: t\nsteps:\n  a: { environment: producton, run: x }\n  b: { environment: moon, run: x }\n";
    let (task, diagnostics) = spec::task::parse(text, "t.yaml", &options);
    assert!(task.is_none());
    expect![[r#"
        t.yaml:3:21 error unknown_reference: there is no environment `producton` here
            did you mean `production`?
        t.yaml:4:21 error unknown_reference: there is no environment `moon` here
            environments stand in the server's configuration, under `environments`
    "#]]
    .assert_eq(&lines(&diagnostics));
    let (task, _) = spec::task::parse(text, "t.yaml", &Options::default());
    let named = task.expect("nobody knows which there are").definition.steps()[1].protection.clone();
    assert_eq!(named, Protection { environment: Some("moon".into()), ..Protection::default() });
}

#[test]
fn the_servers_defaults_hold_where_the_task_is_silent() {
    let day = Some(Duration::from_secs(86_400));
    let options = Options { step_timeout: day, job_timeout: day, expires: day, environments: None };
    let (task, _) = spec::task::parse("{name: t, timeout: 1s, steps: {a: {run: x}}}", "t.yaml", &options);
    let definition = task.expect("no errors").definition;
    assert_eq!(definition.timeout, Some(Duration::from_secs(1)));
    assert_eq!((definition.expires, definition.steps()[0].timeout), (day, day));
}

#[test]
fn edges_and_uses() {
    let task = task(
        r#"
name: t
steps:
  a: { run: x }
  b-2: { run: x, needs: a }
  c:
    needs: [b-2, { step: a, on: [failed, skipped] }]
    if: always() and steps.a.state == 'failed'
    run: echo "{{ steps['b-2'].output.x }}"
"#,
    );
    let step = &task.definition.steps()[2];
    assert_eq!(step.needs.len(), 2);
    assert!(step.needs[1].on.failed && step.needs[1].on.skipped && !step.needs[1].on.success);
    assert_eq!(step.uses.iter().map(|ix| ix.get()).collect::<Vec<_>>(), [0, 1]);
    assert!(matches!(&step.condition, Condition::Expression(e) if &**e == "always() and steps.a.state == 'failed'"));
}

#[test]
fn json_is_yaml() {
    check(r#"{"name": "t", "steps": {"a": {"run": "echo \u00e5", "retry": 3}}}"#, &expect![[""]]);
}

#[test]
fn anchors_and_aliases() {
    check("name: t\nsteps:\n  a: &a { run: x, env: { K: v } }\n  b: *a\n", &expect![[""]]);
}

#[test]
fn shell_braces_are_no_templates() {
    check("name: t\nsteps:\n  a:\n    run: |\n      echo ${#list[@]} {% {# ${x%.*}\n", &expect![[""]]);
}

#[test]
fn a_group_and_its_defaults() {
    let read = |text: &str| {
        let task =
            task(&format!("name: t\ninput: {{ region: {{}} }}\nsteps: {{ a: {{ run: x }} }}\nconcurrency: {text}\n"));
        task.definition.concurrency.clone().expect("it has one")
    };
    let group = read("{}");
    assert_eq!((&*group.group, group.limit, group.when_full), ("t", 1, WhenFull::Queue), "all by default");
    let group = read("{ group: 'deploy {{ input.region }}', limit: 3, when_full: cancel_oldest }");
    assert_eq!((group.templated, group.limit, group.when_full), (true, 3, WhenFull::CancelOldest));
    assert_eq!(read("{ when_full: reject }").when_full, WhenFull::Reject);
}

#[test]
fn what_is_expected_and_who_hears_of_it() {
    let task = task(
        "name: t\nexpect: 2h\ndefaults: { expect: 10m }\nsteps: { a: { run: x }, b: { run: x, expect: 5m }, c: { run: x, expect: null } }\n\
         on_success: [{ mail: a@b.c }]\n\
         on_notice: [{ mail: [ops+bowline@example.com, o'neil@mail.example.org] }, { task: x, with: { a: '{{ notice.kind }} {{ notice.step }} {{ notice.text }} {{ job.state }} {{ steps.a.state }}' } }]\n",
    );
    let definition = &task.definition;
    let minutes = |m: u64| Some(Duration::from_secs(60 * m));
    assert_eq!(definition.expect, minutes(120));
    let expected: Vec<Option<Duration>> = definition.steps().iter().map(|step| step.expect).collect();
    assert_eq!(expected, [minutes(10), minutes(5), None]);
    let on: Vec<Occasion> = definition.hooks.iter().map(|hook| hook.on).collect();
    assert_eq!(on, [Occasion::Success, Occasion::Notice, Occasion::Notice]);
    let HookWork::Tell(outside) = &definition.hooks[1].work else { panic!("somebody is told") };
    assert_eq!(outside.address(), "mailto:ops+bowline@example.com,o'neil@mail.example.org");
}
