//! What is done to whole databases: bringing them up to date, backing them up, moving them to another store.

mod backup;
mod check;
mod copy;
mod migrate;

use std::path::Path;

use crate::house::House;

/// Something of several kinds: a job that is over, with its log, and one that went on for it.
fn two_jobs(house: &House) -> (String, String) {
    let first = house.submit("name: t\nsteps: { a: { run: echo hello }, b: { run: echo again, needs: a } }\n");
    house.end(&first);
    let second = house.bowline(&["retry", &first]).ok().out.trim().to_owned();
    house.end(&second);
    (first, second)
}

fn arguments<'a>(words: &[&'a str], place: &'a str) -> Vec<&'a str> {
    [words, &[place]].concat()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
