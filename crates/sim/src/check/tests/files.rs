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
