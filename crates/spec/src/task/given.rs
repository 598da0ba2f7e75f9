//! A job's inputs as a file has them: what `bowline run --input-file` reads.

use serde_json::{Map, Value as Json};

use crate::diagnostic::{Diagnostic, Sink};
use crate::lower::json::to_json;
use crate::lower::values;
use crate::source::{Source, Sources};
use crate::yaml;

/// One mapping, as YAML or JSON. Whether a task declares them is another question.
pub fn given_inputs(text: &str, file: &str) -> Result<Map<String, Json>, Vec<Diagnostic>> {
    let mut sink = Sink::new(Sources::of_file(Source::file(file, text)));
    let given = yaml::load(text, &mut sink).and_then(|root| match to_json(&root) {
        Json::Object(given) => Some(given),
        _ => {
            sink.add(values::mismatch("the file", "a mapping", &root).hint("as in `version: v1.2`"));
            None
        }
    });
    given.filter(|_| !sink.has_errors()).ok_or_else(|| sink.finish().0)
}
