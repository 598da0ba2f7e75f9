//! What follows on a job's end, or on a notice, is written with it: jobs of their own, and words that somebody outside is to
//! hear.

use engine::event::HookOrder;
use engine::{Changes, JobId};
use planted::Bug;
use store::Store;

use super::core::Core;
use super::letters::Story;
use super::round::Round;

impl<S: Store> Core<S> {
    pub(super) fn order_hooks(&mut self, job: JobId, changes: &Changes, round: &mut Round) {
        for order in &changes.hooks {
            match order {
                _ if planted::is(Bug::HooksForgotten) => {}
                HookOrder::Begin(birth) => self.bear(job, birth, round),
                HookOrder::Tell { id, on, to, notice } => {
                    let Some(cached) = self.cache.get(job) else { continue };
                    Story::of_job(&cached.job, *on, notice.as_ref()).send(*id, job, to, round);
                }
            }
        }
        self.order_notices(job, changes, round);
    }
}
