//! Where a database is, and how connections to it are opened and tuned.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use store::StoreError;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Config, NoTls};

use crate::driver::{Driver, wait};
use crate::error::translate;
use crate::session::Session;

/// For a connection, with all that is said before the first statement.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// A peer that acknowledges nothing for so long is gone, whatever the network says.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How idle connections are asked whether they live.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// The oldest PostgreSQL that the statements were tried on, as it counts itself.
const VERSION_MIN: i32 = 150_000;

/// A server that stands still in the middle of a transaction must not hold its rows for longer than this; nor does a statement wait for
/// such a one for ever.
///
/// Plans are kept, maybe from when a table was still empty, while it grows. So they never depend on what was counted when: always
/// from row to row by an index, which every statement here has. Small tables are read whole all the same: that counts as so dear
/// then that each time would begin with compiling the statement, were it allowed.
const TUNING: &str = "
    SET statement_timeout = '25s';
    SET lock_timeout = '10s';
    SET idle_in_transaction_session_timeout = '20s';
    SET enable_seqscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET max_parallel_workers_per_gather = 0;
    SET jit = off;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Whoever writes has arrays for arguments, of whose length no plan depends: one is made for each statement, and none anew.
const TUNING_TO_WRITE: &str = "SET plan_cache_mode = force_generic_plan";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Look,
}

/// A database, by what is needed to reach it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    config: Config,
    driver: Arc<Driver>,
    /// For people, without a password.
    pub(crate) name: Arc<str>,
}

impl Place {
    /// `url` is `postgres://user:password@host:port/database`, or any other form that PostgreSQL's own programs take.
    pub(crate) fn new(url: &str) -> Result<Place, StoreError> {
        let mut config = Config::from_str(url).map_err(|e| {
            let why = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
            StoreError::Refused { message: format!("this is no address of a PostgreSQL database: {why}") }
        })?;
        config
            .connect_timeout(CONNECT_PATIENCE)
            .tcp_user_timeout(SILENCE_MAX)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            // Of several hosts the one that takes writes: a standby is behind what was answered.
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("bowline");
        }
        let name = Arc::from(name(&config));
        Ok(Place { config, driver: Arc::new(Driver::start()?), name })
    }

    pub(crate) fn connect(&self, purpose: Purpose) -> Result<Session, StoreError> {
        let config = self.config.clone();
        let opening = self.driver.handle().spawn(async move {
            let (client, connection) = config.connect(NoTls).await?;
            let task = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to PostgreSQL ended");
                }
            });
            client.batch_execute(TUNING).await?;
            if purpose == Purpose::Write {
                client.batch_execute(TUNING_TO_WRITE).await?;
            }
            Ok(Session::new(client, task.abort_handle()))
        });
        match wait(CONNECT_PATIENCE, opening) {
            Some(Ok(opened)) => opened.map_err(|e| translate(&self.name, &e)),
            Some(Err(error)) => Err(self.unavailable(&error.to_string())),
            None => Err(self.unavailable(&format!("no connection within {} s", CONNECT_PATIENCE.as_secs()))),
        }
    }

    /// Whether this is a database that can hold what we write.
    pub(crate) async fn check(&self, session: &Session) -> Result<(), StoreError> {
        let asked = "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                            current_setting('server_encoding')";
        let row = session.client.query_one(asked, &[]).await.map_err(|e| translate(&self.name, &e))?;
        let (number, version, encoding): (i32, String, String) = (row.get(0), row.get(1), row.get(2));
        let refused = |why: String| StoreError::Refused { message: format!("{}: {why}", self.name) };
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

/// The address without what is secret in it.
fn name(config: &Config) -> String {
    let hosts: Vec<String> = (config.get_hosts().iter().enumerate())
        .map(|(index, host)| {
            let port = config.get_ports().get(index).or(config.get_ports().first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(host) => format!("{host}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        })
        .collect();
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_name_has_no_password() {
        let name = |url| Place::new(url).expect("an address").name.to_string();
        assert_eq!(name("postgres://ada:hush@db.example/jobs"), "postgres://ada@db.example:5432/jobs");
        assert_eq!(name("host=a,b port=1,2 user=u password=hush"), "postgres://u@a:1,b:2/u");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let error = Place::new("host=a nonsense=hush").expect_err("no address");
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    }

    /// Whatever the database or the role is set to.
    #[test]
    fn a_commit_is_on_the_disk_before_it_is_answered() {
        let database = testkit::postgres::Database::new();
        let asked = |value: &str| {
            let name = database.psql("SELECT current_database()");
            database.psql(&format!("ALTER DATABASE {name} SET synchronous_commit = {value}"));
            let place = Place::new(&database.url()).expect("an address");
            let session = place.connect(Purpose::Look).expect("a connection");
            let row = wait(CONNECT_PATIENCE, session.client.query_one("SHOW synchronous_commit", &[]));
            row.expect("in time").expect("an answer").get::<_, String>(0)
        };
        assert_eq!((asked("off"), asked("remote_apply")), ("on".to_owned(), "remote_apply".to_owned()));
    }
}
