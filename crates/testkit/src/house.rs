//! A house for one test: a folder of its own, servers and workers on ports of their own, all ended with the test. Its servers have
//! SQLite in that folder, or a database of the house's own in the run's PostgreSQL: with `BOWLINE_TEST_STORE=postgres` every house
//! is of the second kind, so that the same tests hold for both.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::clock::FakeClock;
use crate::outside::Outside;
use crate::pauses::Pauses;
use crate::postgres::{Database, Postgres};
use crate::process;
use crate::proxy::Proxy;
use crate::ran::{Ran, finish};
use crate::role::Role;
use crate::wait::await_that;

pub struct House {
    pub folder: tempfile::TempDir,
    /// Where the server is; empty before the first start. A later start takes the same address.
    pub url: String,
    /// Variables for servers and workers that are started from now on.
    pub env: Vec<(String, String)>,
    /// What workers that are started from now on have between themselves and the server.
    pub proxy: Option<Proxy>,
    /// What its servers share; none where each has a file of its own.
    pub database: Option<Database>,
    /// A cluster that ends with the house.
    own: Option<Postgres>,
}

/// Which store houses have.
const STORE_VARIABLE: &str = "BOWLINE_TEST_STORE";

/// Houses of this run have PostgreSQL.
pub fn on_postgres() -> bool {
    match std::env::var(STORE_VARIABLE) {
        Ok(store) if store == "postgres" => true,
        Ok(store) if store == "sqlite" => false,
        Ok(other) => panic!("{STORE_VARIABLE} must be sqlite or postgres, not {other}"),
        Err(_) => false,
    }
}

/// For tests about SQLite's own file: whether there is none in this run, which is then said.
pub fn no_sqlite_here(why: &str) -> bool {
    if on_postgres() {
        eprintln!("skipped: it is about SQLite: {why}");
    }
    on_postgres()
}

impl House {
    pub fn new() -> House {
        if on_postgres() { House::shared() } else { House::empty() }
    }

    /// With a database that several servers can share, whatever store others have.
    pub fn shared() -> House {
        let database = Database::new();
        let mut house = House::on(&database.url());
        house.database = Some(database);
        house
    }

    /// On a database that the test looks after itself.
    pub fn on(url: &str) -> House {
        let mut house = House::empty();
        house.set("BOWLINE_DATABASE", url);
        house
    }

    /// Whoever is started in it, and the database, have a clock that the test moves; `None`, and a printed reason, where
    /// there can be none.
    pub fn on_a_clock() -> Option<(House, FakeClock)> {
        let (mut house, clock) = if on_postgres() {
            let (postgres, clock) = Postgres::on_a_clock()?;
            let mut house = House::on(&postgres.url());
            house.own = Some(postgres);
            (house, clock)
        } else {
            let house = House::empty();
            let clock = FakeClock::new(house.folder.path())?;
            (house, clock)
        };
        house.env.extend(clock.variables());
        Some((house, clock))
    }

    fn empty() -> House {
        let folder = tempfile::tempdir().expect("a temporary folder");
        House { folder, url: String::new(), env: Vec::new(), proxy: None, database: None, own: None }
    }

    /// A house with `bowline up` running in it.
    pub fn up() -> (House, Role) {
        let mut house = House::new();
        let up = house.start_up(&[]);
        (house, up)
    }

    /// A house with a server and the worker `w`, which find each other's silence in a second, and in which nothing is
    /// given up for lost unless it is said to be: a busy machine must not decide a test.
    pub fn patient() -> (House, Role, Role) {
        House::with_window("30")
    }

    /// The same, but the recovery window is over after two seconds.
    pub fn hasty() -> (House, Role, Role) {
        House::with_window("1")
    }

    fn with_window(max_reconnect_delay: &str) -> (House, Role, Role) {
        let mut house = House::new();
        house.recovery(&[("MAX_RECONNECT_DELAY_SECS", max_reconnect_delay)]);
        let server = house.start_server();
        let worker = house.start_worker("w", &[]);
        (house, server, worker)
    }

