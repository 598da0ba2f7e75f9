//! After a stop: when there is a cleanup, for how long, and what is said of it.

use protocol::attempt::{CleanupCut, CleanupEnd};

use super::*;

const CANCEL: ToRunner = ToRunner::Stop { mode: StopMode::Graceful, reason: StopReason::Cancelled };
const BEGINS: &str = "--- Cleanup begins: the step was cancelled. It has 5s. ---";

fn note(text: &str) -> Action {
    Action::Note(text.to_owned())
}

fn clean_up(reason: StopReason) -> Action {
    Action::CleanUp { reason }
}

fn killed() -> Input {
    Input::StepEnded { result: EndResult::Signaled { signal: 9, oom: false } }
}

fn terminated() -> Input {
    Input::StepEnded { result: EndResult::Signaled { signal: 15, oom: false } }
}

/// Told to stop, ended, and in the middle of its cleanup.
fn cleaning(spec: FolderSpec) -> Story {
    let mut story = Story::running(&with_cleanup(spec));
    story.hear(CANCEL);
    story.give(terminated());
    assert_eq!(story.give(Input::Drained), [clean_up(StopReason::Cancelled)]);
    assert_eq!(story.give(started()), [note(BEGINS)]);
    story
}

/// The last words, and the end of the cleanup as it is recorded. The step's own end is always the same.
fn close(story: &mut Story) -> (String, CleanupEnd) {
    let actions = story.give(Input::Drained);
    let [Action::Note(words), Action::Record { result, stopped, cleanup, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(*result, EndResult::Signaled { signal: 15, oom: false });
    assert_eq!(*stopped, Some(StopReason::Cancelled));
    (words.clone(), cleanup.clone().expect("it had its turn"))
}

#[test]
fn after_a_cancel_and_before_the_record() {
    let mut story = cleaning(spec());
    assert_eq!(story.hear(ToRunner::Status), [Action::SendStatus(RunnerPhase::Stopping)]);
    assert_eq!(story.give(Input::Connected), [said_started(), Action::SendLog], "a new worker finds it running");
    assert_eq!(story.hear(CANCEL), [], "the same order again");
    assert_eq!(story.pass(2), []);
    story.give(exited(0));
    let (words, end) = close(&mut story);
    assert_eq!(words, "--- Cleanup ended well after 2s ---");
    assert_eq!(end, CleanupEnd { result: EndResult::Exited { code: 0 }, cut: None, duration_ms: 2000 });
}

#[test]
fn nothing_begins_before_the_step_is_gone_and_its_output_read() {
    let mut story = Story::running(&with_cleanup(spec()));
    assert_eq!(story.hear(CANCEL), [Action::Signal(15)]);
    assert_eq!(story.give(Input::Drained), [], "it lives");
    assert_eq!(story.pass(10), [(10, Action::Kill)]);
    assert_eq!(story.give(killed()), []);
    assert_eq!(story.pass(1), [], "its output is being read");
    assert_eq!(story.give(Input::Drained), [clean_up(StopReason::Cancelled)]);
    story.give(started());
    assert_eq!(story.give(Input::Drained), [], "its cleanup lives");
}

#[test]
fn its_time_begins_with_its_process_and_ends_with_kill() {
    let mut story = cleaning(spec());
    assert_eq!(story.pass(60), [(5, Action::Kill)]);
    story.give(killed());
    let (words, end) = close(&mut story);
    assert_eq!(words, "--- Cleanup was killed after 60s: it had 5s ---");
    assert_eq!(end.cut, Some(CleanupCut::Budget));
}

#[test]
fn a_timeout_has_one_too() {
    let mut spec = with_cleanup(spec());
    spec.attempt.timeout_ms = Some(30_000);
    let mut story = Story::running(&spec);
    assert_eq!(story.pass(30), [(30, Action::Signal(15))]);
    story.give(exited(0));
    assert_eq!(story.give(Input::Drained), [clean_up(StopReason::Timeout)]);
    let begins = "--- Cleanup begins: the step took longer than its timeout. It has 5s. ---";
    assert_eq!(story.give(started()), [note(begins)]);
    story.give(exited(3));
    let actions = story.give(Input::Drained);
    assert_eq!(actions[0], note("--- Cleanup failed after 0s: exit code 3 ---"));
    let Action::Record { result, stopped, .. } = &actions[1] else { panic!("{actions:?}") };
    assert_eq!((result, *stopped), (&EndResult::Exited { code: 0 }, Some(StopReason::Timeout)), "the step's own end");
}

#[test]
fn not_after_an_end_of_its_own_a_kill_a_lease_or_a_worker_that_leaves() {
    let records = |story: &mut Story| {
        let actions = story.give(Input::Drained);
        assert!(matches!(actions[..], [Action::Record { cleanup: None, .. }]), "{actions:?}");
    };
    let mut story = Story::running(&with_cleanup(spec()));
    story.give(exited(1));
    story.hear(CANCEL);
    records(&mut story);
    for order in [
        stop(StopMode::Kill, StopReason::Cancelled),
        stop(StopMode::Kill, StopReason::Superseded),
        stop(StopMode::Graceful, StopReason::WorkerStopped),
    ] {
        let mut story = Story::running(&with_cleanup(spec()));
        story.hear(order);
        story.give(killed());
        records(&mut story);
    }
    let mut story = Story::running(&with_cleanup(leased()));
    story.pass(90);
    story.give(terminated());
    records(&mut story);

    let mut story = Story::running(&with_cleanup(spec()));
    story.hear(CANCEL);
    story.give(terminated());
    story.hear(stop(StopMode::Kill, StopReason::Cancelled));
    records(&mut story);
}

#[test]
fn an_order_to_kill_ends_it_at_once() {
    let mut story = cleaning(spec());
    assert_eq!(story.hear(stop(StopMode::Kill, StopReason::Cancelled)), [Action::Kill]);
    assert_eq!(story.hear(stop(StopMode::Kill, StopReason::Cancelled)), [], "once");
    assert_eq!(story.pass(60), []);
    story.give(killed());
    let (words, end) = close(&mut story);
    assert_eq!(words, "--- Cleanup was killed after 60s: the step was to end at once ---");
    assert_eq!(end.cut, Some(CleanupCut::Killed));
}

#[test]
fn a_binding_lease_is_kept_for_it() {
    let mut story = Story::running(&with_cleanup(leased()));
    story.pass(80);
    story.hear(CANCEL);
    story.give(terminated());
    assert_eq!(
        story.give(Input::Drained),
        [clean_up(StopReason::Cancelled)],
        "six seconds before it would be signalled"
    );
    story.give(started());
    let asked = story.give(Input::Tick);
    assert!(matches!(asked[..], [Action::Send(FromRunner::Renew { .. })]), "{asked:?}");
    assert_eq!(story.life.lease_alarm(), Some(Duration::from_secs(1096)));
}

#[test]
fn with_a_lease_that_is_about_to_end_there_is_no_time_for_it() {
    let mut spec = with_cleanup(leased());
    spec.attempt.cleanup.as_mut().expect("it has one").budget_ms = 60_000;
    let mut story = Story::running(&spec);
    story.pass(80);
    story.hear(CANCEL);
    story.give(terminated());
    story.give(Input::Drained);
    story.give(started());
    assert_eq!(deeds(story.pass(60)), [(96, Action::SetOwnership(DISOWNED)), (96, Action::Kill)]);
    story.give(killed());
    let (words, end) = close(&mut story);
    assert_eq!(words, "--- Cleanup was killed after 60s: its lease was over ---");
    assert_eq!(end.cut, Some(CleanupCut::LeaseExpired));

    let mut story = Story::running(&spec);
    story.pass(80);
    story.hear(CANCEL);
    story.pass(6);
    story.give(terminated());
    let actions = story.give(Input::Drained);
    assert!(matches!(actions[..], [Action::Record { cleanup: None, .. }]), "{actions:?}");
}

#[test]
fn one_that_cannot_be_started_is_said_and_nothing_else() {
    let mut story = Story::running(&with_cleanup(spec()));
    story.hear(CANCEL);
    story.give(terminated());
    story.give(Input::Drained);
    let actions = story.give(Input::StartFailed { message: "no such program".to_owned() });
    let [Action::Note(words), Action::Record { cleanup: Some(end), .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(words, "--- Cleanup could not be started: no such program ---");
    assert_eq!(end.result, EndResult::SpawnFailed { message: "no such program".to_owned() });
}

#[test]
fn signs_of_life_go_on() {
    let mut spec = spec();
    spec.local.rules.beat_ms = 1_000;
    let mut story = cleaning(spec);
    let beats = story.pass(3).into_iter().filter(|(_, action)| matches!(action, Action::Send(FromRunner::Beat { .. })));
    assert_eq!(beats.count(), 3);
}
