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

/// Of workers that have the same reason only so many are named.
const NAMED_MAX: usize = 5;

/// A worker that gets no new work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unwilling {
    /// As in `draining`.
    pub why: &'static str,
    pub name: String,
}

/// As in `w1, w2 (draining), w3 (not connected)`.
pub fn told(unwilling: &[Unwilling]) -> String {
    let mut sorted: Vec<&Unwilling> = unwilling.iter().collect();
    sorted.sort();
    let groups = sorted.chunk_by(|one, next| one.why == next.why).map(|group| {
        let names: Vec<&str> = group.iter().take(NAMED_MAX).map(|worker| worker.name.as_str()).collect();
        let more = match group.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more} ({})", names.join(", "), group[0].why)
    });
    groups.collect::<Vec<String>>().join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unwilling_are_named_by_their_reasons() {
        let of = |why, name: &str| Unwilling { why, name: name.to_owned() };
        assert_eq!(
            told(&[of("draining", "w2"), of("removed", "w3"), of("draining", "w1")]),
            "w1, w2 (draining), w3 (removed)"
        );
        let many: Vec<Unwilling> = (1..=7).map(|n| of("draining", &format!("w{n}"))).collect();
        assert_eq!(told(&many), "w1, w2, w3, w4, w5 and 2 more (draining)");
    }
}
