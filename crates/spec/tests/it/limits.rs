//! What is too much is refused quickly, and what is much is read quickly.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use expect_test::expect;
use spec::task::Options;

use crate::check;

/// Debug builds are an order of magnitude slower than the release that the promise (half a second) is about.
const PATIENCE: Duration = Duration::from_secs(10);

fn quick(text: &str) -> (Option<spec::task::Task>, Vec<spec::Diagnostic>) {
    let start = Instant::now();
    let outcome = spec::task::parse(text, "t.yaml", &Options::default());
    assert!(start.elapsed() < PATIENCE, "it took {:?}", start.elapsed());
    outcome
}

#[test]
fn twenty_thousand_steps() {
    let mut text = String::from("name: t\nsteps:\n  s0: { run: x }\n");
    for n in 1..20_000 {
        let _ = writeln!(text, "  s{n}: {{run: '{{{{steps.s0.state}}}}', needs: s{}}}", n - 1);
    }
    let (task, diagnostics) = quick(&text);
    assert!(diagnostics.is_empty());
    assert_eq!(task.expect("no errors").definition.steps().len(), 20_000);
}

#[test]
fn one_step_more_is_too_many() {
    let mut text = String::from("name: t\nsteps:\n");
    for n in 0..=20_000 {
        let _ = writeln!(text, "  s{n}: {{ run: x }}");
    }
    check(
        &text,
        &expect![[r#"
        t.yaml:3:3 error limit: a task has between 1 and 20000 steps, this one has 20001
    "#]],
    );
}

#[test]
fn lists_make_steps_too() {
    let items = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let text = |last: usize, more: &str| {
        let (full, last) = (items(10_000), items(last));
        format!(
            "name: t\nsteps:\n  a: {{ run: x, for_each: [{full}] }}\n  m: {{ run: x, matrix: {{ a: [{}], b: [1, 2] }} }}\n  \
             b: {{ run: x, for_each: [{last}]{more} }}\n",
            items(1_000)
        )
    };
    check(&text(7_997, ""), &expect![""]);
    check(
        &text(7_998, ""),
        &expect![[r#"
        t.yaml:5:3 error limit: with the items of its lists a job of this task has 20001 steps, more than 20000
            make tasks of their own of some, and begin them with `task`
    "#]],
    );
    check(
        &text(7_998, ", if: 'input.all'").replacen("name: t", "name: t\ninput: { all: { type: boolean } }", 1),
        &expect![""],
    );
    let stored = spec::task::parse_stored(&text(7_998, ""), "t.yaml", &Options::default());
    assert!(stored.0.is_some(), "a job that is under way has ended well without them, or fails where it is done");
}

#[test]
fn many_problems_are_counted_not_listed() {
    let mut text = String::from("name: t\nsteps:\n");
    for n in 0..20_000 {
        let _ = writeln!(text, "  s{n}: {{ run: x, needs: [t{n}] }}");
    }
    let (_, diagnostics) = quick(&text);
    assert_eq!(diagnostics.len(), 100);
    expect!["did you mean `s99`?; 19900 more like this are not shown"]
        .assert_eq(diagnostics[99].hint.as_deref().unwrap_or_default());
}

#[test]
fn a_billion_laughs() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let p = n - 1;
        let _ = writeln!(text, "a{n}: &a{n} [*a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}]");
    }
    check(
        &text,
        &expect![[r#"
        t.yaml:5:5 error limit: more than 400000 values, aliases counted as what they stand for
    "#]],
    );
}

#[test]
fn aliases_cannot_dig_deeper() {
    let mut text = String::from("a0: &a0 [x]\n");
    for n in 1..60 {
        let _ = writeln!(text, "a{n}: &a{n} [*a{}]", n - 1);
    }
    check(
        &text,
        &expect![[r#"
        t.yaml:31:12 error limit: values are nested more than 32 deep
    "#]],
    );
}

#[test]
fn too_deep_too_long_too_large() {
    check(
        &format!("a: {}", "[".repeat(100)),
        &expect![[r#"
        t.yaml:1:35 error limit: values are nested more than 32 deep
    "#]],
    );
    check(
        &format!("a: {}", "{a: ".repeat(100)),
        &expect![[r#"
        t.yaml:1:128 error limit: values are nested more than 32 deep
    "#]],
    );
    check(
        &format!("name: t\nsteps: {{ a: {{ run: {} }} }}", "x".repeat(300_000)),
        &expect![[r#"
        t.yaml:2:20 error limit: this text has 300000 bytes, the limit is 262144
            put it into a file of its own
    "#]],
    );
    check(
        &"x".repeat(1024 * 1024 + 1),
        &expect![[r#"
        t.yaml:1:1 error limit: the file has 1048577 bytes, the limit is 1048576
            split it into several tasks
    "#]],
    );
    check(
        &format!("a: [{}]", "x,".repeat(450_000)),
        &expect![[r#"
        t.yaml:1:800003 error limit: more than 400000 values, aliases counted as what they stand for
    "#]],
    );
}

#[test]
fn environment_times_steps() {
    let mut text = format!("name: t\nenv: {{ A: {} }}\nsteps:\n", "x".repeat(100_000));
    for n in 0..1_000 {
        let _ = writeln!(text, "  s{n}: {{ run: x }}");
    }
    let (task, diagnostics) = quick(&text);
    assert!(task.is_none());
    assert_eq!(diagnostics[0].code, spec::Code::Limit);
}

/// Each star may end anywhere, so each character of the value costs a walk over all of them.
#[test]
fn a_pattern_with_a_thousand_choices() {
    let input = format!("input: {{ a: {{ pattern: '^(?:a*){{1000}}b$', default: {} }} }}", "a".repeat(100_000));
    check(
        &format!("name: t\n{input}\nsteps: {{ s: {{ run: x }} }}\n"),
        &expect![[r#"
            t.yaml:2:24 error bad_value: `pattern` is no regular expression: compiled regex exceeded size limit
        "#]],
    );
}

/// A small file, and gigabytes of scripts if every alias were a copy.
#[test]
fn one_large_script_for_all_steps() {
    let mut text = format!("name: t\nsteps:\n  s0: {{ run: &a {} }}\n", "x".repeat(200_000));
    for n in 1..5_000 {
        let _ = writeln!(text, "  s{n}: {{ run: *a }}");
    }
    check(
        &text,
        &expect![[r#"
        t.yaml:24:15 error limit: aliases stand for more than 4194304 bytes of text
            put long scripts into files of their own
    "#]],
    );
}

#[test]
fn what_every_step_has_a_copy_of_is_short() {
    let long = "x".repeat(5_000);
    check(
        &format!("name: t\ndefaults: {{ shell: {long}, workdir: {long} }}\nsteps: {{ s: {{ run: x }} }}\n"),
        &expect![[r#"
            t.yaml:2:20 error limit: `shell` has more than 4096 bytes
            t.yaml:2:5031 error limit: `workdir` has more than 4096 bytes
        "#]],
    );
}
