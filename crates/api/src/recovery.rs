//! Manual recovery: what has been silent for long, and giving it up by hand.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::StepState;
use crate::time::Timestamp;

/// An attempt, running or only offered, that nothing was heard of for long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stale {
    #[schema(value_type = String, format = "uuid")]
    pub job: Uuid,
    pub step: String,
    /// `queued` where the attempt is only offered.
    pub state: StepState,
    #[schema(value_type = String, format = "uuid")]
    pub attempt: Uuid,
    /// The worker's name.
    pub worker: String,
    #[schema(value_type = String, format = "uuid")]
    pub worker_id: Uuid,
    pub hostname: Option<String>,
    /// The last sign of life: the runner's, else the worker's, else the step's own last change.
    pub last_sign: Timestamp,
    pub silent_ms: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StaleQuery {
    /// Silent for longer than this duration; 5m unless said.
    #[serde(default)]
    pub older_than: Option<String>,
}

/// The body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecoverRequest {
    /// Silent for longer than this duration; 120s for `requeue` and 300s for `fail` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<String>,
}
