//! Telling listeners what a commit brought.

use std::collections::BTreeSet;

use engine::JobId;
use store::read::EventView;
use store::{Batch, Committed, Store};

use crate::bus::{Elsewhere, LogNews, News};

use super::core::Core;

impl<S: Store> Core<S> {
    pub(super) fn publish(&self, batch: &Batch, committed: &Committed) {
        let logs = log_news(batch);
        if !self.bus.has_listeners() || (batch.events.is_empty() && logs.is_empty()) {
            return;
        }
        if !self.siblings.alone() {
            return self.publish_elsewhere(batch.events.iter().map(|event| event.job).collect(), logs);
        }
        let events = batch.events.iter().zip(&committed.event_ids).filter_map(|(row, id)| {
            let step = row.ix.and_then(|ix| {
                let cached = self.cache.get(row.job)?;
                Some(cached.job.name(ix).into_owned())
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
        self.bus.publish(News { events: events.collect(), logs, elsewhere: None });
    }

    /// There may be more of these jobs than what this server wrote itself.
    pub(super) fn publish_elsewhere(&self, jobs: BTreeSet<JobId>, logs: Vec<LogNews>) {
        if self.bus.has_listeners() {
            self.bus.publish(News { events: Vec::new(), logs, elsewhere: Some(Elsewhere { jobs }) });
        }
    }
}

fn log_news(batch: &Batch) -> Vec<LogNews> {
    let news = |attempt, last_seq, marked, complete| LogNews { attempt, last_seq, marked, complete };
    let grown = batch.logs.iter().map(|log| news(log.attempt, log.last_seq, false, log.complete));
    let marked = batch.marks.iter().map(|mark| news(mark.attempt, mark.after_seq, true, false));
    let closed = batch.log_closes.iter().map(|close| news(close.attempt, close.after_seq, false, true));
    grown.chain(marked).chain(closed).collect()
}
