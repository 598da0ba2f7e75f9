//! Secrets of the installation. Their values go in, and never come out.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSecretRequest {
    /// Text of 4 bytes to 32 KiB. Blanks and line ends at its end are not part of it.
    pub value: String,
}

impl fmt::Debug for SetSecretRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetSecretRequest(***)")
    }
}

/// A secret that the server has, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    pub name: String,
    /// From where it is taken: `environment`, `file` or `store`. The first of these that has it counts.
    pub source: SecretPlace,
    /// When it was set; only of those in the store.
    #[serde(default)]
    pub set_at: Option<Timestamp>,
    #[serde(default)]
    pub set_by: Option<String>,
    /// Why it cannot be used as it is, if so; of those in files and in the environment.
    #[serde(default)]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretPlace {
    /// `BOWLINE_SECRET_NAME` of the server that answers.
    Environment,
    /// `secrets/NAME` in its data folder.
    File,
    /// The database, sealed.
    Store,
}

impl SecretPlace {
    pub fn word(self) -> &'static str {
        match self {
            SecretPlace::Environment => "environment",
            SecretPlace::File => "file",
            SecretPlace::Store => "store",
        }
    }
}
