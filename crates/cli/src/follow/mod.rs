//! Following a job to its end: its changes, its logs, the person at the keyboard. `run`, `exec`, `attach` and
//! `logs -f` come here.
//!
//! ```text
//!  event stream ──► track ──► opens ──► log readers (one per started step)
//!       │             │                     │ lines
//!       └───── one loop, one view ◄─────────┘        Ctrl-C ──► cancel
//! ```
//!
//! A hang-up (closed terminal, lost ssh) ends this process by its default and leaves the job alone, as it should;
//! under `nohup` it does not even do that. So no handler is set for it.

mod bare;
mod delays;
mod interrupt;
mod join;
mod live;
mod logs;
mod prefixed;
mod raw;
mod screen;
mod text;
mod track;
mod tree;
mod view;
mod waits;

use std::time::Duration;

use api::job::StepKind;
use api::{Event, EventKind, Job, Step};
use client::{Client, StreamItem};
use tokio::time::{Instant, interval, sleep, sleep_until};

use self::delays::Delays;
use self::interrupt::Interrupts;
use self::logs::{LogEnd, LogReaders, News, What};
use self::track::Track;
use self::waits::Waits;

pub(crate) use self::raw::Raw;
pub(crate) use self::view::{View, Wish, choose};

use crate::error::CliError;
use crate::shell;

/// After the job's end its logs may still be on their way from the workers; this long without a line is too long.
const LOG_PATIENCE: Duration = Duration::from_secs(5);

/// How often a live display moves.
const TICK: Duration = Duration::from_millis(100);

/// One long poll for the end; the server answers at once when it comes.
const POLL: Duration = Duration::from_secs(30);

/// Between two polls of a server that is away.
const POLL_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Only this step: the end is its end.
    pub(crate) step: Option<String>,
    /// Of attempts that were there before, only the last, and of that only so many lines.
    pub(crate) latest: Option<Latest>,
    /// Ctrl-C asks for the job's end instead of just leaving.
    pub(crate) interrupt_cancels: bool,
    /// Why a step has no worker is told, if it takes long.
    pub(crate) tells_waits: bool,
    /// Nobody wants the logs.
    pub(crate) without_logs: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Latest {
    pub(crate) tail: Option<u32>,
}

#[derive(Debug)]
pub(crate) enum Ended {
    /// It is over; boxed, since a job is large.
    Over(Box<Job>),
    /// The person did not wait for the end.
    Left,
}

/// Follows until the end. `job` is what is known now.
pub(crate) async fn follow(
    client: &Client,
    job: &Job,
    options: &Options,
    view: &mut dyn View,
) -> Result<Ended, CliError> {
    let mut follower = Follower {
        client,
        id: job.id.to_string(),
        step: options.step.as_deref(),
        track: Track::new(job),
        logs: LogReaders::new(client.clone(), job.id.to_string()),
        interrupts: Interrupts::new(options.interrupt_cancels)?,
        waits: options.tells_waits.then(Waits::default),
        delays: Delays::default(),
        with_logs: !options.without_logs,
        view,
    };
    follower.view.begin(&follower.track)?;
    follower.look_for_waits(None);
    follower.open_known(job, options.latest);
    if follower.until_over(job.last_event).await? == Flow::Leave {
        return Ok(Ended::Left);
    }
    follower.until_told().await
}

struct Follower<'a> {
    client: &'a Client,
    id: String,
    step: Option<&'a str>,
    track: Track,
    logs: LogReaders,
    interrupts: Interrupts,
    waits: Option<Waits>,
    delays: Delays,
    with_logs: bool,
    view: &'a mut dyn View,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoOn,
    Leave,
}

