//! How jobs come from each other, in words that are the same wherever they are said: a job is *begun by* another one's step,
//! *follows* on another's end or notice, *continues* another, and is *continued by* those.

use api::job::continues_how_in_words;
use uuid::Uuid;

/// A job's relatives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kin<'a> {
    pub(crate) parent: Option<Uuid>,
    pub(crate) hook_of: Option<Uuid>,
    pub(crate) continues: Option<Uuid>,
    pub(crate) continues_how: Option<&'a str>,
    /// Those that are to be named.
    pub(crate) continued_by: &'a [Uuid],
}

impl Kin<'_> {
    /// `continues JOB (retry)`, one for each relative; `named` says how one is called.
    pub(crate) fn words(&self, named: impl Fn(Uuid) -> String) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(parent) = self.parent {
            words.push(format!("begun by {}", named(parent)));
        } else if let Some(of) = self.hook_of {
            words.push(format!("follows {}", named(of)));
        }
        if let Some(old) = self.continues {
            words.push(format!("continues {}{}", named(old), how(self.continues_how)));
        }
        words.extend(self.continued_by.iter().map(|next| format!("continued by {}", named(*next))));
        words
    }
}

/// How it goes on, if that is known here.
fn how(word: Option<&str>) -> String {
    word.and_then(continues_how_in_words).map(|words| format!(" ({words})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_use_the_same_words() {
        let [old, new] = [1, 2].map(Uuid::from_u128);
        let told = |kin: Kin<'_>| kin.words(|job| format!("job {}", job.as_u128()));
        let words = told(Kin { continues: Some(old), continues_how: Some("from_failed"), ..Kin::default() });
        assert_eq!(words, ["continues job 1 (retry of what failed)"]);
        assert_eq!(told(Kin { continued_by: &[new], ..Kin::default() }), ["continued by job 2"]);
        let words =
            told(Kin { hook_of: Some(old), continues: Some(new), continues_how: Some("new word"), ..Kin::default() });
        assert_eq!(words, ["follows job 1", "continues job 2"]);
        assert_eq!(told(Kin { parent: Some(old), hook_of: Some(new), ..Kin::default() }), ["begun by job 1"]);
    }
}
