//! Between our types and PostgreSQL's: numbers are signed, lists of words are JSON, columns travel as arrays.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use engine::job::Parent;
use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

/// What a statement can be given. It knows its own type: a statement that was not prepared before has nobody to ask.
pub(crate) trait Value: ToSql + Sync {
    fn kind(&self) -> Type;
}

/// A value that is no list of values.
pub(crate) trait Single: ToSql + Sync {
    const KIND: Type;
    const LIST: Type;
}

impl<T: Single> Value for T {
    fn kind(&self) -> Type {
        T::KIND
    }
}

impl<T: Single> Value for Vec<T> {
    fn kind(&self) -> Type {
        T::LIST
    }
}

macro_rules! singles {
    ($($value:ty => $kind:ident, $list:ident;)*) => {
        $(impl Single for $value {
            const KIND: Type = Type::$kind;
            const LIST: Type = Type::$list;
        })*
    };
}

singles! {
    bool => BOOL, BOOL_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    Uuid => UUID, UUID_ARRAY;
    &[u8] => BYTEA, BYTEA_ARRAY;
    Vec<u8> => BYTEA, BYTEA_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    String => TEXT, TEXT_ARRAY;
    Text<'_> => TEXT, TEXT_ARRAY;
}

impl<T: Single> Single for Option<T> {
    const KIND: Type = T::KIND;
    const LIST: Type = T::LIST;
}

/// One argument of a statement; mostly a column of a batch's rows.
pub(crate) type Param<'a> = Box<dyn Value + Send + 'a>;

pub(crate) fn param<'a>(value: impl Value + Send + 'a) -> Param<'a> {
    Box::new(value)
}

/// All that a statement is given.
pub(crate) fn values<'a>(params: &'a [Param<'_>]) -> Vec<&'a dyn Value> {
    params.iter().map(|param| &**param as &dyn Value).collect()
}

/// One value of each row.
pub(crate) fn column<'a, R, T: Single + Send + 'a>(rows: &[R], value: impl FnMut(&R) -> T) -> Param<'a> {
    Box::new(rows.iter().map(value).collect::<Vec<T>>())
}

/// A column of words.
pub(crate) fn texts<'a>(values: impl Iterator<Item = &'a String>) -> Param<'a> {
    Box::new(values.map(|value| text(value)).collect::<Vec<Text<'a>>>())
}

/// A column where some value may be more than the database can hold.
pub(crate) fn counted<'a, R, T: Single + Send + 'a>(
    rows: &[R],
    value: impl FnMut(&R) -> Result<T, StoreError>,
) -> Result<Param<'a>, StoreError> {
    Ok(Box::new(rows.iter().map(value).collect::<Result<Vec<T>, StoreError>>()?))
}

/// PostgreSQL's integers are signed; no counter of ours gets near that limit by itself.
pub(crate) fn signed(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value)
        .map_err(|_| StoreError::Refused { message: format!("{value} is more than the database can count to") })
}

/// For limits and positions, where "as far as possible" means the same as the number itself.
pub(crate) fn clamped<T: TryInto<i64>>(value: T) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

pub(crate) fn micros(time: Option<Time>) -> Option<i64> {
    time.map(|t| t.0)
}

pub(crate) fn span(span: Duration) -> i64 {
    clamped(span.as_micros())
}

pub(crate) fn text(value: &str) -> Text<'_> {
    Text(value)
}

pub(crate) fn maybe_text<T: AsRef<str>>(value: &Option<T>) -> Option<Text<'_>> {
    value.as_ref().map(|value| Text(value.as_ref()))
}

pub(crate) fn tags_text(tags: &[String]) -> String {
    serde_json::to_string(tags).expect("a list of strings always has a JSON form")
}

/// PostgreSQL's text cannot hold the character NUL; programs that print one must not cost a step its end. It is written as
/// U+FFFD, wherever it stands, so that what is looked for is what was written.
#[derive(Debug)]
pub(crate) struct Text<'a>(&'a str);

impl ToSql for Text<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_slice(as_written(self.0).as_bytes());
        Ok(IsNull::No)
    }

    accepts!(TEXT);
    to_sql_checked!();
}

/// A text as it comes back.
pub(crate) fn as_written(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

/// What a row of ours can hold that we cannot read.
pub(crate) type Read<T> = Result<T, Unreadable>;

#[derive(Debug)]
pub(crate) struct Unreadable(String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn unreadable(index: usize, what: impl std::fmt::Display) -> Unreadable {
    Unreadable(format!("column {index} of an answer: {what}"))
}

pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Read<T> {
    row.try_get(index).map_err(|e| match std::error::Error::source(&e) {
        Some(source) => unreadable(index, format!("{e}: {source}")),
        None => unreadable(index, e),
    })
}

pub(crate) fn unsigned(row: &Row, index: usize) -> Read<u64> {
    let value: i64 = get(row, index)?;
    u64::try_from(value).map_err(|_| unreadable(index, format!("{value} is below zero")))
}

pub(crate) fn maybe_unsigned(row: &Row, index: usize) -> Read<Option<u64>> {
    Ok(get::<Option<i64>>(row, index)?.and_then(|value| u64::try_from(value).ok()))
}

pub(crate) fn small(row: &Row, index: usize) -> Read<u32> {
    let value: i64 = get(row, index)?;
    u32::try_from(value).map_err(|_| unreadable(index, format!("{value} is not a small number")))
}

pub(crate) fn maybe_small(row: &Row, index: usize) -> Read<Option<u32>> {
    get::<Option<i64>>(row, index)?.map(|_| small(row, index)).transpose()
}

pub(crate) fn uuid(row: &Row, index: usize) -> Read<Uuid> {
    get(row, index)
}

pub(crate) fn hash(row: &Row, index: usize) -> Read<[u8; 32]> {
    let bytes: &[u8] = get(row, index)?;
    bytes.try_into().map_err(|_| unreadable(index, format!("{} bytes are no hash", bytes.len())))
}

pub(crate) fn job(row: &Row, index: usize) -> Read<JobId> {
    uuid(row, index).map(JobId)
}

/// Two columns: the job and its step.
pub(crate) fn parent(row: &Row, index: usize) -> Read<Option<Parent>> {
    let (job, step) = (maybe_job(row, index)?, maybe_small(row, index + 1)?);
    Ok(job.zip(step).map(|(job, step)| Parent { job, step: StepIx(step) }))
}

pub(crate) fn maybe_job(row: &Row, index: usize) -> Read<Option<JobId>> {
    Ok(maybe_uuid(row, index)?.map(JobId))
}

pub(crate) fn attempt(row: &Row, index: usize) -> Read<AttemptId> {
    uuid(row, index).map(AttemptId)
}

pub(crate) fn worker(row: &Row, index: usize) -> Read<WorkerId> {
    uuid(row, index).map(WorkerId)
}

pub(crate) fn maybe_uuid(row: &Row, index: usize) -> Read<Option<Uuid>> {
    get(row, index)
}

pub(crate) fn step(row: &Row, index: usize) -> Read<StepIx> {
    small(row, index).map(StepIx)
}

pub(crate) fn time(row: &Row, index: usize) -> Read<Time> {
    get(row, index).map(Time)
}

pub(crate) fn maybe_time(row: &Row, index: usize) -> Read<Option<Time>> {
    Ok(get::<Option<i64>>(row, index)?.map(Time))
}

pub(crate) fn tags(row: &Row, index: usize) -> Read<Vec<String>> {
    let text: &str = get(row, index)?;
    serde_json::from_str(text).map_err(|e| unreadable(index, e))
}
