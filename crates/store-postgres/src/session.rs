//! One connection: how statements are sent on it, statements that travel together, and transactions.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use futures_util::TryStreamExt;
use futures_util::future::{MaybeDone, maybe_done};
use store::{StoreError, TOO_OLD};
use tokio::task::AbortHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, RowStream, Statement};

use crate::error::{is_fatal, is_locked_out, is_race, translate};
use crate::values::{Param, Unreadable, Value, values};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
pub(crate) const BEGIN_LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

/// What can go wrong on the way: PostgreSQL's own words, or ours.
#[derive(Debug)]
pub(crate) enum Failure {
    Postgres(Error),
    Store(StoreError),
    Unreadable(Unreadable),
    /// Another server wrote rows in the very moment in which we decided that there are none.
    Race(&'static str),
    /// A newer build has changed the database since we opened it, and we must not write to it any more.
    Outgrown {
        needs: u32,
        knows: u32,
    },
}

pub(crate) struct Session {
    pub(crate) client: Client,
    manner: Manner,
    socket: AbortHandle,
    /// A transaction was begun and not ended.
    open: bool,
    /// It must not be used again.
    broken: bool,
}

/// How statements are sent.
pub(crate) enum Manner {
    /// Prepared once for this connection; by the place of their text, which is one for each.
    Named(HashMap<usize, Statement>),
    /// Each with its text, and always in a transaction, which carries the settings: the next one may be on another connection.
    Whole(Beginnings),
}

/// How transactions begin that carry their settings.
pub(crate) struct Beginnings {
    pub(crate) change: String,
    pub(crate) look: String,
}

impl Beginnings {
    pub(crate) fn with(settings: &str) -> Beginnings {
        Beginnings { change: format!("{BEGIN}; {settings}"), look: format!("{BEGIN_LOOK}; {settings}") }
    }

    /// The same beginning with settings; none for what begins no transaction.
    fn of(&self, text: &str) -> Option<&str> {
        match text {
            BEGIN => Some(&self.change),
            BEGIN_LOOK => Some(&self.look),
            _ => None,
        }
    }
}

/// A statement with what it is given.
type Wagon<'a> = (&'static str, Vec<&'a dyn Value>);

/// What came back for it.
struct Answer {
    rows: Vec<Row>,
    /// How many it wrote.
    count: u64,
}

impl Session {
    pub(crate) fn new(client: Client, socket: AbortHandle, manner: Manner) -> Session {
        Session { client, manner, socket, open: false, broken: false }
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.broken && !self.client.is_closed()
    }

    /// Nobody knows what became of its last statement.
    pub(crate) fn give_up(&mut self) {
        self.broken = true;
    }

    /// One statement, by itself or in a transaction.
    pub(crate) async fn query(&mut self, text: &'static str, params: &[&dyn Value]) -> Result<Vec<Row>, Failure> {
        Ok(self.one(text, params).await?.rows)
    }

    pub(crate) async fn query_opt(
        &mut self,
        text: &'static str,
        params: &[&dyn Value],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.query(text, params).await?.into_iter().next())
    }

    /// How many rows it wrote.
    pub(crate) async fn execute(&mut self, text: &'static str, params: &[&dyn Value]) -> Result<u64, Failure> {
        Ok(self.one(text, params).await?.count)
    }

    async fn one(&mut self, text: &'static str, params: &[&dyn Value]) -> Result<Answer, Failure> {
        let answers = self.send(&[(text, params.to_vec())]).await?;
        Ok(answers.into_iter().next().expect("an answer for each statement"))
    }

    /// Statements that do not need each other's answers, in one round trip. They are carried out one after the other.
    pub(crate) async fn run(&mut self, train: &Train<'_>) -> Result<Vec<Vec<Row>>, Failure> {
        let wagons: Vec<Wagon<'_>> = train.wagons.iter().map(|(text, params)| (*text, values(params))).collect();
        Ok(self.send(&wagons).await?.into_iter().map(|answer| answer.rows).collect())
    }

