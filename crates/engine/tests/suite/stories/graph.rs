//! Who runs after whom, who is skipped, and what conditions see.

use expect_test::expect;

use crate::support::script::check;

#[test]
fn a_chain_runs_in_order() {
    check(
        "a -> b -> c",
        "go b; go a; end a 0; go b; end b 0; go c; end c 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go b         | refused: the step is pending, so there is nothing to offer
        go a
        end a 0      | a: running -succeed-> success; b: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; c: pending -enqueue-> queued; b#1 is ended, confirmed; ! forget b
        go c
        end c 0      | c: running -succeed-> success; job: running -> success; c#1 is ended, confirmed; ! forget c
        = job success, a success, b success, c success
    "#]],
    );
}

#[test]
fn a_join_waits_for_all() {
    check(
        "a -> c, b -> c",
        "go a; end a 0; go b; end b 0; go c; end c 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; c: pending -enqueue-> queued; b#1 is ended, confirmed; ! forget b
        go c
        end c 0      | c: running -succeed-> success; job: running -> success; c#1 is ended, confirmed; ! forget c
        = job success, a success, c success, b success
    "#]],
    );
}

#[test]
fn a_failure_skips_what_follows_to_the_end() {
    check(
        "a -> b -> c -> d",
        "go a; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -skip-> skipped; c: pending -skip-> skipped; d: pending -skip-> skipped; job: running -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (exit_code), a failed (exit_code), b skipped, c skipped, d skipped
    "#]],
    );
}

#[test]
fn other_branches_go_on() {
    check(
        "a -> b, c -> d",
        "go a; go c; end a 1; end c 0; go d; end d 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; c: pending -enqueue-> queued
        go a
        go c
        end a 1      | a: running -fail-> failed; b: pending -skip-> skipped; a#1 is ended, confirmed; ! forget a
        end c 0      | c: running -succeed-> success; d: pending -enqueue-> queued; c#1 is ended, confirmed; ! forget c
        go d
        end d 0      | d: running -succeed-> success; job: running -> failed; d#1 is ended, confirmed; ! forget d
        = job failed (exit_code), a failed (exit_code), b skipped, c success, d success
    "#]],
    );
}

#[test]
fn an_edge_may_ask_for_failure() {
    check(
        "a -failed-> b, a -> c",
        "go a; end a 1; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -enqueue-> queued; c: pending -skip-> skipped; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; job: running -> failed; b#1 is ended, confirmed; ! forget b
        = job failed (exit_code), a failed (exit_code), b success, c skipped
    "#]],
    );
}

#[test]
fn an_edge_that_asks_for_failure_is_not_met_by_success() {
    check(
        "a -failed-> b -> c",
        "go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; b: pending -skip-> skipped; c: pending -skip-> skipped; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success, b skipped, c skipped
    "#]],
    );
}

#[test]
fn an_edge_may_take_skips() {
    check(
        "a -> b -success|skipped-> c",
        "go a; end a 1; go c; end c 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -skip-> skipped; c: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        go c
        end c 0      | c: running -succeed-> success; job: running -> failed; c#1 is ended, confirmed; ! forget c
        = job failed (exit_code), a failed (exit_code), b skipped, c success
    "#]],
    );
}

#[test]
fn allowed_failure_counts_as_success() {
    check(
        "a[allow_failure] -> b",
        "go a; end a 1; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; job: running -> success; b#1 is ended, confirmed; ! forget b
        = job success, a failed (exit_code), b success
    "#]],
    );
}

#[test]
fn allowed_failure_is_no_failure_for_conditions() {
    check(
        "a[allow_failure] -> b[if:failure()]",
        "go a; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -skip-> skipped; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a failed (exit_code), b skipped
    "#]],
    );
}

#[test]
fn allowed_failure_also_meets_an_edge_on_failed() {
    check(
        "a[allow_failure] -failed-> b",
        "go a; end a 1; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; job: running -> success; b#1 is ended, confirmed; ! forget b
        = job success, a failed (exit_code), b success
    "#]],
    );
}

