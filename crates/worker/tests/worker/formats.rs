//! A runner of the first format, as it may live on when its worker was upgraded: frozen words, frozen bytes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use protocol::attempt::{EndResult, StopMode, StopReason, Ticket};
use protocol::link::{HeldState, ServerMessage, Verdict, VerdictKind, WorkerMessage};
use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

use crate::kit::{Stage, eventually};

/// As the fixture's spec names it.
const ID: &str = "018c5f00-0000-7000-8000-0000000000f1";
const SPEC: &str = include_str!("../fixtures/format-1/spec.json");
/// What format 1 writes when a step was stopped: `BWX1`, length, crc32, JSON, at byte 64 of the record.
const END: &str = r#"{"result":{"kind":"signaled","signal":15,"oom":false},"stopped":"cancelled","log_last_seq":0,"output":{},"output_error":null,"duration_ms":1200,"cpu_ms":3,"memory_bytes_max":1024}"#;

fn ticket() -> Ticket {
    Ticket { attempt: Uuid::parse_str(ID).expect("an id"), fence: 41 }
}

/// The folder and the runner in it; it knows nothing but what format 1 has.
struct OldRunner {
    folder: PathBuf,
    record: File,
    listener: UnixListener,
}

impl OldRunner {
    fn start(folder: PathBuf) -> JoinHandle<Vec<String>> {
        fs::create_dir_all(&folder).expect("writable");
        fs::write(folder.join("spec.json"), SPEC).expect("writable");
        symlink("intent", folder.join("claim")).expect("writable");
        let record = File::create_new(folder.join("record")).expect("writable");
        record.set_len(16 * 1024).expect("writable");
        flock(&record, FlockOperation::NonBlockingLockExclusive).expect("free");
        let listener = UnixListener::bind(folder.join("sock")).expect("bound");
        let runner = OldRunner { folder, record, listener };
        std::thread::spawn(move || runner.live())
    }

    /// Serves its worker until it is told to stop; returns what it did not understand.
    fn live(self) -> Vec<String> {
        let (mut worker, _) = self.listener.accept().expect("a worker");
        say(&mut worker, r#"{"type":"started","pid":4194000,"start_time":7}"#);
        say(&mut worker, r#"{"type":"log","last_seq":0,"bytes":0}"#);
        let mut unknown = Vec::new();
        for line in BufReader::new(worker.try_clone().expect("a handle")).lines() {
            let line = line.expect("readable");
            match line.as_str() {
                r#"{"type":"stop","mode":"graceful","reason":"cancelled"}"# => {
                    self.end();
                    say(&mut worker, &format!(r#"{{"type":"ended","end":{END}}}"#));
                }
                r#"{"type":"bye"}"# => return unknown,
                r#"{"type":"status"}"# => panic!("not asked by this worker"),
                _ => unknown.push(line),
            }
        }
        panic!("the worker left without a bye: {}", self.folder.display());
    }

    fn end(&self) {
        let mut bytes = b"BWX1".to_vec();
        bytes.extend((END.len() as u32).to_le_bytes());
        bytes.extend(0x3f10_243d_u32.to_le_bytes());
        bytes.extend(END.as_bytes());
        self.record.write_all_at(&bytes, 64).expect("writable");
    }
}

fn say(worker: &mut UnixStream, line: &str) {
    worker.write_all(format!("{line}\n").as_bytes()).expect("the worker listens");
}

fn folder(state: &Path) -> PathBuf {
    state.join("attempts").join(ID)
}

#[tokio::test]
async fn a_runner_of_the_first_format_is_adopted_stopped_and_heard() {
    let stage = Stage::new().await;
    // The folder is at home here.
    let worker = stage.start();
    drop(stage.welcomed().await);
    worker.kill().await;
    let runner = OldRunner::start(folder(&stage.state()));
    let _worker = stage.start();
    let mut peer = stage.link().await;
    let hello = peer.hello().await;
    assert!(hello.scan_complete);
    let [held] = &hello.held[..] else { panic!("{:?}", hello.held) };
    assert_eq!((held.ticket, held.state, held.step.as_str()), (ticket(), HeldState::Running, "load"));
    peer.welcome(vec![Verdict { ticket: ticket(), verdict: VerdictKind::Continue, log_acked_seq: 0 }]).await;
    let started = |message| (message == WorkerMessage::Started { ticket: ticket(), pid: 4_194_000 }).then_some(());
    peer.expect("started", started).await;
    let (mode, reason) = (StopMode::Graceful, StopReason::Cancelled);
    peer.send(&[ServerMessage::Stop { ticket: ticket(), mode, reason, grace_ms: 10_000 }]).await;
    let end = peer
        .expect("ended", |message| match message {
            WorkerMessage::Ended { end, .. } => Some(end),
            _ => None,
        })
        .await;
    assert_eq!(end.result, EndResult::Signaled { signal: 15, oom: false });
    assert_eq!(end.stopped, Some(StopReason::Cancelled));
    let unknown = tokio::task::spawn_blocking(move || runner.join()).await.expect("joined").expect("no panic");
    assert!(unknown.iter().all(|line| line.contains("\"type\":\"rules\"")), "it was asked for more: {unknown:?}");
    let number = peer.number();
    peer.send(&[ServerMessage::Forget { number, ticket: ticket() }]).await;
    eventually("it is put away", || !folder(&stage.state()).exists()).await;
}

#[tokio::test]
async fn the_record_of_a_dead_runner_of_the_first_format_is_read() {
    let stage = Stage::new().await;
    let folder = folder(&stage.state());
    {
        fs::create_dir_all(&folder).expect("writable");
        let record = File::create_new(folder.join("record")).expect("writable");
        let listener = UnixListener::bind(folder.join("sock")).expect("bound");
        let runner = OldRunner { folder: folder.clone(), record, listener };
        fs::write(folder.join("spec.json"), SPEC).expect("writable");
        symlink("intent", folder.join("claim")).expect("writable");
        runner.end();
    }
    let _worker = stage.start();
    let mut peer = stage.link().await;
    let hello = peer.hello().await;
    assert_eq!((hello.held[0].ticket, hello.held[0].state), (ticket(), HeldState::Ended));
}
