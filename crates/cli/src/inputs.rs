//! The inputs of a job as a command line gives them: words, files, stdin.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use crate::commands::run::read_text;
use crate::error::CliError;
use crate::print::say;

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
        let text = self.text(path)?;
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
            Some(path) => without_last_line_end(self.text(Path::new(path))?),
        };
        Ok((key.to_owned(), value))
    }

    fn text(&mut self, path: &Path) -> Result<String, CliError> {
        if path != Path::new(STDIN) {
            return read_text(path);
        }
        let Some(mut stdin) = self.stdin.take() else {
            return Err(CliError::usage("stdin can be read for one input only"));
        };
        let mut text = String::new();
        match stdin.read_to_string(&mut text) {
            Ok(_) => Ok(text),
            Err(source) => Err(CliError::Unreadable { path: "stdin".into(), source }),
        }
    }
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
