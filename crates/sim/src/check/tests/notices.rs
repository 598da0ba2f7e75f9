//! Notices that are missing, come too early, or twice.

use super::*;

/// A step of which a minute is expected, and which has been granted.
fn expected() -> Scene {
    let mut scene = Scene::new(|step| step.expect = Some(MINUTE));
    scene.granted(1).after(SECOND).runs(1);
    scene
}

/// The step goes on, and this is said of it.
fn turn(scene: &mut Scene, time: Duration, noticed: usize) -> &mut Scene {
    scene.after(time).turn("running", |batch| {
        batch.steps[0].attempt = Some(attempt(1));
        batch.steps[0].fence = Some(Fence(1));
        let event = EventRow { from: None, to: None, ..event(Some(STEP), "notice", "", "") };
        batch.events.extend(std::iter::repeat_n(event, noticed));
    })
}

#[test]
fn a_notice_in_its_time_is_well() {
    let mut scene = expected();
    turn(&mut scene, MINUTE, 1);
    for _ in 0..60 {
        turn(&mut scene, SECOND * 2, 0);
    }
    scene.is_well();
}

#[test]
fn a_notice_that_comes_too_early_or_again_is_found() {
    let mut early = expected();
    turn(&mut early, SECOND * 50, 1).is_found("notice", "is noticed after");
    let mut twice = expected();
    turn(&mut twice, MINUTE, 1);
    turn(&mut twice, SECOND, 1).is_found("notice", "is noticed once more");
}

#[test]
fn what_nobody_notices_is_found() {
    let mut scene = expected();
    for _ in 0..29 {
        turn(&mut scene, SECOND * 2, 0);
    }
    scene.is_well();
    for _ in 0..10 {
        turn(&mut scene, SECOND * 2, 0);
    }
    scene.is_found("notice", "and nobody notices");
}
