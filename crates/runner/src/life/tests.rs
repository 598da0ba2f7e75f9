//! Runners' lives as data: what goes in, and what must come out.

use std::time::Duration;

use protocol::attempt::{
    ArtifactRule, AttemptSpec, CleanupPlan, Effects, End, EndResult, KeepWhen, OnDisconnect, Program, SPEC_FORMAT,
    StopMode, StopPlan, StopReason, Ticket,
};
use protocol::folder::{Claim, FOLDER_FORMAT, FolderSpec, FromRunner, Local, Ownership, RunnerPhase, RunnerRules};
use protocol::folder::{Tally, ToRunner};
use protocol::secret::{SecretValue, SecretValues};
use protocol::state::Caretaker;
use uuid::Uuid;

use super::{Action, DISOWNED, Input, Life};
use crate::folder_io::Claimed;

mod cleanup;

const RUNNER: u32 = 7;
const STEP: Tally = Tally { pid: 70, start_time: 700, dropped_lines: 0, lost_lines: 0 };
const GO: ToRunner = ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None };

/// One life, and its clock.
struct Story {
    life: Life,
    now: Duration,
}

impl Story {
    /// Its worker is there, and has heard `ready`.
    fn waiting(spec: &FolderSpec) -> Self {
        let mut story = Story { life: Life::new(spec, RUNNER), now: Duration::from_secs(1000) };
        let ready = FromRunner::Ready { pid: RUNNER, format: FOLDER_FORMAT };
        assert_eq!(story.give(Input::Connected), [Action::Send(ready)]);
        assert_eq!(story.give(Input::Tick), []);
        story
    }

    fn running(spec: &FolderSpec) -> Self {
        let mut story = Story::waiting(spec);
        story.hear(GO);
        story.give(Input::Claimed(Claimed::Ours));
        story.give(started());
        story
    }

    fn reporting(spec: &FolderSpec) -> Self {
        let mut story = Story::running(spec);
        story.give(exited(0));
        story.give(Input::Drained);
        story.give(Input::Recorded { end: Box::new(end()) });
        story
    }

    fn give(&mut self, input: Input) -> Vec<Action> {
        self.life.handle(input, self.now)
    }

    fn hear(&mut self, message: ToRunner) -> Vec<Action> {
        self.give(Input::Heard(message))
    }

    /// Lets time pass, from one deadline to the next. All that happens, with the second in which it does.
    fn pass(&mut self, seconds: u64) -> Vec<(u64, Action)> {
        let until = self.now + Duration::from_secs(seconds);
        let mut happened = Vec::new();
        for _ in 0..1000 {
            let actions = self.give(Input::Tick);
            happened.extend(actions.into_iter().map(|action| (self.now.as_secs() - 1000, action)));
            if self.now == until {
                return happened;
            }
            self.now = self.life.deadline().map_or(until, |deadline| deadline.clamp(self.now, until));
        }
        panic!("it never rests: {:?}", self.life);
    }
}

fn spec() -> FolderSpec {
    let attempt = AttemptSpec {
        format: SPEC_FORMAT,
        ticket: Ticket { attempt: Uuid::nil(), fence: 1 },
        job: Uuid::nil(),
        task: String::new(),
        step: String::new(),
        number: 1,
        program: Program::Command { argv: Vec::new() },
        env: Default::default(),
        workdir: None,
        timeout_ms: None,
        effects: Effects::Writes,
        on_disconnect: OnDisconnect::Keep,
        lease_ms: None,
        stop: StopPlan { signal: 15, grace_ms: 10_000 },
        cleanup: None,
        secrets: Vec::new(),
        artifacts: None,
        fetch: Vec::new(),
    };
    let local = Local {
        log_lines_max: 10,
        log_bytes_max: 10,
        cgroup_parent: None,
        base_env: Default::default(),
        rules: RunnerRules::default(),
        caretaker: None,
        ends_with_worker: false,
    };
    FolderSpec::new(attempt, local)
}

/// A step that ends with a lease of 96 seconds; the signal comes ten earlier.
fn leased() -> FolderSpec {
    let mut spec = spec();
    spec.attempt.lease_ms = Some(96_000);
    spec.attempt.on_disconnect = OnDisconnect::Stop;
    spec
}

fn with_caretaker() -> FolderSpec {
    let mut spec = spec();
    spec.local.rules.caretaker_after_ms = Some(10_000);
    spec.local.caretaker =
        Some(Caretaker { state: "/state".into(), program: "/bin/true".into(), arguments: Vec::new() });
    spec
}

