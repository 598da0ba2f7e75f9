//! The evaluation's surroundings: filters and tests by an allow-list, strict about what is undefined, bounded.

use std::sync::OnceLock;

use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, filters, tests};

use super::budget;

/// Expressions have at most a few hundred instructions; without loops more cannot be needed.
const FUEL: u64 = 10_000;
/// No text that a filter makes is longer: as much as a rendered step may have in all.
pub(crate) const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Filters that exist. Those that could multiply a text (`join`, `quote`, `replace`, `string`, `tojson`) are our own,
/// bounded.
pub(crate) const FILTERS: [&str; 28] = [
    "abs",
    "bool",
    "capitalize",
    "count",
    "d",
    "default",
    "first",
    "float",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "max",
    "min",
    "quote",
    "replace",
    "reverse",
    "round",
    "sort",
    "split",
    "string",
    "tojson",
    "trim",
    "upper",
];

pub(crate) const TESTS: [&str; 18] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "even",
    "false",
    "float",
    "in",
    "integer",
    "mapping",
    "none",
    "number",
    "odd",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
];

pub(crate) fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(build)
}

fn build() -> Environment<'static> {
    let mut env = Environment::empty();
    env.set_syntax(super::syntax().clone());
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(write_value);
    env.set_fuel(Some(FUEL));
    env.set_debug(true);
    add_filters(&mut env);
    add_tests(&mut env);
    env
}

fn add_filters(env: &mut Environment<'static>) {
    env.add_filter("abs", filters::abs);
    env.add_filter("bool", filters::bool);
    env.add_filter("count", filters::length);
    env.add_filter("d", filters::default);
    env.add_filter("default", filters::default);
    env.add_filter("first", filters::first);
    env.add_filter("float", filters::float);
    env.add_filter("int", filters::int);
    env.add_filter("length", filters::length);
    env.add_filter("round", filters::round);
    add_walking_filters(env);
}

/// Those that go through all of what they are given, and pay for it.
fn add_walking_filters(env: &mut Environment<'static>) {
    let mut add = |name, filter: Value| {
        env.add_filter(name, move |state: &mut State<'_, '_>, arguments: Rest<Value>| {
            budget::charge(state, &arguments)?;
            filter.call(state, &arguments)
        });
    };
    add("capitalize", Value::from_function(filters::capitalize));
    add("items", Value::from_function(filters::items));
    add("join", Value::from_function(join));
    add("last", Value::from_function(filters::last));
    add("lines", Value::from_function(filters::lines));
    add("list", Value::from_function(filters::list));
    add("lower", Value::from_function(filters::lower));
    add("max", Value::from_function(filters::max));
    add("min", Value::from_function(filters::min));
    add("quote", Value::from_function(quote));
    add("replace", Value::from_function(replace));
    add("reverse", Value::from_function(filters::reverse));
    add("sort", Value::from_function(filters::sort));
    add("split", Value::from_function(filters::split));
    add("string", Value::from_function(to_text));
    add("tojson", Value::from_function(to_json));
    add("trim", Value::from_function(filters::trim));
    add("upper", Value::from_function(filters::upper));
}

fn add_tests(env: &mut Environment<'static>) {
    env.add_test("boolean", tests::is_boolean);
    env.add_test("defined", tests::is_defined);
    env.add_test("divisibleby", tests::is_divisibleby);
    env.add_test("endingwith", tests::is_endingwith);
    env.add_test("even", tests::is_even);
    env.add_test("false", tests::is_false);
    env.add_test("float", tests::is_float);
    env.add_test("in", tests::is_in);
    env.add_test("integer", tests::is_integer);
    env.add_test("mapping", tests::is_mapping);
    env.add_test("none", tests::is_none);
    env.add_test("number", tests::is_number);
    env.add_test("odd", tests::is_odd);
    env.add_test("sequence", tests::is_sequence);
    env.add_test("startingwith", tests::is_startingwith);
    env.add_test("string", tests::is_string);
    env.add_test("true", tests::is_true);
    env.add_test("undefined", tests::is_undefined);
}

/// How a value becomes text: lists and mappings as JSON; nothing is an error, for an empty word in a script is worse.
fn write_value(out: &mut Output<'_>, _state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let text = plain_text(value)?;
    out.write_str(&text).map_err(Error::from)
}

