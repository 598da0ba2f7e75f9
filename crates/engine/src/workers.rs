//! What people call a worker. The engine knows workers by their ids; a message for people names name and host.

use std::fmt;

use crate::ids::WorkerId;

/// Looks up a worker's labels. The caller of [`crate::apply`] has them; none for a worker that nobody knows.
pub trait Workers {
    fn label(&self, id: WorkerId) -> Option<Label>;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Label {
    pub name: String,
    /// Empty if it never said.
    pub host: String,
    /// An operator took it out of the fleet.
    pub removed: bool,
}

/// Nobody is known: workers are named by their ids.
impl Workers for () {
    fn label(&self, _: WorkerId) -> Option<Label> {
        None
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_str() {
            "" => write!(f, "worker {}", self.name),
            host => write!(f, "worker {} on {host}", self.name),
        }
    }
}
