//! Task files: graphs, conditions, inputs, outputs, retries, timeouts.

use crate::house::{House, states, step_of};

#[test]
fn outputs_travel_along_the_graph() {
    let (house, _up) = House::up();
    let id = house.submit(
        r#"
name: outputs
steps:
  build:
    run: |
      echo "sha=abc123" >> "$BOWLINE_OUTPUT"
      echo '{"size": 42, "parts": ["a", "b"]}' >> "$BOWLINE_OUTPUT"
  use:
    needs: [build]
    run: echo "{{ steps.build.output.sha }} {{ steps.build.output.size }} {{ steps.build.output.parts[1] }}"
"#,
    );
    let job = house.end(&id);
    assert_eq!(states(&job), "build success, use success");
    assert_eq!(house.log(&id, "use"), "abc123 42 b\n");
    assert_eq!(step_of(&job, "build")["output"]["size"], 42);
}

#[test]
fn conditions_decide_and_skips_cascade() {
    let (house, _up) = House::up();
    let id = house.submit(
        r#"
name: conditions
steps:
  bad: { run: exit 1 }
  after: { run: 'true', needs: [bad] }
  later: { run: 'true', needs: [after] }
  rescue: { run: 'true', needs: [bad], if: failure() }
  tidy: { run: 'true', needs: [later], if: always() }
  soft: { run: exit 2, allow_failure: true }
  on: { run: 'true', needs: [soft] }
  edge: { run: 'true', needs: [{ step: bad, on: [failed] }] }
"#,
    );
    let job = house.end(&id);
    let expected =
        "bad failed, after skipped, later skipped, rescue success, tidy success, soft failed, on success, edge success";
    assert_eq!(states(&job), expected);
    assert_eq!(job["state"], "failed");
    assert_eq!(job["error"]["step"], "bad");
}

#[test]
fn a_list_becomes_a_step_for_each_item() {
    let (house, _up) = House::up();
    let id = house.submit(
        r#"
name: fan
steps:
  list: { run: 'echo "{\"parts\": [\"a\", \"b\", \"c\"]}" >> "$BOWLINE_OUTPUT"' }
  each:
    needs: [list]
    for_each: "{{ steps.list.output.parts }}"
    max_parallel: 2
    run: |
      echo "part {{ item }} in $BOWLINE_STEP"
      echo "seen={{ item }}" >> "$BOWLINE_OUTPUT"
  build:
    matrix: { os: [debian, alpine], n: [1, 2] }
    run: 'test {{ item.os }}{{ item.n }} != alpine1'
  blame: { needs: [each, { step: build, on: failure }], run: 'true' }
  sum: { needs: [each], run: 'echo "{{ steps.each.output }}"' }
"#,
    );
    let job = house.end(&id);
    let expected = "list success, each success, each[0] success, each[1] success, each[2] success, \
        build failed, build[0] success, build[1] success, build[2] failed, build[3] success, blame success, sum success";
    assert_eq!(states(&job), expected);
    assert_eq!(house.log(&id, "each[1]"), "part b in each[1]\n");
    assert_eq!(house.log(&id, "sum"), "[{seen:a},{seen:b},{seen:c}]\n");
    let none = house.bowline(&["logs", &id, "each", "-f"]).ok();
    assert_eq!(none.out, "");
    assert!(none.err.contains("its 3 items have them: each[0], each[1], each[2]"), "{}", none.err);
    let bad = job["steps"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|step| step["item"]["n"] == 1 && step["state"] == "failed");
    let name = bad.expect("one item failed")["name"].as_str().expect("a name").to_owned();
    assert_eq!(name, "build[2]");
    assert!(job["error"]["message"].as_str().is_some_and(|text| text.contains("1 of 4 items failed")), "{job}");
    // Only what did not end well is done again.
    let again = house.bowline(&["retry", &id, "--from-failed"]).ok().out.trim().to_owned();
    let again = house.end(&again);
    assert_eq!(step_of(&again, "build[2]")["attempt"], 1);
    assert_eq!(step_of(&again, "build[1]")["attempt"], 0);
    assert_eq!(step_of(&again, "build[1]")["state"], "success");
}