/// A step that is cleaned up after, in five seconds at most.
fn with_cleanup(mut spec: FolderSpec) -> FolderSpec {
    let program = Program::Command { argv: Vec::new() };
    spec.attempt.cleanup = Some(CleanupPlan { program, budget_ms: 5_000 });
    spec
}

fn started() -> Input {
    Input::Started { pid: STEP.pid, start_time: STEP.start_time }
}

fn said_started() -> Action {
    Action::Send(FromRunner::Started { pid: STEP.pid, start_time: STEP.start_time })
}

fn exited(code: i32) -> Input {
    Input::StepEnded { result: EndResult::Exited { code } }
}

fn stop(mode: StopMode, reason: StopReason) -> ToRunner {
    ToRunner::Stop { mode, reason }
}

fn end() -> End {
    End {
        result: EndResult::Exited { code: 0 },
        stopped: None,
        log_last_seq: 0,
        output: Default::default(),
        output_error: None,
        duration_ms: 0,
        cpu_ms: 0,
        memory_bytes_max: 0,
        cleanup: None,
        artifacts: None,
    }
}

fn refused(why: &str) -> [Action; 3] {
    [Action::DeclareVoid, Action::Send(FromRunner::Refused { why: why.to_owned() }), Action::Leave]
}

/// Only what is done to the step.
fn deeds(happened: Vec<(u64, Action)>) -> Vec<(u64, Action)> {
    let is_deed = |action: &Action| matches!(action, Action::Signal(_) | Action::Kill | Action::SetOwnership(_));
    happened.into_iter().filter(|(_, action)| is_deed(action)).collect()
}

#[test]
fn from_ready_to_bye() {
    let mut story = Story::waiting(&spec());
    assert_eq!(story.hear(GO), [Action::Claim { durable: true }]);
    assert_eq!(story.give(Input::Claimed(Claimed::Ours)), [Action::Spawn { guard_until: None }]);
    assert_eq!(story.give(started()), [said_started()]);
    assert_eq!(story.pass(60), []);
    assert_eq!(story.give(exited(3)), []);
    let ran_for = Duration::from_secs(60);
    let record = Action::Record { result: EndResult::Exited { code: 3 }, stopped: None, ran_for, cleanup: None };
    assert_eq!(story.give(Input::Drained), [record]);
    let said_ended = Action::Send(FromRunner::Ended { end: end() });
    assert_eq!(story.give(Input::Recorded { end: Box::new(end()) }), [said_ended]);
    assert_eq!(story.hear(ToRunner::Bye), [Action::Leave]);
    assert_eq!(story.life.deadline(), None);
}

#[test]
fn a_claim_need_not_survive_a_power_cut_if_the_step_may_run_again() {
    let mut spec = spec();
    spec.attempt.effects = Effects::None;
    assert_eq!(Story::waiting(&spec).hear(GO), [Action::Claim { durable: false }]);
}

#[test]
fn whoever_claims_second_obeys() {
    let mut story = Story::waiting(&spec());
    story.hear(GO);
    assert_eq!(story.give(Input::Claimed(Claimed::Earlier(Claim::Void))), refused("the attempt was declared void"));

    let mut story = Story::waiting(&spec());
    story.hear(GO);
    // Not a word: it may have run.
    assert_eq!(story.give(Input::Claimed(Claimed::Earlier(Claim::Intent))), [Action::Leave]);
}

#[test]
fn what_cannot_be_started_is_an_end_with_a_record() {
    let message = "no such program".to_owned();
    let mut story = Story::waiting(&spec());
    story.hear(GO);
    story.give(Input::Claimed(Claimed::Ours));
    let result = EndResult::SpawnFailed { message: message.clone() };
    let record = Action::Record { result, stopped: None, ran_for: Duration::ZERO, cleanup: None };
    assert_eq!(story.give(Input::StartFailed { message }), [record]);
}

#[test]
fn before_go_a_stop_or_a_signal_makes_it_void_for_ever() {
    let order = stop(StopMode::Graceful, StopReason::Cancelled);
    let told = "the runner was told to stop before the step was started";
    for (input, why) in [(Input::Heard(order), "stopped before it was started"), (Input::ToldToEnd, told)] {
        let mut story = Story::waiting(&spec());
        assert_eq!(story.give(input), refused(why));
        assert_eq!(story.hear(GO), [], "a go after that");
    }
}

#[test]
fn alone_before_go_it_looks_whether_it_is_wanted() {
    let mut story = Story::waiting(&spec());
    assert_eq!(story.pass(60), [], "a worker at its side would tell");
    story.give(Input::Disconnected);
    let looks = story.pass(2);
    assert_eq!(looks.len(), 5, "at once, and twice a second");
    assert!(looks.iter().all(|(_, action)| *action == Action::LookIfWanted));
    assert_eq!(story.give(Input::Unwanted), refused("the attempt was declared void"));
}

