//! What a followed job looks like. Chosen once, by where the output goes and how many steps there are.

use std::io;

use api::job::StepKind;
use api::{Job, LogLine};

use super::bare::Bare;
use super::live::Live;
use super::prefixed::Prefixed;
use super::track::Track;
use super::tree::Share;
use crate::print::is_lively;

pub(crate) trait View {
    fn begin(&mut self, track: &Track) -> io::Result<()>;
    fn step_changed(&mut self, track: &Track, index: usize) -> io::Result<()>;
    fn lines(&mut self, step: &str, lines: &[LogLine]) -> io::Result<()>;
    /// No more lines of the step's attempt.
    fn log_ended(&mut self, step: &str) -> io::Result<()>;
    /// Something about the following itself, for people.
    fn notice(&mut self, text: &str) -> io::Result<()>;
    fn end(&mut self, track: &Track) -> io::Result<()>;

    /// Whether it wants [`tick`](View::tick)s.
    fn is_live(&self) -> bool {
        false
    }

    fn tick(&mut self, _track: &Track) -> io::Result<()> {
        Ok(())
    }
}

/// Whether nobody needs to be told whose a line is.
pub(crate) fn has_one_log(job: &Job) -> bool {
    matches!(job.steps.as_slice(), [only] if only.kind != StepKind::FanOut)
}

/// What of a job is wanted besides its end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish {
    /// The job as JSON: that is what stdout is for then.
    pub(crate) json: bool,
    /// The steps alone, without their logs.
    pub(crate) watch: bool,
}

pub(crate) fn choose(job: &Job, wish: Wish) -> Box<dyn View> {
    if is_lively() {
        Box::new(Live::new(job, if wish.watch { Share::Whole } else { Share::BesidesLog }))
    } else if wish.json || wish.watch {
        Box::new(Prefixed::on_stderr().telling_begin(wish.watch))
    } else if has_one_log(job) {
        Box::new(Bare)
    } else {
        Box::new(Prefixed::by_stream())
    }
}
