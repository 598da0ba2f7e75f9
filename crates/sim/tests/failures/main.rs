//! docs/failures.md, executed: every row of its tables is a script that is played in several simulated worlds, and the cells
//! are what was seen there. The page is compared whole; `UPDATE_DOCS=1` writes it anew.
//!
//! `ROW=id` plays one row only, and tells its story.

mod cells;
mod page;
mod row;
mod rows;
mod times;
mod words;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sim::story::{Listener, Story};

use crate::page::Played;

#[test]
fn the_page_says_what_happens() {
    if let Ok(id) = std::env::var("ROW") {
        return show(&id);
    }
    let tables = rows::tables();
    let rows: Vec<&row::Row> = tables.iter().flat_map(|table| &table.rows).collect();
    let played = page::play_all(&rows);
    let page = page::render(&tables, &played);
    let path = root().join("docs/failures.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, page).expect("the page can be written");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((said, seen)) = stored.lines().zip(page.lines()).find(|(said, seen)| said != seen) {
        panic!(
            "docs/failures.md says\n  {said}\nand what happens is\n  {seen}\n(`UPDATE_DOCS=1` writes the page anew)"
        );
    }
    assert!(stored == page, "docs/failures.md is not what happens; `UPDATE_DOCS=1` writes it anew");
}

#[test]
fn every_row_has_a_name_of_its_own_and_names_tests_that_exist() {
    let tables = rows::tables();
    let mut names = BTreeSet::new();
    let tests = texts(&root().join("crates/bowline/tests"));
    for row in tables.iter().flat_map(|table| &table.rows) {
        assert!(names.insert(row.id), "two rows are called {}", row.id);
        for test in &row.real {
            let line = format!("fn {test}(");
            assert!(
                tests.iter().any(|text| text.contains(&line)),
                "{} names {test}, and there is no such test",
                row.id
            );
        }
    }
    assert!(names.len() >= 60, "the table is there");
}

fn show(id: &str) {
    let tables = rows::tables();
    let row = tables.iter().flat_map(|table| &table.rows).find(|row| row.id == id).expect("such a row");
    for seed in page::SEEDS {
        println!("seed {seed}");
        let seen = sim::scenario::play(&row.script, seed, Story::told_to(Listener::Stdout));
        println!("{seen:#?}");
    }
    let Played { cells, settings } = page::play(row);
    println!("{}\n{}\n{}\n{}\n{:?}", cells.step, cells.process, cells.end, cells.log, cells.error);
    cells.whys.iter().chain(&settings).for_each(|line| println!("{line}"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn texts(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut all = Vec::new();
    for path in entries.map(|entry| entry.expect("readable").path()) {
        if path.is_dir() {
            all.extend(texts(&path));
        } else {
            all.push(std::fs::read_to_string(&path).expect("readable"));
        }
    }
    all
}
