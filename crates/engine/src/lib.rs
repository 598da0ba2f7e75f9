//! The pure core: what a job is, and the one function that changes it.
//!
//! No I/O, no clock, no threads, no randomness of its own: time, chance and evaluated text come in as arguments,
//! changes and effects go out as data. [`apply`] is called by the ledger and by nobody else.
//!
//! ```text
//!  Definition + Job + Event + Ctx ──apply──► Changes { steps, attempts, header, notes, effects } | Rejection
//! ```

pub mod definition;
pub mod failure;
pub mod graph;
pub mod ids;
pub mod retry;
pub mod time;

pub mod attempt;
pub mod deadline;
pub mod eval;
pub mod job;
pub mod notice;
pub mod state;
pub mod table;
pub mod workers;

mod apply;
pub mod event;
pub mod verdict;
pub mod why;

pub use apply::{
    Continuation, Ctx, GROUP_NAME_MAX, LastAttempt, Origin, Resolution, Resolve, STOP_MARGIN, apply, bear, carry_on,
    group_of, is_occasion, no_job_follows, submit, submit_in_doubt,
};
pub use event::{Changes, Effect, Event, Note, Rejection};
pub use failure::{Failure, FailureKind};
pub use ids::{AttemptId, Epoch, Fence, JobId, StepIx, WorkerId};
pub use job::{Job, JobState, Step};
pub use notice::{Notice, NoticeKind};
pub use state::{State, StateName};
pub use time::{Clocks, Heard, Time};
pub use verdict::{Verdict, verdict};
