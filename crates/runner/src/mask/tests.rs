use proptest::prelude::*;
use protocol::secret::SecretValue;
use serde_json::json;

use super::*;

fn secrets(values: &[&str]) -> SecretValues {
    let value = |text: &str| SecretValue::new(text.to_owned()).expect("fit");
    values.iter().enumerate().map(|(n, text)| (format!("S{n}"), value(text))).collect()
}

fn mask(values: &[&str]) -> Rc<Mask> {
    Mask::new(&secrets(values)).expect("something to mask")
}

/// What is shown of a stream that comes in these pieces.
fn shown(mask: &Rc<Mask>, pieces: &[&[u8]]) -> String {
    let mut masker = Masker::new(mask.clone());
    let mut shown = Vec::new();
    pieces.iter().for_each(|piece| masker.feed(piece, |bytes| shown.extend_from_slice(bytes)));
    masker.finish(|bytes| shown.extend_from_slice(bytes));
    String::from_utf8_lossy(&shown).into_owned()
}

#[track_caller]
fn check(values: &[&str], text: &str, expected: &str) {
    assert_eq!(shown(&mask(values), &[text.as_bytes()]), expected, "in one piece");
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(shown(&mask(values), &bytes), expected, "byte by byte");
}

#[test]
fn every_occurrence_is_covered() {
    check(&["s3cret"], "a s3cret, s3crets3cret.", "a ***, ******.");
    check(&["s3cret"], "s3cre s3cre", "s3cre s3cre");
    check(&["s3cret", "s3cret-longer"], "s3cret-longe s3cret-longer", "***-longe ***");
    check(&["Grüße"], "viele Grüße!", "viele ***!");
}

#[test]
fn where_secrets_overlap_all_of_both_is_covered() {
    check(&["abcdX", "Xefgh"], "-abcdXefgh-", "-***-");
    check(&["aaaa"], "aaaaaaaaa b aaa", "*** b aaa");
    check(&["bcde", "abcdef"], "abcdef abcde", "*** a***");
}

#[test]
fn each_line_of_a_long_one_is_covered_and_stays_a_line() {
    let pem = "-----BEGIN KEY-----\nMIIBOg\nIBAAJB\n-----END KEY-----\n";
    check(&[pem], &format!("{pem}IBAAJB\n"), "***\n***\n***\n***\n***\n");
    // Short lines are covered where the whole is printed.
    check(&["{\n  secret\n}"], "{\n  secret\n}\n{ secret }", "***\n***\n***\n{ *** }");
    check(&["{\n  secret\n}"], "{\n  secret\n", "{\n  ***\n");
}

#[test]
fn base64_is_seen_through() {
    for before in ["", "u", "u:", "us:"] {
        let text = STANDARD_NO_PAD.encode(format!("{before}pass-w0rd?>\n"));
        let seen = shown(&mask(&["pass-w0rd?>"]), &[text.as_bytes()]);
        assert!(seen.contains("***") && seen.len() <= 11, "{text}: {seen}");
        let text = URL_SAFE_NO_PAD.encode(format!("{before}pass-w0rd?>\n"));
        assert!(shown(&mask(&["pass-w0rd?>"]), &[text.as_bytes()]).contains("***"), "{text}");
    }
}

#[test]
fn base64_is_seen_through_where_a_tool_breaks_it_into_lines() {
    let value: String = (0..40).map(|n| format!("k{n:03}")).collect();
    let text = STANDARD_NO_PAD.encode(format!("{value}\n"));
    for width in [76, 64] {
        let lines: Vec<&str> = text.as_bytes().chunks(width).map(|line| str::from_utf8(line).expect("ASCII")).collect();
        let seen = shown(&mask(&[&value]), &[lines.join("\n").as_bytes()]);
        let rest: usize = seen.replace("***", "").lines().map(str::len).sum();
        assert!(rest <= 8, "of lines of {width}: {seen}");
    }
}

