//! Bearer tokens. Only their hashes are stored, so the text of one is shown once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTokenRequest {
    pub kind: TokenKind,
    /// Only for kind `api`; `operator` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Only for kind `api`: who holds it. Two tokens of one name are one person's. Without one it stands for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A duration such as `24h`; without one it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Only for kind `enroll`: the tags that its workers may have. Any, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Only for kind `enroll`: how many workers it may enrol; 1 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    pub id: String,
    pub kind: TokenKind,
    #[serde(default)]
    pub role: Option<Role>,
    /// Empty where it was not given one.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub tags: Vec<String>,
    pub created_at: Timestamp,
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// How many uses are left; null where they are not counted.
    #[serde(default)]
    pub uses_left: Option<u32>,
    #[serde(default)]
    pub revoked_at: Option<Timestamp>,
}

/// The answer to a creation: the only time that the token itself is seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    pub id: String,
    pub token: String,
    pub kind: TokenKind,
    #[serde(default)]
    pub role: Option<Role>,
    #[serde(default)]
    pub tags: Vec<String>,
    pub created_at: Timestamp,
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    #[serde(default)]
    pub uses_left: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Lets a worker enrol.
    Enroll,
    /// Lets a person or a program use the API.
    Api,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Viewer,
    Operator,
    Admin,
}

impl TokenKind {
    pub fn word(self) -> &'static str {
        match self {
            TokenKind::Enroll => "enroll",
            TokenKind::Api => "api",
        }
    }

    pub fn from_word(word: &str) -> Option<TokenKind> {
        [TokenKind::Enroll, TokenKind::Api].into_iter().find(|kind| kind.word() == word)
    }
}

impl Role {
    pub fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    pub fn from_word(word: &str) -> Option<Role> {
        [Role::Viewer, Role::Operator, Role::Admin].into_iter().find(|role| role.word() == word)
    }
}
