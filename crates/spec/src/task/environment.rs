//! Protected environments: what must be granted before a step that names one runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::definition::Protection;

use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::nearest::did_you_mean;
use crate::lower::{Fields, values};
use crate::yaml::brief;

/// The rules of one environment, as the server's configuration has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Environment {
    /// How many different people must say yes.
    pub reviewers: u32,
    /// A timer before that.
    pub wait: Duration,
    /// How long they have.
    pub hold_expires: Duration,
    /// Whether who submitted the job may be one of them.
    pub allow_submitter: bool,
}

impl Environment {
    fn protection(&self, name: &str) -> Protection {
        Protection {
            environment: Some(Arc::from(name)),
            message: None,
            wait: Some(self.wait).filter(|wait| !wait.is_zero()),
            reviewers: self.reviewers,
            four_eyes: !self.allow_submitter,
            hold_expires: Some(self.hold_expires),
        }
    }
}

/// The step's `environment`. Where nobody knows which there are, as in `bowline check`, every name is good, and
/// nothing is known of it but its name.
pub(super) fn read(
    fields: &mut Fields<'_>,
    known: Option<&BTreeMap<String, Environment>>,
    sink: &mut Sink,
) -> Option<Protection> {
    let node = fields.get("environment")?;
    let name = values::filled_text("environment", node, sink)?;
    if let Some(finding) = values::no_template("environment", node) {
        sink.add(finding);
        return None;
    }
    let Some(environments) = known else {
        return Some(Protection { environment: Some(Arc::from(name)), ..Protection::default() });
    };
    match environments.get(name) {
        Some(environment) => Some(environment.protection(name)),
        None => {
            let hint = did_you_mean(name, environments.keys().map(String::as_str))
                .unwrap_or_else(|| "environments stand in the server's configuration, under `environments`".to_owned());
            let message = format!("there is no environment `{}` here", brief(name));
            sink.add(Finding::error(Code::UnknownReference, node.span, message).hint(hint));
            None
        }
    }
}
