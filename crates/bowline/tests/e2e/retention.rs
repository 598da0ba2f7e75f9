//! What is old goes: asked of a server that runs, and by hand where none does. And jobs that are run again with other inputs.

use crate::house::{House, await_that, no_sqlite_here};

const TASK: &str = "name: w\ninput: { who: { default: you }, days: { type: integer, default: 1 } }\nsteps: { s: { run: 'echo hello $BOWLINE_INPUT_WHO' } }\n";

fn jobs(house: &House) -> usize {
    house.bowline(&["jobs", "--json"]).ok().json()["items"].as_array().expect("a list").len()
}

/// Logs are whole a moment after their jobs have ended, and only then may these go.
fn would_go(house: &House, jobs: u64) -> serde_json::Value {
    await_that("they may go", || {
        let would = house.bowline(&["db", "prune", "--dry-run", "--older-than", "0s", "--json"]).ok().json();
        (would["tally"]["jobs"] == jobs).then_some(would)
    })
}

#[test]
fn a_running_server_is_asked_and_says_what_went() {
    let (house, _up) = House::up();
    let file = house.write("w.yaml", TASK).display().to_string();
    house.bowline(&["run", &file]).ok();
    house.bowline(&["run", &file]).ok();
    let kept = house.bowline(&["db", "prune", "--dry-run"]).ok();
    assert!(kept.out.starts_with("would delete 0 jobs"), "{}", kept.out);
    let would = would_go(&house, 2);
    assert_eq!((&would["dry_run"], &would["tally"]["log_lines"]), (&true.into(), &2.into()));
    assert_eq!(jobs(&house), 2, "nothing went");
    // A worker that has just heard that it may forget says so with its next heartbeat; until then it is under way.
    let mut went = 0;
    await_that("both are gone", || {
        let pruned = house.bowline(&["db", "prune", "--older-than", "0s", "--json"]).ok().json();
        went += pruned["tally"]["jobs"].as_u64().expect("a count");
        (went == 2).then_some(())
    });
    assert_eq!(jobs(&house), 0);
    house.bowline(&["run", &file]).ok();
    house.bowline(&["db", "prune", "--compact"]).code(2);
}

#[test]
fn the_database_of_a_stopped_server_is_pruned_and_compacted_by_hand() {
    if no_sqlite_here("its file is opened where no server has it") {
        return;
    }
    let (house, up) = House::up();
    let file = house.write("w.yaml", TASK).display().to_string();
    let id = house.bowline(&["run", "--detach", &file]).ok().out.trim().to_owned();
    house.end(&id);
    let data = house.path("data").display().to_string();
    let asked = house.bowline(&["db", "prune", "--dry-run", "--data", &data]).code(2);
    assert!(asked.err.contains("a server runs on this database"), "{}", asked.err);
    would_go(&house, 1);
    up.stop();
    let would = house.bowline(&["db", "prune", "--dry-run", "--older-than", "0s", "--data", &data]).ok();
    assert!(would.out.starts_with("would delete 1 job with 1 attempt, 1 log line ("), "{}", would.out);
    let went = house.bowline(&["db", "prune", "--older-than", "0s", "--compact", "--data", &data]).ok();
    assert!(went.out.starts_with("deleted 1 job with 1 attempt, 1 log line ("), "{}", went.out);
    let again = house.bowline(&["db", "prune", "--older-than", "0s", "--data", &data]).ok();
    assert!(again.out.starts_with("deleted 0 jobs"), "{}", again.out);
    house.bowline(&["db", "prune", "--data", "/no/such/folder"]).code(2);
}

#[test]
fn a_postgresql_is_pruned_by_hand_where_no_server_runs_and_by_one_that_does() {
    let mut house = House::shared();
    let database = |house: &House| house.database.as_ref().expect("a database").url();
    let (url, file) = (database(&house), house.write("w.yaml", TASK).display().to_string());
    let prune = |house: &House, more: &[&str]| {
        house.bowline(&[&["db", "prune", "--older-than", "0s", "--database", &url], more].concat())
    };
    let count = |house: &House| house.database.as_ref().expect("a database").psql("SELECT count(*) FROM jobs");
    let empty = prune(&house, &[]).code(2).err;
    assert!(empty.contains("it is empty"), "{empty}");
    let up = house.start_up(&[]);
    house.bowline(&["run", &file]).ok();
    would_go(&house, 1);
    let asked = prune(&house, &["--dry-run"]).code(2);
    assert!(asked.err.contains("a server runs on this database"), "{}", asked.err);
    up.stop();
    let would = prune(&house, &["--dry-run"]).ok();
    assert!(would.out.starts_with("would delete 1 job with 1 attempt, 1 log line ("), "{} {}", would.out, would.err);
    assert_eq!(count(&house), "1", "nothing went");
    let room = prune(&house, &["--compact"]).code(2).err;
    assert!(room.contains("VACUUM"), "{room}");
    let went = prune(&house, &[]).ok();
    assert!(went.out.starts_with("deleted 1 job with 1 attempt, 1 log line ("), "{} {}", went.out, went.err);
    assert_eq!(count(&house), "0");

    // One that was killed does not stand in the way for long, and one that is started does what it always did.
    let up = house.start_up(&[]);
    house.bowline(&["run", &file]).ok();
    would_go(&house, 1);
    up.kill();
    let went = prune(&house, &[]).ok();
    assert!(went.out.starts_with("deleted 1 job "), "{} {}", went.out, went.err);
    let _up = house.start_up(&[]);
    house.bowline(&["run", &file]).ok();
    would_go(&house, 1);
    house.bowline(&["db", "prune", "--older-than", "0s"]).ok();
}

#[test]
fn a_job_is_run_again_with_other_inputs() {
    let (house, _up) = House::up();
    let file = house.write("w.yaml", TASK).display().to_string();
    let first = house.bowline(&["run", "--detach", &file, "-i", "days=3"]).ok().out.trim().to_owned();
    house.end(&first);
    let again = house.bowline(&["retry", &first, "-i", "who=ann"]).ok().out.trim().to_owned();
    let job = house.end(&again);
    assert_eq!(job["input"], serde_json::json!({ "days": 3, "who": "ann" }), "the others stay");
    assert_eq!((&job["continues"], &job["continues_how"]), (&first.as_str().into(), &"retry_changed".into()));
    assert_eq!(house.log(&again, "s"), "hello ann\n");
    let shown = house.bowline(&["job", &again]).ok().out;
    assert!(shown.contains(&format!("continues job {first} (retry with other inputs)")), "{shown}");
    let shown = house.bowline(&["job", &first]).ok().out;
    assert!(shown.contains(&format!("continued by job {again}")), "{shown}");
    let listed = house.bowline(&["jobs"]).ok().out;
    assert!(listed.contains(&format!("continues {first} (retry with other inputs)")), "{listed}");
    assert!(listed.contains(&format!("continued by {again}")), "{listed}");
    for bad in ["days=many", "nobody=x"] {
        let refused = house.bowline(&["retry", &first, "-i", bad]).code(2);
        assert!(refused.err.contains(bad.split('=').next().expect("a name")), "{}", refused.err);
    }
    house.bowline(&["retry", &first, "--from-failed", "-i", "who=x"]).code(2);
}
