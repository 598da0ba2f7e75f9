//! The inputs of a job as a command line gives them: words, files, stdin.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::CliError;
use crate::print::say;

/// What one input may hold; the server refuses more.
const INPUT_BYTES_MAX: u64 = 120 * 1024;

/// A line end that is no part of an input.
const LINE_END_BYTES_MAX: u64 = 2;

/// What a file of inputs may hold: all of them together have a limit of 1 MiB, and some room to be written in.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// In place of a file's name.
const STDIN: &str = "-";

/// Those of the file with the pairs over them. A text is converted by the server where another type is declared.
pub(crate) fn given(file: Option<&Path>, pairs: &[String]) -> Result<Map<String, Value>, CliError> {
    Reader { stdin: Some(std::io::stdin()) }.given(file, pairs)
}

struct Reader<R> {
    /// None once it was read: it can be read once.
    stdin: Option<R>,
}

impl<R: Read> Reader<R> {
    fn given(&mut self, file: Option<&Path>, pairs: &[String]) -> Result<Map<String, Value>, CliError> {
        let mut given = match file {
            Some(path) => self.of_file(path)?,
            None => Map::new(),
        };
        let mut of_pairs = Map::new();
        for pair in pairs {
            let (key, value) = self.pair(pair)?;
            if of_pairs.insert(key.clone(), Value::String(value)).is_some() {
                return Err(CliError::usage(format!("the input `{key}` is given twice")));
            }
        }
        given.extend(of_pairs);
        Ok(given)
    }

    fn of_file(&mut self, path: &Path) -> Result<Map<String, Value>, CliError> {
        let text = self.text(path, FILE_BYTES_MAX)?.ok_or_else(|| {
            let shown = path.display();
            CliError::usage(format!("{shown} has more than {FILE_BYTES_MAX} bytes, the limit of a file of inputs"))
        })?;
        let name = if path == Path::new(STDIN) { "stdin".to_owned() } else { path.display().to_string() };
        spec::task::given_inputs(&text, &name).map_err(|diagnostics| {
            say(&spec::render(&diagnostics, false));
            CliError::usage(format!("{name} holds no inputs"))
        })
    }

    fn pair(&mut self, pair: &str) -> Result<(String, String), CliError> {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(CliError::usage_hint(format!("`{pair}` is not an input"), "write it like `-i version=v1.2`"));
        };
        let value = match value.strip_prefix('@') {
            None => value.to_owned(),
            Some(literal) if literal.starts_with('@') => literal.to_owned(),
            Some(path) => self
                .text(Path::new(path), INPUT_BYTES_MAX + LINE_END_BYTES_MAX)?
                .map(without_last_line_end)
                .filter(|text| text.len() as u64 <= INPUT_BYTES_MAX)
                .ok_or_else(|| too_large(key, path))?,
        };
        Ok((key.to_owned(), value))
    }

    /// None if there is more: what has no end, such as a device, is not read on and on.
    fn text(&mut self, path: &Path, bytes_max: u64) -> Result<Option<String>, CliError> {
        if path != Path::new(STDIN) {
            let read = File::open(path).and_then(|file| bounded(file, bytes_max));
            return read.and_then(as_text).map_err(|source| CliError::Unreadable { path: path.to_owned(), source });
        }
        let Some(stdin) = self.stdin.take() else {
            return Err(CliError::usage("stdin can be read for one input only"));
        };
        let read = bounded(stdin, bytes_max).and_then(as_text);
        read.map_err(|source| CliError::Unreadable { path: "stdin".into(), source })
    }
}

fn too_large(key: &str, path: &str) -> CliError {
    let whence = if path == STDIN { "stdin" } else { path };
    CliError::usage_hint(
        format!("the input `{key}` from {whence} has more than {INPUT_BYTES_MAX} bytes, the limit of an input"),
        "give the name of a file that the step reads itself",
    )
}

/// None if there is more than that.
fn bounded(from: impl Read, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

fn as_text(bytes: Option<Vec<u8>>) -> io::Result<Option<String>> {
    bytes.map(String::from_utf8).transpose().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// As a shell's `$(cat file)` would have it, but for one line end only: editors put it there, and nobody means it.
fn without_last_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::exit::Exit;

    fn read(stdin: &str, file: Option<&Path>, pairs: &[&str]) -> Result<Value, CliError> {
        let pairs: Vec<String> = pairs.iter().map(|&pair| pair.to_owned()).collect();
        Reader { stdin: Some(stdin.as_bytes()) }.given(file, &pairs).map(Value::Object)
    }

    #[test]
    fn words_are_texts_or_names_of_texts() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("notes.txt");
        fs::write(&file, "line\n").expect("written");
        let of_file = format!("d=@{}", file.display());
        let pairs = ["a=1", "b=x=y", "c=@@home", &of_file, "e=@-", "f=-"];
        let given = read("typed\n\n", None, &pairs).expect("good");
        assert_eq!(given, json!({"a": "1", "b": "x=y", "c": "@home", "d": "line", "e": "typed\n", "f": "-"}));
    }

    #[test]
    fn one_line_end_of_a_file_is_not_part_of_its_text() {
        let cases = [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a\r", "a\r"), ("\n", ""), ("", "")];
        for (text, left) in cases {
            assert_eq!(without_last_line_end(text.to_owned()), left, "{text:?}");
        }
    }

    #[test]
    fn a_file_keeps_its_types_and_words_go_over_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("inputs.yaml");
        fs::write(&file, "version: v1\ndays: 3\nhosts: [a, b]\n").expect("written");
        let given = read("", Some(&file), &["version=v2"]).expect("good");
        assert_eq!(given, json!({"version": "v2", "days": 3, "hosts": ["a", "b"]}));
        let given = read(r#"{"days": 4, "deep": {"x": null}}"#, Some(Path::new("-")), &[]).expect("good");
        assert_eq!(given, json!({"days": 4, "deep": {"x": null}}));
    }

    #[test]
    fn what_is_too_large_or_has_no_end_is_refused() {
        let most = "x".repeat(usize::try_from(INPUT_BYTES_MAX).expect("it fits"));
        assert_eq!(read(&format!("{most}\r\n"), None, &["a=@-"]).expect("just so"), json!({ "a": most }));
        for more in [format!("{most}x"), format!("{most}xx\n")] {
            let error = read(&more, None, &["a=@-"]).expect_err("too large");
            assert_eq!(error.exit(), Exit::Usage);
            assert_eq!(error.to_string(), "the input `a` from stdin has more than 122880 bytes, the limit of an input");
        }
        let error = read("", None, &["a=@/dev/zero"]).expect_err("no end");
        assert!(error.to_string().contains("from /dev/zero has more than 122880 bytes"), "{error}");
        let error = read("", Some(Path::new("/dev/zero")), &[]).expect_err("no end");
        assert!(error.to_string().contains("/dev/zero has more than 8388608 bytes"), "{error}");
    }

    #[test]
    fn bad_inputs_are_usage_errors() {
        for pairs in [&["a"][..], &["=1"], &["a=1", "a=2"], &["a=@/nowhere/at/all"], &["a=@-", "b=@-"]] {
            assert_eq!(read("x", None, pairs).expect_err("bad").exit(), Exit::Usage, "{pairs:?}");
        }
        for stdin in ["[1, 2]", "a: b: c", "a: 1\na: 2\n"] {
            let error = read(stdin, Some(Path::new("-")), &[]).expect_err("bad");
            assert_eq!((error.exit(), error.to_string().as_str()), (Exit::Usage, "stdin holds no inputs"), "{stdin}");
        }
    }
}
