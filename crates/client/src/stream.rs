//! Live streams that outlive their connections: a lost one is made again, and goes on after the last message seen.
//!
//! ```text
//!           ┌────────────── lost: say so, back off ◄────────────┐
//!           ▼                                                   │
//!  connect (Last-Event-ID) ──► messages ──► … ──► end    broken, silent, closed early
//! ```

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use api::{Event, LogPage};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::client::Client;
use crate::connection::{Answer, Connection};
use crate::error::{Error, with_sources};
use crate::sse::{Message, Parser};

/// The server sends a comment every fifteen seconds at the latest; three missing ones mean that it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// The first pause before a new connection; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// What a stream gives.
#[derive(Debug)]
pub enum StreamItem<T> {
    Data(T),
    /// The connection is gone. Told once; the next call tries until it is back.
    Lost(Error),
    /// It is there again, and nothing was missed.
    Back,
}

/// A job's changes.
#[derive(Debug)]
pub struct EventStream(Resumable);

/// A log's lines.
#[derive(Debug)]
pub struct LogStream(Resumable);

impl EventStream {
    pub(crate) fn new(client: Client, path: String) -> EventStream {
        EventStream(Resumable::new(client, path))
    }

    /// The next change; none after the last. An error is final: the server refused, or makes no sense. May be
    /// dropped and called again.
    pub async fn next(&mut self) -> Result<Option<StreamItem<Event>>, Error> {
        self.0.next(|_| false).await
    }
}

impl LogStream {
    pub(crate) fn new(client: Client, path: String) -> LogStream {
        LogStream(Resumable::new(client, path))
    }

    /// The next lines; none after those that complete the log. An error is final. May be dropped and called again.
    pub async fn next(&mut self) -> Result<Option<StreamItem<LogPage>>, Error> {
        self.0.next(|page: &LogPage| page.complete).await
    }
}

#[derive(Debug)]
struct Resumable {
    client: Client,
    path: String,
    last_id: Option<String>,
    state: State,
    pause: Duration,
    waiting: VecDeque<Message>,
}

enum State {
    /// Not connected; `told` once the caller knows that a connection was lost.
    Away {
        told: bool,
    },
    /// On its way. Kept here, so that a caller who stops waiting and comes back finds it further on, not begun anew.
    Connecting {
        told: bool,
        answer: Connecting,
    },
    Open(Open),
    Ended,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

struct Open {
    body: Incoming,
    parser: Parser,
    /// Lives as long as the body: dropping it would end the connection.
    _connection: Connection,
}

impl Resumable {
    fn new(client: Client, path: String) -> Resumable {
        Resumable {
            client,
            path,
            last_id: None,
            state: State::Away { told: false },
            pause: PAUSE_MIN,
            waiting: VecDeque::new(),
        }
    }

    async fn next<T: DeserializeOwned>(&mut self, is_last: fn(&T) -> bool) -> Result<Option<StreamItem<T>>, Error> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                match self.take(message, is_last)? {
                    Some(data) => return Ok(Some(StreamItem::Data(data))),
                    None => continue,
                }
            }
            match &mut self.state {
                State::Ended => return Ok(None),
                State::Away { told } => {
                    let told = *told;
                    self.state = State::Connecting { told, answer: Box::pin(self.connect(told)) };
                }
                State::Connecting { told, answer } => {
                    let told = *told;
                    match answer.await {
                        Ok(answer) => {
                            self.state = State::Open(Open::new(answer));
                            if told {
                                return Ok(Some(StreamItem::Back));
                            }
                        }
                        Err(error) if error.is_passing() && told => self.state = State::Away { told },
                        Err(error) if error.is_passing() => return Ok(Some(self.lost(error))),
                        Err(error) => {
                            self.state = State::Ended;
                            return Err(error);
                        }
                    }
                }
                State::Open(open) => {
                    if let Err(reason) = open.read(&mut self.waiting).await {
                        let server = self.client.endpoint().to_string();
                        return Ok(Some(self.lost(Error::Broken { server, reason })));
                    }
                }
            }
        }
    }

    /// A connection that goes on after the last message; after a pause if it is not the first try.
    fn connect(&mut self, again: bool) -> impl Future<Output = Result<Answer, Error>> + Send + 'static {
        let (client, path, last_id) = (self.client.clone(), self.path.clone(), self.last_id.clone());
        let pause = if again { jittered(self.pause) } else { Duration::ZERO };
        if again {
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        async move {
            sleep(pause).await;
            client.open_stream(&path, last_id.as_deref()).await
        }
    }

    fn lost<T>(&mut self, error: Error) -> StreamItem<T> {
        self.state = State::Away { told: true };
        StreamItem::Lost(error)
    }

    /// The message's data; none if it only says that the stream is over.
    fn take<T: DeserializeOwned>(&mut self, message: Message, is_last: fn(&T) -> bool) -> Result<Option<T>, Error> {
        if message.event.as_deref() == Some(api::event::END) {
            self.state = State::Ended;
            return Ok(None);
        }
        let data: T = serde_json::from_str(&message.data)
            .map_err(|error| self.client.bad_answer(format!("a message of its stream cannot be read: {error}")))?;
        if message.id.is_some() {
            self.last_id = message.id;
        }
        // Only a connection that brought something makes the next loss a new one.
        self.pause = PAUSE_MIN;
        if is_last(&data) {
            self.state = State::Ended;
        }
        Ok(Some(data))
    }
}

impl Open {
    fn new(answer: Answer) -> Open {
        Open { body: answer.response.into_body(), parser: Parser::default(), _connection: answer.connection }
    }

    /// Waits for bytes; says why if there will be no more.
    async fn read(&mut self, messages: &mut VecDeque<Message>) -> Result<(), String> {
        let frame = match timeout(SILENCE_MAX, self.body.frame()).await {
            Err(_) => return Err(format!("nothing was heard for {} s", SILENCE_MAX.as_secs())),
            Ok(None) => return Err("the server closed the connection".to_owned()),
            Ok(Some(Err(error))) => return Err(with_sources(&error)),
            Ok(Some(Ok(frame))) => frame,
        };
        if let Ok(bytes) = frame.into_data() {
            let mut complete = Vec::new();
            self.parser.push(&bytes, &mut complete).map_err(|error| error.to_string())?;
            messages.extend(complete);
        }
        Ok(())
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Away { .. } => "Away",
            State::Connecting { .. } => "Connecting",
            State::Open(_) => "Open",
            State::Ended => "Ended",
        })
    }
}

/// Between half and all of it, so that many clients of one server do not come back in step.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0];
    // Without chance the pause is simply whole.
    let share = getrandom::fill(&mut byte).map_or(1.0, |()| 0.5 + f64::from(byte[0]) / 512.0);
    pause.mul_f64(share)
}
