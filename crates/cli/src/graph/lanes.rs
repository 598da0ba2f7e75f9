//! The edges of a graph as lines beside its rows.
//!
//! Steps that the same steps wait for share a line: they flow into it at the dots, and those that wait branch off below.
//! So a line stands for every edge from the ones to the others, and for no edge else.
//!
//! ```text
//!  ●──── build      a line begins
//!  ├─●─▶ unit       waits for the left line, begins the right one
//!  ╰─●─▶ smoke      the left line ends; smoke flows into the right one too
//!  ●─│── other      a line that is only crossed stays whole
//! ```

use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    width: usize,
}

#[derive(Debug)]
struct Lane {
    column: usize,
    /// The rows that are waited for; all of them are above those that wait.
    from: Vec<usize>,
    to: Vec<usize>,
}

impl Lanes {
    /// `needs`: for each row those rows above it that it waits for.
    pub(super) fn new(needs: &[Vec<usize>]) -> Lanes {
        let mut dependents = vec![Vec::new(); needs.len()];
        for (row, needs) in needs.iter().enumerate() {
            for &need in needs {
                dependents[need].push(row);
            }
        }
        let mut alike: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for (row, dependents) in dependents.into_iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            alike.entry(dependents).or_default().push(row);
        }
        let mut lanes: Vec<Lane> = alike.into_iter().map(|(to, from)| Lane { column: 0, from, to }).collect();
        lanes.sort_by_key(Lane::first);
        // A column is free again below the row in which its line ended.
        let mut ends: Vec<usize> = Vec::new();
        for lane in &mut lanes {
            lane.column = ends.iter().position(|&end| end < lane.first()).unwrap_or(ends.len());
            match ends.get_mut(lane.column) {
                Some(end) => *end = lane.last(),
                None => ends.push(lane.last()),
            }
        }
        Lanes { lanes, width: ends.len() }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// What stands left of a row's name.
    pub(super) fn row(&self, row: usize) -> String {
        let mut columns: Vec<Option<&Lane>> = vec![None; self.width];
        for lane in self.lanes.iter().filter(|lane| lane.first() <= row && row <= lane.last()) {
            columns[lane.column] = Some(lane);
        }
        let meets = |lane: &Option<&Lane>| lane.is_some_and(|lane| lane.meets(row));
        let leftmost = columns.iter().position(meets).unwrap_or(self.width);
        let mut text = String::new();
        for (column, lane) in columns.into_iter().enumerate() {
            let is_right = column > leftmost;
            text.push(match lane {
                Some(lane) if lane.meets(row) => lane.joint(row, is_right),
                Some(_) => '│',
                None if is_right => '─',
                None => ' ',
            });
            text.push(if column >= leftmost { '─' } else { ' ' });
        }
        let waits = self.lanes.iter().any(|lane| lane.to.binary_search(&row).is_ok());
        text.push_str(match (waits, leftmost < self.width) {
            (true, _) => "▶ ",
            (false, true) => "─ ",
            (false, false) if self.width > 0 => "  ",
            (false, false) => "",
        });
        text
    }
}

impl Lane {
    fn first(&self) -> usize {
        self.from.first().copied().unwrap_or(0)
    }

    fn last(&self) -> usize {
        self.to.last().copied().unwrap_or(0)
    }

    fn meets(&self, row: usize) -> bool {
        self.from.binary_search(&row).is_ok() || self.to.binary_search(&row).is_ok()
    }

    /// `is_right`: the row's line goes on to another one left of this.
    fn joint(&self, row: usize, is_right: bool) -> char {
        match (self.from.binary_search(&row).is_ok(), row < self.last(), is_right) {
            (true, _, _) => '●',
            (false, true, true) => '┼',
            (false, true, false) => '├',
            (false, false, true) => '┴',
            (false, false, false) => '╰',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edges as a person reads them off the picture, who knows nothing but what the signs mean.
    fn read_back(rows: &[String]) -> Vec<Vec<usize>> {
        let mut flowing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut needs = vec![Vec::new(); rows.len()];
        for (row, text) in rows.iter().enumerate() {
            for (column, sign) in text.chars().enumerate() {
                match sign {
                    '●' => flowing.entry(column).or_default().push(row),
                    '├' | '┼' => needs[row].extend(&flowing[&column]),
                    '╰' | '┴' => needs[row].extend(flowing.remove(&column).expect("a line ends once")),
                    '│' => assert!(flowing.contains_key(&column), "nothing flows here: {rows:#?}"),
                    _ => {}
                }
            }
            needs[row].sort_unstable();
            assert_eq!(text.contains('▶'), !needs[row].is_empty(), "{rows:#?}");
        }
        assert!(flowing.is_empty(), "every line ends: {rows:#?}");
        needs
    }

    /// Numbers without a pattern, the same in every run.
    fn dice(state: &mut u64, sides: usize) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*state >> 33).expect("31 bits") % sides
    }

    #[test]
    fn every_picture_says_what_the_graph_says() {
        let mut state = 1;
        for _ in 0..500 {
            let count = 1 + dice(&mut state, 25);
            let density = 2 + dice(&mut state, 6);
            let needs: Vec<Vec<usize>> =
                (0..count).map(|row| (0..row).filter(|_| dice(&mut state, density) == 0).collect()).collect();
            let lanes = Lanes::new(&needs);
            let rows: Vec<String> = (0..count).map(|row| lanes.row(row)).collect();
            assert_eq!(read_back(&rows), needs, "{rows:#?}");
            assert!(rows.iter().all(|row| row.chars().count() == rows[0].chars().count()), "{rows:#?}");
        }
    }
}
