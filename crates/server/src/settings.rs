//! What a server and a submit add to a task's text: part of what the job was submitted with, and stored beside it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::definition::{StepDef, Work};
use serde::{Deserialize, Serialize};
use spec::task::Environment;

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
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    environments: BTreeMap<String, StoredEnvironment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredEnvironment {
    reviewers: u32,
    wait_ms: u64,
    hold_expires_ms: u64,
    allow_submitter: bool,
}

impl DefinitionSettings {
    pub fn new(step_timeout: Option<Duration>, job_timeout: Option<Duration>, expires: Option<Duration>) -> Self {
        DefinitionSettings {
            step_timeout_ms: step_timeout.map(millis),
            job_timeout_ms: job_timeout.map(millis),
            expires_ms: expires.map(millis),
            ..DefinitionSettings::default()
        }
    }

    /// With the rules of these environments.
    #[must_use]
    pub fn with_environments(mut self, environments: &BTreeMap<String, Environment>) -> Self {
        let stored = |rules: &Environment| StoredEnvironment {
            reviewers: rules.reviewers,
            wait_ms: millis(rules.wait),
            hold_expires_ms: millis(rules.hold_expires),
            allow_submitter: rules.allow_submitter,
        };
        self.environments = environments.iter().map(|(name, rules)| (name.clone(), stored(rules))).collect();
        self
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
            environments: Some(self.environments.iter().map(|(name, stored)| (name.clone(), stored.rules())).collect()),
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

impl StoredEnvironment {
    fn rules(&self) -> Environment {
        Environment {
            reviewers: self.reviewers,
            wait: Duration::from_millis(self.wait_ms),
            hold_expires: Duration::from_millis(self.hold_expires_ms),
            allow_submitter: self.allow_submitter,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
