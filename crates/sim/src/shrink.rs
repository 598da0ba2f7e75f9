//! Makes a case with a finding smaller, as long as the same checker finds something: first the faults (delta debugging), then
//! the jobs, the hosts, and how long each fault lasts. What is left is what a person has to read.

use std::time::{Duration, Instant};

use crate::case::Case;
use crate::story::Story;

/// Nothing is gained by faults shorter than this.
const TIME_MIN: Duration = Duration::from_millis(100);

pub struct Shrunk {
    pub case: Case,
    /// Which faults of the original schedule are left, from 1, before their times were made shorter.
    pub only: Vec<usize>,
    pub runs: usize,
}

/// `budget` is real time; what has been reached by then is the answer.
pub fn shrink(case: &Case, checker: &str, budget: Duration) -> Shrunk {
    let mut press = Press { case: case.clone(), checker, until: Instant::now() + budget, runs: 0 };
    let only = press.fewer_faults();
    press.fewer_jobs();
    press.fewer_schedules();
    press.fewer_calls();
    press.fewer_hosts();
    press.fewer_rules();
    press.shorter_times();
    Shrunk { case: press.case, only: only.iter().map(|ix| ix + 1).collect(), runs: press.runs }
}

struct Press<'a> {
    /// The smallest so far.
    case: Case,
    checker: &'a str,
    until: Instant,
    runs: usize,
}

impl Press<'_> {
    /// Takes the smaller case if it still shows the finding.
    fn try_case(&mut self, smaller: Case) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        self.runs += 1;
        let verdict = smaller.run(&Story::untold(), None);
        let shows = verdict.findings.iter().any(|finding| finding.checker == self.checker);
        if shows {
            self.case = smaller;
        }
        shows
    }

    fn fewer_faults(&mut self) -> Vec<usize> {
        let whole = self.case.faults.clone();
        let all = (0..whole.len()).collect();
        fewest(all, |left| {
            let faults = left.iter().map(|ix| whole[*ix]).collect();
            self.try_case(Case { faults, ..self.case.clone() })
        })
    }

    fn fewer_jobs(&mut self) {
        let whole = self.case.jobs.clone();
        let all = (0..whole.len()).collect();
        fewest(all, |left| {
            let jobs = left.iter().map(|ix| whole[*ix].clone()).collect();
            self.try_case(Case { jobs, ..self.case.clone() })
        });
    }

    fn fewer_schedules(&mut self) {
        let whole = self.case.schedules.clone();
        if whole.is_empty() {
            return;
        }
        let all = (0..whole.len()).collect();
        fewest(all, |left| {
            let schedules = left.iter().map(|ix| whole[*ix].clone()).collect();
            self.try_case(Case { schedules, ..self.case.clone() })
        });
    }

    fn fewer_calls(&mut self) {
        let whole = self.case.calls.clone();
        if whole.is_empty() {
            return;
        }
        fewest((0..whole.len()).collect(), |left| {
            let calls = left.iter().map(|ix| whole[*ix].clone()).collect();
            self.try_case(Case { calls, ..self.case.clone() })
        });
        for number in 0..self.case.calls.len() {
            let times = self.case.calls[number].at_ms.clone();
            fewest((0..times.len()).collect(), |left| {
                let mut fewer = self.case.clone();
                fewer.calls[number].at_ms = left.iter().map(|ix| times[*ix]).collect();
                self.try_case(fewer)
            });
        }
    }

    /// From the last on, as long as no fault names it.
    fn fewer_hosts(&mut self) {
        while self.case.hosts.len() > 1 {
            let last = self.case.hosts.len() - 1;
            let named = self.case.faults.iter().any(|fault| fault.kind.host() == Some(last));
            let hosts = self.case.hosts[..last].to_vec();
            if named || !self.try_case(Case { hosts, ..self.case.clone() }) {
                break;
            }
        }
    }

    /// What the servers' configuration says, and what the plans that are left ask for besides.
    fn fewer_rules(&mut self) {
        if self.case.tells {
            self.try_case(Case { tells: false, ..self.case.clone() });
        }
        if self.case.config.is_some() {
            self.try_case(Case { config: None, ..self.case.clone() });
        }
        if self.case.queue_secs.is_some() {
            self.try_case(Case { queue_secs: None, ..self.case.clone() });
        }
        if self.case.retention.is_some() {
            self.try_case(Case { retention: None, ..self.case.clone() });
        }
        for ix in 0..self.case.jobs.len() {
            if self.case.jobs[ix].by.is_some() {
                let mut plain = self.case.clone();
                plain.jobs[ix].by = None;
                self.try_case(plain);
            }
        }
    }

    fn shorter_times(&mut self) {
        for ix in 0..self.case.faults.len() {
            for which in 0..self.case.faults[ix].kind.times_mut().len() {
                loop {
                    let mut shorter = self.case.clone();
                    let mut times = shorter.faults[ix].kind.times_mut();
                    let time = &mut *times[which];
                    if *time / 2 < TIME_MIN {
                        break;
                    }
                    *time = crate::millis::whole(*time / 2);
                    if !self.try_case(shorter) {
                        break;
                    }
                }
            }
        }
    }
}

/// Delta debugging: drops ever smaller pieces of `items` for as long as `shows` says that what is left still does.
fn fewest(mut items: Vec<usize>, mut shows: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    if shows(&[]) {
        return Vec::new();
    }
    let mut pieces = 2;
    while items.len() > 1 {
        let size = items.len().div_ceil(pieces);
        let smaller = (0..items.len()).step_by(size).find_map(|from| {
            let without: Vec<usize> = items
                .iter()
                .enumerate()
                .filter(|(at, _)| !(from..from + size).contains(at))
                .map(|(_, ix)| *ix)
                .collect();
            shows(&without).then_some(without)
        });
        match smaller {
            Some(left) => {
                items = left;
                pieces = (pieces - 1).max(2);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(items.len()),
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_few_that_matter_are_left() {
        let mut runs = 0;
        let left = fewest((0..60).collect(), |left| {
            runs += 1;
            [7, 31, 32].iter().all(|wanted| left.contains(wanted))
        });
        assert_eq!(left, [7, 31, 32]);
        assert!(runs < 120, "{runs} runs");
        assert!(fewest((0..60).collect(), |_| true).is_empty());
        assert_eq!(fewest((0..3).collect(), |left| left.len() == 3), [0, 1, 2]);
    }
}
