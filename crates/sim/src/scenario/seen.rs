//! What was seen of a scripted world.

use std::time::Duration;

use crate::check::Finding;

/// All of it. Times are the world's own; the first mark is the event.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub marks: Vec<Mark>,
    /// Every state of the first step, from its first row on.
    pub turns: Vec<Turn>,
    pub lives: Vec<Life>,
    /// When each cleanup was over, if it was.
    pub cleaned: Vec<Option<Duration>>,
    /// How long two executions were awake at the same time.
    pub side_by_side: Duration,
    pub step: String,
    pub job: String,
    /// Code and message.
    pub error: Option<(String, String)>,
    pub attempts: Vec<Tried>,
    /// The answers to those who asked why, in order.
    pub whys: Vec<String>,
    /// The job that goes on for this one: its state and its first step's.
    pub continued_by: Option<(String, String)>,
    /// The job's other steps, and how often each was executed, with those of the job that goes on.
    pub beside: Vec<(String, usize)>,
    /// How many notices were given, and what became of the words to the outside.
    pub notices: usize,
    pub words: Vec<Word>,
    /// The jobs that follow on its end: their states, where there are any.
    pub followed: Vec<Option<String>>,
    /// How many jobs the task has made by itself or by calls, where it does that.
    pub runs: Option<usize>,
    /// The job is off the record; and so many attempts lie in workers' folders.
    pub deleted: bool,
    pub held: usize,
    /// What the checkers have to say against it.
    pub findings: Vec<Finding>,
}

/// Something that times are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub name: &'static str,
    pub at: Duration,
}

/// The step came to a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub state: &'static str,
    pub at: Duration,
}

/// One execution of the step, as its processes really lived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    pub host: usize,
    pub attempt: uuid::Uuid,
    pub from: Duration,
    pub to: Option<Duration>,
    /// It took as long as its program takes: nobody ended it.
    pub ended_itself: bool,
}

/// What is to be said to somebody outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    pub tries: u32,
    pub end: WordEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordEnd {
    /// It is tried, or will be.
    Open,
    Delivered,
    GivenUp,
}

/// An attempt as the server remembers it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    pub number: u32,
    pub state: String,
    pub confirmed: bool,
    pub late: bool,
    pub error: Option<(String, String)>,
    pub log: Log,
}

/// One attempt's log: what its runner wrote, and what the server has of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    pub printed: u64,
    pub stored: u64,
    pub complete: bool,
    /// The server's own lines in it.
    pub marks: Vec<String>,
}

impl Seen {
    /// When it happened that the script is about.
    pub fn event(&self) -> Duration {
        self.marks.first().map_or(Duration::ZERO, |mark| mark.at)
    }
}

impl Log {
    pub fn is_whole(&self) -> bool {
        self.complete && self.stored == self.printed
    }
}
