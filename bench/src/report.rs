//! All figures of a run, as a table for people and as JSON for programs.

use serde_json::{Value, json};

use crate::bowline::Bowline;
use crate::figure::{Figure, Target};
use crate::{Effort, Letter, Outcome};

const HEADINGS: [&str; 6] = ["figure", "measured", "limit of this run", "ratio", "wanted", ""];

#[derive(Debug)]
pub(crate) struct Report {
    version: String,
    kernel: String,
    cores: usize,
    quick: bool,
    figures: Vec<(Letter, Figure)>,
    failures: Vec<(Letter, String)>,
}

impl Report {
    pub(crate) fn new(bowline: &Bowline, effort: Effort) -> Outcome<Report> {
        Ok(Report {
            version: bowline.version()?,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cores: std::thread::available_parallelism()?.get(),
            quick: effort.quick,
            figures: Vec::new(),
            failures: Vec::new(),
        })
    }

    pub(crate) fn add(&mut self, letter: Letter, figures: Vec<Figure>) {
        self.figures.extend(figures.into_iter().map(|figure| (letter, figure)));
    }

    pub(crate) fn failed(&mut self, letter: Letter, why: String) {
        self.failures.push((letter, why));
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.failures.is_empty()
    }

    pub(crate) fn table(&self) -> String {
        let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(self.figures.iter().map(|(letter, figure)| row(*letter, figure)));
        let mut text = format!("{}, {} cores, Linux {}\n", self.version, self.cores, self.kernel);
        text.push_str(&aligned(&rows));
        for (letter, why) in &self.failures {
            text.push_str(&format!("({}) FAILED: {why}\n", self::letter(*letter)));
        }
        text
    }

    pub(crate) fn json(&self) -> String {
        let value = json!({
            "version": self.version,
            "cores": self.cores,
            "kernel": self.kernel,
            "quick": self.quick,
            "figures": self.figures.iter().map(|(letter, figure)| figure_json(*letter, figure)).collect::<Vec<_>>(),
            "failures": self
                .failures
                .iter()
                .map(|(letter, why)| json!({ "id": self::letter(*letter), "error": why }))
                .collect::<Vec<_>>(),
        });
        format!("{value:#}")
    }
}

/// As the table and the JSON name a measurement.
pub(crate) fn letter(letter: Letter) -> &'static str {
    match letter {
        Letter::A => "a",
        Letter::B => "b",
        Letter::C => "c",
        Letter::D => "d",
        Letter::E => "e",
        Letter::F => "f",
        Letter::G => "g",
        Letter::H => "h",
        Letter::I => "i",
        Letter::J => "j",
        Letter::K => "k",
        Letter::L => "l",
        Letter::M => "m",
    }
}

fn row(letter: Letter, figure: &Figure) -> Vec<String> {
    let unit = figure.unit;
    let verdict = match figure.is_met() {
        None => "",
        Some(true) => "ok",
        Some(false) => "below target",
    };
    vec![
        format!("({}) {}", self::letter(letter), figure.name),
        unit.show(figure.value),
        figure.limit.as_ref().map(|limit| format!("{}: {}", limit.name, unit.show(limit.value))).unwrap_or_default(),
        figure.ratio().map(|ratio| format!("{ratio:.2} ×")).unwrap_or_default(),
        figure.target.map(|target| target.show(unit)).unwrap_or_default(),
        verdict.to_owned(),
    ]
}

fn figure_json(letter: Letter, figure: &Figure) -> Value {
    let target = figure.target.map(|target| match target {
        Target::AtLeast(least) => json!({ "at_least": least }),
        Target::Below(bound) => json!({ "below": bound }),
        Target::RatioAtLeast(least) => json!({ "ratio_at_least": least }),
        Target::RatioAtMost(most) => json!({ "ratio_at_most": most }),
    });
    json!({
        "id": self::letter(letter),
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit.word(),
        "limit": figure.limit.as_ref().map(|limit| json!({ "name": limit.name, "value": limit.value })),
        "ratio": figure.ratio(),
        "target": target,
        "met": figure.is_met(),
    })
}

/// Columns as wide as their widest cell; numbers (the second and fourth) to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| match column {
                1 | 3 => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Unit;

    fn report() -> Report {
        let figure =
            Figure::new("steps", 500.0, Unit::PerSecond).limit("raw", 2_500.0).target(Target::RatioAtLeast(0.25));
        Report {
            version: "bowline 1".to_owned(),
            kernel: "6".to_owned(),
            cores: 2,
            quick: true,
            figures: vec![(Letter::A, figure), (Letter::B, Figure::new("p95", 5.0, Unit::Millis))],
            failures: Vec::new(),
        }
    }

    #[test]
    fn the_table_lines_up_and_says_what_is_missed() {
        let expected = "\
bowline 1, 2 cores, Linux 6
figure     measured  limit of this run   ratio  wanted
(a) steps    500 /s  raw: 2,500 /s      0.20 ×  at least 0.25 ×  below target
(b) p95     5.00 ms
";
        assert_eq!(report().table(), expected);
    }

    #[test]
    fn a_failure_is_in_the_table_and_in_the_json() {
        let mut report = report();
        assert!(report.is_whole());
        report.failed(Letter::D, "a line is missing".to_owned());
        assert!(!report.is_whole());
        assert!(report.table().ends_with("(d) FAILED: a line is missing\n"));
        let json: Value = serde_json::from_str(&report.json()).expect("json");
        assert_eq!(json["failures"][0], json!({ "id": "d", "error": "a line is missing" }));
        assert_eq!(json["figures"][0]["ratio"], json!(0.2));
        assert_eq!(json["figures"][1]["met"], Value::Null);
    }
}
