//! Everything is asked at one server, and done by a worker that has its link with another.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use testkit::{Role, await_that, process};

use super::town::Town;
use crate::story::{STEP, await_lines, check_ran_once, counting, open_gate};

/// Servers `a`, which is asked, and `b`, which alone the worker `w` knows.
fn two() -> (Town, [Role; 3]) {
    let mut town = Town::patient();
    let (a, b) = (town.start("a"), town.start("b"));
    let worker = town.worker("w", &["b"]);
    town.house.await_links(1);
    (town, [a, b, worker])
}

#[test]
fn a_step_is_submitted_followed_and_cancelled_at_a_server_that_its_worker_does_not_know() {
    let (town, _roles) = two();
    let house = &town.house;
    let id = house.submit(&counting(house, "effects: writes\ncancel: { grace: 10s }"));
    let child = house.outside().await_executions(1)[0];
    await_lines(house, &id);
    let mut follow = house.command(&["logs", &id, STEP, "-f"]);
    let mut follower = follow.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let new = house.log(&id, STEP).lines().count() + 20;
    let heard: Vec<String> = lines.take(new).map(|line| line.expect("a line")).collect();
    assert!(heard.iter().enumerate().all(|(index, line)| *line == (index + 1).to_string()), "{heard:?}");
    process::kill(follower.id());
    follower.wait().expect("reaped");
    let why = house.bowline(&["why", &id]).ok().out;
    assert!(why.contains("running") && why.contains('w'), "{why}");
    house.bowline(&["cancel", &id]).ok();
    await_that("the step is stopped", || (!process::lives(child)).then_some(()));
    assert_eq!(house.end(&id)["state"], "cancelled");
    assert_eq!(town.times_recovering(&id), "0");
}

#[test]
fn an_approval_at_one_server_starts_the_step_on_the_worker_of_another() {
    let (town, _roles) = two();
    let house = &town.house;
    let begin = house.outside().begin();
    let id = house.submit(&format!(
        "name: gated\nsteps:\n  gate: {{ approve: {{ message: 'Ship it?' }} }}\n  ship:\n    needs: [gate]\n    run: |\n      {begin}\n      echo shipped\n"
    ));
    house.await_state(&id, Some("gate"), "held");
    house.bowline(&["approve", &id, "gate"]).ok();
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!((house.outside().executions(), house.log(&id, "ship")), (1, "shipped\n".to_owned()));
}

#[test]
fn a_drain_at_one_server_is_heard_by_the_worker_of_another() {
    let (town, _roles) = two();
    let house = &town.house;
    let first = house.submit(&counting(house, "effects: writes"));
    house.outside().await_executions(1);
    house.bowline(&["worker-drain", "w"]).ok();
    town.await_marks();
    let next = house.submit("name: next\nsteps:\n  a: { run: 'true', unmatched: wait }\n");
    let why = await_that("somebody says why it waits", || {
        let why = house.bowline(&["why", &next]).ok().out;
        why.contains("drain").then_some(why)
    });
    assert!(!why.contains("running"), "{why}");
    open_gate(house);
    check_ran_once(house, &first);
    let waiting = house.job(&next);
    assert_eq!(waiting["steps"][0]["state"], "queued", "{waiting:#}");
    let worker = town.worker("v", &["b"]);
    assert_eq!(house.end(&next)["state"], "success");
    drop(worker);
}

/// What is pushed is a row: every server has it soon, with what starts it.
#[test]
fn a_task_that_was_pushed_at_one_server_is_known_to_the_others_with_its_triggers() {
    let (mut town, _roles) = two();
    let push = |town: &Town, word: &str| {
        let text = format!(
            "name: greet\nsteps: {{ a: {{ run: echo {word} }} }}\ntriggers:\n  - {{ webhook: greet, secret: GREET }}\n  - {{ cron: '0 0 1 1 *' }}\n"
        );
        let file = town.house.write("greet.yaml", &text).display().to_string();
        town.house.bowline(&["tasks", "push", &file]).ok();
    };
    let await_word = |town: &Town, word: &str| {
        await_that(&format!("it says {word}"), || {
            let id = town.house.bowline(&["run", "--detach", "greet"]);
            let id = (id.code == 0).then(|| id.out.trim().to_owned())?;
            town.house.end(&id);
            (town.house.log(&id, "a") == format!("{word}\n")).then_some(())
        });
    };
    push(&town, "hello");
    town.ask("b");
    await_word(&town, "hello");
    let triggers = town.house.bowline(&["triggers", "--json"]).ok().json();
    let next =
        |kind: &str| triggers["items"].as_array().expect("a list").iter().find(|one| one["kind"] == kind).cloned();
    assert!(next("cron").is_some_and(|cron| cron["next"].get(0).is_some()), "{triggers:#}");
    for name in ["a", "b"] {
        assert_ne!(
            town.post(name, "/hooks/nobody"),
            town.post(name, "/hooks/greet"),
            "it is there, and wants a signature"
        );
    }
    push(&town, "goodbye");
    town.ask("a");
    await_word(&town, "goodbye");
}
