//! Names of things, each with a type of its own, so that none is taken for another.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

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
