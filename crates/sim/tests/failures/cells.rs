//! What was seen in several worlds becomes the cells of one row. The worlds differ in everything that chance decides; what
//! they must not differ in is what happens.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::scenario::{Seen, Tried, WordEnd};

use crate::times::{Clock, Point, at_most};
use crate::words::{agree, without_counts};

/// From the moment that a machine wakes up to the end of what must not run on it any more.
const A_BLINK: Duration = Duration::from_millis(10);

pub(crate) struct Cells {
    /// The step's states after the event.
    pub step: String,
    /// Its processes.
    pub process: String,
    /// Its end and the job's.
    pub end: String,
    pub log: String,
    pub error: Option<String>,
    pub whys: Vec<String>,
}

impl Cells {
    /// Worlds of one script.
    pub(crate) fn of(worlds: &[Seen], either: bool) -> Cells {
        Cells {
            step: if either { paths(worlds) } else { path(worlds) },
            process: process(worlds, &Clock::new(worlds)),
            end: same(worlds, "end", end) + &given_up(worlds) + late(worlds),
            log: agree(&worlds.iter().map(|seen| without_counts(&log(seen))).collect::<Vec<String>>()),
            error: worlds[0].error.is_some().then(|| agree(&worlds.iter().map(message).collect::<Vec<String>>())),
            whys: whys(worlds),
        }
    }
}

/// What all worlds have in common, or it is no row.
fn same<T: PartialEq + std::fmt::Debug>(worlds: &[Seen], what: &str, look: impl Fn(&Seen) -> T) -> T {
    let first = look(&worlds[0]);
    for world in worlds {
        let other = look(world);
        assert!(first == other, "chance decides the {what}: {first:?} or {other:?}");
    }
    first
}

/// Where chance may decide: one way, or another.
fn paths(worlds: &[Seen]) -> String {
    let mut ways: BTreeMap<Vec<&str>, Vec<Seen>> = BTreeMap::new();
    for seen in worlds {
        ways.entry(states(seen)).or_default().push(seen.clone());
    }
    let told: Vec<String> = ways.values().map(|worlds| path(worlds)).collect();
    if told.len() > 1 { format!("either {}", told.join("; or ")) } else { told.join("") }
}

/// `recovering` within 40 s, `failed` 120 s later.
fn path(worlds: &[Seen]) -> String {
    let clock = Clock::new(worlds);
    let states = same(worlds, "states", states);
    let first = worlds[0].turns.len() - states.len();
    let mut told = Vec::new();
    for (index, state) in states.iter().enumerate() {
        let points = worlds.iter().map(|seen| {
            let turn = &seen.turns[first + index];
            let before = index.checked_sub(1).map(|_| seen.turns[first + index - 1].at);
            let of_itself = seen.lives.iter().filter(|life| life.ended_itself).filter_map(|life| life.to).max();
            Point { at: turn.at, before, end: of_itself }
        });
        let points: Vec<Point> = points.collect();
        told.push(format!("`{state}` {}", clock.tell(&points)));
    }
    if told.is_empty() { "stays as it is".to_owned() } else { told.join(", ") }
}

/// After the event.
fn states(seen: &Seen) -> Vec<&'static str> {
    seen.turns.iter().filter(|turn| turn.at > seen.event()).map(|turn| turn.state).collect()
}

fn process(worlds: &[Seen], clock: &Clock) -> String {
    let count = same(worlds, "executions", |seen| seen.lives.len());
    if count == 0 {
        return "never starts".to_owned();
    }
    let mut told = Vec::new();
    for index in 0..count {
        let started_before = same(worlds, "start", |seen| seen.lives[index].from < seen.event());
        let of_itself = same(worlds, "execution's end", |seen| seen.lives[index].ended_itself);
        let ends = || {
            let points: Vec<Point> = worlds.iter().filter_map(|seen| Some(Point::at(seen.lives[index].to?))).collect();
            clock.tell(&points)
        };
        told.push(match (index, of_itself, started_before) {
            (0, true, true) => "goes on to its end".to_owned(),
            (0, true, false) => "runs once".to_owned(),
            (0, false, _) if gone_before(worlds, index) => "was gone before".to_owned(),
            (0, false, _) => format!("is gone {}", ends()),
            (_, true, _) => "runs again".to_owned(),
            (_, false, _) => format!("runs again, and is gone {}", ends()),
        });
    }
    for index in 0..same(worlds, "cleanups", |seen| seen.cleaned.len()) {
        let points: Vec<Point> = worlds.iter().filter_map(|seen| Some(Point::at(seen.cleaned[index]?))).collect();
        told.push(format!("its cleanup is over {}", clock.tell(&points)));
    }
    told.join("; ") + &overlap(worlds) + &beside(worlds)
}

