//! An operator says that the database was restored, and something begins that nobody has asked for since; or is not told at all.

use super::*;
use crate::workload::GatePlan;

impl Scene {
    /// While no server is up.
    fn says_restored(&mut self) -> &mut Scene {
        self.checks.restored(self.time(), false);
        self
    }

    /// The job hears of it, and its step is held.
    fn told(&mut self) -> &mut Scene {
        self.turn("held", |batch| batch.events.push(word("restored", None)))
    }

    fn approved(&mut self, by: &'static str, to: &'static str) -> &mut Scene {
        self.checks.approve_asked(JOB, STEP, by);
        match to {
            "held" => self.turn("held", |batch| batch.events.push(word("approved", Some(STEP)))),
            to => self.turn(to, |batch| batch.events[0].verb = Some("approve")),
        }
    }
}

fn word(kind: &'static str, ix: Option<StepIx>) -> EventRow {
    EventRow { from: None, to: None, ..event(ix, kind, "", "") }
}

#[test]
fn what_a_person_wants_to_run_may_run() {
    let mut scene = Scene::new(|_| {});
    scene.says_restored().told().after(SECOND).approved("ann", "queued").granted(1).is_well();
}

#[test]
fn what_begins_again_before_a_persons_word_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.says_restored().told().after(SECOND).turn("queued", |_| {});
    scene.is_found("restored", "nobody has said since that it may run");
}

#[test]
fn what_does_nothing_to_the_world_may_begin_again() {
    let mut scene = Scene::new(|step| step.effects = "none");
    scene.says_restored().told().after(SECOND).turn("queued", |_| {}).granted(1).is_well();
}

/// That it was in the queue once without any is another checker's to find.
#[test]
fn approvals_from_before_a_restore_do_not_count() {
    let is_found = |before: &[&'static str], after: &[&'static str]| {
        let gate = GatePlan { reviewers: 2, allow_submitter: true, wait: None };
        let mut scene = Scene::new(|step| step.gate = Some(gate));
        scene.turn("held", |_| {});
        before.iter().for_each(|by| _ = scene.approved(by, "held"));
        scene.says_restored().told();
        after.iter().for_each(|by| _ = scene.approved(by, "held"));
        scene.approved("dan", "queued");
        scene.checks.findings().iter().any(|finding| finding.checker == "restored")
    };
    assert!(is_found(&["ann", "ben"], &[]), "one has said yes since");
    assert!(!is_found(&[], &["cat"]));
}

#[test]
fn a_job_that_is_not_told_of_a_restore_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.says_restored().granted(1).is_found("restored", "was not told");
}

#[test]
fn a_job_whose_telling_is_lost_is_to_be_told_again() {
    let told_again = |again: bool| {
        let mut scene = Scene::new(|_| {});
        scene.checks.past.expected = true;
        let at = scene.time();
        scene.says_restored().told();
        scene.checks.will_forget(Default::default());
        scene.checks.forgotten(1);
        scene.checks.left_of_words(Some(at));
        scene.step = "queued";
        if again {
            scene.told()
        } else {
            scene.granted(1)
        };
        scene
    };
    told_again(true).is_well();
    told_again(false).is_found("restored", "was not told");
}

#[test]
fn what_a_worker_has_goes_on() {
    let mut scene = Scene::new(|_| {});
    scene.checks.past.expected = true;
    scene.granted(1);
    scene.checks.will_forget(Default::default());
    scene.checks.forgotten(1);
    scene.step = "queued";
    scene.says_restored().told().after(SECOND).granted(1).is_well();
}

/// What was lost in the time before is no reason against a person's word.
#[test]
fn what_was_lost_may_run_again_where_a_person_wants_it() {
    let lost = |asked: bool| {
        let mut scene = Scene::new(|_| {});
        scene.granted(1).says_restored();
        scene.turn("held", |batch| {
            batch.events.push(word("restored", None));
            batch.attempts.push(AttemptRow { error_code: Some("runner_lost"), ..over_row(1, "lost") });
        });
        if asked {
            scene.approved("ann", "queued")
        } else {
            scene.turn("queued", |_| {})
        };
        scene.granted(2);
        scene
    };
    lost(true).is_well();
    assert!(!lost(false).checks.findings().is_empty());
}
