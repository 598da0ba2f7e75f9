//! A step that leaves files.

use super::{AttemptRow, Scene, over_row};

/// It ends well, and its row names this set.
fn ended(stored: Option<&str>, named: Option<&str>) -> Scene {
    let mut scene = Scene::new(|step| step.files = true);
    scene.granted(1).runs(1).is_gone(1);
    if let Some(set) = stored {
        scene.checks.files_stored(set);
    }
    scene.turn("success", |batch| {
        batch.steps[0].artifacts = named.map(str::to_owned);
        batch.attempts.push(AttemptRow { exit_code: Some(0), ..over_row(1, "ended") });
    });
    scene
}

#[test]
fn files_are_stored_before_the_end_is_on_record() {
    ended(Some("ab"), Some("ab")).is_well();
    ended(None, Some("ab")).is_found("files", "not stored");
    ended(Some("ab"), None).is_found("files", "its files are nowhere");
}

/// It leaves its files in any case, fails by its own code, and this is what its rows say.
fn failed(named: Option<&str>, error: &str) -> Scene {
    let mut scene = Scene::new(|step| (step.files, step.always) = (true, true));
    scene.granted(1).runs(1).is_gone(1);
    scene.checks.files_stored("ab");
    scene.turn("failed", |batch| {
        batch.steps[0].artifacts = named.map(str::to_owned);
        let (error_code, error_message) = (Some("exit_code"), Some(error.to_owned()));
        batch.attempts.push(AttemptRow { exit_code: Some(3), error_code, error_message, ..over_row(1, "ended") });
    });
    scene
}

#[test]
fn what_is_left_in_any_case_is_left_by_those_that_fail() {
    failed(Some("ab"), "it exited with code 3").is_well();
    failed(None, "it exited with code 3; its artifacts were not stored: the folder is gone").is_well();
    failed(None, "it exited with code 3").is_found("files", "nobody says so");
}

#[test]
fn what_never_ran_leaves_nothing() {
    let mut scene = Scene::new(|step| (step.files, step.always) = (true, true));
    scene.granted(1).turn("failed", |batch| {
        batch.attempts.push(AttemptRow { error_code: Some("spawn_failed"), ..over_row(1, "ended") });
    });
    scene.is_well();
}

#[test]
fn the_next_attempt_does_not_have_what_the_last_one_left() {
    let mut scene = Scene::new(|step| (step.files, step.always) = (true, true));
    scene.checks.files_stored("ab");
    scene.granted(1).runs(1).turn("running", |batch| {
        batch.steps[0].attempt = Some(super::attempt(1));
        batch.steps[0].artifacts = Some("ab".to_owned());
    });
    scene.is_found("files", "has left ab already");
}
