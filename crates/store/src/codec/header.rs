//! A job's header as JSON.

use engine::job::{CancelCause, CancelOrder, Counts, Header, JobError, Unborn};
use engine::{AttemptId, Epoch, Fence, JobId, JobState, StateName, StepIx, Time, WorkerId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::parts::{StoredDeadline, StoredFailure};
use crate::rows::LoadedJob;

#[derive(Serialize, Deserialize)]
struct StoredHeader {
    state: String,
    /// In the order of [`StateName::ALL`].
    counts: Vec<u32>,
    #[serde(default, skip_serializing_if = "is_none")]
    fanned_out: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admitted_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<StoredFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_step: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cancel: Option<StoredCancel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expect_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late_at: Option<i64>,
    #[serde(default, skip_serializing_if = "is_none")]
    notices: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_since: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    strays: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    recovered: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restored_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unborn: Vec<StoredUnborn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<StoredDeadline>,
}

#[derive(Serialize, Deserialize)]
struct StoredCancel {
    at: i64,
    by: String,
    force: bool,
    timeout: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredUnborn {
    job: Uuid,
    step: String,
    attempt: Uuid,
    fence: u64,
    worker: Uuid,
    epoch: u64,
}

fn encode_unborn(unborn: &Unborn) -> StoredUnborn {
    let Unborn { job, step, attempt, fence, worker, epoch } = unborn;
    StoredUnborn {
        job: job.0,
        step: step.clone(),
        attempt: attempt.0,
        fence: fence.0,
        worker: worker.0,
        epoch: epoch.0,
    }
}

fn decode_unborn(stored: StoredUnborn) -> Unborn {
    let StoredUnborn { job, step, attempt, fence, worker, epoch } = stored;
    let (job, attempt, worker) = (JobId(job), AttemptId(attempt), WorkerId(worker));
    Unborn { job, step, attempt, fence: Fence(fence), worker, epoch: Epoch(epoch) }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

pub(super) fn encode(header: &Header) -> String {
    let stored = StoredHeader {
        state: header.state.word().to_owned(),
        counts: StateName::ALL.into_iter().map(|s| header.counts.get(s)).collect(),
        fanned_out: header.counts.fanned_out(),
        admitted_at: header.admitted_at.map(|t| t.0),
        started_at: header.started_at.map(|t| t.0),
        ended_at: header.ended_at.map(|t| t.0),
        error: header.error.as_ref().map(|e| (&e.failure).into()),
        error_step: header.error.as_ref().and_then(|e| e.step).map(|ix| ix.0),
        cancel: header.cancel.as_ref().map(|c| StoredCancel {
            at: c.at.0,
            by: c.by.clone(),
            force: c.force,
            timeout: c.cause == CancelCause::JobTimeout,
        }),
        timeout_at: header.timeout_at.map(|t| t.0),
        expect_at: header.expect_at.map(|t| t.0),
        late_at: header.late_at.map(|t| t.0),
        notices: header.notices,
        held_since: header.held_since.map(|t| t.0),
        strays: header.strays,
        recovered: header.recovered,
        restored_at: header.restored_at.map(|t| t.0),
        unborn: header.unborn.iter().map(encode_unborn).collect(),
        check: header.check.as_ref().map(Into::into),
    };
    serde_json::to_string(&stored).expect("a header is plain data and always has a JSON form")
}

pub(super) fn decode(row: &LoadedJob) -> Result<Header, String> {
    let stored: StoredHeader = serde_json::from_str(&row.data).map_err(|e| format!("its data is not readable: {e}"))?;
    if stored.counts.len() != StateName::ALL.len() {
        return Err(format!("it counts {} states", stored.counts.len()));
    }
    let mut counts = Counts::default();
    for (state, count) in StateName::ALL.into_iter().zip(stored.counts) {
        counts.set(state, count);
    }
    counts.set_fanned_out(stored.fanned_out);
    let error_step = stored.error_step.map(StepIx);
    let error = match stored.error {
        Some(failure) => Some(JobError { failure: failure.decode()?, step: error_step }),
        None => None,
    };
    Ok(Header {
        version: row.version,
        state: JobState::from_word(&stored.state).ok_or_else(|| format!("unknown state `{}`", stored.state))?,
        counts,
        admitted_at: stored.admitted_at.map(Time),
        started_at: stored.started_at.map(Time),
        ended_at: stored.ended_at.map(Time),
        error,
        cancel: stored.cancel.map(|c| CancelOrder {
            at: Time(c.at),
            by: c.by,
            force: c.force,
            cause: if c.timeout { CancelCause::JobTimeout } else { CancelCause::Asked },
        }),
        timeout_at: stored.timeout_at.map(Time),
        expect_at: stored.expect_at.map(Time),
        late_at: stored.late_at.map(Time),
        notices: stored.notices,
        held_since: stored.held_since.map(Time),
        strays: stored.strays,
        recovered: stored.recovered,
        restored_at: stored.restored_at.map(Time),
        unborn: stored.unborn.into_iter().map(decode_unborn).collect(),
        check: stored.check.map(StoredDeadline::decode).transpose()?,
    })
}
