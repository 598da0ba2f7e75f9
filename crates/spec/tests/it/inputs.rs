//! Declared inputs, and what callers give.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::{check, task};

const TASK: &str = r"
name: report
input:
  version: { type: string, required: true, pattern: '^v[0-9]+' }
  count: { type: integer, min: 1, max: 10, default: 3 }
  ratio: { type: number }
  dry_run: { type: boolean, default: false }
  mode: { type: enum, options: [debug, release], default: release }
  hosts: { type: list, max: 3 }
  extra: { type: object }
steps: { a: { run: x } }
";

fn bind(given: Value, expect: &Expect) {
    let Value::Object(given) = given else { panic!("an object") };
    let shown = match task(TASK).bind(given) {
        Ok(value) => value.to_string(),
        Err(problems) => problems
            .iter()
            .map(|p| format!("{}: {}\n    {}\n", p.input, p.message, p.hint.as_deref().unwrap_or("-")))
            .collect(),
    };
    expect.assert_eq(&shown);
}

#[test]
fn given_and_default() {
    bind(
        json!({ "version": "v1" }),
        &expect![[
            r#"{"count":3,"dry_run":false,"extra":null,"hosts":null,"mode":"release","ratio":null,"version":"v1"}"#
        ]],
    );
    bind(
        json!({ "version": "v1", "count": 2.0, "ratio": 0.5, "dry_run": true, "mode": "debug", "hosts": ["a"], "extra": {"k": 1} }),
        &expect![[
            r#"{"count":2,"dry_run":true,"extra":{"k":1},"hosts":["a"],"mode":"debug","ratio":0.5,"version":"v1"}"#
        ]],
    );
}

#[test]
fn texts_of_a_command_line() {
    bind(
        json!({ "version": "v1", "count": "2", "ratio": "1e3", "dry_run": "true", "hosts": "a, b", "extra": "{\"k\": [1]}" }),
        &expect![[
            r#"{"count":2,"dry_run":true,"extra":{"k":[1]},"hosts":["a","b"],"mode":"release","ratio":1000.0,"version":"v1"}"#
        ]],
    );
    bind(
        json!({ "version": "v1", "hosts": "[\"a\", \"b,c\"]" }),
        &expect![[
            r#"{"count":3,"dry_run":false,"extra":null,"hosts":["a","b,c"],"mode":"release","ratio":null,"version":"v1"}"#
        ]],
    );
}

#[test]
fn every_problem_at_once() {
    bind(
        json!({ "verison": "v1", "count": 11, "ratio": "much", "dry_run": "maybe", "mode": "relase", "hosts": "a,b,c,d", "extra": "\"x\"" }),
        &expect![[r#"
            verison: the task `report` has no input `verison`
                did you mean `version`?
            version: the input `version` is required
                give it with `-i version=…`
            count: `count` must be at most 10, not 11
                -
            ratio: `ratio` must be a number, not `much`
                -
            dry_run: `dry_run` must be true or false, not `maybe`
                -
            mode: `mode` must be `debug` or `release`, not `relase`
                did you mean `release`?
            hosts: `hosts` must be at most 3 items, not 4
                -
            extra: `extra` must be an object, not `"x"`
                -
        "#]],
    );
    bind(
        json!({ "version": "1", "count": 1.5 }),
        &expect![[r#"
        version: `version` must match ^v[0-9]+, not `1`
            -
        count: `count` must be a whole number, not `1.5`
            -
    "#]],
    );
    bind(
        json!({ "version": 5, "count": null, "hosts": "[1" }),
        &expect![[r#"
        version: `version` must be a string, not `5`
            -
        hosts: `hosts` must be a list, not `[1`
            as JSON, or words with commas between
    "#]],
    );
    bind(
        json!({ "version": format!("v1{}", "x".repeat(200_000)) }),
        &expect![[r#"
        version: `version` has 200002 bytes, the limit is 122880
            pass the name of a file instead
    "#]],
    );
    bind(
        json!({ "version": "v1\u{0}" }),
        &expect![[r#"
        version: `version` holds a NUL character, which no program can be given
            -
    "#]],
    );
}

#[test]
fn variables_for_steps() {
    let variables =
        spec::task::input_variables(&json!({ "dry-run": true, "name": "it's", "l": [1, "a"], "none": null }));
    let shown: Vec<String> = variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(shown, ["BOWLINE_INPUT_DRY_RUN=true", "BOWLINE_INPUT_L=[1,\"a\"]", "BOWLINE_INPUT_NAME=it's"]);
}

#[test]
fn bad_declarations() {
    check(
        "name: t\nsteps: { a: { run: x } }\ninput:\n  a: { type: strin }\n  b: { type: enum }\n  c: { type: integer, default: x }\n  \
         d: { required: true, default: x }\n  e: { pattern: '(' }\n  f: { type: boolean, min: 1, pattern: x, options: [1] }\n  \
         g: { type: number, min: 5, max: 1 }\n  G: {}\n  h-1: string\n  i: { type: enum, options: [] }\n  'a b': {}\n",
        &expect![[r#"
            t.yaml:4:14 error bad_value: `type` must be `string`, `number`, `integer`, `boolean`, `enum`, `list` or `object`, not the text `strin`
                did you mean `string`?
            t.yaml:5:3 error missing_key: the enum `b` needs `options`
                as in `options: [debug, release]`
            t.yaml:6:32 error bad_value: the default of `c` does not fit: `c` must be a whole number, not `x`
            t.yaml:7:24 error conflict: `d` is required, so its default is never used
                leave out `required` or `default`
            t.yaml:8:17 error bad_value: `pattern` is no regular expression: found open group without closing ')'
            t.yaml:9:23 error conflict: `min` means nothing for an input of type boolean
                leave it out
            t.yaml:9:31 error conflict: `pattern` means nothing for an input of type boolean
                leave it out
            t.yaml:9:43 error conflict: `options` means nothing for an input of type boolean
                leave it out
            t.yaml:10:35 error conflict: `max` (1) is less than `min` (5)
            t.yaml:11:3 error conflict: two inputs would both be `BOWLINE_INPUT_G`
            t.yaml:12:8 error wrong_type: an input is a mapping, not the text `string`
                write `key: value` pairs, with keys such as `type`, `description` or `required`
            t.yaml:13:29 error bad_value: `options` is empty
            t.yaml:14:3 error bad_name: `a b` is no input name
                names begin with a letter or `_` and go on with letters, digits, `_` and `-`
        "#]],
    );
}
