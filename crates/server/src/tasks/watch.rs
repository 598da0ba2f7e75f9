//! Looks at the task folder again and again. Polling, since it works on every file system, network and container
//! mounts included, and costs one `stat` per file.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::app::stopped;
use crate::clock::Clock;

use super::registry::TaskRegistry;

/// Nobody who saves a file waits longer than this for it to be seen.
const INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the registry in step with its folder until the server stops.
pub async fn watch(registry: Arc<TaskRegistry>, clock: Arc<Clock>, mut shutdown: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = stopped(&mut shutdown) => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let (registry, clock) = (registry.clone(), clock.clone());
        if let Err(error) = tokio::task::spawn_blocking(move || registry.refresh(clock.now())).await {
            tracing::error!(%error, "a look at the task folder did not end well");
        }
    }
}
