//! Steps that wait for a worker or a person longer than a moment, or whose worker is cut off: then the person who follows
//! is told why, and what happens when, once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use api::{HoldReason, Step, StepState, Why, WhyStep};
use client::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::track::TrackedStep;
use crate::shell;

/// A fleet with room takes a step in milliseconds; whoever waits longer wants to know.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Steps that wait and were not told of yet, and when their patience ends.
    open: HashMap<Wait, Instant>,
    /// The same in the order of time, with some that wait no more: a job may have thousands of steps.
    line: VecDeque<(Instant, Wait)>,
    /// Waits whose reasons were asked for; each is asked for once.
    asked: HashSet<Wait>,
    /// Reasons that were told; many steps may wait for the same.
    told: HashSet<String>,
    /// At most one question at a time; it ends with us.
    asking: JoinSet<Option<Heard>>,
}

/// Why steps wait, and which of them are held because the database was restored: their reasons name the ways on.
#[derive(Debug)]
struct Heard {
    why: Why,
    restored: HashSet<String>,
}

/// A step and what it waits in.
type Wait = (String, StepState);

/// The states that somebody else should end soon.
const WAITING: [StepState; 3] = [StepState::Queued, StepState::Recovering, StepState::Held];

impl Waits {
    /// Takes in where a step is now.
    pub(crate) fn look(&mut self, step: &TrackedStep) {
        for state in WAITING {
            let wait = (step.name.clone(), state);
            if step.state != state {
                self.open.remove(&wait);
            } else if !self.asked.contains(&wait) && !self.open.contains_key(&wait) {
                let at = Instant::now() + PATIENCE;
                self.line.push_back((at, wait.clone()));
                self.open.insert(wait, at);
            }
        }
        if step.state == StepState::Running {
            // It came back; the next time is news again.
            self.asked.remove(&(step.name.clone(), StepState::Recovering));
        }
    }

    /// Notices for the person, when there are some. May be dropped and called again.
    pub(crate) async fn next(&mut self, client: &Client, job: &str) -> Vec<String> {
        loop {
            if let Some(answer) = self.asking.join_next().await {
                // Without an answer there is nothing to tell; the stream of changes says when the server is away.
                return self.notices(job, answer.ok().flatten());
            }
            let Some(at) = self.first_due() else { std::future::pending().await };
            sleep_until(at).await;
            let (client, job) = (client.clone(), job.to_owned());
            let held = self.open.keys().any(|(_, state)| *state == StepState::Held);
            self.asking.spawn(async move { ask(&client, &job, held).await.ok() });
        }
    }

    /// When the first of those that wait still loses its patience.
    fn first_due(&mut self) -> Option<Instant> {
        while let Some((at, wait)) = self.line.front() {
            if self.open.get(wait) == Some(at) {
                return Some(*at);
            }
            self.line.pop_front();
        }
        None
    }

    fn notices(&mut self, job: &str, heard: Option<Heard>) -> Vec<String> {
        let now = Instant::now();
        let due: HashSet<Wait> = self.open.extract_if(|_, at| *at <= now).map(|(wait, _)| wait).collect();
        self.asked.extend(due.iter().cloned());
        let Some(Heard { why, restored }) = heard else { return Vec::new() };
        let waiting = why.steps.iter().filter(|step| due.contains(&(step.name.clone(), step.state)));
        waiting.filter_map(|step| self.notice(job, step, restored.contains(&step.name))).collect()
    }

    fn notice(&mut self, job: &str, step: &WhyStep, restored: bool) -> Option<String> {
        match step.state {
            StepState::Recovering => return Some(format!("step {} is cut off: {}", step.name, step.reason)),
            StepState::Held if restored => return Some(format!("step {} {}", step.name, step.reason)),
            StepState::Held => {
                let how = format!("say `bowline approve {job} {}`, or `reject`", shell::word(&step.name));
                return Some(format!("step {} {}; {how}", step.name, step.reason));
            }
            _ => {}
        }
        // Numbers change while the reason stays the same.
        let is_new = self.told.insert(step.reason.replace(|c: char| c.is_ascii_digit(), ""));
        is_new.then(|| format!("step {} waits: {}", step.name, step.reason))
    }
}

async fn ask(client: &Client, job: &str, held: bool) -> Result<Heard, client::Error> {
    let why = client.why(job).await?;
    let steps = if held { client.job(job).await?.steps } else { Vec::new() };
    let is_restored = |step: &Step| step.hold.as_ref().is_some_and(|hold| hold.reason == HoldReason::Restored);
    Ok(Heard { why, restored: steps.into_iter().filter(is_restored).map(|step| step.name).collect() })
}
