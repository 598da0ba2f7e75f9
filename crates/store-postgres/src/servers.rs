//! Servers among themselves: who is here, and the mark that they share.

use engine::{Heard, Time};
use store::rows::{HearingRow, ServerId, ServerRow};
use store::{Batch, StoreError};
use tokio_postgres::Row;

use crate::commit::Writes;
use crate::hold::Held;
use crate::session::{Failure, Session, Train, refused};
use crate::sql;
use crate::values::{self, Read, get, micros, param, signed, text};

/// Writes the batch's mark, unless there is another one than it was made after. Returns whether all is well.
pub(crate) fn mark(writes: &mut Writes<'_>, batch: &Batch, held: &Held) -> bool {
    let Some(mark) = &batch.hearing else { return true };
    if held.hearing != mark.expected {
        return false;
    }
    let row = &mark.row;
    let params = vec![
        param(row.mark_at.0),
        param(row.deaf_us),
        param(row.stretch_from.0),
        param(row.unsettled_since.map(|heard| heard.0)),
        param(row.verdicts_from.0),
        param(row.alarmed),
    ];
    let place = writes.train.add(sql::PUT_HEARING, params);
    writes.expect(place, usize::from(mark.expected.is_none()), "the mark");
    true
}

pub(crate) async fn register(session: &mut Session, server: &ServerRow, stale_before: Time) -> Result<u64, Failure> {
    let row = session.query_opt(sql::NEXT_GENERATION, &[]).await?;
    let row = row.ok_or_else(|| refused("there is no counter for servers".to_owned()))?;
    let generation = values::unsigned(&row, 0)?;
    let server = ServerRow { generation, ..server.clone() };
    let mut train = Train::default();
    train.add(sql::PRUNE_SERVERS, vec![param(stale_before.0)]);
    put(&mut train, Some(&server))?;
    session.run(&train).await?;
    Ok(generation)
}

pub(crate) fn put<'a>(train: &mut Train<'a>, server: Option<&'a ServerRow>) -> Result<(), StoreError> {
    if let Some(server) = server {
        let params = vec![
            param(server.id.0),
            param(signed(server.generation)?),
            param(text(&server.address)),
            param(server.started_at.0),
            param(server.beat_at.0),
            param(server.beat_heard.0),
            param(micros(server.left_at)),
        ];
        train.add(sql::PUT_SERVER, params);
    }
    Ok(())
}

pub(crate) fn hearing_row(row: &Row) -> Read<HearingRow> {
    Ok(HearingRow {
        mark_at: values::time(row, 0)?,
        deaf_us: get(row, 1)?,
        stretch_from: get(row, 2).map(Heard)?,
        unsettled_since: get::<Option<i64>>(row, 3)?.map(Heard),
        verdicts_from: get(row, 4).map(Heard)?,
        alarmed: get(row, 5)?,
    })
}

pub(crate) fn server_row(row: &Row) -> Read<ServerRow> {
    Ok(ServerRow {
        id: ServerId(values::uuid(row, 0)?),
        generation: values::unsigned(row, 1)?,
        address: get(row, 2)?,
        started_at: values::time(row, 3)?,
        beat_at: values::time(row, 4)?,
        beat_heard: get(row, 5).map(Heard)?,
        left_at: values::maybe_time(row, 6)?,
    })
}
