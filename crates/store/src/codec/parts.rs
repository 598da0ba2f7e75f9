//! Pieces that both codecs share, with short field names: every row carries them.

use engine::deadline::{Action, Deadline, Owner};
use engine::failure::{Failure, FailureKind};
use engine::{Time, WorkerId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredDeadline {
    owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<Uuid>,
    at: i64,
    action: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredFailure {
    code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<i32>,
    message: String,
}

impl From<&Deadline> for StoredDeadline {
    fn from(d: &Deadline) -> Self {
        StoredDeadline {
            owner: d.owner.word().to_owned(),
            worker: d.owner.worker().map(|w| w.0),
            at: d.at.0,
            action: d.action.word().to_owned(),
        }
    }
}

impl StoredDeadline {
    pub(super) fn decode(self) -> Result<Deadline, String> {
        let owner = Owner::from_word(&self.owner, self.worker.map(WorkerId));
        Ok(Deadline {
            owner: owner.ok_or_else(|| format!("unknown owner `{}`", self.owner))?,
            at: Time(self.at),
            action: Action::from_word(&self.action).ok_or_else(|| format!("unknown action `{}`", self.action))?,
        })
    }
}

impl From<&Failure> for StoredFailure {
    fn from(f: &Failure) -> Self {
        StoredFailure { code: f.kind.code().to_owned(), detail: f.kind.detail(), message: f.message.clone() }
    }
}

impl StoredFailure {
    pub(super) fn decode(self) -> Result<Failure, String> {
        let kind = FailureKind::from_code(&self.code, self.detail);
        let kind = kind.ok_or_else(|| format!("unknown error code `{}`", self.code))?;
        Ok(Failure { kind, message: self.message })
    }
}
