//! Times as the table says them: exact where every world agrees, else an upper bound.

use std::time::Duration;

use sim::scenario::{Mark, Seen};

/// Worlds that differ by less agree: messages and commits take their milliseconds.
const NOISE: Duration = Duration::from_millis(60);

/// Shorter than this is at once.
const MOMENT: Duration = Duration::from_secs(1);

/// Something that happened in one world.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    pub at: Duration,
    /// What happened before it.
    pub before: Option<Duration>,
    /// When the step's process ended by itself.
    pub end: Option<Duration>,
}

impl Point {
    pub(crate) fn at(at: Duration) -> Point {
        Point { at, before: None, end: None }
    }
}

pub(crate) struct Clock {
    marks: Vec<Vec<Mark>>,
}

impl Clock {
    pub(crate) fn new(worlds: &[Seen]) -> Clock {
        Clock { marks: worlds.iter().map(|seen| seen.marks.clone()).collect() }
    }

    /// When it happened, given once for each world.
    pub(crate) fn tell(&self, points: &[Point]) -> String {
        let since_event = points.iter().zip(&self.marks).map(|(point, marks)| point.at - marks[0].at);
        if since_event.max().is_some_and(|longest| longest < MOMENT) {
            return "at once".to_owned();
        }
        let at_end = |point: &Point| point.end.is_some_and(|end| point.at >= end && point.at - end < MOMENT);
        if points.iter().all(at_end) {
            return "at its end".to_owned();
        }
        let marks = points.iter().zip(&self.marks).map(|(point, marks)| {
            let mut past = marks.iter().filter(|mark| mark.at <= point.at);
            *past.next_back().expect("what is told comes after the event")
        });
        let marks: Vec<Mark> = marks.collect();
        let same_mark = marks.iter().all(|mark| mark.name == marks[0].name);
        // Where chance decides on which side of a later mark it falls, the event itself is what it is counted from.
        let from = |index: usize| if same_mark { marks[index].at } else { self.marks[index][0].at };
        let name = if same_mark { marks[0].name } else { "" };
        let since: Vec<Duration> = points.iter().enumerate().map(|(index, point)| point.at - from(index)).collect();
        let later: Option<Vec<Duration>> = points.iter().map(|point| Some(point.at - point.before?)).collect();
        match (exact(&since), later.as_deref().and_then(exact)) {
            (Some(time), _) => in_words(time, name),
            (None, Some(time)) if time < MOMENT => "right after".to_owned(),
            (None, Some(time)) => format!("{} s later", whole(time)),
            (None, None) => within(since.iter().copied().max().unwrap_or_default(), name),
        }
    }
}

fn in_words(time: Duration, name: &str) -> String {
    match (time < MOMENT, name) {
        (true, "") => "at once".to_owned(),
        (true, name) => format!("with {name}"),
        (false, "") => format!("after {} s", whole(time)),
        (false, name) => format!("{} s after {name}", whole(time)),
    }
}

fn within(time: Duration, name: &str) -> String {
    let bound = at_most(time);
    if name.is_empty() { format!("within {bound} s") } else { format!("within {bound} s of {name}") }
}

/// The time that all agree on.
fn exact(times: &[Duration]) -> Option<Duration> {
    let (least, most) = (times.iter().min()?, times.iter().max()?);
    (*most - *least < NOISE).then_some(*least)
}

fn whole(time: Duration) -> u64 {
    (time + Duration::from_millis(250)).as_secs()
}

/// The next round number of seconds. Coarse, so that another roll of the dice seldom changes it.
pub(crate) fn at_most(time: Duration) -> u64 {
    let secs = time.as_secs() + 1;
    [5, 20, 40, 60].into_iter().find(|bound| secs <= *bound).unwrap_or_else(|| secs.next_multiple_of(30))
}
