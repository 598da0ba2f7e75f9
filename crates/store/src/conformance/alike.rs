//! Two stores that are told the same must answer the same: whatever is written, refused or left out, and in every order.
//!
//! The choices come from the caller, so that a property test can shrink them. [`script`] is what is written,
//! [`answers`] what is asked; a test holds both to the traits.

mod answers;
mod script;

use crate::{Committed, Store, StoreError};
use script::Script;

/// Asking for everything takes far longer than a write.
const WRITES_PER_LOOK: usize = 3;

/// Has both stores, empty at first, do what the choices say, and compares all that they answer.
pub fn play(one: &mut dyn Store, other: &mut dyn Store, choices: &[u32]) {
    let mut script = Script::new(choices);
    while let Some(write) = script.next() {
        let (first, second) = (write(one), write(other));
        assert_eq!(first, second, "after {} writes, two answers to the next", script.written());
        script.learn(&first);
        if script.written().is_multiple_of(WRITES_PER_LOOK) || script.is_over() {
            answers::assert_alike(one, other, &script.known());
        }
    }
}

/// What a write came to, in a form that can be compared: messages are each store's own.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Committed {
        conflicts: Vec<engine::JobId>,
        event_ids: Vec<Option<u64>>,
        triggers_moved: Vec<String>,
        groups_moved: Vec<String>,
        mark_moved: bool,
        outbox_moved: Vec<uuid::Uuid>,
        leases: Vec<crate::LeaseRow>,
    },
    Done(String),
    Failed(&'static str),
}

impl From<Result<Committed, StoreError>> for Outcome {
    fn from(result: Result<Committed, StoreError>) -> Outcome {
        match result {
            Ok(Committed { conflicts, event_ids, triggers_moved, groups_moved, mark_moved, outbox_moved, leases }) => {
                Outcome::Committed {
                    conflicts: conflicts.into_iter().collect(),
                    event_ids,
                    triggers_moved: triggers_moved.into_iter().collect(),
                    groups_moved: groups_moved.into_iter().collect(),
                    mark_moved,
                    outbox_moved: outbox_moved.into_iter().collect(),
                    leases,
                }
            }
            Err(error) => Outcome::Failed(kind(&error)),
        }
    }
}

impl Outcome {
    fn of<T: std::fmt::Debug>(result: Result<T, StoreError>) -> Outcome {
        match result {
            Ok(value) => Outcome::Done(format!("{value:?}")),
            Err(error) => Outcome::Failed(kind(&error)),
        }
    }
}

fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unavailable { .. } => "unavailable",
        StoreError::Moved { .. } => "moved",
        StoreError::Refused { .. } => "refused",
        StoreError::TooNew { .. } => "too new",
        StoreError::Damaged { .. } => "damaged",
        StoreError::InUse { .. } => "in use",
        StoreError::MigrationChanged { .. } => "migration changed",
        StoreError::Corrupt(_) => "corrupt",
    }
}

#[cfg(test)]
mod tests {
    const TRAITS: [&str; 2] = [include_str!("../lib.rs"), include_str!("../read.rs")];
    const ASKED: &str = include_str!("alike/answers.rs");
    const WRITTEN: &str = include_str!("alike/script.rs");

    /// `reader` is how the others are reached. Stores differ in who else may use them, and in what these have in common.
    const NOT_COMPARED: [&str; 6] = ["reader", "is_shared", "clock", "bell", "ring", "listen"];

    #[test]
    fn every_method_of_the_traits_is_called() {
        let methods = TRAITS.iter().flat_map(|text| text.lines()).filter_map(|line| {
            let name = line.strip_prefix("    fn ")?.split('(').next()?;
            line.contains("self").then_some(name).or(line.ends_with('(').then_some(name))
        });
        let methods: Vec<&str> = methods.filter(|name| !NOT_COMPARED.contains(name)).collect();
        assert!(methods.len() > 40, "the traits are found: {methods:?}");
        for name in methods {
            let called = [format!(".{name}("), format!(", {name}(")];
            let called = called.iter().any(|call| ASKED.contains(call) || WRITTEN.contains(call));
            assert!(called, "nothing compares what `{name}` does");
        }
    }

    #[test]
    fn every_part_of_a_batch_is_written() {
        let text = include_str!("../batch.rs");
        let batch = text.split("pub struct Batch {").nth(1).and_then(|rest| rest.split("\n}").next());
        let fields =
            batch.expect("the batch").lines().filter_map(|line| line.strip_prefix("    pub ")?.split(':').next());
        for field in fields.filter(|field| *field != "now") {
            assert!(WRITTEN.contains(&format!("batch.{field}")), "no script writes `{field}`");
        }
    }
}
