//! Kill -9 each party at each stage of an attempt. A pause point holds the attempt at the stage, and the test asserts
//! who stands there and what was executed so far.

use testkit::{House, Pauses, Point, Role, await_that, process};

use crate::story::{self, STEP, brief, check_ran_once, check_whole_log, counting, each, open_gate, step};

/// An attempt that is held at a point.
struct Held {
    house: House,
    server: Role,
    worker: Role,
    pauses: Pauses,
    /// Who stands there.
    stopped: u32,
    id: String,
}

/// `more`: keys of the step.
fn hold_at(point: Point, more: &str) -> Held {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30")]);
    let pauses = house.pause_at(point);
    let server = house.start_server();
    let worker = house.start_worker("w", &[]);
    let id = house.submit(&brief(&house, more));
    let stopped = pauses.reached();
    let held = Held { house, server, worker, pauses, stopped, id };
    held.check_stage(point);
    held
}

impl Held {
    fn check_stage(&self, point: Point) {
        let runner = process::parent(self.stopped) != std::process::id();
        match point {
            Point::Offered => assert_eq!(self.stopped, self.worker.pid(), "the worker stands there"),
            Point::Accepted
            | Point::Granted
            | Point::ReportedNotAcknowledged
            | Point::ArtifactsComing
            | Point::ArtifactsStored
            | Point::Firing
            | Point::Deleting
            | Point::Sweeping => {
                assert_eq!(self.stopped, self.server.pid(), "the server stands there");
            }
            Point::Intent | Point::Exec | Point::EndedNotRecorded | Point::RecordedNotReported => {
                assert!(runner, "a runner stands there");
            }
        }
        let outside = self.house.outside();
        match point {
            Point::Offered | Point::Accepted | Point::Granted | Point::Intent => {
                assert_eq!(outside.executions(), 0, "nothing was executed");
            }
            // It may or may not have come to its first line.
            Point::Exec => {}
            // Nor does any step come by there.
            Point::Firing | Point::Deleting | Point::Sweeping => {}
            Point::EndedNotRecorded
            | Point::RecordedNotReported
            | Point::ReportedNotAcknowledged
            | Point::ArtifactsComing
            | Point::ArtifactsStored => {
                assert_eq!(outside.completed(), 1, "it was executed");
            }
        }
    }

    /// The one runner that there is.
    fn runner(&self) -> u32 {
        await_that("the runner", || runners(&self.house).first().copied())
    }
}

/// Runners have their attempt's folder as current folder; so have steps, one level below.
fn runners(house: &House) -> Vec<u32> {
    let attempts = house.path("w/attempts");
    let entries = std::fs::read_dir("/proc").expect("readable").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let folder = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let is_runner = |pid: &u32| folder(pid).is_some_and(|f| f.parent() == Some(&attempts));
    pids.filter(|pid| is_runner(pid) && process::lives(*pid)).collect()
}

#[test]
fn the_server_is_killed_at_each_stage() {
    each(&Point::ALL, |point| {
        let Held { mut house, server, worker: _worker, pauses, id, .. } = hold_at(point, "effects: writes");
        server.kill();
        pauses.open();
        let _server = house.start_server();
        check_ran_once(&house, &id);
    });
}

#[test]
fn the_worker_is_killed_at_each_stage() {
    each(&Point::ALL, |point| {
        let Held { house, server: _server, worker, pauses, id, .. } = hold_at(point, "effects: writes");
        worker.kill();
        pauses.open();
        let _worker = house.start_worker("w", &[]);
        check_ran_once(&house, &id);
    });
}

#[test]
fn server_and_worker_are_killed_at_once_at_each_stage() {
    each(&Point::ALL, |point| {
        let Held { mut house, server, worker, pauses, id, .. } = hold_at(point, "effects: writes");
        server.kill();
        worker.kill();
        pauses.open();
        let _server = house.start_server();
        let _worker = house.start_worker("w", &[]);
        check_ran_once(&house, &id);
    });
}

