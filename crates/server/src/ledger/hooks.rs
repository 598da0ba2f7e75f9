//! What follows on a job's end is written with it: jobs of their own, and words that somebody outside is to hear.

use engine::event::HookOrder;
use engine::{Changes, JobId};
use planted::Bug;
use serde_json::{Value, json};
use store::Store;
use store::rows::OutboxRow;

use super::core::Core;
use super::outbox::Letter;
use super::round::Round;

impl<S: Store> Core<S> {
    pub(super) fn order_hooks(&mut self, job: JobId, changes: &Changes, round: &mut Round) {
        for order in &changes.hooks {
            match order {
                _ if planted::is(Bug::HooksForgotten) => {}
                HookOrder::Begin(birth) => self.bear(job, birth, round),
                HookOrder::Tell { id, on, webhook } => {
                    let Some(text) = self.obituary(job, on.word()) else { continue };
                    let (url, secret) = (webhook.url.clone(), webhook.secret.clone());
                    let body = Letter { url, secret, on: on.word().to_owned(), text }.to_json();
                    let created_at = round.now;
                    round.outbox.push(OutboxRow { id: id.0, job, kind: "webhook", body, created_at });
                }
            }
        }
    }

    /// What those outside are told: the same bytes with every try.
    fn obituary(&self, id: JobId, on: &str) -> Option<String> {
        let job = &self.cache.get(id)?.job;
        let time = |at: engine::Time| api::Timestamp::from_micros(at.0).to_string();
        let error = job.header.error.as_ref().map_or(Value::Null, |error| {
            let step = error.step.map(|ix| job.name(ix).into_owned());
            json!({ "code": error.failure.kind.code(), "message": error.failure.message, "step": step })
        });
        let told = json!({
            "event": on,
            "job": {
                "id": id.to_string(),
                "task": &*job.definition.name,
                "state": job.header.state.word(),
                "error": error,
                "submitted_by": &*job.submitted_by,
                "created_at": time(job.created_at),
                "started_at": job.header.started_at.map(time),
                "ended_at": job.header.ended_at.map(time),
            },
        });
        Some(told.to_string())
    }
}
