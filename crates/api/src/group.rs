//! Concurrency groups: who has their slots, and who waits for them.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::JobState;
use crate::time::Timestamp;

/// A group with jobs in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    pub name: String,
    /// How many run at once, by the tasks of the jobs that are listed here; several where those say different things.
    pub limits: Vec<u32>,
    /// How many have a slot.
    pub held: u32,
    /// Who has a slot: the first hundred.
    pub holders: Vec<GroupHolder>,
    /// How many wait; 10,000 stands for more.
    pub waiting: u32,
    /// Who waits, in the order of their turns: the first hundred.
    pub line: Vec<GroupWaiter>,
}

/// A job that has a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupHolder {
    #[schema(value_type = String, format = "uuid")]
    pub job: Uuid,
    pub task: String,
    pub state: JobState,
    /// When it got the slot.
    pub since: Option<Timestamp>,
    /// The job is over, and this is what may still run of it.
    pub unproven: Option<GroupDoubt>,
}

/// An attempt that was given up, and of which nobody knows whether it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupDoubt {
    pub step: String,
    /// The attempt's number.
    pub attempt: u32,
    /// The worker's name.
    pub worker: String,
    pub given_up_at: Option<Timestamp>,
    /// The slot is free then, whatever is known by that time.
    pub until: Timestamp,
}

/// A job that waits for a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupWaiter {
    #[schema(value_type = String, format = "uuid")]
    pub job: Uuid,
    pub task: String,
    pub priority: i32,
    /// How many may run at once by its own task.
    pub limit: u32,
    /// When it was submitted.
    pub since: Timestamp,
}

/// What of the list is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct GroupsQuery {
    /// `next` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
}
