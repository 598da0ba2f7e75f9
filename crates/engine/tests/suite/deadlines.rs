//! Who must move a step, when it is looked at next, and what happens then: for each story about step `a`, as a table.

use std::fmt::Write as _;
use std::time::Duration;

use engine::deadline::{Action, Rules};
use engine::{Clocks, Event, Heard};
use expect_test::{Expect, expect};

use crate::support::script::world;
use crate::support::world::START;

#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a value, and a call reads better without `&`")]
fn check(stories: &[(&str, &str)], expected: Expect) {
    let mut table = String::new();
    for (graph, story) in stories {
        let world = world(graph, story);
        let check = world.job.step(world.step_named("a")).check_at(&world.clocks()).expect("not final");
        let wait = Duration::from_micros(u64::try_from(check.at.0 - world.now.0).expect("never in the past"));
        let (owner, action) = (check.owner.word(), check.action.word());
        let _ = writeln!(table, "{graph} | {story} | {owner}, {}s: {action}", wait.as_secs_f64());
    }
    expected.assert_eq(&table);
}

/// Nothing is looked at again in the same moment, unless its time has come: that would be a loop.
#[test]
fn of_a_queued_step() {
    check(
        &[
            ("a", ""),
            ("a[unmatched:8h]", ""),
            ("a[unmatched:wait]", ""),
            // Once its patience is over it is looked at again and again, however short the patience.
            ("a", "pass 29s; check a"),
            ("a", "pass 30s; check a"),
            ("a[unmatched:0s]", "check a"),
            ("a[unmatched:8h]", "pass 8h; check a"),
            ("a", "offer a"),
            ("a", "offer a; next"),
            ("a", "offer a; next; offer a; next"),
            ("a", "offer a; next; offer a; next; check a; pass 1s; check a"),
            ("a", "offer a; next; offer a; next; pass 2s; check a"),
        ],
        expect![[r#"
            a |  | dispatcher, 30s: decide_unmatched
            a[unmatched:8h] |  | dispatcher, 3600s: look_again
            a[unmatched:wait] |  | dispatcher, 3600s: look_again
            a | pass 29s; check a | dispatcher, 1s: decide_unmatched
            a | pass 30s; check a | dispatcher, 30s: decide_unmatched
            a[unmatched:0s] | check a | dispatcher, 1s: decide_unmatched
            a[unmatched:8h] | pass 8h; check a | dispatcher, 3600s: decide_unmatched
            a | offer a | worker, 10s: withdraw_offer
            a | offer a; next | dispatcher, 20s: decide_unmatched
            a | offer a; next; offer a; next | dispatcher, 1s: look_again
            a | offer a; next; offer a; next; check a; pass 1s; check a | dispatcher, 9s: decide_unmatched
            a | offer a; next; offer a; next; pass 2s; check a | dispatcher, 8s: decide_unmatched
        "#]],
    );
}

/// A notice has its time in the row like everything else, so that somebody looks then.
#[test]
fn of_a_step_that_waits_too_long() {
    for (story, due) in [("", Some(900)), ("pass 100s", Some(900)), ("deaf 60s 0s", Some(960)), ("offer a", None)] {
        let mut world = world("a[unmatched:wait]", story);
        let a = world.step_named("a");
        world.rules = Rules { queue_notice: Some(Duration::from_secs(900)), ..Rules::default() };
        world.play(&Event::Check { step: a }).expect("a look");
        let check = world.job.step(a).check.expect("not final");
        let at = (check.action == Action::GiveNotice).then(|| check.at.since(START).as_secs());
        assert_eq!(at, due, "{story}");
    }
}

#[test]
fn of_a_job_that_is_expected() {
    for (graph, action, seconds) in [
        ("a, expect:60s", Action::GiveNotice, 60),
        ("a, expect:60s, timeout:90s", Action::GiveNotice, 60),
        ("a, expect:60s, timeout:30s", Action::CancelForTimeout, 30),
    ] {
        let check = world(graph, "").job.header.check.expect("not final");
        assert_eq!((check.action, check.at), (action, START + Duration::from_secs(seconds)), "{graph}");
    }
}

#[test]
fn of_an_attempt() {
    check(
        &[
            ("a", "go a"),
            ("a[timeout:60s]", "go a"),
            ("a[timeout:8h]", "go a"),
            ("a", "go a; lost a"),
            ("a", "go a; lost a; pass 119s; check a"),
            ("a[grace:30s]", "go a; cancel"),
            ("a", "go a; force"),
        ],
        expect![[r#"
            a | go a | worker, 3600s: look_again
            a[timeout:60s] | go a | worker, 61s: stop_for_timeout
            a[timeout:8h] | go a | worker, 3600s: look_again
            a | go a; lost a | worker, 120s: decide_loss
            a | go a; lost a; pass 119s; check a | worker, 1s: decide_loss
            a[grace:30s] | go a; cancel | worker, 40s: force_cancel
            a | go a; force | worker, 10s: force_cancel
        "#]],
    );
}

/// What was foreseen when the row was written moves with the deaf time since; what is no silence does not.
#[test]
fn after_deaf_time() {
    check(
        &[
            ("a", "pass 20s; deaf 1h 90s"),
            ("a", "pass 20s; deaf 1h 5s"),
            ("a", "offer a; pass 3s; deaf 1h 90s"),
            ("a", "go a; lost a; pass 20s; deaf 1h 90s"),
            ("a", "go a; lost a; pass 40s; deaf 1h 90s"),
            ("a[timeout:59m]", "go a; deaf 30m 90s"),
        ],
        expect![[r#"
            a | pass 20s; deaf 1h 90s | dispatcher, 90s: decide_unmatched
            a | pass 20s; deaf 1h 5s | dispatcher, 5s: decide_unmatched
            a | offer a; pass 3s; deaf 1h 90s | worker, 7s: withdraw_offer
            a | go a; lost a; pass 20s; deaf 1h 90s | worker, 100s: decide_loss
            a | go a; lost a; pass 40s; deaf 1h 90s | worker, 90s: decide_loss
            a[timeout:59m] | go a; deaf 30m 90s | worker, 1741s: stop_for_timeout
        "#]],
    );
}

/// Another server may have written the row, which had to listen for longer: nobody looks before the row's own time.
#[test]
fn by_the_clocks_of_another_server() {
    for story in ["deaf 1s 200s; go a; lost a", "deaf 1s 200s; check a"] {
        let world = world("a", story);
        let step = world.job.step(world.step_named("a"));
        let row = step.check.expect("not final");
        let others = Clocks { verdicts_from: Heard::MIN, ..world.clocks() };
        assert_eq!(step.check_at(&others), Some(row), "{story}");
        assert_eq!(row.at, world.now + Duration::from_secs(200), "{story}");
    }
}

/// A server that was silent for long may have started it a moment ago, before it was found to be gone.
#[test]
fn nothing_is_lost_before_it_began() {
    for (story, left) in [("pass 9m; go a", 120), ("pass 9m; go a; pass 20s", 100)] {
        let mut world = world("a", story);
        let step = world.step_named("a");
        let (ticket, epoch) = (world.ticket(step), world.epoch_of(step));
        let since = Heard(world.heard().0 - 500_000_000);
        world.play(&Event::ServerLost { ticket, epoch, since }).expect("it runs");
        let due = world.next_check().expect("its window");
        assert_eq!(due, world.now + Duration::from_secs(left), "{story}");
    }
}

/// The lease ends well before the window, after which somebody else may get the step.
#[test]
fn a_lease_is_four_fifths_of_the_window() {
    let rules = Rules { recovery_window: Duration::from_secs(60), ..Rules::default() };
    assert_eq!(rules.lease(), Duration::from_secs(48));
}
