//! Points in time as the API writes them: RFC 3339, UTC, microseconds where there are any.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub jiff::Timestamp);

impl Timestamp {
    /// Times that the calendar cannot hold become the nearest that it can.
    pub fn from_micros(micros: i64) -> Timestamp {
        let nearest = if micros < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        Timestamp(jiff::Timestamp::from_microsecond(micros).unwrap_or(nearest))
    }
}

impl From<engine::Time> for Timestamp {
    fn from(time: engine::Time) -> Self {
        Timestamp::from_micros(time.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Timestamp)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl utoipa::PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        let object: Object = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC"))
            .build();
        object.into()
    }
}

impl utoipa::ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_in_utc_with_a_z_and_read_with_any_offset() {
        let time = Timestamp::from_micros(1_700_000_000_250_000);
        assert_eq!(time.to_string(), "2023-11-14T22:13:20.25Z");
        assert_eq!(serde_json::to_string(&time).expect("json"), "\"2023-11-14T22:13:20.25Z\"");
        let read: Timestamp = serde_json::from_str("\"2023-11-14T23:13:20.25+01:00\"").expect("a time");
        assert_eq!(read, time);
        assert!(serde_json::from_str::<Timestamp>("\"yesterday\"").is_err());
    }

    #[test]
    fn what_the_calendar_cannot_hold_is_clamped() {
        assert_eq!(Timestamp::from_micros(i64::MAX).0, jiff::Timestamp::MAX);
        assert_eq!(Timestamp::from_micros(i64::MIN).0, jiff::Timestamp::MIN);
    }
}
