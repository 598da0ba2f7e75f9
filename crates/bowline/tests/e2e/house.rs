//! A house for one test: a folder of its own, servers and workers on ports of their own, all ended with the test.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing here takes longer, even on a busy machine; whatever does has hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct House {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) url: String,
    /// Variables for servers and workers that are started from now on.
    pub(crate) env: Vec<(String, String)>,
}

/// A process that ends with the test.
pub(crate) struct Role {
    pub(crate) child: Child,
    /// What it printed to stdout, line by line.
    lines: mpsc::Receiver<String>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) raw: Vec<u8>,
}

impl House {
    pub(crate) fn new() -> House {
        let folder = tempfile::tempdir().expect("a temporary folder");
        House { folder, url: String::new(), env: Vec::new() }
    }

    /// A house with `bowline up` running in it.
    pub(crate) fn up() -> (House, Role) {
        let mut house = House::new();
        let up = house.start_up(&[]);
        (house, up)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Starts, or starts again, `bowline up` on this house's data, at the same address as before.
    pub(crate) fn start_up(&mut self, more: &[&str]) -> Role {
        let listen = self.listen();
        let data = self.path("data").display().to_string();
        let mut arguments = vec!["up", "--data", &data, "--listen", &listen];
        arguments.extend(more);
        let role = self.role(&arguments);
        self.url = role.wait_ready();
        role
    }

    pub(crate) fn start_server(&mut self) -> Role {
        let (listen, data, tasks) = (self.listen(), self.path("data"), self.path("tasks"));
        std::fs::create_dir_all(&tasks).expect("made");
        let config = format!("listen: {listen}\ndata: {}\ntasks: {}\n", data.display(), tasks.display());
        let config = self.write("server.yaml", &config);
        let role = self.role(&["server", "--config", &config.display().to_string()]);
        self.url = role.wait_ready();
        role
    }

    /// A worker with a state folder named after it; enrolled on its first start.
    pub(crate) fn start_worker(&self, name: &str, more: &[&str]) -> Role {
        let state = self.path(name);
        let mut arguments = vec!["worker".to_owned(), "--server".to_owned(), self.url.clone()];
        arguments.extend(["--name".to_owned(), name.to_owned(), "--state".to_owned(), state.display().to_string()]);
        if !state.join("credential").exists() {
            let made = self.bowline(&["token", "create", "--kind", "enroll", "--json"]).ok();
            let token = made.json()["token"].as_str().expect("a token").to_owned();
            arguments.extend(["--enroll-token".to_owned(), token]);
        }
        arguments.extend(more.iter().map(|&word| word.to_owned()));
        self.role(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn listen(&self) -> String {
        self.url.strip_prefix("http://").unwrap_or("127.0.0.1:0").to_owned()
    }

    fn role(&self, arguments: &[&str]) -> Role {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(self.stderr_file());
        Role::start(command)
    }

    /// Where the roles' own words go; shown when a test fails.
    fn stderr_file(&self) -> Stdio {
        let path = self.path("roles.log");
        std::fs::OpenOptions::new().create(true).append(true).open(path).expect("opened").into()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("BOWLINE_SERVER")
            .env_remove("BOWLINE_TOKEN")
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("NO_COLOR", "1")
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null());
        if !self.url.is_empty() {
            command.env("BOWLINE_SERVER", &self.url);
            if let Ok(token) = std::fs::read_to_string(self.path("data/admin.token")) {
                command.env("BOWLINE_TOKEN", token.trim());
            }
        }
        command
    }

    /// Runs a command of the client to its end.
    pub(crate) fn bowline(&self, arguments: &[&str]) -> Ran {
        let child =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        finish(child)
    }

    /// Submits a file and returns the job's id.
    pub(crate) fn submit(&self, yaml: &str) -> String {
        let path = self.write("job.yaml", yaml);
        self.bowline(&["run", &path.display().to_string(), "--detach"]).ok().out.trim().to_owned()
    }

    pub(crate) fn job(&self, id: &str) -> Value {
        self.bowline(&["job", id, "--json"]).ok().json()
    }

    /// The job's end, with its steps.
    pub(crate) fn end(&self, id: &str) -> Value {
        self.bowline(&["wait", id]);
        self.job(id)
    }

    /// Until the job, or one of its steps, is in this state.
    pub(crate) fn await_state(&self, id: &str, step: Option<&str>, wanted: &str) -> Value {
        await_that(&format!("{step:?} of {id} is {wanted}"), || {
            let job = self.job(id);
            let state = match step {
                None => job["state"].clone(),
                Some(name) => step_of(&job, name)["state"].clone(),
            };
            (state == wanted).then_some(job)
        })
    }

    pub(crate) fn await_file(&self, name: &str, wanted: &str) {
        await_that(&format!("{name} holds {wanted:?}"), || self.read(name).contains(wanted).then_some(()));
    }

    /// The step's log as it was written.
    pub(crate) fn log(&self, id: &str, step: &str) -> String {
        self.bowline(&["logs", id, step]).ok().out
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what servers and workers said ---\n{}", self.read("roles.log"));
        }
    }
}

impl Role {
    pub(crate) fn start(mut command: Command) -> Role {
        let mut child = command.spawn().expect("the binary starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Role { child, lines }
    }

    /// Waits for `ready`; returns the address that was printed before it.
    fn wait_ready(&self) -> String {
        let mut url = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == "ready" => return url,
                Ok(line) => url = line.trim_end_matches('/').to_owned(),
                Err(error) => panic!("no `ready` came: {error}"),
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }

    /// TERM, and wait for the end.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        await_that("the process ends", || self.child.try_wait().expect("waited"))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    /// It must have succeeded.
    pub(crate) fn ok(self) -> Ran {
        self.code(0)
    }

    pub(crate) fn code(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: not JSON: {}", self.out))
    }
}

/// Waits for a command, with patience.
pub(crate) fn finish(mut child: Child) -> Ran {
    let mut out = child.stdout.take().expect("a pipe");
    let mut err = child.stderr.take().expect("a pipe");
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = err.read_to_end(&mut text);
        text
    });
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = out.read_to_end(&mut text);
        text
    });
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("waited") {
            break status;
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("a command did not end in {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let output = Output { status, stdout: reader.join().expect("read"), stderr: errors.join().expect("read") };
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        raw: output.stdout,
    }
}

/// Looks until there is something, or patience is over. For what another process does there is nothing to await.
pub(crate) fn await_that<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill runs");
    assert!(status.success(), "no process {pid}");
}

/// Whether a process lives: a zombie does not.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

pub(crate) fn step_of<'a>(job: &'a Value, name: &str) -> &'a Value {
    let steps = job["steps"].as_array().expect("steps");
    steps.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no step {name} in {job}"))
}

/// `a success, b skipped`.
pub(crate) fn states(job: &Value) -> String {
    let steps = job["steps"].as_array().expect("steps").iter();
    let word = |v: &Value| v.as_str().expect("a word").to_owned();
    steps.map(|s| format!("{} {}", word(&s["name"]), word(&s["state"]))).collect::<Vec<_>>().join(", ")
}