/// A runner that had no leave to start proves by its empty folder that nothing ran: the step is handed over again,
/// whatever its effects are. One that had leaves no proof behind, unless its record is written.
#[test]
fn the_runner_is_killed_at_each_stage_of_a_step_that_writes() {
    let stages = [
        Point::Accepted,
        Point::Granted,
        Point::Intent,
        Point::Exec,
        Point::EndedNotRecorded,
        Point::RecordedNotReported,
    ];
    each(&stages, |point| {
        let held = hold_at(point, "effects: writes");
        process::kill(held.runner());
        held.pauses.open();
        let (house, id) = (&held.house, &held.id);
        match point {
            Point::Offered | Point::Accepted | Point::Granted => check_ran_once(house, id),
            Point::RecordedNotReported
            | Point::ReportedNotAcknowledged
            | Point::ArtifactsComing
            | Point::ArtifactsStored => check_ran_once(house, id),
            Point::Intent | Point::Exec | Point::EndedNotRecorded => {
                let job = house.end(id);
                assert_eq!(job["error"]["code"], "runner_lost", "{job:#}");
                assert_eq!(step(house, id)["attempts"].as_array().expect("attempts").len(), 1, "one attempt");
                assert!(house.outside().executions() <= 1, "never twice");
            }
            // No step comes by there.
            Point::Firing | Point::Deleting | Point::Sweeping => {}
        }
    });
}

#[test]
fn the_runner_is_killed_at_each_stage_of_a_step_that_only_reads() {
    let stages = [Point::Intent, Point::Exec, Point::EndedNotRecorded];
    each(&stages, |point| {
        let held = hold_at(point, "effects: none");
        process::kill(held.runner());
        held.pauses.open();
        let job = held.house.end(&held.id);
        assert_eq!(job["state"], "success", "{job:#}");
        let step = step(&held.house, &held.id);
        let attempts = step["attempts"].as_array().expect("attempts");
        assert_eq!(attempts.len(), 2, "{step:#}");
        assert_eq!(attempts[0]["error"]["code"], "runner_lost", "{step:#}");
        // The first one's executions are at most one, the second's exactly one.
        let executions = held.house.outside().executions();
        assert!((1..=2).contains(&executions), "{executions} executions");
        check_whole_log(&held.house, &held.id);
    });
}

/// Nobody is left but the folder: worker and runner die together, as in a power cut without a reboot.
#[test]
fn worker_and_runner_are_killed_at_once() {
    each(&[Point::Granted, Point::Intent, Point::RecordedNotReported], |point| {
        let held = hold_at(point, "effects: writes");
        let runner = held.runner();
        let Held { house, server: _server, worker, pauses, id, .. } = held;
        worker.kill();
        process::kill(runner);
        pauses.open();
        let _worker = house.start_worker("w", &[]);
        if point == Point::Intent {
            let job = house.end(&id);
            assert_eq!(job["error"]["code"], "runner_lost", "{job:#}");
            assert_eq!(house.outside().executions(), 0, "it never came to run");
        } else {
            check_ran_once(&house, &id);
        }
    });
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Party {
    Server,
    Worker,
    ServerAndWorker,
}

#[test]
fn each_party_is_killed_while_the_step_runs() {
    each(&[Party::Server, Party::Worker, Party::ServerAndWorker], |party| {
        let (mut house, server, worker) = House::patient();
        let id = house.submit(&counting(&house, "effects: writes"));
        house.outside().await_executions(1);
        story::await_lines(&house, &id);
        let (mut server, mut worker) = (Some(server), Some(worker));
        if party != Party::Worker {
            server.take().expect("it runs").kill();
        }
        if party != Party::Server {
            worker.take().expect("it runs").kill();
        }
        let _server = server.unwrap_or_else(|| house.start_server());
        let _worker = worker.unwrap_or_else(|| house.start_worker("w", &[]));
        house.await_state(&id, Some(STEP), "running");
        open_gate(&house);
        check_ran_once(&house, &id);
    });
}
