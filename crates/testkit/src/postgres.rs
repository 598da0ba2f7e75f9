//! A PostgreSQL that tests start themselves: one cluster for a whole run with a database for each test, or a cluster of a test's own
//! that it may stop, kill and start again.
//!
//! Tests are processes of their own, so the run's cluster belongs to none of them. Whoever comes first starts a keeper, which has
//! the cluster as its child and ends it when nobody has used it for a moment:
//!
//! ```text
//!  test ── shared lock on `users` ──┐
//!  test ── shared lock on `users` ──┼── keeper (waits until it can have `users` alone) ──► postgres
//! ```

mod standby;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock::FakeClock;
use crate::process::{self, Frozen};
use crate::wait::await_that;

const MISSING: &str = "tests need PostgreSQL 15 or later, and there is none here: apt-get install postgresql-15";

/// Below it are those that services of the machine have.
const LOWEST_PORT: u16 = 10_240;

/// What no test depends on: the data is gone with the run.
const HASTY: [&str; 5] =
    ["fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0", "max_connections=300"];

/// Ends the cluster when it could have the users' lock for itself, and again a moment later. Its own lock goes before `start`, which
/// others wait for.
const KEEPER: &str = r#"
    cd "$1" || exit 1
    exec 9>keeper.lock
    flock -n 9 || exit 0
    shift
    "$@" >>postgres.log 2>&1 </dev/null 9>&- &
    postgres=$!
    exec 8>start.lock
    while kill -0 $postgres; do
        flock users.lock true
        sleep 1
        flock 8
        flock -n users.lock true && break
        flock -u 8
    done
    kill -QUIT $postgres
    wait $postgres
    rm -rf data address
    exec 9>&-
"#;

/// What a build that is still to come may do to a database while servers of this one use it: it adds to every table, and says so.
pub const LATER: &str = "
    DO $$ DECLARE one text; BEGIN
        FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
            EXECUTE format('ALTER TABLE %I ADD COLUMN later text, ADD COLUMN later_still bigint NOT NULL DEFAULT 7', one);
        END LOOP;
    END $$;
    CREATE TABLE later (id bigint PRIMARY KEY, what text NOT NULL);
    CREATE INDEX steps_later ON steps (later);
    INSERT INTO schema_migrations (version, name, checksum, applied_at)
        SELECT max(version) + 1, 'later', sha256('later'), 0 FROM schema_migrations;
";

/// How an operator makes the database of [`Postgres::owned`].
pub const CREATE_OWNED: &str = "CREATE DATABASE bowline OWNER bowline ENCODING 'UTF8' TEMPLATE template0";

/// What the database at this address answers, a line for each row.
pub fn psql(url: &str, sql: &str) -> String {
    let mut psql = Command::new(bin().join("psql"));
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url]).stdin(Stdio::null());
    let Output { status, stdout, stderr } = psql.output().expect("psql");
    assert!(status.success(), "{sql}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).trim_end().to_owned()
}

/// A database for one test, empty at first, in the cluster of this run.
#[derive(Debug)]
pub struct Database {
    cluster: &'static Cluster,
    name: String,
}

impl Database {
    pub fn new() -> Database {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let cluster = Cluster::of_this_run();
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        cluster.address.psql("postgres", &format!("CREATE DATABASE {name}"));
        Database { cluster, name }
    }

    pub fn url(&self) -> String {
        self.cluster.address.url(&self.name)
    }

    /// What it answers, a line for each row.
    pub fn psql(&self, sql: &str) -> String {
        self.cluster.address.psql(&self.name, sql)
    }

    /// Tables of which a row holds this text, in clear or as bytes.
    pub fn tables_holding(&self, text: &str) -> Vec<String> {
        let bytes: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let tables = self.psql("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1");
        let rows = |table: &str| self.psql(&format!("COPY \"{table}\" TO STDOUT"));
        let holds = |table: &&str| {
            let rows = rows(table);
            rows.contains(text) || rows.contains(&bytes)
        };
        tables.lines().filter(holds).map(str::to_owned).collect()
    }

