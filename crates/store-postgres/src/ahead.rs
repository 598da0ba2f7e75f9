//! What a round is decided on, in one round trip.

use engine::AttemptId;
use store::rows::IdempotencyRow;
use store::{Found, Record, Wanted};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::session::{Failure, Session, Train};
use crate::values::{self, Read, column, get, param, text, texts, unsigned};
use crate::{logs, servers, sql};

pub(crate) async fn look(session: &mut Session, wanted: &Wanted) -> Result<Found, Failure> {
    let Wanted { keys, attempts, record } = wanted;
    let mut train = Train::default();
    let tokens: Vec<Uuid> = keys.iter().map(|(token, _)| *token).collect();
    let keys =
        train.add_if(!keys.is_empty(), sql::KNOWN_KEYS, || vec![param(tokens), texts(keys.iter().map(|(_, key)| key))]);
    let attempts: Vec<AttemptId> = attempts.iter().copied().collect();
    let ids = || vec![column(&attempts, |attempt| attempt.0)];
    let places = train.add_if(!attempts.is_empty(), sql::PLACES_OF, ids);
    let states = train.add_if(!attempts.is_empty(), sql::LOG_STATES, ids);
    let last_event = train.add_if(record.is_some(), sql::LAST_EVENT, Vec::new);
    let rows = train.add_if(record.is_some(), sql::SERVERS, Vec::new);
    let settings: Vec<(&'static str, usize)> = record
        .iter()
        .flat_map(|keys| keys.iter())
        .map(|key| (*key, train.add(sql::META, vec![param(text(key))])))
        .collect();

    let answers = session.run(&train).await?;
    let of = |place: Option<usize>| place.map_or(&[] as &[Row], |place| &answers[place]).iter();
    let place = |row: &Row| Ok((values::attempt(row, 0)?, (values::job(row, 1)?, values::step(row, 2)?)));
    let states = of(states).map(logs::state).collect::<Read<Vec<_>>>()?;
    let record = match of(last_event).next() {
        Some(last) => Some(Record {
            last_event: unsigned(last, 0)?,
            servers: of(rows).map(servers::server_row).collect::<Read<_>>()?,
            settings: settings
                .into_iter()
                .filter_map(|(key, place)| of(Some(place)).next().map(|row| Ok((key, get(row, 0)?))))
                .collect::<Read<_>>()?,
        }),
        None => None,
    };
    Ok(Found {
        record,
        keys: of(keys).map(key).collect::<Read<_>>()?,
        places: of(places).map(place).collect::<Read<_>>()?,
        logs: attempts.into_iter().zip(states).collect(),
    })
}

fn key(row: &Row) -> Read<((Uuid, String), IdempotencyRow)> {
    let (token, key): (Uuid, String) = (get(row, 0)?, get(row, 1)?);
    let (request_hash, job, created_at) = (values::hash(row, 2)?, values::job(row, 3)?, values::time(row, 4)?);
    Ok(((token, key.clone()), IdempotencyRow { key, token, request_hash, job, created_at }))
}