fn plain_text(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::None => {
            let detail = "the value is null; give another with `or`, as in `input.name or 'nobody'`";
            Err(Error::new(ErrorKind::InvalidOperation, detail))
        }
        ValueKind::String | ValueKind::Number | ValueKind::Bool => Ok(value.to_string()),
        _ => to_json(value),
    }
}

fn to_text(value: &Value) -> Result<String, Error> {
    plain_text(value)
}

/// Each time around, quotes and backslashes double.
fn to_json(value: &Value) -> Result<String, Error> {
    let json = serde_json::to_string(value)
        .map_err(|e| Error::new(ErrorKind::BadSerialization, "this value has no JSON form").with_source(e))?;
    bounded(json)
}

/// One word for a POSIX shell, whatever it holds; a list becomes a word for each item.
fn quote(value: &Value) -> Result<String, Error> {
    if value.kind() == ValueKind::Seq {
        let words: Result<Vec<String>, Error> = value.try_iter()?.map(|item| quoted(&item)).collect();
        return bounded(words?.join(" "));
    }
    quoted(value)
}

fn quoted(value: &Value) -> Result<String, Error> {
    bounded(format!("'{}'", plain_text(value)?.replace('\'', r"'\''")))
}

fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let found = text.matches(from).count();
    let grown = found.checked_mul(to.len()).and_then(|more| more.checked_add(text.len()));
    if grown.is_none_or(|length| length > TEXT_BYTES_MAX) {
        return Err(too_long());
    }
    Ok(text.replace(from, to))
}

fn join(value: &Value, separator: Option<&str>) -> Result<String, Error> {
    let mut joined = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        if index > 0 {
            joined.push_str(separator.unwrap_or_default());
        }
        joined.push_str(&plain_text(&item)?);
        if joined.len() > TEXT_BYTES_MAX {
            return Err(too_long());
        }
    }
    Ok(joined)
}

fn bounded(text: String) -> Result<String, Error> {
    if text.len() > TEXT_BYTES_MAX { Err(too_long()) } else { Ok(text) }
}

fn too_long() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("the text grows beyond {TEXT_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod unit {
    use minijinja::context;

    use super::*;

    #[test]
    fn the_lists_name_what_exists() {
        let mut state_of = environment().empty_state();
        for name in FILTERS {
            let error = state_of.apply_filter(name, &[]).err().map(|e| e.kind());
            assert_ne!(error, Some(ErrorKind::UnknownFilter), "{name}");
        }
        for name in TESTS {
            let error = state_of.perform_test(name, &[]).err().map(|e| e.kind());
            assert_ne!(error, Some(ErrorKind::UnknownTest), "{name}");
        }
    }

    #[test]
    fn values_become_text() {
        let render = |text| environment().render_str(text, context! { l => vec![1, 2], s => "it's", n => () });
        assert_eq!(render("{{ l }} ${#a} {% x %}\n").ok().as_deref(), Some("[1,2] ${#a} {% x %}\n"));
        assert_eq!(render("{{ s | quote }}").ok().as_deref(), Some(r"'it'\''s'"));
        assert_eq!(render("{{ ['a b', 1] | quote }}").ok().as_deref(), Some("'a b' '1'"));
        assert_eq!(render("{{ l | join('-') }}").ok().as_deref(), Some("1-2"));
        assert!(render("{{ n }}").is_err());
        assert!(render("{{ missing }}").is_err());
    }

    #[test]
    fn texts_cannot_explode() {
        let times = 10;
        let bomb = format!("{{{{ 'aaaaaaaaaa'{} }}}}", " | replace('a', 'aaaaaaaaaa')".repeat(times));
        assert!(environment().render_str(&bomb, ()).is_err());
        let join = format!("{{{{ 'aaaaaaaaaa'{} }}}}", " | list | join('aaaaaaaaaa')".repeat(times));
        assert!(environment().render_str(&join, ()).is_err());
        for (text, filter) in [(r#"'"'"#, "tojson"), (r#""'""#, "quote"), (r#"['"']"#, "string")] {
            let bomb = format!("{{{{ {text}{} }}}}", format!(" | {filter} | tojson").repeat(30));
            let error = environment().render_str(&bomb, ()).expect_err("it would have 2^60 bytes");
            assert_eq!(error.detail(), Some("the text grows beyond 1048576 bytes"), "{filter}");
        }
    }
}
