//! `bowline db backup`: a whole database in one file, beside the servers that use it.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

use cli::db::{BackupArgs, BackupView, backup_progress};

use crate::Failed;

use super::TELL_EVERY;
use super::check::millis;
use super::part::Part;
use super::place::Place;

/// Every database of ours has it, and so has every dump of one.
const OUR_TABLE: &str = " schema_migrations ";

pub(crate) fn run(args: &BackupArgs) -> ExitCode {
    match back_up(args) {
        Ok(backup) => cli::show_backup(&backup, args.json).into(),
        Err(failed) => failed.tell(),
    }
}

fn back_up(args: &BackupArgs) -> Result<BackupView, Failed> {
    let place = Place::direct(&args.place)?;
    let begun = Instant::now();
    if let Place::Sqlite(path) = &place
        && is_same(path, &args.to)
    {
        return Err(Failed::usage(format!("{} is the database itself; name another file", args.to.display())));
    }
    let part = Part::beside(&args.to, args.force)?;
    match &place {
        Place::Sqlite(path) => {
            let whole = std::fs::metadata(path).map(|file| file.len()).ok();
            while_telling(part.path(), whole, || store_sqlite::back_up(path, part.path())).map_err(Failed::of_store)?;
            store_sqlite::verify_backup(part.path()).map_err(Failed::of_work)?;
        }
        Place::Postgres(url) => {
            while_telling(part.path(), None, || dump(url, &place, part.path()))?;
            verify_dump(part.path())?;
        }
    }
    let to = part.target().display().to_string();
    Ok(BackupView { database: place.to_string(), to, bytes: part.keep()?, took_ms: millis(begun.elapsed()) })
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Somebody who waits at a terminal is told how large the file has become.
fn while_telling<T>(file: &Path, whole: Option<u64>, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let (done, over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while over.recv_timeout(TELL_EVERY) == Err(RecvTimeoutError::Timeout) {
                let written = std::fs::metadata(file).map_or(0, |file| file.len());
                eprintln!("{}", backup_progress(written, whole));
            }
        });
        let outcome = work();
        drop(done);
        outcome
    })
}

/// By PostgreSQL's own program. How to reach the database is said in variables, which only the same user can see.
fn dump(url: &str, place: &Place, to: &Path) -> Result<(), Failed> {
    // First: what is wrong with the address, or with the database, is better said in our own words.
    let major = store_postgres::server_major(url).map_err(Failed::of_store)?;
    let mut command = Command::new("pg_dump");
    command.args(["--format=custom", "--no-password", "--file"]).arg(to);
    for (name, value) in store_postgres::dump_variables(url).map_err(Failed::of_store)? {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_installed(place, major)),
        output => output.map_err(|e| Failed::other(format!("cannot run `pg_dump`: {e}")))?,
    };
    if output.status.success() {
        return Ok(());
    }
    Err(Failed::other(format!(
        "`pg_dump` could not back up {place}: {}; it must be of version {major} or later, and the user must be allowed to read all tables",
        words(&output)
    )))
}

fn not_installed(place: &Place, major: i32) -> Failed {
    Failed::usage(format!(
        "`pg_dump` is not installed here, or not in PATH; install PostgreSQL's client programs of version {major} or later \
         (Debian and Ubuntu: `apt install postgresql-client-{major}`, Fedora: `dnf install postgresql`), \
         or run it where they are: `pg_dump --format=custom --file=bowline.dump {place}`"
    ))
}

/// Whether the dump can be read to its end, and is one of ours.
fn verify_dump(dump: &Path) -> Result<(), Failed> {
    // Turning all of it into text, for nobody, reads all of it.
    let read = |arguments: &[&str], out: Stdio| {
        let command = Command::new("pg_restore").args(arguments).arg(dump).stdin(Stdio::null()).stdout(out).output();
        let output = command.map_err(|e| Failed::other(format!("cannot read the backup with `pg_restore`: {e}")))?;
        match output.status.success() {
            true => Ok(output),
            false => Err(Failed::other(format!("the backup cannot be read: {}", words(&output)))),
        }
    };
    let list = read(&["--list"], Stdio::piped())?;
    if !String::from_utf8_lossy(&list.stdout).contains(OUR_TABLE) {
        return Err(Failed::other("this is no database of Bowline: it has no table `schema_migrations`"));
    }
    read(&["--file=/dev/null"], Stdio::null()).map(drop)
}

/// What a program said about its failure.
fn words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    if said.is_empty() { output.status.to_string() } else { said }
}
