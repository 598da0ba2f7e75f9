//! What those outside are told: for a webhook JSON, for a mail a few lines that people read. Made once, when it is decided:
//! every try says the same.

use engine::definition::{Occasion, Outside};
use engine::{Job, Notice, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::rows::{OutboxRow, TriggerRow};

use super::round::Round;

/// What is said to whom, as the outbox keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// Where it goes; for a mail `mailto:` and the addresses.
    pub url: String,
    /// The name of the secret that signs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    pub on: String,
    /// The body, byte for byte.
    pub text: String,
    /// It is a mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Envelope>,
}

/// What a mail has besides its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub to: Vec<String>,
    pub subject: String,
    /// When it was decided, in microseconds since the epoch.
    pub at: i64,
}

impl Letter {
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts always have a JSON form")
    }

    pub fn from_json(text: &str) -> Result<Letter, String> {
        serde_json::from_str(text).map_err(|error| format!("its row cannot be read: {error}"))
    }
}

/// What happened, for whoever is told.
pub(super) struct Story {
    on: Occasion,
    json: Value,
    subject: String,
    lines: Vec<(&'static str, String)>,
}

impl Story {
    /// How a job ended, or what was noticed of it.
    pub(super) fn of_job(job: &Job, on: Occasion, notice: Option<&Notice>) -> Story {
        let (id, task, state) = (job.id.to_string(), &*job.definition.name, job.header.state.word());
        let time = |at: Time| api::Timestamp::from_micros(at.0).to_string();
        let mut lines = vec![("task", task.to_owned()), ("job", id.clone()), ("state", state.to_owned())];
        let error = job.header.error.as_ref().map_or(Value::Null, |error| {
            let (code, message) = (error.failure.kind.code(), &error.failure.message);
            lines.push(("error", format!("{message} ({code})")));
            json!({ "code": code, "message": message, "step": error.step.map(|ix| job.name(ix).into_owned()) })
        });
        let (started, ended) = (job.header.started_at.map(time), job.header.ended_at.map(time));
        lines.push(("created", time(job.created_at)));
        lines.extend(started.clone().map(|at| ("started", at)));
        lines.extend(ended.clone().map(|at| ("ended", at)));
        let json = json!({
            "event": on.word(),
            "job": {
                "id": id,
                "task": task,
                "state": state,
                "error": error,
                "submitted_by": &*job.submitted_by,
                "created_at": time(job.created_at),
                "started_at": started,
                "ended_at": ended,
            },
        });
        let subject = match (on, notice) {
            (_, Some(_)) => task.to_owned(),
            (Occasion::Recovered, None) => format!("{task} succeeded after it lost touch with a worker"),
            (_, None) => format!("{task}: {state}"),
        };
        Story { on, json, subject, lines }.with(notice)
    }

    /// What was noticed of a trigger.
    pub(super) fn of_trigger(row: &TriggerRow, planned: Time, notice: &Notice) -> Story {
        let json = json!({
            "event": Occasion::Notice.word(),
            "trigger": { "id": row.id, "task": row.task, "planned_at": planned.to_string() },
        });
        let lines = vec![("task", row.task.clone()), ("trigger", row.id.clone()), ("planned", planned.to_string())];
        Story { on: Occasion::Notice, json, subject: row.task.clone(), lines }.with(Some(notice))
    }

    fn with(mut self, notice: Option<&Notice>) -> Story {
        if let Some(notice) = notice {
            let (kind, text, step) = (notice.kind.word(), &notice.text, notice.step_name());
            self.json["notice"] = json!({ "kind": kind, "text": text, "step": step, "at": notice.at.to_string() });
            let told = step.map_or_else(|| text.clone(), |step| format!("step {step} {text}"));
            self.subject = format!("{}: {told}", self.subject);
            self.lines.push(("notice", told));
        }
        self
    }

    /// The same as somebody hears it who is told so, by the row that is to be delivered.
    pub(super) fn send(&self, id: engine::JobId, job: engine::JobId, to: &Outside, round: &mut Round) {
        let (on, created_at) = (self.on.word().to_owned(), round.now);
        let (kind, letter) = match to {
            Outside::Webhook(webhook) => {
                let (url, secret, text) = (webhook.url.clone(), webhook.secret.clone(), self.json.to_string());
                ("webhook", Letter { url, secret, on, text, mail: None })
            }
            Outside::Mail(mail) => {
                let envelope =
                    Envelope { to: mail.to.clone(), subject: format!("[bowline] {}", self.subject), at: created_at.0 };
                let url = to.address();
                ("mail", Letter { url, secret: None, on, text: self.text(), mail: Some(envelope) })
            }
        };
        round.outbox.push(OutboxRow { id: id.0, job, kind, body: letter.to_json(), created_at });
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.subject);
        for (what, value) in &self.lines {
            // A value that has lines of its own stays one.
            text += &format!("{what:<9}{}\n", value.replace(['\r', '\n'], " "));
        }
        text
    }
}
