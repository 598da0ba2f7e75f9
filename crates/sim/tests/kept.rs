//! Every world in which something was once wrong, again: `seeds/NAME.json`, one test each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sim::case::Case;
use sim::story::{Listener, Story};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
}

/// How much of the story a failing test prints.
const LAST_LINES: usize = 40;

fn replay(name: &str) {
    let path = folder().join(name).with_extension("json");
    let case = Case::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(!case.what.is_empty(), "{name} does not say what was wrong");
    let story = Story::told_to(Listener::Last(LAST_LINES));
    let verdict = case.run(&story, None);
    if let Some(finding) = verdict.findings.first() {
        let lines = story.lines().join("\n");
        panic!("{lines}\n{finding}\nonce it was: {}\nagain: sim --case {} --trace", case.what, path.display());
    }
}

macro_rules! kept {
    ($($test:ident => $name:literal),* $(,)?) => {
        $(#[test] fn $test() { replay($name); })*
        const KEPT: &[&str] = &[$($name),*];
    };
}

kept! {
    an_offer_that_was_said_again => "an-offer-that-was-said-again",
    given_up_while_it_fetched => "given-up-while-it-fetched",
    a_freeze_that_a_clock_hid => "a-freeze-that-a-clock-hid",
    a_hello_of_an_idle_worker_that_was_lost => "a-hello-of-an-idle-worker-that-was-lost",
    an_end_that_came_second => "an-end-that-came-second",
    an_end_that_was_said_before_a_refusal => "an-end-that-was-said-before-a-refusal",
    a_verdict_that_came_second => "a-verdict-that-came-second",
    an_item_in_another_ones_place => "an-item-in-another-ones-place",
    missed_after_its_hello_was_lost => "missed-after-its-hello-was-lost",
    missed_by_one_who_started_after_a_loss => "missed-by-one-who-started-after-a-loss",
    missed_by_another_server_after_a_loss => "missed-by-another-server-after-a-loss",
    a_list_that_was_lost_between_two_reads => "a-list-that-was-lost-between-two-reads",
    an_epoch_of_a_hello_that_came_to_nothing => "an-epoch-of-a-hello-that-came-to-nothing",
    an_end_that_was_remembered_and_not_written => "an-end-that-was-remembered-and-not-written",
    reported_in_a_round_that_came_to_nothing => "reported-in-a-round-that-came-to-nothing",
    a_person_said_so_while_its_worker_was_gone => "a-person-said-so-while-its-worker-was-gone",
    two_pasts_of_one_job => "two-pasts-of-one-job",
    told_of_a_restore_later => "told-of-a-restore-later",
    remembered_by_one_server => "remembered-by-one-server",
    said_along_with_its_hello => "said-along-with-its-hello",
    over_before_it_was_given_up => "over-before-it-was-given-up",
    taken_done_and_deleted => "taken-done-and-deleted",
    slow_in_turn => "slow-in-turn",
    dropped_and_not_received => "dropped-and-not-received",
    a_child_of_what_follows => "a-child-of-what-follows",
    lines_that_nobody_asked_for_again => "lines-that-nobody-asked-for-again",
    a_child_that_nobody_waited_for => "a-child-that-nobody-waited-for",
    a_hello_that_was_lost => "a-hello-that-was-lost",
    an_enrolment_that_was_lost => "an-enrolment-that-was-lost",
    links_of_deleted_workers => "links-of-deleted-workers",
    a_folder_without_its_spec => "a-folder-without-its-spec",
    a_stale_report_that_could_not_be_written => "a-stale-report-that-could-not-be-written",
    a_hello_held_against_memory => "a-hello-held-against-memory",
    a_disk_that_hid_what_was_kept => "a-disk-that-hid-what-was-kept",
    who_came_and_went_in_lost_time => "who-came-and-went-in-lost-time",
    lost_lines_said_thrice => "lost-lines-said-thrice",
    a_time_that_came_again => "a-time-that-came-again",
    a_child_that_was_never_there => "a-child-that-was-never-there",
    what_fell_with_its_job => "what-fell-with-its-job",
    items_of_a_rejected_step => "items-of-a-rejected-step",
    a_log_that_was_only_remembered => "a-log-that-was-only-remembered",
    files_of_a_folder_read_later => "files-of-a-folder-read-later",
    due_before_its_pause => "due-before-its-pause",
    a_key_that_went_with_its_job => "a-key-that-went-with-its-job",
    over_by_a_name_alone => "over-by-a-name-alone",
    a_log_whose_job_was_deleted => "a-log-whose-job-was-deleted",
    files_of_a_deleted_folder => "files-of-a-deleted-folder",
    full_by_one_that_was_never_seen => "full-by-one-that-was-never-seen",
    put_away_under_a_frozen_runner => "put-away-under-a-frozen-runner",
    an_end_that_came_twice => "an-end-that-came-twice",
    a_loss_in_a_slow_commit => "a-loss-in-a-slow-commit",
    a_start_that_was_unsaid => "a-start-that-was-unsaid",
    told_to_go_long_before => "told-to-go-long-before",
    a_lease_that_became_a_timeout => "a-lease-that-became-a-timeout",
    offers_that_stayed => "offers-that-stayed",
    an_end_that_nobody_heard => "an-end-that-nobody-heard",
    a_note_that_outlived_its_job => "a-note-that-outlived-its-job",
    a_fence_from_another_block => "a-fence-from-another-block",
    a_last_sign_that_was_the_first => "a-last-sign-that-was-the-first",
    a_start_that_put_verdicts_off => "a-start-that-put-verdicts-off",
    counted_with_every_hello => "counted-with-every-hello",
    never_offered_again => "never-offered-again",
    a_step_left_in_its_queue => "a-step-left-in-its-queue",
    read_over_in_its_round => "read-over-in-its-round",
    slots_taken_again => "slots-taken-again",
    strays_left_behind => "strays-left-behind",
    a_log_that_was_refused => "a-log-that-was-refused",
    a_log_that_could_be_read_later => "a-log-that-could-be-read-later",
    retried_twice => "retried-twice",
    timed_out_while_the_server_was_away => "timed-out-while-the-server-was-away",
    set_aside_for_nothing => "set-aside-for-nothing",
    why_before_its_row => "why-before-its-row",
    a_start_with_a_clock_that_was_set => "a-start-with-a-clock-that-was-set",
    adopted_out_of_turn => "adopted-out-of-turn",
    a_stranger_that_ended => "a-stranger-that-ended",
    judged_by_rows_of_the_past => "judged-by-rows-of-the-past",
    due_after_a_loss => "due-after-a-loss",
    back_since_that_look => "back-since-that-look",
    a_folder_read_as_running => "a-folder-read-as-running",
    awake_and_blind => "awake-and-blind",
    a_copy_with_nothing_to_report => "a-copy-with-nothing-to-report",
    called_void_after_a_power_cut => "called-void-after-a-power-cut",
    a_spec_that_went_with_the_power => "a-spec-that-went-with-the-power",
    seen_by_one_that_slept => "seen-by-one-that-slept",
    a_loss_that_others_covered_up => "a-loss-that-others-covered-up",
    a_loss_that_was_read_over => "a-loss-that-was-read-over",
    two_of_one_step => "two-of-one-step",
    came_in_the_time_that_is_lost => "came-in-the-time-that-is-lost",
    put_off_by_the_youngest => "put-off-by-the-youngest",
    a_stop_that_was_passed_over => "a-stop-that-was-passed-over",
    started_as_offered => "started-as-offered",
    told_to_stop_and_followed => "told-to-stop-and-followed",
    called_dead_and_runs => "called-dead-and-runs",
    removed_at_another_server => "removed-at-another-server",
    approved_before_the_loss => "approved-before-the-loss",
    a_list_that_was_lost => "a-list-that-was-lost",
    last_word_of_a_removed_worker => "last-word-of-a-removed-worker",
    lines_from_a_slow_commit => "lines-from-a-slow-commit",
    whole_before_its_end => "whole-before-its-end",
    a_loss_that_one_server_knew => "a-loss-that-one-server-knew",
    an_older_folder_after_a_loss => "an-older-folder-after-a-loss",
    deleted_under_its_step => "deleted-under-its-step",
    a_copy_without_a_name => "a-copy-without-a-name",
    a_report_that_nobody_can_read => "a-report-that-nobody-can-read",
    two_were_told_to_go_on => "two-were-told-to-go-on",
    a_loss_that_was_not_told => "loss-not-told",
    an_item_awaited_elsewhere => "item-awaited-elsewhere",
    a_look_that_was_lost => "a-look-that-was-lost",
    a_judge_that_died => "a-judge-that-died",
    without_a_fence => "without-a-fence",
    a_child_awaited_elsewhere => "a-child-awaited-elsewhere",
    a_server_that_was_not_on_record => "a-server-that-was-not-on-record",
    welcomed_by_half_of_the_rows => "welcomed-by-half-of-the-rows",
    lost_without_a_word_of_it => "lost-without-a-word-of-it",
    a_word_that_was_written_late => "a-word-that-was-written-late",
    blamed_for_a_lost_link => "blamed-for-a-lost-link",
    a_hook_that_had_begun_a_job => "a-hook-that-had-begun-a-job",
    a_time_without_its_job => "a-time-without-its-job",
    taken_back_without_a_word => "taken-back-without-a-word",
    a_clock_that_leaped_over_an_absence => "a-clock-that-leaped-over-an-absence",
    an_end_of_a_start_that_was_lost => "an-end-of-a-start-that-was-lost",
    a_gap_whose_mark_was_lost => "a-gap-whose-mark-was-lost",
    a_caretaker_in_the_place_of_a_worker => "a-caretaker-in-the-place-of-a-worker",
}

#[test]
fn every_kept_world_has_its_test() {
    let names = std::fs::read_dir(folder()).into_iter().flatten().flatten().filter_map(|entry| {
        let path = entry.path();
        let is_case = path.extension().is_some_and(|extension| extension == "json");
        is_case.then(|| path.file_stem().map(|stem| stem.to_string_lossy().into_owned())).flatten()
    });
    let names: BTreeSet<String> = names.collect();
    assert_eq!(names, KEPT.iter().map(|name| (*name).to_owned()).collect(), "tests/kept.rs names them all");
}
