//! Promise: every decision can be read. What `why` says of a job never contradicts its rows: the same states, for every step
//! that is not final an owner, a reason and a next time, and the times are those at which the rows are looked at.

use engine::Time;
use engine::why::Why;
use store::rows::StoredJob;

use super::Findings;

const CHECKER: &str = "why";

/// `why` as it was answered at `now` for a job whose rows are `stored`.
pub(crate) fn look(stored: &StoredJob, why: &Why, now: Time, found: &mut Findings) {
    let id = stored.job.id;
    if why.summary.trim().is_empty() {
        found.add(CHECKER, format!("there is no word on {id} ({})", stored.job.state));
    }
    if why.steps.len() != stored.steps.len() {
        found.add(CHECKER, format!("it speaks of {} steps of {id}, which has {}", why.steps.len(), stored.steps.len()));
    }
    for (row, told) in stored.steps.iter().zip(&why.steps) {
        let mut wrong =
            |what: String| found.add(CHECKER, format!("step {} of {id} is {}, and {what}", told.name, row.state));
        if told.state.word() != row.state {
            wrong(format!("it says {}", told.state));
        }
        if told.reason.trim().is_empty() || told.owner.trim().is_empty() {
            wrong("no owner or reason is given".to_owned());
        }
        match (row.check_at, &told.next) {
            (None, None) => {}
            // Deaf time since the row was written moves a time of silence on; it never comes sooner.
            (Some(at), Some(next)) if next.at >= at => {
                if next.at > at.max(now) + super::times::AHEAD_MAX {
                    wrong(format!("the next look is said to be at {}, and it is {now}", next.at));
                }
            }
            (at, next) => wrong(format!("its row is looked at at {at:?}, and it says {next:?}")),
        }
    }
}
