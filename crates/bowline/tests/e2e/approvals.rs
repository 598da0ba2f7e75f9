//! Steps that wait for people: whose yes counts, what survives a kill, and what a no does.

use crate::house::{House, person, step_of};

fn approve(house: &House, id: &str, step: &str, token: &str) -> crate::house::Ran {
    house.bowline(&["approve", id, step, "--comment", "looks good", "--token", token])
}

#[test]
fn approvals_of_different_people_are_counted_and_survive_a_kill_of_the_server() {
    let (mut house, up) = House::up();
    let (ann, ben) = (person(&house, "ann"), person(&house, "ben"));
    let id = house.submit(
        "name: gated\nsteps:\n  gate: { approve: { message: 'Ship it?', reviewers: 2 } }\n  ship: { needs: [gate], run: echo shipped }\n",
    );
    house.await_state(&id, None, "held");
    let why = house.bowline(&["why", &id]).ok().out;
    assert!(why.contains("for 2 approvals (\"Ship it?\")"), "{why}");
    approve(&house, &id, "gate", &ann).ok();
    let again = approve(&house, &id, "gate", &ann);
    assert!(again.code != 0 && again.err.contains("ann has approved it already"), "{}", again.err);
    up.kill();
    let _up = house.start_up(&[]);
    let job = house.await_state(&id, Some("gate"), "held");
    let hold = &step_of(&job, "gate")["hold"];
    assert_eq!((&hold["wanted"], &hold["approvals"][0]["by"]), (&2.into(), &"ann".into()));
    assert_eq!(hold["approvals"][0]["comment"], "looks good");
    approve(&house, &id, "gate", &ben).ok();
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.log(&id, "ship"), "shipped\n");
    let history = house.log(&id, "_server");
    assert!(history.contains("approved by ann: looks good (1 of 2)"), "{history}");
    assert!(history.contains("approved by ben: looks good"), "{history}");
}

#[test]
fn an_environment_wants_a_wait_and_somebody_else_and_no_worker_meanwhile() {
    let mut house = House::new();
    house.set("BOWLINE_ENVIRONMENTS__PRODUCTION", "{ reviewers: 1, wait: 1s, allow_submitter: false }");
    let up = house.start_up(&["--slots", "1"]);
    let task = "name: deploy\nsteps:\n  rollout: { environment: production, run: echo out }\n";
    let id = house.submit(task);
    house.await_state(&id, Some("rollout"), "waiting");
    // The wait is over while nobody looks; and its slot is another's.
    up.kill();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let _up = house.start_up(&["--slots", "1"]);
    house.await_state(&id, Some("rollout"), "held");
    house.bowline(&["exec", "--", "true"]).ok();
    let own = house.bowline(&["approve", &id, "rollout"]).code(2);
    assert!(own.err.contains("admin submitted the job"), "{}", own.err);
    approve(&house, &id, "rollout", &person(&house, "ben")).ok();
    assert_eq!(house.end(&id)["state"], "success");
    let wrong = house.write("wrong.yaml", &task.replace("production", "producton"));
    let refused = house.bowline(&["run", &wrong.display().to_string()]).code(2);
    assert!(refused.err.contains("did you mean `production`?"), "{}", refused.err);
}

#[test]
fn a_no_cancels_the_step_with_its_reason() {
    let (house, _up) = House::up();
    let id = house.submit("name: gated\nsteps:\n  gate: { approve: {} }\n  ship: { needs: [gate], run: 'true' }\n");
    house.await_state(&id, Some("gate"), "held");
    house.bowline(&["reject", &id, "gate", "--reason", "not on a Friday"]).ok();
    let job = house.end(&id);
    assert_eq!(job["state"], "cancelled");
    assert_eq!(step_of(&job, "gate")["error"]["code"], "rejected");
    assert_eq!(job["error"]["message"], "Rejected by admin: not on a Friday");
    assert_eq!(step_of(&job, "ship")["state"], "skipped");
    let late = house.bowline(&["approve", &id, "gate"]);
    assert!(late.code != 0 && late.err.contains("the job is already over"), "{}", late.err);
}
