//! Orders, against a server of a few lines that says what a story wants.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pack::{Contents, Glob, Layout, Limits, Rule, collect};
use protocol::attempt::{ArtifactRule, AttemptSpec, Effects, Fetch, KeepWhen, Program, SPEC_FORMAT, StopPlan};
use protocol::folder::{FOLDER_FORMAT, FolderSpec, Local, RunnerRules};
use runner::folder_io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

use super::*;
use crate::link::address::Address;

/// Longer than any story takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the server says to a method and a path: a status and a body.
type Says = dyn Fn(&str, &str) -> (u16, Vec<u8>) + Send + Sync;

struct Site {
    state: tempfile::TempDir,
    depot: Depot,
    inbox: mpsc::Receiver<Input>,
    /// Each request: its method and its path.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    async fn new(says: impl Fn(&str, &str) -> (u16, Vec<u8>) + Send + Sync + 'static) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (says, seen): (Arc<Says>, _) = (Arc::new(says), asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, says.clone(), seen.clone()));
            }
        });
        let state = tempfile::tempdir().expect("a folder");
        let reach = Reach {
            servers: vec![Address::parse(&format!("http://{address}")).expect("good")],
            credential: "c".to_owned(),
            credential_path: PathBuf::new(),
            no_reconnect: false,
        };
        let (news, inbox) = mpsc::channel(1024);
        let depot = Depot::new(places(state.path()), reach, news);
        Site { state, depot, inbox, asked }
    }

    /// The folder of an attempt that leaves what is in it, and fetches these sets.
    fn attempt(&self, number: u128, fetch: &[&str]) -> (Ticket, PathBuf) {
        let ticket = Ticket { attempt: Uuid::from_u128(number), fence: 1 };
        let folder = places(self.state.path()).attempt(ticket);
        fs::create_dir_all(folder.parent().expect("below the state folder")).expect("writable");
        let set = |id: &str| ArtifactSet { id: id.to_owned(), files: 1, bytes: 5 };
        let paths = vec!["*".to_owned()];
        let attempt = AttemptSpec {
            format: SPEC_FORMAT,
            ticket,
            job: Uuid::nil(),
            task: "t".to_owned(),
            step: "s".to_owned(),
            number: 1,
            program: Program::Command { argv: vec!["true".to_owned()] },
            env: Default::default(),
            workdir: None,
            timeout_ms: None,
            effects: Effects::Writes,
            on_disconnect: Default::default(),
            lease_ms: None,
            stop: StopPlan::default(),
            cleanup: None,
            secrets: Vec::new(),
            artifacts: Some(ArtifactRule { paths, when: KeepWhen::Success, optional: false, bytes_max: 1 << 30 }),
            fetch: fetch.iter().map(|id| Fetch { step: "make".to_owned(), set: set(id), to: None }).collect(),
        };
        let local = Local {
            log_lines_max: 1,
            log_bytes_max: 1,
            cgroup_parent: None,
            base_env: Default::default(),
            rules: RunnerRules::default(),
            caretaker: None,
            ends_with_worker: false,
        };
        folder_io::create(&folder, &FolderSpec { format: FOLDER_FORMAT, attempt, local }).expect("a folder");
        let work = folder.join(protocol::folder::WORK_FOLDER);
        fs::create_dir_all(&work).expect("writable");
        (ticket, work)
    }

    async fn next(&mut self) -> Input {
        tokio::time::timeout(PATIENCE, self.inbox.recv()).await.expect("something happens").expect("somebody is there")
    }

    /// What comes of an order, and how often it was said to move until then.
    async fn outcome(&mut self) -> (Result<(), String>, usize) {
        let mut moved = 0;
        loop {
            match self.next().await {
                Input::FilesMoved { .. } => moved += 1,
                Input::Stored { outcome, .. } => return (outcome.map(drop), moved),
                Input::Fetched { outcome, .. } => return (outcome, moved),
                _ => {}
            }
        }
    }

    fn times(&self, request: &str) -> usize {
        let asked = self.asked.lock().expect("nobody panicked");
        asked.iter().filter(|one| one.starts_with(request)).count()
    }

    async fn until(&self, what: impl Fn(&Site) -> bool) {
        let wait = async {
            while !what(self) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("it comes to that");
    }
}

