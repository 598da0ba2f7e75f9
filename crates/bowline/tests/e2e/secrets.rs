//! Secrets of steps, as a user meets them: set without an argument, seen by the step alone, and found nowhere else.

use std::fs;
use std::path::Path;

use testkit::on_postgres;

use crate::house::{House, await_that, set_secret as set};

const VALUE: &str = "hunter2-and-more";

/// The value itself must not stand in the file, so it is put together.
const JOB: &str = "name: t
steps:
  a:
    secrets: [DEPLOY_KEY]
    run: |
      test \"$DEPLOY_KEY\" = \"hunter2-\"\"and-more\"
      echo \"it is $DEPLOY_KEY\"
      echo \"key=$DEPLOY_KEY\" >> \"$BOWLINE_OUTPUT\"
      touch \"$HOUSE/started\"
      while ! test -e \"$HOUSE/go\"; do sleep 0.05; done
      printf hunter2-; sleep 0.2; echo and-more
  b:
    needs: [a]
    run: echo \"${DEPLOY_KEY:-nothing} and {{ steps.a.output.key }}\"
";

fn job(house: &House) -> String {
    let place = house.path("").display().to_string();
    JOB.replace("$HOUSE", place.trim_end_matches('/'))
}

/// Files below `folder` that hold `text`.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_dir() {
            found.extend(holding(&path, text));
        } else if metadata.is_file()
            && fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// What of the house holds it: files, and tables where the database is no file of the house.
fn places(house: &House, text: &str) -> Vec<String> {
    let tables = house.database.iter().flat_map(|database| database.tables_holding(text));
    holding(&house.path(""), text).into_iter().chain(tables).collect()
}

/// Processes that show it to everybody.
fn in_arguments(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let arguments = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let shown = arguments.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    shown.filter(|line| line.contains(text)).collect()
}

#[test]
fn a_step_has_its_secret_and_nothing_else_does() {
    let (mut house, up) = House::up();
    let told = set(&house, "DEPLOY_KEY", &format!("{VALUE}\n")).ok();
    assert_eq!((told.out.as_str(), told.err.trim()), ("", "secret DEPLOY_KEY is set"));
    let id = house.submit(&job(&house));
    await_that("it runs", || house.path("started").exists().then_some(()));
    let own = places(&house, VALUE);
    assert!(own.iter().all(|file| file.ends_with("/output")), "only what the step wrote itself: {own:?}");
    assert_eq!(in_arguments(VALUE), [] as [String; 0]);
    // Whoever looks after it next changes nothing about that.
    up.kill();
    let _up = house.start_up(&[]);
    house.write("go", "");
    let ended = house.end(&id);
    assert_eq!(ended["state"], "success", "{ended:#}");
    let log = house.log(&id, "a");
    // Whether the worker was away while something was printed is as chance has it.
    let printed: Vec<&str> = log.lines().filter(|line| !line.starts_with("--- ")).collect();
    assert_eq!(printed, ["it is ***", "***"]);
    assert_eq!(house.log(&id, "b"), "nothing and ***\n");
    assert_eq!(places(&house, VALUE), [] as [String; 0], "nothing is left of it");
    // What is no secret is seen where it lies, so the secret would be.
    let plain = "a-text-that-anybody-may-read";
    let id = house.submit(&format!("name: plain\nsteps:\n  a: {{ run: 'echo {plain}' }}\n"));
    assert_eq!(house.end(&id)["state"], "success");
    let seen = places(&house, plain);
    assert!(if on_postgres() { in_tables(&seen) } else { in_files(&seen) }, "{seen:?}");
}

/// In a definition, and in a log.
fn in_tables(places: &[String]) -> bool {
    ["definitions", "log"].iter().all(|name| places.iter().any(|place| place.starts_with(name)))
}

fn in_files(places: &[String]) -> bool {
    places.iter().any(|place| place.contains("/data/"))
}

#[test]
fn names_are_listed_and_values_are_not() {
    let (house, _up) = House::up();
    set(&house, "B_KEY", VALUE).ok();
    set(&house, "A_KEY", VALUE).ok();
    let listed = house.bowline(&["secret", "list", "--json"]).ok().json();
    let names: Vec<&str> =
        listed["items"].as_array().expect("items").iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["A_KEY", "B_KEY"]);
    let table = house.bowline(&["secret", "list"]).ok().out;
    assert!(table.contains("A_KEY") && table.contains("store") && !table.contains(VALUE), "{table}");
    house.bowline(&["secret", "remove", "A_KEY"]).ok();
    house.bowline(&["secret", "remove", "A_KEY"]).code(2);
    let short = set(&house, "C_KEY", "abc\n").code(2);
    assert!(short.err.contains("shorter than 4 bytes"), "{}", short.err);
    assert!(short.err.contains("use 4 bytes or more"), "{}", short.err);
    let empty = set(&house, "C_KEY", "\n").code(2);
    assert!(empty.err.contains("the value is empty"), "{}", empty.err);
    // A value is no argument.
    house.bowline(&["secret", "set", "C_KEY", VALUE]).code(2);
}

/// As much as a step may have, and all of it in lines, which are longer on their way.
#[test]
fn large_ones_get_there_too() {
    let (house, _up) = House::up();
    let lines = "a line of it\\ \"\n".repeat(2_000);
    set(&house, "ONE", &lines[..32_000]).ok();
    set(&house, "TWO", &lines[..32_000]).ok();
    let id = house.submit(
        "name: t\nsteps:\n  a:\n    secrets: [ONE, TWO]\n    run: echo \"${#ONE} ${#TWO}\"; echo \"$ONE\" | tail -n 1\n",
    );
    let ended = house.end(&id);
    assert_eq!(ended["state"], "success", "{ended:#}");
    assert!(house.log(&id, "a").ends_with("***\n"), "{}", house.log(&id, "a"));
}

#[test]
fn a_job_without_its_secret_is_refused_and_a_late_loss_fails_the_step() {
    let mut house = House::new();
    house.set("BOWLINE_SECRET_FROM_VARIABLE", VALUE);
    let up = house.start_up(&[]);
    let task = "name: t\nsteps:\n  a: { run: 'true' }\n  b: { run: 'echo \"$FROM_VARIABLE\"', needs: [a], secrets: [FROM_VARIABLE] }\n";
    let id = house.submit(task);
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.log(&id, "b"), "***\n");
    // It is gone when the step's time has come.
    let held = task.replace("run: 'true'", "approve: {}");
    let id = house.submit(&held);
    house.await_state(&id, Some("a"), "held");
    drop(up);
    house.unset("BOWLINE_SECRET_FROM_VARIABLE");
    let _up = house.start_up(&[]);
    house.bowline(&["approve", &id, "a"]).ok();
    let ended = house.end(&id);
    assert_eq!((&ended["state"], &ended["error"]["code"]), (&"failed".into(), &"secret".into()));
    let path = house.write("again.yaml", task);
    let refused = house.bowline(&["run", &path.display().to_string()]).code(2);
    assert!(refused.err.contains("the secret `FROM_VARIABLE` is not set on the server"), "{}", refused.err);
    assert!(refused.err.contains("bowline secret set FROM_VARIABLE"), "{}", refused.err);
}