    /// The same by another way to it.
    pub fn psql_at(&self, url: &str, sql: &str) -> String {
        let mut psql = Command::new(bin().join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]).stdin(Stdio::null());
        let output = psql.output().expect("psql");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Does this in a session of its own; returns when it is done, and the session is still open.
    pub fn hold(&self, sql: &str) -> Holding {
        self.cluster.address.hold(&self.name, sql)
    }

    /// For whoever asks often.
    pub fn session(&self) -> Session {
        Session::open(&self.cluster.address, &self.name)
    }

    /// Keeps what is in it now, in the place of what was kept before. Nobody else may be connected, or is about to leave.
    pub fn back_up(&self) {
        let backup = self.backup();
        self.cluster.address.psql("postgres", &format!("DROP DATABASE IF EXISTS {backup}"));
        let copy = format!("CREATE DATABASE {backup} TEMPLATE {}", self.name);
        await_that("the database is copied", || self.cluster.address.try_psql("postgres", &copy).ok());
    }

    /// As it was when it was backed up; whoever is connected is thrown out.
    pub fn restore(&self) {
        let (name, backup) = (&self.name, self.backup());
        self.cluster.address.psql("postgres", &format!("DROP DATABASE {name} WITH (FORCE)"));
        self.cluster.address.psql("postgres", &format!("ALTER DATABASE {backup} RENAME TO {name}"));
    }

    fn backup(&self) -> String {
        format!("{}_backup", self.name)
    }
}

impl Default for Database {
    fn default() -> Database {
        Database::new()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // It goes with the cluster at the latest.
        let _ = self.cluster.address.try_psql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.name));
        let _ = self.cluster.address.try_psql("postgres", &format!("DROP DATABASE IF EXISTS {}", self.backup()));
    }
}

/// The cluster of this run, for as long as this process lives.
#[derive(Debug)]
struct Cluster {
    address: Address,
    /// Shared with all other tests; the keeper wants it alone.
    _users: File,
}

impl Cluster {
    fn of_this_run() -> &'static Cluster {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(Cluster::join)
    }

    fn join() -> Cluster {
        let folder = run_folder();
        let start = lock_file(&folder.join("start.lock"));
        start.lock().expect("nobody holds it for long");
        let users = lock_file(&folder.join("users.lock"));
        users.lock_shared().expect("only a keeper that has `start` wants it alone");
        let keeper = lock_file(&folder.join("keeper.lock"));
        if keeper.try_lock().is_ok() {
            drop(keeper);
            start_kept(&folder);
        }
        let address = Address::read(&folder);
        await_that("PostgreSQL answers", || address.try_psql("postgres", "SELECT 1").ok());
        Cluster { address, _users: users }
    }
}

fn start_kept(folder: &Path) {
    let data = folder.join("data");
    let pristine = pristine(folder);
    run(as_postgres("cp").arg("-a").arg(&pristine).arg(&data), "a copy of the empty cluster");
    let port = free_port();
    let password = fs::read_to_string(folder.join("password")).expect("written with the empty cluster");
    fs::write(folder.join("address"), format!("{port} {password}")).expect("written");
    // Forked off, so that it belongs to no test; and with no one's output open.
    let mut keeper = Command::new("setsid");
    keeper.args(["--fork", "sh", "-c", KEEPER, "keeper"]).arg(folder);
    let server = server(&data, folder, port, &HASTY, &[]);
    keeper.arg(server.get_program()).args(server.get_args());
    keeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run(&mut keeper, "a keeper");
}

/// A cluster of the test's own. It forgets nothing that it has answered, unless it is told to.
#[derive(Debug)]
pub struct Postgres {
    folder: tempfile::TempDir,
    address: Address,
    settings: Vec<String>,
    /// What it has in its environment.
    variables: Vec<(String, String)>,
    child: Option<Child>,
}

impl Postgres {
    /// With settings as `name=value`.
    pub fn start(settings: &[&str]) -> Postgres {
        Postgres::begin(settings, |_| Vec::new())
    }

