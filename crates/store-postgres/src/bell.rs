//! Servers that wake each other, by PostgreSQL's notifications: on a connection of its own, beside everything that reads and writes.
//!
//! ```text
//!  ledger ── ring ──► rung (a number) ──► ringing ── pg_notify ──► PostgreSQL
//!         ◄─ heard ───────────────────── hearing ◄─ notification ─┘
//! ```
//!
//! Both are one task, which connects again for ever. Nothing depends on it: who hears nothing looks by itself.

use std::convert::Infallible;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use store::Bell;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};

use crate::address::{self, CONNECT_PATIENCE};
use crate::driver::Driver;
use crate::place::is_handed_out;
use crate::session::Failure;

/// Rings that are closer together are one: it is said at once, and once more at the end of this time.
const RING_PAUSE: Duration = Duration::from_millis(20);

/// Whoever does not answer for so long has gone.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// Between tries to connect.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// An idle connection is what this one is for.
const LISTEN: &str = "SET idle_session_timeout = 0; LISTEN bowline";

type Heard = Box<dyn Fn() + Send + Sync>;

pub(crate) struct PostgresBell {
    rung: watch::Sender<u64>,
    listeners: Arc<Mutex<Vec<Heard>>>,
    task: AbortHandle,
}

impl PostgresBell {
    /// `trusted`: it is known that the address leads to the database itself.
    pub(crate) fn start(driver: &Driver, mut config: Config, trusted: bool) -> PostgresBell {
        let application = config.get_application_name().unwrap_or("bowline");
        config.application_name(format!("{application}-bell"));
        let (rung, rings) = watch::channel(0);
        let listeners = Arc::default();
        let id = format!("{:016x}", RandomState::new().hash_one("bell"));
        let (name, heard) = (address::name(&config), Arc::clone(&listeners));
        let line = Line { config, name, id, rings, sent: 0, listeners: heard, trusted };
        let task = driver.handle().spawn(line.keep()).abort_handle();
        PostgresBell { rung, listeners, task }
    }

    /// With its store.
    pub(crate) fn end(&self) {
        self.task.abort();
    }
}

impl Bell for PostgresBell {
    fn ring(&self) {
        self.rung.send_modify(|count| *count += 1);
    }

    fn listen(&self, heard: Heard) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(heard);
    }
}

/// What the task has.
struct Line {
    config: Config,
    name: String,
    /// Whoever rings hears itself too, and knows it by this.
    id: String,
    /// How often it was rung, ever.
    rings: watch::Receiver<u64>,
    /// Up to which of them the others were told.
    sent: u64,
    listeners: Arc<Mutex<Vec<Heard>>>,
    trusted: bool,
}

/// Why a connection is no more.
enum Lost {
    Failed(Failure),
    Silent,
    /// It leads to somebody who hands out sessions: nothing would ever be heard there.
    HandedOut,
}

impl Line {
    async fn keep(mut self) {
        let (mut pause, mut told) = (PAUSE_FIRST, false);
        loop {
            let mut connected = false;
            let lost = self.connection(&mut connected).await;
            if connected {
                (pause, told) = (PAUSE_FIRST, false);
            }
            let name = &self.name;
            if matches!(lost, Lost::HandedOut) {
                tracing::error!(
                    "{name} is a connection pooler, where nothing can be heard; `postgres.listen` wants the address of the \
                     database itself. Other servers' changes are looked for twice a second"
                );
                return;
            }
            let why = lost.why(name);
            if told {
                tracing::debug!(why, "still not heard");
            } else {
                tracing::warn!(why, "other servers are not heard; their changes are looked for twice a second");
                told = true;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Connects, and rings and hears until that ends.
    async fn connection(&mut self, connected: &mut bool) -> Lost {
        let connecting = self.config.connect(NoTls);
        let (client, connection) = match timeout(CONNECT_PATIENCE, connecting).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return Lost::Failed(Failure::Postgres(error)),
            Err(_) => return Lost::Silent,
        };
        let (id, listeners) = (self.id.clone(), Arc::clone(&self.listeners));
        tokio::select! {
            lost = hear(connection, &id, &listeners) => lost,
            lost = self.ring_on(&client, connected) => match lost {
                Ok(never) => match never {},
                Err(lost) => lost,
            },
        }
    }

    async fn ring_on(&mut self, client: &Client, connected: &mut bool) -> Result<Infallible, Lost> {
        if !self.trusted {
            let looking = timeout(CONNECT_PATIENCE, is_handed_out(&self.config, client));
            if looking.await.map_err(|_| Lost::Silent)?.map_err(Lost::Failed)? {
                return Err(Lost::HandedOut);
            }
            self.trusted = true;
        }
        say(client, LISTEN).await?;
        *connected = true;
        tracing::info!(database = self.name, "other servers are heard");
        // Nobody knows what was said before.
        call(&self.listeners);
        let ring = format!("SELECT pg_notify('bowline', '{}')", self.id);
        loop {
            let sent = self.sent;
            let Ok(count) = self.rings.wait_for(|count| *count != sent).await.map(|count| *count) else {
                // The store is gone, and this task with it.
                std::future::pending::<()>().await;
                continue;
            };
            say(client, &ring).await?;
            self.sent = count;
            sleep(RING_PAUSE).await;
        }
    }
}

async fn say(client: &Client, text: &str) -> Result<(), Lost> {
    match timeout(ANSWER_PATIENCE, client.batch_execute(text)).await {
        Ok(said) => said.map_err(|error| Lost::Failed(Failure::Postgres(error))),
        Err(_) => Err(Lost::Silent),
    }
}

/// Drives the connection, until it ends.
async fn hear(mut connection: Connection<Socket, NoTlsStream>, id: &str, listeners: &Mutex<Vec<Heard>>) -> Lost {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) if notification.payload() != id => call(listeners),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Lost::Failed(Failure::Postgres(error)),
            None => return Lost::Silent,
        }
    }
}

fn call(listeners: &Mutex<Vec<Heard>>) {
    listeners.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|heard| heard());
}

impl Lost {
    fn why(self, name: &str) -> String {
        match self {
            Lost::Failed(failure) => failure.into_store(name).to_string(),
            Lost::Silent => format!("{name}: no answer"),
            Lost::HandedOut => format!("{name}: a connection pooler"),
        }
    }
}
