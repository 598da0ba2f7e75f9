//! What was asked for once and became two, workers that are not who they were, steps that fail for want of what is there, and
//! attempts that are put away too early.

use super::heard::{WORKER, hello};
use super::*;
use crate::workload::GatePlan;

/// Another job of the same task, that goes on for nobody.
#[test]
fn a_submit_that_became_two_jobs_is_found() {
    let mut scene = Scene::new(|_| {});
    let twin = JobId(Uuid::from_u128(2));
    scene.turn("queued", |_| {}).is_well();
    let row = JobRow { id: twin, version: 1, ..scene.job_row() };
    let batch = Batch { now: scene.time(), jobs: vec![JobWrite { row, expected: None }], ..Batch::default() };
    scene.commit(&batch).is_found("submit", "became two jobs");
}

/// The key went with the job.
#[test]
fn a_submit_that_is_repeated_when_its_job_is_deleted_makes_a_new_one() {
    let mut scene = Scene::new(|_| {});
    let row = JobRow { id: JobId(Uuid::from_u128(2)), version: 1, ..scene.job_row() };
    scene.turn("cancelled", |_| {});
    scene.checks.deleted(&[JOB]);
    let batch = Batch { now: scene.time(), jobs: vec![JobWrite { row, expected: None }], ..Batch::default() };
    scene.commit(&batch).is_well();
}

/// Whatever makes it (its time, its parent) comes again where the record of its beginning is lost with that of its end.
#[test]
fn a_deleted_job_that_was_never_there_by_what_is_left_may_be_made_again() {
    let again = |lost| {
        let mut scene = Scene::new(|_| {});
        scene.checks.past.expected = true;
        // Of another family.
        let new = JobId(Uuid::from_u128(2 << 80));
        let row = JobRow { id: new, task: "other".to_owned(), version: 1, ..scene.job_row() };
        let batch = Batch { now: scene.time(), jobs: vec![JobWrite { row, expected: None }], ..Batch::default() };
        let over = JobRow {
            owner: None,
            check_at: None,
            action: None,
            ended_at: Some(scene.time()),
            state: "success",
            version: 2,
            ..batch.jobs[0].row.clone()
        };
        scene.commit(&batch);
        scene.commit(&Batch {
            now: scene.time(),
            jobs: vec![JobWrite { row: over, expected: Some(1) }],
            events: vec![EventRow { job: new, ..event(None, "job", "running", "success") }],
            ..Batch::default()
        });
        scene.checks.deleted(&[new]);
        scene.checks.forgotten(lost);
        scene.checks.came_back(&|_| false);
        scene.commit(&batch);
        scene
    };
    again(2).is_well();
    let found = again(0).checks.findings().to_vec();
    assert!(found.iter().any(|finding| finding.what.contains("was deleted, and is written again")), "{found:?}");
}

#[test]
fn a_step_that_passes_its_gate_too_early_is_found() {
    let gate = |reviewers, wait| Some(GatePlan { reviewers, allow_submitter: true, wait });
    Scene::new(|step| step.gate = gate(1, None)).is_found("gate", "approved by {}");
    Scene::new(|step| step.gate = gate(0, Some(SECOND))).is_found("gate", "did not wait");
    Scene::new(|step| step.gate = gate(0, None)).is_well();
}

#[test]
fn a_worker_with_an_older_state_folder_is_found_when_it_is_admitted() {
    let admitted = |last_epoch| {
        let mut scene = Scene::new(|_| {});
        scene.turn("queued", |batch| batch.used_epochs.push((WorkerId(Uuid::nil()), Epoch(7))));
        scene.checks.worker_starts(Uuid::nil(), last_epoch);
        scene.turn("queued", hello);
        scene
    };
    admitted(7).is_well();
    admitted(0).is_well();
    admitted(6).is_found("identity", "knows link 6, and it has used link 7");
}

/// That it had been further is not on record any more.
#[test]
fn an_older_state_folder_is_not_known_by_links_whose_commits_are_lost() {
    let used = |scene: &mut Scene, epoch| {
        scene.turn("queued", |batch| batch.used_epochs.push((WorkerId(Uuid::nil()), Epoch(epoch))));
    };
    let admitted = |lost| {
        let mut scene = Scene::new(|_| {});
        scene.checks.past.expected = true;
        used(&mut scene, 6);
        used(&mut scene, 7);
        scene.checks.forgotten(lost);
        scene.checks.worker_starts(Uuid::nil(), 5);
        scene.turn("queued", hello);
        scene
    };
    admitted(1).is_found("identity", "knows link 5, and it has used link 6");
    admitted(2).is_well();
}

