//! What is worth a notice: said when its time comes, once, and nothing else changes by it.

use engine::deadline::Rules;
use engine::event::HookOrder;
use engine::{Event, JobState, NoticeKind, StateName};

use crate::support::script::{changes_of, world};
use crate::support::task::duration;

/// What was noticed after this story: of what, and how many seconds after the submit.
#[track_caller]
fn check(graph: &str, story: &str, expected: &[&str]) {
    let job = world(graph, story).job;
    let told = job.notices().into_iter().map(|notice| {
        let at = notice.at.since(job.created_at).as_secs();
        format!("{} {} {at}", notice.kind.word(), notice.step_name().unwrap_or("-"))
    });
    assert_eq!(told.collect::<Vec<String>>(), expected, "{graph} | {story}");
}

#[test]
fn a_step_that_takes_longer_than_expected_is_noticed_once() {
    let graph = "a[expect:60s], on_notice:x, on_success:y";
    check(graph, "go a; pass 59s; check a", &[]);
    check(graph, "go a; next", &["step_late a 60"]);
    check(graph, "go a; next; next; pass 60s; check a; end a 0", &["step_late a 60"]);
    assert_eq!(world(graph, "go a; next; end a 0").job.header.state, JobState::Success);
    let told = world(graph, "go a; next").job.notices();
    assert!(!told[0].text.contains("items"), "{}", told[0].text);
}

/// The time of each attempt counts by itself; but the step is noticed once.
#[test]
fn an_attempt_after_another_gives_no_second_notice() {
    let graph = "a[expect:60s retry:2 delay:1s]";
    check(graph, "go a; next; end a 1; next; go a; pass 60s; check a", &["step_late a 60"]);
    check(graph, "go a; pass 50s; end a 1; next; go a; pass 50s; check a", &[]);
}

#[test]
fn a_job_is_noticed_by_itself_and_a_hold_does_not_count() {
    let graph = "h[approve] -> a, expect:100s, on_notice:x";
    check(graph, "pass 500s; check job; approve h; go a; pass 99s; check job", &[]);
    check(graph, "pass 500s; check job; approve h; go a; pass 100s; check job; check job", &["job_late - 600"]);
    check(graph, "pass 500s; check job; approve h; go a; pass 99s; end a 0", &[]);
}

/// Its timeout comes as well, in its own time; or with it, after an outage.
#[test]
fn a_notice_is_no_timeout() {
    let graph = "a[expect:60s timeout:90s]";
    for (story, expected) in [("go a; next; next", "step_late a 60"), ("go a; pass 3h; check a", "step_late a 10800")] {
        check(graph, story, &[expected]);
        let world = world(graph, story);
        assert_eq!(world.job.step(world.step_named("a")).state.name(), StateName::Cancelling);
    }
}

#[test]
fn a_cut_off_attempt_is_noticed_when_it_is_back_and_one_that_is_told_to_end_is_not() {
    check("a[expect:60s]", "go a; lost a; pass 61s; check a", &[]);
    check("a[expect:60s]", "go a; lost a; pass 61s; check a; back a; check a", &["step_late a 61"]);
    check("a[expect:60s grace:300s], expect:60s", "go a; cancel; pass 61s; check a; check job", &[]);
}

#[test]
fn a_child_job_and_each_item_are_expected_like_any_step() {
    check("a[child:x expect:60s]", "next", &["step_late a 60"]);
    check("a[each:2 expect:60s unmatched:wait]", "go a[0]; next", &["step_late a 60"]);
}

#[test]
fn what_follows_has_an_id_of_its_own() {
    let graph = "a[expect:60s], on_success:x, on_notice:http://z, on_notice:ops@example.com, on_notice:{notice}";
    let late = changes_of(graph, "go a; pass 60s; check a");
    let ids = late.hooks.iter().map(|order| match order {
        HookOrder::Tell { id, .. } => *id,
        HookOrder::Begin(birth) => birth.id,
    });
    let world = world("a", "");
    let step = Some(world.step_named("a"));
    let expected = [1, 2, 3].map(|number| world.job.id.notice(NoticeKind::StepLate, step, number));
    assert_eq!(ids.collect::<Vec<_>>(), expected);
    let HookOrder::Begin(birth) = &late.hooks[2] else { panic!("a job follows") };
    assert_eq!(*birth.input, "step_late a takes longer than expected: 1m");
    assert_eq!((late.header.state, late.notices.len()), (JobState::Running, 1));
}

