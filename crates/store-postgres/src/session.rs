//! One connection: its prepared statements, statements that travel together, and transactions.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use futures_util::future::{MaybeDone, maybe_done};
use store::StoreError;
use tokio::task::AbortHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use crate::error::{is_fatal, is_race, translate};
use crate::values::{Param, Unreadable};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
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
}

pub(crate) struct Session {
    pub(crate) client: Client,
    /// By the place of their text, which is one for each.
    statements: HashMap<usize, Statement>,
    socket: AbortHandle,
    /// It must not be used again.
    broken: bool,
}

impl Session {
    pub(crate) fn new(client: Client, socket: AbortHandle) -> Session {
        Session { client, statements: HashMap::new(), socket, broken: false }
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.broken && !self.client.is_closed()
    }

    /// Nobody knows what became of its last statement.
    pub(crate) fn give_up(mut self) {
        self.broken = true;
    }

    /// One statement, by itself or in a transaction.
    pub(crate) async fn query(
        &mut self,
        text: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let statement = self.prepared(text).await?;
        let rows = self.client.query(&statement, params).await;
        rows.map_err(|error| self.failed(error))
    }

    pub(crate) async fn query_opt(
        &mut self,
        text: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.query(text, params).await?.into_iter().next())
    }

    /// How many rows it wrote.
    pub(crate) async fn execute(&mut self, text: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Failure> {
        let statement = self.prepared(text).await?;
        let count = self.client.execute(&statement, params).await;
        count.map_err(|error| self.failed(error))
    }

    /// Statements that do not need each other's answers, in one round trip. They are carried out one after the other.
    pub(crate) async fn run(&mut self, train: &Train<'_>) -> Result<Vec<Vec<Row>>, Failure> {
        self.prepare_all(train).await?;
        let mut wagons = Vec::with_capacity(train.wagons.len());
        for (text, params) in &train.wagons {
            let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
            wagons.push((self.prepared(text).await?, params));
        }
        let client = &self.client;
        let answers = in_order(wagons.iter().map(|(statement, params)| client.query(statement, params))).await;
        // What failed first is the cause; the others only say that the transaction is over.
        answers.into_iter().collect::<Result<_, Error>>().map_err(|error| self.failed(error))
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
        if self.is_usable() && self.query(ROLLBACK, &[]).await.is_err() {
            self.broken = true;
        }
    }

    async fn prepared(&mut self, text: &'static str) -> Result<Statement, Failure> {
        if let Some(known) = self.statements.get(&place(text)) {
            return Ok(known.clone());
        }
        let prepared = self.client.prepare(text).await;
        let statement = prepared.map_err(|error| self.failed(error))?;
        self.statements.insert(place(text), statement.clone());
        Ok(statement)
    }

    async fn prepare_all(&mut self, train: &Train<'_>) -> Result<(), Failure> {
        let mut missing: Vec<&'static str> = train.wagons.iter().map(|(text, _)| *text).collect();
        missing.retain(|text| !self.statements.contains_key(&place(text)));
        missing.sort_unstable_by_key(|text| place(text));
        missing.dedup_by_key(|text| place(text));
        let prepared = in_order(missing.iter().map(|text| self.client.prepare(text))).await;
        for (text, prepared) in missing.into_iter().zip(prepared) {
            let statement = prepared.map_err(|error| self.failed(error))?;
            self.statements.insert(place(text), statement);
        }
        Ok(())
    }

    fn failed(&mut self, error: Error) -> Failure {
        self.broken |= is_fatal(&error);
        Failure::Postgres(error)
    }
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
        }
    }

    /// Tried again, it may be seen what others wrote.
    pub(crate) fn is_race(&self) -> bool {
        match self {
            Failure::Postgres(error) => is_race(error),
            Failure::Race(_) => true,
            Failure::Store(_) | Failure::Unreadable(_) => false,
        }
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
