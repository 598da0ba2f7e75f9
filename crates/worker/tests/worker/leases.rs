//! Steps that end with their lease, seen from the server.

use protocol::attempt::{AttemptSpec, OnDisconnect, StopReason};
use protocol::link::{Loss, Renewal, ServerMessage, WorkerMessage};

use crate::kit::{Peer, Stage, eventually, freeze, parent_of, script, ticket};

/// Ends with a lease of so many milliseconds.
fn bound(id: u64, lease_ms: u64) -> AttemptSpec {
    let mut spec = script(id, "sleep 1000");
    spec.on_disconnect = OnDisconnect::Stop;
    spec.lease_ms = Some(lease_ms);
    spec
}

async fn question(peer: &mut Peer) -> Vec<Renewal> {
    peer.expect("renew", |message| match message {
        WorkerMessage::Renew { renewals } => Some(renewals),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_step_lives_while_the_server_answers() {
    let stage = Stage::new().await;
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    peer.run(bound(1, 1000)).await;
    // More than there are in one lease.
    for _ in 0..10 {
        let renewals = question(&mut peer).await;
        peer.send(&[ServerMessage::Renewed { renewals }]).await;
    }
    let end = peer.ended(1).await;
    assert_eq!(end.stopped, Some(StopReason::LeaseExpired));
    assert!(end.duration_ms >= 1500, "{}", end.duration_ms);
}

#[tokio::test]
async fn the_worker_ends_a_step_whose_runner_is_frozen() {
    let stage = Stage::new().await;
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(bound(1, 1000)).await;
    let runner = parent_of(pid).expect("it lives");
    freeze(runner);
    let loss = peer
        .expect("lost", |message| match message {
            WorkerMessage::Lost { ticket: about, loss, .. } if about == ticket(1) => Some(loss),
            _ => None,
        })
        .await;
    assert_eq!(loss, Loss::LeaseExpired);
    assert_eq!((parent_of(pid), parent_of(runner)), (None, None), "nothing was said before all were dead");
}

#[tokio::test]
async fn a_frozen_runner_of_an_earlier_worker_is_ended_too() {
    let stage = Stage::new().await;
    let worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(bound(1, 1000)).await;
    let runner = parent_of(pid).expect("it lives");
    freeze(runner);
    worker.kill().await;
    drop(peer);
    let _worker = stage.start();
    eventually("the step is ended without a server", || parent_of(pid).is_none()).await;
    eventually("so is its runner, by the worker", || parent_of(runner).is_none()).await;
}
