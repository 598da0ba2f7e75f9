//! What must hold when all is quiet again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use testkit::within;

use super::super::town::Town;
use super::load::{Kind, Load, Sent, Step};
use super::outside::Place;
use super::{SERVERS, ask};
use crate::story::pass;

/// From when all are well until every job is final: silence is judged after the window and a stretch of hearing (15 s), and a step may be
/// repeated twice after that. The rest is for a busy machine.
const UNTIL_FINAL: Duration = Duration::from_secs(90);

/// Until workers have sent what they have, and runners of steps that were given up have ended.
const UNTIL_QUIET: Duration = Duration::from_secs(60);

/// Rows tell nobody that they have changed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Verdicts on what was lost. Anything else would be one on what was not.
const LOSSES: [&str; 5] = ["worker_lost", "runner_lost", "lease_expired", "poison", "dispatch_exhausted"];

/// What there was, for the report.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) jobs: BTreeMap<String, usize>,
    /// Steps by what they are and how they ended.
    pub(super) steps: BTreeMap<(Kind, String), usize>,
    pub(super) starts: usize,
    pub(super) repeated: BTreeMap<Kind, usize>,
}

/// Every job is over within the bound; if not, why.
pub(super) fn await_all_final(town: &Town) {
    const OPEN: &str = "SELECT id FROM jobs WHERE state NOT IN ('success', 'failed', 'cancelled')";
    let begun = std::time::Instant::now();
    loop {
        let open = town.psql(OPEN);
        if open.is_empty() {
            return;
        }
        if begun.elapsed() > UNTIL_FINAL {
            for id in open.lines() {
                let why = town.house.bowline(&["why", id]);
                println!("--- {id} is not over ---\n{}{}", why.out, why.err);
                println!("{}", town.psql(&format!("SELECT * FROM events WHERE job_id = '{id}' ORDER BY id")));
            }
            panic!("not over after {UNTIL_FINAL:?}: {open}");
        }
        pass(LOOK_EVERY);
    }
}

/// Every log has every line once and in order, or says what is missing; returns how many lines there are.
pub(super) fn await_whole_logs(town: &Town, load: &Load) -> usize {
    const OPEN: &str = "SELECT a.job_id, s.name, a.number, a.state, l.* FROM logs l JOIN attempts a ON a.id = l.attempt_id \
         JOIN steps s ON s.job_id = a.job_id AND s.ix = a.ix WHERE NOT l.complete OR l.closed";
    let mut open = String::new();
    let begun = std::time::Instant::now();
    while begun.elapsed() < UNTIL_QUIET {
        open = town.psql(OPEN);
        if open.is_empty() {
            break;
        }
        pass(LOOK_EVERY);
    }
    assert!(open.is_empty(), "logs that are not whole though every worker is there:\n{open}");
    let attempts = town.psql(
        "SELECT j.task, a.job_id, s.ix, s.name, a.number, a.exit_code IS NOT DISTINCT FROM 0 FROM attempts a \
         JOIN jobs j ON j.id = a.job_id JOIN steps s ON s.job_id = a.job_id AND s.ix = a.ix",
    );
    let mut count = 0;
    let mut wrong = Vec::new();
    for row in attempts.lines() {
        let [task, job, ix, step, number, ended_well] = columns(row);
        let lines = log(town, job, step, number);
        count += lines.iter().filter(|line| line.sub == 0).count();
        let of_step = steps_of(load, task)[ix.parse::<usize>().expect("a number")];
        if let Some(what) = differs(&lines, of_step.lines, ended_well == "t") {
            wrong.push(format!("attempt {number} of {step} of {job} ({of_step:?}): {what}"));
        }
    }
    assert!(wrong.is_empty(), "logs are wrong:\n{}", wrong.join("\n"));
    count
}

struct Line {
    seq: u64,
    sub: u64,
    text: String,
}

