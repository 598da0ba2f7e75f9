//! Lists come in pages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Some items, and where the next ones begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Give it back as `cursor` for the next page; null on the last one.
    #[serde(default)]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A list that is all there is.
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next: None }
    }
}