/// How often the job's other steps are executed in all.
fn beside(worlds: &[Seen]) -> String {
    let others = same(worlds, "executions of other steps", |seen| seen.beside.clone());
    let told = others.iter().map(|(step, times)| match times {
        0 => format!("; `{step}` never starts"),
        1 => format!("; `{step}` runs once"),
        2 => format!("; `{step}` runs twice"),
        more => format!("; `{step}` runs {more} times"),
    });
    told.collect()
}

fn gone_before(worlds: &[Seen], index: usize) -> bool {
    worlds.iter().all(|seen| seen.lives[index].to.is_some_and(|to| to < seen.event()))
}

/// Two at the same time, for how long at most.
fn overlap(worlds: &[Seen]) -> String {
    let longest = worlds.iter().map(|seen| seen.side_by_side).max().unwrap_or_default();
    match (worlds[0].lives.len() > 1, longest < A_BLINK) {
        (false, _) => String::new(),
        (true, true) => "; never two at once".to_owned(),
        (true, false) => format!("; both at once for up to {} s", at_most(longest)),
    }
}

fn end(seen: &Seen) -> String {
    let code = seen.error.as_ref().map(|(code, _)| format!(" `{code}`")).unwrap_or_default();
    let mut end = format!("`{}`{code}", seen.step);
    if seen.job != seen.step {
        end += &format!(", the job `{}`", seen.job);
    }
    if let Some((job, _)) = &seen.continued_by {
        end += &format!("; a job that goes on from it ends as `{job}`");
    }
    match seen.notices {
        0 => {}
        1 => end += "; one notice",
        more => end += &format!("; {more} notices"),
    }
    for word in &seen.words {
        end += &match word.end {
            WordEnd::Delivered => "; the webhook is delivered".to_owned(),
            WordEnd::Open => "; the webhook is not delivered".to_owned(),
            WordEnd::GivenUp => format!("; the webhook is given up after {} tries", word.tries),
        };
    }
    for state in &seen.followed {
        end += &match state {
            Some(state) => format!("; the job that follows ends as `{state}`"),
            None => "; no job follows".to_owned(),
        };
    }
    match seen.runs {
        None => {}
        Some(1) => end += "; one run in all",
        Some(more) => end += &format!("; {more} runs in all"),
    }
    if seen.deleted {
        end += "; the job is deleted";
        end += if seen.held == 0 { ", and no worker keeps anything of it" } else { ", and a worker keeps its attempt" };
    }
    let unconfirmed = |tried: &Tried| !tried.confirmed;
    if seen.attempts.iter().any(unconfirmed) {
        end += "; the attempt stays *unconfirmed*";
    }
    end
}

/// How long that took at most, from the event on: the last mark is when it was seen.
fn given_up(worlds: &[Seen]) -> String {
    let is_given_up = |seen: &Seen| seen.words.iter().any(|word| word.end == WordEnd::GivenUp);
    let took = |seen: &Seen| seen.marks.last().map_or(Duration::ZERO, |mark| mark.at - seen.event());
    let longest = worlds.iter().filter(|seen| is_given_up(seen)).map(took).max();
    longest.map_or_else(String::new, |time| format!(", within {} h", time.as_secs() / 3600 + 1))
}

/// Who reports a step that ended with its lease, its runner or the worker beside it, may be a matter of chance: the one has
/// an end to tell, the other only that it is over.
fn late(worlds: &[Seen]) -> &'static str {
    let count = worlds.iter().filter(|seen| seen.attempts.iter().any(|tried| tried.late)).count();
    match count {
        0 => "",
        all if all == worlds.len() => "; its own end is kept as *late outcome*",
        _ => "; its own end may be kept as *late outcome*",
    }
}

fn message(seen: &Seen) -> String {
    seen.error.as_ref().map(|(_, message)| message.clone()).unwrap_or_default()
}

/// Of all attempts that printed anything.
fn log(seen: &Seen) -> String {
    let several = seen.attempts.len() > 1;
    let told = seen.attempts.iter().map(|tried| {
        let which = if several { format!("attempt {}: ", tried.number) } else { String::new() };
        let missing = tried.log.printed.saturating_sub(tried.log.stored);
        let mut told = match (missing, tried.log.complete) {
            (0, true) => format!("{which}whole"),
            (0, false) => format!("{which}no line is missing, but nobody can tell"),
            (missing, _) => format!("{which}{missing} of {} lines are missing", tried.log.printed),
        };
        for mark in &tried.log.marks {
            told += &format!(", `{mark}`");
        }
        told
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "–".to_owned() } else { told.join("; ") }
}

fn whys(worlds: &[Seen]) -> Vec<String> {
    let asked = same(worlds, "number of questions", |seen| seen.whys.len());
    let answers = |index: usize| worlds.iter().map(|seen| seen.whys[index].clone()).collect::<Vec<String>>();
    (0..asked).map(|index| agree(&answers(index))).collect()
}