    async fn send(&mut self, wagons: &[Wagon<'_>]) -> Result<Vec<Answer>, Failure> {
        let sent = match self.manner {
            Manner::Named(_) => self.send_named(wagons).await,
            Manner::Whole(_) => self.send_whole(wagons).await,
        };
        sent.map_err(|error| {
            self.broken |= is_fatal(&error);
            Failure::Postgres(error)
        })
    }

    async fn send_named(&mut self, wagons: &[Wagon<'_>]) -> Result<Vec<Answer>, Error> {
        let Manner::Named(known) = &mut self.manner else { return Ok(Vec::new()) };
        prepare(&self.client, known, wagons.iter().map(|(text, _)| *text).collect()).await?;
        let client = &self.client;
        let statement = |text: &'static str| known.get(&place(text)).expect("it was prepared");
        let sending = wagons.iter().map(|(text, params)| {
            let (statement, params) = (statement(text), params.iter().map(|param| *param as &dyn ToSql));
            async move { answer(client.query_raw(statement, params).await?).await }
        });
        first_error(in_order(sending).await)
    }

    async fn send_whole(&mut self, wagons: &[Wagon<'_>]) -> Result<Vec<Answer>, Error> {
        let Manner::Whole(beginnings) = &self.manner else { return Ok(Vec::new()) };
        let alone = !self.open && wagons.first().is_some_and(|(text, _)| ![BEGIN, BEGIN_LOOK].contains(text));
        let around = |text| alone.then(|| (text, Vec::new()));
        let (begin, commit): (Option<Wagon<'_>>, Option<Wagon<'_>>) = (around(BEGIN), around(COMMIT));
        let all = || begin.iter().chain(wagons).chain(&commit);
        self.open = !all().any(|(text, _)| [COMMIT, ROLLBACK].contains(text));
        let client = &self.client;
        let sending = all().map(|(text, params)| {
            let params = params.iter().map(|param| (*param as &dyn ToSql, param.kind()));
            async move {
                match beginnings.of(text) {
                    Some(beginning) => client.batch_execute(beginning).await.map(|()| Answer::empty()),
                    None => answer(client.query_typed_raw(text, params).await?).await,
                }
            }
        });
        let mut answers = first_error(in_order(sending).await)?;
        if alone {
            answers.pop();
            answers.remove(0);
        }
        Ok(answers)
    }

    /// All that is written stays, or nothing.
    pub(crate) async fn transact<T>(
        &mut self,
        write: impl AsyncFnOnce(&mut Session) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.query(BEGIN, &[]).await?;
        let written = write(self).await;
        match written {
            Ok(value) => self.query(COMMIT, &[]).await.map(|_| value),
            Err(failure) => {
                self.roll_back().await;
                Err(failure)
            }
        }
    }

    pub(crate) async fn roll_back(&mut self) {
        // A transaction whose end was sent with it is over, however it ended.
        let over = matches!(self.manner, Manner::Whole(_)) && !self.open;
        if !over && self.is_usable() && self.query(ROLLBACK, &[]).await.is_err() {
            self.broken = true;
        }
    }
}

impl Answer {
    fn empty() -> Answer {
        Answer { rows: Vec::new(), count: 0 }
    }
}

async fn answer(stream: RowStream) -> Result<Answer, Error> {
    let (mut stream, mut rows) = (pin!(stream), Vec::new());
    while let Some(row) = stream.as_mut().try_next().await? {
        rows.push(row);
    }
    Ok(Answer { rows, count: stream.rows_affected().unwrap_or(0) })
}

/// What failed first is the cause; the others only say that the transaction is over.
fn first_error(answers: Vec<Result<Answer, Error>>) -> Result<Vec<Answer>, Error> {
    answers.into_iter().collect()
}

/// Has all of these known, in one round trip at most.
async fn prepare(
    client: &Client,
    known: &mut HashMap<usize, Statement>,
    mut missing: Vec<&'static str>,
) -> Result<(), Error> {
    missing.retain(|text| !known.contains_key(&place(text)));
    missing.sort_unstable_by_key(|text| place(text));
    missing.dedup_by_key(|text| place(text));
    let prepared = in_order(missing.iter().map(|text| client.prepare(text))).await;
    for (text, prepared) in missing.into_iter().zip(prepared) {
        known.insert(place(text), prepared?);
    }
    Ok(())
}

impl Drop for Session {
    fn drop(&mut self) {
        // Without a word of farewell: who does not answer would keep the socket open.
        if self.broken {
            self.socket.abort();
        }
    }
}

fn place(text: &'static str) -> usize {
    text.as_ptr().addr()
}

/// Statements in the order in which they are carried out.
#[derive(Default)]
pub(crate) struct Train<'a> {
    wagons: Vec<(&'static str, Vec<Param<'a>>)>,
}

impl<'a> Train<'a> {
    /// Begins a transaction with its first statement.
    pub(crate) fn beginning() -> Train<'a> {
        let mut train = Train::default();
        train.add(BEGIN, Vec::new());
        train
    }

    /// Returns where its answer will be.
    pub(crate) fn add(&mut self, text: &'static str, params: Vec<Param<'a>>) -> usize {
        self.wagons.push((text, params));
        self.wagons.len() - 1
    }

    /// The same, unless there is nothing for it to do.
    pub(crate) fn add_if(
        &mut self,
        wanted: bool,
        text: &'static str,
        params: impl FnOnce() -> Vec<Param<'a>>,
    ) -> Option<usize> {
        wanted.then(|| self.add(text, params()))
    }

    /// Ends the transaction with its last statement.
    pub(crate) fn commit(&mut self) {
        self.add(COMMIT, Vec::new());
    }

    /// Makes all of it look at one moment.
    pub(crate) fn at_one_moment(mut self) -> Train<'a> {
        self.wagons.insert(0, (BEGIN_LOOK, Vec::new()));
        self.commit();
        self
    }
}

