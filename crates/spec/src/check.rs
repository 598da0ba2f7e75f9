//! `bowline check`: one file of any of the three kinds, told apart by its keys.

use crate::config::shape::{SERVER, WORKER};
use crate::config::{self, known_keys};
use crate::diagnostic::{Diagnostic, Sink};
use crate::source::{Source, Sources};
use crate::task::shape::TASK;
use crate::task::{self, Options};
use crate::yaml;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Task,
    Server,
    Worker,
}

/// What the file is, and everything that is wrong with it; what is not supported yet as warnings.
pub fn check(text: &str, file: &str) -> (FileKind, Vec<Diagnostic>) {
    let kind = kind_of(text);
    let none = std::iter::empty::<(String, String)>;
    let diagnostics = match kind {
        FileKind::Server => config::server::parse(text, file, none()).1,
        FileKind::Worker => config::worker::parse(text, file, none()).1,
        FileKind::Task => {
            let (task, mut diagnostics) = task::parse(text, file, &Options::default());
            diagnostics.extend(task.map(|task| task.not_supported).unwrap_or_default());
            diagnostics
        }
    };
    (kind, diagnostics)
}

/// The kind that knows the most of its keys; a task if in doubt.
fn kind_of(text: &str) -> FileKind {
    let mut sink = Sink::new(Sources::of_file(Source::file("", text)));
    let Some(root) = yaml::load(text, &mut sink) else { return FileKind::Task };
    let kinds = [(FileKind::Task, &TASK), (FileKind::Server, &SERVER), (FileKind::Worker, &WORKER)];
    let mut best = (FileKind::Task, 0);
    for (kind, shape) in kinds {
        let known = known_keys(shape, &root);
        if known > best.1 {
            best = (kind, known);
        }
    }
    best.0
}
