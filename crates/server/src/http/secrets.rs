//! Setting, listing and removing secrets of the store. A value comes in once, and no answer ever shows it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use api::{ErrorCode, Page, Role, Secret, SecretPlace, SetSecretRequest, Timestamp};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use engine::definition::Definition;
use http::StatusCode;
use protocol::secret::SecretValue;
use spec::task::is_secret_name;
use spec::task::secrets;

use crate::access::{Caller, Listed, OWN_KEY, Place, STORED_MAX, SecretError};
use crate::app::App;
use crate::tasks::{self, Extent, LACKS_TOLD, Listing, to_api};

use super::answer;
use super::error::ApiError;
use super::extract::{Path, RawBody, json};
use super::guard::want_admin;

const LIST_HINT: &str = "`bowline secret list` shows them";

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, ApiError> {
    if caller.role == Role::Viewer {
        return Err(ApiError::new(ErrorCode::Forbidden, "a viewer's token may not list secrets"));
    }
    let found = app.read(|app| Ok(app.secrets.list()?)).await?;
    Ok(answer(StatusCode::OK, &Page::whole(found.into_iter().map(secret).collect())))
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    want_admin(&caller, "set secrets")?;
    check_name(&name)?;
    let request: SetSecretRequest = json(&body)?;
    let value = SecretValue::new(request.value.trim_ascii_end().to_owned()).map_err(|why| {
        let error = ApiError::bad_request(format!("the value {why}"));
        why.hint().into_iter().fold(error, ApiError::hint)
    })?;
    let (by, wanted) = (caller.name.to_string(), name.clone());
    let has_room = app.read(move |app| {
        let stored = app.reader.secrets()?;
        if stored.len() >= STORED_MAX && !stored.iter().any(|row| row.name == wanted) {
            let message = format!("the store holds {STORED_MAX} secrets, and takes no more");
            return Err(ApiError::new(ErrorCode::Conflict, message).hint("remove some that nobody needs"));
        }
        Ok(())
    });
    has_room.await?;
    let (secrets, wanted) = (app.secrets.clone(), name.clone());
    let set = app.ledger.with_store(move |store, now| secrets.set(store, &wanted, &value, now, &by)).await?;
    let row = set.map_err(|error| cannot_seal(&error))?;
    let set = Some((row.set_at, row.set_by));
    tracing::info!(secret = name, by = %caller.name, "a secret was set");
    let wanted = name.clone();
    let place = app.read(move |app| Ok(app.secrets.shadowed_by(&wanted))).await?.unwrap_or(Place::Store);
    Ok(answer(StatusCode::OK, &secret(Listed { name, place, set, problem: None })))
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    want_admin(&caller, "remove secrets")?;
    let wanted = name.clone();
    if app.ledger.with_store(move |store, _| store.remove_secret(&wanted)).await?? {
        tracing::info!(secret = name, by = %caller.name, "a secret was removed");
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(ApiError::not_found(format!("there is no secret `{name}` in the store")).hint(LIST_HINT))
}

/// Whether the server has all that steps of the task, and of those that it begins, are to be given. It is looked for again
/// when each step starts; this spares people a job that cannot end well.
pub(super) async fn want_all(app: &Arc<App>, definition: &Arc<Definition>, extent: Extent) -> Result<(), ApiError> {
    if !tasks::names_secrets(definition) {
        return Ok(());
    }
    let definition = definition.clone();
    app.read(move |app| refuse(&lacks(app, &definition, extent))).await
}

pub(super) fn lacks(app: &App, definition: &Definition, extent: Extent) -> Vec<(String, SecretError)> {
    tasks::lacks(definition, extent, &*app.secrets, &|name| app.secrets.get(name).map(drop))
}

fn refuse(lacks: &[(String, SecretError)]) -> Result<(), ApiError> {
    let Some(message) = tasks::in_words(lacks) else { return Ok(()) };
    let mut hints: Vec<String> = Vec::new();
    for hint in lacks.iter().take(LACKS_TOLD).map(|(_, error)| error.hint()) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    Err(ApiError::new(ErrorCode::MissingSecret, message).hint(hints.join("; ")))
}

/// What a task names that the server does not have, as warnings at their places. One of these looks each secret up once.
pub(super) struct Lookup<'a> {
    app: &'a App,
    known: RefCell<HashMap<String, Option<(String, String)>>>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(app: &'a App) -> Lookup<'a> {
        Lookup { app, known: RefCell::default() }
    }

    pub(super) fn missing(&self, listing: &Listing) -> Vec<api::Diagnostic> {
        let Some(known) = &listing.good else { return Vec::new() };
        if !secrets::names(&known.task).any(|name| self.problem(name).is_some()) {
            return Vec::new();
        }
        let file = listing.file.as_deref().unwrap_or(&listing.name);
        let found = secrets::missing(&known.row.source, file, &|name| self.problem(name));
        found.iter().map(to_api).collect()
    }

    /// What a job that nobody submits by hand could not do without, in words.
    pub(super) fn lacking(&self, definition: &Definition) -> Option<String> {
        tasks::in_words(&lacks(self.app, definition, Extent::Sure))
    }

    /// What is wrong with a secret, and what to do about it.
    pub(super) fn problem(&self, name: &str) -> Option<(String, String)> {
        let look = || self.app.secrets.get(name).err().map(|error| (error.to_string(), error.hint()));
        self.known.borrow_mut().entry(name.to_owned()).or_insert_with(look).clone()
    }
}

fn check_name(name: &str) -> Result<(), ApiError> {
    if !is_secret_name(name) {
        let hint = "names begin with a letter or `_` and go on with letters, digits and `_`, at most 100";
        return Err(ApiError::bad_request(format!("`{name}` is no name for a secret")).hint(hint));
    }
    if name == OWN_KEY {
        let hint = format!("it is the file `secrets/{OWN_KEY}` in the data folder, or `BOWLINE_SECRET_{OWN_KEY}`");
        return Err(ApiError::bad_request(format!("`{OWN_KEY}` is the server's own key")).hint(hint));
    }
    Ok(())
}

fn cannot_seal(error: &SecretError) -> ApiError {
    match error {
        SecretError::Store { .. } => ApiError::new(ErrorCode::Unavailable, error.to_string()),
        error => {
            tracing::error!(%error, "a secret cannot be sealed");
            ApiError::new(ErrorCode::Conflict, error.to_string()).hint(error.hint())
        }
    }
}

fn secret(listed: Listed) -> Secret {
    let (set_at, set_by) = listed.set.unzip();
    Secret {
        name: listed.name,
        source: match listed.place {
            Place::Environment => SecretPlace::Environment,
            Place::File => SecretPlace::File,
            Place::Store => SecretPlace::Store,
        },
        set_at: set_at.map(Timestamp::from),
        set_by,
        problem: listed.problem,
    }
}
