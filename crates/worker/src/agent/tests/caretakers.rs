//! Caretakers, and folders that cannot be read.

use std::time::Duration;

use protocol::link::{HeldState, Hello, RefuseReason, RefusedCode, VerdictKind, WorkerMessage};

use super::{Story, end, forget, found, hello, offer, refused, stop, ticket, verdict, welcome};
use crate::agent::{Action, Agent, ExitReason, Finding, Found, Input, Word};

fn caretaker(found: Vec<Found>) -> Story {
    let hello = Hello { caretaker: true, ..hello(2) };
    Story { agent: Agent::new(hello, false, found), now: Duration::ZERO }
}

fn linked(found: Vec<Found>) -> Story {
    let verdicts = found.iter().map(|found| verdict(found.ticket.fence - 100, VerdictKind::Continue, 0)).collect();
    let mut story = caretaker(found);
    story.give(Input::LinkUp);
    story.hear(welcome(verdicts));
    story
}

fn exits(actions: &[Action]) -> Option<ExitReason> {
    actions.iter().find_map(|action| match action {
        Action::Exit(reason) => Some(reason.clone()),
        _ => None,
    })
}

#[test]
fn a_caretaker_takes_nothing_and_ends_with_the_last() {
    let mut story = linked(vec![found(1, Finding::Running), found(2, Finding::Ended(Box::new(end(0))))]);
    let actions = story.hear(offer(3));
    assert!(actions.iter().any(refused(3, RefuseReason::Draining)), "{actions:?}");
    assert_eq!(exits(&story.hear(forget(2))), None, "one lives");
    story.give(Input::Examined { ticket: ticket(1), finding: Finding::Ended(Box::new(end(0))) });
    assert_eq!(exits(&story.pass(60)), None, "its end is not on record yet");
    assert_eq!(exits(&story.hear(forget(1))), Some(ExitReason::CaretakerDone));
}

#[test]
fn a_caretaker_with_nothing_to_do_leaves_at_once() {
    assert_eq!(exits(&caretaker(Vec::new()).give(Input::Tick)), Some(ExitReason::CaretakerDone));
}

#[test]
fn a_caretaker_hands_over_at_once() {
    let mut story = linked(vec![found(1, Finding::Running)]);
    assert_eq!(exits(&story.give(Input::HandOver)), Some(ExitReason::HandedOver));
}

#[test]
fn a_caretaker_does_not_look_for_a_server_for_ever() {
    let mut story = caretaker(vec![found(1, Finding::Running)]);
    assert_eq!(exits(&story.pass(100_000)), None, "while a step lives it does");
    story.give(Input::Examined { ticket: ticket(1), finding: Finding::Ended(Box::new(end(0))) });
    assert_eq!(exits(&story.pass(599)), None);
    assert_eq!(exits(&story.pass(1)), Some(ExitReason::CaretakerDone));
}

#[test]
fn what_cannot_be_read_is_named_and_left_alone() {
    let mut story = Story::new(2, vec![found(1, Finding::Unreadable)]);
    let actions = story.give(Input::LinkUp);
    let [Action::Send(WorkerMessage::Hello(hello))] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((hello.held[0].ticket, hello.held[0].state), (ticket(1), HeldState::Running));
    let actions = story.hear(welcome(vec![verdict(1, VerdictKind::Continue, 0)]));
    assert!(!actions.iter().any(|action| matches!(action, Action::Ship { .. })), "{actions:?}");
    assert_eq!(story.hear(stop(1)), []);
    assert_eq!(story.hear(forget(1)), []);
    assert_eq!(story.agent.free_slots(), 1, "it may run");
    story.give(Input::Examined { ticket: ticket(1), finding: Finding::Running });
    assert!(!story.hear(stop(1)).is_empty(), "it could be read after all");
}

/// Nobody has told its runner to go, and nobody would, if it went on to count as running.
#[test]
fn what_could_not_be_read_and_turns_out_to_wait_is_asked_for() {
    let mut story = Story::new(2, vec![found(1, Finding::Unreadable)]);
    let actions = story.give(Input::LinkUp);
    let [Action::Send(WorkerMessage::Hello(hello))] = &actions[..] else { panic!("{actions:?}") };
    assert!(hello.held[0].unsure);
    story.hear(welcome(vec![verdict(1, VerdictKind::Finish, 0)]));
    let actions = story.give(Input::Examined { ticket: ticket(1), finding: Finding::Waiting });
    assert!(actions.contains(&Action::Send(WorkerMessage::Accept { ticket: ticket(1) })), "{actions:?}");
    story.give(Input::LinkDown);
    let actions = story.give(Input::LinkUp);
    let [Action::Send(WorkerMessage::Hello(hello))] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((hello.held[0].state, hello.held[0].unsure), (HeldState::Waiting, false));
}

/// The server says with its welcome, and only there, from where it wants the log.
#[test]
fn the_log_of_what_could_not_be_read_follows_when_it_can() {
    let ship = Action::Ship { ticket: ticket(1), after_seq: 7 };
    for finding in [Finding::Running, Finding::Ended(Box::new(end(0)))] {
        let mut story = Story::new(2, vec![found(1, Finding::Unreadable)]);
        story.give(Input::LinkUp);
        story.hear(welcome(vec![verdict(1, VerdictKind::Continue, 7)]));
        let actions = story.give(Input::Examined { ticket: ticket(1), finding: Finding::Unreadable });
        assert!(!actions.contains(&ship), "{actions:?}");
        let actions = story.give(Input::Examined { ticket: ticket(1), finding: finding.clone() });
        assert!(actions.contains(&ship), "{finding:?}: {actions:?}");
        let actions = story.give(Input::Examined { ticket: ticket(1), finding: Finding::Running });
        assert!(!actions.contains(&ship), "once: {actions:?}");
    }
}

/// Without a link nobody waits for it; the next welcome says so anew.
#[test]
fn the_log_of_what_could_not_be_read_waits_for_a_link() {
    let mut story = Story::new(2, vec![found(1, Finding::Unreadable)]);
    story.give(Input::LinkUp);
    story.hear(welcome(vec![verdict(1, VerdictKind::Continue, 7)]));
    story.give(Input::LinkDown);
    let actions = story.give(Input::Examined { ticket: ticket(1), finding: Finding::Running });
    assert!(!actions.iter().any(|action| matches!(action, Action::Ship { .. })), "{actions:?}");
}

#[test]
fn only_who_was_stopped_or_removed_leaves_word_against_caretakers() {
    let grace = Duration::from_secs(600);
    let refused = |code| ExitReason::Refused { code, message: String::new() };
    for (reason, expected) in [
        (ExitReason::Stopped, Word::NoneFor(grace)),
        (refused(RefusedCode::Removed), Word::NoneUntilAWorkerComes),
        (refused(RefusedCode::UnsupportedProtocol), Word::Wanted),
        (ExitReason::HandedOver, Word::Wanted),
        (ExitReason::CaretakerDone, Word::Wanted),
        (ExitReason::LinkLost, Word::Wanted),
        (ExitReason::OnceDone, Word::Wanted),
    ] {
        assert_eq!(Word::of(&reason, grace), expected, "{reason:?}");
    }
    let until = |word: Word| word.written("boot".to_owned(), Duration::from_secs(5)).map(|word| word.until_ms);
    assert_eq!(until(Word::NoneFor(grace)), Some(Some(605_000)));
    assert_eq!(until(Word::NoneUntilAWorkerComes), Some(None));
    assert_eq!(until(Word::Wanted), None);
}
