//! One suite for every store: what a [`Store`] and its [`Reader`](crate::Reader) must do.
//!
//! The tests of a store give it a [`Fixture`] and call [`conformance_tests!`](crate::conformance_tests), which makes
//! one test of every case. A case opens a database of its own, and asks only through the two traits.
//!
//! Whatever two servers may write at once has a case in [`races`], [`races_workers`] or [`races_tidy`], in which two connections do. The
//! others need none: cases that only read (`checks`, `listing`, `artifacts`, and what comes back as it was written), since readers lock
//! nothing and see what is committed; cases of what is refused whoever asks (bad rows, gaps, overlaps); cases of a crash, which leaves one
//! connection; and rows that one server alone writes, its own in `servers`.
//!
//! [`alike::play`] is for pairs of stores: it has both do the same random things, and compares every answer.

pub mod access;
pub mod alike;
pub mod artifacts;
pub mod beats;
pub mod checks;
pub mod children;
pub mod events;
pub mod groups;
pub mod healthy;
pub mod jobs;
pub mod leases;
pub mod listing;
pub mod logs;
pub mod outbox;
pub mod races;
pub mod races_tidy;
pub mod races_workers;
pub mod retention;
pub mod servers;
pub mod triggers;

mod scene;

use crate::Store;

/// A database for one case.
pub trait Fixture {
    /// Opens it; it is empty the first time.
    fn open(&mut self) -> Box<dyn Store>;

    /// A second server's store on the same database, while the first one is open; none where there can be only one.
    fn open_beside(&mut self) -> Option<Box<dyn Store>> {
        None
    }

    /// Ends the server that has it open as a power cut would: nothing more is written, only what was durable stays.
    fn crash(&mut self, store: Box<dyn Store>);
}

