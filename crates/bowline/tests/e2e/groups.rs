//! Concurrency groups as a user meets them.

use crate::house::House;

/// One of them at a time; it ends when a file is there.
fn task(house: &House, file: &str, when_full: &str) -> String {
    let path = house.path(file);
    format!(
        "name: release\nconcurrency: {{ when_full: {when_full} }}\nsteps:\n  ship: {{ run: 'until test -e {}; do sleep 0.05; done' }}\n",
        path.display()
    )
}

#[test]
fn one_waits_for_the_other_and_says_so() {
    let (house, _up) = House::up();
    let first = house.submit(&task(&house, "first", "queue"));
    house.await_state(&first, Some("ship"), "running");
    let second = house.submit(&task(&house, "second", "queue"));
    let waiting = house.job(&second);
    assert_eq!((&waiting["state"], &waiting["concurrency"]["in_line"]), (&"pending".into(), &true.into()));
    let why = house.bowline(&["why", &second]).ok();
    assert!(why.out.contains("waits for concurrency group `release`") && why.out.contains(&first), "{}", why.out);
    let listed = house.bowline(&["jobs"]).ok();
    assert!(listed.out.contains("waits for group release"), "{}", listed.out);
    let shown = house.bowline(&["job", &second]).ok();
    assert!(shown.out.contains("release (limit 1), waits for room"), "{}", shown.out);

    house.write("first", "");
    assert_eq!(house.end(&first)["state"], "success");
    house.await_state(&second, Some("ship"), "running");
    house.write("second", "");
    assert_eq!(house.end(&second)["state"], "success");
}

#[test]
fn one_that_does_not_wait_is_refused_with_its_own_exit_code() {
    let (house, _up) = House::up();
    let text = task(&house, "first", "reject");
    let first = house.submit(&text);
    let file = house.write("release.yaml", &text);
    let refused = house.bowline(&["run", &file.display().to_string()]).code(2);
    assert!(
        refused.err.contains("concurrency group `release` is full") && refused.err.contains(&first),
        "{}",
        refused.err
    );
    house.write("first", "");
    assert_eq!(house.end(&first)["state"], "success");
    assert_eq!(house.job("last")["id"], first.as_str(), "nothing was stored");
}

/// The server and its worker die; who waits is in the rows.
#[test]
fn a_killed_server_forgets_nobody_in_line() {
    let mut house = House::new();
    let up = house.start_up(&[]);
    let first = house.submit(&task(&house, "first", "queue"));
    house.await_state(&first, Some("ship"), "running");
    let second = house.submit(&task(&house, "second", "queue"));
    up.kill();
    let _up = house.start_up(&[]);
    assert_eq!(house.job(&second)["state"], "pending");
    house.write("second", "");
    house.write("first", "");
    assert_eq!(house.end(&first)["state"], "success");
    assert_eq!(house.end(&second)["state"], "success");
}
