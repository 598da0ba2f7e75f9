//! Promise: every decision can be read. What `why` says of a job never contradicts its rows: the same states, for every step
//! that is not final an owner, a reason and a next time. The owner is the one that the row names, and the worker that the step is with;
//! the time is that at which the row is looked at, and what is said to happen then is what the row says.
//!
//! A sign of life is one: never later than now, none where nobody could give one, the cut itself for what is cut off, and long ago for a
//! worker that nobody has heard for long.

use std::time::Duration;

use engine::why::{StepWhy, Why};
use engine::{StepIx, Time};
use store::rows::{LoadedStep, StoredJob};

use super::ears::Ears;
use super::plans::Plans;
use super::rows::{Place, Rows, StepSeen};
use super::{FASTEST_CLOCK, Findings};

const CHECKER: &str = "why";

/// Servers' clocks are apart by so much at most where none of them leaps.
const APART: Duration = Duration::from_secs(10);

/// What a worker's server hears it writes down after so long, and what it has written others know. The round in which it was to be written
/// may come to nothing, and then it is the next one's.
const TOLD: Duration = Duration::from_secs(90);

/// Who asks, and what is known by then.
pub(super) struct Asked<'a> {
    pub server: usize,
    /// By the clock of the server that answers.
    pub at: Time,
    /// The latest time of any commit.
    pub latest: Time,
    /// True time.
    pub now: Duration,
    /// Nothing is done to the database: what a server hears it can write down.
    pub calm: bool,
    pub rows: &'a Rows,
    pub plans: &'a Plans,
    pub ears: &'a Ears,
}

/// `why` as it was answered for a job whose rows are `stored`.
pub(super) fn look(stored: &StoredJob, why: &Why, asked: &Asked<'_>, found: &mut Findings) {
    let id = stored.job.id;
    if why.summary.trim().is_empty() {
        found.add(CHECKER, format!("there is no word on {id} ({})", stored.job.state));
    }
    if why.steps.len() != stored.steps.len() {
        found.add(CHECKER, format!("it speaks of {} steps of {id}, which has {}", why.steps.len(), stored.steps.len()));
    }
    for (row, told) in stored.steps.iter().zip(&why.steps) {
        let mut wrong =
            |what: String| found.add(CHECKER, format!("step {} of {id} is {}, and {what}", told.name, row.state));
        if told.state.word() != row.state {
            wrong(format!("it says {}", told.state));
        }
        if told.reason.trim().is_empty() || told.owner.trim().is_empty() {
            wrong("no owner or reason is given".to_owned());
        }
        match (row.check_at, &told.next) {
            (None, None) => {}
            // Deaf time since the row was written moves a time of silence on; it never comes sooner.
            (Some(at), Some(next)) if next.at >= at => {
                if next.at > at.max(asked.at) + super::times::AHEAD_MAX {
                    wrong(format!("the next look is said to be at {}, and it is {}", next.at, asked.at));
                }
            }
            (at, next) => wrong(format!("its row is looked at at {at:?}, and it says {next:?}")),
        }
        let place = Place { job: id, step: row.ix };
        if let Some(seen) = asked.rows.step(place).filter(|seen| is_of(seen, row)) {
            owner(place, seen, told, asked).into_iter().for_each(&mut wrong);
            action(seen, told).into_iter().for_each(&mut wrong);
            sign_of_life(seen, told, asked).into_iter().for_each(&mut wrong);
        }
    }
}

/// Whether it is the row that was seen when it was written.
fn is_of(seen: &StepSeen, row: &LoadedStep) -> bool {
    seen.state == row.state && seen.updated_at == row.updated_at
}

