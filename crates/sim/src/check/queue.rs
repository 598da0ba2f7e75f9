//! Promise: nobody waits in the queue for a worker that stands idle. A step that has been there for a minute and a half without an offer
//! has no worker that could take it: one that fits, takes work, has been heard all the time and has had nothing in hand.
//!
//! What may hold a step back for longer all the same is left out: an operator's pause, a clock that leapt, time in which servers did not
//! listen, and worlds whose database fails or loses commits, after which steps are left alone or withheld.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::WorkerId;
use store::Batch;

use super::ears::Ears;
use super::plans::Plans;
use super::rows::{Place, Rows};
use super::supply::Supply;
use super::{Accepted, Findings};
use crate::faults::Fault;

const CHECKER: &str = "queue";

/// So long may a step stand beside an idle worker: a refusal counts until the next heartbeat, and what one server queued
/// another one sees when it looks.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// A worker that is there is heard within this.
const HEARD: Duration = Duration::from_secs(30);

const LOOK_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Queue {
    applies: bool,
    /// Since when steps have stood in the queue, without an offer and with the same row.
    standing: BTreeMap<Place, Duration>,
    /// When each worker last had something in hand.
    busy: BTreeMap<WorkerId, Duration>,
    /// Nothing is to be handed out; or it was not, until then.
    paused: bool,
    held_until: Duration,
    look_at: Duration,
}

impl Default for Queue {
    fn default() -> Queue {
        let (standing, busy, zero) = (BTreeMap::new(), BTreeMap::new(), Duration::ZERO);
        Queue { applies: true, standing, busy, paused: false, held_until: zero, look_at: zero }
    }
}

impl Queue {
    pub(super) fn expect(&mut self, faults: &[Fault]) {
        self.applies = faults.iter().all(|fault| !fault.kind.is_about_the_database());
    }

    /// `rows` are those after the batch.
    pub(super) fn committed(
        &mut self,
        ears: &Ears,
        (now, rows, plans): (Duration, &Rows, &Plans),
        (supply, batch, accepted): (&Supply, &Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        if !self.applies {
            return;
        }
        for (_, text) in batch.meta.iter().filter(|(key, _)| *key == "dispatch") {
            self.paused = text.contains("\"paused\":true");
            self.held_until = now;
        }
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            match row.state == "queued" && row.attempt.is_none() {
                true => drop(self.standing.insert(place, now)),
                false => drop(self.standing.remove(&place)),
            }
            self.busy.extend(row.worker.map(|worker| (worker, now)));
        }
        self.busy.extend(accepted.attempts().map(|row| (row.worker, now)));
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let in_hand = rows.attempts.values().filter(|attempt| !attempt.is_over() || attempt.in_doubt);
        self.busy.extend(in_hand.map(|attempt| (attempt.worker, now)));
        let quiet = ears.unbroken() > IDLE_MAX && !ears.has_leapt_since(ears.listened().saturating_sub(IDLE_MAX));
        if self.paused || self.held_until + IDLE_MAX > now || !quiet {
            return;
        }
        for (place, since) in self.standing.iter().filter(|(_, since)| **since + IDLE_MAX < now) {
            let stands = rows.step(*place).is_some_and(|step| step.state == "queued");
            let Some(plan) = plans.step(rows, *place).filter(|_| stands) else { continue };
            let is_idle = |worker: &WorkerId| {
                let voice = ears.worker(*worker);
                let here = voice.hello + IDLE_MAX < now && voice.seen + HEARD > now;
                here && self.busy.get(worker).is_none_or(|at| *at + IDLE_MAX < now)
            };
            if let Some(worker) = supply.who_fits(now, IDLE_MAX, plan).find(is_idle) {
                let (ix, job, waits) = (place.step.0, place.job, now - *since);
                found.add(CHECKER, format!("step {ix} of {job} has waited for {waits:?}, and worker {worker} is idle"));
                return;
            }
        }
    }
}
