//! (g) A crash of the server with thousands of workers connected: how long until all are back with what they run.

use std::time::{Duration, Instant};

use api::{JobState, StepState};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::bowline::{Bowline, Server};
use crate::figure::{Figure, Target, Unit};
use crate::jobs::{self, Effects, TRUE};
use crate::memory::Memory;
use crate::steady::{News, SteadyWorker};
use crate::{Effort, Outcome, checks};

const WORKERS: usize = 2_000;
const SLOTS: usize = 10;
/// Jobs of so many steps.
const STEPS: usize = 1_000;

/// Workers that enrol at the same time.
const ENROL_AT_ONCE: usize = 64;

/// Between two pieces of news.
const SILENCE_MAX: Duration = Duration::from_secs(30);

const BACK_MAX_MS: f64 = 10_000.0;
const SERVER_MAX_MB: f64 = 300.0;

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    raise_open_files()?;
    let (workers, attempts) = (effort.count(WORKERS), effort.count(WORKERS) * SLOTS);
    let mut server = bowline.server().await?;
    let (end, ending) = watch::channel(false);
    let (mut herd, mut news) = gather(&server, workers, &ending).await?;
    await_news(&mut news, &mut herd, News::Connected, workers).await?;
    let ids = submit(&server, attempts.div_ceil(STEPS)).await?;
    await_news(&mut news, &mut herd, News::Running, attempts).await?;

    let begin = Instant::now();
    server.crash().await?;
    let up = begin.elapsed();
    await_news(&mut news, &mut herd, News::Connected, workers).await?;
    let back = begin.elapsed();
    all_running(&server, &ids).await?;
    let memory = Memory::peak(server.process.pid())?;

    end.send(true)?;
    await_news(&mut news, &mut herd, News::Forgotten, attempts).await?;
    while let Some(worker) = herd.join_next().await {
        worker??;
    }
    all_succeeded(&server, &ids).await?;
    server.stop().await?;
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let name = format!("crash to all {workers} workers back with {attempts} running attempts");
    Ok(vec![
        Figure::new("crash to `ready`", millis(up), Unit::Millis),
        Figure::new(name, millis(back), Unit::Millis).target(Target::Below(BACK_MAX_MS)),
        Figure::new("server in the storm, most resident", memory, Unit::Megabytes).target(Target::Below(SERVER_MAX_MB)),
    ])
}

/// Each worker is a socket here, and many shells allow only a thousand.
fn raise_open_files() -> Outcome<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

type Herd = JoinSet<Outcome<()>>;

/// Enrols the workers and lets them connect.
async fn gather(
    server: &Server<'_>,
    workers: usize,
    ending: &watch::Receiver<bool>,
) -> Outcome<(Herd, UnboundedReceiver<News>)> {
    let token = server.enroll_token(u32::try_from(workers)?).await?;
    let (news, received) = mpsc::unbounded_channel();
    let (mut herd, mut enrolling) = (JoinSet::new(), JoinSet::new());
    for n in 0..workers {
        let (address, token) = (server.address().to_owned(), token.clone());
        enrolling.spawn(async move {
            SteadyWorker::enroll(&address, &token, &format!("light-{n}"), SLOTS.try_into()?).await
        });
        if enrolling.len() >= ENROL_AT_ONCE || n + 1 == workers {
            while let Some(worker) = enrolling.join_next().await {
                herd.spawn(worker??.serve(ending.clone(), news.clone()));
            }
        }
    }
    Ok((herd, received))
}

async fn submit(server: &Server<'_>, count: usize) -> Outcome<Vec<Uuid>> {
    let client = server.client();
    let request = jobs::independent(STEPS, &TRUE, Effects::Default);
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(jobs::submit(&client, &request).await?.id);
    }
    Ok(ids)
}

/// Waits for so much news of one kind. None of another kind may come: a link that is lost again is a failure too.
async fn await_news(news: &mut UnboundedReceiver<News>, herd: &mut Herd, wanted: News, goal: usize) -> Outcome<()> {
    for count in 0..goal {
        let said = tokio::select! {
            said = timeout(SILENCE_MAX, news.recv()) => said,
            Some(worker) = herd.join_next(), if wanted != News::Forgotten => {
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

/// The server's own view.
async fn all_running(server: &Server<'_>, ids: &[Uuid]) -> Outcome<()> {
    let client = server.client();
    for id in ids {
        let job = client.job(&id.to_string()).await?;
        let other = job.steps.iter().find(|step| step.state != StepState::Running || step.attempts.len() != 1);
        if let Some(step) = other {
            return Err(format!("job {id}, step {}: {} after the storm", step.name, step.state).into());
        }
        if job.state != JobState::Running {
            return Err(format!("job {id} is {} after the storm", job.state).into());
        }
    }
    Ok(())
}

async fn all_succeeded(server: &Server<'_>, ids: &[Uuid]) -> Outcome<()> {
    let client = server.client();
    for id in ids {
        let job = jobs::finished(&client, &id.to_string()).await?;
        checks::job(&client, &job, STEPS).await?;
    }
    Ok(())
}