#[test]
fn a_worker_that_will_not_come_back_takes_its_runner_along() {
    let mut spec = spec();
    spec.local.ends_with_worker = true;
    let mut story = Story::waiting(&spec);
    story.give(Input::Disconnected);
    assert_eq!(story.give(Input::Tick), refused("its worker is gone, and will not come back"));

    let mut story = Story::running(&spec);
    assert_eq!(story.give(Input::Tick), []);
    story.give(Input::Disconnected);
    assert_eq!(deeds(story.pass(60)), [(0, Action::Signal(15)), (10, Action::Kill)]);
}

#[test]
fn a_new_worker_hears_where_things_stand() {
    let mut story = Story::running(&spec());
    assert_eq!(story.give(Input::Connected), [said_started(), Action::SendLog]);
    assert_eq!(story.hear(GO), [said_started(), Action::SendLog], "one that had not heard");
    let mut story = Story::reporting(&spec());
    assert_eq!(story.give(Input::Connected), [Action::Send(FromRunner::Ended { end: end() })]);
    for (mut story, phase) in [
        (Story::waiting(&spec()), RunnerPhase::Waiting),
        (Story::running(&spec()), RunnerPhase::Running),
        (Story::reporting(&spec()), RunnerPhase::Ended),
    ] {
        assert_eq!(story.hear(ToRunner::Status), [Action::SendStatus(phase)]);
    }
}

#[test]
fn a_stop_is_a_signal_then_its_grace_then_kill() {
    let mut story = Story::running(&spec());
    assert_eq!(story.hear(stop(StopMode::Graceful, StopReason::Cancelled)), [Action::Signal(15)]);
    assert_eq!(story.hear(ToRunner::Status), [Action::SendStatus(RunnerPhase::Stopping)]);
    assert_eq!(story.pass(60), [(10, Action::Kill)]);
}

#[test]
fn the_first_reason_stays_and_a_later_order_can_only_be_harder() {
    let mut story = Story::running(&spec());
    story.hear(stop(StopMode::Graceful, StopReason::Timeout));
    assert_eq!(story.hear(stop(StopMode::Graceful, StopReason::Cancelled)), []);
    assert_eq!(story.hear(stop(StopMode::Kill, StopReason::Cancelled)), [Action::Kill]);
    story.give(exited(1));
    assert_eq!(story.hear(stop(StopMode::Kill, StopReason::Cancelled)), [], "it has ended");
    let actions = story.give(Input::Drained);
    assert!(matches!(actions[..], [Action::Record { stopped: Some(StopReason::Timeout), .. }]), "{actions:?}");
}

#[test]
fn a_timeout_stops_it_once() {
    let mut spec = spec();
    spec.attempt.timeout_ms = Some(30_000);
    let mut story = Story::running(&spec);
    assert_eq!(story.pass(120), [(30, Action::Signal(15)), (40, Action::Kill)]);
    let mut story = Story::running(&spec);
    story.give(exited(0));
    assert_eq!(story.pass(120), [], "an ended step has no deadline");
}

#[test]
fn a_superseded_step_is_disowned_before_it_is_killed() {
    let mut story = Story::running(&leased());
    let actions = story.hear(stop(StopMode::Kill, StopReason::Superseded));
    assert_eq!(actions, [Action::SetOwnership(DISOWNED), Action::Kill]);
}

#[test]
fn cut_off_it_asks_then_signals_then_ends_with_its_lease() {
    let mut story = Story::waiting(&leased());
    story.hear(GO);
    let guard_until = Some(story.now + Duration::from_secs(96));
    assert_eq!(story.give(Input::Claimed(Claimed::Ours)), [Action::Spawn { guard_until }]);
    let ownership = Ownership { confirmed_ms: 1_000_000, until_ms: 1_096_000 };
    assert_eq!(story.give(started()), [Action::SetOwnership(ownership), said_started()]);
    assert_eq!(story.life.lease_alarm(), Some(story.now + Duration::from_secs(86)));
    let happened = story.pass(200);
    let asked = |n, second| (second, Action::Send(FromRunner::Renew { n, asked_at_ms: 1_000_000 + second * 1000 }));
    assert_eq!(happened[..2], [asked(1, 12), asked(2, 24)]);
    let expected = [(86, Action::Signal(15)), (96, Action::SetOwnership(DISOWNED)), (96, Action::Kill)];
    assert_eq!(deeds(happened), expected);
    assert_eq!(story.life.lease_alarm(), None, "an alarm that rings on would keep the loop spinning");
    story.give(Input::StepEnded { result: EndResult::Signaled { signal: 9, oom: false } });
    let actions = story.give(Input::Drained);
    assert!(matches!(actions[..], [Action::Record { stopped: Some(StopReason::LeaseExpired), .. }]), "{actions:?}");
}

