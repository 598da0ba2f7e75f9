//! Sets of tags, compared by containment.

use std::sync::Arc;

use engine::definition::Ability;
use protocol::features;
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
        let besides = abilities(features).map(|ability| Arc::from(ability.mark()));
        TagSet::new(tags.iter().map(|tag| Arc::from(tag.as_str())).chain(besides))
    }

    /// Whether this is what [`of_row`](TagSet::of_row) gives, without making that.
    pub fn is_of_row(&self, row: &WorkerRow) -> bool {
        let has = |wanted: &str| self.iter().any(|tag| tag == wanted);
        self.0.len() == row.tags.len() + abilities(&row.features).count()
            && row.tags.iter().all(|tag| has(tag))
            && abilities(&row.features).all(|ability| has(ability.mark()))
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

/// What a worker that says this of itself can do, of what any step can ask for.
fn abilities(features: &[String]) -> impl Iterator<Item = Ability> {
    Ability::ALL.into_iter().filter(|ability| features.iter().any(|said| said == feature(*ability)))
}

fn feature(ability: Ability) -> &'static str {
    match ability {
        Ability::Artifacts => features::ARTIFACTS,
        Ability::Cleanup => features::CLEANUP,
        Ability::Secrets => features::SECRETS,
    }
}

impl std::fmt::Display for TagSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&Ability::told(self.iter()))
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
