//! Telling listeners what a commit brought.

use store::read::EventView;
use store::{Batch, Committed, Store};

use crate::bus::{LogNews, News};

use super::core::Core;

impl<S: Store> Core<S> {
    pub(super) fn publish(&self, batch: &Batch, committed: &Committed) {
        if !self.bus.has_listeners() || (batch.events.is_empty() && batch.logs.is_empty()) {
            return;
        }
        let events = batch.events.iter().zip(&committed.event_ids).filter_map(|(row, id)| {
            let step = row.ix.and_then(|ix| {
                let cached = self.cache.get(row.job)?;
                Some(cached.job.definition.step(ix).name.to_string())
            });
            Some(EventView {
                id: (*id)?,
                job: row.job,
                ix: row.ix,
                step,
                at: row.at,
                kind: row.kind.to_owned(),
                verb: row.verb.map(str::to_owned),
                from: row.from.map(str::to_owned),
                to: row.to.map(str::to_owned),
                worker: row.worker,
                reason: row.reason.clone(),
            })
        });
        let logs = batch.logs.iter().map(|log| LogNews {
            attempt: log.attempt,
            last_seq: log.last_seq,
            complete: log.complete,
        });
        self.bus.publish(News { events: events.collect(), logs: logs.collect() });
    }
}
