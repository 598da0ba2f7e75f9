//! Words to the outside, and how far they got.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;

/// A webhook that is to be called, or was; or a mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// Sent as `Idempotency-Key` with every try; a mail has it in its `Message-ID`.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The job that it is about; for a trigger's notice, the job that there would have been.
    #[schema(value_type = String, format = "uuid")]
    pub job: Uuid,
    /// The address, or `mailto:` and those of a mail.
    pub url: String,
    pub state: DeliveryState,
    /// Tries so far.
    pub tries: u32,
    pub created_at: Timestamp,
    /// When it is tried next. Null once it is delivered or given up.
    pub next_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    /// Why the last try was none.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is tried, or tried again.
    Waiting,
    Delivered,
    /// Nobody took it, and it is not tried any more.
    Dead,
}

impl DeliveryState {
    pub fn word(self) -> &'static str {
        match self {
            DeliveryState::Waiting => "waiting",
            DeliveryState::Delivered => "delivered",
            DeliveryState::Dead => "dead",
        }
    }
}
