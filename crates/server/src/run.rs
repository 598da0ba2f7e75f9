//! Puts a server together, and takes it apart again without losing anything.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use engine::deadline::Rules;
use engine::definition::HookWork;
use protocol::link::LinkSettings;
use spec::config::server::ServerConfig;
use store::{Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::access::{Access, AccessError, AdminTokenError, NewToken, Secrets};
use crate::app::App;
use crate::artifacts::{self, Depot, DepotLimits, InstallationError, SweepTerms};
use crate::bus::Bus;
use crate::clock::{Anchor, Clock};
use crate::door::Door;
use crate::ledger::{self, Core, CoreConfig, Definitions, MassLoss, SweepRules};
use crate::metrics::Metrics;
use crate::random::Random;
use crate::retention::RetentionRules;
use crate::settings::DefinitionSettings;
use crate::tasks::{self, TaskRegistry};
use crate::{courier, http, link};

/// Between tries to go on with a start while the database is away.
const AWAY_PAUSE: Duration = Duration::from_secs(1);

/// Until a server that was told to stop has. A database that does not answer is not waited for any longer; what it was told last may be
/// written or not, as after a crash.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// What the ledger has of it at least, whatever the requests in flight took.
const LEDGER_ENDS_WITHIN: Duration = Duration::from_secs(2);

/// A server that accepts requests.
pub struct Server {
    pub address: SocketAddr,
    pub admin_token: String,
    app: Arc<App>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    ledger: thread::JoinHandle<()>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot start the ledger's thread: {0}")]
    Thread(#[source] std::io::Error),
    #[error("the system gave no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    #[error("cannot make the key that signs webhooks, in `secrets` of the data folder: {0}")]
    Key(#[source] std::io::Error),
    #[error("cannot use the folder of artifacts {path}: {source}")]
    Artifacts { path: String, source: std::io::Error },
    #[error(transparent)]
    Installation(#[from] InstallationError),
    #[error(transparent)]
    AdminToken(#[from] AdminTokenError),
}

impl StartError {
    /// The database went away in the middle. Whoever starts once more when it is back finds nothing in the way.
    pub fn is_away(&self) -> bool {
        let (StartError::Store(error) | StartError::Installation(InstallationError::Store(error))) = self else {
            return false;
        };
        matches!(error, StoreError::Unavailable { .. })
    }
}

/// Listens at the configured address. First of all: whoever cannot must not touch the database.
pub async fn listen(config: &ServerConfig) -> Result<Door, StartError> {
    let cannot = |source| StartError::Listen { address: config.listen.clone(), source };
    Door::listen(&config.listen).await.map_err(cannot)
}

/// Starts on `store`. `data` holds `admin.token`; `preset` is the first admin token, if the operator chose it.
pub async fn start<S: Store + 'static>(
    mut store: S,
    door: &mut Door,
    config: &ServerConfig,
    data: &Path,
    tasks: Option<&Path>,
    preset: Option<String>,
) -> Result<Server, StartError> {
    let address = door.address;
    let (artifacts, is_ours) = open_depot(config, data, &artifacts::id_of(&mut store)?)?;
    let artifacts = Arc::new(artifacts);
    let (bus, metrics, definitions) = (Bus::default(), Arc::new(Metrics::default()), Arc::new(Definitions::default()));
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let reader = store.reader();
    let common = Anchor::ask(|| store.clock())?;
    let clock = Arc::new(Clock::sharing(reader.hearing()?.map(|row| row.mark_at).unwrap_or_default(), common));
    let (bell, shared) = (store.bell(), store.is_shared());
    // Before others take this server for one that is there.
    let pushed_before = reader.tasks()?;
    let core_config = CoreConfig { address: address.to_string(), ..core_config(config) };
    let (link, retention) = (core_config.link, core_config.retention.clone());
    let core = Core::new(
        store,
        core_config,
        definitions.clone(),
        bus.clone(),
        metrics.clone(),
        Random::from_seed(seed),
        clock.tick(),
    )?;
    let (post, parcels) = mpsc::unbounded_channel();
    let secrets = Arc::new(Secrets::new(data, reader.clone()));
    let core = core.with_post(post).with_secrets(secrets.clone());
    let (stop, shutdown) = watch::channel(false);
    // From here on there is a thread that is not to be left alone: whatever the database does, it is waited for.
    let (ledger, thread) = ledger::start(core, clock.clone(), bell, shutdown.clone()).map_err(StartError::Thread)?;
    let access = Arc::new(Access::new(ledger.clone(), reader.clone(), clock.clone(), shared));
    let admin_token = bootstrap(&access, data, preset.as_deref()).await?;
    let defaults = &config.defaults;
    let settings = DefinitionSettings::new(defaults.step_timeout, defaults.job_timeout, defaults.expires)
        .with_environments(&config.environments);
    let folder = tasks.map(Path::to_owned);
    let tasks = TaskRegistry::with_notices(settings, folder, &pushed_before, clock.now(), notice_tasks(config));
    let tasks = Arc::new(tasks);
    let pushed = shared.then(|| reader.clone());
    tokio::spawn(tasks::watch(tasks.clone(), ledger.clone(), pushed, clock.clone(), shutdown.clone()));
    secrets.ensure_own_key().map_err(StartError::Key)?;
    let mail = config.mail.clone();
    tokio::spawn(courier::run(parcels, ledger.clone(), secrets.clone(), mail, shutdown.clone()));
    let terms = SweepTerms { ledger: ledger.clone(), reader: reader.clone(), metrics: metrics.clone(), is_ours };
    tokio::spawn(artifacts::keep_swept(artifacts.clone(), terms, shutdown.clone()));
    let app = Arc::new(App {
        ledger,
        reader,
        bus,
        definitions,
        tasks,
        access,
        secrets,
        artifacts,
        names: http::WorkerNames::default(),
        recovery_window: config.recovery.window(),
        link,
        retention,
        metrics,
        clock,
        shutdown: shutdown.clone(),
    });
    let links = link::routes(config.recovery.link_ping).with_state(app.clone());
    let router = http::router(app.clone()).merge(links);
    let cannot = |source| StartError::Listen { address: config.listen.clone(), source };
    let listener = door.open().await.map_err(cannot)?;
    let serving = tokio::spawn(http::serve(listener, router, http::Limits::default(), shutdown));
    Ok(Server { address, admin_token, app, stop, serving, ledger: thread })
}

/// The admin's token, when the database can say and keep it.
async fn bootstrap(access: &Access, data: &Path, preset: Option<&str>) -> Result<String, AdminTokenError> {
    loop {
        match access.bootstrap(data, preset).await {
            Err(AdminTokenError::Access(error)) if error.is_away() => {
                tracing::warn!(%error, "waiting for the database, to go on with the start");
                tokio::time::sleep(AWAY_PAUSE).await;
            }
            done => return done,
        }
    }
}

/// And whether it belongs to the database with this id.
fn open_depot(config: &ServerConfig, data: &Path, installation: &str) -> Result<(Depot, bool), StartError> {
    let limits = DepotLimits { bytes_max: config.artifacts.max_bytes, set_bytes_max: config.artifacts.max_step_bytes };
    let path = config.artifacts.path.as_ref().map_or_else(|| data.join("artifacts"), std::path::PathBuf::from);
    let opened = Depot::open(&path, limits).and_then(|depot| Ok((depot.belongs_to(installation)?, depot)));
    let (is_ours, depot) =
        opened.map_err(|source| StartError::Artifacts { path: path.display().to_string(), source })?;
    if !is_ours {
        tracing::error!(path = %path.display(), "the folder of artifacts belongs to another installation: nothing will be removed from it");
    }
    Ok((depot, is_ours))
}

impl Server {
    /// A single-use token for a worker on this machine.
    pub async fn enroll_token(&self) -> Result<String, AccessError> {
        let new = NewToken {
            kind: api::TokenKind::Enroll,
            role: api::Role::Viewer,
            name: "the local worker".to_owned(),
            uses: Some(1),
            tags: Vec::new(),
            expires_at: None,
        };
        Ok(self.app.access.create(new).await?.text)
    }

    /// How many steps the connected workers hold now.
    pub async fn busy_slots(&self) -> usize {
        let busy = |roster: &crate::dispatch::Roster| roster.iter().map(|(_, w)| w.held.len()).sum();
        self.app.ledger.inspect(busy).await.unwrap_or(0)
    }

    /// Ends requests, streams and links, then commits all that was sent before, if the database takes it soon.
    pub async fn stop(self) {
        let deadline = Instant::now() + STOP_WITHIN;
        // Whoever listens has to hear it; if nobody does, all have ended already.
        let _ = self.stop.send(true);
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the HTTP side did not end well");
        }
        drop(self.app);
        let joined = tokio::task::spawn_blocking(move || self.ledger.join());
        match timeout_at(deadline.max(Instant::now() + LEDGER_ENDS_WITHIN), joined).await {
            Ok(Ok(Ok(()))) => {}
            Ok(_) => tracing::error!("the ledger's thread did not end well"),
            Err(_) => tracing::error!(
                "the server stops without its database, which does not answer: what it was told last may be written or not"
            ),
        }
    }
}

/// The tasks that the configuration lets follow on notices.
fn notice_tasks(config: &ServerConfig) -> Vec<String> {
    let name = |work: &HookWork| match work {
        HookWork::Task(body) => Some(body.task.to_string()),
        HookWork::Tell(_) => None,
    };
    config.notices.on.iter().filter_map(name).collect()
}

/// The ledger's rules as an installation's file has them.
pub fn core_config(config: &ServerConfig) -> CoreConfig {
    let recovery = &config.recovery;
    let millis = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    CoreConfig {
        address: config.listen.to_string(),
        rules: Rules {
            recovery_window: recovery.window(),
            dispatch_ack: recovery.dispatch_ack,
            unmatched: recovery.unmatched_step_timeout,
            max_dispatch_attempts: recovery.max_dispatch_attempts,
            max_losses: recovery.max_losses,
            auto_requeue_stale_claimed: recovery.auto_requeue_stale_claimed,
            auto_fail_stale_running: recovery.auto_fail_stale_running,
            queue_notice: config.notices.queue,
        },
        link: LinkSettings {
            heartbeat_ms: millis(recovery.heartbeat_interval),
            ping_ms: millis(recovery.link_ping),
            max_reconnect_delay_ms: millis(recovery.max_reconnect_delay),
            dispatch_ack_ms: millis(recovery.dispatch_ack),
            runner_heartbeat_ms: millis(recovery.runner_heartbeat_interval),
            caretaker_after_ms: recovery.caretaker_after.map(millis),
        },
        heartbeat_timeout: recovery.heartbeat_timeout,
        dispatch_grace: recovery.dispatch_grace,
        mass_loss: MassLoss {
            min_workers: recovery.mass_loss.min_workers as usize,
            fraction: recovery.mass_loss.fraction,
            within: recovery.mass_loss.within,
        },
        doubt_max: crate::ledger::DOUBT_MAX,
        artifact_bytes_max: config.artifacts.max_step_bytes,
        sweep: SweepRules {
            interval: recovery.sweep_interval,
            claimed_stale: recovery.claimed_stale,
            running_stale: recovery.running_stale,
            heartbeat_retention: recovery.heartbeat_retention,
        },
        retention: RetentionRules {
            jobs: config.retention.jobs,
            logs: config.retention.logs,
            workers: config.retention.workers,
            ..RetentionRules::default()
        },
        notices: Arc::new(config.notices.on.clone()),
    }
}
