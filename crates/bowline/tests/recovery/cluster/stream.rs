//! A stream of small jobs, for tests in which something breaks under load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::{House, Role, await_that};

/// What a step says of itself, so that each execution of each job is counted.
pub(super) const SAYS: &str = "echo $BOWLINE_JOB_ID >> ";

/// Submits one small job after the other until it is told to stop; returns those that were taken.
fn submit_until(stop: &AtomicBool, house: &House) -> Vec<String> {
    let script = format!("{SAYS}{}", house.path("ran").display());
    let mut taken = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let ran = house.bowline(&["exec", "--detach", "--", "sh", "-c", &script]);
        if ran.code == 0 {
            taken.push(ran.out.trim().to_owned());
        }
    }
    taken
}

/// Submits all the while; returns what was taken. Whatever becomes of the test, it comes to an end.
pub(super) fn under_load(house: &House, test: impl FnOnce()) -> Vec<String> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let submitter = scope.spawn(|| submit_until(&stop, house));
        let stopping = Raising(&stop);
        test();
        drop(stopping);
        submitter.join().expect("no panic")
    })
}

struct Raising<'a>(&'a AtomicBool);

impl Drop for Raising<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All that was taken ended well, and nothing at all ran twice.
pub(super) fn check_each_ran_once(house: &House, taken: &[String]) {
    for id in taken {
        let job = await_that("it can be asked for", || {
            house.bowline(&["job", id, "--json"]).out.starts_with('{').then(|| house.end(id))
        });
        assert_eq!(job["state"], "success", "{job:#}");
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    house.read("ran").lines().for_each(|id| *counts.entry(id.to_owned()).or_default() += 1);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert!(taken.iter().all(|id| counts.contains_key(id)), "a job that was taken did not run");
}

pub(super) fn check_alive(servers: &mut [Role]) {
    for server in servers {
        assert!(server.child.try_wait().expect("waited").is_none(), "a server has ended");
    }
}
