//! The config files of server and worker: defaults, the file over them, the environment over both.

mod overrides;
mod secrets;
pub mod server;
pub(crate) mod shape;
pub mod worker;

use std::rc::Rc;

use crate::diagnostic::Sink;
use crate::lower::Shape;
use crate::source::{Source, Sources};
use crate::yaml::{self, Node};

/// The file's tree with the variables laid over it; none if the file cannot be read.
fn load<E>(text: &str, file: &str, variables: E, scope: &overrides::Scope) -> (Sink, Option<Rc<Node>>)
where
    E: IntoIterator<Item = (String, String)>,
{
    let mut sink = Sink::new(Sources::of_file(Source::file(file, &secrets::hidden(text))));
    let root = yaml::load(text, &mut sink);
    let root = root.map(|root| overrides::apply(&root, variables, scope, &mut sink));
    (sink, root)
}

/// Top-level keys, for telling files apart.
pub(crate) fn known_keys(shape: &'static Shape, root: &Node) -> usize {
    let entries = root.entries().unwrap_or_default();
    entries.iter().filter(|e| shape.index_of(&e.key.text).is_some()).count()
}
