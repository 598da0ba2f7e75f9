//! Looks at the task folder again and again, and, where several servers share a database, at what was pushed to others. Polling, since it works on every file system, network and container
//! mounts included, and costs one `stat` per file.

use std::sync::Arc;
use std::time::Duration;

use store::{Reader, StoreError};
use tokio::sync::watch;

use crate::app::stopped;
use crate::clock::Clock;
use crate::ledger::{Command, Ledger, LedgerDown};

use super::registry::TaskRegistry;

/// Nobody who saves a file waits longer than this for it to be seen.
const INTERVAL: Duration = Duration::from_secs(1);

/// Tells the ledger which triggers the tasks have now, and waits until it has seen to them.
pub async fn tell(registry: &TaskRegistry, ledger: &Ledger) -> Result<(), LedgerDown> {
    ledger.ask(|reply| Command::Triggers(registry.book(), reply)).await
}

/// Keeps the registry in step with its folder, and the ledger with its triggers, until the server stops. `shared`: so that tasks
/// pushed to other servers are known here.
pub async fn watch(
    registry: Arc<TaskRegistry>,
    ledger: Ledger,
    shared: Option<Arc<dyn Reader>>,
    clock: Arc<Clock>,
    mut shutdown: watch::Receiver<bool>,
) {
    let mut told = None;
    loop {
        let book = registry.book();
        // One that cannot be told now is told in a second.
        if told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, &book)) && tell(&registry, &ledger).await.is_ok() {
            told = Some(book);
        }
        tokio::select! {
            () = stopped(&mut shutdown) => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let (registry, clock, shared) = (registry.clone(), clock.clone(), shared.clone());
        let look = move || {
            registry.refresh(clock.now());
            shared.map_or(Ok(false), |reader| take_pushed(&registry, &*reader))
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the tasks that were pushed could not be read"),
            Err(error) => tracing::error!(%error, "a look at the tasks did not end well"),
        }
    }
}

fn take_pushed(registry: &TaskRegistry, reader: &dyn Reader) -> Result<bool, StoreError> {
    Ok(reader.task_stamps()? != registry.stamps() && registry.take_pushed(&reader.tasks()?))
}
