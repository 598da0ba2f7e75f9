//! "Did you mean …?"

/// Comparing with more names costs more than the hint is worth.
const CANDIDATES_MAX: usize = 2_000;
/// Longer words are no typing errors of names.
const WORD_CHARS_MAX: usize = 64;

/// More slips than this make another word.
const SLIPS_MAX: usize = 3;

/// The candidate that is a slip or two away from `word`, if there is one.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter_map(|candidate| {
            let allowed = (candidate.len().max(word.len()) / 2).min(SLIPS_MAX);
            if candidate.len().abs_diff(word.len()) > allowed {
                return None;
            }
            let distance = strsim::osa_distance(&lower, &candidate.to_lowercase());
            (distance <= allowed).then_some((distance, candidate))
        })
        .min_by_key(|&(distance, candidate)| (distance, candidate))
        .map(|(_, candidate)| candidate)
}

pub(crate) fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    nearest(word, candidates).map(|name| format!("did you mean `{name}`?"))
}

/// Names in a sentence: "`a`, `b` or `c`".
pub(crate) fn either<'c>(names: impl IntoIterator<Item = &'c str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_typing_errors_only() {
        let keys = ["retry", "run", "needs", "timeout"];
        assert_eq!(nearest("rerty", keys), Some("retry"));
        assert_eq!(nearest("Needs", keys), Some("needs"));
        assert_eq!(nearest("rn", keys), Some("run"));
        assert_eq!(nearest("retires", keys), Some("retry"));
        assert_eq!(nearest("banana", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest("x", ["a"]), None);
    }
}
