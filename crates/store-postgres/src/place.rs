//! A database, and how connections to it are opened and tuned.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use store::StoreError;
use tokio::task::AbortHandle;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::address::{self, CONNECT_PATIENCE};
use crate::driver::{Driver, wait};
use crate::session::{Beginnings, Failure, Manner, Session};
use crate::values::get;

/// The oldest PostgreSQL that the statements were tried on, as it counts itself.
const VERSION_MIN: i32 = 150_000;

/// A server that stands still in the middle of a transaction must not hold its rows for longer than others wait for them: who stands
/// still begins anew when it goes on, and the others never knew. Nor does a statement wait for anybody for ever.
///
/// Plans are kept, maybe from when a table was still empty, while it grows. So they never depend on what was counted when: always
/// from row to row by an index, which every statement here has. Small tables are read whole all the same: that counts as so dear
/// then that each time would begin with compiling the statement, were it allowed.
const TUNING: [&str; 8] = [
    "statement_timeout = '25s'",
    "lock_timeout = '10s'",
    "idle_in_transaction_session_timeout = '5s'",
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "max_parallel_workers_per_gather = 0",
    "jit = off",
];

/// Whoever writes has arrays for arguments, of whose length no plan depends: one is made for each statement, and none anew.
const TUNING_TO_WRITE: &str = "plan_cache_mode = force_generic_plan";

/// Found in a session that nobody but us should have used: somebody hands out sessions.
const LEAVE_TRACE: &str = "SELECT set_config('bowline.trace', 'left', false)";
const FIND_TRACE: &str = "SELECT coalesce(current_setting('bowline.trace', true), '')";

/// Whoever asks for all that is wrong reads whole tables, for as long as that takes, and changes nothing.
const TUNING_TO_CHECK: [&str; 5] = [
    "statement_timeout = 0",
    "idle_in_transaction_session_timeout = '60s'",
    "default_transaction_read_only = on",
    "work_mem = '64MB'",
    "jit = off",
];

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Look,
    Check,
}

/// A database, by what is needed to reach it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    config: Config,
    driver: Arc<Driver>,
    pooled: bool,
    /// For people, without a password.
    pub(crate) name: Arc<str>,
}

impl Place {
    /// `pooled`: there is somebody in between who hands out sessions for a transaction at a time.
    pub(crate) fn new(url: &str, pooled: bool) -> Result<Place, StoreError> {
        let config = address::read(url)?;
        let name = Arc::from(address::name(&config));
        Ok(Place { config, driver: Arc::new(Driver::start()?), pooled, name })
    }

    pub(crate) fn connect(&self, purpose: Purpose) -> Result<Session, StoreError> {
        self.open(purpose, false)
    }

    /// The first connection to write: is it what it seems to be?
    pub(crate) fn connect_first(&self) -> Result<Session, StoreError> {
        self.open(Purpose::Write, true)
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Whether this is the way to the database itself, as was found out with the first connection.
    pub(crate) fn leads_to(&self, config: &Config) -> bool {
        !self.pooled && self.config == *config
    }

    fn open(&self, purpose: Purpose, first: bool) -> Result<Session, StoreError> {
        // Without the driver, which must not be dropped on its own thread.
        let (mut config, name) = (self.config.clone(), self.name.clone());
        if purpose == Purpose::Check {
            // A standby knows as much.
            config.target_session_attrs(TargetSessionAttrs::Any);
        }
        let opening: Pin<Box<dyn Future<Output = Result<Session, Failure>> + Send>> = match self.pooled {
            true => Box::pin(async move { open_pooled(&config, purpose).await }),
            false => Box::pin(async move { open_direct(&config, purpose, first, &name).await }),
        };
        match wait(CONNECT_PATIENCE, self.driver.handle().spawn(opening)) {
            Some(Ok(opened)) => opened.map_err(|failure| failure.into_store(&self.name)),
            Some(Err(error)) => Err(self.unavailable(&error.to_string())),
            None => Err(self.unavailable(&format!("no connection within {} s", CONNECT_PATIENCE.as_secs()))),
        }
    }

    /// Whether this is a database that can hold what we write.
    pub(crate) async fn check(&self, session: &mut Session) -> Result<(), Failure> {
        let asked = "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                            current_setting('server_encoding')";
        let Some(row) = session.query_opt(asked, &[]).await? else { return Ok(()) };
        let (number, version, encoding): (i32, String, String) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        let refused = |why: String| Failure::Store(StoreError::Refused { message: format!("{}: {why}", self.name) });
        if number < VERSION_MIN {
            return Err(refused(format!("PostgreSQL 15 or later is needed, and this is {version}")));
        }
        if encoding != "UTF8" {
            return Err(refused(format!("the database must have the encoding UTF8, and has {encoding}")));
        }
        Ok(())
    }

    pub(crate) fn unavailable(&self, what: &str) -> StoreError {
        StoreError::Unavailable { message: format!("{}: {what}", self.name) }
    }
}

async fn open_direct(config: &Config, purpose: Purpose, first: bool, name: &str) -> Result<Session, Failure> {
    let (client, socket) = plain(config).await?;
    // Before anything is set that others would find.
    if first && is_handed_out(config, &client).await? {
        let message = format!(
            "{name} is a connection pooler that hands out sessions for a transaction at a time; say so with `postgres.pooled: true`"
        );
        return Err(StoreError::Refused { message }.into());
    }
    client.batch_execute(&tuning(purpose, false)).await.map_err(Failure::Postgres)?;
    Ok(Session::new(client, socket, Manner::Named(HashMap::new())))
}

async fn open_pooled(config: &Config, purpose: Purpose) -> Result<Session, Failure> {
    let (client, socket) = plain(config).await?;
    Ok(Session::new(client, socket, Manner::Whole(Beginnings::with(&tuning(purpose, true)))))
}

/// A connection without settings; its socket is driven until it is dropped.
async fn plain(config: &Config) -> Result<(Client, AbortHandle), Failure> {
    let (client, connection) = config.connect(NoTls).await.map_err(Failure::Postgres)?;
    let task = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    });
    Ok((client, task.abort_handle()))
}

