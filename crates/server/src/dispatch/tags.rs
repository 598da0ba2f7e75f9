//! Sets of tags, compared by containment.

use std::sync::Arc;

use store::rows::WorkerRow;

/// Sorted, without repeats. Steps with equal needs, and workers with equal gifts, share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TagSet(Arc<[Arc<str>]>);

impl TagSet {
    pub fn new(tags: impl IntoIterator<Item = Arc<str>>) -> TagSet {
        let mut tags: Vec<Arc<str>> = tags.into_iter().collect();
        tags.sort();
        tags.dedup();
        TagSet(tags.into())
    }

    /// The tags that a worker's row has.
    pub fn of_row(row: &WorkerRow) -> TagSet {
        TagSet::new(row.tags.iter().map(|tag| Arc::from(tag.as_str())))
    }

    /// Whether every tag of `wanted` is here. Both are sorted, so one walk is enough.
    pub fn contains_all(&self, wanted: &TagSet) -> bool {
        let mut have = self.0.iter();
        wanted.0.iter().all(|tag| have.by_ref().any(|t| t == tag))
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }
}

impl std::fmt::Display for TagSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}]", self.0.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(words: &str) -> TagSet {
        TagSet::new(words.split_whitespace().map(Arc::from))
    }

    #[test]
    fn containment() {
        assert!(set("script linux gpu").contains_all(&set("gpu script")));
        assert!(!set("script linux").contains_all(&set("gpu script")));
        assert!(set("script").contains_all(&set("")));
        assert!(!set("").contains_all(&set("script")));
    }
}
