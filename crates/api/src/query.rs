//! What may stand after the `?`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::IntoParams;

/// A longer wait is cut to this: proxies and firewalls give up on silent connections.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct JobsQuery {
    /// Only jobs in this state, or in one of these (with commas).
    #[serde(default)]
    pub state: Option<String>,
    /// Only jobs of this task.
    #[serde(default)]
    pub task: Option<String>,
    /// How many at most; 50 unless said, 1000 at most.
    #[serde(default)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct JobQuery {
    /// Answer when the job is final, or after this time (`30s`, at most 60 s), whatever it then is.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub wait: Option<Wait>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// Lines from this number on, the server's own lines after it included; from the first if left out.
    #[serde(default)]
    pub from: Option<u64>,
    /// The attempt's number; the latest if left out.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// How many lines at most in one answer.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Begin with the last so many lines instead of `from`.
    #[serde(default)]
    pub tail: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only events with a greater id. The header `Last-Event-ID` goes before it.
    #[serde(default)]
    pub after: Option<u64>,
}

/// How long an answer may be held back: a number with `ms`, `s` or `m`; without a unit, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(pub Duration);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time to wait; write it like `30s` or `500ms`")]
pub struct BadWait(String);

impl FromStr for Wait {
    type Err = BadWait;

    fn from_str(text: &str) -> Result<Wait, BadWait> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| BadWait(text.to_owned()))?;
        let wait = match unit {
            "ms" => Duration::from_millis(number),
            "s" | "" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.saturating_mul(60)),
            _ => return Err(BadWait(text.to_owned())),
        };
        Ok(Wait(wait.min(WAIT_MAX)))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0.as_millis())
    }
}

impl Serialize for Wait {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_and_bounded() {
        assert_eq!("30s".parse(), Ok(Wait(Duration::from_secs(30))));
        assert_eq!("250ms".parse(), Ok(Wait(Duration::from_millis(250))));
        assert_eq!("5".parse(), Ok(Wait(Duration::from_secs(5))));
        assert_eq!("2m".parse(), Ok(Wait(WAIT_MAX)));
        for bad in ["", "s", "-1s", "1h30m", "99999999999999999999s", "5 s"] {
            assert!(bad.parse::<Wait>().is_err(), "{bad}");
        }
    }
}