    /// Recovery settings for servers that are started from now on: brisk signs of life, and what the test names.
    pub fn recovery(&mut self, settings: &[(&str, &str)]) {
        let brisk = [
            ("LINK_PING_SECS", "0.25"),
            ("HEARTBEAT_INTERVAL_SECS", "0.25"),
            ("RUNNER_HEARTBEAT_INTERVAL_SECS", "0.25"),
            ("DISPATCH_ACK_SECS", "2"),
            ("DISPATCH_GRACE_SECS", "0.25"),
        ];
        for (name, value) in brisk.iter().chain(settings) {
            self.set(&format!("BOWLINE_RECOVERY__{name}"), value);
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The last value of a name counts.
    pub fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    pub fn unset(&mut self, name: &str) {
        self.env.retain(|(known, _)| known != name);
    }

    /// What the steps of this house did, as they say themselves.
    pub fn outside(&self) -> Outside {
        Outside::new(self.folder.path())
    }

    /// Makes whoever is started from now on stop at `point`.
    pub fn pause_at(&mut self, point: pause::Point) -> Pauses {
        let pauses = Pauses::new(self.path("pauses"), point);
        self.env.extend(pauses.variables());
        pauses
    }

    /// Puts a proxy between the server and workers that are started from now on.
    pub fn add_proxy(&mut self) -> Proxy {
        let proxy = Proxy::start(self.url.strip_prefix("http://").expect("the server is up"));
        self.proxy = Some(proxy.clone());
        proxy
    }

    /// Starts, or starts again, `bowline up` on this house's data, at the same address as before.
    pub fn start_up(&mut self, more: &[&str]) -> Role {
        let listen = self.listen();
        let data = self.path("data").display().to_string();
        let mut arguments = vec!["up", "--data", &data, "--listen", &listen];
        arguments.extend(more);
        let role = self.role(&arguments);
        self.url = role.wait_ready();
        role
    }

    pub fn start_server(&mut self) -> Role {
        let (listen, data, tasks) = (self.listen(), self.path("data"), self.path("tasks"));
        std::fs::create_dir_all(&tasks).expect("made");
        let config = format!("listen: {listen}\ndata: {}\ntasks: {}\n", data.display(), tasks.display());
        let config = self.write("server.yaml", &config);
        let role = self.role(&["server", "--config", &config.display().to_string()]);
        self.url = role.wait_ready();
        role
    }

    /// A worker with a state folder named after it; enrolled on its first start.
    pub fn start_worker(&self, name: &str, more: &[&str]) -> Role {
        let server = self.proxy.as_ref().map_or_else(|| self.url.clone(), Proxy::url);
        self.start_worker_at(&server, name, more)
    }

    /// The same with servers of its own: addresses with commas between them.
    pub fn start_worker_at(&self, servers: &str, name: &str, more: &[&str]) -> Role {
        let state = self.path(name);
        let mut arguments = vec!["worker".to_owned(), "--server".to_owned(), servers.to_owned()];
        arguments.extend(["--name".to_owned(), name.to_owned(), "--state".to_owned(), state.display().to_string()]);
        if !state.join("credential").exists() {
            let made = self.bowline(&["token", "create", "--kind", "enroll", "--json"]).ok();
            let token = made.json()["token"].as_str().expect("a token").to_owned();
            arguments.extend(["--enroll-token".to_owned(), token]);
        }
        arguments.extend(more.iter().map(|&word| word.to_owned()));
        self.role(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Keeps what the stopped server has.
    pub fn back_up(&self) {
        self.copy("data", "backup");
        self.database.iter().for_each(Database::back_up);
    }

    /// What was kept, in the place of what the killed server has.
    pub fn restore(&self) {
        std::fs::remove_dir_all(self.path("data")).expect("removed");
        self.copy("backup", "data");
        self.database.iter().for_each(Database::restore);
    }

    /// A folder, as it is.
    pub fn copy(&self, from: &str, to: &str) {
        let copied = Command::new("cp").arg("-a").arg(self.path(from)).arg(self.path(to)).status();
        assert!(copied.expect("cp runs").success());
    }

    /// Until workers have had so many links. While a server is away, and nobody has missed it yet, the rows say what it wrote last.
    pub fn await_links(&self, count: usize) {
        await_that(&format!("link number {count}"), || {
            (self.read("roles.log").matches("connected to the server").count() >= count).then_some(())
        });
    }

    /// All processes of this house, runners and steps included.
    pub fn living(&self) -> Vec<u32> {
        process::living_in(self.folder.path())
    }

    fn listen(&self) -> String {
        self.url.strip_prefix("http://").unwrap_or("127.0.0.1:0").to_owned()
    }

    /// A process that is left to itself.
    pub fn role(&self, arguments: &[&str]) -> Role {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(self.stderr_file());
        Role::start(command)
    }

    /// Where the roles' own words go; shown when a test fails.
    fn stderr_file(&self) -> Stdio {
        let path = self.path("roles.log");
        std::fs::OpenOptions::new().create(true).append(true).open(path).expect("opened").into()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
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
    pub fn bowline(&self, arguments: &[&str]) -> Ran {
        let child =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        finish(child)
    }

    /// Submits a file and returns the job's id.
    pub fn submit(&self, yaml: &str) -> String {
        let path = self.write("job.yaml", yaml);
        self.bowline(&["run", &path.display().to_string(), "--detach"]).ok().out.trim().to_owned()
    }

    pub fn job(&self, id: &str) -> Value {
        self.bowline(&["job", id, "--json"]).ok().json()
    }

    /// The job's end, with its steps.
    pub fn end(&self, id: &str) -> Value {
        self.bowline(&["wait", id]);
        self.job(id)
    }

    /// Until the job, or one of its steps, is in this state.
    pub fn await_state(&self, id: &str, step: Option<&str>, wanted: &str) -> Value {
        await_that(&format!("{step:?} of {id} is {wanted}"), || {
            let job = self.job(id);
            let state = match step {
                None => job["state"].clone(),
                Some(name) => step_of(&job, name)["state"].clone(),
            };
            (state == wanted).then_some(job)
        })
    }

    pub fn await_file(&self, name: &str, wanted: &str) {
        await_that(&format!("{name} holds {wanted:?}"), || self.read(name).contains(wanted).then_some(()));
    }

    /// The step's log as it was written.
    pub fn log(&self, id: &str, step: &str) -> String {
        self.bowline(&["logs", id, step]).ok().out
    }
}

impl Default for House {
    fn default() -> House {
        House::new()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what servers and workers said ---\n{}", self.read("roles.log"));
        }
        // Runners outlive whoever started them: that is their purpose, and must not outlive the test.
        for pid in self.living() {
            process::end(pid);
        }
    }
}

/// The binary that was built with this test: one folder above the tests' own.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    test.parent().and_then(Path::parent).expect("target/PROFILE/deps").join("bowline")
}

pub fn step_of<'a>(job: &'a Value, name: &str) -> &'a Value {
    let steps = job["steps"].as_array().expect("steps");
    steps.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no step {name} in {job}"))
}

/// `a success, b skipped`.
pub fn states(job: &Value) -> String {
    let steps = job["steps"].as_array().expect("steps").iter();
    let word = |v: &Value| v.as_str().expect("a word").to_owned();
    steps.map(|s| format!("{} {}", word(&s["name"]), word(&s["state"]))).collect::<Vec<_>>().join(", ")
}