#[test]
fn a_step_that_was_taken_over_names_the_job_that_ran_it() {
    let (house, _up) = House::up();
    let task = "name: t\nsteps:\n  a: { run: echo here }\n  b: { needs: [a], run: exit 3 }\n  c: { task: u }\n";
    let child = house.write("u.yaml", "name: u\nsteps: { s: { run: 'true' } }\n").display().to_string();
    house.bowline(&["tasks", "push", &child]).ok();
    let first = house.submit(task);
    let job = house.end(&first);
    let child = step_of(&job, "c")["child"].as_str().expect("a job did it").to_owned();
    let retry = |id: &str| {
        let next = house.bowline(&["retry", id, "--from-failed"]).ok().out.trim().to_owned();
        house.end(&next);
        next
    };
    let second = retry(&first);
    let third = retry(&second);
    for id in [&second, &third] {
        let told = house.bowline(&["logs", id, "a"]).ok();
        assert_eq!(told.out, "");
        let words = format!("it was taken over from job {first}; read it with `bowline logs {first} a`");
        assert!(told.err.contains(&words), "{}", told.err);
    }
    let told = house.bowline(&["logs", &second, "a", "--attempt", "1"]).ok();
    assert!(told.err.contains(&format!("it was taken over from job {first}")), "{}", told.err);
    assert_eq!(house.log(&first, "a"), "here\n");
    // A job's log is that of the steps that it ran.
    let all = house.bowline(&["logs", &first]).ok();
    assert_eq!((all.out.as_str(), all.err.as_str()), ("a | here\n", ""));
    let told = house.bowline(&["logs", &first, "c"]).ok();
    assert!(told.err.contains(&format!("job {child} does it")), "{}", told.err);
    // The same words at both ends.
    let shown = house.bowline(&["job", &second]).ok().out;
    assert!(shown.contains(&format!("continues job {first} (retry of what failed)\n")), "{shown}");
    assert!(shown.contains(&format!("continued by job {third}\n")), "{shown}");
    assert!(!shown.contains("resolved by"), "{shown}");
    let row =
        |shown: &str, step: &str| shown.lines().find(|line| line.starts_with(step)).expect("it is shown").to_owned();
    assert!(row(&shown, "a ").contains("taken over"), "{shown}");
    let why = house.bowline(&["why", &second]).ok().out;
    assert!(why.contains(&format!("It continues job {first} (retry of what failed).")), "{why}");
    assert!(why.contains(&format!("it was taken over from job {first}")), "{why}");
    // What a person settled is told as that, also further on.
    let settled = house.bowline(&["resolve", &third, "b", "--succeeded"]).ok().out.trim().to_owned();
    house.end(&settled);
    let told = house.bowline(&["logs", &settled, "b"]).ok().err;
    let words = format!("admin settled it by hand; `bowline logs {third} b` shows what it wrote before");
    assert!(told.contains(&words), "{told}");
    let shown = house.bowline(&["job", &settled]).ok().out;
    assert!(row(&shown, "b ").contains("settled by admin"), "{shown}");
    let listed = house.bowline(&["jobs"]).ok().out;
    let line = |id: &str| listed.lines().find(|line| line.starts_with(id)).expect("it is listed");
    assert!(line(&child).ends_with(&format!("begun by {first}")), "{listed}");
    let words = format!("continues {first} (retry of what failed), continued by {third}");
    assert!(line(&second).contains(&words), "{listed}");
}

#[test]
fn inputs_are_bound_and_seen_by_scripts() {
    let (house, _up) = House::up();
    let file = house.write(
        "in.yaml",
        r#"
name: inputs
input:
  version: { type: string, required: true, pattern: '^v[0-9]+' }
  count: { type: integer, default: 2 }
steps:
  show: { run: 'echo "{{ input.version }} {{ input.count + 1 }} $BOWLINE_INPUT_VERSION $BOWLINE_TASK/$BOWLINE_STEP/$BOWLINE_ATTEMPT"' }
"#,
    );
    let file = file.display().to_string();
    let ran = house.bowline(&["run", &file, "-i", "version=v7", "-i", "count=40"]).ok();
    assert!(ran.out.contains("v7 41 v7 inputs/show/1"), "{}", ran.out);
    let wrong = house.bowline(&["run", &file, "-i", "version=7", "-i", "cuont=1"]).code(2);
    assert!(wrong.err.contains("count") && wrong.err.contains("version"), "{}", wrong.err);
    house.bowline(&["run", &file]).code(2);
    // Nothing was made.
    assert_eq!(house.bowline(&["jobs", "--json"]).ok().json()["items"].as_array().expect("a list").len(), 1);
}

#[test]
fn retries_run_at_most_as_often_as_said() {
    let (house, _up) = House::up();
    let count = house.path("count");
    let yaml = format!(
        "name: r\nsteps:\n  a:\n    run: echo x >> {0}; exit 75\n    retry: {{ attempts: 3, on: ['exit:75'] }}\n",
        count.display()
    );
    let id = house.submit(&yaml);
    let job = house.end(&id);
    assert_eq!(house.read("count"), "x\nx\nx\n");
    assert_eq!(step_of(&job, "a")["attempts"].as_array().expect("a list").len(), 3);
    assert_eq!(job["error"]["code"], "exit_code");
    // The table has the third.
    let shown = house.bowline(&["job", &id]).ok().out;
    let earlier: Vec<&str> = shown.lines().filter(|line| line.starts_with("attempt ")).collect();
    for (number, line) in (1..).zip(&earlier) {
        assert!(line.starts_with(&format!("attempt {number} of a: exit 75 on ")), "{shown}");
        assert!(line.contains("ms, cpu ") && line.ends_with("iB"), "{shown}");
    }
    assert_eq!(earlier.len(), 2, "{shown}");
}

