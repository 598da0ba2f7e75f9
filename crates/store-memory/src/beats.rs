//! Signs of life: added to their stretch, or the beginning of a new one.

use std::time::Duration;

use engine::Time;
use store::rows::BeatRow;
use store::{Beats, StoreError};

use crate::table::{Row, Table};
use crate::tables::{PastBeat, Tables, countable};

pub(crate) fn write(tables: &mut Tables, beats: &Beats) -> Result<(), StoreError> {
    let silence = micros(beats.silence);
    for heard in &beats.rows {
        countable(heard.count)?;
        let heard =
            BeatRow { longest_gap: Duration::from_micros(micros(heard.longest_gap).unsigned_abs()), ..heard.clone() };
        let key = (heard.attempt, heard.sender, heard.role);
        let Some(old) = tables.beats.get(&key) else {
            tables.beats.put(key, heard);
            continue;
        };
        let breaks = Break::between(old, &heard, silence);
        let past = (key, old.first_at);
        if breaks.ends_stretch() && !tables.beat_history.contains(&past) {
            tables.beat_history.put(past, PastBeat(old.clone()));
        }
        // What is late takes nothing back.
        if heard.last_at >= old.last_at {
            let next = joined(old, heard, &breaks);
            tables.beats.put(key, next);
        }
    }
    Ok(())
}

/// Why a sign of life may not belong to the stretch before it.
struct Break {
    other_process: bool,
    too_silent: bool,
}

impl Break {
    fn between(old: &BeatRow, heard: &BeatRow, silence: i64) -> Break {
        Break {
            other_process: old.hostname != heard.hostname || old.pid != heard.pid,
            too_silent: heard.first_at.0.saturating_sub(old.last_at.0) > silence,
        }
    }

    fn ends_stretch(&self) -> bool {
        self.other_process || self.too_silent
    }
}

fn joined(old: &BeatRow, heard: BeatRow, breaks: &Break) -> BeatRow {
    let longest_gap = if breaks.other_process {
        heard.longest_gap
    } else {
        old.longest_gap.max(heard.longest_gap).max(heard.first_at.since(old.last_at))
    };
    if breaks.ends_stretch() {
        return BeatRow { longest_gap, ..heard };
    }
    BeatRow { first_at: old.first_at, count: old.count + heard.count, longest_gap, ..heard }
}

/// The oldest of both kinds, at most `limit` of each.
pub(crate) fn prune(tables: &mut Tables, before: Time, limit: usize) -> usize {
    let old: Vec<_> = tables.beats.index().iter().take_while(|(at, _)| *at < before).take(limit).copied().collect();
    let past = tables.beat_history.index().iter().take_while(|(at, _)| *at < before);
    let past: Vec<_> = past.take(limit).copied().collect();
    remove(&mut tables.beats, &old) + remove(&mut tables.beat_history, &past)
}

fn remove<R: Row>(table: &mut Table<R>, aged: &[(Time, R::Key)]) -> usize {
    for (_, key) in aged {
        table.remove(key.clone());
    }
    aged.len()
}

fn micros(duration: Duration) -> i64 {
    duration.as_micros().try_into().unwrap_or(i64::MAX)
}
