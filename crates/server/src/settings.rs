//! What a server and a submit add to a task's text: part of what the job was submitted with, and stored beside it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::definition::{StepDef, Work};
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
    /// The texts of the tasks that its steps begin, near and far, as they were when the job was submitted: by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, String>,
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

    /// Nothing is put over what a task says.
    pub fn overrides_nothing(&self) -> bool {
        self.priority.is_none() && self.tags.is_empty()
    }

    /// The part that a submit puts over what a step says.
    pub fn apply_to(&self, step: &mut StepDef) {
        // What no worker does asks nothing of workers.
        if self.tags.is_empty() || !matches!(step.work, Work::Run(_)) {
            return;
        }
        step.tags.extend(self.tags.iter().map(|tag| Arc::from(tag.as_str())));
        step.tags.sort();
        step.tags.dedup();
    }

    /// The same with only these tasks.
    #[must_use]
    pub fn with_tasks(&self, wanted: impl Fn(&str) -> bool) -> DefinitionSettings {
        let tasks = self.tasks.iter().filter(|(name, _)| wanted(name));
        DefinitionSettings { tasks: tasks.map(|(n, t)| (n.clone(), t.clone())).collect(), ..self.clone() }
    }
}
