//! Steps that go well, or fail in the ordinary ways.

use protocol::attempt::{EndResult, StopMode, StopReason};
use protocol::link::{EnrollRequest, LogHeader, Loss, MissingCause, RefuseReason, ServerMessage, WorkerMessage};
use worker::WorkerError;

use crate::kit::{CREDENTIAL, Stage, Worker, command, eventually, script, ticket};

#[tokio::test]
async fn a_step_from_offer_to_forget() {
    let stage = Stage::new().await;
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    let text = "echo one; echo two >&2; printf three; echo answer=42 >> \"$BOWLINE_OUTPUT\"; exit 3";
    peer.run(script(1, text)).await;
    let end = peer.ended(1).await;
    assert_eq!(end.result, EndResult::Exited { code: 3 });
    assert_eq!(end.output.get("answer").and_then(|value| value.as_str()), Some("42"));
    peer.until("the whole log", |peer| peer.complete.is_some()).await;
    let mut texts: Vec<&str> = peer.lines.iter().map(|(_, text)| text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["one", "three", "two"]);
    assert_eq!(peer.lines.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(peer.complete.map(|header| header.last_seq), Some(end.log_last_seq));
    assert!(stage.attempt(1).exists(), "nothing is deleted before `forget`");
    peer.forget(1).await;
    eventually("the attempt is put away", || !stage.attempt(1).exists()).await;
    assert!(stage.state().join("kept").join(ticket(1).attempt.to_string()).join("log").exists());
}

#[tokio::test]
async fn an_empty_log_is_complete_at_once() {
    let stage = Stage::new().await;
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    peer.offer(command(1, "/bin/true")).await;
    peer.accepted(1).await;
    peer.go(1).await;
    assert_eq!(peer.ended(1).await.result, EndResult::Exited { code: 0 });
    peer.until("the empty log", |peer| peer.complete.is_some()).await;
    let expected = LogHeader {
        ticket: ticket(1),
        first_seq: 1,
        last_seq: 0,
        missing: 0,
        cause: MissingCause::Limit,
        complete: true,
    };
    assert_eq!(peer.complete, Some(expected));
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_an_end() {
    let stage = Stage::new().await;
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    peer.offer(command(1, "/no/such/program")).await;
    peer.accepted(1).await;
    peer.go(1).await;
    let end = peer.ended(1).await;
    assert!(
        matches!(&end.result, EndResult::SpawnFailed { message } if message.contains("/no/such/program")),
        "{end:?}"
    );
}

#[tokio::test]
async fn nothing_runs_without_go_and_a_withdrawn_offer_leaves_nothing() {
    let stage = Stage::new().await;
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    let witness = stage.folder.path().join("ran");
    peer.offer(script(1, &format!("touch {}", witness.display()))).await;
    peer.accepted(1).await;
    peer.send(&[ServerMessage::Withdraw { ticket: ticket(1) }]).await;
    eventually("the folder is removed", || !stage.attempt(1).exists()).await;
    peer.go(1).await;
    // The next step has gone all the way, so the go before it was seen and did nothing.
    peer.run(script(2, "echo hi")).await;
    peer.ended(2).await;
    assert!(!witness.exists());
}

#[tokio::test]
async fn a_stop_order_ends_the_step_and_a_stop_before_go_proves_that_it_never_ran() {
    let stage = Stage::new().await;
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    let stop = |id| ServerMessage::Stop {
        ticket: ticket(id),
        mode: StopMode::Graceful,
        reason: StopReason::Cancelled,
        grace_ms: 1000,
    };
    peer.run(script(1, "exec sleep 100")).await;
    peer.send(&[stop(1)]).await;
    let end = peer.ended(1).await;
    assert_eq!(
        (end.result, end.stopped),
        (EndResult::Signaled { signal: 15, oom: false }, Some(StopReason::Cancelled))
    );

    peer.offer(command(2, "/bin/true")).await;
    peer.accepted(2).await;
    peer.send(&[stop(2)]).await;
    let loss = peer
        .expect("lost", |message| match message {
            WorkerMessage::Lost { ticket: about, loss, .. } if about == ticket(2) => Some(loss),
            _ => None,
        })
        .await;
    assert_eq!(loss, Loss::Void);
}

#[tokio::test]
async fn a_worker_that_cannot_prepare_refuses() {
    let stage = Stage::new().await;
    let mut options = stage.options();
    options.runner.program = "/no/such/runner".into();
    let _worker = Worker::start(options);
    let mut peer = stage.welcomed().await;
    peer.offer(command(1, "/bin/true")).await;
    let (reason, detail) = peer
        .expect("refuse", |message| match message {
            WorkerMessage::Refuse { reason, detail, .. } => Some((reason, detail)),
            _ => None,
        })
        .await;
    assert_eq!(reason, RefuseReason::Broken);
    assert!(detail.contains("/no/such/runner"), "{detail}");
    assert!(!stage.attempt(1).exists());
}

#[tokio::test]
async fn a_new_worker_enrols_once() {
    let stage = Stage::bare().await;
    let mut options = stage.options();
    options.enroll_token = Some("token-for-one".to_owned());
    let first = Worker::start(options);
    // A server that is not ready yet is asked again.
    stage.answer("503 Service Unavailable", "{}").await;
    let answer = format!(r#"{{"worker":"00000000-0000-0000-0000-000000000001","credential":"{CREDENTIAL}"}}"#);
    let request = stage.answer("200 OK", &answer).await;
    assert!(request.to_lowercase().contains("authorization: bearer token-for-one"), "{request}");
    let body = request.split("\r\n\r\n").nth(1).expect("it has a body");
    let body: EnrollRequest = serde_json::from_str(body).expect("an enroll request");
    assert_eq!(body.name, "tester");
    let hello = stage.link().await.hello().await;
    assert_eq!(hello.state_id, body.state_id);
    first.kill().await;
    let _second = stage.start();
    let again = stage.link().await.hello().await;
    assert_eq!(again.state_id, hello.state_id);
    assert_ne!(again.session, hello.session);
}

#[tokio::test]
async fn a_worker_that_is_not_let_in_says_why() {
    let stage = Stage::bare().await;
    let error = stage.start().result().await.expect_err("no credential and no token");
    assert!(matches!(error, WorkerError::NotEnrolled), "{error}");

    let mut options = stage.options();
    options.enroll_token = Some("used".to_owned());
    let worker = Worker::start(options);
    stage.answer("401 Unauthorized", r#"{"error":{"code":"unauthorized","message":"that token was used"}}"#).await;
    let error = worker.result().await.expect_err("the token is refused").to_string();
    assert!(error.contains("that token was used"), "{error}");

    let stage = Stage::new().await;
    let worker = stage.start();
    stage.answer("401 Unauthorized", "{}").await;
    let error = worker.result().await.expect_err("the credential is refused");
    assert!(matches!(error, WorkerError::CredentialRefused { .. }), "{error}");
}
