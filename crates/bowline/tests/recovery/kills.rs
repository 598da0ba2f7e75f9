//! A job of five hundred steps, with everything that waits for something, and a server that is killed in the midst of it, at
//! moments that a seed chooses. It must end as if nothing had happened.
//!
//! `make test` tries the first seeds, `make kills` fifty.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use testkit::{House, Role, await_that, postgres};

use crate::dice::Dice;
use crate::story::pass;

const PHASES: usize = 3;
const WIDE: usize = 130;
const FLAKY: usize = 15;
const KIDS: usize = 6;
const RUSH: usize = 8;

/// Each run loses its server so often.
const KILLS: usize = 3;

/// A child that ended so shortly before the last write has just ended.
const JUST_NOW_US: i64 = 100_000;

/// What a kill can come in the midst of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Held,
    Waiting,
    Cancelling,
    ChildEnded,
    AnyTime,
}

const MOMENTS: [Moment; 4] = [Moment::Held, Moment::Waiting, Moment::Cancelling, Moment::ChildEnded];

#[test]
fn a_job_of_five_hundred_steps_ends_the_same_however_often_its_server_is_killed() {
    let seeds: u64 = std::env::var("BOWLINE_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(4);
    let undisturbed = Run::new().to_its_end();
    assert_eq!(undisturbed, expected(), "without a kill");
    let mut hits: BTreeMap<Moment, u64> = BTreeMap::new();
    for seed in 1..=seeds {
        let mut run = Run::new();
        let hit = run.disturb(seed);
        println!("seed {seed}: {hit:?}");
        assert_eq!(run.to_its_end(), undisturbed, "seed {seed}");
        hit.into_iter().for_each(|moment| *hits.entry(moment).or_default() += 1);
    }
    println!("{seeds} seeds: {hits:?}");
    for moment in MOMENTS {
        let hit = hits.get(&moment).copied().unwrap_or(0);
        assert!(hit >= (seeds / 8).min(5), "{moment:?} was hit by {hit} of {seeds} seeds");
    }
}

struct Run {
    house: House,
    server: Option<Role>,
    _worker: Role,
    job: String,
}

impl Run {
    fn new() -> Run {
        let mut house = House::new();
        house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30")]);
        house
            .write("tasks/kid.yaml", "name: kid\nsteps:\n  a: { run: ['true'] }\n  b: { needs: [a], run: ['true'] }\n");
        let server = house.start_server();
        let worker = house.start_worker("w", &["--slots", "12"]);
        let job = house.submit(&task(&house));
        Run { house, server: Some(server), _worker: worker, job }
    }

    /// Kills the server at moments that the seed chooses, and says what each of them came in the midst of.
    fn disturb(&mut self, seed: u64) -> BTreeSet<Moment> {
        let mut dice = Dice::new(seed);
        let mut hit = BTreeSet::new();
        for kill in 0..KILLS {
            let first = usize::try_from(seed).expect("a small number") % MOMENTS.len();
            let moment = if kill == 0 {
                MOMENTS[first]
            } else {
                dice.of(&[Moment::AnyTime, MOMENTS[0], MOMENTS[1], MOMENTS[2], MOMENTS[3]])
            };
            let patience = Duration::from_millis(dice.roll(2_000));
            if !self.await_moment(moment, patience) {
                break;
            }
            self.server.take().expect("it runs").kill();
            hit.extend(Rows::open(&self.house).in_the_midst());
            pass(Duration::from_millis(dice.roll(700)));
            self.server = Some(self.house.start_server());
        }
        hit
    }

    /// False: the job was over first.
    fn await_moment(&self, moment: Moment, patience: Duration) -> bool {
        let (rows, begun) = (Rows::open(&self.house), Instant::now());
        let ended = rows.ended_children();
        loop {
            let states = rows.states();
            if rows.is_over() {
                return false;
            }
            let has = |word: &str| states.iter().any(|(_, state)| state == word);
            let come = match moment {
                Moment::Held => has("held"),
                Moment::Waiting => has("waiting"),
                Moment::Cancelling => has("cancelling"),
                Moment::ChildEnded => rows.ended_children() > ended,
                Moment::AnyTime => begun.elapsed() >= patience,
            };
            if come {
                return true;
            }
            if moment != Moment::Held {
                self.approve(&states);
            }
            pass(Duration::from_millis(2));
        }
    }

    fn approve(&self, states: &[(String, String)]) {
        for (gate, _) in states.iter().filter(|(_, state)| state == "held") {
            // Another look may come before the row says that it was heard.
            self.house.bowline(&["approve", &self.job, gate]);
        }
    }

    /// Approves what is left, and tells how every step ended, with how many executions, and how many child jobs ended how.
    fn to_its_end(&self) -> Ends {
        let rows = Rows::open(&self.house);
        await_that("the job is over", || {
            self.approve(&rows.states());
            rows.is_over().then_some(())
        });
        let job = self.house.job(&self.job);
        assert_eq!(job["state"], "success", "{:#}", job["error"]);
        let ran: Vec<String> = self.house.read("ran").lines().map(str::to_owned).collect();
        let distinct: BTreeSet<&String> = ran.iter().collect();
        assert_eq!((ran.len(), distinct.len()), (PHASES * WIDE, PHASES * WIDE), "each ran once");
        let end = |step: &Value| {
            let word = |key: &str| step[key].as_str().expect("a word").to_owned();
            (word("name"), (word("state"), step["attempts"].as_array().expect("a list").len()))
        };
        let ends: BTreeMap<_, _> = job["steps"].as_array().expect("steps").iter().map(end).collect();
        // Those that were called off before they had begun have none: that is as chance has it.
        let steps = ends
            .into_iter()
            .map(|(name, (state, n))| (name, (state.clone(), if state == "cancelled" { 0 } else { n })))
            .collect();
        Ends { steps, children: rows.children() }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Ends {
    steps: BTreeMap<String, (String, usize)>,
    children: BTreeMap<String, usize>,
}

/// What an operator's query would see, also while no server runs.
enum Rows {
    File(Connection),
    Database(RefCell<postgres::Session>),
}

impl Rows {
    fn open(house: &House) -> Rows {
        if let Some(database) = &house.database {
            return Rows::Database(RefCell::new(database.session()));
        }
        let path: PathBuf = house.path("data/bowline.db");
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("a database");
        connection.busy_timeout(Duration::from_secs(10)).expect("set");
        Rows::File(connection)
    }

    fn pairs(&self, text: &str) -> Vec<(String, String)> {
        match self {
            Rows::File(connection) => {
                let mut query = connection.prepare_cached(text).expect("a query");
                let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
                rows.collect::<Result<_, _>>().expect("texts")
            }
            Rows::Database(session) => {
                let pair = |row: Vec<String>| row.try_into().map(|[one, other]: [String; 2]| (one, other));
                session.borrow_mut().ask(text).into_iter().map(|row| pair(row).expect("two columns")).collect()
            }
        }
    }

    /// The open steps of the job itself.
    fn states(&self) -> Vec<(String, String)> {
        let text = "SELECT s.name, s.state FROM steps s JOIN jobs j ON j.id = s.job_id
                    WHERE j.task = 'five-hundred' AND s.check_at IS NOT NULL";
        self.pairs(text)
    }

    fn number(&self, text: &str) -> i64 {
        match self {
            Rows::File(connection) => connection.query_row(text, [], |row| row.get(0)).expect("a number"),
            Rows::Database(session) => session.borrow_mut().ask(text)[0][0].parse().expect("a number"),
        }
    }

    fn is_over(&self) -> bool {
        self.number("SELECT count(*) FROM jobs WHERE task = 'five-hundred' AND ended_at IS NOT NULL") == 1
    }

    fn ended_children(&self) -> i64 {
        self.number("SELECT count(*) FROM jobs WHERE task = 'kid' AND ended_at IS NOT NULL")
    }

    /// How many child jobs, and how many steps of theirs, are in which state.
    fn children(&self) -> BTreeMap<String, usize> {
        let jobs = "SELECT state, CAST(count(*) AS TEXT) FROM jobs WHERE task = 'kid' GROUP BY state";
        let steps =
            "SELECT s.name || ' ' || s.state, CAST(count(*) AS TEXT) FROM steps s JOIN jobs j ON j.id = s.job_id
                     WHERE j.task = 'kid' GROUP BY s.name, s.state";
        let count = |(what, number): (String, String)| (what, number.parse().expect("a number"));
        self.pairs(jobs).into_iter().chain(self.pairs(steps)).map(count).collect()
    }

    /// What the server died in the midst of.
    fn in_the_midst(&self) -> Vec<Moment> {
        let states: BTreeSet<String> = self.states().into_iter().map(|(_, state)| state).collect();
        let newest = self.number("SELECT max(updated_at) FROM steps");
        let child = self.number("SELECT coalesce(max(ended_at), 0) FROM jobs WHERE task = 'kid'");
        let words = [(Moment::Held, "held"), (Moment::Waiting, "waiting"), (Moment::Cancelling, "cancelling")];
        let mut hit: Vec<Moment> = words.iter().filter(|(_, word)| states.contains(*word)).map(|(m, _)| *m).collect();
        if newest - child < JUST_NOW_US {
            hit.push(Moment::ChildEnded);
        }
        hit
    }
}

fn task(house: &House) -> String {
    let ran = house.path("ran").display().to_string();
    let numbers = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let (wide, flaky, kids, rush) = (numbers(WIDE), numbers(FLAKY), numbers(KIDS), numbers(RUSH));
    let mut text = "name: five-hundred\nsteps:\n".to_owned();
    for phase in 0..PHASES {
        let before = phase.checked_sub(1).map_or(String::new(), |before| format!("rush{before}"));
        text += &format!(
            "  wide{phase}: {{ needs: [{before}], for_each: [{wide}], run: 'echo {phase}.{{{{ item }}}} >> {ran}' }}
  flaky{phase}:
    needs: [{before}]
    for_each: [{flaky}]
    run: '[ $BOWLINE_ATTEMPT -ge 2 ]'
    retry: {{ attempts: 3, delay: 300ms }}
  kids{phase}: {{ needs: [flaky{phase}], for_each: [{kids}], task: kid }}
  gate{phase}: {{ needs: [flaky{phase}], approve: {{ message: 'Go on?' }} }}
  rush{phase}:
    needs: [wide{phase}, kids{phase}, gate{phase}]
    for_each: [{rush}]
    fail_fast: true
    allow_failure: true
    cancel: {{ grace: 20s }}
    run: |
      [ {{{{ item }}}} != 0 ] || {{ sleep 0.3; exit 1; }}
      trap 'sleep 0.3; exit 0' TERM
      sleep 60 & wait
"
        );
    }
    text
}

/// How every step ends, with how many executions; and of a child job for each item of `kids` all of it.
fn expected() -> Ends {
    let mut all = BTreeMap::new();
    let mut end = |name: String, state: &str, executions: usize| all.insert(name, (state.to_owned(), executions));
    for phase in 0..PHASES {
        for (name, count, executions) in [("wide", WIDE, 1), ("flaky", FLAKY, 2), ("kids", KIDS, 0)] {
            end(format!("{name}{phase}"), "success", 0);
            (0..count).for_each(|n| drop(end(format!("{name}{phase}[{n}]"), "success", executions)));
        }
        end(format!("gate{phase}"), "success", 0);
        end(format!("rush{phase}"), "failed", 0);
        end(format!("rush{phase}[0]"), "failed", 1);
        (1..RUSH).for_each(|n| drop(end(format!("rush{phase}[{n}]"), "cancelled", 0)));
    }
    let children = ["success", "a success", "b success"].map(|what| (what.to_owned(), PHASES * KIDS));
    Ends { steps: all, children: children.into() }
}
