//! Sets of tags, compared by containment.

use std::sync::Arc;

use engine::definition::TAKES_SECRETS;
use protocol::secret::SECRETS_FEATURE;
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
        TagSet::of_worker(&row.tags, &row.features)
    }

    /// The tags of a worker, and what it can do besides.
    pub fn of_worker(tags: &[String], features: &[String]) -> TagSet {
        let besides = takes_secrets(features).then_some(TAKES_SECRETS);
        TagSet::new(tags.iter().map(String::as_str).chain(besides).map(Arc::from))
    }

    /// Whether this is what [`of_row`](TagSet::of_row) gives, without making that.
    pub fn is_of_row(&self, row: &WorkerRow) -> bool {
        let has = |wanted: &str| self.iter().any(|tag| tag == wanted);
        let takes_secrets = takes_secrets(&row.features);
        self.0.len() == row.tags.len() + usize::from(takes_secrets)
            && row.tags.iter().all(|tag| has(tag))
            && has(TAKES_SECRETS) == takes_secrets
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

fn takes_secrets(features: &[String]) -> bool {
    features.iter().any(|feature| feature == SECRETS_FEATURE)
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
