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

/// Who has the slot, who waits and in which order, for people and for programs.
#[test]
fn groups_are_listed_with_who_holds_and_who_waits() {
    let (house, _up) = House::up();
    let none = house.bowline(&["groups"]).ok();
    assert!(none.err.contains("no jobs with a concurrency group"), "{}", none.err);
    let first = house.submit(&task(&house, "go", "queue"));
    house.await_state(&first, Some("ship"), "running");
    let second = house.submit(&task(&house, "go", "queue"));
    let third = house.submit(&format!("{}priority: 5\n", task(&house, "go", "queue")));
    let listed = house.bowline(&["groups"]).ok();
    let lines: Vec<&str> = listed.out.lines().skip(1).collect();
    let has = |line: &str, words: &[&str]| words.iter().all(|word| line.contains(word));
    assert!(has(lines[0], &["release", "1/1", &first, "running"]), "{}", listed.out);
    assert!(has(lines[1], &[&third, "waits (1)"]) && has(lines[2], &[&second, "waits (2)"]), "{}", listed.out);

    let json = house.bowline(&["groups", "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("it is JSON");
    let group = &json["items"][0];
    assert_eq!((&group["name"], &group["limits"], &group["waiting"]), (&"release".into(), &[1].into(), &2.into()));
    assert_eq!(group["holders"][0]["job"], first.as_str());
    assert!(group["holders"][0]["since"].is_string() && group["holders"][0]["unproven"].is_null(), "{group}");

    house.write("go", "");
    [&first, &second, &third].into_iter().for_each(|job| assert_eq!(house.end(job)["state"], "success"));
    let none = house.bowline(&["groups", "--json"]).ok();
    assert!(none.out.contains("\"items\":[]") || none.out.contains("\"items\": []"), "{}", none.out);
}

/// A step that would wait for a job which waits for the step's own is refused at its place, before there is a job.
#[test]
fn a_task_that_would_wait_for_itself_is_refused() {
    let (house, _up) = House::up();
    let group = "concurrency: { group: db }";
    let below = house.write("below.yaml", &format!("name: below\n{group}\nsteps:\n  a: {{ run: 'true' }}\n"));
    let above = house.write("above.yaml", &format!("name: above\n{group}\nsteps:\n  b: {{ task: below }}\n"));
    let [below, above] = [below, above].map(|path| path.display().to_string());
    house.bowline(&["tasks", "push", &below]).ok();
    let refused = house.bowline(&["run", &above]).code(2);
    assert!(refused.err.contains("step `b` can never end") && refused.err.contains(":4:14"), "{}", refused.err);
    let checked = house.bowline(&["check", &above, &below]).code(2);
    assert!(checked.out.contains("above.yaml:4:14") && checked.out.contains("help"), "{}", checked.out);
}
