//! Between our types and SQLite's: ids are 16 bytes, numbers are signed, lists are JSON.

use engine::job::Parent;
use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use rusqlite::types::Type;
use rusqlite::{Error, Result, Row};
use store::StoreError;
use uuid::Uuid;

/// SQLite's integers are signed; no counter of ours gets near that limit by itself.
pub(crate) fn signed(value: u64) -> std::result::Result<i64, StoreError> {
    i64::try_from(value)
        .map_err(|_| StoreError::Refused { message: format!("{value} is more than the database can count to") })
}

/// For limits and positions, where "as far as possible" means the same as the number itself.
pub(crate) fn clamped<T: TryInto<i64>>(value: T) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

pub(crate) fn tags_text(tags: &[String]) -> String {
    serde_json::to_string(tags).expect("a list of strings always has a JSON form")
}

pub(crate) fn micros(time: Option<Time>) -> Option<i64> {
    time.map(|t| t.0)
}

pub(crate) fn unsigned(row: &Row<'_>, index: usize) -> Result<u64> {
    let value: i64 = row.get(index)?;
    u64::try_from(value).map_err(|_| Error::IntegralValueOutOfRange(index, value))
}

pub(crate) fn maybe_unsigned(row: &Row<'_>, index: usize) -> Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(index)?.and_then(|value| u64::try_from(value).ok()))
}

pub(crate) fn uuid(row: &Row<'_>, index: usize) -> Result<Uuid> {
    row.get(index).map(Uuid::from_bytes)
}

pub(crate) fn job(row: &Row<'_>, index: usize) -> Result<JobId> {
    uuid(row, index).map(JobId)
}

/// Two columns: the job and its step.
pub(crate) fn parent(row: &Row<'_>, index: usize) -> Result<Option<Parent>> {
    let (job, step): (Option<[u8; 16]>, Option<u32>) = (row.get(index)?, row.get(index + 1)?);
    Ok(job.zip(step).map(|(job, step)| Parent { job: JobId(Uuid::from_bytes(job)), step: StepIx(step) }))
}

pub(crate) fn maybe_job(row: &Row<'_>, index: usize) -> Result<Option<JobId>> {
    Ok(maybe_uuid(row, index)?.map(JobId))
}

pub(crate) fn attempt(row: &Row<'_>, index: usize) -> Result<AttemptId> {
    uuid(row, index).map(AttemptId)
}

pub(crate) fn worker(row: &Row<'_>, index: usize) -> Result<WorkerId> {
    uuid(row, index).map(WorkerId)
}

pub(crate) fn maybe_uuid(row: &Row<'_>, index: usize) -> Result<Option<Uuid>> {
    Ok(row.get::<_, Option<[u8; 16]>>(index)?.map(Uuid::from_bytes))
}

pub(crate) fn step(row: &Row<'_>, index: usize) -> Result<StepIx> {
    row.get(index).map(StepIx)
}

pub(crate) fn time(row: &Row<'_>, index: usize) -> Result<Time> {
    row.get(index).map(Time)
}

pub(crate) fn maybe_time(row: &Row<'_>, index: usize) -> Result<Option<Time>> {
    Ok(row.get::<_, Option<i64>>(index)?.map(Time))
}

pub(crate) fn tags(row: &Row<'_>, index: usize) -> Result<Vec<String>> {
    let text: String = row.get(index)?;
    serde_json::from_str(&text).map_err(|e| Error::FromSqlConversionFailure(index, Type::Text, Box::new(e)))
}
