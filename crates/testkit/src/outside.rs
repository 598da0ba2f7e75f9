//! What a step really did, in a file that Bowline does not know.

use std::path::{Path, PathBuf};

use crate::wait::await_that;

/// Each execution of a step appends a line when it begins and one when it ends.
#[derive(Debug, Clone)]
pub struct Outside {
    path: PathBuf,
}

impl Outside {
    pub fn new(folder: &Path) -> Outside {
        Outside { path: folder.join("outside") }
    }

    /// For a script: the first thing that it does. One `write` to a file opened for appending is never torn.
    pub fn begin(&self) -> String {
        format!("echo \"begin $BOWLINE_FENCE $$\" >> {}", self.path.display())
    }

    /// For a script: the last thing that it does.
    pub fn end(&self) -> String {
        format!("echo \"end $BOWLINE_FENCE $$\" >> {}", self.path.display())
    }

    /// How often a step was really executed.
    pub fn executions(&self) -> usize {
        self.lines("begin ").len()
    }

    pub fn completed(&self) -> usize {
        self.lines("end ").len()
    }

    /// Waits for so many executions; returns the process numbers of all of them, in order.
    pub fn await_executions(&self, count: usize) -> Vec<u32> {
        await_that(&format!("{count} executions"), || {
            let lines = self.lines("begin ");
            (lines.len() >= count).then(|| lines.iter().map(|line| pid_of(line)).collect())
        })
    }

    fn lines(&self, kind: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.split_inclusive('\n').filter(|l| l.starts_with(kind) && l.ends_with('\n')).map(str::to_owned).collect()
    }
}

fn pid_of(line: &str) -> u32 {
    line.trim_end().rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a line ends with a pid")
}
