//! Words that several worlds agree on.

use std::sync::LazyLock;

use regex_lite::Regex;

/// A point in time, an id, or a span of time is one word.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    let time = r"\d{4}-\d\d-\d\dT[\d:.]+Z";
    let id = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    let span = r"(?:\d+[dhm] )?\d+(?:\.\d+)?(?:ms|[dhms])\b";
    Regex::new(&format!(r"{time}|{id}|{span}|\d+|[A-Za-z_]+|\s+|.")).expect("a good pattern")
});

static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT").expect("a good pattern"));

/// The text with `…` where the worlds differ, and for points in time.
pub(crate) fn agree(texts: &[String]) -> String {
    let split = |text: &str| WORD.find_iter(text).map(|word| word.as_str().to_owned()).collect::<Vec<String>>();
    let texts: Vec<Vec<String>> = texts.iter().map(|text| split(text)).collect();
    let first = &texts[0];
    assert!(texts.iter().all(|text| text.len() == first.len()), "the worlds say different things: {texts:#?}");
    let mut agreed = String::new();
    for (index, word) in first.iter().enumerate() {
        let differs = texts.iter().any(|text| text[index] != *word) || TIME.is_match(word);
        if !differs {
            agreed += word;
        } else if !agreed.ends_with('…') {
            agreed.push('…');
        }
    }
    agreed
}

/// How long an outage was and how many lines came late differs by the moment; that there were any does not.
static COUNTS: LazyLock<[(Regex, &str); 3]> = LazyLock::new(|| {
    [
        (r"offline for \d+s", "offline for …s"),
        (r"\b[1-9]\d* (buffered log lines|log lines)", "… $1"),
        (r"\b[1-9]\d* of \d+ lines", "… lines"),
    ]
    .map(|(pattern, words)| (Regex::new(pattern).expect("a good pattern"), words))
});

/// A log's cell without what chance decides.
pub(crate) fn without_counts(text: &str) -> String {
    COUNTS.iter().fold(text.to_owned(), |text, (pattern, words)| pattern.replace_all(&text, *words).into_owned())
}

#[test]
fn counts_of_chance_are_left_out() {
    let mark = "--- Orchestrator offline for 45s. Replaying 1 buffered events and 9 buffered log lines. ---";
    let told = "--- Orchestrator offline for …s. Replaying 1 buffered events and … buffered log lines. ---";
    assert_eq!(without_counts(mark), told);
    assert_eq!(without_counts("and 0 buffered log lines"), "and 0 buffered log lines");
    assert_eq!(
        without_counts("12 of 120 lines are missing, 12 log lines lost"),
        "… lines are missing, … log lines lost"
    );
}

#[test]
fn what_differs_is_left_out() {
    let told = |texts: &[&str]| agree(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>());
    assert_eq!(told(&["lost 24s ago, over in 1m 36s", "lost 1m 4s ago, over in 56s"]), "lost … ago, over in …");
    assert_eq!(told(&["lost 437ms ago", "lost 1.2s ago", "lost 12s ago"]), "lost … ago");
    assert_eq!(told(&["noticed 2026-01-01T00:00:00Z, window of 120s"]), "noticed …, window of 120s");
    assert_eq!(told(&["9 lines", "12 lines"]), "… lines");
}
