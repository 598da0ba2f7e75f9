//! A step as JSON: its state with all of that state's data, and its counters.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::attempt::ArtifactSet;
use engine::definition::{KeepRule, KeepWhen, Program, RunBody};
use engine::job::{Fan, Item, Step, Unlisted};
use engine::state::{
    Approval, Cancelling, Cut, Delegate, Delegated, End, Held, Live, Offer, Queued, Recovering, SkipCause, StopCause,
    StopMode, WaitReason, Waiting,
};
use engine::{AttemptId, Epoch, Fence, Heard, JobId, State, StepIx, Time, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::parts::{StoredDeadline, StoredFailure};
use crate::rows::LoadedStep;

#[derive(Serialize, Deserialize)]
struct StoredStep {
    state: StoredState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<StoredItem>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fan: Option<StoredFan>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unlisted: Vec<StoredUnlisted>,
    unmet: u32,
    attempts: u32,
    executions: u32,
    losses: u32,
    unanswered_offers: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    for_operator: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_doubt: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue_old_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delegated_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    avoid: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rendered: Option<StoredBody>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    output: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    artifacts: Option<StoredSet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<StoredFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<StoredDeadline>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
enum StoredState {
    Pending,
    Queued {
        since: i64,
        heard_since: Option<i64>,
        not_before: Option<i64>,
        offer: Option<StoredOffer>,
    },
    Running {
        live: StoredLive,
    },
    FannedOut {
        since: i64,
        called_off: Option<StoredCause>,
    },
    Child {
        since: i64,
        job: Uuid,
        called_off: Option<StoredCause>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
    },
    Recovering {
        live: StoredLive,
        disconnected_at: i64,
        deadline: i64,
        #[serde(default)]
        extended: bool,
    },
    Cancelling {
        live: StoredLive,
        cause: StoredCause,
        kill: bool,
        deadline: i64,
        disconnected_at: Option<i64>,
        cut_heard: Option<i64>,
    },
    Held {
        since: i64,
        expires_at: Option<i64>,
        /// Before it was known who approved, it said how many more must.
        #[serde(alias = "missing")]
        wanted: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        approvals: Vec<StoredApproval>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        live: Option<StoredLive>,
    },
    Waiting {
        until: i64,
        retry: bool,
    },
    Success,
    Failed,
    Cancelled,
    Skipped {
        after_failure: bool,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredCause {
    Cancel,
    JobTimeout,
    StepTimeout,
    Sibling,
    RunnerStale { silent_ms: u64 },
}

#[derive(Serialize, Deserialize)]
struct StoredApproval {
    by: String,
    at: i64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    comment: String,
}

#[derive(Serialize, Deserialize)]
struct StoredItem {
    of: u32,
    number: u32,
    value: Value,
}

#[derive(Serialize, Deserialize)]
struct StoredFan {
    first: u32,
    count: u32,
    begun: u32,
    under_way: u32,
    open: u32,
    closed: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredOffer {
    attempt: Uuid,
    fence: u64,
    worker: Uuid,
    epoch: u64,
    at: i64,
    answer_by: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredLive {
    attempt: Uuid,
    number: u32,
    fence: u64,
    worker: Uuid,
    epoch: u64,
    started_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_at: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct StoredUnlisted {
    number: u32,
    attempt: Uuid,
    fence: u64,
    worker: Uuid,
    epoch: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredBody {
    program: StoredProgram,
    env: BTreeMap<String, String>,
    workdir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cleanup: Option<StoredProgram>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    artifacts: Option<StoredKeep>,
}

#[derive(Serialize, Deserialize)]
struct StoredKeep {
    paths: Vec<String>,
    always: bool,
    optional: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredSet {
    id: String,
    files: u32,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredProgram {
    Script { shell: Vec<String>, text: String },
    Command { argv: Vec<String> },
}

pub(super) fn encode(step: &Step) -> String {
    let stored = StoredStep {
        state: encode_state(&step.state),
        item: step.item.as_ref().map(encode_item),
        fan: step.fan.map(encode_fan),
        unlisted: step.unlisted.iter().map(encode_unlisted).collect(),
        unmet: step.unmet,
        attempts: step.attempts,
        executions: step.executions,
        losses: step.losses,
        unanswered_offers: step.unanswered_offers,
        for_operator: step.for_operator,
        in_doubt: step.in_doubt,
        late_at: step.late_at.map(|t| t.0),
        queue_old_at: step.queue_old_at.map(|t| t.0),
        delegated_at: step.delegated_at.map(|t| t.0),
        avoid: step.avoid.map(|w| w.0),
        // A final step is never offered again.
        rendered: step.rendered.as_deref().filter(|_| !step.state.is_final()).map(encode_body),
        output: step.output.clone(),
        artifacts: step.artifacts.map(encode_set),
        error: step.error.as_ref().map(Into::into),
        check: step.check.as_ref().map(Into::into),
    };
    serde_json::to_string(&stored).expect("a step is plain data and always has a JSON form")
}

pub(super) fn decode(row: &LoadedStep) -> Result<Step, String> {
    let stored: StoredStep = serde_json::from_str(&row.data).map_err(|e| format!("its data is not readable: {e}"))?;
    Ok(Step {
        state: decode_state(stored.state),
        item: stored.item.map(decode_item),
        fan: stored.fan.map(|fan| decode_fan(&fan)),
        unlisted: stored.unlisted.iter().map(decode_unlisted).collect(),
        unmet: stored.unmet,
        attempts: stored.attempts,
        executions: stored.executions,
        losses: stored.losses,
        unanswered_offers: stored.unanswered_offers,
        for_operator: stored.for_operator,
        in_doubt: stored.in_doubt,
        late_at: stored.late_at.map(Time),
        queue_old_at: stored.queue_old_at.map(Time),
        delegated_at: stored.delegated_at.map(Time),
        avoid: stored.avoid.map(WorkerId),
        rendered: stored.rendered.map(|body| Arc::new(decode_body(body))),
        output: stored.output,
        artifacts: stored.artifacts.as_ref().map(decode_set).transpose()?,
        error: stored.error.map(StoredFailure::decode).transpose()?,
        check: stored.check.map(StoredDeadline::decode).transpose()?,
        updated_at: row.updated_at,
    })
}

fn encode_state(state: &State) -> StoredState {
    match state {
        State::Pending => StoredState::Pending,
        State::Queued(q) => StoredState::Queued {
            since: q.since.0,
            heard_since: Some(q.heard_since.0),
            not_before: q.not_before.map(|t| t.0),
            offer: q.offer.as_ref().map(encode_offer),
        },
        State::Delegated(d) => match d.to {
            Delegate::Items => StoredState::FannedOut { since: d.since.0, called_off: d.called_off.map(encode_cause) },
            Delegate::Child(job) => {
                let called_off = d.called_off.map(encode_cause);
                StoredState::Child { since: d.since.0, job: job.0, called_off, held: d.held }
            }
        },
        State::Running(live) => StoredState::Running { live: encode_live(live) },
        State::Recovering(r) => StoredState::Recovering {
            live: encode_live(&r.live),
            disconnected_at: r.disconnected_at.0,
            deadline: r.deadline.0,
            extended: r.extended,
        },
        State::Cancelling(c) => StoredState::Cancelling {
            live: encode_live(&c.live),
            cause: encode_cause(c.cause),
            kill: c.mode == StopMode::Kill,
            deadline: c.deadline.0,
            disconnected_at: c.cut.map(|cut| cut.at.0),
            cut_heard: c.cut.map(|cut| cut.heard.0),
        },
        State::Held(h) => StoredState::Held {
            since: h.since.0,
            expires_at: h.expires_at.map(|t| t.0),
            wanted: h.wanted,
            approvals: h.approvals.iter().map(encode_approval).collect(),
            live: h.live.as_ref().map(encode_live),
        },
        State::Waiting(w) => StoredState::Waiting { until: w.until.0, retry: w.reason == WaitReason::Retry },
        State::Final(End::Success) => StoredState::Success,
        State::Final(End::Failed) => StoredState::Failed,
        State::Final(End::Cancelled) => StoredState::Cancelled,
        State::Final(End::Skipped(cause)) => StoredState::Skipped { after_failure: *cause == SkipCause::Failure },
    }
}

fn decode_state(stored: StoredState) -> State {
    match stored {
        StoredState::Pending => State::Pending,
        StoredState::Queued { since, heard_since, not_before, offer } => State::Queued(Queued {
            since: Time(since),
            // Rows from before there was hearing time: until then both clocks were the same.
            heard_since: Heard(heard_since.unwrap_or(since)),
            not_before: not_before.map(Time),
            offer: offer.map(|o| Offer {
                attempt: AttemptId(o.attempt),
                fence: Fence(o.fence),
                worker: WorkerId(o.worker),
                epoch: Epoch(o.epoch),
                at: Time(o.at),
                answer_by: Heard(o.answer_by),
            }),
        }),
        StoredState::Running { live } => State::Running(decode_live(&live)),
        StoredState::FannedOut { since, called_off } => State::Delegated(Delegated {
            since: Time(since),
            to: Delegate::Items,
            called_off: called_off.as_ref().map(decode_cause),
            held: false,
        }),
        StoredState::Child { since, job, called_off, held } => State::Delegated(Delegated {
            since: Time(since),
            to: Delegate::Child(JobId(job)),
            called_off: called_off.as_ref().map(decode_cause),
            held,
        }),
        StoredState::Recovering { live, disconnected_at, deadline, extended } => State::Recovering(Recovering {
            live: decode_live(&live),
            disconnected_at: Time(disconnected_at),
            deadline: Heard(deadline),
            extended,
        }),
        StoredState::Cancelling { live, cause, kill, deadline, disconnected_at, cut_heard } => {
            State::Cancelling(Cancelling {
                live: decode_live(&live),
                cause: decode_cause(&cause),
                mode: if kill { StopMode::Kill } else { StopMode::Graceful },
                deadline: Time(deadline),
                cut: disconnected_at.map(|at| Cut { at: Time(at), heard: Heard(cut_heard.unwrap_or(at)) }),
            })
        }
        StoredState::Held { since, expires_at, wanted, approvals, live } => State::Held(Held {
            since: Time(since),
            expires_at: expires_at.map(Time),
            wanted,
            approvals: approvals.into_iter().map(decode_approval).collect(),
            live: live.as_ref().map(decode_live),
        }),
        StoredState::Waiting { until, retry } => State::Waiting(Waiting {
            until: Time(until),
            reason: if retry { WaitReason::Retry } else { WaitReason::Protection },
        }),
        StoredState::Success => State::Final(End::Success),
        StoredState::Failed => State::Final(End::Failed),
        StoredState::Cancelled => State::Final(End::Cancelled),
        StoredState::Skipped { after_failure } => {
            let cause = if after_failure { SkipCause::Failure } else { SkipCause::Condition };
            State::Final(End::Skipped(cause))
        }
    }
}

fn encode_cause(cause: StopCause) -> StoredCause {
    match cause {
        StopCause::Cancel => StoredCause::Cancel,
        StopCause::JobTimeout => StoredCause::JobTimeout,
        StopCause::StepTimeout => StoredCause::StepTimeout,
        StopCause::Sibling => StoredCause::Sibling,
        StopCause::RunnerStale { silent_ms } => StoredCause::RunnerStale { silent_ms },
    }
}

fn decode_cause(stored: &StoredCause) -> StopCause {
    match *stored {
        StoredCause::Cancel => StopCause::Cancel,
        StoredCause::JobTimeout => StopCause::JobTimeout,
        StoredCause::StepTimeout => StopCause::StepTimeout,
        StoredCause::Sibling => StopCause::Sibling,
        StoredCause::RunnerStale { silent_ms } => StopCause::RunnerStale { silent_ms },
    }
}

fn encode_approval(approval: &Approval) -> StoredApproval {
    StoredApproval { by: approval.by.clone(), at: approval.at.0, comment: approval.comment.clone() }
}

fn decode_approval(stored: StoredApproval) -> Approval {
    Approval { by: stored.by, at: Time(stored.at), comment: stored.comment }
}

fn encode_item(item: &Item) -> StoredItem {
    StoredItem { of: item.of.0, number: item.number, value: Value::clone(&item.value) }
}

fn decode_item(stored: StoredItem) -> Item {
    Item { of: StepIx(stored.of), number: stored.number, value: Arc::new(stored.value) }
}

fn encode_fan(fan: Fan) -> StoredFan {
    let Fan { first, count, begun, under_way, open, closed } = fan;
    StoredFan { first: first.0, count, begun, under_way, open, closed }
}

fn decode_fan(stored: &StoredFan) -> Fan {
    let StoredFan { first, count, begun, under_way, open, closed } = *stored;
    Fan { first: StepIx(first), count, begun, under_way, open, closed }
}

fn encode_unlisted(unlisted: &Unlisted) -> StoredUnlisted {
    let Unlisted { number, attempt, fence, worker, epoch } = *unlisted;
    StoredUnlisted { number, attempt: attempt.0, fence: fence.0, worker: worker.0, epoch: epoch.0 }
}

fn decode_unlisted(stored: &StoredUnlisted) -> Unlisted {
    let StoredUnlisted { number, attempt, fence, worker, epoch } = *stored;
    let (attempt, fence) = (AttemptId(attempt), Fence(fence));
    Unlisted { number, attempt, fence, worker: WorkerId(worker), epoch: Epoch(epoch) }
}

fn encode_offer(o: &Offer) -> StoredOffer {
    StoredOffer {
        attempt: o.attempt.0,
        fence: o.fence.0,
        worker: o.worker.0,
        epoch: o.epoch.0,
        at: o.at.0,
        answer_by: o.answer_by.0,
    }
}

fn encode_live(l: &Live) -> StoredLive {
    StoredLive {
        attempt: l.attempt.0,
        number: l.number,
        fence: l.fence.0,
        worker: l.worker.0,
        epoch: l.epoch.0,
        started_at: l.started_at.0,
        timeout_at: l.timeout_at.map(|t| t.0),
    }
}

fn decode_live(l: &StoredLive) -> Live {
    Live {
        attempt: AttemptId(l.attempt),
        number: l.number,
        fence: Fence(l.fence),
        worker: WorkerId(l.worker),
        epoch: Epoch(l.epoch),
        started_at: Time(l.started_at),
        timeout_at: l.timeout_at.map(Time),
    }
}

fn encode_body(body: &RunBody) -> StoredBody {
    StoredBody {
        program: encode_program(&body.program),
        env: body.env.clone(),
        workdir: body.workdir.clone(),
        cleanup: body.cleanup.as_ref().map(encode_program),
        artifacts: body.artifacts.as_ref().map(|keep| StoredKeep {
            paths: keep.paths.clone(),
            always: keep.when == KeepWhen::Always,
            optional: keep.optional,
        }),
    }
}

fn encode_program(program: &Program) -> StoredProgram {
    match program {
        Program::Script { shell, text } => StoredProgram::Script { shell: shell.clone(), text: text.clone() },
        Program::Command { argv } => StoredProgram::Command { argv: argv.clone() },
    }
}

fn decode_body(stored: StoredBody) -> RunBody {
    RunBody {
        program: decode_program(stored.program),
        env: stored.env,
        workdir: stored.workdir,
        cleanup: stored.cleanup.map(decode_program),
        artifacts: stored.artifacts.map(|StoredKeep { paths, always, optional }| KeepRule {
            paths,
            when: if always { KeepWhen::Always } else { KeepWhen::Success },
            optional,
        }),
        templated: false,
    }
}

fn decode_program(stored: StoredProgram) -> Program {
    match stored {
        StoredProgram::Script { shell, text } => Program::Script { shell, text },
        StoredProgram::Command { argv } => Program::Command { argv },
    }
}

fn encode_set(set: ArtifactSet) -> StoredSet {
    StoredSet { id: hex(&set.id), files: set.files, bytes: set.bytes }
}

fn decode_set(stored: &StoredSet) -> Result<ArtifactSet, String> {
    let id = unhex(&stored.id).ok_or_else(|| format!("`{}` is not the hash of a set of files", stored.id))?;
    Ok(ArtifactSet { id, files: stored.files, bytes: stored.bytes })
}

pub(super) fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such rows were written before it was known who approved.
    #[test]
    fn a_hold_without_names_is_understood() {
        let stored = r#"{ "name": "held", "since": 5, "expires_at": null, "missing": 2 }"#;
        let held = Held { since: Time(5), expires_at: None, wanted: 2, approvals: Vec::new(), live: None };
        assert_eq!(decode_state(serde_json::from_str(stored).expect("a state")), State::Held(held));
    }
}
