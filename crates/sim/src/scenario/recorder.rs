//! Watches a world while a script is played.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{Job, JobId, StepIx};
use protocol::attempt::Ticket;
use protocol::log::Blocks;
use server::explain::{Live, explain};
use server::ledger::Definitions;
use store::Reader;
use store::read::AttemptView;

use crate::workload::{Behaviour, HookWork, Kind};
use crate::world::World;

use super::script::Script;
use super::seen::{Life, Log, Mark, Seen, Tried, Turn, Word, WordEnd};

/// Words to the outside that are looked at.
const WORDS_MAX: usize = 100;

/// The server's own lines of one log that are read.
const MARKS_MAX: usize = 1_000;

pub(super) struct Recorder {
    pub seen: Seen,
    pub job: Option<Job>,
    /// The task whose first job is watched, where no user submits it; and whether it is told how many there were.
    task: Option<String>,
    counts: bool,
    /// Executions of the job's other steps, by their names.
    beside: BTreeMap<String, BTreeSet<uuid::Uuid>>,
    /// Which of its hooks begin jobs.
    follows: Vec<usize>,
    /// The step that is watched.
    pub watched: StepIx,
    name: String,
    definitions: Definitions,
    commits: u64,
    /// Of the job's row when it was last read.
    version: u64,
    looked_at: Duration,
    /// Executions that run, on machines that do not sleep.
    awake: usize,
    /// The highest line number that each runner wrote.
    printed: BTreeMap<Ticket, u64>,
    takes: Duration,
}

impl Recorder {
    pub(super) fn new(script: &Script) -> Recorder {
        let takes = match script.job.steps[0].kind {
            Kind::Work(Behaviour { takes, .. }) => takes,
            Kind::Approve => Duration::ZERO,
        };
        Recorder {
            seen: Seen::default(),
            job: None,
            task: (script.schedule.is_some() || script.called).then(|| script.job.name.clone()),
            counts: script.schedule.is_some() || script.called,
            beside: script.job.steps.iter().skip(1).map(|step| (step.name.clone(), BTreeSet::new())).collect(),
            follows: (0..)
                .zip(&script.job.hooks)
                .filter(|(_, hook)| matches!(hook.work, HookWork::Job(_)))
                .map(|(at, _)| at)
                .collect(),
            watched: script.watched(),
            name: script.watched_name(),
            definitions: Definitions::default(),
            commits: 0,
            version: 0,
            looked_at: Duration::ZERO,
            awake: 0,
            printed: BTreeMap::new(),
            takes,
        }
    }

    /// After everything that happens.
    pub(super) fn look(&mut self, world: &World) {
        self.look_at_children(world);
        let commits = (0..world.servers.len()).map(|at| world.database.trouble(at, |trouble| trouble.commits)).sum();
        if commits != self.commits {
            self.commits = commits;
            self.look_at_rows(world);
        }
    }

    fn look_at_children(&mut self, world: &World) {
        let now = world.agenda.now();
        if self.awake > 1 {
            self.seen.side_by_side += now - self.looked_at;
        }
        self.looked_at = now;
        for life in self.seen.lives.iter_mut().filter(|life| life.to.is_none()) {
            let mut groups = world.hosts[life.host].groups.iter();
            let lives = groups.any(|(ticket, group)| ticket.attempt == life.attempt && !group.is_cleanup());
            if !lives {
                life.to = Some(now);
                life.ended_itself = now - life.from >= self.takes;
            }
        }
        self.look_at_cleanups(world);
        let groups = world.hosts.iter().enumerate().flat_map(|(at, host)| host.groups.iter().map(move |of| (at, of)));
        for (host, (ticket, _)) in groups.filter(|(_, (_, group))| !group.is_cleanup()) {
            let folders = || world.hosts[host].disk.attempts.iter().chain(&world.hosts[host].deleted);
            let of = folders().find(|(of, _)| *of == ticket).map(|(_, folder)| &folder.spec.attempt.step);
            if let Some(step) = of.filter(|step| **step != self.name) {
                if let Some(executions) = self.beside.get_mut(step) {
                    executions.insert(ticket.attempt);
                }
                continue;
            }
            let known = |life: &Life| (life.host, life.attempt, life.to) == (host, ticket.attempt, None);
            if !self.seen.lives.iter().any(known) {
                let life = Life { host, attempt: ticket.attempt, from: now, to: None, ended_itself: false };
                self.seen.lives.push(life);
            }
        }
        let awake = |life: &&Life| life.to.is_none() && world.hosts[life.host].asleep.is_none();
        self.awake = self.seen.lives.iter().filter(awake).count();
        for (ticket, folder) in world.hosts.iter().flat_map(|host| host.disk.attempts.iter().chain(&host.deleted)) {
            let printed = self.printed.entry(*ticket).or_default();
            *printed = folder.log.last_seq.max(*printed);
        }
    }