fn places(state: &Path) -> Places {
    Places { attempts: state.join("attempts"), kept: state.join("kept"), aside: state.join("aside") }
}

async fn answer(mut stream: TcpStream, says: Arc<Says>, asked: Arc<Mutex<Vec<String>>>) {
    let mut text = Vec::new();
    let head = loop {
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(read) if read > 0 => text.extend_from_slice(&piece[..read]),
            _ => return,
        }
        if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            break String::from_utf8_lossy(&text[..end]).into_owned();
        }
    };
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut left = length.unwrap_or(0_usize).saturating_sub(text.len() - head.len() - 4);
    while left > 0 {
        match stream.read(&mut [0; 4096]).await {
            Ok(read) if read > 0 => left = left.saturating_sub(read),
            _ => return,
        }
    }
    let mut words = head.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    asked.lock().expect("nobody panicked").push(format!("{method} {path}"));
    let (status, body) = says(method, path);
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
}

/// A pack of one file with this content, and its name.
fn packed(content: &str) -> (Vec<u8>, String) {
    let root = tempfile::tempdir().expect("a folder");
    fs::write(root.path().join(content), content).expect("writable");
    let rule = Rule { globs: vec![Glob::parse("*").expect("good")], optional: false };
    let manifest = collect(root.path(), &rule, Limits { files_max: 9, bytes_max: 999 }).expect("good");
    let (text, id) = manifest.encode();
    let mut pack = Layout::head(&text);
    let contents = Contents::new(root.path(), &manifest, 0);
    contents.and_then(|mut contents| std::io::Read::read_to_end(&mut contents, &mut pack)).expect("readable");
    (pack, id.to_string())
}

fn have(bytes: u64, stored: bool) -> (u16, Vec<u8>) {
    (200, serde_json::to_vec(&protocol::artifacts::Have { bytes, stored }).expect("json"))
}

fn file_in(work: &Path, bytes: usize) {
    fs::write(work.join("f"), vec![7; bytes]).expect("writable");
}

/// A try that gets no further than the one before is no movement, however often it is made.
#[tokio::test]
async fn a_server_that_refuses_every_time_is_told_as_one_movement() {
    let mut site = Site::new(|_, _| (503, Vec::new())).await;
    let (ticket, work) = site.attempt(1, &[]);
    file_in(&work, 10);
    site.depot.store(ticket);
    site.until(|site| site.times("POST") >= 3).await;
    site.depot.stop(ticket);
    let mut moved = 0;
    while let Ok(Input::FilesMoved { .. }) = site.inbox.try_recv() {
        moved += 1;
    }
    assert_eq!(moved, 1);
}

#[tokio::test]
async fn bytes_that_a_server_does_not_keep_are_sent_a_few_times_only() {
    let mut site = Site::new(|method, _| if method == "POST" { have(0, false) } else { (404, Vec::new()) }).await;
    let (ticket, work) = site.attempt(1, &[]);
    file_in(&work, 1_000_000);
    site.depot.store(ticket);
    let (outcome, moved) = site.outcome().await;
    assert!(outcome.as_ref().is_err_and(|why| why.contains("did not keep") && why.contains("3 times")), "{outcome:?}");
    assert_eq!(site.times("PUT"), 3);
    // The beginning and four pieces, by the first of three tries.
    assert!(moved <= 5, "{moved}");
}

