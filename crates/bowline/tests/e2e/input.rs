//! Bad input: a clear error, exit code 2, and nothing half-made.

use std::process::Stdio;

use crate::house::{House, await_that, finish, no_sqlite_here};

#[test]
fn every_problem_of_a_task_file_is_told_at_once() {
    let (house, _up) = House::up();
    let file = house.write("bad.yaml", "name: bad\nsteps:\n  a: { run: x, retyr: 1 }\n  b: { run: x, needs: [c] }\n");
    let file = file.display().to_string();
    for command in ["check", "run"] {
        let ran = house.bowline(&[command, &file]).code(2);
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains("bad.yaml:3:"), "{said}");
        assert!(said.contains("bad.yaml:4:"), "{said}");
        assert!(said.contains("did you mean `retry`"), "{said}");
    }
    assert!(house.bowline(&["jobs", "--json"]).ok().json()["items"].as_array().expect("a list").is_empty());
}

#[test]
fn what_is_not_built_yet_says_so() {
    let (house, _up) = House::up();
    let file = house.write("later.yaml", "name: l\nsteps:\n  a: { docker: { image: alpine } }\n").display().to_string();
    let ran = house.bowline(&["run", &file]).code(2);
    assert!(ran.err.contains("not supported yet"), "{}", ran.err);
}

#[test]
fn missing_inputs_are_all_named_and_nobody_is_asked_without_a_terminal() {
    let (house, _up) = House::up();
    let text =
        "name: w\ninput: { a: { required: true }, b: { required: true }, c: {} }\nsteps: { s: { run: 'true' } }\n";
    let file = house.write("w.yaml", text).display().to_string();
    let ran = house.bowline(&["run", &file, "-i", "c=1"]).code(2);
    let told = "error: 2 inputs are not good\n- the input `a` is required\n  hint: give it with `-i a=…`\n\
                - the input `b` is required\n  hint: give it with `-i b=…`\n";
    assert_eq!(ran.err, told);
    assert!(!ran.err.contains("> "), "{}", ran.err);
}

#[test]
fn inputs_come_from_words_files_and_stdin() {
    let (house, _up) = House::up();
    let text = "
name: w
input: { a: {}, b: {}, days: { type: integer }, hosts: { type: list } }
steps: { show: { run: 'echo \"$BOWLINE_INPUT_A|$BOWLINE_INPUT_B|$BOWLINE_INPUT_DAYS|$BOWLINE_INPUT_HOSTS\"' } }
";
    let file = house.write("w.yaml", text).display().to_string();
    let values = house.write("values.yaml", "a: from the file\ndays: 3\nhosts: [x, y]\n").display().to_string();
    let mut command = house.command(&["run", &file, "--input-file", &values, "-i", "a=over it", "-i", "b=@-"]);
    command.stdin(std::fs::File::open(house.write("piped", "from stdin\n")).expect("there"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = finish(command.spawn().expect("it starts")).ok();
    assert_eq!(ran.out, "over it|from stdin|3|[\"x\",\"y\"]\n");
}

#[test]
fn good_examples_pass_the_check() {
    let house = House::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(examples).expect("the examples") {
        let path = entry.expect("readable").path();
        house.bowline(&["check", &path.display().to_string()]).ok();
        count += 1;
    }
    assert!(count >= 5);
}

#[test]
fn a_config_with_errors_refuses_the_start() {
    let house = House::new();
    let config =
        house.write("server.yaml", "listen: 127.0.0.1:0\nrecovery: { heartbeat_timeout_secs: 40 }\nlisten_on: x\n");
    let ran = house.bowline(&["server", "--config", &config.display().to_string()]).code(2);
    assert!(ran.err.contains("heartbeat_timeout_secs") && ran.err.contains("heartbeat_interval_secs"), "{}", ran.err);
    assert!(ran.err.contains("listen_on"), "{}", ran.err);

    let mut house = House::new();
    house.set("BOWLINE_RECOVERY__HEARTBEAT_TIMEOT_SECS", "5");
    let ran = house.bowline(&["up", "--data", "d", "--listen", "127.0.0.1:0"]).code(2);
    assert!(ran.err.contains("BOWLINE_RECOVERY__HEARTBEAT_TIMEOUT_SECS"), "{}", ran.err);
}

#[test]
fn a_task_folder_that_is_not_there_is_told_of() {
    let mut house = House::new();
    let ran = house.bowline(&["up", "--data", "d", "--tasks", "nowhere", "--listen", "127.0.0.1:0"]).code(2);
    assert!(ran.err.contains("there is no task folder nowhere"), "{}", ran.err);
    assert!(!house.path("d").exists(), "nothing was started");
    let server = house.start_server();
    std::fs::remove_dir(house.path("tasks")).expect("removed");
    house.await_file("roles.log", "there is no task folder");
    // Read when it is there; and only then could its absence be told of again.
    house.write("tasks/late.yaml", "name: late\nsteps: { a: { run: 'true' } }\n");
    await_that("it is known", || house.bowline(&["tasks"]).out.contains("late").then_some(()));
    assert!(server.stop().success());
    assert_eq!(house.read("roles.log").matches("there is no task folder").count(), 1);
}

#[test]
fn a_database_that_is_damaged_or_too_new_is_refused() {
    if no_sqlite_here("its file is damaged") {
        return;
    }
    let house = House::new();
    house.write("d/bowline.db", &"this is not a database ".repeat(100));
    let ran = house.bowline(&["up", "--data", "d", "--listen", "127.0.0.1:0"]);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("damaged") && ran.err.contains("bowline.db"), "{}", ran.err);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let (house, _up) = House::up();
    let taken = house.url.trim_start_matches("http://");
    let ran = house.bowline(&["up", "--data", "other", "--listen", taken]);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains(taken), "{}", ran.err);
}
