//! What people should know of although nothing has failed: something takes longer than expected, waits too long, or did not
//! happen.

use crate::ids::StepIx;
use crate::job::Job;
use crate::time::Time;
use crate::why::words::span;

/// Notices of one job that are carried further; those after that are only told in its history. A fan-out of thousands that
/// is late as a whole is one trouble, not thousands.
pub const CARRIED_MAX: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoticeKind {
    /// A job takes longer than its task's `expect`.
    JobLate,
    /// An attempt of a step takes longer than its `expect`.
    StepLate,
    /// A step waits for a worker for longer than the installation wants.
    QueueOld,
    /// Times of a trigger passed without a job.
    ScheduleMissed,
}

impl NoticeKind {
    pub fn word(self) -> &'static str {
        match self {
            NoticeKind::JobLate => "job_late",
            NoticeKind::StepLate => "step_late",
            NoticeKind::QueueOld => "queue_old",
            NoticeKind::ScheduleMissed => "schedule_missed",
        }
    }
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    pub at: Time,
    /// The name of the step that it is about, if it is about one, and its place.
    pub step: Option<(StepIx, String)>,
    /// In words, for people.
    pub text: String,
    /// The job has had so many that this one is carried no further.
    pub kept_quiet: bool,
}

impl Notice {
    pub fn step_name(&self) -> Option<&str> {
        self.step.as_ref().map(|(_, name)| name.as_str())
    }
}

impl Job {
    /// What was noticed of it and of its steps, the first one first.
    pub fn notices(&self) -> Vec<Notice> {
        let expect_span = |expect: Option<std::time::Duration>| expect.map(span).unwrap_or_default();
        let expected = |expect| format!("takes longer than expected: {}", expect_span(expect));
        let of_job = self.header.late_at.map(|at| {
            let text = expected(self.definition.expect);
            Notice { kind: NoticeKind::JobLate, at, step: None, text, kept_quiet: false }
        });
        let mut all: Vec<Notice> = of_job.into_iter().collect();
        for (index, step) in self.steps.iter().enumerate() {
            let ix = StepIx::of(index);
            let given = |kind, at, text| {
                let step = Some((ix, self.name(ix).into_owned()));
                Notice { kind, at, step, text, kept_quiet: false }
            };
            // Its step stands for all items, unless the mark is older than that rule.
            let of = step.item.as_ref().map(|item| self.step(item.of));
            let of_many = self.def(ix).fan_out.is_some() && of.is_none();
            let late = match of_many {
                true => format!("has items that take longer than expected: {}", expect_span(self.def(ix).expect)),
                false => expected(self.def(ix).expect),
            };
            let told_late = step.late_at.filter(|_| of.is_none_or(|of| of.late_at.is_none()));
            all.extend(told_late.map(|at| given(NoticeKind::StepLate, at, late)));
            let limit = "for longer than the server's limit";
            let waited = match of_many {
                true => format!("has items that have waited for a worker {limit}"),
                false => format!("has waited for a worker {limit}"),
            };
            let told_old = step.queue_old_at.filter(|_| of.is_none_or(|of| of.queue_old_at.is_none()));
            all.extend(told_old.map(|at| given(NoticeKind::QueueOld, at, waited)));
        }
        all.sort_by_key(|notice| notice.at);
        all
    }
}