    /// One that has a clock which the test moves; `None`, and a printed reason, where there can be none.
    pub fn on_a_clock() -> Option<(Postgres, FakeClock)> {
        let mut clock = None;
        let postgres = Postgres::begin(&[], |folder| {
            clock = FakeClock::new(folder);
            clock.as_ref().map(FakeClock::variables).unwrap_or_default()
        });
        Some((postgres, clock?))
    }

    /// One that has its log of changes in this folder.
    pub fn with_log_in(at: &Path, settings: &[&str]) -> Postgres {
        hand_over(at);
        Postgres::begin(settings, |folder| {
            let (log, there) = (folder.join("data/pg_wal"), at.join("pg_wal"));
            run(as_postgres("mv").arg(&log).arg(&there), "the log is moved");
            run(as_postgres("ln").arg("-s").arg(&there).arg(&log), "a link to the log");
            Vec::new()
        })
    }

    fn begin(settings: &[&str], variables: impl FnOnce(&Path) -> Vec<(String, String)>) -> Postgres {
        let folder = tempfile::tempdir().expect("a folder");
        hand_over(folder.path());
        let pristine = {
            let run = run_folder();
            let start = lock_file(&run.join("start.lock"));
            start.lock().expect("nobody holds it for long");
            pristine(&run)
        };
        run(as_postgres("cp").arg("-a").arg(&pristine).arg(folder.path().join("data")), "a copy of the empty cluster");
        let password = fs::read_to_string(run_folder().join("password")).expect("written with the empty cluster");
        let address = Address { port: free_port(), password };
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let variables = variables(folder.path());
        let mut postgres = Postgres { folder, address, settings, variables, child: None };
        postgres.start_again();
        postgres
    }

    /// On the same port, with the same data.
    pub fn start_again(&mut self) {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        let variables: Vec<String> = self.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (data, port) = (self.folder.path().join("data"), self.address.port);
        let mut server = server(&data, self.folder.path(), port, &settings, &variables);
        let log = OpenOptions::new().create(true).append(true).open(self.folder.path().join("postgres.log"));
        let log = log.expect("a log");
        server.stdin(Stdio::null()).stdout(log.try_clone().expect("the same")).stderr(log);
        let child = self.child.insert(server.spawn().expect("PostgreSQL starts"));
        await_that("PostgreSQL answers", || {
            assert!(child.try_wait().expect("waited").is_none(), "PostgreSQL ended by itself");
            self.address.try_psql("postgres", "SELECT 1").ok()
        });
    }

    /// As a crash would: nothing is written any more.
    pub fn crash(&mut self) {
        self.end("QUIT");
    }

    /// In order; whoever is connected is told.
    pub fn stop(&mut self) {
        self.end("INT");
    }

    /// Starts it again if it has ended by itself, and waits until it answers.
    pub fn revive(&mut self) {
        if self.child.as_mut().is_some_and(|child| child.try_wait().expect("waited").is_some()) {
            self.child = None;
            self.start_again();
        }
        await_that("PostgreSQL answers", || self.try_psql("SELECT 1").ok());
    }

    fn end(&mut self, signal: &str) {
        let mut child = self.child.take().expect("it runs");
        process::signal(child.id(), signal);
        await_that("PostgreSQL ends", || child.try_wait().expect("waited"));
    }

    pub fn url(&self) -> String {
        self.address.url("postgres")
    }

    /// Another database of it.
    pub fn url_of(&self, database: &str) -> String {
        self.address.url(database)
    }

    /// As docs/operations.md has it: a role that may do nothing but with what is its own, and a database of that. Its address.
    pub fn owned(&self) -> String {
        let Address { port, password } = &self.address;
        self.psql(&format!("CREATE ROLE bowline LOGIN PASSWORD '{password}'"));
        self.psql(CREATE_OWNED);
        format!("postgres://bowline:{password}@127.0.0.1:{port}/bowline")
    }

