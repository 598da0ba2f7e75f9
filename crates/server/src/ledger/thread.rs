//! The ledger's thread: takes what is there, lets [`Core`] decide and commit it, and takes what came meanwhile.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use store::{Bell, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::app::stopped;
use crate::clock::{Anchor, Clock};

use super::command::{Command, LinkEvent, LogFrame};
use super::core::{Commit, Core};

/// Commands that may wait. Senders wait beyond that, and through them the clients.
const COMMANDS_MAX: usize = 8_192;

/// Bytes of log frames that may wait, of all links together: enough for a hundred workers that send as fast as they may,
/// and little beside everything else that a server of that size holds.
const LOG_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Commands of one transaction.
const ROUND_COMMANDS_MAX: usize = 1_000;

/// Bytes of log frames of one transaction, so that a flood of lines never delays an offer by much; the one that reaches it goes
/// along. Frames of steps that print nothing cost little, and each of them is the end of an attempt.
const ROUND_LOG_BYTES: usize = 4 * 1024 * 1024;
const ROUND_LOG_FRAMES_MAX: usize = 1_000;

/// Waits between tries while the database is away.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// How long a server that is to stop goes on trying to write what it has decided. Nobody was told of that, and workers say
/// again what they said; but who waits for an answer is better off with one.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A commit takes milliseconds. One that takes so long is trouble already, though nobody knows yet what becomes of it.
const HANGS_AFTER: Duration = Duration::from_secs(3);

/// How often it is looked whether one does.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The pause before the next try, after the one before the last.
pub fn next_try(last: Option<Duration>) -> Duration {
    last.map_or(RETRY_FIRST, |pause| (pause * 2).min(RETRY_MAX))
}

/// Whatever is due, the ledger looks again by then.
pub const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Machines' clocks drift apart by less than a millisecond in this time.
pub const AGREE_EVERY: Duration = Duration::from_secs(5);

/// While the database is away nothing is answered. A change is worth a moment of waiting, a look is not: whoever looks
/// wants to know now that something is wrong.
const CHANGE_PATIENCE: Duration = Duration::from_secs(3);
const LOOK_PATIENCE: Duration = Duration::from_millis(500);

/// The way to the ledger, for everyone.
#[derive(Clone)]
pub struct Ledger {
    commands: mpsc::Sender<Command>,
    logs: mpsc::UnboundedSender<WaitingLog>,
    log_room: Arc<Semaphore>,
    trouble: watch::Receiver<Trouble>,
}

/// None while commits go through.
type Trouble = Option<Away>;

/// Why commits do not go through.
#[derive(Debug, Clone)]
struct Away {
    why: Arc<str>,
    /// Without a place or a name, see [`StoreError::in_short`].
    short: &'static str,
    /// One is under way, and not answered.
    hangs: bool,
}

impl Away {
    fn of(error: &StoreError) -> Away {
        Away { why: error.to_string().into(), short: error.in_short(), hangs: false }
    }

