//! Files before a step and after it.

use protocol::attempt::{ArtifactRule, ArtifactSet, Artifacts, Fetch, KeepWhen};

use super::*;

fn set() -> ArtifactSet {
    ArtifactSet { id: "ab".repeat(32), files: 2, bytes: 90 }
}

fn rule(when: KeepWhen) -> ArtifactRule {
    ArtifactRule { paths: vec!["out".to_owned()], when, optional: false, bytes_max: 1000 }
}

fn leaving(id: u64, when: KeepWhen) -> ServerMessage {
    let spec = AttemptSpec { artifacts: Some(rule(when)), ..*spec(id) };
    ServerMessage::Offer { number: id, spec: Box::new(spec) }
}

fn fetching(id: u64) -> ServerMessage {
    let fetch = vec![Fetch { step: "build".to_owned(), set: set(), to: None }];
    ServerMessage::Offer { number: id, spec: Box::new(AttemptSpec { fetch, ..*spec(id) }) }
}

/// A worker whose one step runs, and leaves files.
fn running(when: KeepWhen) -> Story {
    let mut story = Story::linked(1);
    story.hear(leaving(1, when));
    story.runner(1, ready());
    story.hear(go(1));
    story.runner(1, FromRunner::Started { pid: 77, start_time: 1 });
    story
}

fn ends(code: i32) -> FromRunner {
    FromRunner::Ended { end: End { result: EndResult::Exited { code }, ..end(0) } }
}

fn store() -> Action {
    Action::Store { ticket: ticket(1) }
}

fn stored(outcome: Result<ArtifactSet, &str>) -> Input {
    Input::Stored { ticket: ticket(1), outcome: outcome.map_err(str::to_owned) }
}

/// What the last report among these said.
fn reported(actions: &[Action]) -> Option<Option<Artifacts>> {
    actions.iter().rev().find_map(|action| match action {
        Action::Send(WorkerMessage::Ended { end, .. }) => Some(end.artifacts.clone()),
        _ => None,
    })
}

#[test]
fn an_end_is_told_when_its_files_are_stored() {
    let mut story = running(KeepWhen::Success);
    let ended = story.runner(1, ends(0));
    assert!(ended.contains(&store()), "{ended:?}");
    assert_eq!(reported(&ended), None, "not before");
    assert_eq!(reported(&story.pass(60)), None, "however long it takes");
    assert_eq!(reported(&story.give(stored(Ok(set())))), Some(Some(Artifacts::Stored(set()))));
}

#[test]
fn what_failed_is_told_at_once_unless_it_leaves_files_all_the_same() {
    let ended = running(KeepWhen::Success).runner(1, ends(3));
    assert_eq!(reported(&ended), Some(None));
    let mut story = running(KeepWhen::Always);
    let ended = story.runner(1, ends(3));
    assert!(ended.contains(&store()) && reported(&ended).is_none(), "{ended:?}");
    let failed = story.give(stored(Err("no room")));
    assert_eq!(reported(&failed), Some(Some(Artifacts::Failed("no room".to_owned()))));
}

#[test]
fn files_wait_for_a_link_and_the_worker_shows_that_it_lives() {
    let mut story = running(KeepWhen::Success);
    story.give(Input::LinkDown);
    let ended = story.runner(1, ends(0));
    assert!(!ended.contains(&store()), "nobody could take them");
    let hello = story.give(Input::LinkUp);
    assert!(
        matches!(&hello[..], [Action::Send(WorkerMessage::Hello(hello))] if hello.held[0].state == HeldState::Ended)
    );
    let welcomed = story.hear(welcome(vec![verdict(1, VerdictKind::SendResult, 0)]));
    assert!(welcomed.contains(&store()), "{welcomed:?}");
    story.pass(60);
    let beat = story.agent.runner_beats(story.now).first().copied();
    assert_eq!(beat.map(|beat| (beat.ticket, beat.age_ms)), Some((ticket(1), 0)), "no runner is left to speak");
}

