//! What a migration may do to builds that do not know it and go on with the database: add, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

/// What the statements of any build can meet in a database.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Catalog {
    /// Of tables and views, by both names.
    pub columns: BTreeMap<(String, String), Column>,
    /// What else there is about a table: indexes, constraints, triggers.
    pub rules: BTreeSet<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub kind: String,
    pub required: bool,
    /// It has a value where a statement names none.
    pub filled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub table: String,
    pub text: String,
    /// It can refuse what was good before.
    pub refuses: bool,
}

impl Catalog {
    /// What a build that knows only this one would stumble over in a later one.
    pub(crate) fn harmed_by(&self, later: &Catalog) -> Vec<String> {
        let mut harms = Vec::new();
        for ((table, name), before) in &self.columns {
            let place = (table.clone(), name.clone());
            match later.columns.get(&place) {
                None => harms.push(format!("{table}.{name} is gone")),
                Some(after) if after.kind != before.kind => {
                    harms.push(format!("{table}.{name} was {} and is {}", before.kind, after.kind));
                }
                Some(after) if after.required && !before.required => {
                    harms.push(format!("{table}.{name} may not be NULL any more"));
                }
                Some(after) if before.filled && !after.filled => {
                    harms.push(format!("{table}.{name} has no default any more"));
                }
                Some(_) => {}
            }
        }
        let tables: BTreeSet<&String> = self.columns.keys().map(|(table, _)| table).collect();
        let new = later.columns.iter().filter(|(place, _)| !self.columns.contains_key(place));
        for ((table, name), column) in new.filter(|((table, _), _)| tables.contains(table)) {
            if column.required && !column.filled {
                harms.push(format!("{table}.{name} wants a value that nobody gives it"));
            }
        }
        harms.extend(self.rules.difference(&later.rules).map(|rule| format!("it is gone: {}", rule.text)));
        let refused = later.rules.difference(&self.rules).filter(|rule| rule.refuses && tables.contains(&rule.table));
        harms.extend(refused.map(|rule| format!("it may refuse what was good before: {}", rule.text)));
        harms
    }
}