#[tokio::test]
async fn files_that_change_all_the_time_are_given_up() {
    let mut site = Site::new(|_, _| (503, Vec::new())).await;
    let (ticket, work) = site.attempt(1, &[]);
    file_in(&work, 1);
    site.depot.store(ticket);
    for bytes in 2..20 {
        tokio::select! {
            (outcome, _) = site.outcome() => {
                assert!(outcome.as_ref().is_err_and(|why| why.contains("change")), "{outcome:?}");
                return;
            }
            () = sleep(Duration::from_secs(3)) => {}
        }
        file_in(&work, bytes);
    }
    panic!("it goes on for ever");
}

/// Nothing is waited for that no other try can find.
#[tokio::test]
async fn a_folder_that_was_deleted_is_given_up_at_once() {
    let mut site = Site::new(|_, _| have(0, false)).await;
    let (ticket, work) = site.attempt(1, &["set"]);
    fs::remove_dir_all(work.parent().expect("the attempt's folder")).expect("it is there");
    site.depot.store(ticket);
    let stored = site.outcome().await;
    site.depot.fetch(ticket);
    let fetched = site.outcome().await;
    let gone = "cannot read spec.json: No such file or directory (os error 2)";
    assert_eq!([stored, fetched], [(Err(gone.to_owned()), 0), (Err(gone.to_owned()), 0)]);
}

#[tokio::test]
async fn a_pack_with_a_bad_byte_fails_the_fetch_with_a_reason() {
    let (mut pack, id) = packed("hello");
    *pack.last_mut().expect("it has some") ^= 1;
    let mut site = Site::new(move |_, _| (200, pack.clone())).await;
    let (ticket, _) = site.attempt(1, &[&id]);
    site.depot.fetch(ticket);
    let (outcome, moved) = site.outcome().await;
    assert!(outcome.as_ref().is_err_and(|why| why.contains("`make`") && why.contains("hash")), "{outcome:?}");
    assert_eq!((site.times("GET"), moved), (3, 1));
}

#[tokio::test]
async fn sets_that_are_in_their_place_are_not_fetched_again() {
    let ((one, first), (two, second)) = (packed("one"), packed("two"));
    let (refusals, name) = (Mutex::new(2), second.clone());
    let says = move |_: &str, path: &str| {
        let mut refusals = refusals.lock().expect("nobody panicked");
        match path.ends_with(&name) {
            false => (200, one.clone()),
            true if *refusals > 0 => {
                *refusals -= 1;
                (503, Vec::new())
            }
            true => (200, two.clone()),
        }
    };
    let mut site = Site::new(says).await;
    let (ticket, work) = site.attempt(1, &[&first, &second]);
    site.depot.fetch(ticket);
    assert_eq!(site.outcome().await.0, Ok(()));
    assert_eq!(site.times("GET"), 4, "the first once, the second three times");
    assert!(work.join("one").exists() && work.join("two").exists());
}

/// Servers that share a folder may see a set late.
#[tokio::test]
async fn a_set_that_is_not_there_yet_is_asked_for_again() {
    let (pack, id) = packed("hello");
    let refusals = Mutex::new(2);
    let says = move |_: &str, _: &str| {
        let mut refusals = refusals.lock().expect("nobody panicked");
        if *refusals == 0 {
            return (200, pack.clone());
        }
        *refusals -= 1;
        (404, Vec::new())
    };
    let mut site = Site::new(says).await;
    let (ticket, _) = site.attempt(1, &[&id]);
    site.depot.fetch(ticket);
    assert_eq!(site.outcome().await.0, Ok(()));
}

/// Whoever pauses between two tries does not keep others from theirs.
#[tokio::test]
async fn more_orders_than_turns_all_have_their_tries() {
    let mut site = Site::new(|_, _| (503, Vec::new())).await;
    let orders = AT_ONCE + 2;
    for number in 0..orders {
        let (ticket, _) = site.attempt(number as u128 + 1, &[&format!("{number:064x}")]);
        site.depot.fetch(ticket);
    }
    site.until(|site| (0..orders).all(|number| site.times(&format!("GET /api/worker/artifacts/{number:064x}")) > 0))
        .await;
}
