//! Secrets only pass through: from the server's message to the runner that is let go, as often as it takes.

use std::time::Duration;

use protocol::folder::FromRunner;
use protocol::link::{ServerMessage, VerdictKind};
use protocol::secret::{SecretValue, SecretValues};

use super::{PATIENCE, Story, accept, go, ready, ticket, verdict, welcome};
use crate::agent::{Action, Finding, Input};

fn values(text: &str) -> SecretValues {
    [("KEY".to_owned(), SecretValue::new(text.to_owned()).expect("fit"))].into()
}

fn secrets(text: &str) -> ServerMessage {
    ServerMessage::Secrets { ticket: ticket(1), values: values(text) }
}

fn gives(text: &str) -> Action {
    Action::GiveSecrets { ticket: ticket(1), values: values(text) }
}

fn goes() -> Action {
    Action::Go { ticket: ticket(1), asked_at: Duration::ZERO, until: Some(PATIENCE), cannot: None }
}

#[test]
fn the_newest_are_given_with_go_and_again_to_a_runner_that_did_not_hear() {
    let mut story = Story::waiting();
    assert_eq!(story.hear(secrets("old value")), []);
    assert_eq!(story.hear(secrets("new value")), []);
    let actions = story.hear(go(1));
    assert_eq!(actions[..2], [gives("new value"), goes()]);
    story.give(Input::RunnerGone { ticket: ticket(1) });
    assert_eq!(story.give(Input::Examined { ticket: ticket(1), finding: Finding::Waiting }), []);
    assert_eq!(story.runner(1, ready()), [gives("new value"), goes()]);
    // Once it runs nobody needs them.
    story.runner(1, FromRunner::Started { pid: 77, start_time: 1 });
    assert_eq!(story.hear(secrets("late value")), []);
}

#[test]
fn what_came_on_an_earlier_link_is_not_used() {
    let mut story = Story::waiting();
    story.hear(secrets("old value"));
    story.give(Input::LinkDown);
    story.give(Input::LinkUp);
    let actions = story.hear(welcome(vec![verdict(1, VerdictKind::Continue, 0)]));
    assert!(actions.contains(&accept(1)), "it asks for itself: {actions:?}");
    assert_eq!(story.hear(go(1))[..1], [goes()]);
}
