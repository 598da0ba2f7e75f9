//! Files that steps left.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One file that the last attempt of a step left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    pub step: String,
    /// The number of that attempt; 0 where the step was taken over from a job before.
    pub attempt: u32,
    /// Relative to the folder that the step started in.
    pub path: String,
    /// In bytes.
    pub size: u64,
    /// Of its content, as hexadecimal digits.
    pub sha256: String,
    pub executable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ArtifactsQuery {
    /// Only of this step; of a step with `for_each`, of all that it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Files of one page; 1000 unless said, 10000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
