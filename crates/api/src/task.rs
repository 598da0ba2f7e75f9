//! Tasks that the server knows, and what is wrong with their texts.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::time::Timestamp;
use crate::trigger::Trigger;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskSummary {
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    /// The file in the task folder; null for one that came over the API.
    #[serde(default)]
    pub file: Option<String>,
    #[serde(default)]
    pub updated_at: Option<Timestamp>,
    /// How many steps the last good version has.
    #[serde(default)]
    pub steps: u32,
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    /// Can be run. False while no version of it was ever good.
    pub usable: bool,
    /// What is wrong with the newest version; the last good one stays in use.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub file: Option<String>,
    #[serde(default)]
    pub updated_at: Option<Timestamp>,
    pub usable: bool,
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
    /// The text of the last good version.
    #[serde(default)]
    pub spec: String,
    /// The inputs that it declares, by name, as the file has them.
    #[serde(default)]
    pub input: Value,
    /// The names of its steps, in the file's order.
    #[serde(default)]
    pub steps: Vec<String>,
    #[serde(default)]
    pub triggers: Vec<Trigger>,
}

/// Gives the server a task's text. It must be good, and its `name` the one in the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutTaskRequest {
    pub spec: String,
    /// What diagnostics call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// One problem in a text, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic {
    pub file: String,
    /// From 1; 0 for what stands in no text, as an input.
    pub line: u32,
    /// From 1, in characters; 0 like the line.
    pub column: u32,
    pub severity: Severity,
    pub code: String,
    pub message: String,
    #[serde(default)]
    pub hint: Option<String>,
    /// For people: with the line itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}
