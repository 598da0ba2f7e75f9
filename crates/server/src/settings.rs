//! What a server and a submit add to a task's text: part of what the job was submitted with, and stored beside it.

use std::sync::Arc;
use std::time::Duration;

use engine::definition::{Definition, DefinitionParts};
use serde::{Deserialize, Serialize};

/// Stored with the definition, so that a changed default never changes a job that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_ms: Option<u64>,
    /// Instead of the task's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Wanted of every worker, besides what each step wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl DefinitionSettings {
    pub fn new(step_timeout: Option<Duration>, job_timeout: Option<Duration>, expires: Option<Duration>) -> Self {
        let millis = |d: Option<Duration>| d.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        DefinitionSettings {
            step_timeout_ms: millis(step_timeout),
            job_timeout_ms: millis(job_timeout),
            expires_ms: millis(expires),
            ..DefinitionSettings::default()
        }
    }

    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| format!("its stored settings cannot be read: {e}"))
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and words always have a JSON form")
    }

    /// The part that `spec` fills in where a task says nothing.
    pub fn options(&self) -> spec::task::Options {
        spec::task::Options {
            step_timeout: self.step_timeout_ms.map(Duration::from_millis),
            job_timeout: self.job_timeout_ms.map(Duration::from_millis),
            expires: self.expires_ms.map(Duration::from_millis),
        }
    }

    /// The part that a submit puts over what the task says.
    pub fn finish(&self, definition: Arc<Definition>) -> Arc<Definition> {
        if self.priority.is_none() && self.tags.is_empty() {
            return definition;
        }
        let mut steps = definition.steps().to_vec();
        for step in &mut steps {
            step.tags.extend(self.tags.iter().map(|tag| Arc::from(tag.as_str())));
            step.tags.sort();
            step.tags.dedup();
        }
        let parts = DefinitionParts {
            name: definition.name.clone(),
            timeout: definition.timeout,
            expires: definition.expires,
            priority: self.priority.unwrap_or(definition.priority),
            steps,
        };
        Arc::new(Definition::new(parts).expect("the graph is the one that was checked"))
    }
}