    /// All of its processes stand still until this is dropped: connections stay, new ones are taken by the kernel, and nothing is answered.
    pub fn freeze(&self) -> Vec<Frozen> {
        let postmaster = self.child.as_ref().expect("it runs").id();
        // While it stands still it makes no other.
        let mut frozen = vec![Frozen::new(postmaster)];
        frozen.extend(process::children(postmaster).into_iter().map(Frozen::new));
        // The other way round: those that were there go on before there are more.
        frozen.reverse();
        frozen
    }

    /// Lets it write in this folder.
    pub fn give(&self, folder: &Path) {
        hand_over(folder);
    }

    /// What it answers, a line for each row.
    pub fn psql(&self, sql: &str) -> String {
        self.address.psql("postgres", sql)
    }

    /// The same, or what it says against it.
    pub fn try_psql(&self, sql: &str) -> Result<String, String> {
        self.address.try_psql("postgres", sql)
    }

    /// Does this in a session of its own; returns when it is done, and the session is still open.
    pub fn hold(&self, sql: &str) -> Holding {
        self.address.hold("postgres", sql)
    }

    /// Sessions that do nothing, until there is room for no other.
    pub fn take_all_connections(&self) -> Vec<Session> {
        let another = || {
            let mut session = Session::open(&self.address, "postgres");
            session.try_ask("SELECT 1").map(|_| session)
        };
        std::iter::from_fn(another).collect()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = Command::new("kill").args(["-QUIT", &child.id().to_string()]).output();
            let _ = child.wait();
        }
    }
}

#[derive(Debug)]
struct Address {
    port: u16,
    password: String,
}

impl Address {
    fn read(folder: &Path) -> Address {
        let text = fs::read_to_string(folder.join("address")).expect("the keeper's cluster has an address");
        let (port, password) = text.split_once(' ').expect("a port and a password");
        Address { port: port.parse().expect("a port"), password: password.to_owned() }
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://postgres:{}@127.0.0.1:{}/{database}", self.password, self.port)
    }

    fn psql(&self, database: &str, sql: &str) -> String {
        self.try_psql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn try_psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = self.program(database);
        psql.args(["-c", sql]).stdin(Stdio::null());
        let Output { status, stdout, stderr } = psql.output().map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&stderr).trim_end().to_owned()),
        }
    }

    fn hold(&self, database: &str, sql: &str) -> Holding {
        let mut session = Session::open(self, database);
        session.ask(sql);
        Holding { _session: session }
    }

    fn program(&self, database: &str) -> Command {
        let mut psql = Command::new(bin().join("psql"));
        psql.env("PGPASSWORD", &self.password).env("PGCONNECT_TIMEOUT", "10");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"]);
        psql.args(["-p", &self.port.to_string(), "-d", database]);
        psql
    }
}

/// A session that stays open until it is dropped, with what it holds.
#[derive(Debug)]
pub struct Holding {
    _session: Session,
}

/// Answers one question after the other.
#[derive(Debug)]
pub struct Session {
    child: Child,
    answers: std::io::Lines<BufReader<ChildStdout>>,
}

impl Session {
    const ANSWERED: &str = "that was all";

    fn open(address: &Address, database: &str) -> Session {
        let mut psql = address.program(database);
        let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql");
        let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Session { child, answers }
    }

    /// The rows, with the columns' texts.
    pub fn ask(&mut self, sql: &str) -> Vec<Vec<String>> {
        self.try_ask(sql).unwrap_or_else(|| panic!("it failed: {sql}"))
    }

