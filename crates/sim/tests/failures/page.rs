//! Plays the rows and puts what was seen into the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::scenario::{Script, Seen};
use sim::story::Story;

use crate::cells::Cells;
use crate::row::{Row, Table};

/// The page without its tables.
const FRAME: &str = include_str!("page.md");

/// The worlds of a row; another step that it is to happen to alike gets one more.
pub(crate) const SEEDS: [u64; 4] = [1, 2, 3, 4];

/// Where chance decides, more worlds show every way.
const MORE_SEEDS: Range<u64> = 101..111;

/// A row as it turned out.
pub(crate) struct Played {
    pub cells: Cells,
    /// The step's states under each of the other settings.
    pub settings: Vec<String>,
}

/// Every row, by its name; on all cores.
pub(crate) fn play_all(rows: &[&Row]) -> BTreeMap<&'static str, Played> {
    let next = AtomicUsize::new(0);
    let played = Mutex::new(BTreeMap::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let done = play(row);
                    played.lock().expect("nobody panics while holding it").insert(row.id, done);
                }
            });
        }
    });
    played.into_inner().expect("nobody panics while holding it")
}

pub(crate) fn play(row: &Row) -> Played {
    let more = if row.either { MORE_SEEDS } else { 0..0 };
    let alike = row.alike.iter().zip(SEEDS.len() as u64 + 1..);
    let few = if row.long { 2 } else { SEEDS.len() };
    let plays = SEEDS.into_iter().take(few).chain(more).map(|seed| (&row.script, seed)).chain(alike);
    let worlds: Vec<Seen> = plays.map(|(script, seed)| world(row, script, seed)).collect();
    let settings = row.settings.iter().map(|setting| {
        let script = row.script.clone().config(setting);
        let worlds: Vec<Seen> = SEEDS.iter().map(|seed| world(row, &script, *seed)).collect();
        Cells::of(&worlds, row.either).step
    });
    let played = Played { settings: settings.collect(), cells: Cells::of(&worlds, row.either) };
    // Shown only if something fails: the row that did is not among them.
    println!("row {} was played", row.id);
    played
}

fn world(row: &Row, script: &Script, seed: u64) -> Seen {
    let seen = sim::scenario::play(script, seed, Story::untold());
    let seen = seen.unwrap_or_else(|stuck| panic!("row {}, seed {seed}: {stuck}", row.id));
    assert!(seen.findings.is_empty(), "row {}, seed {seed}: {:?}", row.id, seen.findings);
    seen
}

/// The frame with its tables; `<!-- rows server -->` is where one stands, `<!-- settings -->` where the settings do.
pub(crate) fn render(tables: &[Table], played: &BTreeMap<&str, Played>) -> String {
    let mut page = FRAME.to_owned();
    for table in tables {
        let place = format!("<!-- rows {} -->\n", table.name);
        assert!(page.contains(&place), "the page has no place for the rows of {}", table.name);
        page = page.replace(&place, &render_table(table, played));
    }
    let rows = || tables.iter().flat_map(|table| &table.rows);
    page = page.replace("<!-- settings -->\n", &render_settings(rows(), played));
    for row in rows() {
        // Figures in the text are seen ones too.
        page = page.replace(&format!("{{{}}}", row.id), &played[row.id].cells.step);
    }
    assert!(!page.contains("<!-- rows"), "a place in the page has no rows");
    page
}

fn render_table(table: &Table, played: &BTreeMap<&str, Played>) -> String {
    let mut text = String::from("| row | event | the step | its process | it ends as | its log | decided by |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for row in &table.rows {
        let Cells { step, process, end, log, .. } = &played[row.id].cells;
        let cells = [&format!("`{}`", row.id), row.case, step, process, end, log, row.rule];
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push_str("\nThe words:\n\n");
    for row in &table.rows {
        text.push_str(&render_words(row, &played[row.id].cells));
    }
    text
}

fn render_words(row: &Row, cells: &Cells) -> String {
    let mut text = String::new();
    if let Some(error) = &cells.error {
        let _ = writeln!(text, "  * error: {error}");
    }
    for why in &cells.whys {
        let _ = writeln!(text, "  * `bowline why`: {why}");
    }
    if !row.real.is_empty() {
        let tests: Vec<String> = row.real.iter().map(|test| format!("`{test}`")).collect();
        let _ = writeln!(text, "  * with real processes: {}", tests.join(", "));
    }
    if text.is_empty() { text } else { format!("* `{}`\n{text}", row.id) }
}

fn render_settings<'a>(rows: impl Iterator<Item = &'a Row>, played: &BTreeMap<&str, Played>) -> String {
    let mut text = String::from("| setting | row | by default | with the setting |\n|---|---|---|---|\n");
    for row in rows {
        for (setting, step) in row.settings.iter().zip(&played[row.id].settings) {
            let by_default = &played[row.id].cells.step;
            let _ = writeln!(text, "| `{setting}` | `{}` | {by_default} | {step} |", row.id);
        }
    }
    text
}