    fn hanging() -> Away {
        let why = format!("it has not answered for {} s", HANGS_AFTER.as_secs());
        Away { why: why.into(), short: store::SLOW, hangs: true }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerDown {
    #[error("the server is stopping")]
    Stopping,
    #[error("the database does not take commits at the moment: {0}; nothing was done")]
    Away(Arc<str>),
    /// It went away after the ledger was asked.
    #[error("the database does not take commits at the moment: {0}; what was asked may still be carried out")]
    WentAway(Arc<str>),
}

impl Ledger {
    pub async fn send(&self, command: Command) -> Result<(), LedgerDown> {
        self.commands.send(command).await.map_err(|_| LedgerDown::Stopping)
    }

    /// Logs have a queue of their own, and nobody waits for room in it: control would have to wait as well. A frame for
    /// which there is no room is dropped, and its worker told to send it again.
    pub async fn send_log(&self, log: LogFrame) -> Result<(), LedgerDown> {
        let bytes = u32::try_from(log.blocks.len()).unwrap_or(u32::MAX);
        match self.log_room.clone().try_acquire_many_owned(bytes) {
            Ok(room) => self.logs.send(WaitingLog { log, _room: room }).map_err(|_| LedgerDown::Stopping),
            Err(_) => {
                self.send(Command::Link(LinkEvent::LogDropped { link: log.link, ticket: log.header.ticket })).await
            }
        }
    }

    /// Sends a command that carries its own reply, and waits for that; not for long while the database is away.
    pub async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, LedgerDown> {
        self.ask_within(CHANGE_PATIENCE, command).await
    }

    async fn ask_within<T>(
        &self,
        patience: Duration,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, LedgerDown> {
        // What waits in the queue of a ledger that is stuck is carried out some time, when its sender is long gone.
        if !self.is_healthy() && timeout(patience, self.commits_again()).await.is_err() {
            return Err(LedgerDown::Away(self.why_away()));
        }
        let (reply, answer) = oneshot::channel();
        let answered = async {
            self.send(command(reply)).await?;
            answer.await.map_err(|_| LedgerDown::Stopping)
        };
        tokio::select! {
            biased;
            answer = answered => answer,
            () = self.away_for(patience) => Err(LedgerDown::WentAway(self.why_away())),
        }
    }

    /// Returns when commits go through, or never will.
    async fn commits_again(&self) {
        // Without a thread there is nothing to wait for.
        let _ = self.trouble.clone().wait_for(Option::is_none).await;
    }

    /// Returns when commits have not gone through for so long.
    async fn away_for(&self, patience: Duration) {
        let mut trouble = self.trouble.clone();
        while trouble.wait_for(Option::is_some).await.is_ok() {
            if timeout(patience, self.commits_again()).await.is_err() {
                return;
            }
        }
        // The thread has ended; whoever waits for its answer hears that.
        std::future::pending::<()>().await;
    }

    fn why_away(&self) -> Arc<str> {
        let trouble = self.trouble.borrow();
        trouble.as_ref().map_or_else(|| "it comes back only now".into(), |away| away.why.clone())
    }

    /// Runs `look` on the ledger's thread, over who is connected.
    pub async fn inspect<T: Send + 'static>(
        &self,
        look: impl FnOnce(&crate::dispatch::Roster) -> T + Send + 'static,
    ) -> Result<T, LedgerDown> {
        let command =
            |reply: oneshot::Sender<T>| Command::Inspect(Box::new(move |roster| drop(reply.send(look(roster)))));
        match self.ask_within(LOOK_PATIENCE, command).await {
            // A look that comes late changes nothing.
            Err(LedgerDown::WentAway(why)) => Err(LedgerDown::Away(why)),
            seen => seen,
        }
    }

    /// Runs `call` on the ledger's thread, with the writer.
    pub async fn with_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut dyn Store, engine::Time) -> T + Send + 'static,
    ) -> Result<T, LedgerDown> {
        self.ask(|reply| Command::WithStore(Box::new(move |store, now| drop(reply.send(call(store, now)))))).await
    }

    /// The last commit went through.
    pub fn is_healthy(&self) -> bool {
        self.trouble.borrow().is_none()
    }

    /// Why commits do not go through, in words for everybody; none while they do.
    pub fn trouble(&self) -> Option<&'static str> {
        self.trouble.borrow().as_ref().map(|away| away.short)
    }
}

