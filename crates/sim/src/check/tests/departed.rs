//! Workers that are deleted for their absence.

use engine::Heard;
use protocol::link::RefusedCode;
use server::retention::RetentionRules;

use super::super::retention::Retention;
use super::heard::{WORKER, hello};
use super::*;

/// A world in which a worker may be away for five minutes; one says hello.
fn greeted() -> Scene {
    let mut setup = Setup::of(1);
    setup.core.retention = RetentionRules { workers: Some(5 * MINUTE), ..RetentionRules::default() };
    let mut scene = Scene::new(|_| {});
    scene.checks.retention = Retention::new(&setup);
    scene.turn("queued", hello);
    scene
}

/// It leaves, and its time passes.
fn away(time: Duration) -> Scene {
    let mut scene = greeted();
    scene.turn("queued", |batch| batch.left.push((WORKER, Epoch(2), Heard(1))));
    scene.after(time);
    scene
}

impl Scene {
    /// It is deleted, by the time that it may be away.
    fn departs(&mut self) -> &mut Scene {
        let unseen_since = self.time() - 5 * MINUTE;
        self.checks.departed(WORKER, unseen_since);
        self
    }
}

#[test]
fn a_worker_that_is_away_for_long_may_go() {
    away(6 * MINUTE).departs().is_well();
}

#[test]
fn a_worker_that_goes_too_soon_is_found() {
    away(MINUTE).departs().is_found("retention", "it was heard since the time");
    let mut scene = away(MINUTE);
    scene.checks.departed(WORKER, scene.time());
    scene.is_found("retention", "only");
}

#[test]
fn a_worker_that_goes_while_it_is_connected_is_found() {
    greeted().after(6 * MINUTE).departs().is_found("retention", "it is connected");
}

#[test]
fn a_worker_that_goes_with_something_in_doubt_is_found() {
    let mut scene = greeted();
    scene.granted(1).turn("running", |batch| batch.left.push((WORKER, Epoch(2), Heard(1))));
    scene.after(6 * MINUTE).departs().is_found("retention", "may still run there");
}

#[test]
fn a_deleted_worker_is_told_so_and_never_welcomed() {
    let mut scene = away(6 * MINUTE);
    scene.departs().checks.sent_away(WORKER, RefusedCode::Removed);
    scene.is_well();
    scene.checks.sent_away(WORKER, RefusedCode::DuplicateIdentity);
    scene.is_found("retention", "came back, and is told");
    let mut scene = away(6 * MINUTE);
    scene.departs().turn("queued", hello);
    scene.is_found("retention", "is welcomed");
}
