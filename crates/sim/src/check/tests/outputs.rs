//! What a step gives, and what others are given of it.

use super::{SECOND, Scene, over_row, ticket};

fn gives(wrote: i64, data: &str) -> Scene {
    let mut scene = Scene::new(|_| {});
    scene.granted(1).runs(1).after(SECOND);
    scene.checks.wrote(ticket(1), wrote);
    scene.is_gone(1).turn("success", |batch| {
        batch.attempts.push(over_row(1, "ended"));
        data.clone_into(&mut batch.steps[0].data);
    });
    scene
}

#[test]
fn a_row_has_what_the_process_wrote() {
    gives(5, r#"{"output":{"n":5}}"#).is_well();
    gives(5, r#"{"output":{"n":6}}"#).is_found("output", "has given Some(6), and wrote 5");
    gives(5, "{}").is_found("output", "has given None");
}
