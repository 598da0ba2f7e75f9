//! Many light workers in this process, each with a socket of its own, and the jobs that they hold on to.

use std::time::Duration;

use api::{JobState, StepState};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::bowline::Server;
use crate::jobs::{self, Effects, TRUE};
use crate::steady::{News, SteadyWorker};
use crate::{Outcome, checks};

/// Workers that enrol at the same time.
const ENROL_AT_ONCE: usize = 64;

/// Between two pieces of news.
const SILENCE_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Herd {
    workers: JoinSet<Outcome<()>>,
    news: UnboundedReceiver<News>,
    end: watch::Sender<bool>,
}

impl Herd {
    /// Enrols the workers at the first server, and waits until they are connected there. They know the others.
    pub(crate) async fn gather(servers: &[&Server<'_>], count: usize, slots: usize) -> Outcome<Herd> {
        raise_open_files()?;
        let slots = u32::try_from(slots)?;
        let first = servers.first().ok_or("a worker has at least one server")?;
        let token = first.enroll_token(u32::try_from(count)?).await?;
        let addresses: Vec<String> = servers.iter().map(|server| server.address().to_owned()).collect();
        let ((tell, news), (end, ending)) = (unbounded_channel(), watch::channel(false));
        let (mut workers, mut enrolling) = (JoinSet::new(), JoinSet::new());
        for n in 0..count {
            let (addresses, token) = (addresses.clone(), token.clone());
            enrolling.spawn(async move { SteadyWorker::enroll(addresses, &token, &format!("light-{n}"), slots).await });
            if enrolling.len() >= ENROL_AT_ONCE || n + 1 == count {
                while let Some(worker) = enrolling.join_next().await {
                    workers.spawn(worker??.serve(ending.clone(), tell.clone()));
                }
            }
        }
        let mut herd = Herd { workers, news, end };
        herd.await_news(News::Connected, count).await?;
        Ok(herd)
    }

    /// Waits for so much news of one kind. None of another kind may come: a link that is lost again is a failure too.
    pub(crate) async fn await_news(&mut self, wanted: News, goal: usize) -> Outcome<()> {
        for count in 0..goal {
            let said = tokio::select! {
                said = timeout(SILENCE_MAX, self.news.recv()) => said,
                Some(worker) = self.workers.join_next(), if wanted != News::Forgotten => {
                    worker??;
                    return Err("a light worker ended".into());
                }
            };
            let silence = |_| format!("{count} of {goal} were {wanted:?}, and none for {} s", SILENCE_MAX.as_secs());
            let said = said.map_err(silence)?.ok_or("all light workers ended")?;
            if said != wanted {
                return Err(format!("{count} of {goal} were {wanted:?} when one was {said:?}").into());
            }
        }
        Ok(())
    }

    /// Lets all steps end well, and the workers when the server has forgotten so many attempts.
    pub(crate) async fn end(mut self, attempts: usize) -> Outcome<()> {
        self.end.send(true)?;
        self.await_news(News::Forgotten, attempts).await?;
        while let Some(worker) = self.workers.join_next().await {
            worker??;
        }
        Ok(())
    }

    /// As if their machines were switched off.
    pub(crate) async fn die(mut self) {
        self.workers.shutdown().await;
    }
}

/// Each worker is a socket here, and many shells allow only a thousand.
fn raise_open_files() -> Outcome<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// So many jobs of so many steps that do not need each other.
pub(crate) async fn submit(server: &Server<'_>, count: usize, steps: usize) -> Outcome<Vec<Uuid>> {
    let client = server.client();
    let request = jobs::independent(steps, &TRUE, Effects::Default);
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(jobs::submit(&client, &request).await?.id);
    }
    Ok(ids)
}

/// Every step has one attempt, and it runs: the server's own view.
pub(crate) async fn all_running(server: &Server<'_>, ids: &[Uuid]) -> Outcome<()> {
    let client = server.client();
    for id in ids {
        let job = client.job(&id.to_string()).await?;
        let other = job.steps.iter().find(|step| step.state != StepState::Running || step.attempts.len() != 1);
        if let Some(step) = other {
            return Err(format!("job {id}, step {}: {} after the crash", step.name, step.state).into());
        }
        if job.state != JobState::Running {
            return Err(format!("job {id} is {} after the crash", job.state).into());
        }
    }
    Ok(())
}

pub(crate) async fn all_succeeded(server: &Server<'_>, ids: &[Uuid], steps: usize) -> Outcome<()> {
    let client = server.client();
    for id in ids {
        let job = jobs::finished(&client, &id.to_string()).await?;
        checks::job(&client, &job, steps).await?;
    }
    Ok(())
}
