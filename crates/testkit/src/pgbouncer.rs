//! A real connection pooler in front of a test's PostgreSQL, in transaction mode: sessions are handed out for a transaction at a time.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::postgres::{dropping, free_port, hand_over};
use crate::process;
use crate::wait::await_that;

const MISSING: &str = "tests need PgBouncer, and there is none here: apt-get install pgbouncer";

/// Sessions that it has with the database: fewer than a test's stores have connections to it.
const SESSIONS: usize = 3;

/// Ends with the test.
#[derive(Debug)]
pub struct PgBouncer {
    folder: tempfile::TempDir,
    port: u16,
    /// Where it leads, as `postgres://user:password@host:port/database`.
    url: String,
    child: Option<Child>,
}

impl PgBouncer {
    /// In front of the database at this address.
    pub fn start(url: &str) -> PgBouncer {
        PgBouncer::with_sessions(url, SESSIONS)
    }

    pub fn with_sessions(url: &str, sessions: usize) -> PgBouncer {
        let folder = tempfile::tempdir().expect("a folder");
        let (port, url) = (free_port(), url.to_owned());
        let Parts { user, password, host, port: behind, .. } = parts(&url);
        let files = [
            ("users.txt", format!("\"{user}\" \"{password}\"\n")),
            (
                "pgbouncer.ini",
                format!(
                    "[databases]\n* = host={host} port={behind}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                     unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\npool_mode = transaction\n\
                     default_pool_size = {sessions}\nmax_client_conn = 200\nserver_login_retry = 0.1\n",
                    folder.path().join("users.txt").display()
                ),
            ),
        ];
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("written");
            hand_over(&path);
        }
        hand_over(folder.path());
        let mut pooler = PgBouncer { folder, port, url, child: None };
        pooler.start_again();
        pooler
    }

    /// On the same port.
    pub fn start_again(&mut self) {
        let log = OpenOptions::new().create(true).append(true).open(self.folder.path().join("pgbouncer.log"));
        let log = log.expect("a log");
        // It refuses to run as root, and ends with whoever started it.
        let mut command = dropping(&["--pdeathsig", "QUIT"]);
        command.arg(program()).arg(self.folder.path().join("pgbouncer.ini")).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("the same")).stderr(log);
        let child = self.child.insert(command.spawn().expect("PgBouncer starts"));
        await_that("PgBouncer answers", || {
            if let Some(status) = child.try_wait().expect("waited") {
                let log = fs::read_to_string(self.folder.path().join("pgbouncer.log")).unwrap_or_default();
                panic!("PgBouncer ended by itself: {status}\n{log}");
            }
            std::net::TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
    }

    /// Everyone's connection is lost, and nobody is told.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        process::signal(child.id(), "KILL");
        await_that("PgBouncer ends", || child.try_wait().expect("waited"));
    }

    /// The same database, through it.
    pub fn url(&self) -> String {
        let Parts { user, password, database, .. } = parts(&self.url);
        format!("postgres://{user}:{password}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Ended already is as good.
            let _ = Command::new("kill").args(["-KILL", &child.id().to_string()]).output();
            let _ = child.wait();
        }
    }
}

struct Parts<'a> {
    user: &'a str,
    password: &'a str,
    host: &'a str,
    port: &'a str,
    database: &'a str,
}

fn parts(url: &str) -> Parts<'_> {
    let parts = || {
        let (credentials, place) = url.strip_prefix("postgres://")?.split_once('@')?;
        let (user, password) = credentials.split_once(':')?;
        let (server, database) = place.split_once('/')?;
        let (host, port) = server.split_once(':')?;
        Some(Parts { user, password, host, port, database })
    };
    parts().expect("the whole address of a test's database")
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(|f| Path::new(f).to_owned()));
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.exists()).expect(MISSING)
}
