//! The worker's part: makes folders, starts runners, talks to them, reads what they leave.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use protocol::attempt::*;
use protocol::folder::*;
use protocol::log::{Blocks, LineEnd, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;
use uuid::Uuid;

/// Long enough for a busy machine, short enough to see a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An attempt that is not started yet; change `spec` as needed.
pub(crate) struct Plan {
    pub(crate) spec: FolderSpec,
    pub(crate) home: TempDir,
}

impl Plan {
    pub(crate) fn script(text: &str) -> Self {
        Plan::new(Program::Script { shell: vec!["bash".to_owned(), "-e".to_owned()], text: text.to_owned() })
    }

    pub(crate) fn command(argv: &[&str]) -> Self {
        Plan::new(Program::Command { argv: argv.iter().map(|word| (*word).to_owned()).collect() })
    }

    fn new(program: Program) -> Self {
        let attempt = AttemptSpec {
            format: SPEC_FORMAT,
            ticket: Ticket { attempt: Uuid::from_u128(fresh_number()), fence: 42 },
            job: Uuid::from_u128(7),
            task: "test".to_owned(),
            step: "step".to_owned(),
            number: 1,
            program,
            env: BTreeMap::new(),
            workdir: None,
            timeout_ms: None,
            effects: Effects::Writes,
            on_disconnect: OnDisconnect::Keep,
            lease_ms: None,
            stop: StopPlan { signal: 15, grace_ms: 10_000 },
            cleanup: None,
            secrets: Vec::new(),
            artifacts: None,
            fetch: Vec::new(),
        };
        let local = Local {
            log_lines_max: 100_000_000,
            log_bytes_max: 1 << 40,
            cgroup_parent: None,
            base_env: BTreeMap::from([("HOME".to_owned(), "/nowhere".to_owned())]),
            rules: RunnerRules::default(),
            caretaker: None,
            ends_with_worker: false,
        };
        Plan { spec: FolderSpec::new(attempt, local), home: TempDir::new().expect("temporary folder") }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("attempt")
    }

    /// A named pipe at which step and test meet; the step knows it by the variable `name`.
    pub(crate) fn fifo(&mut self, name: &str) -> PathBuf {
        let path = self.file(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("fifo");
        path
    }

    /// A file outside the attempt's folder; the step knows it by the variable `name`.
    pub(crate) fn file(&mut self, name: &str) -> PathBuf {
        let path = self.home.path().join(name);
        self.spec.attempt.env.insert(name.to_owned(), path.to_str().expect("text").to_owned());
        path
    }

    /// Starts the runner; its first word has not been read yet.
    pub(crate) fn launch(self) -> Attempt {
        let folder = self.folder();
        runner::folder_io::create(&folder, &self.spec).expect("attempt folder");
        self.launch_in(&folder)
    }

    pub(crate) fn launch_in(self, folder: &Path) -> Attempt {
        let (child, stream) = runner::launch::launch::<&str>(&runner_program(), &[], folder).expect("runner");
        Attempt {
            folder: folder.to_owned(),
            spec: self.spec,
            runner: child,
            link: Some(Link::new(stream)),
            _home: self.home,
        }
    }

    pub(crate) fn launch_ready(self) -> Attempt {
        let mut attempt = self.launch();
        let ready = attempt.link().next();
        assert_eq!(ready, FromRunner::Ready { pid: attempt.runner.id(), format: FOLDER_FORMAT });
        attempt
    }

    pub(crate) fn start(self) -> Attempt {
        let mut attempt = self.launch_ready();
        attempt.link().send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
        attempt
    }

    /// From launch to the end, when nothing in between matters.
    pub(crate) fn run(self) -> (End, Attempt) {
        let mut attempt = self.start();
        let end = attempt.ended();
        (end, attempt)
    }
}

/// An attempt whose runner was started.
pub(crate) struct Attempt {
    pub(crate) folder: PathBuf,
    pub(crate) spec: FolderSpec,
    pub(crate) runner: Child,
    pub(crate) link: Option<Link>,
    _home: TempDir,
}

impl Attempt {
    pub(crate) fn link(&mut self) -> &mut Link {
        self.link.as_mut().expect("connected")
    }

    /// Waits for `started`.
    pub(crate) fn started(&mut self) -> Process {
        loop {
            if let FromRunner::Started { pid, start_time } = self.link().next() {
                assert!(start_time > 0);
                return Process::open(pid);
            }
        }
    }

    /// Waits for the end, and checks that it was on disk before it was told.
    pub(crate) fn ended(&mut self) -> End {
        loop {
            if let FromRunner::Ended { end } = self.link().next() {
                let recorded = runner::folder_io::read_record(&self.folder).expect("readable").end;
                assert_eq!(recorded.as_ref(), Some(&end), "the record comes before the report");
                return end;
            }
        }
    }

    /// Says goodbye and waits until the runner has left.
    pub(crate) fn finish(&mut self) {
        self.link().send(&ToRunner::Bye);
        self.wait_for_runner();
    }

    pub(crate) fn wait_for_runner(&mut self) {
        Process::open(self.runner.id()).wait_for_death();
        assert!(self.runner.wait().expect("reaped").success());
        assert!(!self.lives());
    }

    pub(crate) fn lives(&self) -> bool {
        runner::folder_io::runner_lives(&self.folder).expect("lock")
    }

    /// Cuts the worker's line.
    pub(crate) fn disconnect(&mut self) {
        self.link = None;
    }

    pub(crate) fn reconnect(&mut self) {
        self.link = Some(Link::new(connect(&self.folder)));
    }

    pub(crate) fn notes(&self) -> String {
        fs::read_to_string(self.folder.join(NOTES_FILE)).unwrap_or_default()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        let Ok(entries) = fs::read_dir(self.folder.join(LOG_FOLDER)) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("entry").file_name().into_string().expect("text")).collect();
        names.sort_by_key(|name| segment_number(name).expect("a segment"));
        let mut records = Vec::new();
        for name in names {
            let bytes = fs::read(self.folder.join(LOG_FOLDER).join(name)).expect("segment");
            for block in Blocks::new(&bytes) {
                records.extend(block.expect("good block").lines().map(|line| Record {
                    seq: line.seq,
                    time_us: line.time_us,
                    stream: line.stream,
                    end: line.end,
                    bytes: line.bytes.to_vec(),
                }));
            }
        }
        records
    }

    /// The bytes of a stream exactly as the step wrote them.
    pub(crate) fn raw(&self, stream: Stream) -> Vec<u8> {
        let mut raw = Vec::new();
        for record in self.records().iter().filter(|record| record.stream == stream) {
            raw.extend_from_slice(&record.bytes);
            if record.end == LineEnd::Newline {
                raw.push(b'\n');
            }
        }
        raw
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.raw(Stream::Stdout)).expect("text")
    }
}

