//! Silence that is judged wrongly, states that last too long, and steps that run on.

use engine::Heard;
use store::Mark;
use store::rows::{HearingRow, ServerId, WorkerHello};

use super::*;

pub(super) const WORKER: WorkerId = WorkerId(Uuid::nil());

impl Scene {
    /// Somebody listens for so long, and the step's row stays what it is.
    fn listen(&mut self, time: Duration, more: impl Fn(&mut Batch)) -> &mut Scene {
        for _ in 0..time.as_secs() / 2 {
            let state = self.after(2 * SECOND).step;
            self.turn(state, &more);
        }
        self
    }

    /// The same, by a server that makes marks.
    fn take_turns(&mut self, time: Duration) -> &mut Scene {
        for _ in 0..time.as_secs() / 2 {
            self.after(2 * SECOND).checks.turn_begins(0);
            self.turn("recovering", marked);
        }
        self
    }

    /// The window's verdict on attempt 1.
    fn judge(&mut self) -> &mut Scene {
        self.turn("failed", |batch| {
            let message = "Job failed: agent disconnected and did not reconnect within the recovery window";
            let row = AttemptRow { error_code: Some("worker_lost"), ..over_row(1, "lost") };
            batch.attempts.push(AttemptRow { error_message: Some(message.to_owned()), ..row });
        })
    }

    /// Listens to a worker that is there.
    fn hear(&mut self, time: Duration) -> &mut Scene {
        let at = self.time();
        self.listen(time, move |batch| batch.seen.push((WORKER, at)))
    }

    /// The worker is heard for so long, and nothing happens to the step.
    fn speak(&mut self, time: Duration) -> &mut Scene {
        for _ in 0..time.as_secs() / 2 {
            let mut batch = Batch { now: self.time(), ..Batch::default() };
            batch.seen.push((WORKER, self.time()));
            self.after(2 * SECOND).commit(&batch);
        }
        self
    }
}

fn cut_off(batch: &mut Batch) {
    batch.steps[0].disconnected_at = Some(Time(1));
    batch.steps[0].attempt = Some(attempt(1));
}

fn marked(batch: &mut Batch) {
    cut_off(batch);
    let row = HearingRow {
        mark_at: batch.now,
        deaf_us: 0,
        stretch_from: Heard::MIN,
        unsettled_since: None,
        verdicts_from: Heard::MIN,
        alarmed: false,
    };
    batch.hearing = Some(Mark { row, expected: None });
}

fn offered(batch: &mut Batch) {
    batch.steps[0].attempt = Some(attempt(1));
}

pub(super) fn hello(batch: &mut Batch) {
    batch.hellos.push(WorkerHello {
        id: WORKER,
        epoch: Epoch(2),
        name: String::new(),
        tags: Vec::new(),
        slots: 1,
        kind: "static",
        session: Uuid::nil(),
        boot_id: String::new(),
        state_id: Uuid::nil(),
        machine: String::new(),
        version: String::new(),
        platform: String::new(),
        hostname: String::new(),
        pid: 1,
        started_at: Time(0),
        no_reconnect: false,
        server: ServerId(Uuid::nil()),
        unwilling: false,
        unread: false,
        after_loss: None,
        features: Vec::new(),
    });
}

#[test]
fn a_window_that_was_listened_to_may_be_judged() {
    let mut scene = Scene::new(|_| {});
    scene.listen(2 * MINUTE, |_| {}).granted(1).cut().listen(2 * MINUTE, cut_off).judge().is_well();
}

#[test]
fn a_window_that_nobody_listened_to_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.listen(2 * MINUTE, |_| {}).granted(1).cut().after(MINUTE).listen(95 * SECOND, cut_off).judge();
    scene.is_found("silence", "in which anybody listened");
}

#[test]
fn a_verdict_right_after_nobody_could_be_heard_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.listen(2 * MINUTE, |_| {}).granted(1).cut().listen(2 * MINUTE, cut_off).after(MINUTE);
    scene.listen(30 * SECOND, cut_off).judge().is_found("silence", "after nobody could be heard");
}

#[test]
fn a_verdict_on_a_worker_that_is_back_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.listen(2 * MINUTE, |_| {}).granted(1).runs(1).cut().after(SECOND).turn("recovering", |batch| {
        cut_off(batch);
        hello(batch);
    });
    scene.listen(2 * MINUTE, |batch| {
        cut_off(batch);
        batch.seen.push((WORKER, Time(1)));
    });
    scene.judge().is_found("silence", "is heard all the time");
}

