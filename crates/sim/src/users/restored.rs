//! What people do after the database was put back to an earlier state: an operator says so, and then somebody finds out what became of
//! each step that is held for it. Whoever does looks first, and wants nothing to run that does.

use std::time::Duration;

use engine::{AttemptId, Time};
use server::ledger::{How, say_restored};

use super::again::{end_of, failed, succeeded};
use super::{REJECTED, UserEvent};
use crate::check::Place;
use crate::setup::Backing;
use crate::workload::{PEOPLE, SUBMITTER};
use crate::world::{Event, World};

/// Somebody looks in so often, and takes up so many of the steps that are there.
const LOOK_EVERY: Duration = Duration::from_secs(15);
const TAKEN_UP: f64 = 0.2;

/// How often the step has not to be run, but is what they say that it is.
const SETTLED: f64 = 0.15;

/// Whose worker may know better is waited for, and seldom not.
const WORKERS_TIME: Duration = Duration::from_secs(240);
const IMPATIENT: f64 = 0.03;

/// The key of the database's settings with an operator's last word.
const WORD_KEY: &str = "restored";

impl World {
    /// False where it must not be said: servers have a file of their own in use, or none has ever run.
    pub(crate) fn say_restored(&mut self) -> bool {
        let up = self.servers.iter().any(|node| node.process.is_some());
        if up && self.setup.backing == Backing::Sqlite {
            return false;
        }
        let clock = self.clock_of(0);
        let said = say_restored(&mut **self.database.store(), clock).expect("the database is there");
        let Some(said) = said else { return false };
        self.tell(|| format!("ann says that the database was restored; {} jobs are open", said.open_jobs));
        self.check(|checks| checks.restored(said.at, up));
        if !std::mem::replace(&mut self.users.minds_doubts, true) {
            self.agenda.after(LOOK_EVERY, Event::User(UserEvent::MindDoubts));
        }
        true
    }

    pub(crate) fn last_word_of_a_restore(&self) -> Option<Time> {
        let text = self.database.reader().meta(WORD_KEY).ok().flatten()?;
        text.parse().ok().map(Time)
    }

    /// In peace everything is taken up.
    pub(super) fn mind_doubts(&mut self) {
        self.agenda.after(LOOK_EVERY, Event::User(UserEvent::MindDoubts));
        let up: Vec<usize> = (0..self.servers.len()).filter(|at| self.servers[*at].process.is_some()).collect();
        let held = self.checks.lock().expect("no checker panics").held_in_doubt();
        for (place, attempt) in held {
            let Some(server) = self.users.doubts.pick(&up).copied() else { return };
            let stays = self.checks.lock().expect("no checker panics").stays_for(place);
            let chance = match attempt {
                Some(_) if self.at_peace && stays < WORKERS_TIME => 0.0,
                Some(_) if !self.at_peace => IMPATIENT,
                None if !self.at_peace => TAKEN_UP,
                Some(_) | None => 1.0,
            };
            let takes_up = self.users.doubts.chance(chance);
            let at_rest = self.checks.lock().expect("no checker panics").is_at_rest(place.job, place.step);
            if takes_up && at_rest {
                self.settle_doubt(server, place, attempt);
            }
        }
    }

    fn settle_doubt(&mut self, server: usize, Place { job, step }: Place, attempt: Option<AttemptId>) {
        let gated = self.checks.lock().expect("no checker panics").has_gate(job, step);
        // Who submitted it may be one who must not say yes.
        let one = if gated { self.users.doubts.pick(&PEOPLE[1..]).copied() } else { None }.unwrap_or(SUBMITTER);
        let is_its = self.checks.lock().expect("no checker panics").is_submitted_by(job, one);
        let one = if is_its { SUBMITTER } else { one };
        if self.users.doubts.chance(REJECTED) {
            return self.reject(server, job, step, one);
        }
        if self.users.doubts.chance(SETTLED) {
            let well = self.users.doubts.chance(0.5);
            let how = if well { succeeded() } else { failed() };
            self.check(|checks| checks.resolve_asked(job, step, end_of(&how)));
            return self.resolve_as(server, (job, step), how, (true, one));
        }
        if attempt.is_some() {
            self.check(|checks| checks.resolve_asked(job, step, None));
            self.check(|checks| checks.approve_asked(job, step, one));
            return self.resolve_as(server, (job, step), How::Rerun, (true, one));
        }
        let all = if self.at_peace && gated { PEOPLE.to_vec() } else { vec![one] };
        all.into_iter().for_each(|by| self.approve(server, job, step, by));
    }
}