impl Drop for Attempt {
    /// A failed test leaves nothing behind.
    fn drop(&mut self) {
        let _ = self.runner.kill();
        let _ = self.runner.wait();
        if let Ok(recorded) = runner::folder_io::read_record(&self.folder) {
            let _ = runner::remains::kill(&self.spec, recorded.tally);
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) seq: u64,
    pub(crate) time_us: i64,
    pub(crate) stream: Stream,
    pub(crate) end: LineEnd,
    pub(crate) bytes: Vec<u8>,
}

/// A control connection.
pub(crate) struct Link {
    reader: BufReader<UnixStream>,
}

impl Link {
    pub(crate) fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        Link { reader: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, message: &ToRunner) {
        self.send_all(std::slice::from_ref(message));
    }

    /// In one write.
    pub(crate) fn send_all(&mut self, messages: &[ToRunner]) {
        let lines: Vec<String> =
            messages.iter().map(|message| serde_json::to_string(message).expect("json") + "\n").collect();
        self.reader.get_mut().write_all(lines.concat().as_bytes()).expect("sent");
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("sent");
    }

    pub(crate) fn next(&mut self) -> FromRunner {
        self.next_or_closed().expect("a message, not the end of the connection")
    }

    /// `None` when the runner has closed the connection.
    pub(crate) fn next_or_closed(&mut self) -> Option<FromRunner> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).expect("a message")),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no message: {error}"),
        }
    }

    pub(crate) fn status(&mut self) -> Status {
        self.send(&ToRunner::Status);
        loop {
            match self.next() {
                FromRunner::Status { status } => return status,
                FromRunner::Log { .. } | FromRunner::Started { .. } => {}
                other => panic!("expected a status, got {other:?}"),
            }
        }
    }

    /// Waits until the log holds line `seq`.
    pub(crate) fn wait_for_line(&mut self, seq: u64) {
        loop {
            match self.next() {
                FromRunner::Log { last_seq, .. } if last_seq >= seq => return,
                FromRunner::Ended { end } => panic!("ended before line {seq}: {end:?}"),
                _ => {}
            }
        }
    }
}

/// A process, held by a descriptor: its number may go to another one, and a zombie is not alive.
pub(crate) struct Process {
    pub(crate) pid: u32,
    descriptor: std::os::fd::OwnedFd,
}

impl Process {
    pub(crate) fn open(pid: u32) -> Self {
        let raw = Pid::from_raw(i32::try_from(pid).expect("pid")).expect("pid");
        Process { pid, descriptor: pidfd_open(raw, PidfdFlags::empty()).expect("process exists") }
    }

    /// A process whose number a step writes to `path`, as soon as it is there.
    pub(crate) fn from_file(path: &Path) -> Self {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match fs::read_to_string(path).unwrap_or_default().trim().parse() {
                Ok(pid) => return Process::open(pid),
                Err(_) => std::thread::yield_now(),
            }
        }
        panic!("{} was never written", path.display());
    }

    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.descriptor, Signal::KILL);
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.dies_within(Duration::ZERO)
    }

    pub(crate) fn wait_for_death(&self) {
        assert!(self.dies_within(PATIENCE), "process {} still lives", self.pid);
    }

    fn dies_within(&self, patience: Duration) -> bool {
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).expect("poll") > 0
    }
}

/// As a worker does: a runner that has not noticed its loss yet is tried again.
pub(crate) fn connect(folder: &Path) -> UnixStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match runner::launch::connect(folder) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "no connection: {error}"),
        }
        std::thread::yield_now();
    }
}

/// The example is built along with the tests.
pub(crate) fn runner_program() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let program = test.parent().and_then(Path::parent).expect("target folder").join("examples/runner");
    assert!(program.exists(), "{} is missing: build it with `cargo build -p runner --examples`", program.display());
    program
}

/// Unique among the tests that share a machine's cgroups.
fn fresh_number() -> u128 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    (time.as_nanos() << 32) | u128::from(std::process::id())
}
