//! Names for ids, so that a story can be followed.

use std::collections::BTreeMap;

use engine::{JobId, StepIx};
use store::Batch;
use uuid::Uuid;

const UUID_CHARS: usize = 36;

#[derive(Debug, Default)]
pub(super) struct Names {
    names: BTreeMap<Uuid, String>,
    /// Jobs by the name of their task: those that go on for another have the same.
    jobs_of: BTreeMap<String, u32>,
    steps: BTreeMap<(JobId, StepIx), Step>,
}

#[derive(Debug, Default)]
struct Step {
    name: String,
    attempts: u32,
}

impl Names {
    pub(super) fn call(&mut self, id: Uuid, name: String) {
        self.names.insert(id, name);
    }

    /// Jobs, steps and attempts that these rows mention for the first time.
    pub(super) fn learn(&mut self, batch: &Batch) {
        for row in batch.jobs.iter().map(|write| &write.row) {
            if self.names.contains_key(&row.id.0) {
                continue;
            }
            let jobs = self.jobs_of.entry(row.task.clone()).or_default();
            *jobs += 1;
            let name = if *jobs == 1 { row.task.clone() } else { format!("{}+{}", row.task, *jobs - 1) };
            self.call(row.id.0, name);
        }
        for row in &batch.steps {
            let job = self.names.get(&row.job.0).cloned().unwrap_or_default();
            let step = self.steps.entry((row.job, row.ix)).or_default();
            step.name.clone_from(&row.name);
            if let Some(attempt) = row.attempt
                && !self.names.contains_key(&attempt.0)
            {
                step.attempts += 1;
                let name = format!("{job}/{}:{}", row.name, step.attempts);
                self.call(attempt.0, name);
            }
        }
    }

    /// The text, with names for every id that has one, and for steps that were written `job/#2`.
    pub(super) fn put_into(&self, text: &str) -> String {
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, id, after)) = next_id(rest) {
            named.push_str(before);
            rest = after;
            match self.names.get(&id) {
                Some(name) => named.push_str(name),
                None => named.push_str(&id.to_string()),
            }
            if let Some((ix, after)) = step_number(rest) {
                let step = self.steps.get(&(JobId(id), StepIx(ix)));
                named.push('/');
                named.push_str(&step.map_or_else(|| format!("#{ix}"), |step| step.name.clone()));
                rest = after;
            }
        }
        named.push_str(rest);
        named
    }
}

fn next_id(text: &str) -> Option<(&str, Uuid, &str)> {
    let dash = |at: usize| text.as_bytes().get(at) == Some(&b'-');
    for start in text.match_indices('-').filter_map(|(at, _)| at.checked_sub(8)) {
        let end = start + UUID_CHARS;
        if dash(start + 13)
            && let Some(found) = text.get(start..end)
            && let Ok(id) = Uuid::try_parse(found)
        {
            return Some((&text[..start], id, &text[end..]));
        }
    }
    None
}

fn step_number(text: &str) -> Option<(u32, &str)> {
    let digits = text.strip_prefix("/#")?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    Some((digits[..end].parse().ok()?, &digits[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_replaced_wherever_they_stand() {
        let (known, stranger) = (Uuid::from_u128(7), Uuid::from_u128(8));
        let mut names = Names::default();
        names.call(known, "job-3".to_owned());
        names.steps.insert((JobId(known), StepIx(2)), Step { name: "s2".to_owned(), attempts: 0 });
        let text = format!("a-b {known}/#2, {known}. {stranger} – {known}/#9");
        assert_eq!(names.put_into(&text), format!("a-b job-3/s2, job-3. {stranger} – job-3/#9"));
    }
}
