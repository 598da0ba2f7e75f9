//! State folders that were copied or emptied while steps run under them.

use std::path::Path;

use protocol::link::{Loss, WorkerMessage};

use crate::kit::{Stage, Worker, counting, eventually, kill, parent_of, script, ticket};

fn copy(from: &Path, to: &Path) {
    // Sockets cannot be copied and need not be.
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

#[tokio::test]
async fn a_worker_on_a_copy_leaves_the_steps_of_the_original_alone() {
    let stage = Stage::new().await;
    let finish = stage.folder.path().join("finish");
    let worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(counting(1, &finish)).await;
    let copied = stage.folder.path().join("copy");
    copy(&stage.state(), &copied);

    let mut options = stage.options();
    options.state = copied;
    let refused = Worker::start(options).result().await.expect_err("two must not share an identity");
    assert!(matches!(refused, worker::WorkerError::CopiedState { .. }), "{refused}");
    assert!(parent_of(pid).is_some(), "it lives");
    std::fs::write(&finish, "").expect("writable");
    assert_eq!(peer.ended(1).await.result, protocol::attempt::EndResult::Exited { code: 7 });
    drop(worker);
}

#[tokio::test]
async fn a_deleted_attempt_that_lives_makes_the_scan_incomplete() {
    let stage = Stage::new().await;
    let finish = stage.folder.path().join("finish");
    let worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(counting(1, &finish)).await;
    worker.kill().await;
    drop(peer);
    while std::fs::remove_dir_all(stage.attempt(1)).is_err() {}
    let worker = stage.start();
    let hello = stage.link().await.hello().await;
    assert_eq!((hello.held, hello.scan_complete), (Vec::new(), false));
    worker.kill().await;

    std::fs::write(&finish, "").expect("writable");
    eventually("the step ends", || parent_of(pid).is_none()).await;
    eventually("its runner too", || !lives_under(&stage.state())).await;
    let _worker = stage.start();
    assert!(stage.link().await.hello().await.scan_complete);
}

/// The work is done by a process that no death signal of the runner reaches, and that no record leads to any more.
#[tokio::test]
async fn a_step_whose_folder_was_deleted_is_ended_before_its_loss_is_told() {
    let stage = Stage::new().await;
    let stray = stage.folder.path().join("stray");
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(script(1, &format!("sleep 100 & echo $! > {}; wait", stray.display()))).await;
    let mut stray_pid = 0;
    eventually("the stray says who it is", || {
        let said = std::fs::read_to_string(&stray).ok().and_then(|said| said.trim().parse().ok());
        stray_pid = said.unwrap_or(0);
        said.is_some()
    })
    .await;
    while std::fs::remove_dir_all(stage.attempt(1)).is_err() {}
    kill(parent_of(pid).expect("the runner lives"));
    let loss = peer
        .expect("lost", |message| match message {
            WorkerMessage::Lost { ticket: about, loss, .. } if about == ticket(1) => Some(loss),
            _ => None,
        })
        .await;
    assert_eq!(loss, Loss::RunnerLost);
    assert!(!lives_under(&stage.state()), "nothing of it lives when the loss is told");
    assert!(parent_of(stray_pid).is_none());
}

fn lives_under(state: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").expect("readable").flatten();
    processes
        .filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok())
        .any(|cwd| cwd.starts_with(state))
}