/// By the time that is left it is not due yet.
#[test]
fn what_was_due_by_a_time_that_is_lost_is_not_late_for_it() {
    let looked_at_after = |lost| {
        let mut scene = Scene::new(|_| {});
        scene.checks.past.expected = true;
        let due = scene.time() + MINUTE;
        let mark = |scene: &mut Scene, now| {
            scene.after(2 * SECOND).commit(&Batch { now, ..Batch::default() });
        };
        mark(&mut scene, due + SECOND);
        scene.checks.forgotten(lost);
        (0..5).for_each(|_| mark(&mut scene, due - SECOND));
        mark(&mut scene, due + SECOND);
        scene
    };
    looked_at_after(1).is_well();
    looked_at_after(0).is_found("check-time", "nobody looked");
}

/// One worker after the other says in one round what is not on record: the last of them stands for those before it.
#[test]
fn attempts_that_come_in_one_batch_follow_each_other() {
    let brought = |attempts: Vec<AttemptRow>| {
        let mut scene = Scene::new(|step| step.effects = "none");
        scene.turn("running", |batch| {
            batch.steps[0].attempt = Some(attempt(2));
            batch.steps[0].fence = Some(Fence(2));
            batch.attempts = attempts;
        });
        scene
    };
    brought(vec![attempt_row(2, "running"), over_row(1, "lost")]).is_well();
    brought(vec![attempt_row(2, "running")]).is_found("stale-voice", "follows 0 others");
}

fn exhausted(batch: &mut Batch) {
    batch.steps[0].error_code = Some("dispatch_exhausted");
}

/// A step that was offered so many times, each for so long, and is then given up for it.
fn offered(times: u32, each: Duration) -> Scene {
    let mut scene = Scene::new(|_| {});
    for number in 1..=times {
        scene.turn("queued", |batch| batch.steps[0].attempt = Some(attempt(number))).after(each);
        scene.turn("queued", |_| {});
    }
    scene.turn("failed", exhausted);
    scene
}

#[test]
fn offers_that_were_answered_do_not_count_as_unanswered() {
    let rules = &Setup::of(1).core.rules;
    offered(rules.max_dispatch_attempts, rules.dispatch_ack).is_well();
    offered(rules.max_dispatch_attempts - 1, rules.dispatch_ack).is_found("supply", "were left unanswered");
    offered(rules.max_dispatch_attempts, SECOND).is_found("supply", "0 of 5 were left unanswered");
}

#[test]
fn a_step_that_fails_for_want_of_a_worker_that_is_awaited_is_found() {
    let fails_after = |time| {
        let mut scene = Scene::new(|step| step.tag = Some("gpu"));
        scene.turn("queued", |batch| {
            hello(batch);
            batch.hellos[0].tags = vec!["gpu".to_owned()];
        });
        scene.after(time).turn("failed", |batch| batch.steps[0].error_code = Some("unmatched"));
        scene
    };
    fails_after(3 * MINUTE).is_well();
    fails_after(MINUTE).is_found("supply", "fits and is here, or was not long ago");
}

/// A server that had no database for a while writes what it heard before: that is as old as it is.
#[test]
fn a_word_that_is_written_late_was_heard_when_it_came() {
    let written_after = |time| {
        let mut scene = Scene::new(|step| step.tag = Some("gpu"));
        scene.turn("queued", |batch| {
            hello(batch);
            batch.hellos[0].tags = vec!["gpu".to_owned()];
        });
        scene.after(MINUTE).checks.turn_begins(0);
        scene.after(time).turn("queued", |batch| batch.seen.push((WORKER, batch.now)));
        scene.after(MINUTE).turn("failed", |batch| batch.steps[0].error_code = Some("unmatched"));
        scene
    };
    written_after(2 * MINUTE).is_well();
    written_after(SECOND).is_found("supply", "fits and is here, or was not long ago");
}

#[test]
fn an_attempt_that_is_put_away_before_the_server_has_all_of_it_is_found() {
    let put_away_by = |worker: u128, over: bool, complete: bool| {
        let mut scene = Scene::new(|_| {});
        scene.granted(1).runs(1).is_gone(1);
        if over {
            scene.turn("success", |batch| batch.attempts.push(over_row(1, "ended")));
        }
        scene.checks.printed(ticket(1), "a line".to_owned(), true);
        scene.checks.told_to_forget(WorkerId(Uuid::from_u128(worker)), ticket(1), complete);
        scene
    };
    let put_away = |over, complete| put_away_by(0, over, complete);
    put_away(true, true).is_well();
    put_away(false, true).is_found("forget", "nobody has its end");
    put_away(true, false).is_found("forget", "nobody has all of its log");
    put_away_by(1, false, true).is_well();
}

#[test]
fn an_attempt_that_is_called_dead_and_lives_is_found() {
    let lost = |lives: bool| {
        let mut scene = Scene::new(|_| {});
        scene.granted(1).runs(1);
        if !lives {
            scene.is_gone(1);
        }
        scene.turn("failed", |batch| {
            batch.attempts.push(AttemptRow { error_code: Some("runner_lost"), ..over_row(1, "lost") });
        });
        scene
    };
    lost(false).is_well();
    lost(true).is_found("proof", "is on record as runner_lost, and runs");
}