impl Follower<'_> {
    /// Until the tracked end, by the stream of changes.
    async fn until_over(&mut self, after: u64) -> Result<Flow, CliError> {
        let mut events = self.client.job_events(&self.id, after);
        let mut ticks = interval(TICK);
        while !self.is_over() {
            tokio::select! {
                item = events.next() => match item? {
                    Some(StreamItem::Data(event)) => self.event(&event).await?,
                    Some(StreamItem::Lost(error)) => {
                        self.track.lost();
                        self.view.notice(&format!("{error}; the job goes on, trying to connect again"))?;
                    }
                    Some(StreamItem::Back) => self.view.notice("connected again")?,
                    None => break,
                },
                news = self.logs.next() => self.news(news)?,
                notices = waits(self.waits.as_mut(), self.client, &self.id) => {
                    for notice in notices {
                        self.view.notice(&notice)?;
                    }
                }
                job = self.delays.next(self.client, &self.id) => {
                    if let Some(job) = job {
                        self.track.hear_waits(&job);
                    }
                }
                () = self.interrupts.next() => {
                    if self.interrupted()? == Flow::Leave {
                        return Ok(Flow::Leave);
                    }
                }
                _ = ticks.tick(), if self.view.is_live() => self.view.tick(&self.track)?,
            }
        }
        Ok(Flow::GoOn)
    }

    /// Until the logs are complete too, or nothing comes any more.
    async fn until_told(&mut self) -> Result<Ended, CliError> {
        let id = self.id.clone();
        let fetch = last_word(self.client, &id, self.step.is_none());
        tokio::pin!(fetch);
        let mut last_word: Option<Box<Job>> = None;
        let mut give_up_at = Instant::now() + LOG_PATIENCE;
        let mut ticks = interval(TICK);
        loop {
            if last_word.is_some() && self.logs.outstanding() == 0 {
                break;
            }
            tokio::select! {
                job = &mut fetch, if last_word.is_none() => {
                    let job = Box::new(job?);
                    for index in self.track.absorb(&job) {
                        self.view.step_changed(&self.track, index)?;
                    }
                    self.open_known(&job, None);
                    last_word = Some(job);
                    give_up_at = Instant::now() + LOG_PATIENCE;
                }
                news = self.logs.next() => {
                    self.news(news)?;
                    give_up_at = Instant::now() + LOG_PATIENCE;
                }
                () = self.interrupts.next() => {
                    if self.interrupted()? == Flow::Leave {
                        return Ok(Ended::Left);
                    }
                }
                _ = ticks.tick(), if self.view.is_live() => self.view.tick(&self.track)?,
                () = sleep_until(give_up_at), if last_word.is_some() => {
                    self.view.notice("some log lines are still on their way; see them later with `bowline logs`")?;
                    break;
                }
            }
        }
        self.view.end(&self.track)?;
        Ok(last_word.map_or(Ended::Left, Ended::Over))
    }

    fn is_over(&self) -> bool {
        match self.step {
            Some(step) => self.track.step(step).is_none_or(|step| step.state.is_final()),
            None => self.track.state.is_final(),
        }
    }

    async fn event(&mut self, event: &Event) -> Result<(), CliError> {
        if let Some(index) = self.track.apply(event) {
            // What moves is corrected in the end.
            if self.track.steps[index].took_is_in_doubt() && !self.view.is_live() {
                self.ask_how_long(index).await;
            }
            let step = &self.track.steps[index];
            if self.with_logs && self.step.is_none_or(|only| only == step.name) {
                self.logs.open(&step.name, step.attempt);
            }
            self.view.step_changed(&self.track, index)?;
            self.look_for_waits(Some(index));
            if self.view.is_live() {
                self.delays.look(&self.track.steps[index]);
            }
        }
        if event.kind == EventKind::Job {
            self.view.tick(&self.track)?;
        }
        Ok(())
    }

    /// Without an answer it took until its end was heard of.
    async fn ask_how_long(&mut self, index: usize) {
        let Ok(job) = self.client.job(&self.id).await else { return };
        let step = &mut self.track.steps[index];
        if let Some(known) = job.step(&step.name) {
            step.hear(known);
        }
    }

    fn news(&mut self, news: News) -> Result<(), CliError> {
        let News { step, what } = news;
        match what {
            What::Lines(page) => self.view.lines(&step, &page.lines)?,
            What::End(attempt, end) => {
                self.view.log_ended(&step)?;
                match end {
                    LogEnd::Complete => {}
                    LogEnd::Overtaken => self.view.notice(&format!(
                        "the log of {step}, attempt {attempt}, is still on its way; see it later with \
                         `bowline logs {} {} --attempt {attempt}`",
                        self.id,
                        shell::word(&step)
                    ))?,
                    LogEnd::Failed(error) => self.view.notice(&format!("cannot read the log of {step}: {error}"))?,
                }
            }
        }
        Ok(())
    }

    /// Opens the logs of all attempts that the job names and that are not open yet.
    fn open_known(&mut self, job: &Job, latest: Option<Latest>) {
        let is_wanted = |step: &&Step| self.with_logs && self.step.is_none_or(|only| only == step.name);
        let on_workers = job.steps.iter().filter(|step| step.kind == StepKind::Run);
        for step in on_workers.filter(is_wanted) {
            match latest {
                Some(latest) => self.logs.open_latest(&step.name, step.attempt, latest.tail),
                None => self.logs.open(&step.name, step.attempt),
            }
        }
    }

    /// At the step that changed, or at all.
    fn look_for_waits(&mut self, changed: Option<usize>) {
        let Some(waits) = &mut self.waits else { return };
        match changed {
            Some(index) => waits.look(&self.track.steps[index]),
            None => self.track.steps.iter().for_each(|step| waits.look(step)),
        }
    }

    fn interrupted(&mut self) -> Result<Flow, CliError> {
        let id = &self.id;
        match self.interrupts.count() {
            1 => self.view.notice(&format!("cancelling job {id} (Ctrl-C again to force it)"))?,
            2 => self.view.notice(&format!("forcing the end of job {id} (Ctrl-C again to leave)"))?,
            _ => {
                self.view.notice(&format!("leaving; see what becomes of it with `bowline job {id}`"))?;
                return Ok(Flow::Leave);
            }
        }
        self.interrupts.ask(self.client.clone(), id.clone());
        Ok(Flow::GoOn)
    }
}

async fn waits(waits: Option<&mut Waits>, client: &Client, id: &str) -> Vec<String> {
    match waits {
        Some(waits) => waits.next(client, id).await,
        None => std::future::pending().await,
    }
}

/// The job as it is in the end, however long the server is away.
async fn last_word(client: &Client, id: &str, whole_job: bool) -> Result<Job, client::Error> {
    loop {
        let answer = if whole_job { client.job_wait(id, POLL).await } else { client.job(id).await };
        match answer {
            Ok(job) if job.state.is_final() || !whole_job => return Ok(job),
            Ok(_) => {}
            Err(error) if error.is_passing() => sleep(POLL_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}
