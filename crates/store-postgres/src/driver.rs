//! The one thread that drives every connection's socket, and waiting for it from threads of any kind.
//!
//! The store's traits are synchronous. Whoever calls them, the ledger's thread or one of the server's, parks until the answer is
//! there. That is done by hand: a runtime's own `block_on` refuses to work inside another runtime, and so would dropping it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use store::StoreError;
use tokio::runtime::{Builder, Handle, Runtime};

#[derive(Debug)]
pub(crate) struct Driver {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
}

impl Driver {
    pub(crate) fn start() -> Result<Driver, StoreError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("postgres").enable_all().build();
        let runtime = runtime
            .map_err(|e| StoreError::Unavailable { message: format!("cannot start a thread for PostgreSQL: {e}") })?;
        Ok(Driver { runtime: Some(runtime) })
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("it is there until it is dropped").handle()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for the future; none if that takes longer than `patience`.
pub(crate) fn wait<T>(patience: Duration, future: impl Future<Output = T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_inside_a_runtime_too_and_is_dropped_there() {
        let outer = Builder::new_current_thread().build().expect("a runtime");
        outer.block_on(async {
            let driver = Driver::start().expect("a thread");
            let answer = driver.handle().spawn(async { 7 });
            assert_eq!(wait(Duration::from_secs(60), answer).and_then(Result::ok), Some(7));
            drop(driver);
        });
    }

    #[test]
    fn patience_ends() {
        assert_eq!(wait(Duration::from_millis(1), std::future::pending::<()>()), None);
    }
}
