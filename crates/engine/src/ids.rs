//! Names of things, each with a type of its own, so that none is taken for another.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use uuid::Uuid;

use crate::notice::NoticeKind;
use crate::time::Time;

/// More hooks than a task and a server have together.
pub const HOOKS_MAX: u32 = 1_024;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl $name {
            /// No id that was made at this time, or later, is below it: ids begin with the time of their making, in milliseconds.
            pub fn lowest_at(time: Time) -> $name {
                let millis = u64::try_from(time.millis()).unwrap_or(0);
                $name(Uuid::from_u128(u128::from(millis) << 80))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(s).map($name)
            }
        }
    };
}

uuid_id!(
    /// One execution of a task.
    JobId
);
uuid_id!(
    /// One granted hand-over of a step to one worker.
    AttemptId
);
uuid_id!(
    /// A worker, by its credential. Name and host are only labels.
    WorkerId
);

impl JobId {
    /// The id of the job that this one begins for a step: the same one whenever, and by whomever, it is decided.
    ///
    /// It shares its first half with this one, so that a family stands together wherever ids are sorted, and whose it
    /// is can be told from the id alone.
    pub fn child(self, step: StepIx, attempt: u32) -> JobId {
        let (first, second) = self.0.as_u64_pair();
        let place = (u64::from(step.0) << 32) + u64::from(attempt);
        // The variant bits of a UUID stay what they are.
        let mixed = (mix(mix(second) ^ place) >> 2) + (1 << 63);
        JobId(Uuid::from_u64_pair(first, mixed))
    }

    /// The id of the job that follows on this one's end, and of the word that is sent then: the same one whenever it is decided.
    pub fn hook(self, number: usize) -> JobId {
        // No job has so many steps.
        self.child(StepIx(u32::MAX), u32::try_from(number).expect("a task has few hooks"))
    }

    /// The same for what a notice brings. What it is about, and which hook: each has one id, whenever it is decided.
    pub fn notice(self, kind: NoticeKind, step: Option<StepIx>, hook: usize) -> JobId {
        let about = step.map_or(0, |step| step.0 + 1);
        let hook = u32::try_from(hook).ok().filter(|hook| *hook < HOOKS_MAX).expect("a task has few hooks");
        // Below the place of hooks on the end: no job has so many steps.
        self.child(StepIx(u32::MAX - 1 - kind as u32), about * HOOKS_MAX + hook)
    }

    /// Whether both may belong to one family of jobs that began each other.
    pub fn may_be_kin(self, other: JobId) -> bool {
        self.kin().contains(&other)
    }

    /// All that may belong to its family stand between these two.
    pub fn kin(self) -> RangeInclusive<JobId> {
        let (first, _) = self.0.as_u64_pair();
        JobId(Uuid::from_u64_pair(first, 0))..=JobId(Uuid::from_u64_pair(first, u64::MAX))
    }

    /// Whether it, or the outermost job of its family, was made before this time.
    pub fn is_from_before(self, time: Time) -> bool {
        self < JobId::lowest_at(time)
    }
}

/// The last step of SplitMix64: every bit of the result depends on every bit that goes in, and nothing is lost.
fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A number from one counter per installation that only grows; every attempt has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub u64);

/// A number that a worker's row gets anew with every committed hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Epoch(pub u64);

/// A step's place in its job: those of the definition in their order, then the items of fan-outs as they came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepIx(pub u32);

impl StepIx {
    pub fn of(index: usize) -> StepIx {
        StepIx(u32::try_from(index).expect("a job has at most STEPS_MAX steps"))
    }

    pub fn get(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::definition::STEPS_MAX;

    const JOB: JobId = JobId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001));

    /// Two things under one id would be one thing: the second would never be begun or told.
    #[test]
    fn whatever_a_job_brings_about_has_an_id_of_its_own() {
        let kinds = [NoticeKind::JobLate, NoticeKind::StepLate, NoticeKind::QueueOld, NoticeKind::ScheduleMissed];
        let places = [0, 1, 2, STEPS_MAX - 1].map(StepIx::of);
        let numbers = [0, 1, 2, HOOKS_MAX - 1];
        let mut ids = vec![JOB];
        for number in numbers {
            ids.push(JOB.hook(number as usize));
            ids.extend(places.map(|step| JOB.child(step, number)));
            for kind in kinds {
                ids.push(JOB.notice(kind, None, number as usize));
                ids.extend(places.map(|step| JOB.notice(kind, Some(step), number as usize)));
            }
        }
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert!(ids.iter().all(|id| JOB.may_be_kin(*id)));
    }

    /// It would have the id of another step's notice.
    #[test]
    #[should_panic(expected = "a task has few hooks")]
    fn a_hook_too_many_has_no_id() {
        JOB.notice(NoticeKind::JobLate, None, HOOKS_MAX as usize);
    }

    #[test]
    fn a_family_is_as_old_as_its_first_job() {
        let made = Time(1_700_000_000_000_000);
        let first = JobId::lowest_at(made);
        for job in [first, first.child(StepIx(3), 1), first.hook(0)] {
            assert!(!job.is_from_before(made), "{job}");
            assert!(job.is_from_before(made + Duration::from_millis(1)), "{job}");
        }
    }
}
