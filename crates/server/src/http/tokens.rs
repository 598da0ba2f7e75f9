//! Making, listing and revoking tokens.

use std::sync::Arc;

use api::{CreateTokenRequest, CreatedToken, ErrorCode, Page, Role, Timestamp, Token, TokenKind};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use engine::Time;
use http::StatusCode;
use store::rows::TokenRow;
use uuid::Uuid;

use crate::access::{Caller, NewToken};
use crate::app::App;

use super::answer;
use super::error::ApiError;
use super::extract::{Path, RawBody, json};
use super::guard::want_admin;

/// Workers that one token may bring in; a fleet that is larger gets another token.
const USES_MAX: u32 = 1_000_000;

/// History has them in every line.
const NAME_CHARS_MAX: usize = 64;

/// Shorter beginnings fit by accident: ids begin with the time.
const PREFIX_CHARS_MIN: usize = 4;

/// Ids that are named in the answer to an ambiguous one.
const NAMED_MAX: usize = 3;

const LIST_HINT: &str = "`bowline token list` shows them; the id is not the token's text";

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let rows = app.read(|app| Ok(app.reader.tokens()?)).await?;
    let tokens: Vec<Token> = rows.into_iter().filter_map(token).collect();
    Ok(answer(StatusCode::OK, &Page::whole(tokens)))
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    want_admin(&caller, "make tokens")?;
    let request: CreateTokenRequest = json(&body)?;
    let created = app.access.create(wanted(&request, app.clock.now())?).await?;
    let row = created.row;
    let answered = CreatedToken {
        id: row.id.to_string(),
        token: created.text,
        kind: request.kind,
        role: role(&row),
        tags: row.tags,
        created_at: row.created_at.into(),
        expires_at: row.expires_at.map(Timestamp::from),
        uses_left: row.uses_left,
    };
    Ok(answer(StatusCode::CREATED, &answered))
}

pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    want_admin(&caller, "revoke tokens")?;
    let whole = match id.parse::<Uuid>() {
        Ok(whole) => whole,
        Err(_) => {
            let prefix = id.clone();
            app.read(move |app| by_prefix(&prefix, &app.reader.tokens()?)).await?
        }
    };
    if app.access.revoke(whole).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(no_such_token(&id))
}

/// The one good token whose id begins so.
fn by_prefix(prefix: &str, tokens: &[TokenRow]) -> Result<Uuid, ApiError> {
    let wanted = prefix.to_ascii_lowercase();
    if wanted.len() < PREFIX_CHARS_MIN {
        let message =
            format!("`{prefix}` is too short for a token; give at least {PREFIX_CHARS_MIN} characters of its id");
        return Err(ApiError::bad_request(message).hint(LIST_HINT));
    }
    let good = tokens.iter().filter(|token| token.revoked_at.is_none());
    let found: Vec<Uuid> = good.map(|token| token.id).filter(|id| id.to_string().starts_with(&wanted)).collect();
    match found.as_slice() {
        [] => Err(no_such_token(prefix)),
        [id] => Ok(*id),
        several => {
            let named: Vec<String> = several.iter().take(NAMED_MAX).map(ToString::to_string).collect();
            let more = if several.len() > NAMED_MAX { ", …" } else { "" };
            let message = format!("`{prefix}` fits several tokens: {}{more}", named.join(", "));
            Err(ApiError::new(ErrorCode::AmbiguousId, message))
        }
    }
}

fn no_such_token(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no valid token with the id `{id}`")).hint(LIST_HINT)
}

fn wanted(request: &CreateTokenRequest, now: Time) -> Result<NewToken, ApiError> {
    let expires_at = match &request.ttl {
        None => None,
        Some(text) => {
            let ttl = spec::parse_duration(text)
                .map_err(|problem| ApiError::bad_request(format!("`ttl` is not a duration: {problem}")))?;
            if ttl.is_zero() {
                return Err(ApiError::bad_request("`ttl` must be longer than nothing"));
            }
            Some(now + ttl)
        }
    };
    let (role, uses) = match request.kind {
        TokenKind::Api => {
            if request.uses.is_some() || !request.tags.is_empty() {
                return Err(ApiError::bad_request("`uses` and `tags` are only for tokens of kind `enroll`"));
            }
            (request.role.unwrap_or(Role::Operator), None)
        }
        TokenKind::Enroll => {
            if request.role.is_some() || request.name.is_some() {
                return Err(ApiError::bad_request("`role` and `name` are only for tokens of kind `api`"));
            }
            if let Some(bad) = request.tags.iter().find(|tag| !spec::task::is_tag(tag)) {
                return Err(ApiError::bad_request(format!("`{bad}` is not a tag"))
                    .hint("tags are made of letters, digits and `_-.:/=`"));
            }
            let uses = request.uses.unwrap_or(1);
            if !(1..=USES_MAX).contains(&uses) {
                return Err(ApiError::bad_request(format!("`uses` must be between 1 and {USES_MAX}")));
            }
            (Role::Viewer, Some(uses))
        }
    };
    let (name, tags) = (request.name.clone().unwrap_or_default(), request.tags.clone());
    if request.name.is_some() && !is_name(&name) {
        let hint = format!("names are up to {NAME_CHARS_MAX} letters, digits and any of `_-.@`");
        return Err(ApiError::bad_request(format!("`{name}` is no name for a token")).hint(hint));
    }
    Ok(NewToken { kind: request.kind, role, name, uses, tags, expires_at })
}

/// One word: `token …` is how one without a name is called.
fn is_name(text: &str) -> bool {
    let is_good = |c: char| c.is_alphanumeric() || "_-.@".contains(c);
    (1..=NAME_CHARS_MAX).contains(&text.chars().count()) && text.chars().all(is_good)
}

/// None for a kind that this build does not know.
fn token(row: TokenRow) -> Option<Token> {
    Some(Token {
        id: row.id.to_string(),
        kind: TokenKind::from_word(&row.kind)?,
        role: role(&row),
        name: row.name,
        tags: row.tags,
        created_at: row.created_at.into(),
        expires_at: row.expires_at.map(Timestamp::from),
        uses_left: row.uses_left,
        revoked_at: row.revoked_at.map(Timestamp::from),
    })
}

/// Only API tokens have one.
fn role(row: &TokenRow) -> Option<Role> {
    Role::from_word(&row.role).filter(|_| row.kind == TokenKind::Api.word())
}