/// As by `echo "$SECRET" | base64`: not even the characters are left that the secret shares with the line end.
#[test]
fn base64_is_seen_through_to_its_end() {
    for value in ["pass-w0rd?>", "pass-w0rd?>1", "pass-w0rd?>12"] {
        for (before, left) in [("", 0), ("u", 2), ("u:", 3), ("us:", 4)] {
            for after in ["", "\n"] {
                let text = STANDARD.encode(format!("{before}{value}{after}"));
                let seen = shown(&mask(&[value]), &[text.as_bytes()]);
                assert!(seen.ends_with("***") && seen.len() == 3 + left, "{text}: {seen}");
            }
        }
    }
    let value: String = (0..29).map(|n| format!("k{n:03}")).collect();
    for width in [76, 64] {
        let text = STANDARD.encode(format!("{value}\n"));
        let lines: Vec<&str> = text.as_bytes().chunks(width).map(|line| str::from_utf8(line).expect("ASCII")).collect();
        let seen = shown(&mask(&[&value]), &[lines.join("\n").as_bytes()]);
        assert_eq!(seen.replace("***", "").trim(), "", "of lines of {width}: {seen}");
    }
}

/// Both many lines and one long line; made quickly, and found.
#[test]
fn large_ones_are_found_too() {
    let lines: String = (0..2_000).map(|n| format!("line {n} of it\n")).collect();
    let line: String = (0..6_000).map(|n| format!("{n:05}")).collect();
    let mask = mask(&[&lines[..30_000], &line]);
    assert_eq!(shown(&mask, &[b"a ", line.as_bytes(), b" z"]), "a *** z");
    assert_eq!(shown(&mask, &[&lines.as_bytes()[..30_000]]).replace("***\n", ""), "***");
}

#[test]
fn nothing_is_held_back_that_cannot_be_one() {
    let mut masker = Masker::new(mask(&["s3cret"]));
    let mut shown = Vec::new();
    masker.feed(b"Continue? [y/n] ", |bytes| shown.extend_from_slice(bytes));
    assert_eq!(shown, b"Continue? [y/n] ");
    masker.feed(b"s3c", |bytes| shown.extend_from_slice(bytes));
    assert_eq!(shown, b"Continue? [y/n] ");
    masker.feed(b"ond", |bytes| shown.extend_from_slice(bytes));
    assert_eq!(shown, b"Continue? [y/n] s3cond");
}

#[test]
fn an_endless_secret_needs_no_endless_memory() {
    let mut masker = Masker::new(mask(&["aaaa"]));
    let mut shown = Vec::new();
    for _ in 0..1000 {
        masker.feed(&[b'a'; 100], |bytes| shown.extend_from_slice(bytes));
        assert!(masker.held.len() < 4);
    }
    masker.finish(|bytes| shown.extend_from_slice(bytes));
    assert_eq!(shown, b"***");
}

#[test]
fn values_are_masked_wherever_they_stand() {
    let mask = mask(&["12345678"]);
    let value = json!({"a": ["x12345678"], "12345678": 12345678, "n": 1.5, "z": [null, true, 123]});
    assert_eq!(mask.value(value), json!({"a": ["x***"], "***": "***", "n": 1.5, "z": [null, true, 123]}));
}

/// Few letters, so that secrets are found, overlap, and begin in vain.
fn texts(length: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just('a'), Just('b'), Just('c'), Just('\n')], length)
        .prop_map(|letters| letters.into_iter().collect())
}

/// Those that can be secrets: blank ones cannot.
fn values() -> impl Strategy<Value = String> {
    texts(4..10).prop_filter("a secret is not blank", |text| !text.trim().is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_way_of_cutting_lets_a_secret_through(
        values in proptest::collection::vec(values(), 1..4),
        text in texts(0..80),
        cuts in proptest::collection::vec(0_usize..80, 0..12),
    ) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let mask = mask(&values);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
        let seen = shown(&mask, &pieces);
        for needle in &mask.needles {
            let needle = String::from_utf8_lossy(needle);
            prop_assert!(!seen.contains(&*needle), "{seen:?} shows {needle:?}");
        }
        for value in &values {
            prop_assert!(!seen.contains(value), "{seen:?} shows {value:?}");
        }
        prop_assert_eq!(&seen, &shown(&mask, &[text.as_bytes()]), "it depends on the pieces");
        prop_assert_eq!(seen.matches('\n').count(), text.matches('\n').count(), "lines stay lines");
    }
}
