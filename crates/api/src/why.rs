//! Why a job is where it is: the same truth that `bowline why` prints.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::state::StepState;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// One sentence about the whole job.
    pub summary: String,
    pub steps: Vec<WhyStep>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyStep {
    pub name: String,
    pub state: StepState,
    /// Who must move it; null once it is final.
    pub owner: Option<String>,
    pub last_sign_of_life: Option<Timestamp>,
    pub reason: String,
    /// What happens without any outside event, and when; null once it is final.
    pub next: Option<WhyNext>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyNext {
    pub at: Timestamp,
    pub action: String,
}