/// Whether a new connection finds what was left on another one, which only somebody in between can bring about. One that happens
/// to have a session to spare is not noticed.
pub(crate) async fn is_handed_out(config: &Config, client: &Client) -> Result<bool, Failure> {
    client.batch_execute(LEAVE_TRACE).await.map_err(Failure::Postgres)?;
    let (other, _) = plain(config).await?;
    let found = other.simple_query(FIND_TRACE).await.map_err(Failure::Postgres)?;
    Ok(found.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).is_some_and(|trace| !trace.is_empty()),
        _ => false,
    }))
}

/// The settings, for the session or only for the transaction that was just begun.
fn tuning(purpose: Purpose, local: bool) -> String {
    let set = if local { "SET LOCAL" } else { "SET" };
    let tuning: &[&str] = if purpose == Purpose::Check { &TUNING_TO_CHECK } else { &TUNING };
    let mut settings: Vec<String> = tuning.iter().map(|setting| format!("{set} {setting}")).collect();
    if purpose == Purpose::Write {
        settings.push(format!("{set} {TUNING_TO_WRITE}"));
        settings.push(format!(
            "SELECT set_config('synchronous_commit', 'on', {local}) WHERE current_setting('synchronous_commit') = 'off'"
        ));
    }
    settings.join("; ")
}

#[cfg(test)]
mod tests {
    use store::Store;

    use super::*;
    use crate::PostgresStore;
    use crate::session::Train;

    /// Its server is frozen, or so slow that it may as well be. Others never know.
    #[test]
    fn who_falls_silent_in_a_transaction_is_thrown_out_before_others_give_up() {
        const LOCK: &str = "SELECT value FROM meta WHERE key = 'who' FOR UPDATE";
        let commits = |pooled: bool| {
            let database = testkit::postgres::Database::new();
            let mut sibling = PostgresStore::open(&database.url()).expect("a database");
            sibling.set_meta("who", "first").expect("a write");
            let place = Place::new(&database.url(), pooled).expect("an address");
            let mut silent = place.connect(Purpose::Write).expect("a connection");
            let mut train = Train::beginning();
            train.add(LOCK, Vec::new());
            wait(CONNECT_PATIENCE, silent.run(&train)).expect("in time").map_err(|_| "failed").expect("it has the row");
            sibling.set_meta("who", "second").expect("the row is free in time");
        };
        std::thread::scope(|scope| [false, true].map(|pooled| scope.spawn(move || commits(pooled))).map(drop));
    }

    /// Whatever the database or the role is set to.
    #[test]
    fn a_commit_is_on_the_disk_before_it_is_answered() {
        let database = testkit::postgres::Database::new();
        let asked = |value: &str, pooled: bool| {
            let name = database.psql("SELECT current_database()");
            database.psql(&format!("ALTER DATABASE {name} SET synchronous_commit = {value}"));
            let place = Place::new(&database.url(), pooled).expect("an address");
            let mut session = place.connect(Purpose::Write).expect("a connection");
            let row = wait(CONNECT_PATIENCE, session.query_opt("SHOW synchronous_commit", &[]));
            row.expect("in time").expect("an answer").expect("a row").get::<_, String>(0)
        };
        for pooled in [false, true] {
            let (off, remote) = (asked("off", pooled), asked("remote_apply", pooled));
            assert_eq!((off.as_str(), remote.as_str()), ("on", "remote_apply"), "pooled: {pooled}");
        }
    }
}