#[test]
fn an_offer_that_stands_for_ever_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.listen(20 * SECOND, offered).is_well();
    scene.listen(10 * SECOND, offered).is_found("dwell", "has been queued");
}

/// A job that could not be written is left alone for a while, and not for ever.
#[test]
fn an_offer_of_a_refused_job_that_stands_for_ever_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.listen(10 * SECOND, offered);
    let row = scene.job_row();
    scene.checks.refused(0, &Batch { jobs: vec![store::JobWrite { row, expected: None }], ..Batch::default() });
    scene.listen(2 * MINUTE, offered).is_well();
    scene.listen(10 * SECOND, offered).is_found("dwell", "has been queued");
}

#[test]
fn a_stop_that_waits_for_ever_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.granted(1).turn("cancelling", offered).listen(20 * SECOND, offered).is_well();
    scene.listen(10 * SECOND, offered).is_found("dwell", "has been cancelling");
}

#[test]
fn a_window_without_an_end_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.listen(2 * MINUTE, |_| {}).granted(1).cut().listen(4 * MINUTE, cut_off).is_well();
    scene.listen(MINUTE, cut_off).is_found("dwell", "has been recovering");
}

/// Whoever starts with a clock that was set brings a leap, and hearing begins anew; but a leap is no excuse for ever.
#[test]
fn a_window_may_last_for_longer_after_time_leapt() {
    let mut scene = Scene::new(|_| {});
    let leapt = |batch: &mut Batch| {
        cut_off(batch);
        batch.now = batch.now + MINUTE;
    };
    scene.listen(2 * MINUTE, |_| {}).granted(1).cut().listen(4 * MINUTE, cut_off);
    scene.listen(100 * SECOND, leapt).is_well();
    scene.listen(10 * SECOND, leapt).is_found("dwell", "has been recovering");
}

/// A commit that takes long makes the next mark late, and hearing begins anew; but that is no excuse for ever, either.
#[test]
fn a_window_may_last_for_longer_after_a_slow_commit() {
    let mut scene = Scene::new(|_| {});
    scene.listen(2 * MINUTE, |_| {}).granted(1).cut().take_turns(3 * MINUTE).checks.turn_begins(0);
    scene.after(5 * SECOND).turn("recovering", marked).take_turns(100 * SECOND).is_well();
    scene.take_turns(10 * SECOND).is_found("dwell", "has been recovering");
}

#[test]
fn a_cancel_that_forgets_a_step_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.granted(1).cut().after(SECOND);
    scene.turn("recovering", |batch| {
        cut_off(batch);
        batch.events.push(EventRow { from: None, to: None, ..event(None, "cancel_asked", "", "") });
    });
    scene.is_found("dwell", "stays recovering");
}

#[test]
fn a_silent_runner_that_is_left_alone_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.granted(1).turn("running", hello).hear(2 * MINUTE);
    let now = scene.now;
    scene.checks.runner_freezes(now, ticket(1), 60 * MINUTE);
    scene.hear(6 * MINUTE).is_well();
    scene.hear(2 * MINUTE).is_found("dwell", "has been silent");
}

#[test]
fn what_runs_on_after_a_cancel_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.granted(1).turn("running", hello).runs(1).hear(10 * SECOND);
    scene.turn("cancelled", |batch| {
        batch.attempts.push(AttemptRow { error_code: Some("cancelled"), ..over_row(1, "lost") });
    });
    scene.speak(MINUTE).is_found("orphan", "was told to stop and runs on");
}

/// Nothing that is committed says when it came.
#[test]
fn what_a_removed_worker_brings_back_has_its_time_to_end() {
    let mut scene = Scene::new(|_| {});
    scene.granted(1).turn("running", hello).runs(1).hear(10 * SECOND);
    scene.turn("cancelled", |batch| {
        batch.attempts.push(AttemptRow { error_code: Some("cancelled"), ..over_row(1, "lost") });
    });
    let now = scene.after(4 * MINUTE).now;
    scene.checks.worker_comes(now, WORKER);
    scene.speak(20 * SECOND).is_well();
    scene.speak(40 * SECOND).is_found("orphan", "was told to stop and runs on");
}
