//! Jobs that steps of other jobs began. What is decided on one because of the other is decided in the same round, and tied
//! to it: both are written, or neither is.

use engine::event::{Birth, ChildOrder};
use engine::state::{Delegate, State};
use engine::{Changes, Event, JobId, StepIx};
use planted::Bug;
use store::Store;
use store::codec::JobMeta;

use super::cache::{Cached, LoadError};
use super::command::EventError;
use super::core::Core;
use super::round::Round;

impl<S: Store> Core<S> {
    /// A child job is about to end, or to wait for a person: whoever waits for it must be there to hear of it, all the way up. Nothing has happened
    /// yet, so if the database is away, nothing does.
    pub(super) fn find_ancestors(&mut self, parent: JobId, round: &mut Round) -> Result<(), EventError> {
        let mut next = Some(parent);
        while let Some(job) = next {
            self.doubt(job, round);
            next = match self.cache.load(job, &mut self.store, &self.definitions) {
                Ok(cached) => cached.job.parent.map(|parent| parent.job),
                // It is not on record, so that nobody waits.
                Err(LoadError::NotFound) => None,
                Err(LoadError::Store(error)) => return Err(error.into()),
            };
        }
        Ok(())
    }

    /// What a change of this job means for those that it began.
    pub(super) fn order_children(&mut self, parent: JobId, changes: &Changes, round: &mut Round) {
        for order in &changes.children {
            match order {
                ChildOrder::Begin(birth) => self.bear(parent, birth, round),
                ChildOrder::CallOff { .. } if planted::is(Bug::ChildNotCalledOff) => {}
                ChildOrder::CallOff { child, by, force } => {
                    round.tie(parent, *child);
                    let cancel = Event::Cancel { by: by.clone(), force: *force };
                    match self.apply(*child, &cancel, round) {
                        Ok(()) | Err(EventError::Rejected(_) | EventError::NoSuchJob) => {}
                        // The step that waits for it is looked at again, and then says so once more.
                        Err(error) => tracing::warn!(job = %child, %error, "a child job could not be called off"),
                    }
                }
            }
        }
    }

    /// Makes a job because of another one.
    pub(super) fn bear(&mut self, by: JobId, birth: &Birth, round: &mut Round) {
        let meta = JobMeta { definition: birth.task.hash, input: birth.input.to_string().into() };
        self.definitions.remember(birth.task.hash, birth.task.definition.clone());
        self.bring_definition(birth.task.hash, by, round);
        round.tie(by, birth.id);
        // What a job that was told begins at its end may have been begun before, in the time that is lost.
        let told = self.cache.get(by).and_then(|cached| cached.job.header.restored_at);
        let (ctx, _) = self.ctx(round.clocks);
        let (job, changes) = engine::bear(birth, told.filter(|_| birth.parent.is_none()), &ctx);
        self.enter(Cached { job, meta }, &changes, round);
        // It may have run before, in a time that the database has lost.
        self.adopt_unborn(by, birth.id, round);
    }

    /// A definition that no job has may be deleted: whoever makes a job because of another brings it along.
    pub(super) fn bring_definition(&mut self, hash: [u8; 32], by: JobId, round: &mut Round) {
        if round.has_definition(&hash) {
            return;
        }
        let of = || {
            let own = self.cache.get(by).map(|cached| cached.meta.definition);
            let in_round = own.and_then(|own| round.definition(&own));
            in_round.or_else(|| self.store.load_job(by).ok().flatten().map(|stored| stored.definition))
        };
        match self.definitions.row(&hash, of) {
            Some(row) => round.add_definition(&row),
            // It is still there, as a rule.
            None => tracing::debug!(job = %by, "the definition of a job that is begun could not be brought along"),
        }
    }

    /// A job is over, or waits for a person, or does not any more: whoever began it hears of it in the same transaction. What it begins in its place may be over at once, and
    /// so on for as many as a list has: they are told one after the other, not one inside the other.
    pub(super) fn tell_parent(&mut self, child: JobId, round: &mut Round) {
        if planted::is(Bug::ChildEndNotTold) {
            return;
        }
        round.to_tell.push_back(child);
        if std::mem::replace(&mut round.is_telling, true) {
            return;
        }
        while let Some(child) = round.to_tell.pop_front() {
            self.tell_of(child, round);
        }
        round.is_telling = false;
    }

    fn tell_of(&mut self, child: JobId, round: &mut Round) {
        let Some((parent, word)) = self.cache.get(child).and_then(|cached| cached.job.word_for_parent()) else {
            return;
        };
        round.tie(parent, child);
        let mut told = self.apply(parent, &word, round);
        if matches!(told, Err(EventError::Rejected(_))) && round.first_doubt(parent) {
            // It may remember this child's end from a commit that is lost, which nothing that is refused is compared with.
            self.cache.drop_job(parent);
            told = self.apply(parent, &word, round);
        }
        match told {
            Ok(()) => {}
            Err(EventError::Rejected(_) | EventError::NoSuchJob) => {
                tracing::debug!(%parent, job = %child, "nobody waits for word of this job");
            }
            // The step that waits for it is looked at again, and finds it.
            Err(error) => tracing::warn!(%parent, job = %child, %error, "word of a child job could not be told"),
        }
    }

    /// What a step that waits for a job is asked when its check time has come: the word of its end may be lost.
    pub(super) fn child_event(&mut self, parent: JobId, step: StepIx, round: &mut Round) -> Option<Event> {
        let cached = self.cache.load(parent, &mut self.store, &self.definitions).ok()?;
        let State::Delegated(delegated) = cached.job.steps.get(step.get())?.state else { return None };
        let Delegate::Child(child) = delegated.to else { return None };
        let is_known = |held: bool| held == delegated.held || delegated.called_off.is_some();
        let is_news = |word: &Event| !matches!(word, Event::ChildHeld { held, .. } if is_known(*held));
        self.doubt(child, round);
        match self.cache.load(child, &mut self.store, &self.definitions) {
            Ok(cached) => {
                let word = cached.job.word_for_parent().filter(|(to, _)| *to == parent);
                word.map(|(_, word)| word).filter(is_news)
            }
            Err(LoadError::NotFound) => {
                tracing::error!(job = %parent, step = step.0, %child, "a child job is not on record; it is made again");
                Some(Event::ChildMissing { step, child })
            }
            Err(LoadError::Store(_)) => None,
        }
    }
}