#[test]
fn a_queue_that_is_too_old_is_noticed_once_and_deaf_time_does_not_count() {
    let mut world = world("a[unmatched:wait], on_notice:{notice}", "");
    world.rules = Rules { queue_notice: Some(duration("15m")), ..Rules::default() };
    let mut told = Vec::new();
    let a = world.step_named("a");
    for time in ["14m", "1h", "59s", "2s", "1h"] {
        match time {
            "1h" => world.pass_deaf(duration(time), duration("0s")),
            time => world.pass(duration(time)),
        }
        let changes = world.play(&Event::Check { step: a }).expect("a look");
        told.extend(changes.notices.iter().map(|notice| (time, notice.text.clone())));
    }
    assert_eq!(told, [("2s", "has waited for a worker for longer than 15m".to_owned())]);
}

/// Items that wait for the same are one trouble, told of as their step's; each is marked, so that none is looked at again.
#[test]
fn items_that_wait_too_long_are_one_notice_of_their_step() {
    let mut world = world("a[each:3 unmatched:wait], on_notice:{notice}", "");
    world.rules = Rules { queue_notice: Some(duration("15m")), ..Rules::default() };
    world.pass(duration("15m"));
    let mut told = Vec::new();
    for _ in 0..2 {
        for name in ["a[1]", "a[0]", "a[2]"] {
            let item = world.step_named(name);
            let changes = world.play(&Event::Check { step: item }).expect("a look");
            told.extend(
                changes.notices.iter().map(|notice| (notice.step_name().map(str::to_owned), notice.text.clone())),
            );
            assert_eq!(changes.hooks.len(), changes.notices.len());
            assert!(world.job.step(item).queue_old_at.is_some());
        }
    }
    let text = "has items that have waited for a worker for longer than 15m: a[1]";
    assert_eq!(told, [(Some("a".to_owned()), text.to_owned())]);
    let listed: Vec<_> = world.job.notices().into_iter().map(|notice| (notice.step, notice.text)).collect();
    let text = "has items that have waited for a worker for longer than the server's limit";
    assert_eq!(listed, [(Some((world.step_named("a"), "a".to_owned())), text.to_owned())]);
}

/// The same for items that take longer than expected.
#[test]
fn items_that_take_too_long_are_one_notice_of_their_step() {
    let mut world = world("a[each:3 expect:60s], on_notice:{notice}", "go a[0]; go a[1]; go a[2]; pass 60s");
    let mut told = Vec::new();
    for _ in 0..2 {
        for name in ["a[1]", "a[0]", "a[2]"] {
            let item = world.step_named(name);
            let changes = world.play(&Event::Check { step: item }).expect("a look");
            told.extend(
                changes.notices.iter().map(|notice| (notice.step_name().map(str::to_owned), notice.text.clone())),
            );
            assert_eq!(changes.hooks.len(), changes.notices.len());
            assert!(world.job.step(item).late_at.is_some());
        }
    }
    let text = "has items that take longer than expected: 1m: a[1]";
    assert_eq!(told, [(Some("a".to_owned()), text.to_owned())]);
    let listed: Vec<_> = world.job.notices().into_iter().map(|notice| (notice.step, notice.text)).collect();
    let text = "has items that take longer than expected: 1m";
    assert_eq!(listed, [(Some((world.step_named("a"), "a".to_owned())), text.to_owned())]);
}

/// It waits for a worker's answer, or for its own time: neither is for want of a worker.
#[test]
fn a_step_that_nobody_could_take_now_is_not_too_old_in_the_queue() {
    let noticed = |story: &str| {
        let mut world = world("a[unmatched:wait]", story);
        world.rules = Rules { queue_notice: Some(duration("20s")), ..Rules::default() };
        let a = world.step_named("a");
        let changes = world.play(&Event::Check { step: a }).expect("a look");
        changes.notices.iter().any(|notice| notice.kind == NoticeKind::QueueOld)
    };
    assert!(!noticed("pass 19s"));
    assert!(noticed("pass 20s"));
    assert!(!noticed("pass 20s; offer a"));
    assert!(!noticed("offer a; next; offer a; next"), "it is to be offered again in a second");
    assert!(noticed("offer a; next; offer a; next; pass 1s"));
    assert!(noticed("offer a; next; offer a; next; pass 2s"));
    assert!(!noticed("pass 20s; go a"));
}

/// A hundred that are late together are one trouble.
#[test]
fn a_job_has_only_so_many_notices_that_are_carried() {
    let all = |verb: &str, count| (0..count).map(|n| format!("{verb} s{n}")).collect::<Vec<String>>().join("; ");
    let steps = (0..101).map(|n| format!("s{n}[expect:60s]")).collect::<Vec<String>>().join(", ");
    for (count, carried) in [(99, true), (100, true), (101, false)] {
        let story = format!("{}; pass 60s; {}", all("go", count), all("check", count));
        let last = changes_of(&format!("{steps}, on_notice:http://z"), &story);
        assert_eq!((last.hooks.len() == 1, !last.notices[0].kept_quiet), (carried, carried), "{count}: {last:?}");
        assert_eq!(last.header.notices, count);
    }
}
