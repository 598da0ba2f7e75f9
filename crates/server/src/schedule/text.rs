//! What a trigger says, as it is stored with its row: whoever fires it goes by the same words.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spec::cron::Cron;

use super::plan::Times;

/// A trigger by time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub cron: String,
    pub timezone: String,
    pub missed: Missed,
    #[serde(default)]
    pub jitter_ms: u64,
    #[serde(default)]
    pub with: Map<String, Value>,
}

/// What happens to times that passed while no server was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Nothing.
    Skip,
    /// One run for all of them.
    Once,
}

/// A trigger by a call to `/hooks/{name}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Webhook {
    pub name: String,
    /// The name of what signs the calls.
    pub secret: String,
    #[serde(default)]
    pub with: Map<String, Value>,
}

impl Schedule {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data always has a JSON form")
    }

    pub fn from_json(text: &str) -> Result<Schedule, String> {
        serde_json::from_str(text).map_err(|error| format!("its stored schedule cannot be read: {error}"))
    }

    /// When the trigger of this id comes.
    pub fn times(&self, id: &str) -> Result<Times, String> {
        let cron = Cron::read(&self.cron, &self.timezone).map_err(|error| error.to_string())?;
        Ok(Times { id: id.to_owned(), cron, jitter: Duration::from_millis(self.jitter_ms), missed: self.missed })
    }
}

impl Webhook {
    pub fn from_json(text: &str) -> Result<Webhook, String> {
        serde_json::from_str(text).map_err(|error| format!("its stored webhook cannot be read: {error}"))
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data always has a JSON form")
    }
}
