//! Workers, links and runners that die while a step runs.

use protocol::attempt::EndResult;
use protocol::link::{HeldState, Loss, Verdict, VerdictKind, WorkerMessage};

use crate::kit::{Stage, counting, eventually, kill, parent_of, script, ticket};

/// Every line once, in order, and each with the text that its number had when it was written.
fn assert_whole(lines: &[(u64, String)]) {
    for (expected, (seq, text)) in (1..).zip(lines) {
        assert_eq!((*seq, text.as_str()), (expected, expected.to_string().as_str()));
    }
}

fn verdict(kind: VerdictKind, lines: &[(u64, String)]) -> Vec<Verdict> {
    let log_acked_seq = lines.last().map_or(0, |(seq, _)| *seq);
    vec![Verdict { ticket: ticket(1), verdict: kind, log_acked_seq }]
}

#[tokio::test]
async fn a_restarted_worker_adopts_what_runs() {
    let stage = Stage::new().await;
    let finish = stage.folder.path().join("finish");
    let worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(counting(1, &finish)).await;
    peer.until("some lines", |peer| peer.lines.len() > 5).await;
    let mut lines = std::mem::take(&mut peer.lines);
    worker.kill().await;
    drop(peer);
    assert!(parent_of(pid).is_some(), "the step lives on");

    let _worker = stage.start();
    let mut peer = stage.link().await;
    let hello = peer.hello().await;
    let [held] = &hello.held[..] else { panic!("{:?}", hello.held) };
    assert_eq!((held.ticket, held.state, held.log_first_seq), (ticket(1), HeldState::Running, 1));
    assert!(held.log_last_seq >= lines.len() as u64);
    peer.welcome(verdict(VerdictKind::Continue, &lines)).await;
    assert_eq!(peer.started(1).await, pid, "the same process");
    peer.until("lines of the new worker", |peer| peer.lines.len() > 5).await;
    std::fs::write(&finish, "").expect("writable");
    let end = peer.ended(1).await;
    assert_eq!(end.result, EndResult::Exited { code: 7 });
    peer.until("the whole log", |peer| peer.complete.is_some()).await;
    lines.append(&mut peer.lines);
    assert_whole(&lines);
    assert_eq!(lines.len() as u64, end.log_last_seq);
    peer.forget(1).await;
    eventually("the attempt is put away", || !stage.attempt(1).exists()).await;
}

#[tokio::test]
async fn a_step_that_ended_without_a_worker_is_reported_by_the_next() {
    let stage = Stage::new().await;
    let finish = stage.folder.path().join("finish");
    let worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(counting(1, &finish)).await;
    peer.until("some lines", |peer| peer.lines.len() > 5).await;
    let mut lines = std::mem::take(&mut peer.lines);
    worker.kill().await;
    drop(peer);
    let runner = parent_of(pid).expect("the runner lives");
    std::fs::write(&finish, "").expect("writable");
    eventually("the runner leaves by itself", || parent_of(runner).is_none()).await;

    let _worker = stage.start();
    let mut peer = stage.link().await;
    let hello = peer.hello().await;
    assert_eq!(hello.held.iter().map(|held| held.state).collect::<Vec<_>>(), [HeldState::Ended]);
    peer.welcome(verdict(VerdictKind::SendResult, &lines)).await;
    let end = peer.ended(1).await;
    assert_eq!(end.result, EndResult::Exited { code: 7 });
    peer.until("the whole log", |peer| peer.complete.is_some()).await;
    lines.append(&mut peer.lines);
    assert_whole(&lines);
    assert_eq!(lines.len() as u64, end.log_last_seq);
}

#[tokio::test]
async fn an_offer_that_was_waiting_when_the_worker_died_can_still_go() {
    let stage = Stage::new().await;
    let worker = stage.start();
    let mut peer = stage.welcomed().await;
    peer.offer(script(1, "echo 1")).await;
    peer.accepted(1).await;
    worker.kill().await;

    let _worker = stage.start();
    let mut peer = stage.link().await;
    let hello = peer.hello().await;
    assert_eq!(hello.held.iter().map(|held| held.state).collect::<Vec<_>>(), [HeldState::Waiting]);
    peer.welcome(verdict(VerdictKind::Go, &[])).await;
    assert_eq!(peer.ended(1).await.result, EndResult::Exited { code: 0 });
    peer.until("the whole log", |peer| peer.complete.is_some()).await;
    assert_whole(&peer.lines);
}

#[tokio::test]
async fn a_cut_link_is_made_again_and_the_log_goes_on() {
    let stage = Stage::new().await;
    let finish = stage.folder.path().join("finish");
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    peer.run(counting(1, &finish)).await;
    peer.until("some lines", |peer| peer.lines.len() > 5).await;
    let mut lines = std::mem::take(&mut peer.lines);
    // What is sent from here on is received and not stored: it must be sent again.
    peer.acknowledges = false;
    peer.until("lines that get lost", |peer| peer.lines.len() > 5).await;
    drop(peer);

    let mut peer = stage.link().await;
    let hello = peer.hello().await;
    let [held] = &hello.held[..] else { panic!("{:?}", hello.held) };
    assert_eq!(held.state, HeldState::Running);
    assert!(held.log_last_seq >= lines.len() as u64 + 5, "{held:?}");
    assert_eq!(hello.last_epoch, 1);
    peer.welcome(verdict(VerdictKind::Continue, &lines)).await;
    std::fs::write(&finish, "").expect("writable");
    let end = peer.ended(1).await;
    peer.until("the whole log", |peer| peer.complete.is_some()).await;
    lines.append(&mut peer.lines);
    assert_whole(&lines);
    assert_eq!(lines.len() as u64, end.log_last_seq);
}

#[tokio::test]
async fn a_killed_nursery_is_replaced_and_what_runs_goes_on() {
    let stage = Stage::new().await;
    let finish = stage.folder.path().join("finish");
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(counting(1, &finish)).await;
    let nursery = parent_of(pid).and_then(parent_of).expect("the runner lives");
    kill(nursery);
    peer.run(script(2, "exit 5")).await;
    assert_eq!(peer.ended(2).await.result, EndResult::Exited { code: 5 });
    assert_eq!(parent_of(nursery), None);
    std::fs::write(&finish, "").expect("writable");
    assert_eq!(peer.ended(1).await.result, EndResult::Exited { code: 7 });
}

#[tokio::test]
async fn a_killed_runner_takes_its_step_along_and_is_reported() {
    let stage = Stage::new().await;
    let _worker = stage.start();
    let mut peer = stage.welcomed().await;
    let pid = peer.run(script(1, "echo 1; sleep 100 & wait")).await;
    peer.until("the first line", |peer| peer.lines.len() == 1).await;
    kill(parent_of(pid).expect("the runner lives"));
    let loss = peer
        .expect("lost", |message| match message {
            WorkerMessage::Lost { ticket: about, loss, .. } if about == ticket(1) => Some(loss),
            _ => None,
        })
        .await;
    assert_eq!(loss, Loss::RunnerLost);
    assert!(parent_of(pid).is_none(), "the step's process is gone before the loss is told");
    peer.until("the end of the log", |peer| peer.complete.is_some()).await;
    assert_eq!(peer.complete.map(|header| header.last_seq), Some(1));
}
