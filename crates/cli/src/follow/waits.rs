//! Steps that wait for a worker longer than a moment: then the person who follows is told why, once.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use api::{StepState, Why};
use client::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::track::Track;

/// A fleet with room takes a step in milliseconds; whoever waits longer wants to know.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Queued steps that were not told of yet, and when their patience ends.
    queued: HashMap<String, Instant>,
    /// Steps whose reasons were asked for; each is asked for once.
    asked: HashSet<String>,
    /// Reasons that were told; many steps may wait for the same.
    told: HashSet<String>,
    /// At most one question at a time; it ends with us.
    asking: JoinSet<Option<Why>>,
}

impl Waits {
    /// Takes in where the steps are now.
    pub(crate) fn look(&mut self, track: &Track) {
        for step in &track.steps {
            if step.state != StepState::Queued {
                self.queued.remove(&step.name);
            } else if !self.asked.contains(&step.name) && !self.queued.contains_key(&step.name) {
                self.queued.insert(step.name.clone(), Instant::now() + PATIENCE);
            }
        }
    }

    /// Notices for the person, when there are some. May be dropped and called again.
    pub(crate) async fn next(&mut self, client: &Client, job: &str) -> Vec<String> {
        loop {
            if let Some(answer) = self.asking.join_next().await {
                // Without an answer there is nothing to tell; the stream of changes says when the server is away.
                return self.notices(answer.ok().flatten());
            }
            let Some(&at) = self.queued.values().min() else { std::future::pending().await };
            sleep_until(at).await;
            let (client, job) = (client.clone(), job.to_owned());
            self.asking.spawn(async move { client.why(&job).await.ok() });
        }
    }

    fn notices(&mut self, why: Option<Why>) -> Vec<String> {
        let now = Instant::now();
        let due: Vec<String> = self.queued.extract_if(|_, at| *at <= now).map(|(step, _)| step).collect();
        self.asked.extend(due.iter().cloned());
        let Some(why) = why else { return Vec::new() };
        let waiting = why.steps.iter().filter(|step| step.state == StepState::Queued && due.contains(&step.name));
        // Numbers change while the reason stays the same.
        let is_new =
            |reason: &str, told: &mut HashSet<String>| told.insert(reason.replace(|c: char| c.is_ascii_digit(), ""));
        waiting
            .filter(|step| is_new(&step.reason, &mut self.told))
            .map(|step| format!("step {} waits: {}", step.name, step.reason))
            .collect()
    }
}