    /// None: it failed, and the session is over.
    fn try_ask(&mut self, sql: &str) -> Option<Vec<Vec<String>>> {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{sql};\n\\echo {}", Session::ANSWERED).ok()?;
        let mut rows = Vec::new();
        loop {
            let line = self.answers.next()?.expect("read");
            if line == Session::ANSWERED {
                return Some(rows);
            }
            rows.push(line.split('|').map(str::to_owned).collect());
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The empty cluster that others are copies of. Whoever calls has the lock `start`.
fn pristine(folder: &Path) -> PathBuf {
    let pristine = folder.join("pristine");
    if pristine.exists() {
        return pristine;
    }
    let (making, password) = (folder.join("making"), folder.join("password"));
    let _ = fs::remove_dir_all(&making);
    let secret = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), "password");
    fs::write(&password, format!("{secret:016x}")).expect("written");
    hand_over(&password);
    let mut initdb = as_postgres(&bin().join("initdb").display().to_string());
    initdb.args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]);
    initdb.arg("--pwfile").arg(&password).arg("-D").arg(&making);
    run(&mut initdb, "initdb");
    fs::rename(&making, &pristine).expect("a name");
    pristine
}

/// Ends with whoever started it, however that ends. The variables are its alone: a clock of its user's own cannot be root's before.
fn server(data: &Path, sockets: &Path, port: u16, settings: &[&str], variables: &[String]) -> Command {
    let mut server = dropping(&["--pdeathsig", "QUIT"]);
    server.arg("env").args(variables);
    server.arg(bin().join("postgres")).arg("-D").arg(data).arg("-k").arg(sockets).args(["-p", &port.to_string()]);
    for setting in ["listen_addresses=127.0.0.1", "shared_buffers=32MB"].iter().chain(settings) {
        server.args(["-c", setting]);
    }
    server
}

/// PostgreSQL refuses to run as root.
fn as_postgres(program: &str) -> Command {
    let mut command = dropping(&[]);
    command.arg(program).stdin(Stdio::null());
    command
}

pub(crate) fn dropping(more: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    if let Some((user, group)) = substitute() {
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
    }
    command.args(more).arg("--").current_dir("/");
    command
}

/// Who runs it where we are root: PostgreSQL's own user, else nobody.
fn substitute() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("a list of users");
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("somebody who is not root"))
}

/// Gives it to who runs PostgreSQL.
pub fn hand_over(path: &Path) {
    if let Some((user, group)) = substitute() {
        chown(path, Some(user), Some(group)).expect("root may");
    }
}

/// Where this run's cluster is: one for each target folder, and outside of it, since others must be able to go there.
fn run_folder() -> PathBuf {
    let tests = std::env::current_exe().expect("this program");
    let target = tests.ancestors().find(|folder| folder.ends_with("target")).unwrap_or(&tests);
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(target, &mut hasher);
    let (user, name) = (rustix::process::getuid().as_raw(), std::hash::Hasher::finish(&hasher));
    let folder = std::env::temp_dir().join(format!("bowline-postgres-{user}-{name:016x}"));
    if fs::create_dir(&folder).is_ok() {
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("ours");
        hand_over(&folder);
    }
    folder
}

/// Where PostgreSQL's programs are.
pub fn bin() -> PathBuf {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| {
        let config = Command::new("pg_config").arg("--bindir").output().ok();
        let told = config.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut versions: Vec<(u32, PathBuf)> = versions
            .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
            .filter(|(version, _)| *version >= 15)
            .collect();
        versions.sort();
        let mut places = told.into_iter().chain(versions.into_iter().rev().map(|(_, place)| place));
        places.find(|place| place.join("postgres").exists()).expect(MISSING)
    })
    .clone()
}

/// None of those that the kernel gives to whoever connects: one of them could have it while its owner is away, even by connecting to
/// itself.
pub fn free_port() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first_given = range.split_whitespace().next().and_then(|word| word.parse::<u16>().ok()).unwrap_or(32768);
    let count = u64::from(first_given.saturating_sub(LOWEST_PORT)).max(1);
    let any = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), "port") % count;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut tries = (0..1_000).map(|_| LOWEST_PORT + u16::try_from(any()).expect("below a port's number"));
    tries.find(is_free).expect("a port that nobody has")
}

fn lock_file(path: &Path) -> File {
    OpenOptions::new().create(true).truncate(false).write(true).open(path).expect("a lock")
}

fn run(command: &mut Command, what: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
}