    fn look_at_cleanups(&mut self, world: &World) {
        let lives = world.hosts.iter().flat_map(|host| host.groups.values()).any(|group| group.is_cleanup());
        match self.seen.cleaned.last_mut() {
            Some(over @ None) if !lives => *over = Some(world.agenda.now()),
            None | Some(Some(_)) if lives => self.seen.cleaned.push(None),
            _ => {}
        }
    }

    fn look_at_rows(&mut self, world: &World) {
        let first = match &self.task {
            Some(task) => runs_of(task, world).first().copied(),
            None => world.users.jobs.first().copied().flatten(),
        };
        let Some(id) = first else { return };
        let stored = world.database.reader().job(id).expect("the world's own look is never refused");
        let Some(stored) = stored.filter(|stored| stored.job.version != self.version) else { return };
        self.version = stored.job.version;
        let (job, _) = self.definitions.load(&stored).expect("what was stored can be read");
        let state = job.state(self.watched).name().word();
        if self.seen.turns.last().is_none_or(|turn| turn.state != state) {
            self.seen.turns.push(Turn { state, at: world.agenda.now() });
        }
        self.job = Some(job);
    }

    fn load(&self, reader: &dyn Reader, id: JobId) -> Option<Job> {
        let stored = reader.job(id).expect("the world's own look is never refused")?;
        let (job, _) = self.definitions.load(&stored).expect("what was stored can be read");
        Some(job)
    }

    pub(super) fn mark(&mut self, name: &'static str, world: &World) {
        self.seen.marks.push(Mark { name, at: world.agenda.now() });
    }

    /// Somebody asks why.
    pub(super) fn ask(&mut self, world: &World) {
        let (Some(job), Some(at)) = (&self.job, world.servers.iter().position(|node| node.process.is_some())) else {
            return self.seen.whys.push("(no server answers)".to_owned());
        };
        let Some(process) = &world.servers[at].process else { return };
        let reader = world.database.reader();
        let now = world.clock_of(at);
        let hearing = reader.hearing().expect("the world's own look is never refused");
        let clocks = hearing.map_or_else(|| engine::Clocks::never_deaf(now), |row| row.clocks(now));
        let live = Live::of(process.core.roster());
        let why = explain(reader.as_ref(), &self.definitions, &clocks, job.id, live).expect("the store answers");
        self.seen.whys.extend(why.map(|why| why.summary));
    }

    /// Whether nothing more is to be expected.
    pub(super) fn all_is_over(&self, world: &World) -> bool {
        let Some(job) = self.job.as_ref().filter(|job| job.header.state.is_final()) else { return false };
        let reader = world.database.reader();
        let (id, _) = self.doer(job);
        let attempts = reader.attempts(id).expect("the world's own look is never refused");
        let stored = |attempt: &AttemptView| reader.log_state(attempt.id).is_ok_and(|state| state.complete);
        let next = goes_on_as(job, world);
        let mut others = self.follows.iter().map(|number| job.id.hook(*number)).chain(next);
        let goes_on = |id| self.load(reader.as_ref(), id).is_some_and(|job| !job.header.state.is_final());
        !others.any(goes_on) && world.hosts.iter().all(|host| host.groups.is_empty()) && attempts.iter().all(stored)
    }