#[test]
fn allowed_failure_does_not_forgive_a_skip() {
    check(
        "x -> a[allow_failure] -> b",
        "go x; end x 1",
        expect![[r#"
        submit       | x: pending -enqueue-> queued
        go x
        end x 1      | x: running -fail-> failed; a: pending -skip-> skipped; b: pending -skip-> skipped; job: running -> failed; x#1 is ended, confirmed; ! forget x
        = job failed (exit_code), x failed (exit_code), a skipped, b skipped
    "#]],
    );
}

#[test]
fn failure_is_seen_from_afar_through_skips() {
    check(
        "a -> b -> c[if:failure()]",
        "go a; end a 1; go c; end c 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -skip-> skipped; c: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        go c
        end c 0      | c: running -succeed-> success; job: running -> failed; c#1 is ended, confirmed; ! forget c
        = job failed (exit_code), a failed (exit_code), b skipped, c success
    "#]],
    );
}

#[test]
fn failure_is_not_seen_where_nothing_failed() {
    check(
        "a[if:false] -> b -> c[if:failure()]",
        "",
        expect![[r#"
        submit       | a: pending -skip-> skipped; b: pending -skip-> skipped; c: pending -skip-> skipped; job: pending -> success
        = job success, a skipped, b skipped, c skipped
    "#]],
    );
}

#[test]
fn always_runs_after_failure() {
    check(
        "a -> b[if:always()]",
        "go a; end a 1; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; job: running -> failed; b#1 is ended, confirmed; ! forget b
        = job failed (exit_code), a failed (exit_code), b success
    "#]],
    );
}

#[test]
fn success_is_false_after_failure() {
    check(
        "a -> b[if:success()]",
        "go a; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -skip-> skipped; job: running -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (exit_code), a failed (exit_code), b skipped
    "#]],
    );
}

#[test]
fn a_condition_sees_an_earlier_step() {
    check(
        "a -> b[if:used() uses:a]",
        "go a; end a 0; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; b: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; job: running -> success; b#1 is ended, confirmed; ! forget b
        = job success, a success, b success
    "#]],
    );
}

#[test]
fn a_bad_condition_fails_the_step() {
    check(
        "a -> b[if:nonsense] -> c",
        "go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; b: pending -fail-> failed; c: pending -skip-> skipped; job: running -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (template), a success, b failed (template), c skipped
    "#]],
    );
}

#[test]
fn a_template_that_cannot_be_filled_fails_the_step() {
    check(
        "a[argv:{bad}] -> b[if:failure()]",
        "",
        expect![[r#"
        submit       | a: pending -fail-> failed; b: pending -enqueue-> queued
        = job pending, a failed (template), b queued
    "#]],
    );
}

#[test]
fn a_job_of_skips_succeeds() {
    check(
        "a[if:false] -> b",
        "",
        expect![[r#"
        submit       | a: pending -skip-> skipped; b: pending -skip-> skipped; job: pending -> success
        = job success, a skipped, b skipped
    "#]],
    );
}

#[test]
fn two_edges_to_one_step_count_twice() {
    check(
        "a -> b, a -failed|success-> b",
        "go a; end a 0; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; b: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; job: running -> success; b#1 is ended, confirmed; ! forget b
        = job success, a success, b success
    "#]],
    );
}

#[test]
fn a_rejected_need_skips_with_the_right_reason() {
    check(
        "a[approve] -> b",
        "reject a",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        reject a     | a: held -reject-> cancelled; b: pending -skip-> skipped; job: held -> cancelled
        = job cancelled (rejected), a cancelled (rejected), b skipped
    "#]],
    );
}

#[test]
fn a_rejection_is_no_failure() {
    check(
        "a[approve] -> b[if:failure()]",
        "reject a",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        reject a     | a: held -reject-> cancelled; b: pending -skip-> skipped; job: held -> cancelled
        = job cancelled (rejected), a cancelled (rejected), b skipped
    "#]],
    );
}

#[test]
fn one_failure_among_needs_is_enough() {
    check(
        "a -> c[if:failure()], b -> c",
        "go a; end a 1; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; c: pending -enqueue-> queued; b#1 is ended, confirmed; ! forget b
        = job running, a failed (exit_code), c queued, b success
    "#]],
    );
}

#[test]
fn all_needs_must_be_met() {
    check(
        "a -> c, b -> c",
        "go a; end a 1; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; c: pending -skip-> skipped; job: running -> failed; b#1 is ended, confirmed; ! forget b
        = job failed (exit_code), a failed (exit_code), c skipped, b success
    "#]],
    );
}

#[test]
fn allowed_failure_meets_only_edges_on_success_or_failed() {
    check(
        "a[allow_failure] -skipped-> b",
        "go a; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; b: pending -skip-> skipped; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a failed (exit_code), b skipped
    "#]],
    );
}
