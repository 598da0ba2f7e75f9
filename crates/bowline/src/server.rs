//! `bowline server`: a server alone.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ::server::run::Server;
use cli::args::ServerArgs;
use spec::config::server::{Database, ServerConfig};
use spec::config::worker::LogFormat;
use store::StoreError;
use store_sqlite::SqliteStore;

use crate::signals::StopSignals;
use crate::{Failed, limits, logging};

/// How often, and how long apart, a database that another server has is tried again.
const IN_USE_TRIES: u32 = 20;
const IN_USE_PAUSE: Duration = Duration::from_millis(100);

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
    let server = start(&config, &data, Some(&tasks)).await?;
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

/// Opens the store that the config names and starts a server on it.
pub(crate) async fn start(config: &ServerConfig, data: &Path, tasks: Option<&Path>) -> Result<Server, Failed> {
    let path = match &config.database {
        Database::Sqlite(None) => data.join("bowline.db"),
        Database::Sqlite(Some(path)) => PathBuf::from(path),
        Database::Postgres(_) => {
            return Err(Failed::usage("`database: postgres://…` is not supported yet; use `sqlite`"));
        }
    };
    let folder = |e| Failed::usage(format!("cannot use the data folder {}: {e}", data.display()));
    // Inputs and logs are nobody else's business.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(folder)?;
    let store = open(&path).await?;
    let preset = std::env::var("BOWLINE_ADMIN_TOKEN").ok().filter(|token| !token.is_empty());
    ::server::run::start(store, config, data, tasks, preset).await.map_err(Failed::other)
}
