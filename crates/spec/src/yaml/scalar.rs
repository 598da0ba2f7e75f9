//! What an unquoted word means: YAML 1.2's core schema, so `no` and `on` are plain texts.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
}

impl<'a> Scalar<'a> {
    pub(super) fn resolve(text: &'a str) -> Scalar<'a> {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
            "true" | "True" | "TRUE" => Scalar::Bool(true),
            "false" | "False" | "FALSE" => Scalar::Bool(false),
            _ => number(text).unwrap_or(Scalar::Text(text)),
        }
    }
}

fn number(text: &str) -> Option<Scalar<'_>> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let first = digits.bytes().next()?;
    if !first.is_ascii_digit() && first != b'.' {
        return None;
    }
    if let Some(hex) = digits.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok().map(Scalar::Int);
    }
    if let Some(octal) = digits.strip_prefix("0o") {
        return i64::from_str_radix(octal, 8).ok().map(Scalar::Int);
    }
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().map(Scalar::Int).or_else(|| text.parse().ok().map(Scalar::Float));
    }
    let numeric = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    // `inf` and `nan` are left as texts: no setting of ours means anything by them.
    if numeric { text.parse().ok().filter(|f: &f64| f.is_finite()).map(Scalar::Float) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        assert_eq!(Scalar::resolve("~"), Scalar::Null);
        assert_eq!(Scalar::resolve("no"), Scalar::Text("no"));
        assert_eq!(Scalar::resolve("-12"), Scalar::Int(-12));
        assert_eq!(Scalar::resolve("0x1f"), Scalar::Int(31));
        assert_eq!(Scalar::resolve("1.5e3"), Scalar::Float(1500.0));
        assert_eq!(Scalar::resolve("1.2.3"), Scalar::Text("1.2.3"));
        assert_eq!(Scalar::resolve("5s"), Scalar::Text("5s"));
        assert_eq!(Scalar::resolve(".inf"), Scalar::Text(".inf"));
        assert_eq!(Scalar::resolve("99999999999999999999"), Scalar::Float(1e20));
    }
}
