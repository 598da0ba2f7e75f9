//! Files that steps leave, while those who carry them are killed.

use testkit::{House, Point, step_of};

use crate::story::each;

/// Enough for several pieces on their way.
const TASK: &str = "name: t
steps:
  make:
    run: 'head -c 3000000 /dev/urandom > f; sha256sum f | cut -d\" \" -f1 > sum'
    artifacts: [ f, sum ]
  use:
    needs: [make]
    fetch: [make]
    run: 'test \"$(sha256sum f | cut -d\" \" -f1)\" = \"$(cat sum)\" && echo same'
";

fn check(house: &House, id: &str) {
    let job = house.end(id);
    assert_eq!(job["state"], "success", "{job:#}");
    assert_eq!(house.log(id, "use"), "same\n");
    for step in ["make", "use"] {
        assert_eq!(step_of(&job, step)["attempts"].as_array().map(Vec::len), Some(1), "nothing ran twice: {job:#}");
    }
}

/// Before the last byte, and after it with nobody told.
#[test]
fn a_server_that_is_killed_while_files_come_goes_on_from_there() {
    each(&[Point::ArtifactsComing, Point::ArtifactsStored], |point| {
        let mut house = House::new();
        let pauses = house.pause_at(point);
        let server = house.start_server();
        let _worker = house.start_worker("w", &[]);
        let id = house.submit(TASK);
        assert_eq!(pauses.reached(), server.pid(), "the server stands there");
        server.kill();
        pauses.open();
        let _server = house.start_server();
        check(&house, &id);
    });
}

#[test]
fn a_worker_that_is_killed_while_files_go_is_followed_by_one_that_goes_on() {
    each(&[Point::ArtifactsComing, Point::ArtifactsStored], |point| {
        let mut house = House::new();
        let pauses = house.pause_at(point);
        let _server = house.start_server();
        let worker = house.start_worker("w", &[]);
        let id = house.submit(TASK);
        pauses.reached();
        worker.kill();
        pauses.open();
        let _worker = house.start_worker("w", &[]);
        check(&house, &id);
    });
}
