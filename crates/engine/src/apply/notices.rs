//! What is worth a notice: decided when the row's own check time comes, while it is still under way, and once. It changes
//! nothing about the run.

use crate::deadline;
use crate::event::About;
use crate::ids::StepIx;
use crate::notice::{CARRIED_MAX, Notice, NoticeKind};
use crate::why::words::span;

use super::draft::Draft;

impl Draft<'_> {
    /// The job's check time has come: does it take longer than expected?
    pub(super) fn notice_job(&mut self) {
        let now = self.ctx.now;
        if deadline::job_expects(&self.header).is_none_or(|at| at > now) {
            return;
        }
        self.header.expect_at = None;
        self.header.late_at = Some(now);
        let expected = self.job.definition.expect.map(span).unwrap_or_default();
        self.give_notice(NoticeKind::JobLate, None, format!("takes longer than expected: {expected}"));
    }

    /// The same for a step: an attempt that takes too long, or a wait in the queue.
    pub(super) fn notice_step(&mut self, ix: StepIx) {
        let (now, rules, clocks) = (self.ctx.now, self.ctx.rules, self.ctx.clocks());
        let (def, step) = (self.def(ix), self.step(ix));
        if deadline::step_expects(step, def).is_some_and(|at| at <= now) {
            self.step_mut(ix).late_at = Some(now);
            let expected = def.expect.map(span).unwrap_or_default();
            return self.notice_late(ix, &expected);
        }
        if deadline::is_queue_old(step, rules, &clocks) {
            self.step_mut(ix).queue_old_at = Some(now);
            self.notice_queue(ix, &rules.queue_notice.map(span).unwrap_or_default());
        }
    }

    /// A step takes too long. Items of a fan-out are one trouble: the first of them is told of, as their step's.
    fn notice_late(&mut self, ix: StepIx, expected: &str) {
        let Some(of) = self.step(ix).item.as_ref().map(|item| item.of) else {
            let text = format!("takes longer than expected: {expected}");
            return self.give_notice(NoticeKind::StepLate, Some(ix), text);
        };
        if self.step(of).late_at.is_none() {
            self.step_mut(of).late_at = Some(self.ctx.now);
            let text = format!("has items that take longer than expected: {expected}: {}", self.name(ix));
            self.give_notice(NoticeKind::StepLate, Some(of), text);
        }
    }

    /// A step has waited for too long. Items of a fan-out wait for the same: the first of them is told of, as their step's.
    fn notice_queue(&mut self, ix: StepIx, limit: &str) {
        let Some(of) = self.step(ix).item.as_ref().map(|item| item.of) else {
            let text = format!("has waited for a worker for longer than {limit}");
            return self.give_notice(NoticeKind::QueueOld, Some(ix), text);
        };
        if self.step(of).queue_old_at.is_none() {
            self.step_mut(of).queue_old_at = Some(self.ctx.now);
            let text = format!("has items that have waited for a worker for longer than {limit}: {}", self.name(ix));
            self.give_notice(NoticeKind::QueueOld, Some(of), text);
        }
    }

    fn give_notice(&mut self, kind: NoticeKind, step: Option<StepIx>, text: String) {
        self.header.notices = self.header.notices.saturating_add(1);
        let kept_quiet = self.header.notices > CARRIED_MAX;
        let more = if kept_quiet { "; it is carried no further: the job has had too many" } else { "" };
        self.note(About::Notice { step }, &format!("{text}{more}"));
        let step = step.map(|ix| (ix, self.name(ix).into_owned()));
        let notice = Notice { kind, at: self.ctx.now, step, text, kept_quiet };
        if !kept_quiet {
            self.carry(&notice);
        }
        self.notices.push(notice);
    }
}
