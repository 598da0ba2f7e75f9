//! Setting, listing and removing secrets of the store. A value comes in once, and no answer ever shows it.

use std::sync::Arc;

use api::{ErrorCode, Page, Role, Secret, SecretPlace, SetSecretRequest, Timestamp};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use engine::definition::{Definition, HookWork, Work};
use http::StatusCode;
use protocol::secret::SecretValue;
use spec::task::is_secret_name;

use crate::access::{Caller, Listed, OWN_KEY, Place, STORED_MAX, SecretError, SecretSource as _};
use crate::app::App;

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
    let (now, by, wanted) = (app.clock.now(), caller.name.to_string(), name.clone());
    let row = app.read(move |app| {
        let stored = app.reader.secrets()?;
        if stored.len() >= STORED_MAX && !stored.iter().any(|row| row.name == wanted) {
            let message = format!("the store holds {STORED_MAX} secrets, and takes no more");
            return Err(ApiError::new(ErrorCode::Conflict, message).hint("remove some that nobody needs"));
        }
        app.secrets.seal(&wanted, &value, now, &by).map_err(|error| cannot_seal(&error))
    });
    let row = row.await?;
    let set = Some((row.set_at, row.set_by.clone()));
    app.ledger.with_store(move |store, _| store.put_secret(&row)).await??;
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
pub(super) async fn want_all(app: &Arc<App>, definition: &Arc<Definition>) -> Result<(), ApiError> {
    if !any(definition) {
        return Ok(());
    }
    let definition = definition.clone();
    app.read(move |app| look_for(app, &definition)).await
}

fn any(definition: &Definition) -> bool {
    definition.steps().iter().any(|step| !step.secrets.is_empty()) || begun(definition).any(any)
}

fn look_for(app: &App, definition: &Definition) -> Result<(), ApiError> {
    for step in definition.steps() {
        if let Err(error) = app.secrets.of_step(&step.secrets) {
            let message = format!("step `{}` of `{}` cannot start: {}", step.name, definition.name, error.in_full());
            return Err(ApiError::new(ErrorCode::MissingSecret, message).hint(error.hint()));
        }
    }
    begun(definition).try_for_each(|child| look_for(app, child))
}

/// The tasks that steps and hooks begin; there is no circle among them.
fn begun(definition: &Definition) -> impl Iterator<Item = &Definition> {
    let steps = definition.steps().iter().filter_map(|step| match &step.work {
        Work::Child(body) => body.bound.as_ref(),
        Work::Run(_) | Work::Approve => None,
    });
    let hooks = definition.hooks.iter().filter_map(|hook| match &hook.work {
        HookWork::Task(body) => body.bound.as_ref(),
        HookWork::Tell(_) => None,
    });
    steps.chain(hooks).map(|child| &*child.definition)
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