#[test]
fn an_answer_counts_from_its_question_even_if_it_is_read_when_the_lease_seems_over() {
    let mut story = Story::running(&leased());
    assert_eq!(deeds(story.pass(85)), []);
    // Frozen: the answer to the last question, of second 84, lies in the socket.
    story.now += Duration::from_secs(60);
    let actions = story.hear(ToRunner::Renewed { n: 7 });
    assert_eq!(actions, [Action::SetOwnership(Ownership { confirmed_ms: 1_084_000, until_ms: 1_180_000 })]);
    assert_eq!(deeds(story.pass(10)), [], "till second 155");
    assert_eq!(deeds(story.pass(200))[0], (170, Action::Signal(15)));
}

#[test]
fn the_lease_ends_it_also_during_the_grace_of_another_stop() {
    let mut spec = leased();
    spec.attempt.stop.grace_ms = 3_600_000;
    let mut story = Story::running(&spec);
    story.hear(stop(StopMode::Graceful, StopReason::Cancelled));
    assert_eq!(deeds(story.pass(200)), [(96, Action::SetOwnership(DISOWNED)), (96, Action::Kill)]);
}

#[test]
fn a_kill_that_the_runner_did_not_send_after_its_lease_is_blamed_on_it() {
    let blamed = |result: EndResult, seconds: u64| {
        let mut story = Story::running(&leased());
        story.now += Duration::from_secs(seconds);
        let disowned = story.give(Input::StepEnded { result }) == [Action::SetOwnership(DISOWNED)];
        let Some(Action::Record { stopped, .. }) = story.give(Input::Drained).pop() else { panic!("no record") };
        assert_eq!(disowned, stopped.is_some());
        stopped
    };
    let killed = EndResult::Signaled { signal: 9, oom: false };
    assert_eq!(blamed(killed.clone(), 96), Some(StopReason::LeaseExpired));
    assert_eq!(blamed(killed, 95), None);
    assert_eq!(blamed(EndResult::Signaled { signal: 9, oom: true }, 96), None);
    assert_eq!(blamed(EndResult::Exited { code: 0 }, 96), None);

    let mut story = Story::running(&leased());
    assert_eq!(deeds(story.pass(90)), [(86, Action::Signal(15))]);
    story.now += Duration::from_secs(6);
    let ended = story.give(Input::StepEnded { result: EndResult::Signaled { signal: 9, oom: false } });
    assert_eq!(ended, [Action::SetOwnership(DISOWNED)], "its guard was quicker");
}

/// Also where it was stopped itself, or the whole machine was.
#[test]
fn a_go_that_is_heard_too_late_is_to_be_asked_for_again() {
    let go = |until_ms| ToRunner::Go { asked_at_ms: Some(990_000), until_ms: Some(until_ms), cannot: None };
    let mut story = Story::waiting(&spec());
    let ready = FromRunner::Ready { pid: RUNNER, format: FOLDER_FORMAT };
    assert_eq!(story.hear(go(999_999)), [Action::Send(ready)]);
    assert_eq!(story.hear(go(1_000_000)), [Action::Claim { durable: true }]);
}

#[test]
fn a_go_that_lay_longer_than_its_lease_starts_nothing() {
    let mut story = Story::waiting(&leased());
    let go = ToRunner::Go { asked_at_ms: Some(1_000_000 - 86_000), until_ms: None, cannot: None };
    assert_eq!(story.hear(go), refused("its lease was over before it was started"));
}

#[test]
fn signs_of_life_come_as_the_rules_say_and_at_once_for_a_new_worker() {
    let rules = |beat_ms| ToRunner::Rules { rules: RunnerRules { beat_ms, caretaker_after_ms: None } };
    let beat = Action::Send(FromRunner::Beat { pid: RUNNER });
    let mut story = Story::running(&spec());
    assert_eq!(story.pass(60), []);
    story.hear(rules(30_000));
    assert_eq!(story.pass(60), [(90, beat.clone()), (120, beat.clone())]);
    story.now += Duration::from_secs(5);
    story.give(Input::Connected);
    assert_eq!(story.give(Input::Tick), [beat]);
    story.hear(rules(0));
    assert_eq!(story.pass(600), []);
}