#[test]
fn files_that_do_not_move_are_given_up_and_a_stop_ends_the_wait() {
    let mut story = running(KeepWhen::Success);
    story.runner(1, ends(0));
    for _ in 0..20 {
        assert_eq!(reported(&story.pass(300)), None);
        story.give(Input::FilesMoved { ticket: ticket(1) });
    }
    let given_up = story.pass(700);
    assert!(given_up.contains(&Action::StopFiles { ticket: ticket(1) }));
    assert!(matches!(reported(&given_up), Some(Some(Artifacts::Failed(why))) if why.contains("600 s")));

    let mut story = running(KeepWhen::Success);
    story.runner(1, ends(0));
    let stopped = story.hear(stop(1));
    assert!(stopped.contains(&Action::StopFiles { ticket: ticket(1) }));
    assert!(matches!(reported(&stopped), Some(Some(Artifacts::Failed(_)))));
}

/// Its folder could not be read when the worker started, and so nobody knew that there are files.
#[test]
fn what_could_not_be_read_leaves_and_wants_its_files_all_the_same() {
    let recognised = |offer: ServerMessage| match offer {
        ServerMessage::Offer { spec, .. } => Input::Recognised { ticket: ticket(1), spec },
        other => panic!("an offer, not {other:?}"),
    };
    let unreadable = || {
        let mut story = Story::new(1, vec![found(1, Finding::Unreadable)]);
        story.give(Input::LinkUp);
        story.hear(welcome(vec![verdict(1, VerdictKind::Continue, 0)]));
        story
    };
    let mut story = unreadable();
    assert_eq!(story.give(recognised(leaving(1, KeepWhen::Success))), []);
    let ended = story.give(Input::Examined { ticket: ticket(1), finding: Finding::Ended(Box::new(end(0))) });
    assert!(ended.contains(&store()) && reported(&ended).is_none(), "{ended:?}");
    assert_eq!(reported(&story.give(stored(Ok(set())))), Some(Some(Artifacts::Stored(set()))));

    let mut story = unreadable();
    story.give(recognised(fetching(1)));
    story.give(Input::Examined { ticket: ticket(1), finding: Finding::Waiting });
    let granted = story.hear(go(1));
    assert!(granted.contains(&Action::Fetch { ticket: ticket(1) }), "{granted:?}");
}

#[test]
fn a_worker_that_was_restarted_stores_what_it_finds() {
    let found = Found { artifacts: Some(rule(KeepWhen::Success)), ..found(1, Finding::Ended(Box::new(end(0)))) };
    let mut story = Story::new(1, vec![found]);
    story.give(Input::LinkUp);
    let welcomed = story.hear(welcome(vec![verdict(1, VerdictKind::SendResult, 0)]));
    assert!(welcomed.contains(&store()) && reported(&welcomed).is_none(), "{welcomed:?}");
    // A server keeps what nobody names for some hours: after half of one without a word it is asked again.
    story.give(stored(Ok(set())));
    story.give(Input::LinkDown);
    story.pass(3600);
    story.give(Input::LinkUp);
    let welcomed = story.hear(welcome(vec![verdict(1, VerdictKind::SendResult, 0)]));
    assert!(welcomed.contains(&store()) && reported(&welcomed).is_none(), "{welcomed:?}");
}

#[test]
fn a_step_starts_with_its_files_and_with_a_fresh_leave() {
    let mut story = Story::linked(1);
    story.hear(fetching(1));
    assert_eq!(story.runner(1, ready()), [accept(1)]);
    assert_eq!(story.hear(go(1)), [Action::Fetch { ticket: ticket(1) }]);
    assert_eq!(story.hear(go(1)), [], "it is on its way");
    let waited = story.pass(60);
    assert!(!waited.iter().any(goes(1)) && !waited.contains(&accept(1)), "{waited:?}");
    let asked = story.give(Input::Fetched { ticket: ticket(1), outcome: Ok(()) });
    assert!(asked.contains(&accept(1)), "the leave of a minute ago may be an old one: {asked:?}");
    story.hear(ServerMessage::Pong { n: 1000 });
    assert!(story.hear(go(1)).iter().any(goes(1)));
}

#[test]
fn a_step_that_cannot_have_its_files_ends_on_record() {
    let mut story = Story::linked(1);
    story.hear(fetching(1));
    story.runner(1, ready());
    story.hear(go(1));
    story.give(Input::Fetched { ticket: ticket(1), outcome: Err("gone".to_owned()) });
    story.hear(ServerMessage::Pong { n: 1000 });
    let told = story.hear(go(1));
    assert!(
        told.iter().any(|action| matches!(action, Action::Go { cannot: Some(why), .. } if why == "gone")),
        "{told:?}"
    );
}

