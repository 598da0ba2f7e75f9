//! Ends that a task asks for and that no other test here has: of a time that is over, of a newer job, of a signal that counts.

use serde_json::Value;

use crate::house::{House, await_that, states, step_of};

/// Nobody has this tag.
const UNWANTED: &str = "tags: [nowhere], unmatched: wait";

fn code(value: &Value) -> &str {
    value["error"]["code"].as_str().unwrap_or_default()
}

#[test]
fn each_ends_as_its_task_says() {
    let mut house = House::new();
    house.set("BOWLINE_NOTICES__QUEUE", "300ms");
    let _up = house.start_up(&["--slots", "8"]);
    let ends = [
        newest_only(&house),
        cancelled_and_told(&house),
        expires(&house),
        hold_expires(&house),
        signal_that_counts(&house),
        signal_that_does_not(&house),
        waits_for_long(&house),
    ];
    // All of them are under way by now.
    ends.into_iter().for_each(|end| end(&house));
}

type End = Box<dyn FnOnce(&House)>;

/// Of several jobs with `cancel_oldest` only the last is left.
fn newest_only(house: &House) -> End {
    let task = |run: &str| {
        format!("name: newest\nconcurrency: {{ when_full: cancel_oldest }}\nsteps:\n  a: {{ run: '{run}' }}\n")
    };
    let oldest = house.submit(&task("sleep 300"));
    house.await_state(&oldest, Some("a"), "running");
    let newest = house.submit(&task("echo here"));
    Box::new(move |house| {
        assert_eq!(house.end(&oldest)["state"], "cancelled");
        assert_eq!(house.end(&newest)["state"], "success");
        assert_eq!(house.log(&newest, "a"), "here\n");
        let (ended, began) = (house.job(&oldest)["ended_at"].clone(), house.job(&newest)["started_at"].clone());
        assert!(ended.as_str() <= began.as_str(), "never both at once: {ended} {began}");
    })
}

fn cancelled_and_told(house: &House) -> End {
    let id = house.submit(
        "name: told\nsteps:\n  a: { run: sleep 300 }\n  b: { needs: [a], if: cancelled(), run: echo told }\n  c: { needs: [a], if: failure(), run: echo no }\n",
    );
    house.await_state(&id, Some("a"), "running");
    house.bowline(&["cancel", &id]).ok();
    Box::new(move |house| {
        assert_eq!(states(&house.end(&id)), "a cancelled, b success, c cancelled");
        assert_eq!(house.log(&id, "b"), "told\n");
    })
}

fn expires(house: &House) -> End {
    let id = house.submit(&format!("name: late\nexpires: 400ms\nsteps:\n  a: {{ run: 'true', {UNWANTED} }}\n"));
    Box::new(move |house| {
        let job = house.end(&id);
        assert_eq!((job["state"].as_str(), code(&job)), (Some("failed"), "expired"), "{job:#}");
    })
}

fn hold_expires(house: &House) -> End {
    let id =
        house.submit("name: gated\nsteps:\n  a: { approve: { expires: 400ms } }\n  b: { needs: [a], run: 'true' }\n");
    Box::new(move |house| {
        let job = house.end(&id);
        assert_eq!((job["state"].as_str(), code(step_of(&job, "a"))), (Some("cancelled"), "hold_expired"), "{job:#}");
        assert_eq!(states(&job), "a cancelled, b skipped");
    })
}

fn signalled(house: &House, on: &str) -> String {
    house.submit(&format!(
        "name: signalled\nsteps:\n  a: {{ run: 'kill -USR1 $$', retry: {{ attempts: 2, on: ['{on}'] }} }}\n"
    ))
}

fn attempts(house: &House, id: &str) -> usize {
    let job = house.end(id);
    assert_eq!((job["state"].as_str(), code(&job)), (Some("failed"), "signal"), "{job:#}");
    step_of(&job, "a")["attempts"].as_array().expect("a list").len()
}

fn signal_that_counts(house: &House) -> End {
    let id = signalled(house, "signal:10");
    Box::new(move |house| {
        assert_eq!(attempts(house, &id), 2);
        let shown = house.bowline(&["job", &id]).ok().out;
        assert!(shown.contains("attempt 1 of a: signal 10 on "), "{shown}");
    })
}

fn signal_that_does_not(house: &House) -> End {
    let id = signalled(house, "signal:KILL");
    Box::new(move |house| assert_eq!(attempts(house, &id), 1))
}

/// A queue that is older than the server's limit.
fn waits_for_long(house: &House) -> End {
    let id = house.submit(&format!("name: queued\nsteps:\n  a: {{ run: 'true', {UNWANTED} }}\n"));
    Box::new(move |house| {
        let notice = await_that("it is noticed", || {
            house.job(&id)["notices"].as_array().and_then(|notices| notices.first()).cloned()
        });
        assert_eq!((&notice["kind"], &notice["step"]), (&"queue_old".into(), &"a".into()), "{notice}");
        let told = house.log(&id, "_server");
        assert!(told.contains("step a: notice: "), "{told}");
        house.bowline(&["cancel", &id]).ok();
    })
}

/// What is said of a loss is said of the worker that was lost, also when another one has done the step since.
#[test]
fn a_loss_is_told_of_the_worker_that_was_lost() {
    let (house, _server, lost) = House::hasty();
    let go = house.path("go").display().to_string();
    let id = house.submit(&format!(
        "name: t\nsteps:\n  a: {{ run: 'until test -e {go}; do sleep 0.05; done', effects: none }}\n"
    ));
    house.await_state(&id, Some("a"), "running");
    let _other = house.start_worker("other", &[]);
    lost.kill();
    await_that("the other one has it", || {
        let job = house.job(&id);
        (step_of(&job, "a")["attempts"].as_array().map(Vec::len) == Some(2)).then_some(())
    });
    let why = house.bowline(&["why", &id]).ok().out;
    assert!(why.contains("running on worker other"), "{why}");
    house.write("go", "");
    let job = house.end(&id);
    assert_eq!(job["state"], "success");
    let [first, second] = [0, 1].map(|number| step_of(&job, "a")["attempts"][number].clone());
    assert_eq!((&first["worker"], &second["worker"]), (&"w".into(), &"other".into()));
    let message = first["error"]["message"].as_str().expect("it says why");
    assert!(message.contains("worker w on ") && !message.contains("other"), "{message}");
    assert_eq!(second["error"], Value::Null);
    let shown = house.bowline(&["job", &id]).ok().out;
    assert!(shown.contains("attempt 1 of a: lost (worker_lost") && shown.contains(") on w, took "), "{shown}");
}
