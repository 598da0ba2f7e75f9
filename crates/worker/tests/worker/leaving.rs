//! Workers that are told to stop.

use protocol::attempt::StopReason;
use protocol::link::{HeldState, Loss, RefusedCode, ServerMessage, WorkerMessage};
use worker::{StopLevel, WorkerError};

use crate::kit::{Stage, Worker, command, counting, parent_of, script, ticket};

#[tokio::test]
async fn leaving_keeps_what_runs_and_gives_back_what_waits() {
    let stage = Stage::new().await;
    let finish = stage.folder.path().join("finish");
    let worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(counting(1, &finish)).await;
    peer.offer(command(2, "/bin/true")).await;
    peer.accepted(2).await;
    worker.stop(StopLevel::Leave);
    let said = peer.closed().await;
    let draining =
        |message: &WorkerMessage| matches!(message, WorkerMessage::Heartbeat(beat) if beat.draining && beat.free == 0);
    assert!(said.iter().any(draining), "{said:?}");
    let void = |message: &WorkerMessage| matches!(message, WorkerMessage::Lost { ticket: t, loss: Loss::Void, .. } if *t == ticket(2));
    assert!(said.iter().any(void), "{said:?}");
    worker.result().await.expect("an orderly end");
    assert!(parent_of(pid).is_some(), "the step lives on");

    let worker = stage.start();
    let mut peer = stage.link().await;
    let states: Vec<HeldState> = peer.hello().await.held.iter().map(|held| held.state).collect();
    assert_eq!(states, [HeldState::Running, HeldState::Waiting]);
    peer.welcome(Vec::new()).await;
    worker.stop(StopLevel::EndSteps);
    let end = peer.ended(1).await;
    assert_eq!(end.stopped, Some(StopReason::WorkerStopped), "{end:?}");
    peer.forget(1).await;
    peer.forget(2).await;
    peer.closed().await;
    worker.result().await.expect("an orderly end");
    assert!(parent_of(pid).is_none());
}

#[tokio::test]
async fn once_is_one_step() {
    let stage = Stage::new().await;
    let mut options = stage.options();
    options.once = true;
    let worker = Worker::start(options);
    let mut peer = stage.link().await;
    let hello = peer.hello().await;
    assert!(hello.ephemeral && hello.slots == 1);
    peer.welcome(Vec::new()).await;
    peer.run(script(1, "echo 1")).await;
    peer.ended(1).await;
    peer.until("the whole log", |peer| peer.complete.is_some()).await;
    peer.forget(1).await;
    peer.closed().await;
    worker.result().await.expect("an orderly end");
}

#[tokio::test]
async fn a_removed_worker_ends_its_steps_and_says_so() {
    let stage = Stage::new().await;
    let worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(script(1, "exec sleep 100")).await;
    peer.send(&[ServerMessage::Refused { code: RefusedCode::Removed, message: "removed by ada".to_owned() }]).await;
    drop(peer);
    let error = worker.result().await.expect_err("it cannot go on");
    assert!(matches!(&error, WorkerError::Removed { message } if message == "removed by ada"), "{error}");
    assert!(parent_of(pid).is_none());
}

#[tokio::test]
async fn without_reconnect_a_lost_link_is_the_end() {
    let stage = Stage::new().await;
    let mut options = stage.options();
    options.no_reconnect = true;
    let worker = Worker::start(options);
    let mut peer = stage.link().await;
    assert!(peer.hello().await.no_reconnect);
    peer.welcome(Vec::new()).await;
    let pid = peer.run(script(1, "exec sleep 100")).await;
    drop(peer);
    assert!(matches!(worker.result().await, Err(WorkerError::LinkLost)));
    assert!(parent_of(pid).is_none());
}

#[tokio::test]
async fn a_second_worker_on_the_same_folder_is_turned_away() {
    let stage = Stage::new().await;
    let _first = stage.start();
    let _peer = stage.welcomed().await;
    let error = stage.start().result().await.expect_err("the folder is taken");
    assert!(matches!(error, WorkerError::StateInUse { .. }), "{error}");
}
