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

/// It is said of the step that it waited, or that one of its items did; `name` is that of the row beside it.
fn waited(scene: &mut Scene, name: &str, reason: &str) {
    scene.after(SECOND).turn("queued", |batch| {
        batch.steps[0].name = name.to_owned();
        let event = event(Some(STEP), "notice", "", "");
        batch.events.push(EventRow { from: None, to: None, reason: reason.to_owned(), ..event });
    });
}

#[test]
fn an_item_that_is_told_of_by_itself_is_found() {
    let mut scene = Scene::new(|_| {});
    waited(&mut scene, "a[3]", "has waited for a worker for longer than 15m");
    scene.is_found("notice", "is said to have waited by itself");
}

#[test]
fn a_fan_out_is_told_of_once_and_with_an_item_that_waited() {
    let words = "has items that have waited for a worker for longer than 15m: a[3]";
    let mut scene = Scene::new(|_| {});
    waited(&mut scene, "a[2]", words);
    scene.is_found("notice", "and none did");
    let mut scene = Scene::new(|_| {});
    waited(&mut scene, "a[3]", words);
    waited(&mut scene, "a[3]", words);
    scene.is_found("notice", "is said to have waited once more");
}

#[test]
fn an_item_that_is_late_is_told_of_as_its_steps() {
    let mut scene = Scene::new(|_| {});
    waited(&mut scene, "a[3]", "takes longer than expected: 1m");
    scene.is_found("notice", "is noticed by itself");
    let mut scene = Scene::new(|_| {});
    waited(&mut scene, "a[2]", "has items that take longer than expected: 1m: a[3]");
    scene.is_found("notice", "and none is");
}
