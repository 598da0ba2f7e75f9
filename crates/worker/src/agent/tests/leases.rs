//! Leases, renewals and signs of life.

use std::time::Duration;

use protocol::attempt::{AttemptSpec, OnDisconnect};
use protocol::folder::FromRunner;
use protocol::link::{Heartbeat, Loss, Renewal, RunnerBeat, ServerMessage, VerdictKind, WorkerMessage};

use super::{RULES, Story, found, go, ready, said_lost, spec, ticket, verdict, welcome};
use crate::agent::{Action, Finding, Found, FoundLease, Input};

const LENGTH: Duration = Duration::from_secs(40);
/// What the runner gets on top: a second at most.
const HEADSTART: Duration = Duration::from_secs(1);

fn bound(id: u64) -> Box<AttemptSpec> {
    let mut spec = spec(id);
    spec.on_disconnect = OnDisconnect::Stop;
    spec.lease_ms = Some(40_000);
    spec
}

/// With a step that runs since 0 s and ends with its lease.
fn running() -> Story {
    let mut story = Story::linked(2);
    story.hear(ServerMessage::Offer { number: 1, spec: bound(1) });
    story.runner(1, ready());
    story.hear(go(1));
    story.runner(1, FromRunner::Started { pid: 77, start_time: 1 });
    story
}

fn asks(story: &mut Story, n: u64) -> Vec<Action> {
    let asked_at_ms = u64::try_from(story.now.as_millis()).expect("small");
    story.runner(1, FromRunner::Renew { n, asked_at_ms })
}

fn renewal(n: u64) -> Vec<Renewal> {
    vec![Renewal { ticket: ticket(1), n }]
}

fn end_lease() -> Action {
    Action::EndLease { ticket: ticket(1) }
}

/// When the agent ends the step, if nothing happens before `seconds` have passed.
fn ended_within(story: &mut Story, seconds: u64) -> bool {
    story.pass(seconds).contains(&end_lease())
}

#[test]
fn questions_and_answers_are_passed_on() {
    let mut story = running();
    assert_eq!(asks(&mut story, 1), [Action::Send(WorkerMessage::Renew { renewals: renewal(1) })]);
    let answer = ServerMessage::Renewed { renewals: renewal(1) };
    assert_eq!(story.hear(answer), [Action::Renewed { ticket: ticket(1), n: 1 }]);
    let other = ServerMessage::Renewed { renewals: vec![Renewal { ticket: ticket(9), n: 1 }] };
    assert_eq!(story.hear(other), [], "of an attempt that is not here");
}

#[test]
fn a_runner_that_does_not_act_is_acted_for_once() {
    let mut story = running();
    story.now = LENGTH + HEADSTART - Duration::from_millis(1);
    assert!(!story.give(Input::Tick).contains(&end_lease()));
    assert_eq!(story.agent.deadline(), Some(LENGTH + HEADSTART).min(story.agent.deadline()));
    story.now = LENGTH + HEADSTART;
    assert!(story.give(Input::Tick).contains(&end_lease()));
    assert!(!ended_within(&mut story, 600), "once is enough");
    let lost = Finding::Lost { loss: Loss::LeaseExpired, detail: "over".to_owned() };
    let actions = story.give(Input::Examined { ticket: ticket(1), finding: lost });
    assert_eq!(actions[0], said_lost(Loss::LeaseExpired, "over"));
}

#[test]
fn an_answer_counts_from_the_question() {
    let mut story = running();
    story.now = Duration::from_secs(10);
    asks(&mut story, 1);
    story.now = Duration::from_secs(30);
    story.hear(ServerMessage::Renewed { renewals: renewal(1) });
    // 10 + 40 + 1.
    assert!(!ended_within(&mut story, 20));
    assert!(ended_within(&mut story, 1));
}

#[test]
fn questions_asked_without_a_link_are_asked_on_the_next() {
    let mut story = running();
    story.give(Input::LinkDown);
    for n in 1..=3 {
        story.now += Duration::from_secs(5);
        assert_eq!(asks(&mut story, n), []);
    }
    story.give(Input::LinkUp);
    let actions = story.hear(welcome(vec![verdict(1, VerdictKind::Continue, 0)]));
    assert!(actions.contains(&Action::Send(WorkerMessage::Renew { renewals: renewal(3) })), "{actions:?}");
}

#[test]
fn a_found_lease_goes_on_where_it_was() {
    let lease = Some(FoundLease { length: LENGTH, from: Duration::from_secs(100) });
    let mut story = Story::new(1, vec![Found { lease, ..found(1, Finding::Running) }]);
    story.now = Duration::from_secs(120);
    assert!(!ended_within(&mut story, 20));
    assert!(ended_within(&mut story, 1));
}

#[test]
fn a_step_that_keeps_running_is_left_alone() {
    let mut kept = spec(1);
    kept.lease_ms = Some(40_000);
    let mut story = Story::linked(2);
    story.hear(ServerMessage::Offer { number: 1, spec: kept });
    story.runner(1, ready());
    story.hear(go(1));
    assert!(!ended_within(&mut story, 600));
}

#[test]
fn the_last_sign_of_each_runner_is_in_the_heartbeat() {
    let mut story = Story::running();
    story.now += Duration::from_secs(7);
    story.runner(1, FromRunner::Beat { pid: 7 });
    story.now += Duration::from_secs(23);
    let actions = story.agent.handle(Input::Tick, story.now);
    let beats = actions.iter().find_map(|action| match action {
        Action::Send(WorkerMessage::Heartbeat(Heartbeat { runners, .. })) => Some(runners.clone()),
        _ => None,
    });
    assert_eq!(beats, Some(vec![RunnerBeat { ticket: ticket(1), pid: 7, age_ms: 23_000 }]));
}

#[test]
fn runners_hear_the_rules_when_they_are_new() {
    let rules = |actions: Vec<Action>| -> Vec<_> {
        actions.into_iter().filter(|action| matches!(action, Action::Rules { .. })).collect()
    };
    let mut story = Story::new(1, vec![found(1, Finding::Running)]);
    story.give(Input::LinkUp);
    let told = [Action::Rules { ticket: ticket(1), rules: RULES }];
    assert_eq!(rules(story.agent.handle(Input::Frame(vec![welcome(Vec::new())]), story.now)), told);
    story.give(Input::LinkDown);
    story.give(Input::LinkUp);
    assert_eq!(rules(story.agent.handle(Input::Frame(vec![welcome(Vec::new())]), story.now)), [], "nothing new");
    let examined = Input::Examined { ticket: ticket(1), finding: Finding::Running };
    assert_eq!(rules(story.agent.handle(examined, story.now)), told, "a new connection");
}

/// Nobody but its runner knew of its lease before.
#[test]
fn the_lease_of_what_could_not_be_read_is_guarded_when_it_can() {
    let mut story = Story::new(1, vec![found(1, Finding::Unreadable)]);
    assert!(!ended_within(&mut story, 600));
    story.give(Input::Recognised { ticket: ticket(1), spec: bound(1) });
    story.give(Input::Examined { ticket: ticket(1), finding: Finding::Running });
    assert!(!ended_within(&mut story, 40), "it may just have begun");
    assert!(ended_within(&mut story, 1));
}

#[test]
fn the_next_hello_says_how_far_the_last_link_came() {
    let mut story = running();
    story.give(Input::LinkDown);
    let actions = story.give(Input::LinkUp);
    let [Action::Send(WorkerMessage::Hello(hello))] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(hello.processed, 11);
}
