//! References in templates and conditions are checked before anything runs.

use expect_test::expect;

use crate::{check, check_step};

fn check_in(run: &str, expect: &expect_test::Expect) {
    let text = format!(
        "name: t\ninput: {{ version: {{ type: string }}, count: {{ type: integer }} }}\nsteps:\n  build: {{ run: x }}\n  \
         my-step: {{ run: x }}\n  s:\n    needs: [build]\n    run: |\n      first line\n      {run}\n"
    );
    check(&text, expect);
}

#[test]
fn good_references() {
    check_in("{{ input.version }} {{ steps.build.output.sha }} {{ job.id }} {{ task.name }}", &expect![[""]]);
    check_in("{{ input['version'] | upper | quote }} {{ input.count * 2 + 1 }} {{ input | tojson }}", &expect![[""]]);
    check_in("{{ steps.build.state if steps.build.output.x is defined else 'no' }} {{ '{{' }}", &expect![[""]]);
}

#[test]
fn unknown_inputs_and_steps() {
    check_in(
        "{{ input.verison }}",
        &expect![[r#"
        t.yaml:10:10 error unknown_reference: there is no input `verison`
            did you mean `version`?
    "#]],
    );
    check_in(
        "{{ input.nothing_like_it }}",
        &expect![[r#"
        t.yaml:10:10 error unknown_reference: there is no input `nothing_like_it`
            declare it: `input: { nothing_like_it: { type: string } }`
    "#]],
    );
    check_in(
        "{{ steps.biuld.output.sha }}",
        &expect![[r#"
        t.yaml:10:10 error unknown_reference: there is no step `biuld`
            did you mean `build`?
    "#]],
    );
    check_in(
        "{{ steps.build.outptu.sha }} {{ steps.build }}",
        &expect![[r#"
            t.yaml:10:10 error unknown_reference: `steps.build` has no `outptu`
                did you mean `output`?
            t.yaml:10:39 error unknown_reference: `steps.build` is no value by itself
                write `steps.build.state`
        "#]],
    );
    check_in(
        "{{ steps.my-step.output.x }}",
        &expect![[r#"
        t.yaml:10:10 error unknown_reference: there is no step `my`
            a name with `-` is written `steps['my-step']`
        t.yaml:10:19 error unknown_reference: there is no `step`
            did you mean `steps`?
    "#]],
    );
    check_in(
        "{{ version }} {{ build }} {{ env.HOME }} {{ item }} {{ job.name }} {{ task }}",
        &expect![[r#"
        t.yaml:10:10 error unknown_reference: there is no `version`
            did you mean `input.version`?
        t.yaml:10:24 error unknown_reference: there is no `build`
            did you mean `steps.build.output`?
        t.yaml:10:36 error unknown_reference: there is no `env`
            known names are `input`, `steps`, `job` or `task`
        t.yaml:10:51 error unknown_reference: there is no `item` here
            `item` is known only in a step with `for_each` or `matrix`
        t.yaml:10:62 error unknown_reference: `job` has no `name`
            it has `id`
        t.yaml:10:77 error unknown_reference: `task` is no value by itself
            write `task.name`
    "#]],
    );
    check_in(
        "{{ steps[input.version].state }} {{ steps | length }}",
        &expect![[r#"
        t.yaml:10:10 error unknown_reference: `steps` needs the name of one step, written out
            as in `steps.build.output.sha`
        t.yaml:10:43 error unknown_reference: `steps` needs the name of one step, written out
            as in `steps.build.output.sha`
    "#]],
    );
}

#[test]
fn steps_that_are_not_over_by_then() {
    check_in(
        "{{ steps['my-step'].output.x }}",
        &expect![[r#"
        t.yaml:10:10 error unknown_reference: the step `s` reads `my-step`, which may not be over by then
            add `my-step` to the `needs` of `s`
    "#]],
    );
    check_in(
        "{{ steps.s.state }}",
        &expect![[r#"
        t.yaml:10:10 error unknown_reference: the step `s` names itself
    "#]],
    );
}

#[test]
fn ancestors_may_be_far() {
    check(
        "name: t\nsteps:\n  a: { run: x }\n  b: { run: x, needs: a }\n  c: { run: x, needs: b }\n  d: { run: 'echo {{ steps.a.state }}', needs: c }\n",
        &expect![[""]],
    );
}

#[test]
fn bad_expressions() {
    check_in(
        "{{ input.version",
        &expect![[r#"
        t.yaml:10:16 error bad_template: this expression cannot be read: unexpected end of input, expected end of variable block
            for the two characters `{{` themselves write `{{ '{{' }}`
    "#]],
    );
    check_in(
        "{{ input.version + }}",
        &expect![[r#"
        t.yaml:10:26 error bad_template: this expression cannot be read: unexpected end of variable block
            for the two characters `{{` themselves write `{{ '{{' }}`
    "#]],
    );
    check_in(
        "docker inspect --format '{{.State}}'",
        &expect![[r#"
        t.yaml:10:34 error bad_template: this expression cannot be read: unexpected `.`
            for the two characters `{{` themselves write `{{ '{{' }}`
    "#]],
    );
    check_in(
        "{{ input.version | uper }} {{ input.version is strng }} {{ now() }} {{ success() }}",
        &expect![[r#"
        t.yaml:10:26 error bad_template: there is no filter `uper`
            did you mean `upper`?
        t.yaml:10:54 error bad_template: there is no test `strng`
            did you mean `string`?
        t.yaml:10:66 error unknown_reference: there is no function `now`
            there are `success`, `failure`, `always` or `cancelled`
        t.yaml:10:78 error bad_template: `success()` is known only in `if`
    "#]],
    );
    check_in(
        "{{ input.version * 1000 }} {{ 'a' * 9 }} {{ steps.build.output.n * 2 }}",
        &expect![[r#"
        t.yaml:10:10 error bad_template: `*` multiplies numbers, this may be a text
            make it a number: `(value | int) * 2`
        t.yaml:10:37 error bad_template: `*` multiplies numbers, this may be a text
            make it a number: `(value | int) * 2`
        t.yaml:10:62 error bad_template: `*` multiplies numbers, this may be a text
            make it a number: `(value | int) * 2`
    "#]],
    );
    check_in(
        "{{ input.version[::2] }} {{ input.version[::-1] }} {{ ''[::input.version] }}",
        &expect![[r#"
        t.yaml:10:51 error bad_template: the step of a slice must be a number above zero, written out
            to turn it around write `value | reverse`
        t.yaml:10:66 error bad_template: the step of a slice must be a number above zero, written out
            to turn it around write `value | reverse`
    "#]],
    );
    // What `int` cannot read becomes what it is told to give instead.
    check_in(
        "{{ (input.version | int(0)) * 2 }} {{ (input.version | int([0])) * 1000000 }} {{ (1 | float(default='a')) * 9 }}",
        &expect![[r#"
            t.yaml:10:62 error bad_template: `*` multiplies numbers, this may be a text
                make it a number: `(value | int) * 2`
            t.yaml:10:93 error bad_template: `*` multiplies numbers, this may be a text
                make it a number: `(value | int) * 2`
        "#]],
    );
    check_in(
        "{{ input.version.upper() }}",
        &expect![[r#"
        t.yaml:10:23 error bad_template: only functions can be called here, values have none
            filters are written `value | abs`
    "#]],
    );
    check_in(
        &format!("{{{{ {}1 }}}}", "1+".repeat(500)),
        &expect![[r#"
        t.yaml:10:310 error limit: this expression has more than 300 words and signs
            compute it in a step
    "#]],
    );
}

#[test]
fn conditions() {
    check_step("run: x\nif: always() or failure() and not cancelled()", &expect![[""]]);
    check_step("run: x\nif: false", &expect![[""]]);
    check_step(
        "run: x\nif: '{{ always() }}'",
        &expect![[r#"
        t.yaml:5:10 error bad_template: a condition needs no `{{ }}`
            the whole value is an expression: write `always()`, not `{{ always() }}`
    "#]],
    );
    check_step(
        "run: x\nif: alwyas()",
        &expect![[r#"
        t.yaml:5:9 error unknown_reference: there is no function `alwyas`
            did you mean `always`?
    "#]],
    );
    check_step(
        "run: x\nif: success",
        &expect![[r#"
        t.yaml:5:9 error unknown_reference: there is no `success`
            call it: `success()`
    "#]],
    );
    check_step(
        "run: x\nif: success(1)",
        &expect![[r#"
        t.yaml:5:9 error bad_template: `success()` takes no arguments
    "#]],
    );
    check_step(
        "run: x\nif: \"input.x ==\"",
        &expect![[r#"
        t.yaml:5:18 error bad_template: this expression cannot be read: unexpected end of input, expected expression
    "#]],
    );
    check_step(
        "run: x\nif: ''",
        &expect![[r#"
        t.yaml:5:9 error bad_value: `if` is empty
    "#]],
    );
}

#[test]
fn everywhere_that_templates_are() {
    check_step(
        "run: ['{{ input.a }}', x]\nenv: { K: '{{ input.b }}' }\nworkdir: \"{{ input.c }}\"",
        &expect![[r#"
        t.yaml:4:15 error unknown_reference: there is no input `a`
            declare it: `input: { a: { type: string } }`
        t.yaml:5:19 error unknown_reference: there is no input `b`
            declare it: `input: { b: { type: string } }`
        t.yaml:6:18 error unknown_reference: there is no input `c`
            declare it: `input: { c: { type: string } }`
    "#]],
    );
    check_step(
        "task: child\nwith: { deep: [ '{{ input.d }}' ] }",
        &expect![[r#"
            t.yaml:5:25 error unknown_reference: there is no input `d`
                declare it: `input: { d: { type: string } }`
        "#]],
    );
    check_step(
        "for_each: '{{ input.e }}'\nrun: echo {{ item }}",
        &expect![[r#"
            t.yaml:4:19 error unknown_reference: there is no input `e`
                declare it: `input: { e: { type: string } }`
        "#]],
    );
    check(
        "name: t\nenv: { A: '{{ input.f }}', B: '{{ steps.a.state }}' }\nsteps: { a: { run: x } }",
        &expect![[r#"
        t.yaml:2:15 error unknown_reference: there is no input `f`
            declare it: `input: { f: { type: string } }`
        t.yaml:2:35 error unknown_reference: steps cannot be named here: this is filled in before any of them
            say it in a step that needs them, as in its `env`
    "#]],
    );
}
