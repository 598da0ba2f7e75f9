//! Files that are wrong, and what people are told.

use expect_test::expect;

use crate::{check, check_step};

#[test]
fn rendered_with_its_line_and_a_hint() {
    let (_, diagnostics) = spec::check("name: t\nsteps:\n  a:\n    run: make\n    retires: 3\n", "nightly.yaml");
    expect![[r#"
        error[unknown_key]: a step has no key `retires`
         --> nightly.yaml:5:5
          |
        5 |     retires: 3
          |     ^^^^^^^
          |
          = help: did you mean `retry`?"#]]
    .assert_eq(&spec::render(&diagnostics, false));
}

#[test]
fn rendered_with_related_places() {
    let (_, diagnostics) = spec::check("name: t\nname: u\nsteps: { a: { run: x } }\n", "nightly.yaml");
    expect![[r#"
        error[duplicate_key]: the key `name` stands here twice
         --> nightly.yaml:2:1
          |
        2 | name: u
          | ^^^^
          |
         ::: nightly.yaml:1:1
          |
        1 | name: t
          | ---- first here"#]]
    .assert_eq(&spec::render(&diagnostics, false));
}

#[test]
fn every_problem_at_once() {
    check(
        "nmae: t\ntimeout: 5\nsteps:\n  a: { run: x, needs: [bb], timeout: soon }\n  b: { rnu: x }\n  b: { run: y }\n",
        &expect![[r#"
            t.yaml:1:1 error unknown_key: a task has no key `nmae`
                did you mean `name`?
            t.yaml:1:1 error missing_key: a task needs the key `name`
                the task's name, as in `name: nightly-backup`
            t.yaml:2:10 error bad_value: `timeout` is no duration: the number 5
                a unit is missing: `5s`, `5m`, `5h`
            t.yaml:4:24 error unknown_step: the step `a` needs `bb`, which is not there
                did you mean `b`?
            t.yaml:4:38 error bad_value: `timeout` is no duration: the text `soon`
                a number is missing before `soon`, as in `1h30m`
            t.yaml:5:3 error missing_key: the step `b` does nothing: it needs `run`, `docker`, `pod`, `task` or `approve`
                as in `run: echo hello`
            t.yaml:5:8 error unknown_key: a step has no key `rnu`
                did you mean `run`?
            t.yaml:6:3 error duplicate_key: the key `b` stands here twice
        "#]],
    );
}

#[test]
fn no_task_at_all() {
    check(
        "",
        &expect![[r#"
        t.yaml:1:1 error missing_key: a task needs the key `name`
            the task's name, as in `name: nightly-backup`
        t.yaml:1:1 error missing_key: a task needs the key `steps`
            the steps, by name, as in `steps: { hello: { run: echo hello } }`
    "#]],
    );
    check(
        "just words",
        &expect![[r#"
        t.yaml:1:1 error wrong_type: a task is a mapping, not the text `just words`
            write `key: value` pairs, with keys such as `name`, `description` or `input`
    "#]],
    );
    check(
        "[1, 2]",
        &expect![[r#"
        t.yaml:1:1 error wrong_type: a task is a mapping, not a list
            write `key: value` pairs, with keys such as `name`, `description` or `input`
    "#]],
    );
    check(
        "name: t\nsteps: []",
        &expect![[r#"
        t.yaml:2:8 error wrong_type: `steps` must be a mapping, not a list
            as in `steps: { hello: { run: echo hello } }`
    "#]],
    );
    check(
        "name: t\nsteps: {}",
        &expect![[r#"
        t.yaml:2:8 error limit: a task has between 1 and 20000 steps, this one has 0
    "#]],
    );
    check(
        "name: 5\nsteps: { a: 7 }",
        &expect![[r#"
        t.yaml:1:7 error wrong_type: `name` must be a text, not the number 5
            put it into quotes: "5"
        t.yaml:2:13 error wrong_type: a step is a mapping, not the number 7
            write `key: value` pairs, with keys such as `description`, `needs` or `if`
    "#]],
    );
}

#[test]
fn not_yaml() {
    check(
        "name: t\nsteps:\n\ta: x\n",
        &expect![[r#"
        t.yaml:3:2 error syntax: this is not valid YAML: tabs disallowed within this context (block indentation)
            indent with spaces, not with tabs
    "#]],
    );
    check(
        "name: [t\n",
        &expect![[r#"
        t.yaml:2:1 error syntax: this is not valid YAML: while parsing a flow sequence, expected ',' or ']'
    "#]],
    );
    check(
        "name: t\nsteps: { a: { run: {{ input.x }} } }\n",
        &expect![[r#"
        t.yaml:2:21 error syntax: a key must be a word
            a value that begins with `{{` must be in quotes: "{{ … }}"
    "#]],
    );
    check(
        "name: t\nsteps:\n  a:\n    run: {{ input.x }}\n",
        &expect![[r#"
        t.yaml:4:11 error syntax: a key must be a word
            a value that begins with `{{` must be in quotes: "{{ … }}"
    "#]],
    );
    check(
        "name: !!str t\n",
        &expect![[r#"
        t.yaml:1:7 error syntax: YAML tags (`!…`) mean nothing here
            leave the tag out; put a text into quotes
    "#]],
    );
    check(
        "name: t\n---\nname: u\n",
        &expect![[r#"
        t.yaml:2:1 error syntax: a file holds one document, here a second one begins
            put it into a file of its own
    "#]],
    );
    check(
        "a: &a [*a]\n",
        &expect![[r#"
        t.yaml:1:8 error syntax: this alias stands within what it names
    "#]],
    );
    check(
        "name: \"a\\0b\"\n",
        &expect![[r#"
        t.yaml:1:7 error bad_value: this text holds a NUL character, which no program can be given
    "#]],
    );
    check(
        "name: t\nsteps: { a: { run: x, <<: { run: y } } }\n",
        &expect![[r#"
        t.yaml:2:23 error unknown_key: a step has no key `<<`
            YAML 1.2 has no merge keys; see `defaults`
    "#]],
    );
}

#[test]
fn names() {
    check(
        "name: my task\nsteps: { '1st': { run: x }, _server: { run: x }, 'a[0]': { run: x } }",
        &expect![[r#"
        t.yaml:1:7 error bad_name: `my task` is no task name
            names begin with a letter or `_` and go on with letters, digits, `_`, `-` and `.`
        t.yaml:2:10 error bad_name: `1st` is no step name
            names begin with a letter or `_` and go on with letters, digits, `_` and `-`
        t.yaml:2:29 error bad_name: the step name `_server` is taken by the server's own log
        t.yaml:2:50 error bad_name: `a[0]` is no step name
            names begin with a letter or `_` and go on with letters, digits, `_` and `-`
    "#]],
    );
    check_step(
        "run: x\nenv: { BOWLINE_JOB_ID: x, A-B: y, C: [1], D: }",
        &expect![[r#"
        t.yaml:5:12 error bad_name: the variable `BOWLINE_JOB_ID` is Bowline's own
            names that begin with BOWLINE_ are set for each step
        t.yaml:5:31 error bad_name: `A-B` is no variable name
            names begin with a letter or `_` and go on with letters, digits and `_`
        t.yaml:5:42 error wrong_type: `C` must be a text, not a list
        t.yaml:5:48 error wrong_type: `D` must be a text, not nothing
            for an empty one write ""
    "#]],
    );
    check_step(
        "run: x\ntags: ['a b', ok]",
        &expect![[r#"
        t.yaml:5:11 error bad_name: `a b` is no tag
            tags are made of letters, digits and `_-.:/=`
    "#]],
    );
}

#[test]
fn kinds_of_steps() {
    check_step(
        "description: nothing",
        &expect![[r#"
        t.yaml:3:3 error missing_key: the step `s` does nothing: it needs `run`, `docker`, `pod`, `task` or `approve`
            as in `run: echo hello`
    "#]],
    );
    check_step(
        "run: x\ndocker: { image: a }",
        &expect![[r#"
        t.yaml:5:5 error conflict: a step has `run` or `docker`, not both
            make two steps of it
    "#]],
    );
    check_step(
        "approve: {}\nshell: bash\ntimeout: 5s",
        &expect![[r#"
            t.yaml:5:5 error conflict: `shell` means nothing in a step with `approve`
                leave it out
            t.yaml:6:5 error conflict: `timeout` means nothing in a step with `approve`
                leave it out
        "#]],
    );
    check_step(
        "approve: {}\nexpect: 5s",
        &expect![[r#"
        t.yaml:5:5 error conflict: `expect` means nothing in a step with `approve`
            leave it out
    "#]],
    );
    check_step(
        "approve: { message: 'ship {{ input.x }}?' }\nenvironment: production",
        &expect![[r#"
        t.yaml:4:25 error bad_value: `message` is taken as it is written, and cannot hold a template
        t.yaml:5:5 error conflict: `environment` means nothing in a step with `approve`
            leave it out
    "#]],
    );
    check_step(
        "run: x\nenvironment: '{{ input.where }}'",
        &expect![[r#"
        t.yaml:5:18 error bad_value: `environment` is taken as it is written, and cannot hold a template
    "#]],
    );
    check_step(
        "run: x\nimage: alpine",
        &expect![[r#"
        t.yaml:5:5 error conflict: `image` means nothing with `runner: local`
            say `runner: docker` or `runner: pod`
    "#]],
    );
    check_step(
        "run: x\nrunner: docker",
        &expect![[r#"
            t.yaml:4:10 error missing_key: `runner: docker` needs an `image`
                as in `image: alpine:3`
            t.yaml:4:10 warning not_supported: `runner: docker` is not supported yet
        "#]],
    );
    check_step(
        "run: x\nwith: { a: 1 }",
        &expect![[r#"
        t.yaml:5:5 error conflict: `with` means nothing in a step with `run`
            leave it out
    "#]],
    );
    check_step(
        "run: []",
        &expect![[r#"
        t.yaml:4:10 error bad_value: `run` is an empty list
            give the program and its arguments, as in [git, status]
    "#]],
    );
    check_step(
        "run: ''",
        &expect![[r#"
        t.yaml:4:10 error bad_value: `run` is empty
    "#]],
    );
    check_step(
        "run: 5",
        &expect![[r#"
        t.yaml:4:10 error wrong_type: `run` must be a text, not the number 5
            put it into quotes: "5"
    "#]],
    );
    check_step(
        "run: x\nfor_each: [1]\nmatrix: { a: b }",
        &expect![[r#"
            t.yaml:6:5 error conflict: a step has `for_each` or `matrix`, not both
            t.yaml:6:18 error wrong_type: `a` must be a list, not the text `b`
                as in `a: [a, b]`
        "#]],
    );
    check_step(
        "run: x\nmax_parallel: 0",
        &expect![[r#"
        t.yaml:5:5 error conflict: `max_parallel` means nothing without `for_each` or `matrix`
        t.yaml:5:19 error bad_value: `max_parallel` must be between 1 and 10000, not 0
    "#]],
    );
}

#[test]
fn empty_sections() {
    check(
        "name: t\ninput:\nenv:\ndefaults:\nsteps:\n  a:\n",
        &expect![[r#"
        t.yaml:6:3 error missing_key: the step `a` does nothing: it needs `run`, `docker`, `pod`, `task` or `approve`
            as in `run: echo hello`
    "#]],
    );
    check(
        "\u{feff}name: t\r\nsteps:\r\n  a:\r\n    run: |\r\n      {{ input.x }}\r\n",
        &expect![[r#"
        t.yaml:5:10 error unknown_reference: there is no input `x`
            declare it: `input: { x: { type: string } }`
    "#]],
    );
}

#[test]
fn words_from_elsewhere() {
    check_step(
        "script: x\ndepends_on: [a]\nwhen: always()",
        &expect![[r#"
        t.yaml:3:3 error missing_key: the step `s` does nothing: it needs `run`, `docker`, `pod`, `task` or `approve`
            as in `run: echo hello`
        t.yaml:4:5 error unknown_key: a step has no key `script`
            that is called `run` here
        t.yaml:5:5 error unknown_key: a step has no key `depends_on`
            that is called `needs` here
        t.yaml:6:5 error unknown_key: a step has no key `when`
            that is called `if` here
    "#]],
    );
}

#[test]
fn wrong_types() {
    check_step(
        "run: x\nallow_failure: yes\neffects: read\ntags: linux\nretry: often",
        &expect![[r#"
        t.yaml:5:20 error wrong_type: `allow_failure` must be true or false, not the text `yes`
            did you mean `true`?
        t.yaml:6:14 error bad_value: `effects` must be `none`, `idempotent` or `writes`, not the text `read`
        t.yaml:7:11 error wrong_type: `tags` must be a list, not the text `linux`
            write [linux]
        t.yaml:8:12 error wrong_type: `retry` must be a whole number, not the text `often`
    "#]],
    );
    check_step(
        "run: x\ntimeout: 0s\nunmatched: forever\nenv: [A=b]\nshell: ''\nworkdir: 5",
        &expect![[r#"
        t.yaml:5:14 error bad_value: `timeout` must be longer than zero
            leave it out for no limit
        t.yaml:6:16 error bad_value: `unmatched` is no duration: the text `forever`
            a number is missing before `forever`, as in `1h30m`
        t.yaml:7:10 error wrong_type: `env` must be a mapping, not a list
            write `NAME: value` pairs
        t.yaml:8:12 error bad_value: `shell` is empty
        t.yaml:9:14 error wrong_type: `workdir` must be a text, not the number 5
            put it into quotes: "5"
    "#]],
    );
}

#[test]
fn folders_outside_of_the_attempts_own() {
    let found = |folder: &str| {
        let text =
            format!("name: t\ninput: {{ a: {{ type: string }} }}\nsteps:\n  s: {{ run: x, workdir: \"{folder}\" }}\n");
        crate::lines(&spec::task::parse(&text, "t.yaml", &spec::task::Options::default()).1)
    };
    let hint = "a relative folder is below the attempt's own and has no `..`; for one elsewhere on the worker give its \
                absolute path, as in `/srv/repo`";
    for folder in ["..", "../../../../x", "./a/../b", "a/..", "../{{ input.a }}", "x/../{{ input.a }}"] {
        let problem = format!("`workdir: {folder}` leads out of the attempt's own folder");
        assert_eq!(found(folder), format!("t.yaml:4:25 error bad_value: {problem}\n    {hint}\n"));
    }
    for folder in ["/srv/../x", "a..b/...", "..a", "{{ input.a }}/../x", "..{{ input.a }}"] {
        assert_eq!(found(folder), "", "{folder}");
    }
}

/// One problem hides no other.
#[test]
fn all_of_a_group_and_of_a_trigger_is_told_at_once() {
    check(
        "name: t\nconcurrency: { group: '', limit: 0, when_full: drop }\nsteps: { s: { run: x } }\n",
        &expect![[r#"
            t.yaml:2:23 error bad_value: `group` is empty
            t.yaml:2:34 error bad_value: `limit` must be between 1 and 10000, not 0
            t.yaml:2:48 error bad_value: `when_full` must be `queue`, `reject` or `cancel_oldest`, not the text `drop`
        "#]],
    );
    check(
        "name: t\nsteps: { s: { run: x } }\ntriggers:\n  - { cron: '61 * * * *', timezone: Europe/Olso }\n  - { webhook: 'a b', secret: S }\n",
        &expect![[r#"
            t.yaml:4:13 error bad_value: `cron` cannot be read: `61` is no minute
                minute, hour, day, month, weekday, as in `0 3 * * *`
            t.yaml:4:37 error bad_value: there is no time zone `Europe/Olso`
                did you mean `Europe/Oslo`?
            t.yaml:5:16 error bad_name: `a b` is no webhook name
                names begin with a letter or `_` and go on with letters, digits, `_`, `-` and `.`
        "#]],
    );
}

/// A job that is under way must be readable after an upgrade.
#[test]
fn rules_that_came_later_do_not_hold_for_what_was_accepted() {
    let text = |step: &str| format!("name: t\nsteps:\n  s: {{ {step} }}\n");
    let read =
        |step: &str| spec::task::parse_stored(&text(step), "t.yaml", &spec::task::Options::default()).0.is_some();
    assert!(read("run: x, workdir: ../x"));
    assert!(read("run: x, if: \"'x'\""));
    assert!(read("run: x, if: \"[1] + 'x'\""));
    assert!(read("run: 'echo {{ item.zz }}', matrix: { os: [a] }"));
    assert!(read("run: x, matrix: { os: ['{{ input.os }}'] }"));
    assert!(read("approve: {}, expect: 5s"));
    let hook = "name: t\nsteps: { s: { run: x } }\non_error: [ { webhook: 'https://example.com/', secret: a-b } ]\n";
    let (stored, _) = spec::task::parse_stored(hook, "t.yaml", &spec::task::Options::default());
    assert!(stored.is_some());
    assert!(!read("run: x, workdir: ''"), "the others do");
}

#[test]
fn secrets_that_nobody_can_set() {
    check(
        "name: t\nsteps: { s: { run: x } }\non_error: [ { webhook: 'https://example.com/', secret: a-b } ]\n",
        &expect![[r#"
            t.yaml:3:56 error bad_name: `a-b` is no secret name
                names begin with a letter or `_` and go on with letters, digits and `_`
        "#]],
    );
}

#[test]
fn conditions_that_are_no_question() {
    for condition in ["5", "'x'", "1.5", "none", "-5", "[1]", "{}", "2 + 3", "'a' ~ 'b'", "5 and 7", "['a'] | first"] {
        let text = format!("name: t\nsteps:\n  s: {{ run: x, if: \"{condition}\" }}\n");
        let found = crate::lines(&spec::task::parse(&text, "t.yaml", &spec::task::Options::default()).1);
        let problem = format!("the condition is always `{condition}`, which is neither true nor false");
        let hint = "compare it with something, as in `input.count == 5`, or write `true` or `false`";
        assert_eq!(found, format!("t.yaml:3:20 error bad_value: {problem}\n    {hint}\n"));
    }
    for condition in ["false", "1 == 2", "not 0", "5 in [1, 5]", "'x' is string"] {
        check_step(&format!("run: x\nif: \"{condition}\""), &expect![""]);
    }
    check_step(
        "run: x\nif: -5",
        &expect![[r#"
        t.yaml:5:9 error bad_value: the condition is always `-5`, which is neither true nor false
            compare it with something, as in `input.count == 5`, or write `true` or `false`
    "#]],
    );
    check_step(
        "run: x\nif: 1.5",
        &expect![[r#"
        t.yaml:5:9 error bad_value: the condition is always `1.5`, which is neither true nor false
            compare it with something, as in `input.count == 5`, or write `true` or `false`
    "#]],
    );
    check_step(
        "run: x\nif: \"1 // 0 == 1\"",
        &expect![[r#"
        t.yaml:5:9 error bad_value: the condition always fails: unable to calculate 1 // 0, at `1 // 0`
            compare it with something, as in `input.count == 5`, or write `true` or `false`
    "#]],
    );
}

#[test]
fn what_fan_outs_go_over() {
    check_step(
        "run: 'echo {{ item }}'\nfor_each: 5",
        &expect![[r#"
        t.yaml:5:15 error wrong_type: `for_each` must be a list, or one template that gives a list, not the number 5
            as in `for_each: [a, b]` or `for_each: "{{ input.targets }}"`
    "#]],
    );
    check_step(
        "run: 'echo {{ item }}'\nfor_each: a b",
        &expect![[r#"
        t.yaml:5:15 error wrong_type: `for_each` must be a list, or one template that gives a list, not the text `a b`
            as in `for_each: [a, b]` or `for_each: "{{ input.targets }}"`
    "#]],
    );
    for (kind, refused) in [("integer", true), ("number", true), ("boolean", true), ("string", false), ("list", false)]
    {
        let text = format!(
            "name: t\ninput: {{ n: {{ type: {kind} }} }}\nsteps:\n  a: {{ run: x, for_each: '{{{{ input.n }}}}' }}\n"
        );
        let (_, told) = spec::check(&text, "t.yaml");
        let message = format!("`for_each` goes over a list, and the input `n` is declared `type: {kind}`");
        let told: Vec<&str> = told.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
        assert_eq!(told, if refused { vec![message.as_str()] } else { vec![] }, "{kind}");
        let stored = spec::task::parse_stored(&text, "t.yaml", &spec::task::Options::default());
        assert!(stored.0.is_some(), "{kind}");
    }
    check_step(
        "run: 'echo {{ item }}'\nfor_each: { a: 1 }",
        &expect![[r#"
        t.yaml:5:15 error wrong_type: `for_each` must be a list, or one template that gives a list, not a mapping
            as in `for_each: [a, b]` or `for_each: "{{ input.targets }}"`
    "#]],
    );
    check_step(
        "run: 'echo {{ item.os }}'\nmatrix: { os: '{{ input.os }}' }",
        &expect![[r#"
        t.yaml:5:19 error wrong_type: `os` must be a list, not the text `{{ input.os }}`
            an axis is written out, as in `os: [a, b]`; for a list that a template gives use `for_each`
    "#]],
    );
    check_step(
        "run: 'echo {{ item.os }}'\nmatrix: { os: debian }",
        &expect![[r#"
        t.yaml:5:19 error wrong_type: `os` must be a list, not the text `debian`
            as in `os: [a, b]`
    "#]],
    );
    check_step(
        "run: 'echo {{ item.os }}'\nmatrix: { os: [a, '{{ input.os }}'] }",
        &expect![[r#"
        t.yaml:5:23 error bad_value: `os` is taken as it is written, and cannot hold a template
            for values that templates give use `for_each`
    "#]],
    );
}

#[test]
fn axes_that_the_matrix_has_not() {
    check_step(
        "run: 'echo {{ item.zz }}'\nmatrix: { os: [a], arch: [b] }",
        &expect![[r#"
        t.yaml:4:19 error unknown_reference: the matrix has no axis `zz`
            it has `os` or `arch`
    "#]],
    );
    check_step(
        "run: x\nmatrix: { os: [a], arch: [b] }\nenv: { A: \"{{ item['oss'] | default('') }}\", B: \"{{ item.os }} {{ item['a' ~ 'rch'] }} {{ item }}\" }",
        &expect![[r#"
            t.yaml:6:19 error unknown_reference: the matrix has no axis `oss`
                did you mean `os`?
        "#]],
    );
    check_step("run: 'echo {{ item.zz }}'\nfor_each: [{ a: b }]", &expect![""]);
}

#[test]
fn policies_that_try_nothing_again() {
    check_step(
        "run: x\nretry: { on: [failure], delay: 5s }",
        &expect![[r#"
        t.yaml:5:5 warning missing_key: `retry` without `attempts` tries nothing again: there is one attempt
            say how many there are in all, as in `attempts: 3`
    "#]],
    );
    check_step("run: x\nretry: { on: [failure], attempts: 1 }", &expect![""]);
    check(
        "name: t\ndefaults: { retry: { attempts: 3, on: [failure] } }\nsteps: { a: { run: x, retry: { on: [timeout] } } }",
        &expect![[r#"
        t.yaml:3:23 warning missing_key: `retry` without `attempts` tries nothing again: there is one attempt
            say how many there are in all, as in `attempts: 3`
    "#]],
    );
    check(
        "name: t\ndefaults: { retry: { delay: 5s } }\nsteps: { a: { run: x, retry: 2 } }",
        &expect![[r#"
        t.yaml:2:13 warning missing_key: `retry` without `attempts` tries nothing again: there is one attempt
            say how many there are in all, as in `attempts: 3`
    "#]],
    );
}

/// Nothing is there that they could name, and nobody fills them in.
#[test]
fn what_triggers_give_is_taken_as_it_is_written() {
    check(
        "name: t\ninput: { q: { type: list } }\nsteps: { a: { run: x } }\ntriggers:\n  \
         - { cron: '@daily', with: { q: ['{{ input.q }}', x], qq: 1 } }\n",
        &expect![[r#"
        t.yaml:5:35 error bad_value: `with` is taken as it is written, and cannot hold a template
        t.yaml:5:56 error unknown_key: the task `t` has no input `qq`
            did you mean `q`?
    "#]],
    );
}

#[test]
fn a_condition_knows_no_item() {
    check(
        "name: t\nsteps: { a: { matrix: { os: [a, b] }, run: x, if: \"item.os == 'a'\" } }\n",
        &expect![[r#"
        t.yaml:2:52 error unknown_reference: there is no `item` here
            `if` is decided once for the whole step, before there are items
    "#]],
    );
}

#[test]
fn an_address_with_a_template_is_one_problem() {
    check(
        "name: t\nsteps: { a: { run: x } }\non_error: [{ webhook: 'http://x/{{ job.id }}' }]\n",
        &expect![[r#"
        t.yaml:3:23 error bad_value: `webhook` is taken as it is written, and cannot hold a template
    "#]],
    );
}

#[test]
fn retries() {
    check_step(
        "run: x\nretry: { attempts: 0, on: [exit:0, exit:x, signal:NOPE, failed, 5] }",
        &expect![[r#"
        t.yaml:5:24 error bad_value: `attempts` must be between 1 and 1000, not 0
        t.yaml:5:32 error bad_value: `on` cannot be `exit:0`
            0 is success, which is not retried
        t.yaml:5:40 error bad_value: `on` cannot be `exit:x`
            exit codes are numbers from 1 to 255
        t.yaml:5:48 error bad_value: `on` cannot be `signal:NOPE`
            signals are numbers from 1 to 64 or names such as KILL
        t.yaml:5:61 error bad_value: `on` cannot be `failed`
            did you mean `failure`?
        t.yaml:5:69 error wrong_type: `on` must be a text, not the number 5
            put it into quotes: "5"
    "#]],
    );
    check_step(
        "run: x\nretry: { atempts: 3, delay: 1m, max_delay: 5s, backoff: 0.5 }",
        &expect![[r#"
            t.yaml:5:5 warning missing_key: `retry` without `attempts` tries nothing again: there is one attempt
                say how many there are in all, as in `attempts: 3`
            t.yaml:5:14 error unknown_key: `retry` has no key `atempts`
                did you mean `attempts`?
            t.yaml:5:48 error conflict: `max_delay` is shorter than `delay`
                every wait would be `max_delay`; say so in `delay`
            t.yaml:5:61 error bad_value: `backoff` must be between 1 and 100, not 0.5
        "#]],
    );
    check_step(
        "run: x\nretry: { on: [] }",
        &expect![[r#"
            t.yaml:5:5 warning missing_key: `retry` without `attempts` tries nothing again: there is one attempt
                say how many there are in all, as in `attempts: 3`
            t.yaml:5:18 error bad_value: `on` names nothing to retry on
                leave it out for [failure, timeout], or leave out `retry`
        "#]],
    );
    check_step(
        "run: x\ncancel: { signal: TREM, grace: 2h }",
        &expect![[r#"
        t.yaml:5:23 error bad_value: `signal` must be a signal, not the text `TREM`
            did you mean `TERM`?
        t.yaml:5:36 error bad_value: `grace` is at most 1h
    "#]],
    );
    check_step(
        "run: x\ncleanup: y\ncancel: { cleanup: 0s }",
        &expect![[r#"
        t.yaml:6:24 error bad_value: `cleanup` within `cancel` is longer than zero, and at most 1h
            without a `cleanup` of the step itself nothing is cleaned up
    "#]],
    );
    check_step(
        "run: x\ncancel: { cleanup: ./undo.sh }",
        &expect![[r#"
        t.yaml:5:24 error bad_value: `cleanup` is no duration: the text `./undo.sh`
            a number is missing before `./undo.sh`, as in `1h30m`
    "#]],
    );
}

#[test]
fn a_cleanup_is_a_program() {
    check_step(
        "run: x\ncleanup: \"\"",
        &expect![[r#"
        t.yaml:5:14 error bad_value: `cleanup` is empty
    "#]],
    );
    check_step(
        "run: x\ncleanup: []",
        &expect![[r#"
        t.yaml:5:14 error bad_value: `cleanup` is an empty list
            give the program and its arguments, as in [git, status]
    "#]],
    );
    check_step(
        "run: x\ncleanup: \"{{ input.nope }}\"",
        &expect![[r#"
        t.yaml:5:18 error unknown_reference: there is no input `nope`
            declare it: `input: { nope: { type: string } }`
    "#]],
    );
    check_step(
        "task: x\ncleanup: y",
        &expect![[r#"
        t.yaml:5:5 error conflict: `cleanup` means nothing in a step with `task`
            leave it out
    "#]],
    );
    check_step(
        "approve: { message: x }\ncleanup: y",
        &expect![[r#"
        t.yaml:5:5 error conflict: `cleanup` means nothing in a step with `approve`
            leave it out
    "#]],
    );
}

#[test]
fn a_risky_retry_is_a_warning() {
    check_step(
        "run: x\nretry: { attempts: 2, on: [worker_lost] }",
        &expect![[r#"
            t.yaml:3:3 warning risky_retry: the step `s` writes and is still repeated when its worker is lost
                if it may be repeated say `effects: idempotent`, otherwise leave `worker_lost` out
        "#]],
    );
    check_step("run: x\neffects: idempotent\nretry: { attempts: 2, on: [worker_lost] }", &expect![""]);
}

#[test]
fn needs() {
    check(
        "name: t\nsteps: { build: { run: x }, b: { run: x, needs: [biuld, build, build, { step: build, on: [sucess] }, { on: [] }] } }",
        &expect![[r#"
            t.yaml:2:50 error unknown_step: the step `b` needs `biuld`, which is not there
                did you mean `build`?
            t.yaml:2:64 error conflict: `build` stands in `needs` twice
            t.yaml:2:79 error conflict: `build` stands in `needs` twice
            t.yaml:2:91 error bad_value: `on` must be `success`, `failed`, `failure`, `cancelled` or `skipped`, not the text `sucess`
                did you mean `success`?
            t.yaml:2:102 error missing_key: an item of `needs` needs the key `step`
                the step's name
            t.yaml:2:108 error bad_value: `on` names no end that would satisfy it
        "#]],
    );
}

#[test]
fn cycles() {
    check(
        "name: t\nsteps:\n  a: { run: x, needs: [c] }\n  b: { run: x, needs: [a] }\n  c: { run: x, needs: [b] }\n",
        &expect![[r#"
        t.yaml:3:24 error cycle: these steps wait for each other: a → c → b → a
            each arrow reads "needs"; take one of them away
    "#]],
    );
    check(
        "name: t\nsteps: { a: { run: x, needs: [a] } }",
        &expect![[r#"
        t.yaml:2:31 error cycle: these steps wait for each other: a → a
            each arrow reads "needs"; take one of them away
    "#]],
    );
}

#[test]
fn hooks_triggers_concurrency() {
    check(
        "name: t\nsteps: { a: { run: x } }\nconcurrency: { limit: 0 }\non_error: [{}, { task: a, webhook: b }, { webhook: ftp://x }]\n\
         triggers: [{ cron: '0 3 * *' }, { cron: '@daily', secret: x }, { webhook: w, timezone: UTC }, { missed: often }]\n",
        &expect![[r#"
            t.yaml:3:23 error bad_value: `limit` must be between 1 and 10000, not 0
            t.yaml:4:12 error missing_key: a hook needs `task`, `webhook` or `mail`
            t.yaml:4:27 error conflict: a hook has `task`, `webhook` or `mail`, and only one of them
            t.yaml:4:52 error bad_value: `webhook` must be an address that begins with https:// or http://
            t.yaml:5:20 error bad_value: `cron` cannot be read: it has 4 fields, not five
                minute, hour, day, month, weekday, as in `0 3 * * *`
            t.yaml:5:51 error conflict: `secret` means nothing in a trigger with `cron`
                leave it out
            t.yaml:5:66 error missing_key: a webhook needs `secret`, the name of what signs its calls
                without one, anybody who reaches the server could start this task
            t.yaml:5:78 error conflict: `timezone` means nothing in a trigger with `webhook`
                leave it out
            t.yaml:5:95 error missing_key: a trigger needs `cron` or `webhook`
        "#]],
    );
}

#[test]
fn secrets() {
    check(
        "name: t\nenv: { A: x }\nsteps:\n  a:\n    run: echo {{ secrets.KEY }}\n    env: { B: x }\n    \
         secrets: [KEY, A, B, KEY, 'a-b', BOWLINE_X, WEBHOOK_KEY, '', [x]]\n  b: { approve: {}, secrets: [KEY] }\n",
        &expect![[r#"
            t.yaml:5:18 error unknown_reference: templates cannot read secrets
                name it in the step's `secrets` and read the variable of that name, as in `"$DEPLOY_KEY"`
            t.yaml:7:20 error conflict: `A` is a secret and a variable of `env` at once
                the step gets the secret in a variable of that name; take it out of `env`
            t.yaml:7:23 error conflict: `B` is a secret and a variable of `env` at once
                the step gets the secret in a variable of that name; take it out of `env`
            t.yaml:7:26 error conflict: the secret `KEY` is named twice
            t.yaml:7:31 error bad_name: `a-b` is no variable name
                names begin with a letter or `_` and go on with letters, digits and `_`
            t.yaml:7:38 error bad_name: the variable `BOWLINE_X` is Bowline's own
                names that begin with BOWLINE_ are set for each step
            t.yaml:7:49 error bad_name: the secret `WEBHOOK_KEY` is the server's own, and no step gets it
            t.yaml:7:62 error bad_value: `secrets` is empty
            t.yaml:7:66 error wrong_type: `secrets` must be a text, not a list
            t.yaml:8:21 error conflict: `secrets` means nothing in a step with `approve`
                leave it out
        "#]],
    );
    let many: Vec<String> = (0..33).map(|n| format!("S{n}")).collect();
    check(
        &format!("name: t\nsteps: {{ a: {{ run: x, secrets: [{}] }} }}", many.join(", ")),
        &expect![[r#"
        t.yaml:2:32 error bad_value: a step may have 32 secrets, these are 33
    "#]],
    );
}

#[test]
fn groups() {
    let check_group = |text: &str, expected: &expect_test::Expect| {
        check(&format!("name: t\nsteps: {{ a: {{ run: x }} }}\nconcurrency: {text}\n"), expected);
    };
    check_group(
        "{ group: 'x {{ input.nobody }}' }",
        &expect![[r#"
        t.yaml:3:29 error unknown_reference: there is no input `nobody`
            declare it: `input: { nobody: { type: string } }`
    "#]],
    );
    check_group(
        "{ group: '{{ steps.a.output.b }}', when_full: wait }",
        &expect![[r#"
        t.yaml:3:27 error unknown_reference: steps cannot be named here: this is filled in before any of them
            say it in a step that needs them, as in its `env`
        t.yaml:3:60 error bad_value: `when_full` must be `queue`, `reject` or `cancel_oldest`, not the text `wait`
    "#]],
    );
    check_group(
        &format!("{{ group: {} }}", "g".repeat(201)),
        &expect![[r#"
        t.yaml:3:23 error limit: `group` can have at most 200 bytes, and has 201
    "#]],
    );
    check_group(
        "{ group: \"a\\nb\", limit: 10001 }",
        &expect![[r#"
        t.yaml:3:23 error bad_value: `group` has a line break or another control character in it
        t.yaml:3:38 error bad_value: `limit` must be between 1 and 10000, not 10001
    "#]],
    );
    check_group(
        "release",
        &expect![[r#"
        t.yaml:3:14 error wrong_type: `concurrency` is a mapping, not the text `release`
            write `key: value` pairs, with keys such as `group`, `limit` or `when_full`
    "#]],
    );
}

#[test]
fn mails_and_expectations() {
    let text = "name: t\nexpect: 2h\ntimeout: 1h\nsteps: { a: { run: x, expect: 5m, timeout: 5m }, b: { run: x, expect: 0s } }\n\
        on_error: [{ mail: ops }, { mail: [] }, { mail: 'a@b.c, d@e.f' }, { mail: \"a@b.c\\nBcc: d@e.f\" }, { mail: '{{ input.to }}' }]\n\
        on_notice: [{ mail: -x@b.c }, { mail: a@b.c, secret: S }, { mail: a@b.c, task: x }, { task: x, with: { a: '{{ notice.what }}' } }]\n\
        on_success: [{ task: x, with: { a: '{{ notice.kind }}' } }]\n";
    let (task, diagnostics) = spec::task::parse(text, "t.yaml", &spec::task::Options::default());
    let told = crate::lines(&diagnostics);
    assert!(task.is_none(), "{told}");
    let expected = [
        ("`expect` is not shorter than `timeout`, so there is never a notice", 2),
        ("`expect` must be longer than zero", 1),
        ("is no mail address", 4),
        ("`mail` takes between 1 and 20 addresses", 1),
        ("`secret` means nothing in a hook with `mail`", 1),
        ("a hook has `task`, `webhook` or `mail`, and only one of them", 1),
        ("`notice` has no `what`", 1),
        ("there is no `notice` here", 1),
    ];
    for (words, times) in expected {
        assert_eq!(told.matches(words).count(), times, "{words}\n{told}");
    }
}
