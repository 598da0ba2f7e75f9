//! `bowline server`: a server alone.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ::server::door::Door;
use ::server::run::Server;
use cli::args::ServerArgs;
use spec::config::server::{Database, Postgres, ServerConfig};
use spec::config::worker::LogFormat;
use store::StoreError;
use store_postgres::{Options, PostgresStore};
use store_sqlite::SqliteStore;
use tokio::task::JoinError;

use crate::signals::StopSignals;
use crate::{Failed, limits, logging};

/// How often, and how long apart, a database that another server has is tried again.
const IN_USE_TRIES: u32 = 20;
const IN_USE_PAUSE: Duration = Duration::from_millis(100);

/// Between tries to reach a database that is away when a server starts.
const AWAY_PAUSE_FIRST: Duration = Duration::from_millis(200);
const AWAY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How often that is said, while nothing changes.
const REMIND_EVERY: Duration = Duration::from_secs(60);

pub(crate) async fn run(args: ServerArgs) -> ExitCode {
    logging::start("info", LogFormat::Text);
    limits::raise_open_files();
    match serve(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.tell(),
    }
}

async fn serve(args: &ServerArgs) -> Result<(), Failed> {
    let mut signals = StopSignals::new().map_err(Failed::other)?;
    let config = read_config(args.config.as_deref())?;
    let (data, tasks) = (PathBuf::from(&config.data), PathBuf::from(&config.tasks));
    let server = tokio::select! {
        started = start(&config, &data, Some(&tasks)) => started?,
        _ = signals.next() => return Ok(()),
    };
    tracing::info!(address = %server.address, data = %data.display(), "listening");
    ready(&format!("http://{}", server.address));
    signals.next().await;
    tracing::info!("stopping; running steps go on");
    server.stop().await;
    Ok(())
}

/// For those who wait for it, on stdout: the page's address, then `ready` alone on its line.
pub(crate) fn ready(url: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    // Nobody reading it is no reason to stop.
    let _ = writeln!(out, "{url}/\nready").and_then(|()| out.flush());
}

/// The config file, if any, with the environment over it; every problem at once.
pub(crate) fn read_config(path: Option<&Path>) -> Result<ServerConfig, Failed> {
    let (text, name) = match path {
        Some(path) => {
            let read = |e| Failed::usage(format!("cannot read {}: {e}", path.display()));
            (std::fs::read_to_string(path).map_err(read)?, path.display().to_string())
        }
        None => (String::new(), "the environment".to_owned()),
    };
    let (config, problems) = spec::config::server::parse(&text, &name, environment());
    tell_problems(&problems);
    config.ok_or_else(|| Failed::usage("the configuration has errors; nothing was started"))
}

/// Every problem of a config, on stderr.
pub(crate) fn tell_problems(problems: &[spec::Diagnostic]) {
    if !problems.is_empty() {
        eprintln!("{}", spec::render(problems, false));
    }
}

/// Variables that are not text cannot be ours.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
}

/// One that was killed a moment ago may still be on its way out.
async fn open(path: &Path) -> Result<SqliteStore, Failed> {
    let mut tries = 0;
    loop {
        match SqliteStore::open(path) {
            Err(StoreError::InUse { .. }) if tries < IN_USE_TRIES => tries += 1,
            opened => return opened.map_err(Failed::other),
        }
        tokio::time::sleep(IN_USE_PAUSE).await;
    }
}

async fn open_shared(url: &str, config: &Postgres) -> Result<PostgresStore, StoreError> {
    let Postgres { pooled, listen, connections } = config.clone();
    let options = Options { pooled, listen, connections: usize::try_from(connections).unwrap_or(usize::MAX) };
    let url = url.to_owned();
    let opening = move || PostgresStore::open_with(&url, &options);
    let gone = |error: JoinError| StoreError::Unavailable { message: error.to_string() };
    tokio::task::spawn_blocking(opening).await.map_err(gone)?
}

/// A database that is away, or refuses us for now, is waited for: a server that is restarted in an outage is there when it is over.
async fn start_shared(
    url: &str,
    config: &ServerConfig,
    mut door: Door,
    data: &Path,
    tasks: Option<&Path>,
    preset: Option<String>,
) -> Result<Server, Failed> {
    let mut patience = Patience { pause: AWAY_PAUSE_FIRST, told: None };
    loop {
        let message = match open_shared(url, &config.postgres).await {
            Ok(store) => match ::server::run::start(store, &mut door, config, data, tasks, preset.clone()).await {
                // It was there, and is gone again, or takes nothing.
                Err(error) if error.is_away() => error.to_string(),
                started => return started.map_err(Failed::other),
            },
            Err(StoreError::Unavailable { message }) => message,
            // An address, or what is behind it, that will be the same next time.
            Err(StoreError::Refused { message }) => return Err(Failed::usage(message)),
            Err(error) => return Err(Failed::other(error)),
        };
        // Anybody may knock: where the database is, and why it says no, stands in the log alone.
        door.say("it waits for its database".to_owned());
        patience.wait(message).await;
    }
}

struct Patience {
    pause: Duration,
    /// What was said last, and when.
    told: Option<(String, Instant)>,
}

impl Patience {
    /// Says what is waited for, when it is something new and now and then, and waits.
    async fn wait(&mut self, message: String) {
        if self.told.as_ref().is_some_and(|(last, at)| *last == message && at.elapsed() < REMIND_EVERY) {
            tracing::debug!(message, "still waiting for the database");
        } else {
            tracing::warn!("waiting for the database, to start when it is there: {message}");
            self.told = Some((message, Instant::now()));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(AWAY_PAUSE_MAX);
    }
}

/// Opens the store that the config names and starts a server on it.
pub(crate) async fn start(config: &ServerConfig, data: &Path, tasks: Option<&Path>) -> Result<Server, Failed> {
    let folder = |e| Failed::usage(format!("cannot use the data folder {}: {e}", data.display()));
    // Inputs and logs are nobody else's business.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(folder)?;
    let preset = std::env::var("BOWLINE_ADMIN_TOKEN").ok().filter(|token| !token.is_empty());
    let mut door = ::server::run::listen(config).await.map_err(Failed::other)?;
    match &config.database {
        Database::Sqlite(path) => {
            let path = path.as_ref().map_or_else(|| data.join("bowline.db"), PathBuf::from);
            let store = open(&path).await?;
            ::server::run::start(store, &mut door, config, data, tasks, preset).await.map_err(Failed::other)
        }
        Database::Postgres(url) => start_shared(url, config, door, data, tasks, preset).await,
    }
}
