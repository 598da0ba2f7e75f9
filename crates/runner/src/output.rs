//! What the step wrote to `$BOWLINE_OUTPUT`: `key=value` lines and lines that are JSON objects, mixed as one likes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use protocol::folder::OUTPUT_BYTES_MAX;
use serde_json::Value;

/// The file may say things twice or in a wordy way, but not without end.
const FILE_BYTES_MAX: usize = 4 * OUTPUT_BYTES_MAX;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Output {
    pub(crate) values: BTreeMap<String, Value>,
    /// The first thing that was wrong. What could be read is kept.
    pub(crate) error: Option<String>,
}

pub(crate) fn read(path: &Path) -> Output {
    match read_bytes(path) {
        Ok(bytes) => parse(&bytes),
        Err(error) => Output { values: BTreeMap::new(), error: Some(error) },
    }
}

/// The step may have put anything there, such as a pipe that would never end.
fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("the output file cannot be opened: {error}")),
    };
    let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if !regular {
        return Err("the output file is not a regular file any more".to_owned());
    }
    read_regular(file).map_err(|error| format!("the output file cannot be read: {error}"))
}

fn read_regular(file: File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Output {
    let mut output = Output::default();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if let Err(why) = parse_line(line, &mut output.values) {
            let number = index + 1;
            output.error.get_or_insert_with(|| format!("output line {number} {why}"));
        }
    }
    output
}

fn parse_line(line: &[u8], values: &mut BTreeMap<String, Value>) -> Result<(), String> {
    let line = std::str::from_utf8(line).map_err(|_| "is not valid UTF-8".to_owned())?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.trim().is_empty() {
        return Ok(());
    }
    if line.starts_with('{') {
        let object: BTreeMap<String, Value> =
            serde_json::from_str(line).map_err(|error| format!("is not a JSON object: {error}"))?;
        if let Some(number) = inexact_integer(line) {
            let digits = number.len();
            return Err(format!("has a whole number of {digits} digits, which would be rounded: write it as a text"));
        }
        values.extend(object);
        return Ok(());
    }
    match line.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            values.insert(key.trim().to_owned(), Value::String(value.to_owned()));
            Ok(())
        }
        _ => Err("is neither key=value nor a JSON object".to_owned()),
    }
}

/// A whole number, of text that is JSON, that has no exact place in 64 bits. It would become a fraction without a word.
fn inexact_integer(json: &str) -> Option<&str> {
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[at..];
        if let Some(text) = rest.strip_prefix('"') {
            rest = after_text(text);
            continue;
        }
        let end =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '+' | '.')).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let is_whole = !number.contains(['.', 'e', 'E']);
        if is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
            return Some(number.trim_start_matches('-'));
        }
        rest = after;
    }
    None
}

/// What follows on a text whose first quote is passed.
fn after_text(text: &str) -> &str {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or("", |end| &text[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &[u8], expected: &Value, error: Option<&str>) {
        let output = parse(text);
        assert_eq!(json!(output.values), *expected);
        assert_eq!(output.error.as_deref(), error);
    }

    #[test]
    fn keys_and_objects_may_be_mixed_and_the_last_word_counts() {
        check(b"", &json!({}), None);
        check(b"a=1\nb=x=y\r\n\n{\"a\": [2], \"c\": null}\n", &json!({"a": [2], "b": "x=y", "c": null}), None);
        check(b"empty=", &json!({"empty": ""}), None);
    }

    #[test]
    fn the_first_bad_line_is_named_and_the_good_ones_are_kept() {
        check(b"a=1\nnonsense\n=x\n", &json!({"a": "1"}), Some("output line 2 is neither key=value nor a JSON object"));
        check(b"\xff=1\nb=2", &json!({"b": "2"}), Some("output line 1 is not valid UTF-8"));
        check(b"{\"a\": }", &json!({}), Some("output line 1 is not a JSON object: expected value at line 1 column 7"));
    }

    #[test]
    fn a_whole_number_is_kept_or_refused_and_never_rounded() {
        check(b"{\"a\": [18446744073709551615, -9223372036854775808]}", &json!({"a": [u64::MAX, i64::MIN]}), None);
        check(
            b"{\"a\": \"12345678901234567890123 \\\" 99999999999999999999999\"}",
            &json!({"a": "12345678901234567890123 \" 99999999999999999999999"}),
            None,
        );
        check(b"{\"a\": 1.5e300, \"b\": -0}", &json!({"a": 1.5e300, "b": -0.0}), None);
        let why = "output line 1 has a whole number of 23 digits, which would be rounded: write it as a text";
        check(b"{\"a\": {\"b\": [1, -12345678901234567890123]}}", &json!({}), Some(why));
    }

    #[test]
    fn a_pipe_in_the_place_of_the_file_does_not_block() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("output");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("fifo");
        assert!(read(&path).error.expect("refused").contains("not a regular file"));
        assert_eq!(read(&folder.path().join("missing")), Output::default());
    }
}