/// Starts the thread. It ends when every [`Ledger`] is gone and all that was sent is committed, or cannot be: after `shutdown` a
/// database that is away is not waited for. `bell`: how other servers are woken.
pub fn start<S: Store + 'static>(
    core: Core<S>,
    clock: Arc<Clock>,
    bell: Option<Arc<dyn Bell>>,
    shutdown: watch::Receiver<bool>,
) -> std::io::Result<(Ledger, JoinHandle<()>)> {
    let (commands, command_queue) = mpsc::channel(COMMANDS_MAX);
    let (logs, log_queue) = mpsc::unbounded_channel();
    let (troubles, trouble) = watch::channel(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    if let Some(bell) = &bell {
        // A ledger that nobody else can reach any more ends, whoever rings.
        let commands = commands.downgrade();
        // One for which there is no room is no loss: whoever has so much to do looks by itself.
        bell.listen(Box::new(move || {
            if let Some(commands) = commands.upgrade() {
                let _ = commands.try_send(Command::Changed);
            }
        }));
    }
    let agreed = Instant::now();
    let (commands_in, logs_in) = (command_queue, log_queue);
    let pulse = Arc::new(Pulse { asked: Mutex::default(), troubles });
    let watched = Arc::downgrade(&pulse);
    std::thread::Builder::new().name("ledger-watch".to_owned()).spawn(move || watch(&watched))?;
    let worker =
        Loop { core, clock, bell, agreed, commands: commands_in, logs: logs_in, pulse, shutdown, gives_up_at: None };
    let thread = std::thread::Builder::new().name("ledger".to_owned()).spawn(move || {
        let _guard = AbortOnPanic;
        runtime.block_on(worker.run());
    })?;
    let log_room = Arc::new(Semaphore::new(LOG_BYTES_MAX));
    Ok((Ledger { commands, logs, log_room, trouble }, thread))
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

/// What the ledger's thread is waiting for, which it cannot say itself meanwhile.
struct Pulse {
    /// Since when the database has been asked for something; none while it is not.
    asked: Mutex<Option<Instant>>,
    troubles: watch::Sender<Trouble>,
}

impl Pulse {
    fn asks(&self) {
        *self.asked() = Some(Instant::now());
    }

    fn is_answered(&self) {
        *self.asked() = None;
    }

    fn look(&self) {
        // Under the lock: once it is answered nobody says that it is not.
        let asked = self.asked();
        if asked.is_some_and(|at| at.elapsed() >= HANGS_AFTER) && self.troubles.borrow().is_none() {
            self.troubles.send_replace(Some(Away::hanging()));
            tracing::error!("the database does not answer; the server waits for it");
        }
    }

    fn asked(&self) -> MutexGuard<'_, Option<Instant>> {
        // Nothing under the lock can leave it half changed.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until the ledger's thread has ended.
fn watch(pulse: &Weak<Pulse>) {
    while let Some(pulse) = pulse.upgrade() {
        pulse.look();
        drop(pulse);
        std::thread::sleep(LOOK_EVERY);
    }
}

struct Loop<S> {
    core: Core<S>,
    clock: Arc<Clock>,
    bell: Option<Arc<dyn Bell>>,
    /// When the common clock was last asked.
    agreed: Instant,
    commands: mpsc::Receiver<Command>,
    logs: mpsc::UnboundedReceiver<WaitingLog>,
    pulse: Arc<Pulse>,
    shutdown: watch::Receiver<bool>,
    /// The server is to stop, and its database is away.
    gives_up_at: Option<Instant>,
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
            if self.carry_out_all(round).await.is_break() {
                // As if it had crashed: the rows are the truth, and whoever is not answered asks again.
                return tracing::error!("the server stops without its database: what it was told last is not written");
            }
            self.tidy();
        }
        if let Err(error) = self.core.leave() {
            tracing::warn!(%error, "the other servers were not told that this one goes; they will see it");
        }
    }

    async fn carry_out_all(&mut self, round: Vec<Command>) -> ControlFlow<()> {
        self.carry_out(round).await?;
        let mut pieces = false;
        while let Some(piece) = self.core.take_split() {
            self.carry_out(piece).await?;
            pieces = true;
        }
        if pieces {
            // Pieces hand nothing out; what they queued goes out now.
            self.carry_out(Vec::new()).await?;
        }
        ControlFlow::Continue(())
    }

    /// Asks the clock that all servers have in common, now and then. One that cannot be asked now is asked with the next round.
    fn agree(&mut self) {
        if self.agreed.elapsed() < AGREE_EVERY {
            return;
        }
        match Anchor::ask(|| self.core.common_clock()) {
            Ok(anchor) => {
                self.agreed = Instant::now();
                anchor.into_iter().for_each(|anchor| self.clock.agree(anchor));
            }
            Err(error) => tracing::debug!(%error, "the database did not say what time it is"),
        }
    }

    /// A piece of what is old goes, where there is time for it.
    fn tidy(&mut self) {
        let busy = !self.commands.is_empty() || !self.logs.is_empty();
        let started = Instant::now();
        self.pulse.asks();
        if self.core.tidy(busy) {
            self.core.tidied(started.elapsed());
        }
        self.pulse.is_answered();
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
            () = tokio::time::sleep(pause.min(SLEEP_MAX)) => None,
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
        let (mut frames, mut bytes) = (0, 0);
        while frames < ROUND_LOG_FRAMES_MAX
            && bytes < ROUND_LOG_BYTES
            && let Ok(log) = self.logs.try_recv()
        {
            frames += 1;
            bytes += log.log.blocks.len();
            round.push(log.into_command());
        }
    }

    /// Breaks off where the database is away and the server is to stop.
    async fn carry_out(&mut self, round: Vec<Command>) -> ControlFlow<()> {
        let (started, swept) = (Instant::now(), self.core.swept_at());
        self.pulse.asks();
        self.core.begin(round, self.clock.tick());
        let mut pause = next_try(None);
        loop {
            self.pulse.asks();
            let error = match self.core.commit() {
                Commit::Done => break,
                // The poison event's own record, if it made one, is committed by the next turn.
                Commit::Split => continue,
                Commit::Retry(error) => error,
            };
            self.pulse.is_answered();
            let before = self.pulse.troubles.send_replace(Some(Away::of(&error)));
            if before.is_none_or(|away| away.hangs) {
                tracing::error!(%error, "the database is away; the server waits for it");
            }
            self.core.send_workers_away(started.elapsed());
            self.wait(pause).await?;
            pause = next_try(Some(pause));
        }
        self.clock.catch_up(self.core.now());
        if let Some(bell) = self.bell.as_ref().filter(|_| self.core.take_news()) {
            bell.ring();
        }
        self.agree();
        self.pulse.is_answered();
        if self.core.swept_at() != swept {
            self.core.sweep_took(started.elapsed());
        }
        // Nobody is woken by a round that went well like the one before.
        if self.pulse.troubles.send_if_modified(|trouble| trouble.take().is_some()) {
            tracing::info!("the database is back");
        }
        ControlFlow::Continue(())
    }

    /// Before the next try; but not for ever, once the server is to stop.
    async fn wait(&mut self, pause: Duration) -> ControlFlow<()> {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped(&mut self.shutdown), if self.gives_up_at.is_none() => {
                self.gives_up_at = Some(Instant::now() + STOP_PATIENCE);
            }
        }
        match self.gives_up_at {
            Some(at) if at <= Instant::now() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}
