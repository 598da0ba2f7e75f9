//! A server on a free port and a folder of its own, with all real parts but the workers' link.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::deadline::Rules;
use protocol::link::LinkSettings;
use serde_json::{Value, json};
use server::access::{Access, Secrets};
use server::app::App;
use server::artifacts::{Depot, DepotLimits};
use server::bus::Bus;
use server::clock::Clock;
use server::http::{self, Limits};
use server::ledger::{self, Core, CoreConfig, Definitions, Ledger, Parcel, Post, SweepRules};
use server::metrics::Metrics;
use server::random::Random;
use server::settings::DefinitionSettings;
use server::tasks::TaskRegistry;
use store::Store as _;
use store_sqlite::SqliteStore;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use crate::client::{Answer, PATIENCE, Request};

pub(crate) const HELLO: &str = "name: hello\nsteps:\n  greet: { run: echo hello }\n";

const LINK: LinkSettings = LinkSettings {
    heartbeat_ms: 30_000,
    ping_ms: 10_000,
    max_reconnect_delay_ms: 60_000,
    dispatch_ack_ms: 10_000,
    runner_heartbeat_ms: 30_000,
    caretaker_after_ms: None,
};

const DEPOT: DepotLimits = DepotLimits { bytes_max: 1 << 20, set_bytes_max: 1 << 19 };

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) admin: String,
    pub(crate) app: Arc<App>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) served: JoinHandle<()>,
    links: AtomicU64,
    /// What is to be delivered outside.
    parcels: Mutex<UnboundedReceiver<Parcel>>,
}

impl Site {
    pub(crate) async fn start() -> Site {
        Site::with(Limits::default()).await
    }

    /// One where a cut-off worker, and a log that does not come, has so long.
    pub(crate) async fn with_window(window: std::time::Duration) -> Site {
        Site::open(Limits::default(), Rules { recovery_window: window, ..Rules::default() }).await
    }

    pub(crate) async fn with(limits: Limits) -> Site {
        Site::open(limits, Rules::default()).await
    }

    async fn open(limits: Limits, rules: Rules) -> Site {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("tasks")).expect("a task folder");
        let (stop, shutdown) = watch::channel(false);
        let (post, parcels) = mpsc::unbounded_channel();
        let app = Arc::new(app(folder.path(), rules, post, shutdown.clone()));
        let admin = app.access.bootstrap(folder.path(), None).await.expect("an admin token");
        tokio::spawn(server::tasks::watch(
            app.tasks.clone(),
            app.ledger.clone(),
            None,
            app.clock.clone(),
            shutdown.clone(),
        ));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let served = tokio::spawn(http::serve(listener, http::router(app.clone()), limits, shutdown));
        let (links, parcels) = (AtomicU64::new(1), Mutex::new(parcels));
        Site { address, admin, app, folder, stop, served, links, parcels }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request::new(self.address, method, path)
    }

    pub(crate) fn as_admin(&self, method: &str, path: &str) -> Request {
        self.request(method, path).token(&self.admin)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.as_admin("GET", path).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.as_admin("POST", path).json(body).send().await
    }

    /// Submits a task's text and returns the job's id.
    pub(crate) async fn submit(&self, spec: &str) -> String {
        let job = self.post("/api/jobs", &json!({ "spec": spec })).await.is(201);
        job["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn write_task(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join("tasks").join(name), text).expect("a task file");
    }

    /// The next thing that somebody is to carry outside.
    pub(crate) async fn parcel(&self) -> Parcel {
        let mut parcels = self.parcels.lock().await;
        tokio::time::timeout(PATIENCE, parcels.recv()).await.expect("a parcel in time").expect("the ledger runs")
    }

    pub(crate) fn next_link(&self) -> u64 {
        self.links.fetch_add(1, Ordering::Relaxed)
    }
}

fn app(folder: &Path, rules: Rules, post: Post, shutdown: watch::Receiver<bool>) -> App {
    let store = SqliteStore::open(&folder.join("bowline.db")).expect("a new database");
    let reader = store.reader();
    let clock = Arc::new(Clock::starting_at(engine::Time(0)));
    let (definitions, bus, metrics) = (Arc::new(Definitions::default()), Bus::default(), Arc::new(Metrics::default()));
    let secrets = Arc::new(Secrets::new(folder, reader.clone()));
    let tools = (&definitions, &bus, &metrics);
    let ledger = ledger(store, (secrets.clone(), post), rules, tools, &clock, shutdown.clone());
    let tasks = TaskRegistry::new(
        DefinitionSettings::default(),
        Some(folder.join("tasks")),
        &reader.tasks().expect("readable"),
        clock.now(),
    );
    App {
        access: Arc::new(Access::new(ledger.clone(), reader.clone(), clock.clone(), false)),
        tasks: Arc::new(tasks),
        secrets,
        artifacts: Arc::new(Depot::open(&folder.join("artifacts"), DEPOT).expect("a folder")),
        names: server::http::WorkerNames::default(),
        recovery_window: Rules::default().recovery_window,
        link: LINK,
        retention: server::retention::RetentionRules::default(),
        ledger,
        reader,
        bus,
        definitions,
        metrics,
        clock,
        shutdown,
    }
}

fn ledger(
    store: SqliteStore,
    (secrets, post): (Arc<Secrets>, Post),
    rules: Rules,
    (definitions, bus, metrics): (&Arc<Definitions>, &Bus, &Arc<Metrics>),
    clock: &Arc<Clock>,
    shutdown: watch::Receiver<bool>,
) -> Ledger {
    let config = CoreConfig {
        address: String::new(),
        rules,
        link: LINK,
        heartbeat_timeout: std::time::Duration::from_secs(120),
        dispatch_grace: std::time::Duration::from_secs(10),
        mass_loss: server::ledger::MassLoss {
            min_workers: 5,
            fraction: 0.5,
            within: std::time::Duration::from_secs(10),
        },
        doubt_max: server::ledger::DOUBT_MAX,
        artifact_bytes_max: 1 << 20,
        sweep: SweepRules::default(),
        retention: server::retention::RetentionRules::default(),
        notices: Arc::default(),
    };
    let random = Random::from_seed([7; 32]);
    let core = Core::new(store, config, definitions.clone(), bus.clone(), metrics.clone(), random, clock.tick())
        .expect("the ledger starts")
        .with_secrets(secrets)
        .with_post(post);
    ledger::start(core, clock.clone(), None, shutdown).expect("a thread").0
}
