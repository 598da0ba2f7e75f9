//! Problems of a text, in the API's shape.

/// One problem with its place, and the way it looks to people.
pub fn to_api(diagnostic: &spec::Diagnostic) -> api::Diagnostic {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    api::Diagnostic {
        file: diagnostic.file().to_owned(),
        line: number(diagnostic.line()),
        column: number(diagnostic.column()),
        severity: match diagnostic.severity {
            spec::Severity::Error => api::Severity::Error,
            spec::Severity::Warning => api::Severity::Warning,
        },
        code: diagnostic.code.word().to_owned(),
        message: diagnostic.message.clone(),
        hint: diagnostic.hint.clone(),
        rendered: Some(spec::render(std::slice::from_ref(diagnostic), false)),
    }
}

/// A problem with a whole file.
pub(super) fn of_file(file: &str, code: &str, message: String, hint: &str) -> api::Diagnostic {
    api::Diagnostic {
        file: file.to_owned(),
        line: 1,
        column: 1,
        severity: api::Severity::Error,
        code: code.to_owned(),
        message,
        hint: Some(hint.to_owned()),
        rendered: None,
    }
}
