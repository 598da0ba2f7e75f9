//! Somebody outside who calls for jobs: each delivery has a key, is repeated until it is answered, and now and then after that. Whoever
//! is told that the trigger rests gives up.

use std::time::Duration;

use engine::JobId;
use server::ledger::{Command, IdempotencyKey, Submit, SubmitError, Submitted, submitted_by};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Reply, UserEvent};
use crate::world::{Event, World};

/// Keys of one trigger are nobody else's.
const FIRST_TOKEN: u128 = 0x6361_6c6c;

/// How often a delivery is repeated that was answered.
const REPEATED: f64 = 0.4;

/// What somebody who called was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Job(JobId),
    Rests,
}

impl World {
    pub(super) fn plan_calls(&mut self) {
        for (number, plan) in self.setup.calls.iter().enumerate() {
            for (delivery, at) in plan.at_ms.iter().enumerate() {
                self.agenda.at(Duration::from_millis(*at), Event::User(UserEvent::Call(number, delivery)));
            }
            if let Some(rest) = plan.rest {
                self.agenda.at(rest.from, Event::User(UserEvent::RestOfCalls(number, true)));
                self.agenda.at(rest.until, Event::User(UserEvent::RestOfCalls(number, false)));
            }
        }
    }

    pub(super) fn call(&mut self, number: usize, delivery: usize) {
        let up: Vec<usize> = (0..self.servers.len()).filter(|at| self.servers[*at].process.is_some()).collect();
        let Some(server) = self.users.deliveries.pick(&up).copied() else {
            return self.call_later((number, delivery));
        };
        let plan = &self.setup.calls[number];
        let (definition, row, children) = self.definition_of(&plan.job, plan.text());
        let id = plan.trigger();
        let (token, request_hash) = (Uuid::from_u128(FIRST_TOKEN + number as u128), row.hash);
        self.tell(|| format!("somebody calls {id}, delivery {delivery}"));
        let submit = Submit {
            definition,
            row,
            children,
            input: serde_json::json!({ "n": null }),
            submitted_by: submitted_by(&id),
            idempotency: Some(IdempotencyKey { token, key: delivery.to_string(), request_hash }),
            trigger: Some(id),
        };
        let (reply, answer) = oneshot::channel();
        self.ask(server, Command::Submit(Box::new(submit), reply), Reply::Call((number, delivery), answer));
    }

    pub(super) fn call_later(&mut self, (number, delivery): (usize, usize)) {
        let pause = self.users.deliveries.duration(Duration::from_millis(500), Duration::from_secs(5));
        self.agenda.after(pause, Event::User(UserEvent::Call(number, delivery)));
    }

    pub(super) fn call_answered(&mut self, call: (usize, usize), answer: Result<Submitted, SubmitError>) {
        let (number, delivery) = call;
        let answer = match answer {
            Ok(submitted) => Answer::Job(submitted.job),
            Err(SubmitError::Paused) => Answer::Rests,
            Err(_) => return self.call_later(call),
        };
        self.tell(|| format!("delivery {delivery} of call {number} is answered: {answer:?}"));
        let before = self.users.calls[number][delivery];
        if let (Some(Answer::Job(earlier)), Answer::Job(job)) = (before, answer) {
            self.check(|checks| checks.called(delivery, job, earlier));
        }
        // Who heard of a job keeps to that.
        if !matches!(before, Some(Answer::Job(_))) {
            self.users.calls[number][delivery] = Some(answer);
        }
        if before.is_none() && self.users.deliveries.chance(REPEATED) {
            let pause = self.users.deliveries.duration(Duration::ZERO, Duration::from_secs(90));
            self.agenda.after(pause, Event::User(UserEvent::Call(number, delivery)));
        }
    }
}
