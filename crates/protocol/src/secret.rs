//! Secrets of steps on their way from a server to the step's process. They travel right before `go`, and live in memory
//! only: no spec, no folder and no database holds them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Shorter ones are refused: to mask them would black out half of a log, and to guess them takes no time.
pub const SECRET_BYTES_MIN: usize = 4;
/// The system takes 128 KiB in one variable of an environment; a key or a certificate has a few.
pub const SECRET_BYTES_MAX: usize = 32 * 1024;
/// All of one step together. They travel in one message, which a runner's socket must take at once: JSON makes it twice as
/// long at most.
pub const STEP_SECRETS_BYTES_MAX: usize = 64 * 1024;

/// By name, which is also the name of the variable that the step gets.
pub type SecretValues = BTreeMap<String, SecretValue>;

/// A text that is printed nowhere: whoever wants it has to say so.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretValue(String);

impl SecretValue {
    /// Or why it cannot be one of a step.
    pub fn new(text: String) -> Result<SecretValue, UnfitSecret> {
        if text.len() < SECRET_BYTES_MIN {
            Err(UnfitSecret::Short)
        } else if text.trim().is_empty() {
            Err(UnfitSecret::Blank)
        } else if text.len() > SECRET_BYTES_MAX {
            Err(UnfitSecret::Long { bytes: text.len() })
        } else if text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
            Err(UnfitSecret::Control)
        } else {
            Ok(SecretValue(text))
        }
    }

    /// The same, of what may not be text at all.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<SecretValue, UnfitSecret> {
        String::from_utf8(bytes).map_err(|_| UnfitSecret::NotText).and_then(SecretValue::new)
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Why a value cannot be handed to a step. It says nothing of the value but its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnfitSecret {
    #[error("is shorter than {SECRET_BYTES_MIN} bytes, too short to be kept out of logs")]
    Short,
    #[error("is white space alone, which cannot be kept out of logs")]
    Blank,
    #[error("has {bytes} bytes, more than the {SECRET_BYTES_MAX} allowed")]
    Long { bytes: usize },
    #[error("has a control character in it that is neither a line end nor a tab")]
    Control,
    #[error("is not UTF-8 text")]
    NotText,
}

impl UnfitSecret {
    /// What to do about it, where the words alone do not say that.
    pub fn hint(self) -> Option<String> {
        match self {
            UnfitSecret::Short => Some(format!(
                "use {SECRET_BYTES_MIN} bytes or more: `***` stands for each place where the value is printed, and one so short is in many words"
            )),
            UnfitSecret::Blank | UnfitSecret::Long { .. } | UnfitSecret::Control | UnfitSecret::NotText => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_masked_or_passed_on_is_no_secret() {
        let why = |text: &str| SecretValue::new(text.to_owned()).expect_err("unfit");
        assert_eq!(why("abc"), UnfitSecret::Short);
        assert!(why("abc").hint().is_some_and(|hint| hint.starts_with("use 4 bytes or more: ")));
        assert_eq!(why(" \t\r\n"), UnfitSecret::Blank);
        assert_eq!(why("ab\0cd"), UnfitSecret::Control);
        assert_eq!(why("ab\u{1b}[0m"), UnfitSecret::Control);
        assert!(SecretValue::new("a\tb\r\n".to_owned()).is_ok());
        assert_eq!(why(&"x".repeat(SECRET_BYTES_MAX + 1)), UnfitSecret::Long { bytes: SECRET_BYTES_MAX + 1 });
        assert_eq!(SecretValue::from_bytes(vec![0xff; 8]), Err(UnfitSecret::NotText));
        assert_eq!(SecretValue::new("s3cret".to_owned()).expect("fit").expose(), "s3cret");
    }

    #[test]
    fn it_is_not_printed() {
        let value = SecretValue::new("s3cret".to_owned()).expect("fit");
        let message = crate::folder::ToRunner::Secrets { values: [("KEY".to_owned(), value)].into() };
        assert_eq!(format!("{message:?}"), r#"Secrets { values: {"KEY": ***} }"#);
    }
}
