//! A job that waits for its concurrency group: who has the slots, and who comes before it.

use super::words::{ago, count, list, until};
use super::{HolderView, View};

/// So many holders are named; the rest are a number.
const NAMED_MAX: usize = 3;

impl View<'_> {
    /// `concurrency group `release``.
    pub(super) fn group(&self) -> String {
        format!("concurrency group `{}`", self.job.group.as_deref().unwrap_or_default())
    }

    pub(super) fn awaits_slot(&self) -> String {
        let limit = self.job.definition.concurrency.as_ref().map_or(1, |concurrency| concurrency.limit);
        let waits = format!("waits for {}, of which {} at once", self.group(), count_runs(limit));
        let Some(line) = self.roster.line() else { return waits };
        let mut named: Vec<String> = line.holders.iter().take(NAMED_MAX).map(|holder| self.holder(holder)).collect();
        if line.holders.len() > NAMED_MAX {
            named.push(format!("{} more", line.holders.len() - NAMED_MAX));
        }
        let held =
            if named.is_empty() { "nobody has a slot now".to_owned() } else { format!("held by {}", list(&named)) };
        let place = match line.before {
            0 => "it is the next in line".to_owned(),
            before => format!("{} in line before it", count_jobs(before)),
        };
        format!("{waits}: {held}; {place}")
    }

    fn holder(&self, holder: &HolderView) -> String {
        let Some(doubt) = &holder.doubt else { return format!("job {}", holder.job) };
        let given_up = doubt.given_up_at.map(|at| format!(" {}", ago(at, self.now))).unwrap_or_default();
        format!(
            "job {}, which is over, but attempt {} of its step `{}` on worker {} was given up{given_up} and may still run: \
             `--confirm-dead` says that it does not; free in any case {}",
            holder.job,
            doubt.number,
            doubt.step,
            doubt.worker,
            until(doubt.until, self.now)
        )
    }
}

fn count_runs(limit: u32) -> String {
    if limit == 1 { "1 job runs".to_owned() } else { format!("{limit} jobs run") }
}

fn count_jobs(number: u32) -> String {
    format!("{} {}", count(number, "job"), if number == 1 { "is" } else { "are" })
}
