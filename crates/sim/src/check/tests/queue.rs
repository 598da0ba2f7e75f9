//! Steps in the queue, and workers that have nothing to do.

use store::Batch;

use super::heard::hello;
use super::{SECOND, Scene};

/// A worker with this tag is there for three minutes, and for two of them a step waits for one with the tag `a`.
fn waits(tag: &str, order: Option<&str>) -> Scene {
    let mut scene = Scene::new(|step| step.tag = Some("a"));
    let meta = order.map(|text| ("dispatch", text.to_owned())).into_iter().collect();
    let mut batch = Batch { now: scene.time(), meta, ..Batch::default() };
    hello(&mut batch);
    batch.hellos[0].tags = vec![tag.to_owned()];
    let worker = batch.hellos[0].id;
    scene.commit(&batch);
    for seconds in (0..180).step_by(2) {
        scene.after(2 * SECOND);
        if seconds == 60 {
            scene.turn("queued", |_| {});
        }
        let batch = Batch { now: scene.time(), seen: vec![(worker, scene.time())], ..Batch::default() };
        scene.commit(&batch);
    }
    scene
}

#[test]
fn a_worker_that_stands_idle_beside_the_queue_is_found() {
    // That nobody looks at the step is found, too.
    let is_found = |scene: &Scene| scene.checks.findings().iter().any(|finding| finding.checker == "queue");
    assert!(is_found(&waits("a", None)));
    assert!(!is_found(&waits("b", None)), "it does not fit");
    assert!(!is_found(&waits("a", Some(r#"{"paused":true,"since":0,"by":"ann"}"#))), "an operator says so");
}
