//! `POST /hooks/{name}`: another system starts a task. Its signature is its token, and a call that comes twice makes one job.

use std::sync::Arc;
use std::time::Duration;

use api::{ErrorCode, HookAnswer};
use axum::extract::State;
use axum::response::Response;
use engine::Time;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use sha2::Sha256;
use spec::task::{BODY_INPUT, InputKind};

use crate::app::App;
use crate::ledger::{Command, IdempotencyKey, Submit, SubmitError, Submitted, submitted_by};
use crate::schedule::plan;
use crate::tasks::{Extent, KnownTask};

use super::error::ApiError;
use super::extract::{Path, RawBody};
use super::{answer, secrets, submit};

/// Who signs a call says so in one of these: ours, and GitHub's.
const SIGNATURES: [&str; 2] = ["x-bowline-signature", "x-hub-signature-256"];

/// A delivery's own name; a repeated one has the same.
const DELIVERIES: [&str; 2] = ["X-Bowline-Delivery", "X-GitHub-Delivery"];

/// Of calls without a name, those with the same body are one if they come within this time.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);

pub(super) async fn call(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let book = app.tasks.book();
    let Some((id, entry, hook)) = book.hook(&name) else {
        return Err(
            ApiError::not_found(format!("no task has a webhook `{name}`")).hint("`bowline triggers` lists them")
        );
    };
    let secret = hook.secret.clone();
    let key = app.read(move |app| app.secrets.get(&secret).map_err(|error| unusable(&error))).await?;
    if !is_signed(&headers, &key, &body) {
        let message = "the signature of this call is missing, or not the one that its body and the secret make";
        let hint = format!("{}: sha256= and the HMAC-SHA256 of the body, in hexadecimal digits", SIGNATURES[0]);
        return Err(ApiError::new(ErrorCode::Unauthorized, message).hint(hint));
    }
    let delivery = delivery(&app, id, &headers, &body)?;
    let known = [Some(&delivery.key), delivery.before.as_ref()].into_iter().flatten();
    for key in known {
        let made = submit::made_before(&app, key).await;
        if let Some(job) = made.map_err(|error| reused(error, delivery.header))? {
            return Ok(accepted(&Submitted::plain(job, true)));
        }
    }
    let row = id.to_owned();
    if app.read(move |app| Ok(app.reader.trigger(&row)?)).await?.is_some_and(|row| row.paused_at.is_some()) {
        return Err(paused(id));
    }
    let task = submit::by_name(&app, &entry.task, None).await?;
    let input = submit::bind(&task.task, given(&task, &hook.with, &body)?)?;
    let (task, kin) = submit::with_kin(&app, task, None).await?;
    submit::fits(&task, task.name(), &kin, Extent::Sure)?;
    secrets::want_all(&app, &task.task.definition, Extent::Sure).await?;
    let order = Submit {
        definition: task.task.definition.clone(),
        row: task.row.clone(),
        children: task.children.clone(),
        input,
        submitted_by: submitted_by(id),
        idempotency: Some(delivery.key),
        trigger: Some(id.to_owned()),
    };
    let submitted = app.ledger.ask(|reply| Command::Submit(Box::new(order), reply)).await?;
    match submitted {
        Ok(submitted) => Ok(accepted(&submitted)),
        Err(SubmitError::Paused) => Err(paused(id)),
        Err(error) => Err(reused(submit::refused(&error), delivery.header)),
    }
}

fn paused(trigger: &str) -> ApiError {
    let message = format!("the trigger {trigger} is paused, and nothing was started");
    ApiError::new(ErrorCode::Conflict, message).hint(format!("`bowline triggers resume {trigger}`"))
}

/// The same, in the words of whoever calls: the key is the header that it came with.
fn reused(error: ApiError, header: Option<&str>) -> ApiError {
    match header {
        Some(header) if error.is(ErrorCode::IdempotencyConflict) => ApiError::new(
            ErrorCode::IdempotencyConflict,
            format!("this {header} was used for a call with another body"),
        )
        .hint(format!("use a new {header} for a new call")),
        _ => error,
    }
}