fn owner(place: Place, seen: &StepSeen, told: &StepWhy, asked: &Asked<'_>) -> Option<String> {
    let begins = |word: &str| told.owner.starts_with(word);
    let is_right = match (seen.owner, seen.worker) {
        (None, _) => begins("nobody"),
        (Some("needs"), _) => begins("step") && names_open_needs(place, seen, &told.owner, asked),
        (Some("steps"), _) => begins("its items"),
        (Some("child"), _) => begins("job "),
        (Some("group"), _) => begins("concurrency group"),
        (Some("worker"), Some(worker)) => {
            let is_named = |name: &String| told.owner == format!("worker {name}");
            let by_name = asked.rows.worker_names(worker).is_none_or(|names| names.iter().any(is_named));
            by_name || told.owner == format!("worker {worker}")
        }
        (Some("worker"), None) => begins("worker "),
        (Some("timer"), _) => begins("a timer"),
        (Some(other), _) => told.owner.ends_with(other),
    };
    let by_row = || (seen.owner, seen.worker.and_then(|worker| asked.rows.worker_names(worker)));
    (!is_right).then(|| format!("it says that {} must move it; by its row it is {:?}", told.owner, by_row()))
}

/// All steps that it waits for are named, and none that is over.
fn names_open_needs(place: Place, seen: &StepSeen, owner: &str, asked: &Asked<'_>) -> bool {
    let (Some(plan), Some(job)) = (asked.plans.step(asked.rows, place), asked.rows.job(place.job)) else { return true };
    let needs = plan.needs.iter().filter_map(|need| job.steps.get(&StepIx::of(need.step)));
    // An item waits for its turn, which the step gives that it is one of.
    let is_item = seen.item_of().is_some();
    // Of many only some are named.
    let is_short = owner.ends_with(" more");
    let is_told = |need: &StepSeen| owner.contains(&format!("`{}`", need.name));
    is_item || needs.into_iter().all(|need| if need.is_final { !is_told(need) } else { is_short || is_told(need) })
}

fn action(seen: &StepSeen, told: &StepWhy) -> Option<String> {
    let (action, next) = (seen.action?, told.next.as_ref()?);
    let words: &[&str] = match action {
        "look_again" => &["look again"],
        "withdraw_offer" => &["take the offer back"],
        "decide_unmatched" => &["fail it as unmatched"],
        "stop_for_timeout" => &["tell the worker to stop it", "call its job off"],
        "decide_loss" => &["fail it as `worker_lost`", "try it again", "queue it again"],
        "force_cancel" => &["end it without"],
        "expire_hold" => &["cancel it: nobody approved"],
        "timer_done" => &["queue it", "ask for approval"],
        "give_notice" => &["give notice"],
        _ => &[],
    };
    let is_right = words.iter().any(|words| next.action.starts_with(words));
    (!is_right).then(|| format!("it says that this comes next: {}; by its row it is {action}", next.action))
}

fn sign_of_life(seen: &StepSeen, told: &StepWhy, asked: &Asked<'_>) -> Option<String> {
    let last = told.last_sign_of_life;
    let wanted = match (seen.state, seen.worker) {
        ("pending" | "waiting" | "held", _) | ("queued", None) => Some(None),
        ("recovering", _) => Some(seen.disconnected_at),
        _ if seen.is_final => Some(Some(seen.updated_at)),
        _ => None,
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != last) {
        return Some(format!("its last sign of life is said to be {last:?}, and it is {wanted:?}"));
    }
    // A clock that leaps makes every time uncertain.
    let last = last.filter(|_| !seen.is_final && !asked.ears.has_leapt_since(Duration::ZERO))?;
    if last > asked.at.max(asked.latest) + APART {
        return Some(format!("its last sign of life is said to be at {last}, and it is {}", asked.at));
    }
    // What is cut off was heard of last when that was noticed.
    if seen.disconnected_at.is_some() {
        return None;
    }
    let silent = asked.now.saturating_sub(asked.ears.worker(seen.worker?).seen);
    let surely = silent.saturating_sub(TOLD).div_f64(FASTEST_CLOCK);
    // Who answers knows what it has heard, and may not have been able to write it down.
    let wrote = asked.calm && asked.ears.has_committed_for(asked.server, silent);
    let fresh = asked.at.since(last) + APART < surely && asked.ears.unbroken() > silent && wrote;
    fresh.then(|| {
        format!("its last sign of life is said to be at {last}, and its worker has been silent for {silent:?}")
    })
}
