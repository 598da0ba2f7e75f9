//! Everything that can end a command early, and how it is told: what, why, and what to do.

use std::io;
use std::path::PathBuf;

use owo_colors::OwoColorize;

use crate::context::ContextError;
use crate::exit::Exit;
use crate::print::say;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{message}")]
    Usage { message: String, hint: Option<String> },
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Context(#[from] ContextError),
    #[error(transparent)]
    Endpoint(#[from] client::BadEndpoint),
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>) -> CliError {
        CliError::Usage { message: message.into(), hint: None }
    }

    pub(crate) fn usage_hint(message: impl Into<String>, hint: impl Into<String>) -> CliError {
        CliError::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            CliError::Usage { .. } | CliError::Unreadable { .. } | CliError::Context(_) | CliError::Endpoint(_) => {
                Exit::Usage
            }
            CliError::Client(error) if error.is_unreachable_or_refused() => Exit::NoServer,
            CliError::Client(_) => Exit::Usage,
            CliError::Output(_) if self.is_quiet() => Exit::Success,
            CliError::Output(_) => Exit::Failed,
        }
    }

    pub(crate) fn tell(&self) {
        if self.is_quiet() {
            return;
        }
        let diagnostics = match self {
            CliError::Client(client::Error::Api { error, .. }) => error.diagnostics.as_slice(),
            _ => &[],
        };
        match diagnostics {
            // Their messages are the error's own.
            [only] if only.line == 0 => tell(&self.to_string(), self.hint().as_deref()),
            [_, ..] if diagnostics.iter().all(|one| one.line == 0) => {
                tell(&format!("{} inputs are not good", diagnostics.len()), None);
                diagnostics.iter().for_each(|one| say(&commonly_rendered(one)));
            }
            _ => {
                tell(&self.to_string(), self.hint().as_deref());
                diagnostics.iter().for_each(|one| say(&format!("\n{}", commonly_rendered(one))));
            }
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            CliError::Usage { hint, .. } => hint.clone(),
            CliError::Client(error) => error.hint(),
            CliError::Unreadable { .. } | CliError::Context(_) | CliError::Endpoint(_) | CliError::Output(_) => None,
        }
    }

    /// Whoever read our output has seen enough, as `head` does: that is no error.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self, CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// One error with its hint, in the one form that all errors have.
pub(crate) fn tell(message: &str, hint: Option<&str>) {
    say(&format!("{} {message}", "error:".red().bold()));
    if let Some(hint) = hint {
        say(&format!("{} {hint}", "hint:".cyan().bold()));
    }
}

fn commonly_rendered(diagnostic: &api::Diagnostic) -> String {
    if let Some(rendered) = &diagnostic.rendered {
        return rendered.clone();
    }
    let api::Diagnostic { file, line, column, message, hint, .. } = diagnostic;
    let hint = hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
    if *line == 0 {
        return format!("- {message}{hint}");
    }
    format!("{file}:{line}:{column}: {message}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_exit_code() {
        let api = |status| {
            let error = api::ErrorBody::new(api::ErrorCode::NotFound, "no");
            CliError::Client(client::Error::Api { status, error })
        };
        assert_eq!(api(404).exit(), Exit::Usage);
        assert_eq!(api(503).exit(), Exit::NoServer);
        let unreachable = client::Error::Unreachable { server: "s".to_owned(), source: io::Error::other("x") };
        assert_eq!(CliError::Client(unreachable).exit(), Exit::NoServer);
        assert_eq!(CliError::usage("x").exit(), Exit::Usage);
        let pipe = CliError::Output(io::ErrorKind::BrokenPipe.into());
        assert!(pipe.is_quiet() && pipe.exit() == Exit::Success);
    }
}
