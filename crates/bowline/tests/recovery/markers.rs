//! What a log says about an outage. The counts are computed here, from what the step printed and what was stored when
//! the link was lost.

use testkit::{House, await_that};

use crate::story::{STEP, await_lines, markers, task};

/// Prints 1 to 100, and after `second` is there 101 to 338, then waits for the gate.
fn in_two_goes(house: &House) -> String {
    let (second, gate) = (house.path("second").display().to_string(), house.path("gate").display().to_string());
    let script = format!(
        "seq 1 100\n      until [ -e {second} ]; do sleep 0.02; done\n      seq 101 338\n      {}\n      until [ -e {gate} ]; do sleep 0.02; done\n      echo end",
        house.outside().end()
    );
    task(&script, "effects: writes")
}

fn await_stored(house: &House, id: &str, last: &str) {
    await_that(&format!("line {last} is stored"), || {
        house.log(id, STEP).lines().any(|line| line == last).then_some(())
    });
}

/// `--- WHO offline for 3s. Replaying 0 buffered events and 238 buffered log lines. ---`
fn check_marker(marker: &str, who: &str, events: u32, lines: u32) {
    let rest = marker.strip_prefix(&format!("--- {who} offline for ")).unwrap_or_else(|| panic!("{marker}"));
    let (time, rest) = rest.split_once(". ").unwrap_or_else(|| panic!("{marker}"));
    assert!(time.ends_with('s'), "{marker}");
    assert_eq!(rest, format!("Replaying {events} buffered events and {lines} buffered log lines. ---"));
}

#[test]
fn an_outage_of_the_server_is_marked_once_in_its_place_with_true_counts() {
    let (mut house, server, _worker) = House::patient();
    let id = house.submit(&in_two_goes(&house));
    await_lines(&house, &id);
    await_stored(&house, &id, "100");
    server.kill();
    house.write("second", "");
    await_that("all was printed", || (house.outside().completed() == 1).then_some(()));
    let _server = house.start_server();
    await_stored(&house, &id, "338");
    house.write("gate", "");
    assert_eq!(house.end(&id)["state"], "success");
    let log = house.log(&id, STEP);
    let marks = markers(&house, &id);
    assert_eq!(marks.len(), 1, "one marker for one outage:\n{log}");
    check_marker(&marks[0], "Orchestrator", 0, 238);
    let at = log.lines().position(|line| line == marks[0]).expect("there");
    assert_eq!(at, 100, "after the last line that was stored");
}

#[test]
fn an_outage_of_the_worker_is_marked_as_its_own() {
    let (house, _server, worker) = House::patient();
    let id = house.submit(&in_two_goes(&house));
    await_lines(&house, &id);
    await_stored(&house, &id, "100");
    worker.kill();
    house.write("second", "");
    await_that("all was printed", || (house.outside().completed() == 1).then_some(()));
    let _worker = house.start_worker("w", &[]);
    await_stored(&house, &id, "338");
    house.write("gate", "");
    assert_eq!(house.end(&id)["state"], "success");
    let marks = markers(&house, &id);
    assert_eq!(marks.len(), 1, "{marks:?}");
    check_marker(&marks[0], "Worker", 0, 238);
}

#[test]
fn an_outage_in_which_nothing_was_printed_leaves_no_marker() {
    let (mut house, server, _worker) = House::patient();
    let id = house.submit(&in_two_goes(&house));
    await_lines(&house, &id);
    await_stored(&house, &id, "100");
    server.kill();
    let _server = house.start_server();
    house.await_links(2);
    house.write("second", "");
    house.write("gate", "");
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(markers(&house, &id), Vec::<String>::new());
}