#[test]
fn a_timeout_ends_the_step_and_all_its_children() {
    let (house, _up) = House::up();
    let pids = house.path("pids").display().to_string();
    let yaml = format!(
        "name: t\nsteps:\n  a:\n    timeout: 500ms\n    cancel: {{ grace: 100ms }}\n    run: |\n      setsid sleep 300 & echo $! >> {pids}\n      sleep 300 & echo $! >> {pids}\n      trap '' TERM\n      while :; do sleep 1; done\n"
    );
    let id = house.submit(&yaml);
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "step_timeout");
    for pid in house.read("pids").lines() {
        crate::house::await_that(&format!("{pid} is gone"), || (!crate::house::lives(pid)).then_some(()));
    }
}

#[test]
fn a_program_that_is_not_there_fails_clearly() {
    let (house, _up) = House::up();
    let ran = house.bowline(&["exec", "--", "no-such-program-anywhere"]).code(1);
    assert!(ran.err.contains("no-such-program-anywhere"), "{}", ran.err);
    assert_eq!(house.job("last")["error"]["code"], "spawn_failed");
}

#[test]
fn priority_goes_before_age() {
    let mut house = House::new();
    let _server = house.start_server();
    let order = house.path("order").display().to_string();
    let job = |name: &str, priority: i32| {
        house.submit(&format!("name: {name}\npriority: {priority}\nsteps:\n  a: {{ run: echo {name} >> {order} }}\n"))
    };
    let ids = [job("first", 0), job("second", 0), job("urgent", 9)];
    let _worker = house.start_worker("w", &["--slots", "1"]);
    for id in &ids {
        house.bowline(&["wait", id]).ok();
    }
    assert_eq!(house.read("order"), "urgent\nfirst\nsecond\n");
}

#[test]
fn a_job_keeps_the_definition_it_was_submitted_with() {
    let mut house = House::new();
    let gate = house.path("gate").display().to_string();
    let text = |word: &str| {
        format!(
            "name: t\nsteps:\n  a: {{ run: 'until [ -e {gate} ]; do sleep 0.05; done' }}\n  b: {{ needs: [a], run: echo {word} }}\n"
        )
    };
    house.write("tasks/t.yaml", &text("old"));
    let _server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let id = house.bowline(&["run", "t", "--detach"]).ok().out.trim().to_owned();
    house.await_state(&id, Some("a"), "running");
    std::fs::remove_file(house.path("tasks/t.yaml")).expect("removed");
    crate::house::await_that("the task is gone", || (house.bowline(&["run", "t", "--detach"]).code == 2).then_some(()));
    house.write("gate", "");
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.log(&id, "b"), "old\n");
}

#[test]
fn a_step_is_done_by_a_job_of_its_own() {
    let mut house = House::new();
    house.write(
        "tasks/measure.yaml",
        r#"
name: measure
input: { what: { type: string, required: true } }
steps:
  look: { run: 'echo "found={{ input.what | upper }}" >> "$BOWLINE_OUTPUT"' }
"#,
    );
    house.write(
        "tasks/report.yaml",
        r#"
name: report
steps:
  pick: { run: 'echo "name=north" >> "$BOWLINE_OUTPUT"' }
  ask:
    needs: [pick]
    task: measure
    with: { what: "{{ steps.pick.output.name }}" }
  each:
    for_each: [a, b]
    task: measure
    with: { what: "{{ item }}" }
  tell:
    needs: [ask, each]
    run: echo "{{ steps.ask.output.look.found }} {{ steps.each.output[1].look.found }}"
"#,
    );
    let _server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let id = house.bowline(&["run", "report", "--detach"]).ok().out.trim().to_owned();
    let job = house.end(&id);
    assert_eq!(states(&job), "pick success, ask success, each success, each[0] success, each[1] success, tell success");
    assert_eq!(house.log(&id, "tell"), "NORTH B\n");
    let child = step_of(&job, "ask")["child"].as_str().expect("a job did it").to_owned();
    assert_eq!(house.log(&child, "look"), "");
    let told = house.bowline(&["job", &child]).ok().out;
    assert!(told.contains(&format!("begun by job {id}")), "{told}");
    assert!(house.bowline(&["job", &id]).ok().out.contains(&format!("job {child}")));
    assert_eq!(house.bowline(&["job", "last", "--json"]).ok().out.matches(&id).count(), 1);
}

/// Killed while a child runs, the server finds both again, and a cancel of the one ends the other.
#[test]
fn a_child_outlives_its_server_and_ends_with_its_parent() {
    let mut house = House::new();
    house.write("tasks/wait.yaml", "name: wait\nsteps:\n  long: { run: sleep 600, cancel: { grace: 1s } }\n");
    house.write("tasks/outer.yaml", "name: outer\nsteps:\n  call: { task: wait }\n");
    let server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let id = house.bowline(&["run", "outer", "--detach"]).ok().out.trim().to_owned();
    house.await_state(&id, Some("call"), "running");
    let child = step_of(&house.job(&id), "call")["child"].as_str().expect("a job does it").to_owned();
    house.await_state(&child, Some("long"), "running");
    server.kill();
    let _server = house.start_server();
    house.bowline(&["cancel", &id]).ok();
    assert_eq!(house.end(&id)["state"], "cancelled");
    assert_eq!(house.end(&child)["state"], "cancelled");
}
