//! The ledger's thread: takes what is there, lets [`Core`] decide and commit it, and takes what came meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::clock::Clock;

use super::command::{Command, LinkEvent, LogFrame};
use super::core::{Commit, Core};

/// Commands that may wait. Senders wait beyond that, and through them the clients.
const COMMANDS_MAX: usize = 8_192;

/// Bytes of log frames that may wait, of all links together: enough for a hundred workers that send as fast as they may,
/// and little beside everything else that a server of that size holds.
const LOG_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Commands of one transaction.
const ROUND_COMMANDS_MAX: usize = 1_000;

/// Log frames of one transaction, so that a flood of lines never delays an offer by much.
const ROUND_LOG_FRAMES_MAX: usize = 16;

/// Waits between tries while the database is away.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The way to the ledger, for everyone.
#[derive(Clone)]
pub struct Ledger {
    commands: mpsc::Sender<Command>,
    logs: mpsc::UnboundedSender<WaitingLog>,
    log_room: Arc<Semaphore>,
    /// The last commit went through.
    healthy: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server is stopping")]
pub struct LedgerDown;

impl Ledger {
    pub async fn send(&self, command: Command) -> Result<(), LedgerDown> {
        self.commands.send(command).await.map_err(|_| LedgerDown)
    }

    /// Logs have a queue of their own, and nobody waits for room in it: control would have to wait as well. A frame for
    /// which there is no room is dropped, and its worker told to send it again.
    pub async fn send_log(&self, log: LogFrame) -> Result<(), LedgerDown> {
        let bytes = u32::try_from(log.blocks.len()).unwrap_or(u32::MAX);
        match self.log_room.clone().try_acquire_many_owned(bytes) {
            Ok(room) => self.logs.send(WaitingLog { log, _room: room }).map_err(|_| LedgerDown),
            Err(_) => {
                self.send(Command::Link(LinkEvent::LogDropped { link: log.link, ticket: log.header.ticket })).await
            }
        }
    }

    /// Sends a command that carries its own reply, and waits for that.
    pub async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, LedgerDown> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply)).await?;
        answer.await.map_err(|_| LedgerDown)
    }

    /// Runs `look` on the ledger's thread, over who is connected.
    pub async fn inspect<T: Send + 'static>(
        &self,
        look: impl FnOnce(&crate::dispatch::Roster) -> T + Send + 'static,
    ) -> Result<T, LedgerDown> {
        self.ask(|reply| Command::Inspect(Box::new(move |roster| drop(reply.send(look(roster)))))).await
    }

    /// Runs `call` on the ledger's thread, with the writer.
    pub async fn with_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut dyn Store, engine::Time) -> T + Send + 'static,
    ) -> Result<T, LedgerDown> {
        self.ask(|reply| Command::WithStore(Box::new(move |store, now| drop(reply.send(call(store, now)))))).await
    }

    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }
}

/// Starts the thread. It ends when every [`Ledger`] is gone and all that was sent is committed.
pub fn start<S: Store + 'static>(core: Core<S>, clock: Arc<Clock>) -> std::io::Result<(Ledger, JoinHandle<()>)> {
    let (commands, command_queue) = mpsc::channel(COMMANDS_MAX);
    let (logs, log_queue) = mpsc::unbounded_channel();
    let healthy = Arc::new(AtomicBool::new(true));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let worker = Loop { core, clock, commands: command_queue, logs: log_queue, healthy: healthy.clone() };
    let thread = std::thread::Builder::new().name("ledger".to_owned()).spawn(move || {
        let _guard = AbortOnPanic;
        runtime.block_on(worker.run());
    })?;
    let log_room = Arc::new(Semaphore::new(LOG_BYTES_MAX));
    Ok((Ledger { commands, logs, log_room, healthy }, thread))
}

/// A server without its ledger could only pretend. Whoever supervises it starts it again, and the rows are the truth.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

struct Loop<S> {
    core: Core<S>,
    clock: Arc<Clock>,
    commands: mpsc::Receiver<Command>,
    logs: mpsc::UnboundedReceiver<WaitingLog>,
    healthy: Arc<AtomicBool>,
}

/// A log frame in the queue, with its part of the room there.
struct WaitingLog {
    log: LogFrame,
    _room: OwnedSemaphorePermit,
}

impl WaitingLog {
    fn into_command(self) -> Command {
        Command::Link(LinkEvent::Log(self.log))
    }
}

impl<S: Store> Loop<S> {
    async fn run(mut self) {
        while let Some(round) = self.gather().await {
            self.carry_out(round).await;
            let mut pieces = false;
            while let Some(piece) = self.core.take_split() {
                self.carry_out(piece).await;
                pieces = true;
            }
            if pieces {
                // Pieces hand nothing out; what they queued goes out now.
                self.carry_out(Vec::new()).await;
            }
        }
    }

    /// What is there now; or, if nothing is, what comes first, or the next check time. None when all senders are gone.
    async fn gather(&mut self) -> Option<Vec<Command>> {
        let mut round = Vec::new();
        self.take_waiting(&mut round);
        if !round.is_empty() {
            return Some(round);
        }
        let pause = self.core.wake_at().since(self.clock.now());
        let first = tokio::select! {
            biased;
            command = self.commands.recv() => Some(command?),
            Some(log) = self.logs.recv() => Some(log.into_command()),
            () = tokio::time::sleep(pause.min(Duration::from_secs(60))) => None,
        };
        round.extend(first);
        self.take_waiting(&mut round);
        Some(round)
    }

    fn take_waiting(&mut self, round: &mut Vec<Command>) {
        while round.len() < ROUND_COMMANDS_MAX
            && let Ok(command) = self.commands.try_recv()
        {
            round.push(command);
        }
        for _ in 0..ROUND_LOG_FRAMES_MAX {
            let Ok(log) = self.logs.try_recv() else { break };
            round.push(log.into_command());
        }
    }

    async fn carry_out(&mut self, round: Vec<Command>) {
        let (started, swept) = (Instant::now(), self.core.swept_at());
        self.core.begin(round, self.clock.tick());
        let mut pause = RETRY_FIRST;
        loop {
            let error = match self.core.commit() {
                Commit::Done => break,
                // The poison event's own record, if it made one, is committed by the next turn.
                Commit::Split => continue,
                Commit::Retry(error) => error,
            };
            if self.healthy.swap(false, Ordering::Relaxed) {
                tracing::error!(%error, "the database is away; the server waits for it");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
        if self.core.swept_at() != swept {
            self.core.sweep_took(started.elapsed());
        }
        if !self.healthy.swap(true, Ordering::Relaxed) {
            tracing::info!("the database is back");
        }
    }
}