/// Has each begin in its turn, and none wait for another's end. What is begun first is sent first.
async fn in_order<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<MaybeDone<F>>>> = futures.map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|context| {
        let mut pending = false;
        for future in &mut running {
            pending |= future.as_mut().poll(context).is_pending();
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.iter_mut().filter_map(|future| future.as_mut().take_output()).collect()
}

impl Failure {
    pub(crate) fn into_store(self, name: &str) -> StoreError {
        match self {
            Failure::Postgres(error) => translate(name, &error),
            Failure::Store(error) => error,
            Failure::Unreadable(what) => StoreError::Damaged { path: name.to_owned(), message: what.to_string() },
            Failure::Race(what) => {
                StoreError::Unavailable { message: format!("{name}: other servers are always faster with {what}") }
            }
            // Nothing that was to be written is at fault, so it waits; a build that may write it will.
            Failure::Outgrown { needs, knows } => StoreError::Unavailable {
                message: format!(
                    "{name}: a newer Bowline has changed the database, and {TOO_OLD} \
                     (it needs version {needs} of the schema, and knows {knows}); start a newer one in its place"
                ),
            },
        }
    }

    /// Tried again, it may be seen what others wrote.
    pub(crate) fn is_race(&self) -> bool {
        match self {
            Failure::Postgres(error) => is_race(error),
            Failure::Race(_) => true,
            Failure::Store(_) | Failure::Unreadable(_) | Failure::Outgrown { .. } => false,
        }
    }

    /// Somebody else has what it needs, maybe for long.
    pub(crate) fn is_locked_out(&self) -> bool {
        matches!(self, Failure::Postgres(error) if is_locked_out(error))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(error)
    }
}

impl From<Unreadable> for Failure {
    fn from(what: Unreadable) -> Failure {
        Failure::Unreadable(what)
    }
}

pub(crate) fn refused(message: String) -> Failure {
    Failure::Store(StoreError::Refused { message })
}