/// Makes a test of every case; the expression makes a new [`Fixture`].
#[macro_export]
macro_rules! conformance_tests {
    ($fixture:expr) => {
        $crate::conformance_tests! { @cases $fixture;
            jobs::every_step_state_comes_back,
            jobs::what_is_held_since_a_restore_comes_back,
            jobs::every_job_state_comes_back,
            jobs::what_is_not_there_is_none,
            jobs::many_are_read_as_each_of_them_is,
            jobs::a_new_job_never_replaces_one,
            jobs::a_job_that_moved_is_left_out_whole,
            jobs::an_update_of_a_job_that_is_not_there_is_a_conflict,
            jobs::several_writes_of_one_job_count_as_one,
            jobs::a_batch_with_a_bad_row_leaves_nothing,
            jobs::jobs_share_a_definition,
            jobs::a_definition_that_is_missing_is_said,
            jobs::attempts_keep_their_history,
            jobs::that_an_attempt_began_stays_on_record,
            jobs::the_first_late_outcome_stays,
            jobs::evidence_goes_with_the_end_that_it_counts_on,
            jobs::a_job_knows_which_it_continues_and_which_goes_on,
            jobs::two_who_go_on_at_the_same_time_are_in_conflict,
            jobs::a_taken_key_is_a_conflict,
            jobs::committed_work_survives_a_crash,
            checks::the_earliest_is_due_first,
            checks::what_is_final_has_no_check,
            checks::queued_means_without_an_offer,
            checks::offers_and_attempts_are_held,
            checks::an_attempt_has_a_place_from_its_offer_on,
            checks::a_look_ahead_finds_what_single_looks_find,
            children::a_child_knows_whose_it_is,
            children::a_family_is_found_by_its_ids,
            children::who_is_tied_to_a_job_that_moved_is_left_out,
            children::a_child_that_is_there_already_is_left_out_with_its_parent,
            events::numbers_grow_and_pages_follow,
            events::events_of_one_job_are_its_own,
            events::numbers_never_return,
            groups::who_waits_stands_in_line_by_priority_and_age,
            groups::an_admitted_job_has_a_slot_until_it_is_over,
            groups::what_may_still_run_keeps_its_place,
            groups::two_who_admit_at_once_are_in_conflict,
            groups::an_admission_falls_with_what_made_room_for_it,
            groups::an_idle_group_is_forgotten,
            leases::a_lease_is_taken_and_kept,
            leases::a_lease_that_is_held_is_refused_alone,
            leases::a_lease_that_is_over_is_taken_with_the_next_epoch,
            leases::a_batch_under_a_lease_that_was_taken_undoes_itself,
            leases::nothing_is_deleted_under_a_lease_that_was_taken,
            leases::a_lease_survives_a_crash,
            logs::chunks_follow_each_other,
            logs::a_repeat_changes_nothing,
            logs::a_gap_is_refused,
            logs::an_overlap_is_refused,
            logs::what_is_no_log_is_refused,
            logs::complete_is_a_word_of_its_own,
            logs::a_whole_log_stays_whole,
            logs::pages_hold_at_least_one_chunk,
            logs::marks_stand_between_lines,
            logs::a_log_is_closed_in_time_and_opened_again,
            logs::a_whole_log_has_no_deadline,
            outbox::a_delivery_goes_on_from_where_it_was,
            outbox::what_is_given_up_is_listed_until_it_is_tried_again,
            outbox::a_job_that_follows_on_another_knows_it,
            artifacts::what_a_step_left_is_wanted,
            artifacts::what_came_late_is_wanted_too,
            beats::beats_add_up,
            beats::a_break_begins_a_new_stretch,
            beats::the_longest_silent_is_the_most_stale,
            listing::the_newest_come_first_page_by_page,
            listing::filters_narrow_it,
            listing::a_prefix_finds_its_jobs,
            listing::counts_follow_the_states,
            access::fences_only_grow,
            access::fences_survive_a_crash,
            access::every_hello_has_an_epoch_of_its_own,
            access::an_unknown_worker_cannot_say_hello,
            access::being_seen_touches_nothing_else,
            access::an_operators_word_on_a_worker_stays,
            access::who_left_is_marked_until_the_next_hello,
            access::a_used_epoch_only_grows,
            access::the_newest_mass_loss_is_kept,
            access::the_last_mark_is_what_counts,
            access::tokens_come_back_and_are_revoked_once,
            access::an_enroll_token_is_spent,
            access::only_a_good_enroll_token_enrolls,
            access::a_worker_that_cannot_be_made_spends_nothing,
            access::one_use_makes_one_worker_in_a_race,
            access::secrets_are_replaced_by_name_and_removed,
            access::tasks_are_replaced_by_name,
            access::meta_keeps_the_last_word,
            retention::a_job_that_goes_is_gone_at_once_and_its_rows_in_pieces,
            retention::only_what_is_over_and_has_not_moved_goes,
            retention::numbers_of_events_that_went_never_return,
            retention::all_that_speaks_against_it_is_said,
            retention::a_log_that_goes_leaves_a_word,
            retention::a_definition_goes_when_no_job_has_it,
            retention::what_belongs_to_no_job_goes_a_few_at_a_time,
            retention::a_worker_that_has_nothing_departs,
            retention::what_was_begun_goes_on_after_a_crash,
            races::of_two_who_move_a_job_one_wins,
            races::of_two_who_begin_the_same_job_one_wins,
            races::of_who_ends_a_child_and_who_calls_its_parent_off_one_wins,
            races::of_two_who_submit_with_one_key_one_wins,
            races::of_two_who_go_on_for_a_job_one_wins,
            races::of_two_who_admit_one_wins,
            races::of_two_who_fire_a_trigger_one_wins,
            races::of_two_who_greet_a_worker_one_wins,
            races::of_two_who_mark_one_wins,
            races::of_two_who_claim_a_lease_one_wins,
            races::who_deletes_and_who_takes_the_lease_wait_for_each_other,
            races::of_two_who_enroll_one_wins,
            races::two_who_append_the_same_lines_add_them_once,
            races::two_who_want_the_same_jobs_wait_for_each_other,
            races::numbers_are_given_once,
            races::who_follows_the_numbers_misses_nothing,
            races::of_two_who_deliver_a_word_one_wins,
            races::of_two_late_ends_one_stays,
            races::two_who_mark_a_log_leave_each_word_once,
            races::who_closes_a_log_and_who_brings_its_end_are_both_heard,
            races::of_two_who_delete_a_job_one_does,
            races::who_submits_and_who_deletes_its_definition_wait_for_each_other,
            races::two_who_drop_a_log_leave_one_word,
            races::who_greets_a_worker_and_who_deletes_it_wait_for_each_other,
            races::of_two_who_revoke_or_remove_one_does,
            races::of_two_who_say_something_the_last_word_stays,
            races_workers::who_drains_or_removes_a_worker_and_who_greets_it_are_both_heard,
            races_workers::of_two_who_remove_a_worker_the_first_stays,
            races_workers::an_old_links_last_words_do_not_touch_a_newer_one,
            races_workers::two_who_bring_evidence_of_one_attempt_are_both_heard,
            races_workers::of_two_mass_losses_one_is_kept_whole,
            races_workers::who_ends_a_mass_loss_and_who_tells_of_another_are_both_heard,
            races_workers::two_who_flush_signs_of_life_lose_none,
            races_workers::who_prunes_signs_of_life_and_who_flushes_them_wait_for_each_other,
            races_tidy::who_forgets_a_group_and_who_admits_to_it_wait_for_each_other,
            races_tidy::what_belongs_to_no_job_goes_once,
            races_tidy::who_sets_a_logs_deadline_and_who_ends_it_are_both_heard,
            servers::every_start_is_a_generation,
            servers::a_server_shows_that_it_lives_and_says_that_it_goes,
            servers::a_mark_that_another_server_overtook_is_left_out_alone,
            servers::a_hello_that_was_overtaken_undoes_its_batch,
            servers::an_old_links_word_does_not_count,
            servers::a_log_that_is_due_names_its_worker,
            servers::changes_are_found_by_their_numbers,
            servers::two_servers_race_and_one_of_them_wins,
            triggers::a_trigger_comes_back_as_it_was_written,
            triggers::triggers_are_due_in_their_order,
            triggers::a_trigger_that_moved_is_left_out_with_its_jobs,
            triggers::a_trigger_is_left_out_with_a_job_that_moved,
        }
    };
    (@cases $fixture:expr; $($module:ident::$case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::$module::$case(&mut $fixture);
            }
        )*
    };
}
