//! Whatever the text is, the answer is a value or a diagnostic, never a panic.

use proptest::prelude::*;
use spec::task::Options;

const SEEDS: [&str; 3] = [
    include_str!("data/contract-task.yaml"),
    include_str!("data/contract-server.yaml"),
    include_str!("data/contract-worker.yaml"),
];

/// Pieces that mean something to one of the layers.
const PIECES: [&str; 24] = [
    "{{", "}}", "{", "}", "[", "]", ": ", "\n", "\n  ", "- ", "&a ", "*a", "|", ">", "'", "\"", "steps", "needs",
    "\\0", "å", "\t", "#", "!!", "1e999",
];

fn read_all(text: &str) {
    let (_, diagnostics) = spec::check(text, "t.yaml");
    let (task, more) = spec::task::parse(text, "t.yaml", &Options::default());
    assert_eq!(task.is_some(), !more.iter().any(spec::Diagnostic::is_error));
    let none = std::iter::empty::<(String, String)>;
    let (_, server) = spec::config::server::parse(text, "s.yaml", none());
    let (_, worker) = spec::config::worker::parse(text, "w.yaml", none());
    for list in [diagnostics, more, server, worker] {
        spec::render(&list, true);
        list.iter().for_each(|d| assert!(d.line() >= 1 && d.column() >= 1));
    }
}

/// A documented file with some of its text cut out, doubled, or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..40usize, prop::sample::select(&PIECES[..]));
    (prop::sample::select(&SEEDS[..]), prop::collection::vec(edit, 1..6)).prop_map(|(seed, edits)| {
        let mut text: Vec<char> = seed.chars().collect();
        for (at, length, piece) in edits {
            let at = at.index(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, piece.chars());
        }
        text.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in any::<String>()) {
        read_all(&text);
    }

    #[test]
    fn pieces(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40)) {
        read_all(&pieces.concat());
    }

    #[test]
    fn mutated_files(text in mutated()) {
        read_all(&text);
    }

    #[test]
    fn any_expression(inner in "[a-z0-9.()'+*|~\\[\\]{} -]{0,60}") {
        let quoted = serde_json::to_string(&format!("{{{{ {inner} }}}}")).expect("texts are JSON");
        read_all(&format!("name: t\nsteps: {{ a: {{ run: {quoted}, if: {} }} }}", serde_json::to_string(&inner).expect("texts are JSON")));
    }
}
