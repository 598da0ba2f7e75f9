//! Until when steps wait for a time to come: changes do not tell, so who draws them asks.

use std::time::Duration;

use api::Job;
use client::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::track::TrackedStep;

/// Between two questions: a fan-out may have thousands of steps that begin to wait one after the other.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Delays {
    /// There is a step that waits, and nobody said until when.
    wanted: bool,
    not_before: Option<Instant>,
    /// At most one question at a time; it ends with us.
    asking: JoinSet<Option<Box<Job>>>,
}

impl Delays {
    /// Takes in where a step is now.
    pub(crate) fn look(&mut self, step: &TrackedStep) {
        self.wanted |= step.lacks_wait();
    }

    /// When an answer is there. Without one nothing is shown but the state. May be dropped and called again.
    pub(crate) async fn next(&mut self, client: &Client, job: &str) -> Option<Box<Job>> {
        loop {
            if let Some(answer) = self.asking.join_next().await {
                return answer.ok().flatten();
            }
            if !self.wanted {
                std::future::pending::<()>().await;
            }
            if let Some(at) = self.not_before {
                sleep_until(at).await;
            }
            self.wanted = false;
            self.not_before = Some(Instant::now() + PAUSE);
            let (client, job) = (client.clone(), job.to_owned());
            self.asking.spawn(async move { client.job(&job).await.ok().map(Box::new) });
        }
    }
}