fn log(town: &Town, job: &str, step: &str, attempt: &str) -> Vec<Line> {
    let path = format!("/api/jobs/{job}/steps/{step}/logs?attempt={attempt}&limit=10000");
    let (status, page) = ask::get(town, SERVERS[0], &path).expect("all are well");
    assert_eq!((status, &page["complete"]), (200, &true.into()), "{path}: {page}");
    let lines = page["lines"].as_array().expect("lines").iter();
    let number = |line: &serde_json::Value, name: &str| line[name].as_u64().expect("a number");
    lines
        .map(|line| Line {
            seq: number(line, "seq"),
            sub: number(line, "sub"),
            text: line["text"].as_str().expect("a text").to_owned(),
        })
        .collect()
}

/// What is wrong with the log of a step that prints so many lines and `end`. One that ended well has printed all; of another nobody
/// knows how far it came.
fn differs(lines: &[Line], count: u64, ended_well: bool) -> Option<String> {
    let (mut last, mut announced) = (0, 0);
    for Line { seq, sub, text } in lines {
        if *sub > 0 {
            announced += missing(text);
            continue;
        }
        if *seq != last + announced + 1 {
            return Some(format!("line {seq} comes after line {last}, and {announced} are said to be missing"));
        }
        let printed = if *seq <= count { format!("line {seq}") } else { "end".to_owned() };
        if *text != printed || *seq > count + 1 {
            return Some(format!("line {seq} is {text:?}"));
        }
        (last, announced) = (*seq, 0);
    }
    let end = last + announced;
    (ended_well && end != count + 1)
        .then(|| format!("it ends with line {last}, and {announced} are said to be missing"))
}

/// How many lines a server's own line says are gone.
fn missing(text: &str) -> u64 {
    let ways = [" log lines dropped", " log lines lost", " log lines were not received"];
    let number = |way| text.split_once(way).and_then(|(before, _)| before.rsplit(' ').next()?.parse::<u64>().ok());
    ways.into_iter().find_map(number).unwrap_or(0)
}

