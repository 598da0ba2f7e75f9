//! The worker inside `bowline up`: the same worker as everywhere, on a thread and a runtime of its own.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use ::worker::{RunnerCommand, Spool, StopLevel, WorkerError, WorkerOptions};
use tokio::sync::watch;

use crate::Failed;
use crate::worker::{caretaker_command, cores, hostname};

/// As a worker's config has it unless it says otherwise.
const STOP_GRACE: Duration = Duration::from_secs(600);

pub(crate) struct LocalWorker {
    stop: watch::Sender<StopLevel>,
    thread: JoinHandle<Result<(), WorkerError>>,
}

impl LocalWorker {
    pub(crate) fn start(
        server: String,
        state: &Path,
        slots: Option<u32>,
        enroll_token: Option<String>,
    ) -> Result<LocalWorker, Failed> {
        let mut options = WorkerOptions {
            servers: vec![server],
            name: hostname(),
            tags: vec!["script".to_owned()],
            slots: slots.unwrap_or_else(cores),
            state: state.to_owned(),
            enroll_token,
            no_reconnect: false,
            ephemeral: false,
            once: false,
            stop_steps: false,
            caretaker: false,
            caretaker_command: None,
            stop_grace: STOP_GRACE,
            spool: Spool::default(),
            runner: RunnerCommand::this_program().map_err(Failed::other)?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        options.caretaker_command = caretaker_command(&options).map_err(Failed::other)?;
        let (stop, stopping) = watch::channel(StopLevel::Run);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failed::other)?;
        let thread = std::thread::Builder::new()
            .name("worker".to_owned())
            .spawn(move || {
                let ended = runtime.block_on(::worker::run(options, stopping));
                if let Err(error) = &ended {
                    tracing::error!(%error, "the local worker ended");
                }
                runtime.shutdown_background();
                ended
            })
            .map_err(Failed::other)?;
        Ok(LocalWorker { stop, thread })
    }

    /// `level`: whether it leaves its steps running.
    pub(crate) fn stop(&self, level: StopLevel) {
        self.stop.send_replace(level);
    }

    pub(crate) async fn ended(&self) {
        // The receiver lives as long as the worker does.
        self.stop.closed().await;
    }

    pub(crate) fn join(self) -> Result<(), WorkerError> {
        // A panic of the worker was printed by it; there is nothing to add.
        self.thread.join().unwrap_or(Ok(()))
    }
}
