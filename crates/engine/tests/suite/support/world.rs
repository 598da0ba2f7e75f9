//! A job, a clock and the tickets that were handed out: all that it takes to play events against the engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::deadline::Rules;
use engine::definition::Definition;
use engine::event::{Changes, Effect, Event, Rejection, Ticket};
use engine::workers::{Label, Workers};
use engine::{AttemptId, Clocks, Ctx, Epoch, Fence, Heard, Job, JobId, StepIx, Time, WorkerId};
use serde_json::json;
use uuid::Uuid;

use super::toy::Toy;

/// Tests count time from here.
pub(crate) const START: Time = Time(1_000_000_000);

pub(crate) struct World {
    pub(crate) job: Job,
    pub(crate) now: Time,
    /// How much of the time nobody could be heard.
    pub(crate) deaf: Duration,
    pub(crate) verdicts_from: Heard,
    pub(crate) rules: Rules,
    pub(crate) random: u64,
    /// Every ticket that was offered, in order.
    pub(crate) tickets: Vec<Ticket>,
    epoch: u64,
    workers: Fleet,
}

/// Worker 1 is called `w1` on `h1`, and so on, for as long as it is there.
#[derive(Default)]
struct Fleet {
    removed: BTreeSet<WorkerId>,
}

impl Workers for Fleet {
    fn label(&self, id: WorkerId) -> Option<Label> {
        let number = id.0.as_u128();
        let removed = self.removed.contains(&id);
        Some(Label { name: format!("w{number}"), host: format!("h{number}"), removed })
    }
}

impl World {
    pub(crate) fn submit(definition: Arc<Definition>) -> (World, Changes) {
        let rules = Rules::default();
        let (heard, verdicts_from) = (Heard(START.0), Heard::MIN);
        let ctx = Ctx { now: START, heard, verdicts_from, random: 0, rules: &rules, workers: &(), evaluator: &Toy };
        let (id, input) = (JobId(Uuid::from_u128(1)), json!("hello"));
        let group = engine::group_of(&definition, &input, id, &Toy).expect("a test's group has a name");
        let (job, changes) = engine::submit(id, definition, Arc::new(input), group, "ann".into(), &ctx);
        (
            World {
                job,
                now: START,
                deaf: Duration::ZERO,
                verdicts_from,
                rules,
                random: 0,
                tickets: Vec::new(),
                epoch: 1,
                workers: Fleet::default(),
            },
            changes,
        )
    }

    /// What the engine makes of `event` now; the job stays as it is.
    pub(crate) fn ask(&self, event: &Event) -> Result<Changes, Rejection> {
        engine::apply(&self.job, event, &self.ctx())
    }

    pub(crate) fn ctx(&self) -> Ctx<'_> {
        let Clocks { now, heard, verdicts_from } = self.clocks();
        Ctx {
            now,
            heard,
            verdicts_from,
            random: self.random,
            rules: &self.rules,
            workers: &self.workers,
            evaluator: &Toy,
        }
    }

    pub(crate) fn play(&mut self, event: &Event) -> Result<Changes, Rejection> {
        let changes = self.ask(event)?;
        for effect in &changes.effects {
            if let Effect::Offer { step, offer } = effect {
                self.tickets.push(Ticket { step: *step, attempt: offer.attempt, fence: offer.fence });
            }
        }
        self.job.absorb(&changes);
        Ok(changes)
    }

    /// An operator takes the worker that holds the step out of the fleet.
    pub(crate) fn remove_worker_of(&mut self, step: StepIx) {
        let state = &self.job.step(step).state;
        let holder = state.live().map(|l| l.worker).or_else(|| state.offer().map(|o| o.worker));
        self.workers.removed.extend(holder);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Time in which nobody can be heard, and then a stretch in which nobody is judged.
    pub(crate) fn pass_deaf(&mut self, time: Duration, quiet: Duration) {
        self.now = self.now + time;
        self.deaf += time;
        self.verdicts_from = self.heard() + quiet;
    }

    pub(crate) fn heard(&self) -> Heard {
        Heard((self.now - self.deaf).0)
    }

    pub(crate) fn clocks(&self) -> Clocks {
        Clocks { now: self.now, heard: self.heard(), verdicts_from: self.verdicts_from }
    }

    /// A hand-over that nobody has seen yet.
    pub(crate) fn fresh_offer(&self, step: StepIx, worker: u128) -> Event {
        let ticket = self.fresh_ticket(step);
        Event::Offer { ticket, worker: WorkerId(Uuid::from_u128(worker)), epoch: Epoch(self.epoch) }
    }

    /// An attempt that runs, and of which nothing is on record.
    pub(crate) fn fresh_attempt(&self, step: StepIx, worker: u128) -> Event {
        let ticket = self.fresh_ticket(step);
        Event::Adopted { ticket, worker: WorkerId(Uuid::from_u128(worker)), epoch: Epoch(self.epoch) }
    }

    fn fresh_ticket(&self, step: StepIx) -> Ticket {
        let number = self.tickets.len() as u64 + 1;
        let attempt = AttemptId(Uuid::from_u128(0xA000 + u128::from(number)));
        Ticket { step, attempt, fence: Fence(100 + number) }
    }

    /// The ticket that speaks for the step, or else the last one that did, or else one that never existed.
    pub(crate) fn ticket(&self, step: StepIx) -> Ticket {
        let current = self.job.step(step).state.ticket().map(|(attempt, fence)| Ticket { step, attempt, fence });
        let last = || self.tickets.iter().rev().find(|t| t.step == step).copied();
        current.or_else(last).unwrap_or(Ticket { step, attempt: AttemptId(Uuid::nil()), fence: Fence(0) })
    }

    /// The link on which the step's attempt or offer is.
    pub(crate) fn epoch_of(&self, step: StepIx) -> Epoch {
        let state = &self.job.step(step).state;
        let live = state.live().map(|l| l.epoch);
        live.or_else(|| state.offer().map(|o| o.epoch)).unwrap_or(Epoch(self.epoch))
    }

    /// A worker said hello: everything after this is on a new link.
    pub(crate) fn new_epoch(&mut self) -> Epoch {
        self.epoch += 1;
        Epoch(self.epoch)
    }

    /// The events of all checks that are due now.
    pub(crate) fn due(&self) -> Vec<Event> {
        let due = |check: &Option<engine::deadline::Deadline>| check.is_some_and(|d| d.at <= self.now);
        let mut events: Vec<Event> = (0..self.job.steps.len())
            .filter(|&i| due(&self.job.steps[i].check))
            .map(|i| Event::Check { step: StepIx::of(i) })
            .collect();
        if due(&self.job.header.check) {
            events.push(Event::CheckJob);
        }
        events
    }

    /// When something of this job is looked at next.
    pub(crate) fn next_check(&self) -> Option<Time> {
        let steps = self.job.steps.iter().filter_map(|s| s.check);
        steps.chain(self.job.header.check).map(|deadline| deadline.at).min()
    }

    pub(crate) fn step_named(&self, name: &str) -> StepIx {
        self.job.find(name).unwrap_or_else(|| panic!("no step is named {name}"))
    }
}
