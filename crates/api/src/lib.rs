//! What travels over HTTP between the server and those who talk to it: requests, answers, events, error codes.
//!
//! The server makes these from the engine's types, the client reads them; `openapi` describes all of it for others.
//! Readers ignore fields that they do not know, so either side may be the older one.

pub mod artifact;
pub mod error;
pub mod event;
pub mod group;
pub mod health;
pub mod job;
mod late;
pub mod log;
pub mod outbox;
mod page;
pub mod query;
pub mod recovery;
pub mod retention;
pub mod secret;
pub mod state;
pub mod task;
pub mod time;
pub mod token;
pub mod trigger;
pub mod why;
pub mod worker;

mod openapi;
mod routes;

pub use artifact::{Artifact, ArtifactsQuery};
pub use error::{ErrorAnswer, ErrorBody, ErrorCode};
pub use event::{Event, EventKind};
pub use group::{Group, GroupDoubt, GroupHolder, GroupWaiter, GroupsQuery};
pub use health::{Health, Readiness, Sweep};
pub use job::{
    Approval, ApproveRequest, Attempt, CancelRequest, Deadline, Hold, HoldReason, Job, JobError, JobSummary,
    RejectRequest, ResolveHow, ResolveRequest, RetryRequest, Step, StepError, SubmitRequest, Usage, WaitReason,
    Waiting,
};
pub use late::late_outcome_in_words;
pub use log::{LogLine, LogPage, Stream};
pub use openapi::openapi;
pub use outbox::{Delivery, DeliveryState};
pub use page::Page;
pub use query::{EventsQuery, JobQuery, JobsQuery, LogsQuery, Wait};
pub use recovery::{RecoverRequest, Stale, StaleQuery};
pub use retention::{PruneKept, PruneRequest, PruneTally, Pruned, Retention};
pub use secret::{Secret, SecretPlace, SetSecretRequest};
pub use state::{AttemptState, JobState, StepState};
pub use task::{Diagnostic, PutTaskRequest, Severity, Task, TaskSummary};
pub use time::Timestamp;
pub use token::{CreateTokenRequest, CreatedToken, Role, Token, TokenKind};
pub use trigger::{HookAnswer, Trigger, TriggerKind};
pub use why::{Why, WhyNext, WhyStep};
pub use worker::{Dispatch, DrainRequest, Removal, Worker, WorkerKind, WorkerStatus};