#[test]
fn left_alone_it_wakes_a_caretaker_in_every_stage() {
    for make in [Story::waiting, Story::running] {
        let mut story = make(&with_caretaker());
        story.give(Input::Disconnected);
        let woken: Vec<u64> = story
            .pass(60)
            .into_iter()
            .filter(|(_, action)| *action == Action::WakeCaretaker)
            .map(|(second, _)| second)
            .collect();
        assert_eq!(woken, [10, 20, 40]);
        story.give(Input::Connected);
        assert!(!story.pass(60).contains(&(70, Action::WakeCaretaker)));
    }
    let mut story = Story::running(&spec());
    story.give(Input::Disconnected);
    assert_eq!(story.pass(600), [], "without a rule");
}

#[test]
fn who_leaves_last_sees_to_it_that_somebody_reads_the_record() {
    let mut story = Story::reporting(&spec());
    assert_eq!(story.pass(60), [(10, Action::Leave)], "a worker that never says bye");

    let mut story = Story::reporting(&spec());
    story.give(Input::Disconnected);
    assert_eq!(story.give(Input::Tick), [Action::Leave], "nobody, and nobody to wake");

    let mut story = Story::reporting(&with_caretaker());
    story.give(Input::Disconnected);
    let mut happens = story.pass(60);
    happens.retain(|(_, action)| *action != Action::LookIfWanted);
    assert_eq!(happens, [(10, Action::WakeCaretaker), (10, Action::Leave)]);
}

#[test]
fn nobody_waits_to_report_from_a_folder_that_was_deleted() {
    let mut story = Story::reporting(&with_caretaker());
    story.give(Input::Disconnected);
    let looks = story.pass(2);
    assert!(looks.len() == 5 && looks.iter().all(|(_, action)| *action == Action::LookIfWanted), "{looks:?}");
    assert_eq!(story.give(Input::Unwanted), [Action::Leave]);
}

fn values(names: &[&str]) -> SecretValues {
    let value = |name: &str| SecretValue::new(format!("value of {name}")).expect("fit");
    names.iter().map(|name| ((*name).to_owned(), value(name))).collect()
}

#[test]
fn a_step_with_secrets_starts_with_all_of_them_or_not_at_all() {
    let mut spec = spec();
    spec.attempt.secrets = vec!["A".to_owned(), "B".to_owned()];
    let mut story = Story::waiting(&spec);
    assert_eq!(story.hear(ToRunner::Secrets { values: values(&["A"]) }), []);
    // The newest count, and nothing that was not asked for.
    assert_eq!(story.hear(ToRunner::Secrets { values: values(&["A", "B", "C"]) }), []);
    assert_eq!(story.hear(GO), [Action::Equip(values(&["A", "B"])), Action::Claim { durable: true }]);

    for given in [None, Some(values(&["A", "C"]))] {
        let mut story = Story::waiting(&spec);
        given.into_iter().for_each(|values| assert_eq!(story.hear(ToRunner::Secrets { values }), []));
        let actions = story.hear(GO);
        let [Action::DeclareVoid, Action::Send(FromRunner::Refused { why }), Action::Leave] = actions.as_slice() else {
            panic!("it goes without: {actions:?}")
        };
        assert!(why.contains("was not handed over"), "{why}");
    }
}

#[test]
fn what_nobody_asked_for_is_not_given() {
    let mut story = Story::waiting(&spec());
    assert_eq!(story.hear(ToRunner::Secrets { values: values(&["A"]) }), []);
    assert_eq!(story.hear(GO), [Action::Claim { durable: true }]);
}

/// Its worker stores them. Should that die, nobody else is left to wake the next one.
#[test]
fn while_its_files_are_stored_it_stays_with_its_worker() {
    assert!(!Story::reporting(&with_caretaker()).pass(600).is_empty(), "without files it does not wait for long");
    let mut spec = with_caretaker();
    let paths = vec!["out".to_owned()];
    spec.attempt.artifacts = Some(ArtifactRule { paths, when: KeepWhen::Success, optional: false, bytes_max: 1 });
    let mut story = Story::reporting(&spec);
    assert_eq!(story.pass(3600), []);
    assert_eq!(story.hear(ToRunner::Bye), [Action::Leave]);

    let mut story = Story::reporting(&spec);
    story.pass(600);
    story.give(Input::Disconnected);
    let alone = story.pass(60);
    let deeds: Vec<&Action> = alone.iter().map(|(_, action)| action).filter(|a| **a != Action::LookIfWanted).collect();
    assert_eq!(deeds, [&Action::WakeCaretaker, &Action::Leave]);
}