fn accepted(submitted: &Submitted) -> Response {
    answer(StatusCode::ACCEPTED, &HookAnswer { job: submitted.job.0, repeated: submitted.repeated })
}

/// Whoever calls has proven nothing yet, and is told nothing of keys and files.
fn unusable(error: &crate::access::SecretError) -> ApiError {
    tracing::error!(%error, hint = error.hint(), "a call cannot be checked: its trigger's secret cannot be used");
    ApiError::new(ErrorCode::Unavailable, "calls cannot be checked now").hint("the server's log says why")
}

/// Compared in a time that does not depend on where they differ.
fn is_signed(headers: &HeaderMap, key: &[u8], body: &[u8]) -> bool {
    let Some(given) = SIGNATURES.iter().find_map(|name| headers.get(*name)) else { return false };
    let Some(tag) = given.to_str().ok().and_then(|text| text.strip_prefix("sha256=")).and_then(unhex) else {
        return false;
    };
    // A key may have any length.
    Hmac::<Sha256>::new_from_slice(key).is_ok_and(|mac| mac.chain_update(body).verify_slice(&tag).is_ok())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// What makes a call the same as another.
struct Delivery {
    /// Where its name came from.
    header: Option<&'static str>,
    key: IdempotencyKey,
    /// Without a name it may have come at the end of the window before.
    before: Option<IdempotencyKey>,
}

fn delivery(app: &App, trigger: &str, headers: &HeaderMap, body: &[u8]) -> Result<Delivery, ApiError> {
    let (token, request_hash) = (plan::caller(trigger), *blake3::hash(body).as_bytes());
    let key = |key: String| IdempotencyKey { token, key, request_hash };
    if let Some((header, name)) = DELIVERIES.iter().find_map(|header| Some((*header, headers.get(*header)?))) {
        let name = submit::key_text(name.as_bytes())
            .ok_or_else(|| ApiError::bad_request(format!("this {header} is no name of a delivery")))?;
        return Ok(Delivery { header: Some(header), key: key(format!("delivery:{name}")), before: None });
    }
    let hash = blake3::hash(body).to_hex();
    let now = app.clock.now();
    let window = |number: i64| key(format!("body:{number}:{hash}"));
    let number = now.0 / i64::try_from(DUPLICATE_WINDOW.as_micros()).unwrap_or(i64::MAX);
    let earlier = window(number - 1);
    let row = app.reader.idempotency(earlier.token, &earlier.key)?;
    let is_near = |at: Time| now.since(at) < DUPLICATE_WINDOW;
    let before = row.filter(|row| is_near(row.created_at)).map(|_| earlier);
    Ok(Delivery { header: None, key: window(number), before })
}

/// What the trigger says, and the body where the task has an input for it: as it came, or as JSON.
fn given(task: &KnownTask, with: &Map<String, Value>, body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let mut given = with.clone();
    let input = task.task.inputs.iter().find(|input| input.name == BODY_INPUT);
    if let Some(input) = input.filter(|_| !given.contains_key(BODY_INPUT)) {
        let value = if input.kind == InputKind::String {
            let text = std::str::from_utf8(body).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
            Value::String(text.to_owned())
        } else {
            super::extract::json(body)?
        };
        given.insert(BODY_INPUT.to_owned(), value);
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of GitHub's own documentation.
    const BODY: &[u8] = b"Hello, World!";
    const KEY: &[u8] = b"It's a Secret to Everybody";
    const TAG: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().expect("a header's value"))])
    }

    #[test]
    fn a_signature_is_of_this_body_with_this_key() {
        for name in SIGNATURES {
            assert!(is_signed(&headers(name, TAG), KEY, BODY));
            assert!(!is_signed(&headers(name, TAG), KEY, b"Hello, World?"));
            assert!(!is_signed(&headers(name, TAG), b"another", BODY));
        }
        let cut = &TAG[..TAG.len() - 2];
        for bad in [cut, "sha256=", "sha256=zz", "757107ea", "sha1=757107ea", "sha256=757"] {
            assert!(!is_signed(&headers(SIGNATURES[0], bad), KEY, BODY), "{bad}");
        }
        assert!(!is_signed(&HeaderMap::new(), KEY, BODY));
    }
}