#[test]
fn waiting_for_a_turn_is_no_silence_and_no_progress() {
    let mut story = running(KeepWhen::Success);
    story.runner(1, ends(0));
    for _ in 0..30 {
        assert_eq!(reported(&story.pass(60)), None, "others have their turn");
        story.give(Input::FilesWaited { ticket: ticket(1), waited: Duration::from_secs(60) });
    }
    // What was silent before the wait still counts.
    assert_eq!(reported(&story.pass(400)), None);
    story.pass(60);
    story.give(Input::FilesWaited { ticket: ticket(1), waited: Duration::from_secs(60) });
    assert!(matches!(reported(&story.pass(210)), Some(Some(Artifacts::Failed(why))) if why.contains("600 s")));
}

/// The runner ends a step by its timeout, and a moment later the server orders the same as the second guard.
#[test]
fn an_order_to_stop_does_not_take_what_a_stopped_step_leaves_in_any_case() {
    let stopped = || FromRunner::Ended { end: End { stopped: Some(StopReason::Timeout), ..end(0) } };
    let mut story = running(KeepWhen::Always);
    assert!(story.runner(1, stopped()).contains(&store()));
    story.pass(1);
    assert_eq!(story.hear(stop(1)), [], "they are on their way");
    assert_eq!(reported(&story.give(stored(Ok(set())))), Some(Some(Artifacts::Stored(set()))));

    // The server waits for a minute. However much moves, that is all, and repeating the order does not add to it.
    let mut story = running(KeepWhen::Always);
    story.runner(1, stopped());
    for _ in 0..4 {
        story.pass(10);
        story.hear(stop(1));
        assert_eq!(reported(&story.give(Input::FilesMoved { ticket: ticket(1) })), None);
    }
    let given_up = story.pass(11);
    assert!(given_up.contains(&Action::StopFiles { ticket: ticket(1) }), "{given_up:?}");
    assert!(matches!(reported(&given_up), Some(Some(Artifacts::Failed(why))) if why.contains("50 s")));
}

#[test]
fn a_cancel_while_files_are_stored_leaves_them_time_where_they_are_wanted_in_any_case() {
    let mut story = running(KeepWhen::Always);
    story.runner(1, ends(3));
    story.pass(300);
    assert_eq!(story.hear(stop(1)), []);
    assert_eq!(reported(&story.pass(40)), None);
    assert_eq!(reported(&story.give(stored(Ok(set())))), Some(Some(Artifacts::Stored(set()))));
    // By force nothing is waited for.
    let mut story = running(KeepWhen::Always);
    story.runner(1, ends(3));
    let killed = story.hear(ServerMessage::Stop {
        ticket: ticket(1),
        mode: StopMode::Kill,
        reason: StopReason::Cancelled,
        grace_ms: 0,
    });
    assert!(matches!(reported(&killed), Some(Some(Artifacts::Failed(_)))), "{killed:?}");
}

/// It is the one that wakes a caretaker, should this worker die.
#[test]
fn the_runner_stays_until_its_files_are_stored() {
    let bye = Action::Bye { ticket: ticket(1) };
    let mut story = running(KeepWhen::Success);
    assert!(!story.runner(1, ends(0)).contains(&bye));
    assert!(!story.runner(1, ends(0)).contains(&bye), "however often it says so");
    assert!(story.give(stored(Ok(set()))).contains(&bye));
    assert!(running(KeepWhen::Success).runner(1, ends(3)).contains(&bye), "nothing is left to wait for");
    let mut story = running(KeepWhen::Success);
    story.runner(1, ends(0));
    assert!(story.pass(601).contains(&bye), "given up");
}

#[test]
fn a_worker_that_nobody_follows_reports_without_the_files() {
    let mut story = running(KeepWhen::Success);
    story.agent.hello.ephemeral = true;
    story.runner(1, ends(0));
    let left = story.give(Input::Stop(StopLevel::EndSteps));
    assert!(matches!(reported(&left), Some(Some(Artifacts::Failed(_)))), "{left:?}");
    let mut story = running(KeepWhen::Success);
    story.runner(1, ends(0));
    assert_eq!(reported(&story.give(Input::Stop(StopLevel::EndSteps))), None, "the next worker stores them");
}