/// Jobs, steps and attempts against what was asked for and what steps say that they did.
pub(super) fn check_rows(town: &Town, load: &Load, sent: &[Sent]) -> Seen {
    let mut seen = Seen::default();
    let jobs = town.psql("SELECT task, id, state FROM jobs");
    let jobs: Vec<[&str; 3]> = jobs.lines().map(columns).collect();
    check_jobs(&jobs, sent);
    jobs.iter().for_each(|[_, _, state]| *seen.jobs.entry((*state).to_owned()).or_default() += 1);
    let steps = town.psql(
        "SELECT j.task, s.job_id, s.ix, s.name, s.state, coalesce(s.error_code, '') FROM steps s JOIN jobs j ON j.id = s.job_id",
    );
    let starts = load.outside.starts();
    check_starts_known(town, &starts);
    let mut wrong = Vec::new();
    for ((job, step, number), times) in starts.iter().filter(|(_, times)| **times != 1) {
        wrong.push(format!("attempt {number} of {step} of {job} was started {times} times"));
    }
    for row in steps.lines() {
        let [task, job, ix, name, state, code] = columns(row);
        let kind = steps_of(load, task)[ix.parse::<usize>().expect("a number")].kind;
        let of_step = |(of, step, _): &&Place| of == job && step == name;
        let first = (job.to_owned(), name.to_owned(), 0);
        let count = starts.range(first..).map(|(place, _)| place).take_while(of_step).count();
        let end = if code.is_empty() { state.to_owned() } else { format!("{state}: {code}") };
        let allowed = match state {
            "success" => count >= 1,
            "skipped" => count == 0,
            _ => LOSSES.contains(&code),
        };
        if !allowed || count > kind.starts_max() {
            wrong.push(format!("step {name} of {job} ({}) was started {count} times and ended as {end}", kind.words()));
        }
        *seen.steps.entry((kind, end)).or_default() += 1;
        seen.starts += count;
        *seen.repeated.entry(kind).or_default() += usize::from(count > 1);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(load.outside.overlaps(), "", "two copies of a step that is to be alone");
    seen
}

/// All that was taken is there, and nothing that was asked for is there twice.
fn check_jobs(jobs: &[[&str; 3]], sent: &[Sent]) {
    let mut ids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    jobs.iter().for_each(|[task, id, _]| ids.entry(task).or_default().push(id));
    for Sent { task, id, .. } in sent {
        let there = ids.remove(task.as_str()).unwrap_or_default();
        match id {
            Some(id) => assert_eq!(there, [id], "{task}"),
            None => assert!(there.len() <= 1, "{task}: {there:?}"),
        }
    }
    assert!(ids.is_empty(), "jobs that nobody asked for: {ids:?}");
}

/// Nothing starts that is not on record.
fn check_starts_known(town: &Town, starts: &BTreeMap<Place, usize>) {
    let attempts = town
        .psql("SELECT a.job_id, s.name, a.number FROM attempts a JOIN steps s ON s.job_id = a.job_id AND s.ix = a.ix");
    let known = attempts.lines().map(|row| {
        let [job, step, number] = columns(row);
        (job.to_owned(), step.to_owned(), number.parse().expect("a number"))
    });
    let known: BTreeSet<Place> = known.collect();
    let unknown: Vec<&Place> = starts.keys().filter(|place| !known.contains(*place)).collect();
    assert!(unknown.is_empty(), "started, and not on record: {unknown:?}");
}

pub(super) fn check_database(town: &Town) {
    assert_eq!(town.psql("SELECT * FROM quarantine"), "", "events that no server could take");
    let url = town.house.env.iter().find(|(name, _)| name == "BOWLINE_DATABASE").expect("it has one");
    let checked = town.house.bowline(&["db", "check", "--database", &url.1]);
    println!("{}{}", checked.out, checked.err);
    assert_eq!(checked.code, 0, "the database is damaged");
}

/// Caretakers and runners leave by themselves.
pub(super) fn check_nothing_lives(town: &Town) {
    within(UNTIL_QUIET, "no process is left over", || town.house.living().is_empty().then_some(()));
}

/// The longest that a step was `recovering`.
pub(super) fn longest_doubt(town: &Town) -> Duration {
    let micros = town.psql(
        "SELECT coalesce(max(until - at), 0) FROM (SELECT at, \"to\", lead(at) OVER (PARTITION BY job_id, ix ORDER BY id) AS until \
         FROM events WHERE ix IS NOT NULL AND \"to\" IS NOT NULL) AS moves WHERE \"to\" = 'recovering'",
    );
    Duration::from_micros(micros.parse().expect("a number"))
}

fn steps_of(load: &Load, task: &str) -> Vec<Step> {
    let number = task.strip_prefix("chaos-").and_then(|number| number.parse().ok());
    load.steps(number.expect("one of ours"))
}

fn columns<const N: usize>(row: &str) -> [&str; N] {
    let columns: Vec<&str> = row.split('|').collect();
    columns.try_into().unwrap_or_else(|columns| panic!("{N} columns: {columns:?}"))
}

#[test]
fn a_log_that_is_not_whole_is_found() {
    let log = |lines: &[(u64, u64, &str)]| -> Vec<Line> {
        lines.iter().map(|(seq, sub, text)| Line { seq: *seq, sub: *sub, text: (*text).to_owned() }).collect()
    };
    let wrong = |lines: &[(u64, u64, &str)], ended_well| differs(&log(lines), 2, ended_well).is_some();
    let whole = [(1, 0, "line 1"), (2, 0, "line 2"), (3, 0, "end")];
    assert!(!wrong(&whole, true) && !wrong(&whole[..2], false));
    assert!(wrong(&whole[..2], true), "its end is missing");
    assert!(wrong(&whole[1..], false), "so is its beginning");
    assert!(
        wrong(&[whole[0], whole[2]], true)
            && wrong(&[whole[0], whole[0]], false)
            && wrong(&[whole[1], whole[0]], false)
    );
    assert!(wrong(&[whole[0], (2, 0, "line 3")], false) && wrong(&[whole[0], whole[1], whole[2], (4, 0, "end")], true));
    let said = [whole[0], (1, 1, "--- 1 log lines lost. ---"), whole[2]];
    assert!(!wrong(&said, true));
    assert!(
        wrong(&[said[0], (1, 1, "--- 2 log lines dropped due to buffer overflow. ---"), said[2]], true),
        "one too many"
    );
    let replay = "--- Worker offline for 1s. Replaying 1 buffered events and 2 buffered log lines. ---";
    assert!(!wrong(&[whole[0], (1, 1, replay), whole[1], whole[2]], true), "nothing is missing");
}