    /// The last look.
    pub(super) fn finish(mut self, world: &World) -> Seen {
        let counted = self.task.as_ref().filter(|_| self.counts);
        self.seen.runs = counted.map(|task| runs_of(task, world).len());
        self.seen.beside = self.beside.iter().map(|(step, executions)| (step.clone(), executions.len())).collect();
        self.seen.findings = world.checks.lock().expect("no checker panics").findings().to_vec();
        let Some(job) = self.job.take() else { return self.seen };
        let reader = world.database.reader();
        self.seen.deleted = reader.job(job.id).expect("the world's own look is never refused").is_none();
        self.seen.held = world.hosts.iter().map(|host| host.disk.attempts.len()).sum();
        let Some(step) = job.steps.get(self.watched.get()) else { return self.seen };
        let failure = step.error.as_ref();
        self.seen.error = failure.map(|failure| (failure.kind.code().to_owned(), failure.message.clone()));
        self.seen.step = step.state.name().word().to_owned();
        self.seen.job = job.header.state.word().to_owned();
        self.seen.notices = job.notices().len();
        self.seen.words = words(world, job.id);
        let state =
            |number: &usize| Some(self.load(reader.as_ref(), job.id.hook(*number))?.header.state.word().to_owned());
        self.seen.followed = self.follows.iter().map(state).collect();
        let (id, ix) = self.doer(&job);
        let attempts = reader.attempts(id).expect("the world's own look is never refused");
        let of_step = attempts.into_iter().filter(|attempt| attempt.ix == ix);
        self.seen.attempts = of_step.map(|attempt| self.tried(reader.as_ref(), attempt)).collect();
        let next = goes_on_as(&job, world).and_then(|id| self.load(reader.as_ref(), id));
        self.seen.continued_by =
            next.map(|job| (job.header.state.word().to_owned(), job.steps[0].state.name().word().to_owned()));
        self.seen
    }

    /// The step whose attempts are those of the step that is watched: itself, or that of the job which does it.
    fn doer(&self, job: &Job) -> (JobId, StepIx) {
        let child = (self.watched.get() < job.steps.len()).then(|| job.child_of(self.watched)).flatten();
        child.map_or((job.id, self.watched), |child| (child, StepIx(0)))
    }

    fn tried(&self, reader: &dyn Reader, attempt: AttemptView) -> Tried {
        let state = reader.log_state(attempt.id).expect("the world's own look is never refused");
        let marks = reader.log_marks(attempt.id, 0, u64::MAX >> 1, MARKS_MAX).expect("the world's own look");
        let chunks = reader.log_chunks(attempt.id, 1, usize::MAX >> 1).expect("the world's own look is never refused");
        let stored =
            chunks.iter().flat_map(|chunk| Blocks::new(&chunk.blocks)).flatten().map(|block| block.lines().count());
        let printed = self.printed.iter().find(|(ticket, _)| ticket.attempt == attempt.id.0);
        Tried {
            number: attempt.number,
            state: attempt.state,
            confirmed: attempt.confirmed,
            late: attempt.late_outcome.is_some(),
            error: attempt.error_code.zip(attempt.error_message),
            log: Log {
                printed: printed.map_or(0, |(_, seq)| *seq),
                stored: stored.sum::<usize>() as u64,
                complete: state.complete && !state.closed,
                marks: marks.into_iter().map(|mark| mark.text).collect(),
            },
        }
    }
}

/// The job that goes on for this one: in its place, or once more from the beginning.
fn goes_on_as(job: &Job, world: &World) -> Option<JobId> {
    let reader = world.database.reader();
    let lineage = |id: JobId| reader.lineage(id).expect("the world's own look is never refused");
    let retried = || runs_of(&job.definition.name, world).into_iter().find(|id| lineage(*id).continues == Some(job.id));
    lineage(job.id).resolved_by.or_else(retried)
}

/// What became of what is to be said about this job.
pub(super) fn words(world: &World, job: JobId) -> Vec<Word> {
    let words = world.database.reader().outbox_of(job, WORDS_MAX).expect("the world's own look is never refused");
    let word = |word: store::read::OutboxView| {
        let end = match (word.delivered_at, word.next_at) {
            (Some(_), _) => WordEnd::Delivered,
            (None, Some(_)) => WordEnd::Open,
            (None, None) => WordEnd::GivenUp,
        };
        Word { tries: word.tries, end }
    };
    words.into_iter().map(word).collect()
}

/// All jobs of this task, the oldest first.
fn runs_of(task: &str, world: &World) -> Vec<JobId> {
    world.checks.lock().expect("no checker panics").jobs_of(task)
}
