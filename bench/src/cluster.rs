//! A PostgreSQL of a measurement's own: its data on the disk that is measured, its settings and durability as PostgreSQL
//! comes.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

use crate::Outcome;
use crate::bowline::Bowline;
use crate::cpu;

const MISSING: &str = "(i) to (m) need PostgreSQL 15 or later, and there is none here: apt-get install postgresql-15";

/// Far more than a start takes.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(50);

const USER: &str = "postgres";

/// Ended when it is dropped, and its data with it.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: TempDir,
    port: u16,
    server: Child,
}

impl Cluster {
    /// It ends with the thread that calls this, however that ends: only the bench's main thread may.
    pub(crate) fn start(bowline: &Bowline) -> Outcome<Cluster> {
        let folder = bowline.folder()?;
        hand_over(folder.path())?;
        let data = folder.path().join("data");
        let mut initdb = dropping(&[]);
        initdb.arg(program("initdb")?).arg("-D").arg(&data).arg(format!("--username={USER}"));
        said(initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = File::create(folder.path().join("postgres.log"))?;
        let mut server = dropping(&["--pdeathsig", "QUIT"]);
        server.arg(program("postgres")?).arg("-D").arg(&data).arg("-k").arg(folder.path());
        server.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        let server = server.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut cluster = Cluster { folder, port, server };
        cluster.await_answer()?;
        cluster.check_durability()?;
        Ok(cluster)
    }

    fn await_answer(&mut self) -> Outcome<()> {
        let begin = Instant::now();
        loop {
            let answer = self.ask(USER, "SELECT 1");
            let over = self.server.try_wait()?.is_some() || begin.elapsed() > START_TIMEOUT;
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if over => {
                    let log = std::fs::read_to_string(self.folder.path().join("postgres.log")).unwrap_or_default();
                    return Err(format!("PostgreSQL does not answer: {error}\n{log}").into());
                }
                Err(_) => std::thread::sleep(START_POLL),
            }
        }
    }

    fn check_durability(&self) -> Outcome<()> {
        for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
            let value = self.ask(USER, &format!("SHOW {setting}"))?;
            if value != "on" {
                return Err(format!("PostgreSQL has {setting} = {value} and not on").into());
            }
        }
        Ok(())
    }

    /// A new database. Its address.
    pub(crate) fn database(&self, name: &str) -> Outcome<String> {
        self.ask(USER, &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(name))
    }

    /// What a database answers, a line for each row.
    pub(crate) fn ask(&self, database: &str, sql: &str) -> Outcome<String> {
        let mut psql = Command::new(program("psql")?);
        said(psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]).arg(self.url(database)))
    }

    /// A number that a database answers with.
    pub(crate) fn count(&self, database: &str, sql: &str) -> Outcome<f64> {
        let answer = self.ask(database, sql)?;
        answer.parse().map_err(|_| format!("PostgreSQL answered {sql} with {answer:?}").into())
    }

    /// The CPU time that all of it has used, in seconds.
    pub(crate) fn cpu_secs(&self) -> Outcome<f64> {
        cpu::secs_of_family(self.server.id())
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // At once: the data goes with it.
        if let Some(pid) = Pid::from_raw(self.server.id().cast_signed()) {
            let _ = kill_process(pid, Signal::QUIT);
        }
        let _ = self.server.wait();
    }
}

/// One of PostgreSQL's programs.
pub(crate) fn program(name: &str) -> Outcome<PathBuf> {
    let told = Command::new("pg_config").arg("--bindir").output().ok();
    let told = told.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin")).collect();
    places.sort();
    let mut places = told.into_iter().chain(places.into_iter().rev());
    Ok(places.find(|place| place.join("postgres").exists()).ok_or(MISSING)?.join(name))
}

/// What a program prints.
pub(crate) fn said(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start {name}: {error}"))?;
    let Output { status, stdout, stderr } = output;
    if !status.success() {
        return Err(format!("{name} ended with {status}: {}", String::from_utf8_lossy(&stderr).trim()).into());
    }
    Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned())
}

/// PostgreSQL refuses to run as root.
fn dropping(more: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    if let Some((user, group)) = substitute() {
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
    }
    command.args(more).arg("--").current_dir("/");
    command
}

/// Who runs it where we are root: PostgreSQL's own user, else nobody.
fn substitute() -> Option<(u32, u32)> {
    if !getuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody"))
}

/// Gives it to who runs PostgreSQL.
fn hand_over(path: &Path) -> Outcome<()> {
    if let Some((user, group)) = substitute() {
        chown(path, Some(user), Some(group))?;
    }
    Ok(())
}
